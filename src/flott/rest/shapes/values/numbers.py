"""Numbers, times and durations as Flink's JSON represents them. Pure."""

from __future__ import annotations

import math
from typing import Literal

from flott.runtime.jobmanager.views.job_view import NEVER

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

#: A number, or the text Flink writes in place of one that is none.
NumberOrNaN = int | float | Literal["NaN"]


def number_or_nan(value: float) -> NumberOrNaN:
    """The value itself if it is finite."""
    return value if math.isfinite(value) else "NaN"


def finite(value: float) -> float:
    """The value as a float, 0 in place of what is none."""
    return float(value) if math.isfinite(value) else 0.0


def whole(value: float) -> int:
    """The value without its fraction, 0 in place of what is none: for fields Flink reads as 64-bit whole numbers."""
    return max(_SMALLEST, min(_LARGEST, int(value))) if math.isfinite(value) else 0


def as_float(value: float) -> float:
    """The value as a float: infinite if it is a whole number beyond that."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def metric_text(value: float) -> str:
    """The value of a metric as Java writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def duration_ms(start_ms: int, end_ms: int, now_ms: int) -> int:
    """From the start to the end, or till now; -1 for what has not begun."""
    if start_ms == NEVER:
        return NEVER
    return max(0, (now_ms if end_ms == NEVER else end_ms) - start_ms)


def reached(time_ms: int | None) -> int:
    """A time in a table of states: 0 for one that was never reached."""
    return 0 if time_ms is None or time_ms == NEVER else time_ms
