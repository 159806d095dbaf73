"""The checkpoints of a job: counts, statistics, and the last ones. A checkpoint is an epoch, or ends one. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal, NotRequired, cast

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import finite
from flott.rest.shapes.values.statistics import ALWAYS_ZERO, Quantiles, quantiles_of
from flott.runtime.jobmanager.views.job_view import NEVER, CheckpointTask, CheckpointView, JobView, RestoredView

CheckpointStatus = Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
CheckpointClass = Literal["in_progress", "completed", "failed"]
CheckpointType = Literal["CHECKPOINT", "UNALIGNED_CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"]


class CheckpointCounts(TypedDict):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointSummary(TypedDict):
    checkpointed_size: Quantiles
    state_size: Quantiles
    end_to_end_duration: Quantiles
    alignment_buffered: Quantiles
    processed_data: Quantiles
    persisted_data: Quantiles
    records: Quantiles


class CheckpointNumbers(TypedDict):
    """The numbers of a checkpoint as a whole, or of a vertex's part of it."""

    id: int
    status: CheckpointStatus
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class TaskCheckpoint(CheckpointNumbers):
    """The part of a vertex in a checkpoint."""


class CheckpointItem(CheckpointNumbers):
    className: CheckpointClass
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    checkpoint_type: CheckpointType
    tasks: dict[str, TaskCheckpoint]
    records: int
    phases: dict[str, float]  #: ms
    mode: str  #: epochs or pipelined
    external_path: NotRequired[str]
    discarded: NotRequired[bool]
    failure_timestamp: NotRequired[int]
    failure_message: NotRequired[str]


class RestoredCheckpoint(TypedDict):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: NotRequired[str]


class LatestCheckpoints(TypedDict):
    completed: CheckpointItem | None
    savepoint: CheckpointItem | None
    failed: CheckpointItem | None
    restored: RestoredCheckpoint | None


class Checkpoints(TypedDict):
    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: list[CheckpointItem]


class Savepoints(TypedDict):
    savepoints: list[CheckpointItem]


def savepoints(job: JobView, disposed: Collection[str] = ()) -> Savepoints:
    """Return the completed savepoints of a job, newest first. They stay longer than the history of checkpoints."""
    width = subtask_count(job)
    marked = [replace(one, discarded=one.path in disposed) for one in job.checkpoints.savepoints]
    return {"savepoints": [checkpoint_item(one, width) for one in marked]}


def checkpoints(job: JobView) -> Checkpoints:
    """Return the checkpoint history of a job, without tasks."""
    view = job.checkpoints
    width = subtask_count(job)

    def latest(checkpoint: CheckpointView | None) -> CheckpointItem | None:
        return None if checkpoint is None else checkpoint_item(checkpoint, width)

    return {
        "counts": {
            "restored": view.restored_count,
            "total": view.completed + view.failed + view.in_progress,
            "in_progress": view.in_progress,
            "completed": view.completed,
            "failed": view.failed,
        },
        "summary": {
            "checkpointed_size": quantiles_of(view.written_bytes),
            "state_size": quantiles_of(view.state_bytes),
            "end_to_end_duration": quantiles_of(view.durations),
            "alignment_buffered": ALWAYS_ZERO,
            "processed_data": ALWAYS_ZERO,
            "persisted_data": ALWAYS_ZERO,
            "records": quantiles_of(view.records),
        },
        "latest": {
            "completed": latest(view.latest_completed),
            "savepoint": latest(view.latest_savepoint),
            "failed": latest(view.latest_failed),
            "restored": None if view.restored is None else _restored(view.restored),
        },
        "history": [checkpoint_item(checkpoint, width) for checkpoint in view.history],
    }


def subtask_count(job: JobView) -> int:
    """Return the number of subtasks that take part in a checkpoint."""
    return sum(vertex.parallelism for vertex in job.vertices)


def checkpoint_item(checkpoint: CheckpointView, width: int) -> CheckpointItem:
    """Return one checkpoint of a list. ``width`` is the number of the job's subtasks."""
    subtasks = max(width, len(checkpoint.tasks))
    item: CheckpointItem = {
        "className": cast(CheckpointClass, checkpoint.status.lower()),
        "id": checkpoint.id,
        "status": cast(CheckpointStatus, checkpoint.status),
        "is_savepoint": checkpoint.savepoint_format is not None,
        "savepointFormat": checkpoint.savepoint_format,
        "trigger_timestamp": checkpoint.triggered_ms,
        "latest_ack_timestamp": checkpoint.acknowledged_ms,
        "checkpointed_size": checkpoint.written_bytes,
        "state_size": checkpoint.state_bytes,
        "end_to_end_duration": _duration_ms(checkpoint),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": sum(task.persisted_bytes for task in checkpoint.tasks),
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": subtasks if checkpoint.status == "COMPLETED" else len(checkpoint.tasks),
        "checkpoint_type": _type(checkpoint),
        "tasks": {},
        "records": checkpoint.records,
        "phases": {phase: finite(spent_ms) for phase, spent_ms in checkpoint.phases.items()},
        "mode": "pipelined" if checkpoint.pipelined else "epochs",
    }
    if checkpoint.status == "COMPLETED":
        item["external_path"] = checkpoint.path or "<checkpoint-not-externally-addressable>"
        item["discarded"] = checkpoint.discarded
    elif checkpoint.status == "FAILED":
        ended_ms = checkpoint.acknowledged_ms
        item["failure_timestamp"] = checkpoint.triggered_ms if ended_ms == NEVER else ended_ms
        item["failure_message"] = checkpoint.failure or ""
    return item


def task_checkpoint(checkpoint: CheckpointView, tasks: list[CheckpointTask], parallelism: int) -> TaskCheckpoint:
    """Return the part of one vertex, given its subtasks."""
    return {
        "id": checkpoint.id,
        "status": cast(CheckpointStatus, checkpoint.status),
        "latest_ack_timestamp": checkpoint.acknowledged_ms,
        "checkpointed_size": sum(task.written_bytes for task in tasks),
        "state_size": sum(task.state_bytes for task in tasks),
        "end_to_end_duration": max((task.duration_ms for task in tasks), default=_duration_ms(checkpoint)),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": sum(task.persisted_bytes for task in tasks),
        "num_subtasks": max(parallelism, len(tasks)),
        "num_acknowledged_subtasks": len(tasks),
    }


def _duration_ms(checkpoint: CheckpointView) -> int:
    return NEVER if checkpoint.acknowledged_ms == NEVER else checkpoint.duration_ms


def _type(checkpoint: CheckpointView) -> CheckpointType:
    if checkpoint.savepoint_format is None:
        return "UNALIGNED_CHECKPOINT" if any(task.unaligned for task in checkpoint.tasks) else "CHECKPOINT"
    return "SYNC_SAVEPOINT" if checkpoint.stops_the_job else "SAVEPOINT"


def _restored(restored: RestoredView) -> RestoredCheckpoint:
    reply: RestoredCheckpoint = {
        "id": restored.id,
        "restore_timestamp": restored.restored_ms,
        "is_savepoint": restored.is_savepoint,
    }
    if restored.path is not None:
        reply["external_path"] = restored.path
    return reply
