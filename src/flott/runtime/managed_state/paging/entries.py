"""Entries that have several rows, as those of maps and lists do: their names, and what of them is open.

<C or P> <place: table, key group, entry behind its length>           the entry's own row
<C or P> <place> i <what tells the item apart>                        one of its items
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, TablePlace
from flott.runtime.managed_state.paging.rows import entry_bytes, lengthy, loads, table_bytes


class Places:
    """Where the entries of one table stand in the database."""

    __slots__ = ("_entry_bytes", "_prefix", "_store")

    def __init__(self, place: TablePlace):
        self._store = place.store
        self._prefix = table_bytes(place.name)
        self._entry_bytes = entry_bytes(place.namespaced, place.max_parallelism)

    def of(self, entry: Any) -> bytes:
        """Return the name of an entry's row, without the first byte."""
        encoded = self._entry_bytes(entry)
        return self._prefix + encoded[:2] + lengthy(encoded[2:])

    def entries(self) -> Iterator[Any]:
        """Return the entries that have a row of their own, committed or pending; some twice, and some hold nothing."""
        for kind in (COMMITTED, PENDING) if self._store.put_aside else (COMMITTED,):
            for _, found in self._entry_rows(kind):
                yield loads(found)[0]

    def walk(
        self, opened: OpenedEntries, cursor: bytes | None, count: int
    ) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """Return the next so many committed entries and what they hold now, and where to go on."""
        rows = list(islice(self._entry_rows(COMMITTED, cursor or b""), count + 1))
        entries = [loads(found)[0] for _, found in rows[:count]]
        held = [(entry, opened[entry]) for entry in entries if entry in opened]
        return held, rows[count][0] if len(rows) > count else None

    def pending(self, group: int) -> Iterator[tuple[bool, Any]]:
        """Return what was put aside of a key group: whether it is an entry's own row, and what stands there."""
        for row, found in self._store.scan(PENDING + self._prefix + group.to_bytes(2, "big")):
            yield _is_own(row), loads(found)

    def clear(self, kind: bytes, entry: Any) -> None:
        """Delete the rows of an entry one by one: ranges that are deleted make later reads slow."""
        for row, _ in self._store.scan(kind + self.of(entry)):
            self._store.delete(row)

    def _entry_rows(self, kind: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return ((row, found) for row, found in self._store.scan(kind + self._prefix, start) if _is_own(row))


def _is_own(row: bytes) -> bool:
    """Return whether a row is that of an entry, not of one of its items: nothing follows the entry."""
    return len(row) == 11 + int.from_bytes(row[7:11], "big")


class OpenedEntries(dict[Any, Any]):
    """Maps or lists in use, by entry, opened when they are asked for. Each entry has one; it may be empty."""

    __slots__ = ("_open", "_stored")

    def __init__(self, open_entry: Callable[[Any], Any], stored: Callable[[], Iterable[Any]]):
        super().__init__()
        self._open = open_entry
        self._stored = stored

    def __missing__(self, entry: Any) -> Any:
        opened = self[entry] = self._open(entry)
        return opened

    def get(self, entry: Any, default: Any = None) -> Any:
        return self[entry] if entry in self else default  # noqa: SIM401 - it is get() that is written here

    def __contains__(self, entry: object) -> bool:
        return self[entry].has_any()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return (entry for entry in dict.fromkeys([*self._stored(), *dict.keys(self)]) if entry in self)

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        return ((entry, self[entry]) for entry in self)

    def in_use(self) -> Iterable[tuple[Any, Any]]:
        """Return those that were opened."""
        return dict.items(self)
