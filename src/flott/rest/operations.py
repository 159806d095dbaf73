"""Long operations: one request triggers an operation, others query its outcome. Thread-safe.

A failure is reported by the status, not by the trigger request, as in Flink. Outcomes are kept for
``rest.async.store-duration``; their number is limited.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from flott.rest.refusal import Refusal, message_of
from flott.rest.throwable import FailureCause, failure_cause
from flott.runtime.clock import Clock

#: Above these numbers, the oldest outcomes are removed early, and new operations are refused.
MAX_KEPT = 10_000
MAX_IN_PROGRESS = 1_000
#: The maximum length of a failure message, in characters.
MAX_FAILURE = 64 * 1024


@dataclass
class _Operation:
    future: Future[Any]
    ended_ms: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The state of an operation."""

    ended: bool
    value: Any = None
    failure: BaseException | None = None

    def reply(self, shown: Callable[[Any], Mapping[str, Any]], failure_name: str = "failure-cause") -> dict[str, Any]:
        """Return the response to a status request. ``shown`` converts the operation's value."""
        if not self.ended:
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        operation = dict(shown(self.value)) if self.failure is None else {failure_name: cause_of(self.failure)}
        return {"status": {"id": "COMPLETED"}, "operation": operation}


@dataclass
class Operations:
    """All operations of a JobManager. A scope (a kind of operation and a job) contains the trigger ids."""

    clock: Clock
    kept_ms: int
    _operations: dict[tuple[str, str], _Operation] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def trigger(self, scope: str, start: Callable[[], Future[Any]], trigger_id: str | None = None) -> str:
        """Start an operation unless one with this id exists, and return its id."""
        ident = trigger_id or uuid.uuid4().hex
        with self._lock:
            self._forget()
            if (scope, ident) in self._operations:
                return ident
            if sum(operation.ended_ms is None for operation in self._operations.values()) >= MAX_IN_PROGRESS:
                raise Refusal(503, f"{MAX_IN_PROGRESS} operations are in progress already: wait until some have ended.")
            self._make_room()
            operation = self._operations[scope, ident] = _Operation(Future())
        self._begin(operation, start)
        return ident

    def outcome(self, scope: str, trigger_id: str) -> Outcome:
        """Return the outcome of an operation. Raise 404 if there is none with this id."""
        with self._lock:
            self._forget()
            operation = self._operations.get((scope, trigger_id))
        if operation is None:
            raise Refusal(404, f"There is no operation with triggerId={trigger_id} for {scope}.")
        if not operation.future.done():
            return Outcome(ended=False)
        if operation.future.cancelled():
            return Outcome(ended=True, failure=RuntimeError("The operation was cancelled."))
        failure = operation.future.exception()
        return Outcome(ended=True, value=None if failure else operation.future.result(), failure=failure)

    def __len__(self) -> int:
        return len(self._operations)

    def _begin(self, operation: _Operation, start: Callable[[], Future[Any]]) -> None:
        def ended(future: Future[Any]) -> None:
            operation.future = future
            operation.ended_ms = self.clock.now_ms()

        try:
            begun = start()
        except Exception as error:
            begun = Future()
            begun.set_exception(error)
        begun.add_done_callback(ended)

    def _forget(self) -> None:
        """Remove expired outcomes. Operations are ordered by the time of their trigger."""
        oldest = self.clock.now_ms() - self.kept_ms
        gone = [
            key for key, found in self._operations.items() if found.ended_ms is not None and found.ended_ms < oldest
        ]
        for key in gone:
            del self._operations[key]

    def _make_room(self) -> None:
        if len(self._operations) >= MAX_KEPT:
            ended = [key for key, found in self._operations.items() if found.ended_ms is not None]
            for key in ended[: len(self._operations) - MAX_KEPT + 1]:
                del self._operations[key]


def cause_of(error: BaseException) -> FailureCause:
    """Return a failure as Flink's clients read it: the message without a stack trace, limited in length."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    message = message_of(error)[:MAX_FAILURE]
    return failure_cause(name, message, f"{name}: {message}"[:MAX_FAILURE])
