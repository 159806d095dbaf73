"""Handles to keyed state, which user functions read and write. Interfaces; the runtime implements them in tasks.

    State ── clear
    ├── ValueState                one value
    ├── MapState                  keys and values
    └── AppendingState            get, add
        └── MergingState          … and two can be merged, when windows merge
            ├── ListState         every value that was added
            ├── ReducingState     the values reduced to one of the same type
            └── AggregatingState  the values aggregated to a result of another type

A handle accesses only the state of the current record's (or timer's) key. Values are the program's own objects. The
runtime does not detect a change in place: always write the value back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """The state of the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the current key's state."""


class ValueState(State, Generic[T]):
    """One value per key::

        count = self.count.value() or 0
        self.count.update(count + 1)
    """

    @abstractmethod
    def value(self) -> T | None:
        """Return the current key's value, or ``None``."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the current key's value. ``None`` removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added, and which is read as a whole."""

    @abstractmethod
    def get(self) -> OUT | None:
        """Return the result of the current key's values, or ``None`` (an empty iterable for a list)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value to the current key's state."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged, when windows merge."""


class ReducingState(MergingState[T, T]):
    """One value per key: all added values, combined with the descriptor's reduce function."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key, read as the result of the descriptor's aggregate function."""


class ListState(MergingState[T, Iterable[T]]):
    """One list per key::

        self.events.add(event)
        for event in self.events:
            ...
    """

    @abstractmethod
    def get(self) -> Iterable[T]:
        """Return the current key's values in the order in which they were added."""

    @abstractmethod
    def update(self, values: Sequence[T]) -> None:
        """Replace the current key's list."""

    @abstractmethod
    def add_all(self, values: Sequence[T]) -> None:
        """Add several values at the end of the current key's list."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapReading(State, Generic[K, V]):
    """The read methods of a map in state. Unlike a dict, it returns ``None`` for a missing key."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of ``key``, or ``None``."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether there is an entry for ``key``."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return all entries as pairs, in the order in which their keys were first put."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return all keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return all values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no entry."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class MapWriting(MapReading[K, V]):
    """The write methods of a map in state. Deleting a missing key is not an error."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Store a value under ``key``."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Store all entries of ``dict_value``."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove the entry of ``key``, if there is one."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(MapWriting[K, V]):
    """One map per key, read and written by entry::

        self.seen[event.id] = event.time
        if event.id in self.seen: ...

    Unlike a dict, it returns ``None`` for a missing key, and deleting a missing key is not an error.
    """
