"""Values that cannot change: two places may hold the same object, and neither sees a change of the other's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import chain
from typing import Any
from uuid import UUID

_ATOMS = frozenset(
    {int, float, str, bytes, bool, complex, type(None), Decimal, Fraction, date, datetime, time, timedelta, UUID}
)
_TUPLE = frozenset({tuple})
_ATOMS_AND_TUPLES = _ATOMS | _TUPLE
#: Tuples in tuples are looked into as deep as this.
_DEPTH = 4


def cannot_change(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers, texts and the like, or tuples of such.

    >>> cannot_change([("a", 1), ("b", None)]), cannot_change([("a", [1])])
    (True, False)
    """
    return _cannot_change(values, _DEPTH)


def _cannot_change(values: Sequence[Any], depth: int) -> bool:
    found = set(map(type, values))
    if found <= _ATOMS:
        return True
    if not depth:
        return False
    if found == _TUPLE and _ATOMS.issuperset(set(map(type, chain.from_iterable(values)))):
        return True  # by far the most usual records: no list is made of their fields
    if found <= _ATOMS_AND_TUPLES:
        inner = [value for value in values if value.__class__ is tuple]
        return _cannot_change(list(chain.from_iterable(inner)), depth - 1)
    others = found - _ATOMS_AND_TUPLES
    if not all(map(_is_constant, others)):
        return False
    tuples = [value for value in values if isinstance(value, tuple)]
    return not tuples or _cannot_change(list(chain.from_iterable(tuples)), depth - 1)


def _is_constant(kind: type) -> bool:
    """Return whether instances of a class have nothing that can be set, beside what a tuple holds."""
    if issubclass(kind, Enum | timezone):
        return True
    return issubclass(kind, tuple) and not kind.__dictoffset__ and kind.__iter__ is tuple.__iter__
