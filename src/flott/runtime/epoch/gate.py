"""The input gate: collects the rows of one task's input and gives them out in a fixed order. Task side.

Spark's fetch order is not stable, so a task takes in its whole input of the epoch before it processes the first
record, and orders buffers by edge, channel and sequence number. The epoch is bounded; what exceeds the memory allowance
goes to a temporary file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from flott.common._ids import SubtaskIndex
from flott.runtime.epoch.wire import ABORT, DATA, TIME, Origin, Row, decode_batch
from flott.runtime.operators.batch import Batch
from flott.runtime.operators.operator import EventTime


@dataclass(frozen=True)
class _Spilled:
    """Where a payload stands in the spill file."""

    offset: int
    length: int


class InputGate:
    """The input of one task of one stage."""

    def __init__(self, memory_bytes: int):
        self._memory_bytes = memory_bytes
        self._held_bytes = 0
        self._spill: IO[bytes] | None = None
        self._buffers: dict[tuple[int, int], list[tuple[int, int, bytes | _Spilled]]] = {}
        self._times: dict[tuple[int, int], list[EventTime]] = {}
        self.consumed: dict[tuple[int, SubtaskIndex], str] = {}  #: (stage, channel) of each sender -> its attempt
        self._received: dict[tuple[int, int], int] = {}  #: bytes by edge and subtask
        self.aborted = False

    def add(self, row: Row) -> None:
        """Take a row addressed to this stage."""
        _, subtask, kind, edge, channel, sequence, payload = row
        if kind == DATA:
            self._buffers.setdefault((edge, subtask), []).append((channel, sequence, self._keep(payload)))
            self._received[edge, subtask] = self._received.get((edge, subtask), 0) + len(payload)
        elif kind == TIME:
            attempt_id, entries = payload
            self.consumed[edge, SubtaskIndex(channel)] = attempt_id
            for timed_edge, watermark, idle, ended in entries:
                self._times.setdefault((timed_edge, subtask), []).append(EventTime(watermark, idle, ended))
        elif kind == ABORT:
            self.aborted = True

    def batches(self, edge: int, subtask: int) -> Iterator[tuple[Batch, Origin]]:
        """Return the batches of an edge for a subtask, in order. Each buffer is released once it was given out."""
        return map(decode_batch, self.payloads(edge, subtask))

    def payloads(self, edge: int, subtask: int) -> Iterator[bytes]:
        """Return the same batches as bytes."""
        buffers = self._buffers.pop((edge, subtask), [])
        buffers.sort(key=lambda buffer: buffer[:2], reverse=True)
        while buffers:
            _, _, payload = buffers.pop()
            yield self._load(payload)

    def bytes_received(self, edge: int, subtask: int) -> int:
        """Return how many bytes came on an edge for a subtask."""
        return self._received.get((edge, subtask), 0)

    def time(self, edge: int, subtask: int) -> EventTime:
        """Return how far event time has come on an edge: the minimum over its channels."""
        return combine(self._times.get((edge, subtask), []))

    def close(self) -> None:
        """Delete the spill file."""
        if self._spill is not None:
            self._spill.close()

    def _keep(self, payload: bytes) -> bytes | _Spilled:
        if self._held_bytes + len(payload) <= self._memory_bytes:
            self._held_bytes += len(payload)
            return payload
        if self._spill is None:
            self._spill = tempfile.TemporaryFile(prefix="flott-input-")  # noqa: SIM115  # closed by close()
        offset = self._spill.seek(0, 2)
        self._spill.write(payload)
        return _Spilled(offset, len(payload))

    def _load(self, payload: bytes | _Spilled) -> bytes:
        if isinstance(payload, bytes):
            return payload
        assert self._spill is not None
        self._spill.seek(payload.offset)
        return self._spill.read(payload.length)


def combine(times: list[EventTime]) -> EventTime:
    """Return the event time over several channels or inputs: the slowest of those that are not idle.

    Channels that have ended are not waited for. If all are idle, event time is where the furthest of them is.
    """
    active = [time for time in times if not time.idle]
    if not active:
        return EventTime(max((t.watermark for t in times), default=EventTime().watermark), idle=True)
    return EventTime(min(time.watermark for time in active), ended=all(time.ended for time in times))
