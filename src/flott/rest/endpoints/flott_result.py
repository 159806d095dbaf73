"""Endpoints for Flott's own clients: the result of a job with values, and the records of driver sinks.

Values are base64-encoded pickles. The job's process writes them and the program reads them; the JobManager does not
unpickle them.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
import re

from starlette.responses import Response
from typing_extensions import TypedDict

from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.refusal import Refusal
from flott.rest.waiting import carried_out
from flott.runtime.jobmanager.folders import results_folder
from flott.runtime.jobmanager.processes.result_spool import fetch
from flott.runtime.logs.log_files import job_folder
from flott.runtime.orders import ExplainWatermark

_TAG = "flott"

FlottResult = TypedDict(
    "FlottResult",
    {
        "status": str | None,  #: FINISHED, CANCELED or FAILED; None while the job runs
        "net-runtime": int,
        "accumulators": dict[str, str],
        "failure": str | None,
        "ledger": str,
        "metrics": dict[str, float],
        "checkpoint-directory": str,
    },
)


class PickledReport(TypedDict):
    report: str


def result(call: RestCall) -> FlottResult:
    """Return the result of the job."""
    job = call.job()
    ended = call.gateway.result(call.job_id)
    if ended is None:
        return {
            "status": None,
            "net-runtime": 0,
            "accumulators": {},
            "failure": None,
            "ledger": "",
            "metrics": {},
            "checkpoint-directory": job.checkpoint_directory,
        }
    return {
        "status": ended.status.name,
        "net-runtime": ended.net_runtime_ms,
        "accumulators": {name: _base64(value) for name, value in ended.accumulators.items()},
        "failure": ended.failure.text if ended.failure is not None else None,
        "ledger": _base64(ended.ledger),
        "metrics": dict(ended.metrics),
        "checkpoint-directory": job.checkpoint_directory,
    }


async def results(call: RestCall) -> Response:
    """Return records that a sink of the job has for the program."""
    call.job()
    name = call.path["sinkname"]
    if not re.fullmatch(r"[0-9]{1,6}", name):
        raise Refusal(400, f"Bad request: a sink that delivers to a program has a number, found {name[:40]!r}.")
    folder = results_folder(job_folder(call.gateway.log_folder, call.job_id)) / name
    data = await asyncio.to_thread(fetch, folder, call.query["after"])
    return Response(data, media_type="application/octet-stream")


async def watermark_report(call: RestCall) -> PickledReport:
    """Return what holds event time back, as the value of explain_watermark()."""
    call.job()
    report = await carried_out(lambda: call.gateway.order(call.job_id, ExplainWatermark()))
    return {"report": _base64(pickle.dumps(report, protocol=5))}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


ENDPOINTS = (
    Endpoint("GET", "/jobs/:jobid/flott/result", result, FlottResult, "The result of a job, for programs", _TAG),
    Endpoint(
        "GET",
        "/jobs/:jobid/flott/results/:sinkname",
        results,
        bytes,
        "Records that a job has for its program; a request for later records deletes the earlier ones",
        _TAG,
        query=(Query("after", int, 0, "the number of the last piece that has arrived", minimum=0),),
        media_type="application/octet-stream",
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/flott/watermark-report",
        watermark_report,
        PickledReport,
        "What holds event time back, for programs",
        _TAG,
    ),
)
