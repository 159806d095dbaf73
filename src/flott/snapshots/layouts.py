"""How a table of state becomes entries and rows: what belongs to a key, and how it is spread. Pure; either side.

An *entry* is a key, a window where there are windows, and what is held for them: one value, a list, a map, timers. A
*raw row* spreads that out: one row per value, per item of a list, per item of a map, per timer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.panes import PaneTable
from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, Table, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.schema.type_schema import Json
from flott.runtime.operators.window.holdings import OPEN_WINDOWS, SESSIONS, type_in_session
from flott.runtime.operators.window.namespaces import is_end

#: Key, namespace (None where there are no windows), what is held.
Entry = tuple[Any, Any, Any]
#: Which window has its contents where, of windows that merge: (key, place) -> namespace of the window.
Places = dict[tuple[Any, Any], Any]

#: What tells the rows of one entry apart, by kind of table: the name of the column.
_SPREAD = {
    "list": "position",
    "list-panes": "position",
    "map": "map_key",
    "timers": "timestamp",
    "timelines": "timestamp",
}


@dataclass(frozen=True)
class TableLayout:
    """What the rows of one table look like."""

    kind: str  #: as files call it; "sessions" for windows that a key has in one entry
    windowed: bool  #: an entry belongs to a window, too
    stamped: bool  #: every value comes with the time of its last access

    @staticmethod
    def of(header: TableHeader, *, beside_windows: bool = False) -> TableLayout:
        """The layout of a table. ``beside_windows``: its operator has windows, so timers belong to them."""
        kind = "sessions" if header.name == SESSIONS else header.kind
        windowed = header.namespaced or kind in ("panes", "list-panes", "sessions")
        return TableLayout(kind, windowed or (kind == "timers" and beside_windows), header.ttl is not None)

    @property
    def spread(self) -> str | None:
        """The column that tells the rows of one entry apart; None: an entry is one row."""
        return _SPREAD.get(self.kind)

    @property
    def has_values(self) -> bool:
        """Whether a row has a value: a timer is nothing but its time."""
        return self.kind != "timers"

    @property
    def names(self) -> tuple[str, ...]:
        """What stands in a raw row."""
        return (
            "key",
            *(("window_start", "window_end", "namespace") if self.windowed else ()),
            *((self.spread,) if self.spread else ()),
            *(("value",) if self.has_values else ()),
            *(("last_access",) if self.stamped else ()),
        )

    # --- from a table to entries -------------------------------------------------------------------------------------

    def entries(self, table: Table, places: Places) -> Iterator[Entry]:
        """What a table holds."""
        match table:
            case ValueTable() if self.kind == "sessions":
                for key, sessions in table.entries.items():
                    for start, end, held in sessions:
                        yield key, (start, end), held
            case ValueTable(namespaced=True) | ListTable(namespaced=True) | MapTable(namespaced=True):
                for entry, held in table.entries.items():
                    yield entry[0], places.get(entry, entry[1]), held
            case ValueTable() | ListTable() | MapTable():
                for key, held in table.entries.items():
                    yield key, None, held
            case PaneTable():
                for pane, by_key in table.panes.items():
                    for key, held in by_key.items():
                        yield key, pane, held
            case TimerTable():
                yield from _timers(table)
            case TimelineTable():
                for key, (timestamps, values) in table.entries.items():
                    yield key, None, list(zip(timestamps, values, strict=True))

    # --- from entries to rows ----------------------------------------------------------------------------------------

    def rows(self, entries: Iterable[Entry]) -> Iterator[tuple[Any, ...]]:
        """The raw rows of entries."""
        for key, namespace, held in entries:
            leading = (key, *window_cells(namespace)) if self.windowed else (key,)
            for item in self._spread(held):
                yield (*leading, *item)

    def _spread(self, held: Any) -> Iterable[tuple[Any, ...]]:
        match self.kind:
            case "timers":
                return ((timestamp,) for timestamp in held)
            case "timelines":
                items: Iterable[tuple[Any, ...]] = held
            case "map":
                items = held.items()
            case "list" | "list-panes":
                items = enumerate(held)
            case _:
                items = ((held,),)
        return ((*item[:-1], *item[-1]) for item in items) if self.stamped else items


def _timers(table: TimerTable) -> Iterator[Entry]:
    found: dict[tuple[Any, Any], list[int]] = {}
    for timestamp, key, namespace in table.live:
        found.setdefault((key, namespace), []).append(timestamp)
    for (key, namespace), timestamps in found.items():
        yield key, namespace, sorted(timestamps)


def value_type_of(header: TableHeader) -> Json | None:
    """The declared type of the value in a row; None: not declared."""
    return type_in_session(header.value_type) if header.name == SESSIONS else header.value_type


def window_cells(namespace: Any) -> tuple[int | None, int | None, str | None]:
    """Start and end of a window of time; any other window, but that of everything, as text."""
    if is_end(namespace):  # the timer that clears a window away
        start, end, other = window_cells(namespace[0])
        return start, end, other or "end of window"
    if namespace.__class__ is tuple and len(namespace) == 2:
        return namespace[0], namespace[1], None
    return None, None, None if namespace is None else repr(namespace)


def places_of(open_windows: Table | None) -> Places:
    """Where the windows of a key that merge have their contents, from the operator's table of them."""
    if not isinstance(open_windows, MapTable):
        return {}
    return {(key, place): name for key, windows in open_windows.entries.items() for name, place in windows.items()}


__all__ = ["Entry", "TableLayout", "OPEN_WINDOWS", "Places", "places_of", "value_type_of", "window_cells"]
