"""The sending side of an edge between stages: record -> target subtask, records -> buffers. Task side.

Records of a batch are distributed with one loop per batch, then collected per target until a buffer is worth sending.
Buffers are bounded by records and, as soon as the size of a record is known, by bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from operator import index as as_index
from typing import Any

from flott.datastream.functions._callables import as_key_selector, as_partitioner
from flott.errors import ProgramError
from flott.graph.job_graph import ChainedOperator, JobEdge
from flott.graph.partitioning import Broadcast, Custom, Forward, Global, Hash, Partitioning, Rebalance, Rescale, Shuffle
from flott.runtime.epoch.wire import DATA, Origin, Row, encode_records
from flott.runtime.operators.operator import EpochScope, RecordFailure
from flott.runtime.state.encoding import encode_key
from flott.runtime.state.key_groups import REMEMBERED_KEYS, SubtaskIndex, key_group_of, subtask_of

#: A buffer is sent when it holds about so many bytes.
BUFFER_BYTES = 128 * 1024
#: The first buffer of a channel is small, because the size of a record is not known yet.
FIRST_BUFFER_RECORDS = 512

Append = Callable[[Any], None]


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
        self._sequence = 0
        self._values: list[list[Any]] = [[] for _ in range(target_parallelism)]
        self._timestamps: list[list[int] | None] = [None] * target_parallelism
        self._first_origin: list[Origin] = [None] * target_parallelism
        self._last_origin: list[Origin] = [None] * target_parallelism
        self._choose = _chooser(edge.partitioning, subtask, parallelism, target_parallelism, target_max_parallelism)
        self._appends = self._choose.appends([held.append for held in self._values])

    def begin(self) -> None:
        """An epoch begins: sequence numbers and round robins start anew."""
        self._sequence = 0
        self._choose.begin(self._scope, self.edge.index)
        for target in range(self._targets):
            self._clear(target)

    def receivers(self) -> Sequence[int]:
        """The subtasks that are told about this sender's event time."""
        return self._choose.receivers

    def emit(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Distribute a batch."""
        if timestamps is None and self._appends is not None:
            self._scatter_by_key(values)
            return
        try:
            chosen = self._choose.targets(values)
        except Exception as error:
            failure, cause = self._locate(values, error)
            raise failure from cause
        if isinstance(chosen, int):
            self._append(chosen, values, timestamps)
        elif isinstance(chosen, tuple):
            self._broadcast(values, timestamps)
        else:
            self._scatter(chosen, values, timestamps)

    def flush(self) -> None:
        """Send what is left: the epoch's records are complete."""
        for target in range(self._targets):
            if self._values[target]:
                self._ship(target)

    def _scatter_by_key(self, values: list[Any]) -> None:
        """The hot path: every key knows the list its records go to, so a record costs a lookup and an append."""
        assert self._appends is not None
        for target in range(self._targets):
            if self._timestamps[target] is not None:
                self._ship(target)
            elif not self._values[target]:
                self._first_origin[target] = self._scope.origin
            self._last_origin[target] = self._scope.origin or self._last_origin[target]
        try:
            appends, select = self._appends, self._choose.select
            for value in values:
                appends[select(value)](value)
        except Exception as error:
            failure, cause = self._locate(values, error)
            raise failure from cause
        for target in range(self._targets):
            if len(self._values[target]) >= self._limit:
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
        if self._values[target] and (self._timestamps[target] is None) is not (timestamps is None):
            self._ship(target)  # a buffer has timestamps for all of its records or for none
        start = 0
        while start < len(values):
            held = self._values[target]
            if len(held) >= self._limit:
                self._ship(target)  # the limit has fallen below what is held, because other targets got large records
            if not held:
                self._first_origin[target] = self._scope.origin
                self._timestamps[target] = None if timestamps is None else []
            self._last_origin[target] = self._scope.origin or self._last_origin[target]
            stop = start + self._limit - len(held)  # the limit follows the size of records from buffer to buffer
            held.extend(values[start:stop])
            if timestamps is not None:
                stamps = self._timestamps[target]
                assert stamps is not None
                stamps.extend(timestamps[start:stop])
            start = stop
            if len(held) >= self._limit:
                self._ship(target)

    def _broadcast(self, values: list[Any], timestamps: list[int] | None) -> None:
        payload = self._encode(values, timestamps, self._scope.origin)  # once, for everybody
        for target in range(self._targets):
            self._send_payload(target, payload)

    def _ship(self, target: int) -> None:
        values = self._values[target]
        first, last = self._first_origin[target], self._last_origin[target]
        origin = (first[0], last[1]) if first is not None and last is not None else first or last
        payload = self._encode(values, self._timestamps[target], origin)
        self._limit = max(1, min(self._max_records, BUFFER_BYTES * len(values) // max(len(payload), 1)))
        self._clear(target)
        self._send_payload(target, payload)

    def _encode(self, values: list[Any], timestamps: list[int] | None, origin: Origin) -> bytes:
        try:
            return encode_records(values, timestamps, origin)
        except ProgramError as error:
            raise RecordFailure(self._sender, "sending records to another task") from error

    def _send_payload(self, target: int, payload: bytes) -> None:
        self._send((self._stage, target, DATA, self.edge.index, self._subtask, self._sequence, payload))
        self._sequence += 1

    def _clear(self, target: int) -> None:
        self._values[target].clear()  # the list stays the same: keys know its append
        self._timestamps[target] = None
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


class AppendIndex(dict[Any, Append]):
    """``index[key]`` appends to the list of the key's target; remembered like a key group."""

    def __init__(self, max_parallelism: int, appends: Sequence[Append]):
        super().__init__()
        self._max_parallelism = max_parallelism
        self._all = appends

    def __missing__(self, key: Any) -> Append:
        if len(self) >= REMEMBERED_KEYS:
            self.clear()
        group = key_group_of(key, self._max_parallelism)
        append = self[key] = self._all[subtask_of(group, self._max_parallelism, len(self._all))]
        return append


class _Chooser:
    """Chooses targets. ``targets`` gives an int (all to one), a tuple (to all) or a list (one per record)."""

    def __init__(self, receivers: Sequence[int]):
        self.receivers = receivers

    def begin(self, scope: EpochScope, edge: int) -> None:
        """Start a new epoch."""

    def targets(self, values: list[Any]) -> int | tuple[()] | list[int]:
        raise NotImplementedError

    def appends(self, appends: Sequence[Append]) -> AppendIndex | None:
        """Key -> append of its target's list, where targets are chosen by key and nothing else must be looked at."""
        return None

    def select(self, value: Any) -> Any:
        """The key of a record."""
        raise NotImplementedError

    def check(self, value: Any) -> None:
        """Do for one record what may fail for it; only called to find a culprit."""


class _One(_Chooser):
    """Everything to one subtask."""

    def __init__(self, target: int):
        super().__init__([target])
        self._target = target

    def targets(self, values: list[Any]) -> int:
        return self._target


class _All(_Chooser):
    """Everything to everybody."""

    def targets(self, values: list[Any]) -> tuple[()]:
        return ()


class _RoundRobin(_Chooser):
    """In turn over the receivers; the first of an epoch moves with the epoch, so that small epochs spread too."""

    def __init__(self, receivers: Sequence[int], subtask: int):
        super().__init__(receivers)
        self._subtask = subtask
        self._next = 0

    def begin(self, scope: EpochScope, edge: int) -> None:
        self._next = scope.epoch + self._subtask

    def targets(self, values: list[Any]) -> int | list[int]:
        receivers, count = self.receivers, len(self.receivers)
        if count == 1:
            return receivers[0]
        start = self._next % count
        self._next = start + len(values)
        turns = [*receivers[start:], *receivers[:start]]
        return (turns * (len(values) // count + 1))[: len(values)]


class _Random(_Chooser):
    """At random, from a sequence of the epoch's own."""

    def __init__(self, receivers: Sequence[int], subtask: int):
        super().__init__(receivers)
        self._subtask = subtask
        self._random = random.Random()

    def begin(self, scope: EpochScope, edge: int) -> None:
        self._random.seed(f"{scope.seed}:{scope.epoch}:{edge}:{self._subtask}")

    def targets(self, values: list[Any]) -> list[int]:
        return self._random.choices(self.receivers, k=len(values))


class _ByKey(_Chooser):
    """By key group."""

    def __init__(self, receivers: Sequence[int], select: Callable[[Any], Any], max_parallelism: int, key_type: Any):
        super().__init__(receivers)
        self.select = select  # type: ignore[method-assign,assignment]  # one call less per record
        self._max_parallelism = max_parallelism
        self._index = SubtaskIndex(max_parallelism, len(receivers))
        self._key_type = key_type

    def appends(self, appends: Sequence[Append]) -> AppendIndex | None:
        return AppendIndex(self._max_parallelism, appends) if self._key_type is None else None

    def targets(self, values: list[Any]) -> list[int]:
        keys = list(map(self.select, values))
        if len(keys) != len(values):  # a selector that raises StopIteration ends a map() without a sound
            raise ProgramError("A key selector raised StopIteration.")
        if self._key_type is not None:
            self._key_type.conform(keys)
        return list(map(self._index.__getitem__, keys))

    def check(self, value: Any) -> None:
        key = self.select(value)
        encode_key(key)
        hash(key)
        if self._key_type is not None:
            self._key_type.conform([key])


class _ByUser(_Chooser):
    """By the user's partitioner."""

    def __init__(self, receivers: Sequence[int], partition: Callable[[Any, int], int], select: Callable[[Any], Any]):
        super().__init__(receivers)
        self._partition = partition
        self._select = select

    def targets(self, values: list[Any]) -> list[int]:
        count, partition, select = len(self.receivers), self._partition, self._select
        chosen = [as_index(partition(select(value), count)) for value in values]
        if chosen and not (min(chosen) >= 0 and max(chosen) < count):
            raise ProgramError("A partitioner chose a subtask that does not exist.")
        return chosen

    def check(self, value: Any) -> None:
        chosen, count = self._partition(self._select(value), len(self.receivers)), len(self.receivers)
        if not hasattr(chosen, "__index__") or not 0 <= chosen < count:
            raise ProgramError(
                f"The partitioner of partition_custom chose subtask {chosen!r} of {count}. Return a number from 0 to"
                f" {count - 1}, for example key % num_partitions."
            )


def _chooser(
    partitioning: Partitioning, subtask: int, parallelism: int, targets: int, max_parallelism: int
) -> _Chooser:
    everyone = range(targets)
    match partitioning:
        case Forward():
            return _One(subtask)
        case Global():
            return _GlobalTarget(everyone)
        case Broadcast():
            return _All(everyone)
        case Rebalance():
            return _RoundRobin(everyone, subtask)
        case Rescale():
            return _RoundRobin(rescale_receivers(subtask, parallelism, targets), subtask)
        case Shuffle():
            return _Random(everyone, subtask)
        case Hash(key):
            return _ByKey(everyone, as_key_selector(key.selector), max_parallelism, key.key_type)
        case Custom(partitioner, selector):
            return _ByUser(everyone, as_partitioner(partitioner), as_key_selector(selector))
    raise ProgramError(f"Unknown partitioning {partitioning!r}.")


class _GlobalTarget(_Chooser):
    """All records to the first subtask; everybody hears about event time."""

    def targets(self, values: list[Any]) -> int:
        return 0


def rescale_receivers(subtask: int, parallelism: int, targets: int) -> range:
    """The targets nearest to a sender: Flink's pointwise distribution."""
    if targets >= parallelism:
        start = (subtask * targets + parallelism - 1) // parallelism
        stop = ((subtask + 1) * targets + parallelism - 1) // parallelism
        return range(start, stop)
    target = subtask * targets // parallelism
    return range(target, target + 1)


