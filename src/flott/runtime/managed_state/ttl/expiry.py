"""How the entries of one table age, and how those that are not used any more are swept out. Task side.

Sweeping is Flink's incremental cleanup: for every access of state a few entries are looked at. The accesses of an epoch
are counted and the entries looked at when it ends, all at once: what may be removed does not change within an epoch. It
goes round the table, on from where it stopped, at most once per epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.ttl.state_clock import StateClock
from flott.runtime.managed_state.ttl.time_to_live import UNSTAMPED, TimeToLive

#: So many rounds are made through a table while a value lives: more would find little.
_ROUNDS_PER_LIFE = 16
#: So many entries are looked at in one go.
_STEP = 1024


def is_empty(table: Table) -> bool:
    """Return whether a table holds nothing."""
    kind, cursor = kind_of(table.kind), None
    while True:
        found, cursor = kind.walk(table, cursor, _STEP)
        if found or cursor is None:
            return not found


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
        """Return whether a program may see a value now."""
        return stamped[1] + self.lifespan_ms > self.clock.now

    def is_prolonged(self, stamp: int) -> bool:
        """Return whether reading gives a value that has not expired a new stamp."""
        clock = self.clock
        return self.on_read and stamp != clock.stamp and (stamp < clock.now or stamp == UNSTAMPED)

    def is_lapsed(self, stamped: tuple[Any, int]) -> bool:
        """Return whether a value has expired for every access to come: reading removes it."""
        return stamped[1] + self.ms <= self.clock.floor

    def is_gone(self, stamped: tuple[Any, int]) -> bool:
        """Return whether a value will not be seen any more."""
        return stamped[1] + self.lifespan_ms <= self.clock.floor

    def sweep(self, table: Table, records: int, make_room: Callable[[], None]) -> None:
        """Look at as many entries as the accesses of an epoch ask for, which ends and had so many records."""
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
        kind = kind_of(table.kind)
        while count > 0:
            found, self._cursor = kind.walk(table, self._cursor, min(count, _STEP))
            for entry, held in found:
                kind.remove_expired(table, entry, held, floor - self.lifespan_ms)
            make_room()
            if self._cursor is None:
                return
            count -= _STEP
