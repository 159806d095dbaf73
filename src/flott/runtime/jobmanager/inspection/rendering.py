"""Values of users as text and JSON of bounded size. Inspector side.

A value may be anything: large, nested without end, with a ``repr`` that raises. So each is shown with limits of length,
depth and number of parts.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import reprlib
from collections.abc import Mapping
from typing import Any

from flott.common.types import Row

#: The maximum length of a text, in characters.
MAX_TEXT = 2_000
#: The JSON form of a value has at most so many parts, and so many levels.
MAX_PARTS = 500
MAX_DEPTH = 8
#: A key that is looked up has at most so many characters.
MAX_KEY = 4_096
#: A whole number beyond this loses digits in JavaScript, so it is sent as text.
_EXACT = 2**53

_shortened = reprlib.Repr()
_shortened.maxlevel = MAX_DEPTH
_shortened.maxstring = _shortened.maxother = _shortened.maxlong = 2 * MAX_TEXT
_shortened.maxlist = _shortened.maxtuple = _shortened.maxdict = _shortened.maxset = _shortened.maxfrozenset = 100


def rendered(value: Any) -> dict[str, Any]:
    """Return a value with its type: as text, and as JSON if it has such a form and is not too large."""
    text = _text(value)
    try:
        plain, is_whole = _Plain().of(value, MAX_DEPTH), True
    except _TooLarge:
        plain, is_whole = None, False
    except Exception:  # attributes of a user's class may raise
        plain, is_whole = None, True
    return {
        "text": text[:MAX_TEXT],
        "type": type(value).__name__[:100],
        "json": plain,
        "truncated": len(text) > MAX_TEXT or not is_whole,
    }


def literal(text: str) -> Any:
    """Return the key that a text stands for: a Python literal, or else the text itself.

    >>> literal("('alice', 3)"), literal("alice")
    (('alice', 3), 'alice')
    """
    if len(text) > MAX_KEY:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def _text(value: Any) -> str:
    try:
        return _shortened.repr(value)
    except Exception as error:  # the user's repr
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


class _TooLarge(Exception):
    """The JSON form of a value exceeds a limit."""


class _Plain:
    """Converts one value, and counts its parts."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth < 0:
            raise _TooLarge
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if abs(value) <= _EXACT else _text(value)[:MAX_TEXT]
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        if isinstance(value, str):
            if len(value) > MAX_TEXT:
                raise _TooLarge
            return str(value)
        if isinstance(value, Row) and value._fields is not None:
            value = value.as_dict()
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            value = dict(zip(value._fields, value, strict=True))
        if isinstance(value, Mapping):
            return {
                key if isinstance(key, str) else _text(key): self.of(part, depth - 1) for key, part in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset | Row):
            return [self.of(part, depth - 1) for part in value]
        return _text(value)[:MAX_TEXT]
