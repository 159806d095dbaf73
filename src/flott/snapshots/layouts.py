"""How a table of state becomes entries and rows: what belongs to a key, and how it is spread. Pure; either side.

An *entry* is a key, a window where there are windows, and what is held for them: one value, a list, a map, timers. A
*raw row* spreads that out: one row per value, per item of a list, per item of a map, per timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.maps import MAPS
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Entry, Table, TableKind
from flott.runtime.managed_state.kinds.values import ValueKind, ValueTable
from flott.runtime.managed_state.schema.type_schema import Json
from flott.runtime.operators.window.holdings import OPEN_WINDOWS, SESSIONS, type_in_session
from flott.runtime.operators.window.namespaces import is_end

#: Which window has its contents where, of windows that merge: (key, place) -> namespace of the window.
Places = dict[tuple[Any, Any], Any]


class _SessionKind(ValueKind):
    """How users see the session windows of a key, which stand together in one value."""

    name = "sessions"
    of_windows = True

    def entries(self, table: ValueTable) -> Iterator[Entry]:
        for key, sessions in table.entries.items():
            for start, end, held in sessions:
                yield key, (start, end), held

    def transform(self, table: ValueTable, change: Callable[[Any, Any, Any], Any]) -> None:
        for key, sessions in list(table.entries.items()):
            changed = [(start, end, change(key, (start, end), held)) for start, end, held in sessions]
            kept = [session for session in changed if session[2] is not None]
            if kept:
                table.entries[key] = kept
            else:
                del table.entries[key]


_SESSION_WINDOWS = _SessionKind()


@dataclass(frozen=True)
class TableLayout:
    """What the rows of one table look like."""

    kind_name: str  #: as files call it; "sessions" for windows that a key has in one entry
    windowed: bool  #: an entry belongs to a window, too
    stamped: bool  #: every value comes with the time of its last access

    @staticmethod
    def of(header: TableHeader, *, beside_windows: bool = False) -> TableLayout:
        """Return the layout of a table. ``beside_windows``: its operator has windows, so timers belong to them."""
        kind = _SESSION_WINDOWS if header.name == SESSIONS else kind_of(header.kind)
        windowed = header.namespaced or kind.of_windows or (beside_windows and not kind.has_values)
        return TableLayout(kind.name, windowed, header.ttl is not None)

    @property
    def kind(self) -> TableKind[Any, Any]:
        """Return the kind of state that knows how entries become rows."""
        return _SESSION_WINDOWS if self.kind_name == _SESSION_WINDOWS.name else kind_of(self.kind_name)

    @property
    def names(self) -> tuple[str, ...]:
        """Return what stands in a raw row."""
        return (
            "key",
            *(("window_start", "window_end", "namespace") if self.windowed else ()),
            *((self.kind.spread,) if self.kind.spread else ()),
            *(("value",) if self.kind.has_values else ()),
            *(("last_access",) if self.stamped else ()),
        )

    # --- from a table to entries -------------------------------------------------------------------------------------

    def entries(self, table: Table, places: Places) -> Iterator[Entry]:
        """Return what a table holds."""
        for key, namespace, held in self.kind.entries(table):
            yield key, places.get((key, namespace), namespace) if places else namespace, held

    # --- from entries to rows ----------------------------------------------------------------------------------------

    def rows(self, entries: Iterable[Entry]) -> Iterator[tuple[Any, ...]]:
        """Return the raw rows of entries."""
        items_of = self.kind.items
        for key, namespace, held in entries:
            leading = (key, *window_cells(namespace)) if self.windowed else (key,)
            for item in items_of(held):
                yield (*leading, *item[:-1], *item[-1]) if self.stamped else (*leading, *item)


def value_type_of(header: TableHeader) -> Json | None:
    """Return the declared type of the value in a row; None: not declared."""
    return type_in_session(header.value_type) if header.name == SESSIONS else header.value_type


def window_cells(namespace: Any) -> tuple[int | None, int | None, str | None]:
    """Return start and end of a window of time; any other window, but that of everything, as text."""
    if is_end(namespace):  # the timer that clears a window away
        start, end, other = window_cells(namespace[0])
        return start, end, other or "end of window"
    if namespace.__class__ is tuple and len(namespace) == 2:
        return namespace[0], namespace[1], None
    return None, None, None if namespace is None else repr(namespace)


def places_of(open_windows: Table | None) -> Places:
    """Return where the windows of a key that merge have their contents, from the operator's table of them."""
    if open_windows is None or open_windows.kind != MAPS.name:
        return {}
    entries = kind_of(open_windows.kind).entries(open_windows)
    return {(key, place): name for key, _, windows in entries for name, place in windows.items()}


__all__ = ["Entry", "TableLayout", "OPEN_WINDOWS", "Places", "places_of", "value_type_of", "window_cells"]
