"""Plans what an epoch takes from a message queue. Driver side.

A queue cannot be read again, so the messages themselves travel in the slices: they are durable with the plan before a
task runs, and a repeated epoch sees the same ones. They are acknowledged to the broker after the checkpoint. A message
that the broker delivers again in the meantime is recognized by its id and dropped. After a crash this includes the
messages of a plan that was durable and whose enumerator is gone: ``advance`` is called with that plan.

A split is one slice of one epoch. It ends with it, so no split holds event time back when the queue is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4
from zlib import crc32

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.errors import StateError
from flott.runtime.connectors.queues.client import QueueClient
from flott.runtime.connectors.queues.message import Delivery, pack
from flott.runtime.connectors.queues.receiver import Receiver
from flott.runtime.connectors.queues.recent_ids import RecentIds

STATE_VERSION = 1
#: An epoch of fewer messages than this is not cut for several subtasks.
SLICE_MESSAGES = 100


class QueueEnumerator(SplitEnumerator):
    """Puts the messages that have arrived into slices, acknowledges them after the checkpoint."""

    readable_beside = False

    def __init__(self, label: str, create_client: Callable[[], QueueClient], prefetch: int, window: int = 0):
        self._label = label
        # The broker has at most ``prefetch`` messages that it may deliver again, so that many ids must be known.
        self._recent = RecentIds(max(prefetch, window))
        self._receiver = Receiver(create_client, label, prefetch)
        self._next = 0  #: the number of the next split
        self._plans_id = uuid4().hex  #: tells plans of this enumerator from those of one that is gone
        self._session = -1  #: the connection that proposed and processed messages came from
        self._proposed: list[Delivery] = []  #: what the last plan holds
        self._proposed_ids: set[str] = set()
        self._copies: list[Any] = []  #: tags of further deliveries of proposed messages
        self._processed: list[Any] = []  #: tags of messages that may be acknowledged after the next checkpoint

    def open(self) -> None:
        self._receiver.open()

    def restore(self, state: Json) -> None:
        if state["version"] != STATE_VERSION:
            raise StateError(
                f"{self._label}: the state has version {state['version']}, but {STATE_VERSION} is the highest known."
            )
        self._next = state["next"]
        self._recent.restore(state["recent"])

    def plan(self, request: SliceRequest) -> SlicePlan:
        while True:
            session, found = self._receiver.take(max(0, request.max_records - len(self._proposed)))
            if session != self._session:  # what was proposed and not planned is delivered again
                self._session, self._processed = session, []
                self._forget_proposal()
            self._propose(found)
            if not found or self._proposed:
                break
        slices = tuple(self._slices(request.parallelism))
        return SlicePlan(slices, backlog=self._receiver.waiting > 0)

    def _propose(self, found: Sequence[Delivery]) -> None:
        known: list[Any] = []
        for delivery in found:
            ident = delivery.message.id
            if ident is None:
                self._proposed.append(delivery)
            elif ident in self._proposed_ids:
                self._copies.append(delivery.tag)
            elif ident in self._recent:
                known.append(delivery.tag)
            else:
                self._proposed_ids.add(ident)
                self._proposed.append(delivery)
        # Their ids come from a checkpoint that is complete: no plan is made between two checkpoints.
        self._receiver.acknowledge(self._session, known, wait=False)

    def _slices(self, parallelism: int) -> list[Slice]:
        parts = [part for part in deal(self._proposed, parallelism) if part]
        return [
            Slice(
                f"{self._next + number:012d}",
                0,
                len(part),
                records=len(part),
                ends_split=True,
                detail={**pack([delivery.message for delivery in part]), "plans": self._plans_id},
            )
            for number, part in enumerate(parts)
        ]

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for part in plan.slices:
            self._recent.add(ident for ident in part.detail.get("id", ()) if ident is not None)
        self._next += len(plan.slices)
        if plan.slices and plan.slices[0].detail["plans"] == self._plans_id:
            self._processed += [delivery.tag for delivery in self._proposed]
            self._processed += self._copies
            self._forget_proposal()

    def _forget_proposal(self) -> None:
        self._proposed, self._copies = [], []
        self._proposed_ids = set()

    def snapshot(self) -> Json:
        return {"version": STATE_VERSION, "next": self._next, "recent": self._recent.snapshot()}

    def acknowledge(self) -> None:
        processed, self._processed = self._processed, []
        self._receiver.acknowledge(self._session, processed)

    def pending(self, now_ms: int) -> Pending:
        return Pending(records=self._receiver.waiting + len(self._proposed))

    def close(self) -> None:
        self._receiver.close()


def deal(deliveries: Sequence[Delivery], parallelism: int) -> list[list[Delivery]]:
    """Divide messages among subtasks. Those with the same order key stay together, others in runs of equal length."""
    count = min(parallelism, -(-len(deliveries) // SLICE_MESSAGES))
    if count <= 1:
        return [list(deliveries)]
    if any(delivery.order_key is not None for delivery in deliveries):
        parts: list[list[Delivery]] = [[] for _ in range(count)]
        for delivery in deliveries:
            parts[crc32((delivery.order_key or "").encode()) % count].append(delivery)
        return parts
    size = -(-len(deliveries) // count)
    return [list(deliveries[start : start + size]) for start in range(0, len(deliveries), size)]
