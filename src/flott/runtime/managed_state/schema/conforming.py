"""Checks values that an epoch changed against the declared types, whole batches at a time. Task side.

A value that can be converted without loss (an int where a float is declared) is converted, in the delta and in the
table: a worker that restores the state must see what this one goes on with.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.errors import TypeMismatchError


class NotOfItsType(Exception):
    """A value in a table is not of its declared type: of which entry, and what is wrong with it."""

    def __init__(self, entry: Any, error: TypeMismatchError):
        super().__init__(entry, error)
        self.entry, self.error = entry, error


def all_conform(declared: TypeInformation, lists: list[list[Any]], stamped: bool) -> bool:
    """Return whether no value need be converted: asked of all at once, because that is nearly always so."""
    values = list(chain.from_iterable(lists))
    values = [value for value, _ in values] if stamped else values
    try:
        return declared.conform(values) is values
    except TypeMismatchError:
        return False


def conform_values(declared: TypeInformation, stored: list[Any], entries: Sequence[Any], stamped: bool) -> list[Any]:
    """Return values as the declared type has them, the same list if nothing changes. Errors name the entry."""
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
