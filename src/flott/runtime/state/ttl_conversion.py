"""State whose time to live was added, taken away, or is measured by another clock since it was saved. Task side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.runtime.state.expiry import StampedTable, walk
from flott.runtime.state.state_clock import StateClocks
from flott.runtime.state.tables import ListTable, MapTable, ValueTable
from flott.runtime.state.ttl import TimeToLive

_GONE = object()
_STEP = 1024


def move_state(
    source: StampedTable, had: TimeToLive | None, target: StampedTable, has: TimeToLive | None, clocks: StateClocks
) -> None:
    """Move everything from the table of a former time to live (None: it had none) to that of the present one.

    What begins to age is as old as the epoch at hand. What is gone by the former time to live stays gone.
    """
    convert = _conversion(had, has, clocks)
    cursor = None
    while True:
        found, cursor = walk(source, cursor, _STEP)
        for entry, held in found:
            _move_entry(source, target, entry, held, convert)
        if cursor is None:
            return


def _conversion(had: TimeToLive | None, has: TimeToLive | None, clocks: StateClocks) -> Callable[[Any], Any]:
    def convert(held: Any) -> Any:
        value = held
        if had is not None:
            value, stamp = held
            if stamp + had.lifespan_ms <= clocks.of(had).floor:
                return _GONE
        return value if has is None else (value, clocks.of(has).stamp)

    return convert


def _move_entry(
    source: StampedTable, target: StampedTable, entry: Any, held: Any, convert: Callable[[Any], Any]
) -> None:
    match source, target:
        case ValueTable(), ValueTable():
            converted = convert(held)
            source.discard(entry)
            if converted is not _GONE:
                target.entries[entry] = converted
                target.changed[entry] = None
        case ListTable(), ListTable():
            items = [item for item in map(convert, held) if item is not _GONE]
            source.replace(entry, None)
            if items:
                target.replace(entry, items)
        case MapTable(), MapTable():
            pairs = list(held.items())
            source.clear_entry(entry)
            for map_key, value in pairs:
                if (converted := convert(value)) is not _GONE:
                    target.put_item(entry, map_key, converted)
