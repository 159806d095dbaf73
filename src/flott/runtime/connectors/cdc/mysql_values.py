"""Gives values of MySQL one form, whether a SELECT or the binary log has them. Pure; task side.

| type | form |
|---|---|
| BIT | int |
| SET | str, as in a SELECT: its elements in the order of the definition |
| FLOAT | the float that is stored, not the rounded one that the server shows |
| BINARY | bytes of its full length |
| TIMESTAMP | datetime without time zone, in the zone of the source |
| JSON | of MySQL: the decoded value; of MariaDB, where it is text: str |
| a date with zeros | None |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

Convert = Callable[[Any], Any]

# Types of columns in the log.
_TIMESTAMP, _BIT, _TIMESTAMP2, _TIME2, _JSON, _SET, _STRING = 7, 16, 17, 19, 245, 248, 254


def selected(column: str, kind: str) -> str:
    """Return how a column is selected. A FLOAT is shown with six digits, unless it is made a DOUBLE."""
    return f"CAST({column} AS DOUBLE)" if kind == "float" else column


def snapshot_conversions(kinds: Sequence[str], time_zone: str, mariadb: bool) -> list[tuple[int, Convert]]:
    """Return what is to be done with values of a SELECT, by the place of their column."""
    found: list[tuple[int, Convert]] = []
    for index, kind in enumerate(kinds):
        if kind == "bit":
            found.append((index, lambda value: int.from_bytes(value, "big")))
        elif kind in ("date", "datetime"):
            found.append((index, _date))
        elif kind == "timestamp":
            found.append((index, in_zone(time_zone)))
        elif kind == "json" and not mariadb:
            found.append((index, json.loads))
    return found


def _date(value: Any) -> Any:
    """Return a date that exists: PyMySQL leaves one that Python cannot represent as text."""
    return None if isinstance(value, (str, bytes)) else value


def in_zone(time_zone: str) -> Convert:
    """Return what moves times from UTC to a zone."""
    zone = ZoneInfo(time_zone)

    def convert(value: Any) -> Any:
        if not isinstance(value, datetime):
            return None
        return value if time_zone == "UTC" else value.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)

    return convert


def log_conversions(columns: Sequence[Any], time_zone: str) -> list[tuple[int, Convert]]:
    """Return what is to be done with values of the log, by the place of their column."""
    found: list[tuple[int, Convert]] = []
    for index, column in enumerate(columns):
        kind = column.type
        if kind == _BIT:
            found.append((index, lambda value: int(value, 2)))
        elif kind == _SET:
            found.append((index, _elements(list(column.set_values or ()))))
        elif kind == _TIME2:
            found.append((index, _time))
        elif kind in (_TIMESTAMP, _TIMESTAMP2):
            found.append((index, in_zone(time_zone)))
        elif kind == _JSON:
            found.append((index, _decoded))
        elif kind == _STRING and column.character_set_name == "binary":
            found.append((index, _padded(column.max_length)))
    return found


def _elements(defined: list[str]) -> Convert:
    return lambda value: ",".join(element for element in defined if element in value)


def _time(value: timedelta) -> timedelta:
    """Return a negative time as it is: mysql-replication adds its fraction with the wrong sign."""
    if value >= timedelta(0) or not value.microseconds:
        return value
    return value + timedelta(seconds=1) - 2 * timedelta(microseconds=value.microseconds)


def _padded(length: int) -> Convert:
    return lambda value: value.ljust(length, b"\0") if isinstance(value, bytes) else value


def _decoded(value: Any) -> Any:
    """Return a JSON value with str in place of bytes."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_decoded(key): _decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value
