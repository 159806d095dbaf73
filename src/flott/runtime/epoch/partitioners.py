"""Record -> target subtask: one chooser per partitioning. Task side.

A chooser returns one target for a whole batch (an int), an empty tuple if all targets get it, or a list with one target
per record; a numpy array of positions for each target where the key is made of columns. A chooser that goes by key also
gives an index of targets, so that a record costs one lookup.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import index as as_index
from operator import itemgetter
from typing import Any, TypeVar

from flott.common._frozen import freezing, is_hashable
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.datastream._field_functions import NamedField
from flott.datastream.functions._callables import as_key_selector, as_partitioner
from flott.errors import ProgramError
from flott.graph.column_key import ColumnKey
from flott.graph.partitioning import Broadcast, Custom, Forward, Global, Hash, Partitioning, Rebalance, Rescale, Shuffle
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.key_groups import TargetIndex
from flott.runtime.operators.batch import Batch, ColumnBatch
from flott.runtime.operators.operator import EpochScope

T = TypeVar("T")


class Positions:
    """For each target, the positions of its records in a batch of columns, as a numpy array."""

    __slots__ = ("by_target",)

    def __init__(self, by_target: list[Any]):
        self.by_target = by_target


class Chooser:
    """Chooses targets."""

    def __init__(self, receivers: Sequence[int]):
        self.receivers = receivers  #: the subtasks that are told about the sender's event time

    def begin(self, scope: EpochScope, edge: int) -> None:
        """Start a new epoch."""

    def targets(self, batch: Batch) -> int | tuple[()] | list[int] | Positions:
        """Return where the records of a batch go. Rows are made of columns only if the choice needs whole records."""
        raise NotImplementedError

    def by_key(self, targets: Sequence[T]) -> TargetIndex[T] | None:
        """Return an index from keys to what stands for their targets, if targets are chosen by key only."""
        return None

    def select(self, value: Any) -> Any:
        """Return the key of a record."""
        raise NotImplementedError

    def select_in(self, values: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the function that gives the keys of a batch."""
        return self.select

    def check(self, value: Any) -> None:
        """Do for one record what may fail for it; only called to find the record that fails."""


class _One(Chooser):
    """All records to one subtask."""

    def __init__(self, target: int):
        super().__init__([target])
        self._target = target

    def targets(self, batch: Batch) -> int:
        return self._target


class _All(Chooser):
    """All records to all subtasks."""

    def targets(self, batch: Batch) -> tuple[()]:
        return ()


class _RoundRobin(Chooser):
    """In turn over the receivers; the first of an epoch moves with the epoch, so that small epochs spread too."""

    def __init__(self, receivers: Sequence[int], subtask: int):
        super().__init__(receivers)
        self._subtask = subtask
        self._next = 0

    def begin(self, scope: EpochScope, edge: int) -> None:
        self._next = scope.epoch + self._subtask

    def targets(self, batch: Batch) -> int | list[int]:
        receivers, count, size = self.receivers, len(self.receivers), len(batch)
        if count == 1:
            return receivers[0]
        start = self._next % count
        self._next = start + size
        turns = [*receivers[start:], *receivers[:start]]
        return (turns * (size // count + 1))[:size]


class _Random(Chooser):
    """At random, from a sequence of the epoch's own."""

    def __init__(self, receivers: Sequence[int], subtask: int):
        super().__init__(receivers)
        self._subtask = subtask
        self._random = random.Random()

    def begin(self, scope: EpochScope, edge: int) -> None:
        self._random.seed(f"{scope.seed}:{scope.epoch}:{edge}:{self._subtask}")

    def targets(self, batch: Batch) -> list[int]:
        return self._random.choices(self.receivers, k=len(batch))


class _ByKey(Chooser):
    """By key group."""

    def __init__(self, receivers: Sequence[int], select: Callable[[Any], Any], max_parallelism: int, key_type: Any):
        super().__init__(receivers)
        self.select = select  # type: ignore[method-assign,assignment]  # one call less per record
        self._frozen = False
        self._max_parallelism = max_parallelism
        self._key_type = key_type
        self._index = TargetIndex(max_parallelism, receivers, key_type)

    def targets(self, batch: Batch) -> int | list[int] | Positions:
        index, select = self._index, self.select
        if isinstance(batch, ColumnBatch) and (keys := _key_column(batch, select)) is not None:
            return [index[key] for key in keys]
        values = batch.to_rows().values
        of = self.select_in(values)
        return [index[of(value)] for value in values]

    def select_in(self, values: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the key selector for a batch. Its first key decides whether keys are frozen."""
        if not self._frozen and values:
            with suppress(Exception):  # a selector that fails here fails again where it is reported
                if not is_hashable(self.select(values[0])):
                    self.select, self._frozen = freezing(self.select), True  # type: ignore[method-assign,assignment]
        return self.select

    def by_key(self, targets: Sequence[T]) -> TargetIndex[T] | None:
        return TargetIndex(self._max_parallelism, targets, self._key_type)

    def check(self, value: Any) -> None:
        key = self.select(value)
        encode_key(key)
        hash(key)
        if self._key_type is not None:
            self._key_type.conform([key])


class _ByColumns(_ByKey):
    """By key group, where columns make up the key: all records of a batch at once."""

    def __init__(self, receivers: Sequence[int], key: ColumnKey, max_parallelism: int, key_type: Any):
        super().__init__(receivers, key, max_parallelism, key_type)
        self._indices = key.indices

    def targets(self, batch: Batch) -> int | list[int] | Positions:
        if len(self.receivers) == 1:
            return 0
        if not isinstance(batch, ColumnBatch):
            return super().targets(batch)
        from flott.runtime.managed_state.column_keys import cut, targets_of  # numpy is optional: only columns need it

        columns = [batch.columns.column(index) for index in self._indices]
        count = len(self.receivers)
        return Positions(cut(targets_of(columns, self._max_parallelism, count, len(batch)), count))


def _key_column(batch: ColumnBatch, select: Callable[[Any], Any]) -> list[Any] | None:
    """Return the keys of a batch of columns, if the selector reads one of them; otherwise None."""
    position: Any = None
    if isinstance(select, NamedField) and isinstance(batch.record_type, RowTypeInfo | NamedTupleTypeInfo):
        names: list[str] = batch.columns.schema.names
        position = names.index(select.name) if select.name in names else None
    elif isinstance(select, itemgetter) and isinstance(batch.record_type, TupleTypeInfo | NamedTupleTypeInfo):
        made_of: Any = select.__reduce__()[1]
        position = made_of[0] if len(made_of) == 1 else None
    width = batch.columns.num_columns
    if not isinstance(position, int) or not -width <= position < width:
        return None
    return batch.columns.column(position % width).to_pylist()  # type: ignore[no-any-return]


class _ByUser(Chooser):
    """By the user's partitioner."""

    def __init__(self, receivers: Sequence[int], partition: Callable[[Any, int], int], select: Callable[[Any], Any]):
        super().__init__(receivers)
        self._partition = partition
        self._select = select

    def targets(self, batch: Batch) -> list[int]:
        count, partition, select = len(self.receivers), self._partition, self._select
        chosen = [as_index(partition(select(value), count)) for value in batch.to_rows().values]
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


def make_chooser(
    partitioning: Partitioning, subtask: int, parallelism: int, targets: int, max_parallelism: int
) -> Chooser:
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
            if isinstance(key.selector, ColumnKey):
                return _ByColumns(everyone, key.selector, max_parallelism, key.key_type)
            select = key.getter or as_key_selector(key.selector)
            return _ByKey(everyone, select, max_parallelism, key.key_type)
        case Custom(partitioner, selector):
            return _ByUser(everyone, as_partitioner(partitioner), as_key_selector(selector))
    raise ProgramError(f"Unknown partitioning {partitioning!r}.")


class _GlobalTarget(Chooser):
    """All records to the first subtask; all receivers are told about event time."""

    def targets(self, batch: Batch) -> int:
        return 0


def rescale_receivers(subtask: int, parallelism: int, targets: int) -> range:
    """Return the targets nearest to a sender: Flink's pointwise distribution."""
    if targets >= parallelism:
        start = (subtask * targets + parallelism - 1) // parallelism
        stop = ((subtask + 1) * targets + parallelism - 1) // parallelism
        return range(start, stop)
    target = subtask * targets // parallelism
    return range(target, target + 1)


