"""ValueState, ListState and their kin with a time to live, over tables of stamped values (see ``ttl.time_to_live``).

They are handles of their own, so that state without a time to live pays nothing for it. Reading does what
Flink's does: what has expired is not seen, or once more if the program asked for that, and is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flott.datastream.state._handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.kinds.lists import ListTable
from flott.runtime.managed_state.kinds.maps import MapTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.runtime.managed_state.ttl.expiry import Expiry

_Stamped = tuple[Any, int]


def _reader_of(entries: dict[Any, Any]) -> Callable[[Any], Any]:
    """Return what gives the list or map of an entry: None, or an empty one, if there is none."""
    return entries.get if entries.__class__ is dict else entries.__getitem__  # others open one without looking into it


class _ExpiringSingle:
    """One stamped value per key."""

    __slots__ = ("_changed", "_clock", "_current", "_entries", "_expiry", "_table")

    def __init__(self, table: ValueTable, current: CurrentKey, expiry: Expiry):
        self._current = current
        self._table = table
        self._entries = table.entries
        self._changed = table.changed
        self._expiry = expiry
        self._clock = expiry.clock

    def clear(self) -> None:
        self._expiry.touches += 1
        self._table.discard(self._current.key)

    def holds(self) -> bool:
        """Return whether there is a value to be seen; asking prolongs no life."""
        held = self._entries.get(self._current.key)
        return held is not None and self._expiry.is_visible(held)

    def _read(self) -> _Stamped | None:
        """Return what the current key holds, if it may be seen."""
        expiry = self._expiry
        expiry.touches += 1
        key = self._current.key
        held: _Stamped | None = self._entries.get(key)
        if held is None:
            return None
        value, stamp = held
        if stamp + expiry.ms > self._clock.now:
            if expiry.on_read and expiry.is_prolonged(stamp):
                self._entries[key] = (value, self._clock.stamp)
                self._changed[key] = None
            return held
        if expiry.is_lapsed(held):
            self._table.discard(key)
        return held if expiry.is_visible(held) else None

    def _found(self) -> _Stamped | None:
        """Return what the current key holds, if it may be seen: about to be replaced."""
        self._expiry.touches += 1
        held: _Stamped | None = self._entries.get(self._current.key)
        return held if held is not None and self._expiry.is_visible(held) else None

    def _write(self, value: Any) -> None:
        key = self._current.key
        self._entries[key] = (value, self._clock.stamp)
        self._changed[key] = None

    def _unite(self, into: Any, others: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        entries, is_visible = self._entries, self._expiry.is_visible
        seen = [stamped[0] for entry in (into, *others) if (stamped := entries.get(entry)) and is_visible(stamped)]
        for other in others:
            self._table.discard(other)
        if not seen:
            return
        united = seen[0]
        for value in seen[1:]:
            united = merge(united, value)
        entries[into] = (united, self._clock.stamp)
        self._changed[into] = None


class ExpiringValueState(_ExpiringSingle, ValueState[Any]):
    """One value per key."""

    __slots__ = ()

    def value(self) -> Any:
        held = self._read()
        return None if held is None else held[0]

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        self._expiry.touches += 1
        self._write(value)


class ExpiringReducingState(_ExpiringSingle, ReducingState[Any]):
    """One value per key, which is reduced with every value that is added."""

    __slots__ = ("_reduce",)

    def __init__(
        self, table: ValueTable, current: CurrentKey, expiry: Expiry, reduce: Callable[[Any, Any], Any]
    ):
        super().__init__(table, current, expiry)
        self._reduce = reduce

    def get(self) -> Any:
        held = self._read()
        return None if held is None else held[0]

    def add(self, value: Any) -> None:
        held = self._found()
        self._write(value if held is None else self._reduce(held[0], value))

    def unite(self, into: Any, others: Iterable[Any]) -> None:
        """Reduce the values of some entries, which are deleted, into that of another."""
        self._unite(into, list(others), self._reduce)


class ExpiringAggregatingState(_ExpiringSingle, AggregatingState[Any, Any]):
    """One accumulator per key; reading it gives the aggregate's result."""

    __slots__ = ("_aggregate",)

    def __init__(self, table: ValueTable, current: CurrentKey, expiry: Expiry, aggregate: Any):
        super().__init__(table, current, expiry)
        self._aggregate = aggregate

    def get(self) -> Any:
        held = self._read()
        return None if held is None else self._aggregate.get_result(held[0])

    def add(self, value: Any) -> None:
        held = self._found()
        accumulator = self._aggregate.create_accumulator() if held is None else held[0]
        self._write(self._aggregate.add(value, accumulator))

    def unite(self, into: Any, others: Iterable[Any]) -> None:
        """Merge the accumulators of some entries, which are deleted, into that of another."""
        self._unite(into, list(others), self._aggregate.merge)


class ExpiringListState(ListState[Any]):
    """A list per key, each of whose elements expires on its own."""

    __slots__ = ("_clock", "_current", "_expiry", "_held", "_table")

    def __init__(self, table: ListTable, current: CurrentKey, expiry: Expiry):
        self._current = current
        self._table = table
        self._held = _reader_of(table.entries)
        self._expiry = expiry
        self._clock = expiry.clock

    def get(self) -> Iterable[Any]:
        expiry, entry = self._expiry, self._current.key
        expiry.touches += 1
        held = self._held(entry)
        if not held:
            return []
        horizon = self._clock.now - expiry.lifespan_ms
        seen = (value for value, stamp in held if stamp > horizon)
        kept = self._kept(held)
        if kept is held:
            # A copy, of a list in memory: the caller may add to the state while it iterates.
            return list(seen) if held.__class__ is list else seen
        values = list(seen)
        self._table.replace(entry, kept)
        return values

    def _kept(self, held: list[_Stamped]) -> list[_Stamped]:
        """Return what reading leaves of a list: itself, unless it was prolonged or much of it is to be removed."""
        expiry, ms, now, new_stamp = self._expiry, self._expiry.ms, self._clock.now, self._clock.stamp
        if expiry.on_read and any(stamp + ms > now and expiry.is_prolonged(stamp) for _, stamp in held):
            return [
                (item[0], new_stamp) if item[1] + ms > now and expiry.is_prolonged(item[1]) else item
                for item in held
                if not expiry.is_lapsed(item)
            ]
        lapsed = gone = 0
        for item in held:
            lapsed += expiry.is_lapsed(item)
            gone += expiry.is_gone(item)
        if lapsed == len(held):
            return []
        # The list is saved whole: not for a few elements.
        return held if 2 * gone < len(held) else [item for item in held if not expiry.is_gone(item)]

    def add(self, value: Any) -> None:
        self._expiry.touches += 1
        self._table.append(self._current.key, ((value, self._clock.stamp),))

    def add_all(self, values: Iterable[Any]) -> None:
        self._expiry.touches += 1
        if items := self._stamped(values):
            self._table.append(self._current.key, items)

    def update(self, values: Iterable[Any]) -> None:
        self._expiry.touches += 1
        items = self._stamped(values)
        if items or self._current.key in self._table.entries:
            self._table.replace(self._current.key, items)

    def clear(self) -> None:
        self._expiry.touches += 1
        if self._current.key in self._table.entries:
            self._table.replace(self._current.key, None)

    def holds(self) -> bool:
        """Return whether there is an element to be seen; asking prolongs no life."""
        return any(map(self._expiry.is_visible, self._held(self._current.key) or ()))

    def unite(self, into: Any, others: Iterable[Any]) -> None:
        """Append the lists of some entries, which are deleted, to that of another; every element keeps its age."""
        self._table.unite(into, others)

    def _stamped(self, values: Iterable[Any]) -> list[_Stamped]:
        stamp = self._clock.stamp
        return [(value, stamp) for value in values]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class ExpiringMapState(MapState[Any, Any]):
    """A map per key, each of whose items expires on its own."""

    __slots__ = ("_clock", "_current", "_expiry", "_held", "_table")

    def __init__(self, table: MapTable, current: CurrentKey, expiry: Expiry):
        self._current = current
        self._table = table
        self._held = _reader_of(table.entries)
        self._expiry = expiry
        self._clock = expiry.clock

    def get(self, key: Any) -> Any:
        stamped = self._read(key)
        return None if stamped is None else stamped[0]

    def contains(self, key: Any) -> bool:
        return self._read(key) is not None

    def put(self, key: Any, value: Any) -> None:
        self._expiry.touches += 1
        self._put(key, value)

    def put_all(self, dict_value: Iterable[tuple[Any, Any]] | Mapping[Any, Any]) -> None:
        self._expiry.touches += 1
        for key, value in dict_value.items() if isinstance(dict_value, Mapping) else dict_value:
            self._put(key, value)

    def remove(self, key: Any) -> None:
        self._expiry.touches += 1
        self._table.remove_item(self._current.key, key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._read_all(lambda key, value: (key, value))

    def keys(self) -> Iterable[Any]:
        return self._read_all(lambda key, value: key)

    def values(self) -> Iterable[Any]:
        return self._read_all(lambda key, value: value)

    def is_empty(self) -> bool:
        self._expiry.touches += 1
        return not self.holds()

    def clear(self) -> None:
        self._expiry.touches += 1
        self._table.clear_entry(self._current.key)

    def holds(self) -> bool:
        """Return whether there is an item to be seen; asking prolongs no life."""
        held = self._held(self._current.key)
        return held is not None and any(map(self._expiry.is_visible, held.values()))

    def _put(self, key: Any, value: Any) -> None:
        entry = self._current.key
        held = self._held(entry)
        if held is not None and (former := held.get(key)) is not None and self._expiry.is_gone(former):
            self._table.remove_item(entry, key)  # it may be swept out already: either way the new one is the last item
        self._table.put_item(entry, key, (value, self._clock.stamp))

    def _read(self, key: Any) -> _Stamped | None:
        """Return what stands under a key of the current key's map, if it may be seen."""
        self._expiry.touches += 1
        entry = self._current.key
        held = self._held(entry)
        stamped: _Stamped | None = None if held is None else held.get(key)
        return None if stamped is None else self._seen(entry, key, stamped)

    def _read_all(self, shape: Callable[[Any, Any], Any]) -> Iterable[Any]:
        """Return all items that may be seen, each as ``shape`` of its key and its value."""
        self._expiry.touches += 1
        entry = self._current.key
        held = self._held(entry)
        if held is None:
            return []
        is_in_memory = held.__class__ is dict
        # A copy, of a map in memory: seeing may change it, and so may the caller while it iterates.
        found = list(held.items()) if is_in_memory else held.items()
        seen = (shape(key, item[0]) for key, item in found if self._seen(entry, key, item) is not None)
        return list(seen) if is_in_memory else seen

    def _seen(self, entry: Any, key: Any, stamped: _Stamped) -> _Stamped | None:
        """Return an item, if it may be seen; reading prolongs its life or removes it."""
        expiry = self._expiry
        value, stamp = stamped
        if stamp + expiry.ms > self._clock.now:
            if expiry.on_read and expiry.is_prolonged(stamp):
                self._table.put_item(entry, key, (value, self._clock.stamp))
            return stamped
        if expiry.is_lapsed(stamped):
            self._table.remove_item(entry, key)
        return stamped if expiry.is_visible(stamped) else None


#: State with a time to live that can be merged.
ExpiringMergingState = ExpiringListState | ExpiringReducingState | ExpiringAggregatingState
#: Any state with a time to live.
ExpiringState = ExpiringMergingState | ExpiringValueState | ExpiringMapState
