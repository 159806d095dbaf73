"""Timers of one operator subtask and one time domain: registered per key and namespace, fired in timestamp order.

Timers are state: registrations and deletions are saved like any other change. Timers of the same timestamp fire in the
order of their keys' canonical bytes, so a repeated epoch, or one on a rebuilt copy, fires them in the same order.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.column_bodies import INTS, Cursor, Parts, spell_number
from flott.runtime.managed_state.files.section_columns import (
    SectionTypes,
    column,
    read_namespaces,
    write_namespaces,
)
from flott.runtime.managed_state.kinds.table_kind import (
    Entry,
    GroupOf,
    Paged,
    PagedTable,
    ReturnedShape,
    TableKind,
    Wanted,
    elements_of,
)
from flott.runtime.managed_state.paging.row_store import COMMITTED, TablePlace
from flott.runtime.managed_state.paging.rows import loads, table_bytes

#: Timestamp, key, namespace.
Timer = tuple[int, Any, Any]

#: So many deleted timers may wait in the queue before it is worth clearing up.
TIDY_ABOVE = 1024
_LOWEST = 1 << 63
#: After so many timers that fire, room is made for what the next ones need.
_ROOM_EVERY = 1024


class TimerDelta(NamedTuple):
    """Timers that were registered, and timers that were deleted or fired."""

    added: list[Timer]
    removed: list[Timer]


class TakenTimers(NamedTuple):
    """Timers that were registered or deleted, and which of them were registered at one moment."""

    timers: list[Timer]
    live: list[bool]

    def contents(self) -> list[Any]:
        return []  # keys and windows, which cannot change

    def size(self) -> int:
        return len(self.timers)

    def group(self, start: int, stop: int, group_of: GroupOf, deltas: dict[KeyGroup, TimerDelta]) -> None:
        for timer, is_live in zip(self.timers[start:stop], self.live[start:stop], strict=True):
            delta = deltas.setdefault(group_of(timer[1]), TimerDelta([], []))
            (delta.added if is_live else delta.removed).append(timer)


class TimerTable:
    """Timers as ``(timestamp, key, namespace)``. Delta: :class:`TimerDelta`."""

    kind: ClassVar[str] = "timers"
    namespaced = False
    __slots__ = ("_heap", "changed", "live")

    def __init__(self) -> None:
        self.live: dict[Timer, None] = {}
        self.changed: dict[Timer, None] = {}
        #: (timestamp, order token, timer). Deleted timers stay until they come up and are then skipped.
        self._heap: list[tuple[int, bytes, tuple[int, Any, Any]]] = []

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Register a timer; registering it twice is the same as once."""
        timer = (timestamp, key, namespace)
        if timer not in self.live:
            self.live[timer] = None
            self.changed[timer] = None
            self._push(timer)

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Delete a timer, if it is registered."""
        timer = (timestamp, key, namespace)
        if timer in self.live:
            del self.live[timer]
            self.changed[timer] = None

    def pop_due(self, time: int) -> Timer | None:
        """Remove and return the earliest timer that is due at this time, or None."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            timer = heappop(heap)[2]
            if timer in self.live:
                del self.live[timer]
                self.changed[timer] = None
                return timer
        return None

    def is_set(self, timestamp: int, key: Any, namespace: Any = None) -> bool:
        """Return whether there is such a timer."""
        return (timestamp, key, namespace) in self.live

    def all_timers(self) -> list[Timer]:
        """Return every timer that is set."""
        return list(self.live)

    def next_timestamp(self) -> int | None:
        """Return the earliest registered timestamp."""
        while self._heap and self._heap[0][2] not in self.live:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self) -> TakenTimers:
        changed = list(self.changed)
        self.changed.clear()
        taken = TakenTimers(changed, list(map(self.live.__contains__, changed)))
        self._tidy()
        return taken

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, TimerDelta]:
        deltas: dict[KeyGroup, TimerDelta] = {}
        for timer in self.changed:
            delta = deltas.setdefault(group_of(timer[1]), TimerDelta([], []))
            (delta.added if timer in self.live else delta.removed).append(timer)
        self.changed.clear()
        self._tidy()
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, TimerDelta]:
        deltas: dict[KeyGroup, TimerDelta] = {}
        for timer in self.live:
            deltas.setdefault(group_of(timer[1]), TimerDelta([], [])).added.append(timer)
        return deltas

    def apply(self, delta: TimerDelta) -> None:
        added, removed = delta
        for timer in removed:
            self.live.pop(timer, None)
        for timer in added:
            if timer not in self.live:
                self.live[timer] = None
                self._push(timer)

    @staticmethod
    def merge(deltas: Iterable[TimerDelta]) -> TimerDelta:
        live: dict[Timer, None] = {}
        gone: dict[Timer, None] = {}
        for added, removed in deltas:
            for timer in removed:
                live.pop(timer, None)
                gone[timer] = None
            for timer in added:
                gone.pop(timer, None)
                live[timer] = None
        return TimerDelta(list(live), list(gone))

    def empty(self) -> None:
        self.live.clear()
        self.changed.clear()
        self._heap.clear()

    def has_changes(self) -> bool:
        return bool(self.changed)

    def size(self) -> int:
        return len(self.live)

    def _tidy(self) -> None:
        """Drop deleted timers that are far from coming up, once they outnumber the live ones."""
        if len(self._heap) > 2 * len(self.live) + TIDY_ABOVE:
            unique = {timer: (timestamp, token, timer) for timestamp, token, timer in self._heap if timer in self.live}
            self._heap[:] = unique.values()
            heapify(self._heap)

    def _push(self, timer: Timer) -> None:
        heappush(self._heap, (timer[0], order_token(timer), timer))


def order_token(timer: Timer) -> bytes:
    """Return what decides the order of timers with the same timestamp."""
    _, key, namespace = timer
    return encode_key(key) if namespace is None else encode_key((key, namespace))


class PagedTimerTable(Paged, TimerTable):
    """Timers as ``(timestamp, key, namespace)``. Rows are read from the earliest on, as far as time has come.

    The changes of an epoch stay in memory until it ends: there are at most a few for each of its records.
    """

    __slots__ = ("_ahead", "_make_room", "_popped", "_prefix", "_removed", "_rows", "_store")

    keeps_changes = True

    def __init__(self, place: TablePlace):
        super().__init__()
        self._store = place.store
        self._make_room = place.make_room
        self._popped = 0
        self._prefix = COMMITTED + table_bytes(place.name)
        self._removed: dict[Timer, None] = {}  #: in this epoch, though they may be committed
        self._rows: Iterator[tuple[bytes, bytes]] | None = None  #: the committed timers that were not looked at yet
        self._ahead: tuple[int, bytes, Timer] | None = None  #: the first committed one that is still set

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        timer = (timestamp, key, namespace)
        self._removed.pop(timer, None)
        super().register(timestamp, key, namespace)

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        self._remove((timestamp, key, namespace))

    def _remove(self, timer: Timer) -> None:
        self.live.pop(timer, None)
        self.changed[timer] = None
        self._removed[timer] = None

    def pop_due(self, time: int) -> Timer | None:
        first = self._first()
        if first is None or first[0] > time:
            return None
        self._remove(first[2])
        self._popped += 1
        if self._popped % _ROOM_EVERY == 0:
            self._make_room()  # each of many timers that fire at once may touch state of its own
        return first[2]

    def next_timestamp(self) -> int | None:
        first = self._first()
        return None if first is None else first[0]

    def _first(self) -> tuple[int, bytes, Timer] | None:
        """Return the earliest timer, in memory or committed."""
        heap = self._heap
        while heap and heap[0][2] not in self.live:
            heappop(heap)
        ahead = self._committed()
        if heap and (ahead is None or heap[0][:2] <= ahead[:2]):
            return heap[0]
        return ahead

    def _committed(self) -> tuple[int, bytes, Timer] | None:
        while self._ahead is None or self._ahead[2] in self._removed or self._ahead[2] in self.live:
            if self._rows is None:
                self._rows = iter(self._store.scan(self._prefix))
            row = next(self._rows, None)
            if row is None:
                self._ahead = None
                return None
            token = row[0][len(self._prefix) + 8 :]
            timer = loads(row[1])
            self._ahead = (timer[0], token, timer)
        return self._ahead

    def is_set(self, timestamp: int, key: Any, namespace: Any = None) -> bool:
        timer = (timestamp, key, namespace)
        if timer in self.live:
            return True
        return timer not in self._removed and self._store.get(self._row(timer)) is not None

    def all_timers(self) -> list[Timer]:
        committed = (loads(found) for _, found in self._store.scan(self._prefix))
        return [*(timer for timer in committed if timer not in self._removed and timer not in self.live), *self.live]

    def apply(self, delta: TimerDelta) -> None:
        added, removed = delta
        for timer in removed:
            self._store.delete(self._row(timer))
        for timer in added:
            self._store.put(self._row(timer), pickle.dumps(timer, 5))

    def _row(self, timer: Timer) -> bytes:
        return self._prefix + (timer[0] + _LOWEST).to_bytes(8, "big") + order_token(timer)

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, TimerDelta]:
        deltas = super().drain(group_of)
        self.empty()
        return deltas

    def empty(self) -> None:
        super().empty()
        self._removed.clear()
        self._rows = self._ahead = None

    def size(self) -> int:
        return len(self.all_timers())

    # --- room --------------------------------------------------------------------------------------------------------

    def put_aside(self) -> None:
        """The timers stay in memory."""

    def drain_group(self, group: KeyGroup) -> TimerDelta | None:
        return None  # they are drained all at once

    def weight(self) -> int:
        return 0


class TimerKind(TableKind[TimerTable, TimerDelta]):
    """The kind of timers."""

    name = TimerTable.kind
    spread = "timestamp"
    has_values = False
    new_columns = ("key", "timestamp")

    def make(self, namespaced: bool) -> TimerTable:
        return TimerTable()

    def make_paged(self, place: TablePlace) -> PagedTable:
        return PagedTimerTable(place)

    def from_plain(self, plain: Any) -> TimerDelta:
        return TimerDelta(*plain)

    def write(self, types: SectionTypes, delta: TimerDelta, parts: Parts) -> None:
        for timers in delta:
            parts.append(spell_number(len(timers)))
            INTS.write(column(0, timers), parts)
            types.key.write(column(1, timers), parts)
            write_namespaces(column(2, timers), parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> TimerDelta:
        return TimerDelta(_read_timers(types, cursor), _read_timers(types, cursor))

    def part(self, delta: TimerDelta, wanted: Wanted) -> tuple[TimerDelta, bool]:
        return TimerDelta(*([timer for timer in timers if wanted(timer[1])] for timers in delta)), False

    # --- rows for users ----------------------------------------------------------------------------------------------

    def entries(self, table: TimerTable) -> Iterator[Entry]:
        found: dict[tuple[Any, Any], list[int]] = {}
        for timestamp, key, namespace in table.live:
            found.setdefault((key, namespace), []).append(timestamp)
        for (key, namespace), timestamps in found.items():
            yield key, namespace, sorted(timestamps)

    def release(self, table: TimerTable) -> Iterator[Entry]:
        for timestamp, key, namespace in table.all_timers():
            table.delete(timestamp, key, namespace)
            yield key, namespace, [timestamp]

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        return ((timestamp,) for timestamp in held)

    def unite(self, held: Any, other: Any) -> Any:
        return sorted({*held, *other})  # a window has timers of its trigger, and one for its end

    def transform(self, table: TimerTable, change: Callable[[Any, Any, Any], Any]) -> None:
        before = list(self.entries(table))
        table.live.clear()
        for key, namespace, timestamps in before:
            changed = change(key, namespace, timestamps)
            table.live.update({(timestamp, key, namespace): None for timestamp in changed or ()})

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        found = set()
        for timestamp in shape.elements(changed):
            if not isinstance(timestamp, int):
                raise shape.refusal(timestamp, "a list of timestamps in milliseconds")
            found.add(timestamp)
        return sorted(found) or None

    def spread_new(self, key: Any, held: Any) -> Iterable[tuple[Any, Any]]:
        return elements_of(key, held)

    def fill(self, table: TimerTable, key: Any, map_key: Any, value: Any) -> None:
        table.live[value, key, None] = None


def _read_timers(types: SectionTypes, cursor: Cursor) -> list[Timer]:
    count = cursor.number()
    timestamps = INTS.read(cursor, count)
    keys = types.key.read(cursor, count)
    return list(zip(timestamps, keys, read_namespaces(cursor, count), strict=True))


TIMERS = TimerKind()
