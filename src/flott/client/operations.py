"""Orders over REST: the JobManager answers an order with an id, and the client polls that id until the order is done.

``trigger`` sends an order of ``flott.runtime.orders``; ``await_operation`` polls. Client side.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from flott import errors
from flott.errors import ClusterError, FlottError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.orders import (
    CancelWithSavepoint,
    Order,
    RescaleJob,
    StopWithSavepoint,
    TakeCheckpoint,
    TakeSavepoint,
)

#: The pauses between two polls grow from the first to the longest.
_FIRST_PAUSE_MS = 20
_LONGEST_PAUSE_MS = 1000


class Asks(Protocol):
    """The part of ``RestClient`` that polls an operation."""

    def get(self, path: str, **query: Any) -> Any:
        """Return the answer to a question."""


class Triggers(Protocol):
    """The part of ``RestClient`` that starts an operation."""

    def post(self, path: str, json: Any = None, **query: Any) -> Any:
        """Send a POST request; return its answer."""

    def patch(self, path: str, json: Any = None, **query: Any) -> Any:
        """Send a PATCH request; return its answer."""


@dataclass(frozen=True)
class TriggeredOperation:
    """An operation that the JobManager has begun."""

    ident: str
    status_path: str  #: where its status is polled


def trigger(client: Triggers, job_id: str, order: Order[Any]) -> TriggeredOperation:
    """Send an order that takes a while. ``CancelJob`` is none of them: ``PATCH /jobs/:jobid`` carries it out."""
    job = f"/jobs/{job_id}"
    match order:
        case StopWithSavepoint():
            ident, place = client.post(f"{job}/stop", json=order.to_json())["request-id"], "savepoints"
        case TakeSavepoint() | CancelWithSavepoint():
            ident, place = client.post(f"{job}/savepoints", json=order.to_json())["request-id"], "savepoints"
        case TakeCheckpoint():
            ident, place = client.post(f"{job}/checkpoints", json={})["request-id"], "checkpoints"
        case RescaleJob():
            ident, place = client.patch(f"{job}/rescaling", **order.to_query())["request-id"], "rescaling"
        case _:
            raise TypeError(f"REST has no operation for {order!r}.")
    return TriggeredOperation(ident, f"{job}/{place}/{ident}")


def await_operation(client: Asks, path: str, clock: Clock | None = None) -> Mapping[str, Any]:
    """Return the outcome of the operation whose status is at ``path``; raise what went wrong."""
    pauses = Pauses(clock or SystemClock())
    while (answer := client.get(path))["status"]["id"] != "COMPLETED":
        pauses.wait()
    operation: Mapping[str, Any] = answer.get("operation") or {}
    failure = operation.get("failure-cause") or operation.get("failureCause")  # Flink's spelling for checkpoints
    if failure is not None:
        raise _error(str(failure["class"]), str(failure["stack-trace"]))
    return operation


def _error(name: str, text: str) -> FlottError:
    """Return the error that the JobManager had, so that the client handles it as if it were its own."""
    kind: object = getattr(errors, name.rpartition(".")[2], None)
    message = text.removeprefix(f"{name}: ").strip()
    return kind(message) if isinstance(kind, type) and issubclass(kind, FlottError) else ClusterError(message)


class Pauses:
    """Pauses between two requests to a server: short at first, longer for what takes long."""

    def __init__(self, clock: Clock, longest_ms: int = _LONGEST_PAUSE_MS):
        self._clock = clock
        self._longest_ms = longest_ms
        self._next_ms = _FIRST_PAUSE_MS

    def start_again(self) -> None:
        """Begin with a short pause again, because something has happened."""
        self._next_ms = _FIRST_PAUSE_MS

    def wait(self) -> None:
        """Wait for the next pause."""
        self._clock.wait(threading.Event(), self._next_ms)
        self._next_ms = min(self._longest_ms, self._next_ms * 3 // 2)
