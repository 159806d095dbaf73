"""Changing what a table holds by a function of the user's, entry by entry. Driver side.

The function gets the key and what is held for it as ``KeyedStateView.items`` gives it, in windowed state the window
between the two, and returns what is to be held from now on, or :data:`DROP`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from flott.errors import StateError
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.panes import PaneTable
from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, Table, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.schema.fitting import fits
from flott.runtime.managed_state.schema.type_schema import describe
from flott.runtime.managed_state.ttl.time_to_live import unstamped
from flott.runtime.operators.window.namespaces import window_of
from flott.snapshots.keys import plain_form
from flott.snapshots.layouts import Entry, Places, TableLayout, value_type_of


class Drop(Enum):
    """What a function returns to leave an entry out."""

    DROP = "DROP"


DROP = Drop.DROP

Transform = Callable[..., Any]


def transform(
    table: Table, header: TableHeader, layout: TableLayout, places: Places, function: Transform, state: str
) -> Table:
    """Apply a function to all entries of a table, which is changed. ``state`` names it in errors."""
    change = _Change(header, layout, function, state)
    match table:
        case ValueTable() if layout.kind == "sessions":
            for key, sessions in list(table.entries.items()):
                changed = [(start, end, change(key, (start, end), held)) for start, end, held in sessions]
                kept = [session for session in changed if session[2] is not DROP]
                _put(table.entries, key, kept or DROP)
        case ValueTable() | ListTable() | MapTable():
            for entry, held in list(table.entries.items()):
                key, namespace = (entry[0], places.get(entry, entry[1])) if table.namespaced else (entry, None)
                _put(table.entries, entry, change(key, namespace, held))
        case PaneTable():
            for pane, by_key in table.panes.items():
                for key, held in list(by_key.items()):
                    _put(by_key, key, change(key, pane, held))
        case TimerTable():
            before: list[Entry] = list(layout.entries(table, places))
            table.live.clear()
            for key, namespace, timestamps in before:
                if (changed_timers := change(key, namespace, timestamps)) is not DROP:
                    table.live.update({(timestamp, key, namespace): None for timestamp in changed_timers})
        case TimelineTable():
            for key, (times, values) in list(table.entries.items()):
                events = change(key, None, list(zip(times, values, strict=True)))
                if events is not DROP:
                    ordered = sorted(events, key=lambda event: event[0])
                    events = [event[0] for event in ordered], [event[1] for event in ordered]
                _put(table.entries, key, events)
    return table


def _put(entries: Any, entry: Any, held: Any) -> None:
    if held is DROP:
        del entries[entry]
    else:
        entries[entry] = held


class _Change:
    """Calls the function, and holds what it returns against the state's kind and type."""

    def __init__(self, header: TableHeader, layout: TableLayout, function: Transform, state: str):
        self._header = header
        self._value_type = value_type_of(header)
        self._layout = layout
        self._function = function
        self._state = state

    def __call__(self, key: Any, namespace: Any, held: Any) -> Any:
        shown = unstamped(self._header.kind, held) if self._layout.stamped else held
        arguments = (key, window_of(namespace), shown) if self._layout.windowed else (key, shown)
        try:
            changed = self._function(*arguments)
        except Exception as error:
            raise StateError(
                f"The function that transforms {self._state} raised for key {key!r}: {type(error).__name__}: {error}"
            ) from error
        if changed is DROP:
            return DROP
        changed = self._shaped(key, changed)
        if changed is DROP or not self._layout.stamped:
            return changed
        return _stamped(self._header.kind, changed, held)

    def _shaped(self, key: Any, changed: Any) -> Any:
        """What was returned, in the form in which it is held; nothing at all is dropped."""
        match self._layout.kind:
            case "timers":
                return sorted({self._whole(key, timestamp) for timestamp in self._list(key, changed)}) or DROP
            case "list" | "list-panes":
                return [self._fitting(key, item) for item in self._list(key, changed)] or DROP
            case "timelines":
                pairs = [self._pair(key, event) for event in self._list(key, changed)]
                return pairs or DROP
            case "map":
                if not isinstance(changed, Mapping):
                    raise self._refusal(key, changed, "a dict")
                return {self._map_key(key, name): self._fitting(key, item) for name, item in changed.items()} or DROP
        return DROP if changed is None else self._fitting(key, changed)

    def _list(self, key: Any, changed: Any) -> list[Any]:
        if not isinstance(changed, list | tuple):
            raise self._refusal(key, changed, "a list")
        return list(changed)

    def _whole(self, key: Any, timestamp: Any) -> int:
        if not isinstance(timestamp, int):
            raise self._refusal(key, timestamp, "a list of timestamps in milliseconds")
        return timestamp

    def _pair(self, key: Any, event: Any) -> tuple[int, Any]:
        if not isinstance(event, list | tuple) or len(event) != 2 or not isinstance(event[0], int):
            raise self._refusal(key, event, "a list of pairs of timestamp and record")
        return event[0], self._fitting(key, event[1])

    def _map_key(self, key: Any, name: Any) -> Any:
        schema = self._header.map_key_type
        if schema is not None and not fits(schema, name):
            raise self._refusal(key, name, f"map keys of the declared type {describe(schema)}")
        return name

    def _fitting(self, key: Any, value: Any) -> Any:
        schema = self._value_type
        if schema is None or value is None:
            return value
        value = plain_form(schema, value)
        if not fits(schema, value):
            raise self._refusal(key, value, f"the declared type {describe(schema)}")
        return value

    def _refusal(self, key: Any, found: Any, expected: str) -> StateError:
        return StateError(
            f"The function that transforms {self._state} returned {found!r} for key {key!r}, expected {expected}, or"
            " DROP."
        )


def _stamped(kind: str, changed: Any, before: Any) -> Any:
    """What was returned with the times of last access of what was there; new items have the latest of these."""
    match kind:
        case "list":
            stamps = [stamp for _, stamp in before]
            return [(item, stamps[place] if place < len(stamps) else max(stamps)) for place, item in enumerate(changed)]
        case "map":
            stamps_by_key = {name: stamp for name, (_, stamp) in before.items()}
            latest = max(stamps_by_key.values())
            return {name: (item, stamps_by_key.get(name, latest)) for name, item in changed.items()}
    return changed, before[1]
