"""Collections in the accumulator of an aggregate function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["DataView", "ListView", "MapView"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView(ABC):
    """The root of collections in accumulators."""

    @abstractmethod
    def clear(self) -> None:
        """Remove everything."""


class ListView(DataView, Generic[T]):
    """A list in an accumulator.

    >>> view = ListView(); view.add(1); list(view.get())
    [1]
    """

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._list = list(values)

    def get(self) -> Iterable[T]:
        """Return the elements."""
        return self._list

    def add(self, value: T) -> None:
        """Add an element at the end."""
        self._list.append(value)

    def add_all(self, values: list[T]) -> None:
        """Add elements at the end."""
        self._list.extend(values)

    def clear(self) -> None:
        self._list = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListView) and self._list == other._list

    def __hash__(self) -> int:
        return hash(tuple(self._list))

    def __getitem__(self, position: int) -> T:
        return self._list[position]

    def __len__(self) -> int:
        return len(self._list)


class MapView(Generic[K, V]):
    """A map in an accumulator."""

    def __init__(self, values: dict[K, V] | None = None) -> None:
        self._dict: dict[K, V] = dict(values or {})

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if there is none."""
        return self._dict.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        self._dict[key] = value

    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several keys."""
        self._dict.update(dict_value)

    def remove(self, key: K) -> None:
        """Remove a key."""
        del self._dict[key]

    def contains(self, key: K) -> bool:
        """Return whether a key has a value."""
        return key in self._dict

    def items(self) -> Iterable[tuple[K, V]]:
        """Return keys and values."""
        return self._dict.items()

    def keys(self) -> Iterable[K]:
        """Return the keys."""
        return self._dict.keys()

    def values(self) -> Iterable[V]:
        """Return the values."""
        return self._dict.values()

    def is_empty(self) -> bool:
        """Return whether there is no key."""
        return not self._dict

    def clear(self) -> None:
        """Remove everything."""
        self._dict.clear()

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return key in self._dict

    def __iter__(self) -> Iterator[K]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapView) and self._dict == other._dict

    def __hash__(self) -> int:
        return hash(frozenset(self._dict))
