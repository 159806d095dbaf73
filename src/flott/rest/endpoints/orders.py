"""Endpoints that change a job: cancel, savepoint, stop, checkpoint, rescale.

An operation that takes a while is triggered, and its status is polled with the id that was returned; see
``flott.rest.operations``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from flott.errors import JobEndedError
from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.refusal import Refusal
from flott.rest.shapes.job.orders import (
    CheckpointRequest,
    CheckpointState,
    DisposalRequest,
    EmptyResponse,
    ExportRequest,
    HeartbeatRequest,
    OrderState,
    RequirementsResponse,
    ResourceRequirements,
    RestoreRequest,
    RestoreResponse,
    SavepointRequest,
    SavepointState,
    StopRequest,
    TriggerResponse,
)
from flott.rest.waiting import carried_out
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.orders import (
    CancelJob,
    Order,
    RescaleJob,
    StopWithSavepoint,
    TakeCheckpoint,
    savepoint_from_json,
)

# ------------------------------------------------------------------------------------------------------------- cancel


async def cancel(call: RestCall) -> Mapping[str, Any]:
    """Cancel the job of the path."""
    mode = call.query.get("mode", "cancel")
    if mode == "stop":
        raise Refusal(
            308,
            'The termination mode "stop" has been removed. Use "cancel" to end the job at once, or POST to'
            " jobs/:jobid/stop to end it with a savepoint.",
        )
    if mode != "cancel":
        raise Refusal(400, f"Bad request: query parameter mode is cancel, found {mode!r}.")
    return await _cancel(call.gateway, call.job_id)


async def cancel_application(call: RestCall) -> Mapping[str, Any]:
    """Cancel an application, which is one job and has its id."""
    return await _cancel(call.gateway, call.path["applicationid"])


async def _cancel(gateway: ClusterGateway, job_id: str) -> Mapping[str, Any]:
    try:
        await carried_out(lambda: gateway.order(job_id, CancelJob()))
    except JobEndedError as error:
        raise Refusal(409, f"Job cancellation failed: {error}") from error
    return {}


async def heartbeat(call: RestCall) -> Mapping[str, Any]:
    """Accept the heartbeat of a client without effect: a job never depends on the client that submitted it."""
    call.job()
    return {}


# --------------------------------------------------------------------------------------------- savepoints, checkpoints


async def savepoint(call: RestCall) -> Mapping[str, Any]:
    """Take a savepoint."""
    return await _ordered(call, _savepoints(call), savepoint_from_json(call.body))


async def stop(call: RestCall) -> Mapping[str, Any]:
    """End the job with a savepoint."""
    return await _ordered(call, _savepoints(call), StopWithSavepoint.from_json(call.body))


def savepoint_state(call: RestCall) -> Mapping[str, Any]:
    """Return the status of a savepoint, or of a stop with one."""
    return call.operations.outcome(_savepoints(call), call.path["triggerid"]).reply(lambda path: {"location": path})


async def checkpoint(call: RestCall) -> Mapping[str, Any]:
    """Complete an epoch now."""
    return await _ordered(call, _checkpoints(call), TakeCheckpoint())


def checkpoint_state(call: RestCall) -> Mapping[str, Any]:
    """Return the status of a checkpoint."""
    outcome = call.operations.outcome(_checkpoints(call), call.path["triggerid"])
    return outcome.reply(lambda number: {"checkpointId": number}, failure_name="failureCause")


async def dispose(call: RestCall) -> Mapping[str, Any]:
    """Delete a savepoint."""
    path = call.body["savepoint-path"]
    return await _triggered(call, _DISPOSALS, lambda: call.gateway.dispose_savepoint(path))


def disposal_state(call: RestCall) -> Mapping[str, Any]:
    """Return the status of a disposal."""
    return call.operations.outcome(_DISPOSALS, call.path["triggerid"]).reply(lambda _: {})


async def export(call: RestCall) -> Mapping[str, Any]:
    """Copy a savepoint, so that the copy depends on nothing."""
    path, target = call.body["savepoint-path"], call.body["target-directory"]
    return await _triggered(call, _EXPORTS, lambda: call.gateway.export_savepoint(path, target))


def export_state(call: RestCall) -> Mapping[str, Any]:
    """Return the status of an export."""
    return call.operations.outcome(_EXPORTS, call.path["triggerid"]).reply(lambda path: {"location": path})


async def restore(call: RestCall) -> Mapping[str, Any]:
    """Submit the program of an ended job again, from a savepoint."""
    job_id, path = call.job().job_id, call.body["savepoint-path"]
    allow = bool(call.body.get("allow-non-restored-state"))
    submitted = await carried_out(lambda: call.gateway.restore(job_id, path, allow_non_restored_state=allow))
    return {"jobid": submitted}


# ------------------------------------------------------------------------------------------------------------ rescale


async def rescale(call: RestCall) -> Mapping[str, Any]:
    """Change the parallelism of a job, or of one operator."""
    return await _ordered(call, _rescales(call), RescaleJob(call.query["parallelism"], call.query["operator"]))


def rescale_state(call: RestCall) -> Mapping[str, Any]:
    """Return the status of a change of parallelism."""
    return call.operations.outcome(_rescales(call), call.path["triggerid"]).reply(lambda _: {})


def requirements(call: RestCall) -> Mapping[str, Any]:
    """Return the parallelism of each vertex. It is not a range: a job of Flott gets what it asks for."""
    return {
        vertex.id: {"parallelism": {"lowerBound": 1, "upperBound": vertex.parallelism}}
        for vertex in call.job().vertices
    }


async def require(call: RestCall) -> Mapping[str, Any]:
    """Give each named vertex the parallelism of its upper bound."""
    job = call.job()
    orders = rescale_orders(job, {ident.lower(): bounds["parallelism"] for ident, bounds in call.body.items()})
    if not orders:
        return {}
    return await _triggered(
        call,
        _rescales(call),
        lambda: _all_of([call.gateway.order(job.job_id, order) for order in orders]),
    )


def rescale_orders(job: JobView, wanted: Mapping[str, Mapping[str, int]]) -> list[RescaleJob]:
    """Return the orders that give vertices their parallelism. Operators that have it already are left out."""
    for ident, bounds in wanted.items():
        vertex = job.vertex(ident)
        if vertex is None:
            raise Refusal(404, f"JobVertex {ident} not found")
        if bounds["upperBound"] > vertex.max_parallelism:
            raise Refusal(
                400, f"{vertex.name} has at most {vertex.max_parallelism} subtasks, found {bounds['upperBound']}."
            )
        if bounds.get("lowerBound", 1) > bounds["upperBound"]:
            raise Refusal(400, f"The bounds of {vertex.name} leave nothing: lowerBound is above upperBound.")
    numbers = {vertex.id: wanted.get(vertex.id, {}).get("upperBound", vertex.parallelism) for vertex in job.vertices}
    if all(numbers[vertex.id] == vertex.parallelism for vertex in job.vertices):
        return []
    if len(set(numbers.values())) == 1:
        return [RescaleJob(next(iter(numbers.values())))]
    return [
        RescaleJob(numbers[vertex.id], operator.id)
        for vertex in job.vertices
        for operator in vertex.operators
        if operator.parallelism != numbers[vertex.id]
    ]


def _all_of(futures: list[Future[None]]) -> Future[None]:
    """Return a future that is done when all are; it fails with the first that fails."""
    together: Future[None] = Future()
    left = len(futures)
    counting = threading.Lock()  # some may end while others are still being listened to

    def ended(future: Future[None]) -> None:
        nonlocal left
        failure = future.exception()
        with counting:
            left -= 1
            if together.done():
                return
            if failure is not None:
                together.set_exception(failure)
            elif left == 0:
                together.set_result(None)

    for future in futures:
        future.add_done_callback(ended)
    return together


# --------------------------------------------------------------------------------------------------------- the cluster


def shut_down(call: RestCall) -> Mapping[str, Any]:
    """End the JobManager. Its jobs are kept, and the next JobManager continues them."""
    call.gateway.shut_down()
    return {}


# ------------------------------------------------------------------------------------------------------------- shared

_DISPOSALS = "the disposal of savepoints"
_EXPORTS = "the export of savepoints"


def _savepoints(call: RestCall) -> str:
    return f"the savepoints of job {call.job_id}"


def _checkpoints(call: RestCall) -> str:
    return f"the checkpoints of job {call.job_id}"


def _rescales(call: RestCall) -> str:
    return f"the rescaling of job {call.job_id}"


async def _ordered(call: RestCall, scope: str, order: Order[Any]) -> Mapping[str, Any]:
    return await _triggered(call, scope, lambda: call.gateway.order(call.job_id, order))


async def _triggered(call: RestCall, scope: str, start: Callable[[], Future[Any]]) -> Mapping[str, Any]:
    # The body of a PUT of requirements has vertices as its keys, none of which is called triggerId.
    wanted: str | None = (call.body or {}).get("triggerId")
    ident = await asyncio.to_thread(call.operations.trigger, scope, start, wanted.lower() if wanted else None)
    return {"request-id": ident}


_MODE = Query("mode", str, "cancel", "how to end it; only cancel is left of Flink's modes")

ENDPOINTS = (
    Endpoint("DELETE", "/cluster", shut_down, EmptyResponse, "End the JobManager; its jobs are kept", "cluster"),
    Endpoint("PATCH", "/jobs/:jobid", cancel, EmptyResponse, "Cancel a job", "orders", query=(_MODE,), status=202),
    Endpoint(
        "GET",
        "/jobs/:jobid/yarn-cancel",
        cancel,
        EmptyResponse,
        "Cancel a job, for clients that can only GET",
        "orders",
        status=202,
        orders=True,
    ),
    Endpoint(
        "POST",
        "/applications/:applicationid/cancel",
        cancel_application,
        EmptyResponse,
        "Cancel an application: its job",
        "orders",
        status=202,
    ),
    Endpoint(
        "PATCH",
        "/jobs/:jobid/clientHeartbeat",
        heartbeat,
        EmptyResponse,
        "Say that the client is alive; taken and without effect",
        "orders",
        body=HeartbeatRequest,
        status=202,
    ),
    Endpoint(
        "POST",
        "/jobs/:jobid/savepoints",
        savepoint,
        TriggerResponse,
        "Take a savepoint, and cancel the job afterwards if asked to",
        "savepoints",
        body=SavepointRequest,
        status=202,
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/savepoints/:triggerid",
        savepoint_state,
        SavepointState,
        "How a savepoint, or a stop with one, stands",
        "savepoints",
    ),
    Endpoint(
        "POST",
        "/jobs/:jobid/stop",
        stop,
        TriggerResponse,
        "End a job with a savepoint",
        "savepoints",
        body=StopRequest,
        status=202,
    ),
    Endpoint(
        "POST",
        "/savepoint-disposal",
        dispose,
        TriggerResponse,
        "Delete a savepoint",
        "savepoints",
        body=DisposalRequest,
    ),
    Endpoint(
        "GET",
        "/savepoint-disposal/:triggerid",
        disposal_state,
        OrderState,
        "How the deletion of a savepoint stands",
        "savepoints",
    ),
    Endpoint(
        "POST",
        "/flott/savepoint-export",
        export,
        TriggerResponse,
        "Copy a savepoint with all it refers to",
        "savepoints",
        body=ExportRequest,
        status=202,
    ),
    Endpoint(
        "GET",
        "/flott/savepoint-export/:triggerid",
        export_state,
        SavepointState,
        "How the copy of a savepoint stands",
        "savepoints",
    ),
    Endpoint(
        "POST",
        "/jobs/:jobid/flott/restore",
        restore,
        RestoreResponse,
        "Submit the program of an ended job again, from a savepoint",
        "savepoints",
        body=RestoreRequest,
        status=202,
    ),
    Endpoint(
        "POST",
        "/jobs/:jobid/checkpoints",
        checkpoint,
        TriggerResponse,
        "Complete a checkpoint now",
        "checkpoints",
        body=CheckpointRequest,
        status=202,
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/checkpoints/:triggerid",
        checkpoint_state,
        CheckpointState,
        "How a checkpoint that was asked for stands",
        "checkpoints",
    ),
    Endpoint(
        "PATCH",
        "/jobs/:jobid/rescaling",
        rescale,
        TriggerResponse,
        "Change the parallelism of a job or of one operator",
        "orders",
        query=(
            Query("parallelism", int, None, "the number of subtasks", minimum=1, maximum=32768, required=True),
            Query("operator", str, None, "the uid, id or name of an operator; without it, the whole job"),
        ),
        status=202,
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/rescaling/:triggerid",
        rescale_state,
        OrderState,
        "How a change of parallelism stands",
        "orders",
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/resource-requirements",
        requirements,
        ResourceRequirements,
        "The parallelism of each vertex",
        "orders",
    ),
    Endpoint(
        "PUT",
        "/jobs/:jobid/resource-requirements",
        require,
        RequirementsResponse,
        "Change the parallelism of vertices to their upper bounds",
        "orders",
        body=ResourceRequirements,
    ),
)
