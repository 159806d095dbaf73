"""State whose time to live was added, taken away, or is measured by another clock since it was saved. Task side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, ValueTable
from flott.runtime.managed_state.ttl.expiry import StampedTable, walk
from flott.runtime.managed_state.ttl.state_clock import StateClocks
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive

_GONE = object()
_STEP = 1024


@dataclass(frozen=True)
class Conversion:
    """From a former time to live to the present one; None: state lived for ever, or does.

    What begins to age is as old as the epoch at hand. What is gone by the former time to live stays gone.
    """

    had: TimeToLive | None
    has: TimeToLive | None
    clocks: StateClocks

    def move(self, source: StampedTable, target: StampedTable, make_room: Callable[[], None]) -> None:
        """Move everything from the table of the former form to that of the present one."""
        cursor = None
        while True:
            found, cursor = walk(source, cursor, _STEP)
            for entry, held in found:
                self._move_entry(source, target, entry, held)
            make_room()
            if cursor is None:
                return

    def _move_entry(self, source: StampedTable, target: StampedTable, entry: Any, held: Any) -> None:
        match source, target:
            case ValueTable(), ValueTable():
                converted = self._convert(held)
                source.discard(entry)
                if converted is not _GONE:
                    target.entries[entry] = converted
                    target.changed[entry] = None
            case ListTable(), ListTable():
                items = [item for item in map(self._convert, held) if item is not _GONE]
                source.replace(entry, None)
                if items:
                    target.replace(entry, items)
            case MapTable(), MapTable():
                pairs = list(held.items())
                source.clear_entry(entry)
                for map_key, value in pairs:
                    if (converted := self._convert(value)) is not _GONE:
                        target.put_item(entry, map_key, converted)

    def _convert(self, held: Any) -> Any:
        value, clocks = held, self.clocks
        if self.had is not None:
            value, stamp = held
            if stamp + self.had.lifespan_ms <= clocks.of(self.had).floor:
                return _GONE
        return value if self.has is None else (value, clocks.of(self.has).stamp)
