"""ValueState, ListState and the other handles over state tables.

These are called for every record: each method is one short step on a dict, with the current key read from
the :class:`CurrentKey` cell that the operator sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flott.datastream.state._handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from flott.runtime.managed_state.kinds.lists import ListTable, PagedListTable
from flott.runtime.managed_state.kinds.maps import MapTable, PagedMapTable
from flott.runtime.managed_state.kinds.values import ValueTable


class CurrentKey:
    """The key of the record being processed. One per operator subtask; its handles read it."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key: Any = None


class TableValueState(ValueState[Any]):
    """One value per key."""

    __slots__ = ("_changed", "_current", "_entries", "_table")

    def __init__(self, table: ValueTable, current: CurrentKey):
        self._current = current
        self._table = table
        self._entries = table.entries
        self._changed = table.changed

    def value(self) -> Any:
        return self._entries.get(self._current.key)

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        key = self._current.key
        self._entries[key] = value
        self._changed[key] = None

    def clear(self) -> None:
        self._table.discard(self._current.key)


class TableReducingState(ReducingState[Any]):
    """One value per key, which is reduced with every value that is added."""

    __slots__ = ("_changed", "_current", "_entries", "_reduce", "_table")

    def __init__(self, table: ValueTable, current: CurrentKey, reduce: Callable[[Any, Any], Any]):
        self._current = current
        self._table = table
        self._entries = table.entries
        self._changed = table.changed
        self._reduce = reduce

    def get(self) -> Any:
        return self._entries.get(self._current.key)

    def add(self, value: Any) -> None:
        key = self._current.key
        entries = self._entries
        entries[key] = self._reduce(entries[key], value) if key in entries else value
        self._changed[key] = None

    def clear(self) -> None:
        self._table.discard(self._current.key)


class TableAggregatingState(AggregatingState[Any, Any]):
    """One accumulator per key; reading it gives the aggregate's result."""

    __slots__ = ("_aggregate", "_changed", "_current", "_entries", "_table")

    def __init__(self, table: ValueTable, current: CurrentKey, aggregate: Any):
        self._current = current
        self._table = table
        self._entries = table.entries
        self._changed = table.changed
        self._aggregate = aggregate

    def get(self) -> Any:
        key = self._current.key
        entries = self._entries
        return self._aggregate.get_result(entries[key]) if key in entries else None

    def add(self, value: Any) -> None:
        key = self._current.key
        entries = self._entries
        accumulator = entries[key] if key in entries else self._aggregate.create_accumulator()
        entries[key] = self._aggregate.add(value, accumulator)
        self._changed[key] = None

    def clear(self) -> None:
        self._table.discard(self._current.key)


class TableListState(ListState[Any]):
    """A list per key."""

    __slots__ = ("_current", "_table")

    def __init__(self, table: ListTable, current: CurrentKey):
        self._current = current
        self._table = table

    def get(self) -> Iterable[Any]:
        # A copy: the caller may add to the state while it iterates.
        return list(self._table.entries.get(self._current.key, ()))

    def add(self, value: Any) -> None:
        self._table.append(self._current.key, (value,))

    def add_all(self, values: Iterable[Any]) -> None:
        if items := list(values):
            self._table.append(self._current.key, items)

    def update(self, values: Iterable[Any]) -> None:
        items = list(values)
        if items or self._current.key in self._table.entries:
            self._table.replace(self._current.key, items)

    def clear(self) -> None:
        if self._current.key in self._table.entries:
            self._table.replace(self._current.key, None)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class TableMapState(MapState[Any, Any]):
    """A map per key."""

    __slots__ = ("_current", "_table")

    def __init__(self, table: MapTable, current: CurrentKey):
        self._current = current
        self._table = table

    def get(self, key: Any) -> Any:
        held = self._table.entries.get(self._current.key)
        return None if held is None else held.get(key)

    def put(self, key: Any, value: Any) -> None:
        self._table.put_item(self._current.key, key, value)

    def put_all(self, dict_value: Iterable[tuple[Any, Any]] | Mapping[Any, Any]) -> None:
        items = dict_value.items() if isinstance(dict_value, Mapping) else dict_value
        for key, value in items:
            self._table.put_item(self._current.key, key, value)

    def remove(self, key: Any) -> None:
        self._table.remove_item(self._current.key, key)

    def contains(self, key: Any) -> bool:
        held = self._table.entries.get(self._current.key)
        return held is not None and key in held

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._held().items())

    def keys(self) -> Iterable[Any]:
        return list(self._held())

    def values(self) -> Iterable[Any]:
        return list(self._held().values())

    def is_empty(self) -> bool:
        return self._current.key not in self._table.entries

    def clear(self) -> None:
        self._table.clear_entry(self._current.key)

    def _held(self) -> dict[Any, Any]:
        return self._table.entries.get(self._current.key, {})


class PagedListState(TableListState):
    """A list per key in a database, iterated without being loaded."""

    __slots__ = ()

    def get(self) -> Iterable[Any]:
        return iter(self._table.entries[self._current.key])


class PagedMapState(TableMapState):
    """A map per key in a database, of which items are fetched one by one."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        return self._table.entries[self._current.key].get(key)

    def contains(self, key: Any) -> bool:
        return key in self._table.entries[self._current.key]

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._table.entries[self._current.key].items())

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        return (value for _, value in self.items())


def list_state(table: ListTable, current: CurrentKey) -> TableListState:
    """Return the handle of a list state over a table."""
    return (PagedListState if isinstance(table, PagedListTable) else TableListState)(table, current)


def map_state(table: MapTable, current: CurrentKey) -> TableMapState:
    """Return the handle of a map state over a table."""
    return (PagedMapState if isinstance(table, PagedMapTable) else TableMapState)(table, current)
