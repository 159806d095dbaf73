"""The sending side of an edge between stages: records -> buffers of their targets. Task side.

Records of a batch are distributed with one loop per batch, then collected per target until a buffer is worth sending.
Buffers are bounded by records and, as soon as the size of a record is known, by bytes. ``partitioners`` decides who
gets a record.

Buffers are encoded. For a target in the same process they need not be, if the runner hands buffers over: then records
that cannot change go as they are (``sharing``), and all others, too, where a job allows to reuse objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.errors import ProgramError
from flott.graph.job_graph import ChainedOperator, JobEdge
from flott.runtime.epoch.partitioners import Positions, make_chooser
from flott.runtime.epoch.sharing import cannot_change
from flott.runtime.epoch.wire import DATA, MARKER, BatchEncoder, Origin, Row, encode_batch
from flott.runtime.operators.batch import Batch, ColumnBatch, RowBatch
from flott.runtime.operators.operator import EpochScope, RecordFailure

#: A buffer is sent when it holds about so many bytes.
BUFFER_BYTES = 128 * 1024
#: The first buffer of a channel is small, because the size of a record is not known yet.
FIRST_BUFFER_RECORDS = 512
#: So many records may be in a buffer of columns, if their bytes allow it: what follows works on whole batches.
COLUMN_RECORDS = 64 * 1024
#: So many records of a buffer that is handed over are encoded, to know how large they are.
SAMPLE_RECORDS = 8


def to_no_target(target: int) -> bool:
    """Return that no target takes records as they are."""
    return False


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
        record_type: TypeInformation | None = None,
        hands_over: Callable[[int], bool] = to_no_target,
        object_reuse: bool = False,
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
        self._encoder = BatchEncoder(record_type)
        self._hands_over = [hands_over(target) for target in range(target_parallelism)]
        self._object_reuse = object_reuse
        self._sequence = 0
        self.bytes_sent = 0  #: in the present epoch; what is handed over has no bytes
        self._values: list[list[Any]] = [[] for _ in range(target_parallelism)]
        self._timestamps: list[list[int]] = [[] for _ in range(target_parallelism)]  #: empty: the values have none
        self._kinds = [bytearray() for _ in range(target_parallelism)]  #: empty: the values are inserts
        self._columns: list[list[ColumnBatch]] = [[] for _ in range(target_parallelism)]  #: instead of values
        self._column_bytes = [0] * target_parallelism  #: of these
        self._column_records = [0] * target_parallelism
        self._max_column_records = max(max_records, COLUMN_RECORDS)
        self._first_origin: list[Origin] = [None] * target_parallelism
        self._last_origin: list[Origin] = [None] * target_parallelism
        self._markers: dict[int, list[Row]] = {}  #: that leave behind what is held, by target
        self._choose = make_chooser(edge.partitioning, subtask, parallelism, target_parallelism, target_max_parallelism)
        appends = [held.append for held in self._values]
        stamps = [held.append for held in self._timestamps]
        self._plain = self._choose.by_key(appends)
        self._stamped = self._choose.by_key(list(zip(appends, stamps, strict=True)))

    def begin(self) -> None:
        """Begin an epoch: sequence numbers and round robins start again."""
        self._sequence = 0
        self.bytes_sent = 0
        self._encoder.begin()
        self._choose.begin(self._scope, self.edge.index)
        for target in range(self._targets):
            self._clear(target)
        self._markers.clear()

    def receivers(self) -> Sequence[int]:
        """Return the subtasks that are told about this sender's event time."""
        return self._choose.receivers

    def emit(self, batch: Batch) -> None:
        """Distribute a batch."""
        if batch.__class__ is RowBatch and self._plain is not None and batch.kinds is None:
            self._scatter_by_key(batch)
            return
        chosen = self._chosen(batch)
        if isinstance(chosen, tuple):
            self._broadcast(batch)
        elif isinstance(batch, ColumnBatch):
            self._scatter_columns(chosen, batch)
        elif isinstance(chosen, int):
            self._append(chosen, batch.values, batch.timestamps, batch.kinds)
        else:
            assert isinstance(chosen, list)  # positions are of columns
            self._scatter(chosen, batch)

    def send_marker(self, target: int, marker: object) -> None:
        """Send a marker to a target. It waits for the buffer of the records before it, and leaves with that."""
        row = (self._stage, target, MARKER, self.edge.index, self._subtask, self._sequence, marker)
        if self._values[target] or self._columns[target]:
            self._markers.setdefault(target, []).append(row)
        else:
            self._send(row)

    def flush(self) -> None:
        """Send what is left: the epoch's records are complete."""
        for target in range(self._targets):
            self._ship_held(target)

    def _chosen(self, batch: Batch) -> int | tuple[()] | list[int] | Positions:
        try:
            return self._choose.targets(batch)
        except Exception as error:
            failure, cause = self._locate(batch.to_rows().values, error)
            raise failure from cause

    def _scatter_by_key(self, batch: RowBatch) -> None:
        """Distribute rows by key. This is the hot path of the exchange.

        Every key knows the lists that its records go to, so a record costs a lookup and an append.
        """
        values, timestamps = batch.values, batch.timestamps
        assert self._plain is not None
        assert self._stamped is not None
        for target in range(self._targets):
            self._make_uniform(target, timestamps is not None)
            if not self._values[target]:
                self._first_origin[target] = self._scope.origin
            self._last_origin[target] = self._scope.origin or self._last_origin[target]
        select = self._choose.select_in(values)
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

    def _make_uniform(self, target: int, stamped: bool, kinded: bool = False) -> None:
        """Send what is held if it cannot share a buffer with rows that have, or lack, timestamps and row kinds."""
        if self._columns[target]:
            self._ship_columns(target)
        elif self._values[target] and (
            bool(self._timestamps[target]) is not stamped or bool(self._kinds[target]) is not kinded
        ):
            self._ship(target)

    def _scatter(self, chosen: list[int], batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        if batch.kinds is not None:
            for target, positions in enumerate(_positions(chosen, self._targets)):
                if positions:
                    self._append(
                        target,
                        [values[i] for i in positions],
                        None if timestamps is None else [timestamps[i] for i in positions],
                        bytes(batch.kinds[i] for i in positions),
                    )
            return
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

    def _scatter_columns(self, chosen: int | list[int] | Positions, batch: ColumnBatch) -> None:
        if isinstance(chosen, int):
            self._append_columns(chosen, batch)
            return
        by_target = chosen.by_target if isinstance(chosen, Positions) else _positions(chosen, self._targets)
        for target, positions in enumerate(by_target):
            if len(positions):
                part = batch if len(positions) == len(batch) else batch.take(positions)
                self._append_columns(target, part)

    def _append_columns(self, target: int, batch: ColumnBatch) -> None:
        """Hold columns until they are worth sending, and send what is larger than a buffer in slices."""
        size = batch.columns.nbytes
        slices = max(size // BUFFER_BYTES, -(-len(batch) // self._max_column_records))
        if slices <= 1:
            self._hold_columns(target, batch, size)
            return
        rows = -(-len(batch) // slices)
        for start in range(0, len(batch), rows):
            self._hold_columns(target, batch.slice(start, min(start + rows, len(batch))), size // slices)

    def _hold_columns(self, target: int, batch: ColumnBatch, size: int) -> None:
        from flott.runtime.operators.arrow import can_join

        if self._values[target]:
            self._ship(target)
        held = self._columns[target]
        if held and not can_join(held[0], batch):
            self._ship_columns(target)
        if not held:
            self._first_origin[target] = self._scope.origin
        self._last_origin[target] = self._scope.origin or self._last_origin[target]
        held.append(batch)
        self._column_bytes[target] += size
        self._column_records[target] += len(batch)
        if self._column_bytes[target] >= BUFFER_BYTES or self._column_records[target] >= self._max_column_records:
            self._ship_columns(target)

    def _append(
        self, target: int, values: list[Any], timestamps: list[int] | None, kinds: bytes | None = None
    ) -> None:
        self._make_uniform(target, timestamps is not None, kinds is not None)
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
            if kinds is not None:
                self._kinds[target] += kinds[start:stop]
            start = stop
            if len(held) >= self._limit:
                self._ship(target)

    def _broadcast(self, batch: Batch) -> None:
        origin, payload = self._scope.origin, None
        shared = any(self._hands_over) and (isinstance(batch, ColumnBatch) or self._may_share(batch.values))
        for target in range(self._targets):
            if shared and self._hands_over[target]:
                self._hand_over(target, batch, origin)
                continue
            if payload is None:
                payload = self._encode(batch, origin)  # once, for all targets
            self._send_payload(target, payload)

    def _ship_held(self, target: int) -> None:
        if self._columns[target]:
            self._ship_columns(target)
        elif self._values[target]:
            self._ship(target)

    def _ship_columns(self, target: int) -> None:
        from flott.runtime.operators.arrow import joined

        batch, origin = joined(self._columns[target]), self._origin(target)
        self._clear(target)
        if self._hands_over[target]:
            self._hand_over(target, batch, origin)
        else:
            self._send_payload(target, self._encode(batch, origin))

    def _origin(self, target: int) -> Origin:
        first, last = self._first_origin[target], self._last_origin[target]
        return (first[0], last[1]) if first is not None and last is not None else first or last

    def _ship(self, target: int) -> None:
        values, kinds = self._values[target], self._kinds[target]
        batch = RowBatch(values, self._timestamps[target] or None, bytes(kinds) if kinds else None)
        if self._hands_over[target] and self._may_share(values):
            self._hand_over(target, batch, self._origin(target))
            sample = values[:: -(-len(values) // SAMPLE_RECORDS)]
            size = len(self._encode(RowBatch(sample), None))
            self._limit = max(1, min(self._max_records, BUFFER_BYTES * len(sample) // size))
            self._clear(target)
            return
        payload = self._encode(batch, self._origin(target))
        self._limit = max(1, min(self._max_records, BUFFER_BYTES * len(values) // max(len(payload), 1)))
        self._clear(target)
        self._send_payload(target, payload)

    def _encode(self, batch: Batch, origin: Origin) -> bytes:
        try:
            if isinstance(batch, ColumnBatch):
                return encode_batch(batch, origin)
            return self._encoder.encode(batch, origin)
        except ProgramError as error:
            raise RecordFailure(self._sender, "sending records to another task") from error

    def _may_share(self, values: list[Any]) -> bool:
        return self._object_reuse or cannot_change(values)

    def _hand_over(self, target: int, batch: Batch, origin: Origin) -> None:
        """Send a batch as it is, in lists and objects of its own: those at hand are used again."""
        own: Batch
        if isinstance(batch, ColumnBatch):
            own = ColumnBatch(batch.columns, batch.record_type, batch.timestamps, batch.kinds)
        else:
            stamps = batch.timestamps
            own = RowBatch(batch.values.copy(), None if stamps is None else stamps.copy(), batch.kinds)
        self._send((self._stage, target, DATA, self.edge.index, self._subtask, self._sequence, (own, origin)))
        self._sequence += 1
        if self._markers:
            self._send_markers(target)

    def _send_payload(self, target: int, payload: bytes) -> None:
        self._send((self._stage, target, DATA, self.edge.index, self._subtask, self._sequence, payload))
        self._sequence += 1
        self.bytes_sent += len(payload)
        if self._markers:
            self._send_markers(target)

    def _send_markers(self, target: int) -> None:
        """Send the markers that have waited for a buffer."""
        for row in self._markers.pop(target, ()):
            self._send(row)

    def _clear(self, target: int) -> None:
        self._values[target].clear()  # the lists stay the same: keys know their append
        self._timestamps[target].clear()
        self._kinds[target].clear()
        self._columns[target].clear()
        self._column_bytes[target] = self._column_records[target] = 0
        self._first_origin[target] = self._last_origin[target] = None

    def _locate(self, values: list[Any], error: Exception) -> tuple[RecordFailure, Exception]:
        """Return a failure that names the record whose key, or whose target, could not be found, and its cause."""
        activity = f"choosing the target of a record ({self.edge.partitioning.label})"
        is_head = self._sender.fed_by is None  # only then are these records the ones it was given
        for index, value in enumerate(values):
            try:
                self._choose.check(value)
            except Exception as cause:
                position = index if is_head else None
                return RecordFailure(self._sender, activity, record=value, has_record=True, index=position), cause
        return RecordFailure(self._sender, activity), error


def _positions(chosen: list[int], targets: int) -> list[list[int]]:
    """Return for each target the positions of the records that go there."""
    positions: list[list[int]] = [[] for _ in range(targets)]
    for position, target in enumerate(chosen):
        positions[target].append(position)
    return positions
