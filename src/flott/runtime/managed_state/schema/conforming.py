"""Holds what an epoch changed against the declared types, whole batches at a time. Task side.

What can be converted without loss (an int where a float is declared) is converted, in the delta and in the table: a
worker that restores the state must see what this one goes on with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.errors import TypeMismatchError
from flott.runtime.managed_state.kinds.tables import Delta, ListTable, MapTable, Table, ValueTable


class NotOfItsType(Exception):
    """A value in a table is not of its declared type: of which entry, and what is wrong with it."""

    def __init__(self, entry: Any, error: TypeMismatchError):
        super().__init__(entry, error)
        self.entry, self.error = entry, error


def conform_delta(
    table: Table, delta: Delta, value: TypeInformation | None, map_key: TypeInformation | None, stamped: bool
) -> None:
    """Bring the changes of a table to its types; raises ``NotOfItsType``. ``stamped``: values stand beside a time."""
    match table:
        case ValueTable():
            if value is not None:
                _conform_values(table, delta, value, stamped)
        case ListTable():
            if value is not None:
                _conform_lists(table, delta, value, stamped)
        case MapTable():
            _conform_maps(table, delta, value, map_key, stamped)


def _conform_values(table: ValueTable, delta: Delta, declared: TypeInformation, stamped: bool) -> None:
    entries, values, _ = delta
    converted = _conform(declared, values, entries, stamped)
    if converted is not values:
        delta[1] = converted
        table.entries.update(zip(entries, converted, strict=True))


def _conform_lists(table: ListTable, delta: Delta, declared: TypeInformation, stamped: bool) -> None:
    whole, appended, _ = delta
    changes = [*((entry, 0, items) for entry, items in whole), *appended]
    if _all_conform(declared, [items for _, _, items in changes], stamped):
        return
    for place, (entry, position, items) in enumerate(changes):
        converted = _conform(declared, items, [entry] * len(items), stamped)
        changes[place] = (entry, position, converted)
        if type(table) is ListTable:  # others read what was saved
            table.entries[entry][position : position + len(items)] = converted
    delta[0] = [(entry, items) for entry, _, items in changes[: len(whole)]]
    delta[1] = changes[len(whole) :]


def _conform_maps(
    table: MapTable, delta: Delta, value: TypeInformation | None, map_key: TypeInformation | None, stamped: bool
) -> None:
    parts = [items for _, _, _, updated, last in delta for items in (updated, last)]
    values_fit = value is None or _all_conform(value, [[held for _, held in items] for items in parts], stamped)
    keys_fit = map_key is None or _all_conform(map_key, [[key for key, _ in items] for items in parts], False)
    if values_fit and keys_fit:
        return
    for place, (entry, cleared, removed, updated, last) in enumerate(delta):
        fitting = [_conform_items(entry, items, value, map_key, stamped) for items in (updated, last)]
        delta[place] = (entry, cleared, removed, *fitting)
        if type(table) is MapTable:
            renamed = dict(zip((key for key, _ in (*updated, *last)), chain(*fitting), strict=True))
            held = table.entries[entry]
            items = [renamed.get(key, (key, held_value)) for key, held_value in held.items()]
            held.clear()
            held.update(items)


def _conform_items(
    entry: Any,
    items: list[tuple[Any, Any]],
    value: TypeInformation | None,
    map_key: TypeInformation | None,
    stamped: bool,
) -> list[tuple[Any, Any]]:
    blamed = [entry] * len(items)
    keys, values = [key for key, _ in items], [held for _, held in items]
    if map_key is not None:
        keys = _conform(map_key, keys, blamed, False)
    if value is not None:
        values = _conform(value, values, blamed, stamped)
    return list(zip(keys, values, strict=True))


def _all_conform(declared: TypeInformation, lists: list[list[Any]], stamped: bool) -> bool:
    """Whether nothing is to be done: asked of all values at once, because that is nearly always so."""
    values = list(chain.from_iterable(lists))
    values = [value for value, _ in values] if stamped else values
    try:
        return declared.conform(values) is values
    except TypeMismatchError:
        return False


def _conform(declared: TypeInformation, stored: list[Any], entries: Sequence[Any], stamped: bool) -> list[Any]:
    values = [value for value, _ in stored] if stamped else stored
    try:
        converted = declared.conform(values)
    except TypeMismatchError as error:
        raise NotOfItsType(entries[error.index] if error.index is not None else "?", error) from error
    if converted is values:
        return stored
    if not stamped:
        return converted
    return [(value, stamp) for value, (_, stamp) in zip(converted, stored, strict=True)]
