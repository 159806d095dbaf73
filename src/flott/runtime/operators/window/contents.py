"""What a window holds until it fires: one folded value, or its elements. Task side.

An *entry* is a pair of key and namespace. ``take`` gives what the window function gets, as a list; None if the window
holds nothing. Contents that stay after that may be changed in place by the records to come, so what is taken is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Protocol

from flott.datastream.functions._callables import as_reduce
from flott.datastream.window._evictors import Evictor, TimestampedValue
from flott.graph.specs import AggregateFold, ReduceFold
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.lists import ListTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.runtime.operators.window.holdings import ELEMENTS, FOLDED, TIMESTAMPED_ELEMENTS

Entry = tuple[Any, Any]


class WindowFold(Protocol):
    """Folds records into one value."""

    def first(self, value: Any) -> Any:
        """Return the folded value of a single record."""

    def add(self, value: Any, folded: Any) -> Any:
        """Return the folded value with one more record."""

    def merge(self, folded: Any, other: Any) -> Any:
        """Return the folded value of two windows that have become one."""

    def result(self, folded: Any) -> Any:
        """Return what is emitted."""


class Reducing:
    """Folds with a ReduceFunction."""

    def __init__(self, function: Any):
        self.reduce: Callable[[Any, Any], Any] = as_reduce(function)

    def first(self, value: Any) -> Any:
        return value

    def add(self, value: Any, folded: Any) -> Any:
        return self.reduce(folded, value)

    def merge(self, folded: Any, other: Any) -> Any:
        return self.reduce(folded, other)

    def result(self, folded: Any) -> Any:
        return folded


class Aggregating:
    """Folds with an AggregateFunction. Its methods stand here as attributes: one call less per record."""

    def __init__(self, function: Any):
        self.create = function.create_accumulator
        self.add = function.add
        self.merge = function.merge
        self.result = function.get_result

    def first(self, value: Any) -> Any:
        return self.add(value, self.create())


def make_fold(spec: ReduceFold | AggregateFold) -> Reducing | Aggregating:
    """Return the fold that a spec describes."""
    return Reducing(spec.function) if isinstance(spec, ReduceFold) else Aggregating(spec.function)


class WindowContents(Protocol):
    """What the window operator needs of the contents of its windows."""

    holding: str  #: the name of the state

    def __contains__(self, entry: Entry) -> bool:
        """Return whether a window holds something."""

    def add(self, entry: Entry, value: Any, timestamp: int) -> None:
        """Put a record into a window."""

    def take(self, entry: Entry, window: Any, stays: bool) -> list[Any] | None:
        """Return what the window function is given; ``stays``: the window may get more records, and fire again."""

    def fired(self, entry: Entry, window: Any) -> None:
        """Take note that the window function has returned."""

    def clear(self, entry: Entry) -> None:
        """Forget the contents of a window."""

    def merge(self, into: Entry, others: Iterable[Entry]) -> None:
        """Move the contents of some windows into another."""

    def restore(self, entry: Entry, held: Any) -> None:
        """Put in what another operator held for a window."""


class FoldedContents:
    """One folded value per window."""

    holding = FOLDED

    def __init__(self, state: KeyedState, fold: WindowFold):
        self._table: ValueTable = state.value_table(FOLDED, namespaced=True)
        self._fold = fold

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._table.entries

    def add(self, entry: Entry, value: Any, timestamp: int) -> None:
        entries = self._table.entries
        if entry in entries:
            entries[entry] = self._fold.add(value, entries[entry])
        else:
            entries[entry] = self._fold.first(value)
        self._table.changed[entry] = None

    def take(self, entry: Entry, window: Any, stays: bool) -> list[Any] | None:
        entries = self._table.entries
        if entry not in entries:
            return None
        result = self._fold.result(entries[entry])
        return [deepcopy(result) if stays else result]

    def fired(self, entry: Entry, window: Any) -> None:
        pass

    def clear(self, entry: Entry) -> None:
        self._table.discard(entry)

    def merge(self, into: Entry, others: Iterable[Entry]) -> None:
        self._table.unite(into, others, self._fold.merge)

    def restore(self, entry: Entry, held: Any) -> None:
        self._table.entries[entry] = held
        self._table.changed[entry] = None


class ElementContents:
    """All elements of a window, as they came."""

    holding = ELEMENTS

    def __init__(self, state: KeyedState):
        self._table: ListTable = state.list_table(self.holding, namespaced=True)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._table.entries

    def add(self, entry: Entry, value: Any, timestamp: int) -> None:
        self._table.append(entry, (value,))

    def take(self, entry: Entry, window: Any, stays: bool) -> list[Any] | None:
        held = self._table.entries.get(entry)
        return None if held is None else list(held)

    def fired(self, entry: Entry, window: Any) -> None:
        pass

    def clear(self, entry: Entry) -> None:
        if entry in self._table.entries:
            self._table.replace(entry, None)

    def merge(self, into: Entry, others: Iterable[Entry]) -> None:
        self._table.unite(into, others)

    def restore(self, entry: Entry, held: Any) -> None:
        self._table.replace(entry, held)


class EvictedContents(ElementContents):
    """All elements with their timestamps; an evictor removes some before or after the window function runs."""

    holding = TIMESTAMPED_ELEMENTS

    def __init__(self, state: KeyedState, evictor: Evictor[Any, Any], context: Any, fold: WindowFold | None):
        super().__init__(state)
        self._evictor = evictor
        self._context = context
        self._fold = fold
        self._taken: list[TimestampedValue[Any]] = []

    def add(self, entry: Entry, value: Any, timestamp: int) -> None:
        self._table.append(entry, ((value, timestamp),))

    def take(self, entry: Entry, window: Any, stays: bool) -> list[Any] | None:
        held = self._table.entries.get(entry)
        if held is None:
            return None
        self._taken = elements = [TimestampedValue(value, timestamp) for value, timestamp in held]
        self._evictor.evict_before(elements, len(elements), window, self._context)
        values = [element.value for element in elements]
        if self._fold is None:
            return values
        if not values:  # nothing is left to fold
            return [self._fold.result(self._fold.create())] if isinstance(self._fold, Aggregating) else []
        folded = self._fold.first(values[0])
        for value in values[1:]:
            folded = self._fold.add(value, folded)
        return [self._fold.result(folded)]

    def fired(self, entry: Entry, window: Any) -> None:
        elements = self._taken
        self._evictor.evict_after(elements, len(elements), window, self._context)
        held = self._table.entries.get(entry)
        if held is not None and len(elements) != len(held):
            self._table.replace(entry, [(element.value, element.timestamp) for element in elements])
