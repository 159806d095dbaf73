"""Handles to broadcast state: a map that is the same in every subtask. Interfaces; the runtime implements them in
tasks.

    State ── clear
    └── ReadOnlyBroadcastState    for the stream that is not broadcast
        └── BroadcastState        for the broadcast stream

Values are the program's own objects and are not copied: change one in place, and nothing tells the runtime.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic

from flott.datastream.state._handles import K, State, V


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """Broadcast state as a function that must not change it sees it. An attempt to change it is an error.

    Unlike in a dict, a key that is not there reads as ``None``.
    """

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value stored under ``key``; ``None`` if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is an entry for ``key``."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries as pairs, in the order in which their keys were first put."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry at all."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """Broadcast state as the broadcast stream sees it. What is done to it must be the same in every subtask."""

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
