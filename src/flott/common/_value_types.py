"""The types of option values: how each is parsed from text and formatted.

A configuration contains only text, so it can be printed, compared and stored directly. This module converts between
text and values. Every parser raises ``ValueError`` for invalid text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, TypeVar

from flott.common._durations import format_nanos, parse_nanos
from flott.common.time import Duration, Time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """A type of values. ``expected`` completes the sentence "expected …"."""

    name: str
    expected: str
    parse: Callable[[str], T] = field(repr=False, compare=False)


def to_text(value: Any) -> str:
    """Return the canonical text of a value, which ``parse`` of its type reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.name)
    if isinstance(value, timedelta):
        return format_nanos(Duration.of_timedelta(value).to_nanos())
    if isinstance(value, Mapping):
        return ",".join(f"{_quoted(str(key))}:{_quoted(to_text(item))}" for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return ";".join(map(to_text, value))
    if isinstance(value, (str, int, float, Duration, Time)):
        return str(value)
    raise ValueError(f"{value!r} of type {type(value).__name__} has no text form")


def _parse_bool(text: str) -> bool:
    return {"true": True, "false": False}[_known(text.strip().lower(), ("true", "false"))]


def _parse_millis(text: str) -> int:
    return parse_nanos(text) // 1_000_000


_BYTES_BY_UNIT: dict[str, int] = {
    unit: 1024**power
    for power, units in enumerate(
        (
            ("", "b", "bytes"),
            ("k", "kb", "kibibytes"),
            ("m", "mb", "mebibytes"),
            ("g", "gb", "gibibytes"),
            ("t", "tb", "tebibytes"),
        )
    )
    for unit in units
}
_MEMORY = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def _parse_bytes(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None or match[2].lower() not in _BYTES_BY_UNIT:
        raise ValueError(text)
    return int(match[1]) * _BYTES_BY_UNIT[match[2].lower()]


def _parse_list(text: str) -> list[str]:
    """Parse a list in Flink's two spellings: ``a;b``, and YAML: ``[a, 'b, c']`` or lines that begin with ``- ``."""
    stripped = text.strip()
    if (stripped.startswith("[") and stripped.endswith("]")) or stripped.startswith("- "):
        found = _parse_yaml(text)
        if isinstance(found, list):
            return [to_text(item) for item in found]
    return [part for part in text.split(";") if part.strip()]


def _parse_yaml(text: str) -> Any:
    import yaml  # here, because tasks import this module and need not have the package

    # The base loader leaves scalars as they are written, so that 1e3 or yes stay texts.
    try:
        return yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ValueError(text) from error


_ENTRY = re.compile(r"\s*('(?:[^']|'')*'|[^,:']*):('(?:[^']|'')*'|[^,']*)(?:,|$)")


def _parse_map(text: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    if text.startswith("{") and text.rstrip().endswith("}"):
        found = _parse_yaml(text)
        if isinstance(found, dict):
            return {str(key): to_text(value) for key, value in found.items()}
    position = 0
    while position < len(text):
        match = _ENTRY.match(text, position)
        if match is None:
            raise ValueError(text)
        entries[_unquoted(match[1])] = _unquoted(match[2])
        position = match.end()
    return entries


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if re.search(r"[,:']|^[\s{]|\s$", text) else text


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def _known(text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise ValueError(text)
    return text


def choice(allowed: Sequence[str], aliases: Mapping[str, str] | None = None) -> ValueType[str]:
    """Return the type of some words, in any case. ``aliases`` are further spellings of these words."""
    spellings = {word.lower(): word for word in allowed}
    spellings |= {alias.lower(): word for alias, word in (aliases or {}).items()}

    def parse(text: str) -> str:
        return spellings[_known(text.strip().lower(), tuple(spellings))]

    return ValueType("choice", f"one of {', '.join(allowed)}", parse)


STRING: ValueType[str] = ValueType("string", "a text", str)
BOOLEAN: ValueType[bool] = ValueType("boolean", "true or false", _parse_bool)
INTEGER: ValueType[int] = ValueType("integer", "a whole number", int)
FLOAT: ValueType[float] = ValueType("float", "a number", float)
DURATION: ValueType[int] = ValueType("duration", "a duration such as '500 ms', '10 s' or '1 min'", _parse_millis)
MEMORY: ValueType[int] = ValueType("memory", "a size such as '64 kb', '256 mb' or '1 gb'", _parse_bytes)
LIST: ValueType[list[str]] = ValueType("list", "a list such as 'a;b'", _parse_list)
MAP: ValueType[dict[str, str]] = ValueType("map", "a map such as 'key:value,other:value'", _parse_map)
