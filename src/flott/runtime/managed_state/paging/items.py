"""A dict whose items are in the database until they are asked for.

Code that works with the dict of a table in memory works with this one, too: an item that is here costs what it costs in
a dict, and one that is not is fetched. An item that is named in ``changed`` but not here was deleted by the running
epoch.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, RowStore
from flott.runtime.managed_state.paging.rows import EntryBytes, loads

_ABSENT = object()

#: What a map or a list that is open takes in memory, without what is in it.
CONTAINER_BYTES = 1024
#: So many items are looked at to estimate the size of all.
SAMPLE = 8


class PagedItems(dict[Any, Any]):
    """Items of one table, or of one map in it. Each has a row of its own, which holds the item and its value; if the
    running epoch has deleted it and put that aside, the item alone."""

    __slots__ = ("_absent", "_prefix", "_store", "changed", "hidden")

    def __init__(self, store: RowStore, prefix: bytes, changed: dict[Any, Any]):
        super().__init__()
        self._store = store
        self._prefix = prefix  #: of rows, without the first byte
        self.changed = changed
        self.hidden = False  #: whether the committed items no longer count: the epoch has cleared them
        self._absent: set[Any] = set()

    def row(self, item: Any) -> bytes:
        """Return the name of an item's row, without its first byte."""
        raise NotImplementedError

    def is_deleted(self, item: Any) -> bool:
        """Return whether the running epoch has deleted an item that is not here."""
        return item in self.changed

    def __missing__(self, item: Any) -> Any:
        value = self._fetch(item)
        if value is _ABSENT:
            raise KeyError(item)
        return value

    def get(self, item: Any, default: Any = None) -> Any:
        if dict.__contains__(self, item):
            return self[item]
        value = self._fetch(item)
        return default if value is _ABSENT else value

    def __contains__(self, item: object) -> bool:
        return dict.__contains__(self, item) or self._fetch(item) is not _ABSENT

    def pop(self, item: Any, *default: Any) -> Any:
        if item in self:
            return super().pop(item)
        if default:
            return default[0]
        raise KeyError(item)

    def _fetch(self, item: Any) -> Any:
        if item in self._absent or self.is_deleted(item):
            return _ABSENT
        row = self.row(item)
        found = self._store.get(PENDING + row) if self._store.put_aside else None
        if found is None and not self.hidden:
            found = self._store.get(COMMITTED + row)
        return self._keep(item, found)

    def _keep(self, item: Any, found: bytes | None) -> Any:
        held: tuple[Any, ...] = loads(found) if found is not None else ()
        if len(held) < 2:
            self._absent.add(item)
            return _ABSENT
        value = self[item] = held[1]
        return value

    def prefetch(self, items: Iterable[Any]) -> None:
        """Fetch several items at once: cheaper than one by one."""
        here, absent = super().__contains__, self._absent
        rows = {
            self.row(item): item
            for item in items
            if not here(item) and item not in absent and not self.is_deleted(item)
        }
        ordered = sorted(rows)  # neighbours share blocks
        if self._store.put_aside:
            aside = zip(ordered, self._store.get_many([PENDING + row for row in ordered]), strict=True)
            ordered = [row for row, found in aside if not self._found(rows[row], found)]
        if not self.hidden:
            for row, found in zip(ordered, self._store.get_many([COMMITTED + row for row in ordered]), strict=True):
                self._keep(rows[row], found)

    def _found(self, item: Any, found: bytes | None) -> bool:
        if found is not None:
            self._keep(item, found)
        return found is not None

    # --- all of them -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        return (item for item, _ in self.scan())

    def keys(self) -> Iterator[Any]:  # type: ignore[override]
        return iter(self)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        return (value for _, value in self.scan())

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        return self.scan()

    def scan(self) -> Iterator[tuple[Any, Any]]:
        """Return all items in the order of their rows, as they were when the scan began. Nothing is kept in memory."""
        changes = sorted((self.row(item), item) for item in self.changed)
        values = {item: dict.__getitem__(self, item) for _, item in changes if dict.__contains__(self, item)}
        position = 0
        for row, stored in self._stored():
            while position < len(changes) and changes[position][0] < row:
                if (item := changes[position][1]) in values:
                    yield item, values[item]
                position += 1
            if position < len(changes) and changes[position][0] == row:
                if (item := changes[position][1]) in values:
                    yield item, values[item]
                position += 1
                continue
            item, value = stored
            yield item, dict.get(self, item, value)
        for _, item in changes[position:]:
            if item in values:
                yield item, values[item]

    def _stored(self) -> Iterator[tuple[bytes, tuple[Any, Any]]]:
        """Return the items in the database that count, each behind the name of its row without the first byte."""
        committed = () if self.hidden else self._store.scan(COMMITTED + self._prefix)
        pending = self._store.scan(PENDING + self._prefix) if self._store.put_aside else ()
        for row, found in merged(committed, pending):
            stored = loads(found)
            if len(stored) == 2:
                yield row[1:], stored

    def has_any(self) -> bool:
        """Return whether there is any item."""
        return next(self.scan(), None) is not None

    # --- room --------------------------------------------------------------------------------------------------------

    def put_aside(self) -> None:
        """Write what changed to rows of the running epoch, so that it can be let go of."""
        for item in self.changed:
            held = (item, self[item]) if dict.__contains__(self, item) else (item,)
            self._store.put(PENDING + self.row(item), pickle.dumps(held, 5))

    def let_go(self) -> None:
        """Keep nothing in memory."""
        super().clear()
        self._absent.clear()
        self.changed.clear()

    def clear(self) -> None:
        """No item counts any longer."""
        self.let_go()
        self.hidden = True

    def weight(self, item_bytes: int) -> int:
        """Return about how many bytes of memory it takes."""
        return (len(self) + len(self._absent)) * item_bytes

    def sample(self) -> list[int]:
        """Return what some of its items, those that came last, take in memory each."""
        return [object_bytes(pair) for pair in islice(reversed(dict.items(self)), SAMPLE)]


class KeyedItems(PagedItems):
    """Items that are the entries of a table, or of a part of it: named by their key, and namespace."""

    __slots__ = ("_entry_bytes",)

    def __init__(self, store: RowStore, prefix: bytes, changed: dict[Any, Any], name: EntryBytes):
        super().__init__(store, prefix, changed)
        self._entry_bytes = name

    def row(self, item: Any) -> bytes:
        return self._prefix + self._entry_bytes(item)


class Weighing:
    """Estimates what items cost in memory, by looking at a few now and then."""

    __slots__ = ("_item_bytes", "_looked_at")

    def __init__(self) -> None:
        self._item_bytes = 512
        self._looked_at = 0

    def of(self, items: PagedItems) -> int:
        """Return what a dict of items takes."""
        held = len(items)
        if held < self._looked_at // 2 or held > self._looked_at * 5 // 4:
            self._looked_at = held
            if sizes := items.sample():
                self._item_bytes = (self._item_bytes + max(sizes)) // 2
        return items.weight(self._item_bytes)


def object_bytes(value: Any) -> int:
    """Return about what an object takes in memory: so much, and its pickled size some times."""
    return 300 + 3 * len(pickle.dumps(value, 5))


def merged(
    committed: Iterable[tuple[bytes, bytes]], pending: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Return two scans as one, by rows without their first byte; of two equal ones the pending one counts."""
    waiting = iter(pending)
    ahead = next(waiting, None)
    for row, found in committed:
        while ahead is not None and ahead[0][1:] < row[1:]:
            yield ahead
            ahead = next(waiting, None)
        if ahead is not None and ahead[0][1:] == row[1:]:
            yield ahead
            ahead = next(waiting, None)
        else:
            yield row, found
    if ahead is not None:
        yield ahead
        yield from waiting
