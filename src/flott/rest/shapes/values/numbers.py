"""Numbers, times and durations as Flink's JSON represents them. Pure."""

from __future__ import annotations

import math
from typing import Literal

from flott.runtime.jobmanager.views.job_view import NEVER

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

#: A number, or the text that Flink writes for a number that is not finite.
NumberOrNaN = int | float | Literal["NaN"]


def number_or_nan(value: float) -> NumberOrNaN:
    """Return the value if it is finite, else "NaN"."""
    return value if math.isfinite(value) else "NaN"


def finite(value: float) -> float:
    """Return the value as a float, and 0 if it is not finite."""
    return float(value) if math.isfinite(value) else 0.0


def whole(value: float) -> int:
    """Return the integer part, and 0 if it is not finite. Flink reads these fields as 64-bit integers."""
    return max(_SMALLEST, min(_LARGEST, int(value))) if math.isfinite(value) else 0


def as_float(value: float) -> float:
    """Return the value as a float. An integer outside of the range becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def metric_text(value: float) -> str:
    """Return the value of a metric as Java writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def duration_ms(start_ms: int, end_ms: int, now_ms: int) -> int:
    """Return the time from start to end, or to now if there is no end. Return -1 if there is no start."""
    if start_ms == NEVER:
        return NEVER
    return max(0, (now_ms if end_ms == NEVER else end_ms) - start_ms)


def reached(time_ms: int | None) -> int:
    """Return a time for a table of states: 0 if the state was not reached."""
    return 0 if time_ms is None or time_ms == NEVER else time_ms
