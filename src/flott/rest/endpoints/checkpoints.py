"""Endpoints of a job's checkpoints."""

from __future__ import annotations

from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.refusal import Refusal
from flott.rest.shapes.checkpoint.checkpoint_configuration import CheckpointConfiguration, checkpoint_configuration
from flott.rest.shapes.checkpoint.checkpoint_detail import (
    TaskCheckpointDetail,
    checkpoint_detail,
    find_checkpoint,
    task_checkpoint_detail,
)
from flott.rest.shapes.checkpoint.checkpoints import CheckpointItem, Checkpoints, checkpoints
from flott.runtime.jobmanager.views.job_view import CheckpointView, JobView

_TAG = "checkpoints"
_ONE = "/jobs/:jobid/checkpoints/details/:checkpointid"


def overview(call: RestCall) -> Checkpoints:
    return checkpoints(call.job())


def configuration(call: RestCall) -> CheckpointConfiguration:
    return checkpoint_configuration(call.job())


def detail(call: RestCall) -> CheckpointItem:
    job = call.job()
    return checkpoint_detail(job, _checkpoint(call, job))


def detail_of_vertex(call: RestCall) -> TaskCheckpointDetail:
    job = call.job()
    return task_checkpoint_detail(_checkpoint(call, job), call.vertex(job))


def _checkpoint(call: RestCall, job: JobView) -> CheckpointView:
    ident = call.path["checkpointid"]
    found = find_checkpoint(job, ident)
    if found is None:
        raise Refusal(404, f"Could not find checkpointing statistics for checkpoint {ident}.")
    return found


ENDPOINTS = (
    Endpoint(
        "GET", "/jobs/:jobid/checkpoints", overview, Checkpoints, "The checkpoints of a job", tag=_TAG, shared=True
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/checkpoints/config",
        configuration,
        CheckpointConfiguration,
        "How a job takes checkpoints",
        tag=_TAG,
    ),
    Endpoint("GET", _ONE, detail, CheckpointItem, "A checkpoint, by vertex", tag=_TAG, shared=True),
    Endpoint(
        "GET",
        f"{_ONE}/subtasks/:vertexid",
        detail_of_vertex,
        TaskCheckpointDetail,
        "A vertex's part of a checkpoint, by subtask",
        tag=_TAG,
        shared=True,
    ),
)
