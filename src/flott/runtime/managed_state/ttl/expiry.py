"""How the entries of one table age, and how those that nobody asks for are swept out. Task side.

Sweeping is Flink's incremental cleanup: for every access of state a few entries are looked at. The accesses of an epoch
are counted and the entries looked at when it ends, all at once: what may be removed does not change within an epoch. It
goes round the table, on from where it stopped, at most once per epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.ttl.state_clock import StateClock
from flott.runtime.managed_state.ttl.time_to_live import UNSTAMPED, TimeToLive

#: A table whose values may be stamped.
StampedTable = ValueTable | ListTable | MapTable

#: So many rounds are made through a table while a value lives: more would find little.
_ROUNDS_PER_LIFE = 16
#: So many entries are looked at in one go.
_STEP = 1024


def walk(table: StampedTable | TimelineTable, cursor: Any, count: int) -> tuple[list[tuple[Any, Any]], Any]:
    """The next entries of a table with what they hold, and where to go on: None at the end, and to begin.

    So many entries are looked at; fewer come if some are no more. The table may change between two calls.
    """
    if (own := getattr(table, "walk", None)) is not None:  # one that does not hold all of its entries in memory
        return own(cursor, count)  # type: ignore[no-any-return]
    entries = table.entries
    remaining = iter(list(entries)) if cursor is None else cursor
    found = list(islice(remaining, count))
    return [(entry, entries[entry]) for entry in found if entry in entries], remaining if len(found) == count else None


def is_empty(table: StampedTable) -> bool:
    """Whether a table holds nothing."""
    cursor = None
    while True:
        found, cursor = walk(table, cursor, _STEP)
        if found or cursor is None:
            return not found


def remove_gone(table: StampedTable, entry: Any, held: Any, deadline: int) -> None:
    """Remove what is stamped at the deadline or before from what an entry holds."""
    if isinstance(table, ValueTable):
        if held[1] <= deadline:
            table.discard(entry)
    elif isinstance(table, ListTable):
        living = [item for item in held if item[1] > deadline]
        if 2 * len(living) <= len(held):  # the list is saved whole: not for a few elements
            table.replace(entry, living)
    else:
        stamps = {map_key: stamp for map_key, (_, stamp) in held.items()}
        if all(stamp <= deadline for stamp in stamps.values()):
            table.clear_entry(entry)
            return
        for map_key, stamp in stamps.items():
            if stamp <= deadline:
                table.remove_item(entry, map_key)


class Expiry:
    """The ageing of one table: what its handles and the sweep share."""

    __slots__ = ("_cursor", "_round_began", "clock", "lifespan_ms", "ms", "on_read", "touches", "ttl")

    def __init__(self, ttl: TimeToLive, clock: StateClock):
        self.ttl = ttl
        self.clock = clock
        self.ms = ttl.ms
        self.lifespan_ms = ttl.lifespan_ms
        self.on_read = ttl.on_read
        self.touches = 0  #: accesses in this epoch
        self._cursor: Any = None
        self._round_began: int | None = None

    def is_visible(self, stamped: tuple[Any, int]) -> bool:
        """Whether a program may see a value now."""
        return stamped[1] + self.lifespan_ms > self.clock.now

    def is_prolonged(self, stamp: int) -> bool:
        """Whether reading gives a value that has not expired a new stamp."""
        clock = self.clock
        return self.on_read and stamp != clock.stamp and (stamp < clock.now or stamp == UNSTAMPED)

    def is_lapsed(self, stamped: tuple[Any, int]) -> bool:
        """Whether a value has expired for whoever comes: reading removes it."""
        return stamped[1] + self.ms <= self.clock.floor

    def is_gone(self, stamped: tuple[Any, int]) -> bool:
        """Whether nobody will see a value any more."""
        return stamped[1] + self.lifespan_ms <= self.clock.floor

    def sweep(self, table: StampedTable, records: int, make_room: Callable[[], None]) -> None:
        """The epoch, which had so many records, ends: look at as many entries as its accesses ask for."""
        count = self.ttl.sweep_entries * (self.touches + (records if self.ttl.sweep_every_record else 0))
        self.touches = 0
        floor = self.clock.floor
        if not count or floor == MIN_WATERMARK:
            return
        if self._cursor is None:
            began = self._round_began
            if began is not None and 0 <= floor - began < max(self.ms // _ROUNDS_PER_LIFE, 1):
                return
            self._round_began = floor
        while count > 0:
            found, self._cursor = walk(table, self._cursor, min(count, _STEP))
            for entry, held in found:
                remove_gone(table, entry, held, floor - self.lifespan_ms)
            make_room()
            if self._cursor is None:
                return
            count -= _STEP
