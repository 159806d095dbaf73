"""Timers over the database: those that are committed stand in rows by time, those of the running epoch in memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from heapq import heappop
from typing import Any

from flott.runtime.managed_state.backends.rocksdb.rows import loads, table_bytes
from flott.runtime.managed_state.backends.rocksdb.store import COMMITTED, RowStore
from flott.runtime.managed_state.kinds.tables import Delta
from flott.runtime.managed_state.kinds.timers import Timer, TimerTable, order_token

_LOWEST = 1 << 63
#: After so many timers that fire, room is made for what the next ones need.
_ROOM_EVERY = 1024


class PagedTimerTable(TimerTable):
    """Timers as ``(timestamp, key, namespace)``. Rows are read from the earliest on, as far as time has come.

    The changes of an epoch stay in memory until it ends: there are at most a few for each of its records.
    """

    __slots__ = ("_ahead", "_make_room", "_popped", "_prefix", "_removed", "_rows", "_store")

    def __init__(self, name: str, store: RowStore, make_room: Callable[[], None]):
        super().__init__()
        self._store = store
        self._make_room = make_room
        self._popped = 0
        self._prefix = COMMITTED + table_bytes(name)
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
        """The earliest timer, in memory or committed."""
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

    def apply(self, delta: Delta) -> None:
        added, removed = delta
        for timer in removed:
            self._store.delete(self._row(timer))
        for timer in added:
            self._store.put(self._row(timer), pickle.dumps(timer, 5))

    def _row(self, timer: Timer) -> bytes:
        return self._prefix + (timer[0] + _LOWEST).to_bytes(8, "big") + order_token(timer)

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
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
        """They stay where they are."""

    def weight(self) -> int:
        return 0
