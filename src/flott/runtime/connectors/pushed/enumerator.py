"""Puts messages that have arrived into slices. Driver side.

The messages cannot be read again, so they travel in the slices: those are durable before an epoch runs, and a repeated
epoch sees the same messages. The connection is made by the first plan, not when the job starts: an epoch that is
repeated after a restart may have read further than the restored state knows, and only then is it known where to go on.

A split is one slice of one epoch and ends with it, so none holds event time back when nothing arrives.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.errors import StateError
from flott.runtime.connectors.pushed.receiver import PushedReceiver
from flott.runtime.connectors.pushed.stream import Pushed, PushedStream

STATE_VERSION = 1
#: Something may arrive at any moment; it is looked for after this time.
POLL_MS = 50


class PushedEnumerator(SplitEnumerator):
    """Plans what has arrived."""

    readable_beside = False

    def __init__(self, label: str, create: Callable[[], PushedStream], capacity: int):
        self._label = label
        self._receiver = PushedReceiver(create, label, capacity)
        self._next = 0  #: the number of the next split
        self._resume: str | None = None
        self._ended = False
        self._proposed: list[Pushed] = []  #: taken, and not in a completed epoch yet

    def restore(self, state: Json) -> None:
        if state["version"] != STATE_VERSION:
            raise StateError(
                f"{self._label}: the state has version {state['version']}, this Flott reads version {STATE_VERSION}."
            )
        self._next, self._resume, self._ended = state["next"], state["resume"], state["ended"]

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self._ended:
            return SlicePlan(finished=True)
        if not self._receiver.is_open:
            self._receiver.open(self._resume)
        taken, ended = self._receiver.take(max(0, request.max_records - len(self._proposed)))
        self._proposed += taken
        slices: tuple[Slice, ...] = ()
        if self._proposed:
            detail = packed(self._proposed)
            count = len(self._proposed)
            slices = (Slice(f"{self._next:012d}", 0, count, records=count, ends_split=True, detail=detail),)
        return SlicePlan(
            slices,
            finished=ended,
            backlog=self._receiver.waiting > 0,
            wake_at_ms=None if ended else request.now_ms + POLL_MS,
        )

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        # Nothing but the plan is needed: after a crash it may have been made by an enumerator that is gone.
        for part in plan.slices:
            self._next += 1
            self._resume = part.detail["resume"] if part.detail["resume"] is not None else self._resume
            self._proposed = self._proposed[part.stop :]
        self._ended = plan.finished

    def snapshot(self) -> Json:
        return {"version": STATE_VERSION, "next": self._next, "resume": self._resume, "ended": self._ended}

    def pending(self, now_ms: int) -> Pending:
        return Pending(records=self._receiver.waiting + len(self._proposed))

    def close(self) -> None:
        self._receiver.close()


def packed(messages: list[Pushed]) -> Json:
    """Return messages as a JSON value: as text if all of them are, else in base64.

    >>> unpacked(packed([Pushed(b"a"), Pushed(b"\\xff")]))
    [b'a', b'\\xff']
    """
    resume = next((one.id for one in reversed(messages) if one.id is not None), None)
    try:
        texts, encoding = [one.value.decode() for one in messages], "utf-8"
    except UnicodeDecodeError:
        texts, encoding = [base64.b64encode(one.value).decode() for one in messages], "base64"
    return {"version": STATE_VERSION, "encoding": encoding, "messages": texts, "resume": resume}


def unpacked(detail: Json) -> list[bytes]:
    """Return the contents of packed messages."""
    if detail["encoding"] == "base64":
        return [base64.b64decode(text) for text in detail["messages"]]
    return [text.encode() for text in detail["messages"]]
