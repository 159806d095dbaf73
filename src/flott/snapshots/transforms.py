"""Changing what a table holds by a function of the user's, entry by entry. Driver side.

The function gets the key and what is held for it as ``KeyedStateView.items`` gives it, in windowed state the window
between the two, and returns what is to be held from now on, or :data:`DROP`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flott.errors import StateError
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.schema.fitting import fits
from flott.runtime.managed_state.schema.type_schema import describe
from flott.runtime.operators.window.namespaces import window_of
from flott.snapshots.keys import plain_form
from flott.snapshots.layouts import Places, TableLayout, value_type_of


class Drop(Enum):
    """What a function returns to leave an entry out."""

    DROP = "DROP"


DROP = Drop.DROP

Transform = Callable[..., Any]


def transform(
    table: Table, header: TableHeader, layout: TableLayout, places: Places, function: Transform, state: str
) -> Table:
    """Apply a function to all entries of a table, which is changed. ``state`` names it in errors."""
    layout.kind.transform(table, _Change(header, layout, places, function, state))
    return table


class _Change:
    """Calls the function, and checks what it returns against the state's kind and type."""

    def __init__(self, header: TableHeader, layout: TableLayout, places: Places, function: Transform, state: str):
        self._header = header
        self._layout = layout
        self._places = places
        self._function = function
        self._state = state

    def __call__(self, key: Any, namespace: Any, held: Any) -> Any:
        """Return what is to be held from now on; None: nothing."""
        layout, kind = self._layout, self._layout.kind
        namespace = self._places.get((key, namespace), namespace) if self._places else namespace
        shown = kind.content(held) if layout.stamped else held
        arguments = (key, window_of(namespace), shown) if layout.windowed else (key, shown)
        try:
            changed = self._function(*arguments)
        except Exception as error:
            raise StateError(
                f"The function that transforms {self._state} raised for key {key!r}: {type(error).__name__}: {error}"
            ) from error
        if changed is DROP:
            return None
        changed = kind.shaped(changed, _CheckedReturn(self._state, key, self._header))
        return kind.stamped(changed, held) if layout.stamped and changed is not None else changed


@dataclass(frozen=True)
class _CheckedReturn:
    """Checks what was returned for one key."""

    state: str
    key: Any
    header: TableHeader

    def elements(self, changed: Any) -> list[Any]:
        if not isinstance(changed, list | tuple):
            raise self.refusal(changed, "a list")
        return list(changed)

    def map_key(self, name: Any) -> Any:
        schema = self.header.map_key_type
        if schema is not None and not fits(schema, name):
            raise self.refusal(name, f"map keys of the declared type {describe(schema)}")
        return name

    def fitting(self, value: Any) -> Any:
        schema = value_type_of(self.header)
        if schema is None or value is None:
            return value
        value = plain_form(schema, value)
        if not fits(schema, value):
            raise self.refusal(value, f"the declared type {describe(schema)}")
        return value

    def refusal(self, found: Any, expected: str) -> StateError:
        return StateError(
            f"The function that transforms {self.state} returned {found!r} for key {self.key!r}, expected {expected},"
            " or DROP."
        )
