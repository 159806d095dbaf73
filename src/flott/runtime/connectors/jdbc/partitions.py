"""Divides the values of a column into ranges. Pure.

Bounds travel in checkpoints, so they have a JSON form: numbers are themselves, dates and times are tagged texts.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from flott.datastream.connectors.base import Json
from flott.errors import ProgramError


def boundaries(lower: Any, upper: Any, partitions: int) -> list[Any]:
    """Return where ranges begin, without the first one. There may be fewer ranges than asked for.

    >>> boundaries(1, 100, 4)
    [26, 51, 76]
    >>> boundaries(date(2026, 1, 1), date(2026, 1, 3), 2)
    [datetime.date(2026, 1, 2)]
    """
    steps: list[Any]
    if isinstance(lower, datetime) and isinstance(upper, datetime):
        steps = [lower + (upper - lower) * part / partitions for part in range(1, partitions)]
    elif isinstance(lower, date) and isinstance(upper, date) and not isinstance(lower, datetime):
        first, last = lower.toordinal(), upper.toordinal()
        steps = [date.fromordinal(step) for step in boundaries(first, last, partitions)]
    elif isinstance(lower, int) and isinstance(upper, int):
        steps = [lower + -(-(upper - lower) * part // partitions) for part in range(1, partitions)]
    elif isinstance(lower, int | float | Decimal) and isinstance(upper, int | float | Decimal):
        low, high = Decimal(str(lower)), Decimal(str(upper))
        steps = [low + (high - low) * part / partitions for part in range(1, partitions)]
    else:
        raise ProgramError(
            f"A partition column holds numbers, dates or times, found values of type {type(lower).__name__}. Choose"
            " another column, or read without partitions."
        )
    return sorted({step for step in steps if step > lower})


def to_json(bound: Any) -> Json:
    """Return a bound as JSON."""
    if isinstance(bound, datetime):
        return {"datetime": bound.isoformat()}
    if isinstance(bound, date):
        return {"date": bound.isoformat()}
    if isinstance(bound, Decimal):
        return {"decimal": str(bound)}
    return bound


def from_json(bound: Json) -> Any:
    """Return a bound that was JSON."""
    if not isinstance(bound, dict):
        return bound
    ((kind, text),) = bound.items()
    if kind == "datetime":
        return datetime.fromisoformat(text)
    return date.fromisoformat(text) if kind == "date" else Decimal(text)


def as_datetime(value: Any) -> Any:
    """Return a text that holds a date or a time as such: SQLite has no other form of them."""
    if not isinstance(value, str):
        return value
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return value
    return found if len(value) > 10 else found.date()


def same_zone(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return both bounds with a zone if one of them has one."""
    if isinstance(lower, datetime) and isinstance(upper, datetime) and (lower.tzinfo is None) != (upper.tzinfo is None):
        lower, upper = (each if each.tzinfo else each.replace(tzinfo=UTC) for each in (lower, upper))
    return lower, upper
