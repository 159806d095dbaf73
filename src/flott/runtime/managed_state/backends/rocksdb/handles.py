"""ListState and MapState over the database: what is iterated is fetched as it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flott.runtime.managed_state.handles import TableListState, TableMapState


class PagedListState(TableListState):
    """A list per key, iterated without being loaded."""

    __slots__ = ()

    def get(self) -> Iterable[Any]:
        return iter(self._table.entries[self._current.key])


class PagedMapState(TableMapState):
    """A map per key, of which items are fetched one by one."""

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
