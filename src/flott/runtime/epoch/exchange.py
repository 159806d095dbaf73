"""The sending side of an edge between stages: records -> buffers of their targets. Task side.

Records of a batch are distributed with one loop per batch, then collected per target until a buffer is worth sending.
Buffers are bounded by records and, as soon as the size of a record is known, by bytes. Who gets a record is decided in
``partitioners``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flott.errors import ProgramError
from flott.graph.job_graph import ChainedOperator, JobEdge
from flott.runtime.epoch.partitioners import make_chooser
from flott.runtime.epoch.wire import DATA, BatchEncoder, Origin, Row
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.operator import EpochScope, RecordFailure

#: A buffer is sent when it holds about so many bytes.
BUFFER_BYTES = 128 * 1024
#: The first buffer of a channel is small, because the size of a record is not known yet.
FIRST_BUFFER_RECORDS = 512


class ResultPartition:
    """What one subtask sends along one edge during one epoch."""

    def __init__(
        self,
        edge: JobEdge,
        sender: ChainedOperator,
        subtask: int,
        parallelism: int,
        target_parallelism: int,
        target_max_parallelism: int,
        target_stage: int,
        scope: EpochScope,
        max_records: int,
        send: Callable[[Row], None],
    ):
        self.edge = edge
        self._sender = sender
        self._subtask = subtask
        self._targets = target_parallelism
        self._stage = target_stage
        self._scope = scope
        self._max_records = max_records
        self._limit = min(FIRST_BUFFER_RECORDS, max_records)
        self._send = send
        self._encoder = BatchEncoder()
        self._sequence = 0
        self.bytes_sent = 0  #: in the present epoch
        self._values: list[list[Any]] = [[] for _ in range(target_parallelism)]
        self._timestamps: list[list[int]] = [[] for _ in range(target_parallelism)]  #: empty: the values have none
        self._first_origin: list[Origin] = [None] * target_parallelism
        self._last_origin: list[Origin] = [None] * target_parallelism
        self._choose = make_chooser(edge.partitioning, subtask, parallelism, target_parallelism, target_max_parallelism)
        appends = [held.append for held in self._values]
        stamps = [held.append for held in self._timestamps]
        self._plain = self._choose.by_key(appends)
        self._stamped = self._choose.by_key(list(zip(appends, stamps, strict=True)))

    def begin(self) -> None:
        """An epoch begins: sequence numbers and round robins start anew."""
        self._sequence = 0
        self.bytes_sent = 0
        self._encoder.begin()
        self._choose.begin(self._scope, self.edge.index)
        for target in range(self._targets):
            self._clear(target)

    def receivers(self) -> Sequence[int]:
        """The subtasks that are told about this sender's event time."""
        return self._choose.receivers

    def emit(self, batch: RowBatch) -> None:
        """Distribute a batch."""
        values, timestamps = batch.values, batch.timestamps
        if self._plain is not None:
            self._scatter_by_key(values, timestamps)
            return
        try:
            chosen = self._choose.targets(values)
        except Exception as error:
            failure, cause = self._locate(values, error)
            raise failure from cause
        if isinstance(chosen, int):
            self._append(chosen, values, timestamps)
        elif isinstance(chosen, tuple):
            self._broadcast(batch)
        else:
            self._scatter(chosen, values, timestamps)

    def flush(self) -> None:
        """Send what is left: the epoch's records are complete."""
        for target in range(self._targets):
            if self._values[target]:
                self._ship(target)

    def _scatter_by_key(self, values: list[Any], timestamps: list[int] | None) -> None:
        """The hot path: every key knows the lists its records go to, so a record costs a lookup and an append."""
        assert self._plain is not None
        assert self._stamped is not None
        for target in range(self._targets):
            self._make_uniform(target, timestamps is not None)
            if not self._values[target]:
                self._first_origin[target] = self._scope.origin
            self._last_origin[target] = self._scope.origin or self._last_origin[target]
        select = self._choose.select
        try:
            if timestamps is None:
                plain = self._plain
                for value in values:
                    plain[select(value)](value)
            else:
                stamped = self._stamped
                for value, timestamp in zip(values, timestamps, strict=True):
                    put, stamp = stamped[select(value)]
                    put(value)
                    stamp(timestamp)
        except Exception as error:
            failure, cause = self._locate(values, error)
            raise failure from cause
        for target in range(self._targets):
            if len(self._values[target]) >= self._limit:
                self._ship(target)

    def _make_uniform(self, target: int, stamped: bool) -> None:
        """A buffer has timestamps for all of its records or for none."""
        if self._values[target] and bool(self._timestamps[target]) is not stamped:
            self._ship(target)

    def _scatter(self, chosen: list[int], values: list[Any], timestamps: list[int] | None) -> None:
        if timestamps is None:
            parts: list[list[Any]] = [[] for _ in range(self._targets)]
            appends = [part.append for part in parts]
            for target, value in zip(chosen, values, strict=True):
                appends[target](value)
            for target, part in enumerate(parts):
                if part:
                    self._append(target, part, None)
            return
        stamped: list[tuple[list[Any], list[int]]] = [([], []) for _ in range(self._targets)]
        for target, value, timestamp in zip(chosen, values, timestamps, strict=True):
            part_values, part_timestamps = stamped[target]
            part_values.append(value)
            part_timestamps.append(timestamp)
        for target, (part_values, part_timestamps) in enumerate(stamped):
            if part_values:
                self._append(target, part_values, part_timestamps)

    def _append(self, target: int, values: list[Any], timestamps: list[int] | None) -> None:
        self._make_uniform(target, timestamps is not None)
        start = 0
        while start < len(values):
            held = self._values[target]
            if len(held) >= self._limit:
                self._ship(target)  # the limit has fallen below what is held, because other targets got large records
            if not held:
                self._first_origin[target] = self._scope.origin
            self._last_origin[target] = self._scope.origin or self._last_origin[target]
            stop = start + self._limit - len(held)  # the limit follows the size of records from buffer to buffer
            held.extend(values[start:stop])
            if timestamps is not None:
                self._timestamps[target].extend(timestamps[start:stop])
            start = stop
            if len(held) >= self._limit:
                self._ship(target)

    def _broadcast(self, batch: RowBatch) -> None:
        payload = self._encode(batch, self._scope.origin)  # once, for everybody
        for target in range(self._targets):
            self._send_payload(target, payload)

    def _ship(self, target: int) -> None:
        values = self._values[target]
        first, last = self._first_origin[target], self._last_origin[target]
        origin = (first[0], last[1]) if first is not None and last is not None else first or last
        payload = self._encode(RowBatch(values, self._timestamps[target] or None), origin)
        self._limit = max(1, min(self._max_records, BUFFER_BYTES * len(values) // max(len(payload), 1)))
        self._clear(target)
        self._send_payload(target, payload)

    def _encode(self, batch: RowBatch, origin: Origin) -> bytes:
        try:
            return self._encoder.encode(batch, origin)
        except ProgramError as error:
            raise RecordFailure(self._sender, "sending records to another task") from error

    def _send_payload(self, target: int, payload: bytes) -> None:
        self._send((self._stage, target, DATA, self.edge.index, self._subtask, self._sequence, payload))
        self._sequence += 1
        self.bytes_sent += len(payload)

    def _clear(self, target: int) -> None:
        self._values[target].clear()  # the lists stay the same: keys know their append
        self._timestamps[target].clear()
        self._first_origin[target] = self._last_origin[target] = None

    def _locate(self, values: list[Any], error: Exception) -> tuple[RecordFailure, Exception]:
        """The record whose key, or whose target, could not be found, and what is wrong with it."""
        activity = f"choosing the target of a record ({self.edge.partitioning.label})"
        is_head = self._sender.fed_by is None  # only then are these records the ones it was given
        for index, value in enumerate(values):
            try:
                self._choose.check(value)
            except Exception as cause:
                position = index if is_head else None
                return RecordFailure(self._sender, activity, record=value, has_record=True, index=position), cause
        return RecordFailure(self._sender, activity), error
