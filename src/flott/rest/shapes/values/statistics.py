"""Statistics of several numbers, in the two forms of Flink's API. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import NumberOrNaN, number_or_nan, whole
from flott.runtime.jobmanager.views.job_view import Spread


class Aggregate(TypedDict):
    """The statistics of one number over the subtasks of a vertex, as integers."""

    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int


class Quantiles(TypedDict):
    """The statistics of one number over checkpoints."""

    min: int
    max: int
    avg: int
    p50: NumberOrNaN
    p90: NumberOrNaN
    p95: NumberOrNaN
    p99: NumberOrNaN
    p999: NumberOrNaN


NO_QUANTILES: Quantiles = {
    "min": 0,
    "max": 0,
    "avg": 0,
    "p50": "NaN",
    "p90": "NaN",
    "p95": "NaN",
    "p99": "NaN",
    "p999": "NaN",
}
ALWAYS_ZERO: Quantiles = {"min": 0, "max": 0, "avg": 0, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "p999": 0.0}


def aggregate(values: Iterable[float]) -> Aggregate:
    """Return the statistics of the finite values."""
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return {"min": 0, "max": 0, "avg": 0, "sum": 0, "median": 0, "p25": 0, "p75": 0, "p95": 0}
    total = sum(ordered)
    return {
        "min": whole(ordered[0]),
        "max": whole(ordered[-1]),
        "avg": whole(total / len(ordered)),
        "sum": whole(total),
        "median": whole(percentile(ordered, 0.5)),
        "p25": whole(percentile(ordered, 0.25)),
        "p75": whole(percentile(ordered, 0.75)),
        "p95": whole(percentile(ordered, 0.95)),
    }


def quantiles(values: Sequence[float]) -> Quantiles:
    """Return the quantiles of the finite values."""
    ordered = sorted(value for value in values if math.isfinite(value))
    if not ordered:
        return NO_QUANTILES
    return {
        "min": whole(ordered[0]),
        "max": whole(ordered[-1]),
        "avg": whole(sum(ordered) / len(ordered)),
        "p50": number_or_nan(percentile(ordered, 0.5)),
        "p90": number_or_nan(percentile(ordered, 0.9)),
        "p95": number_or_nan(percentile(ordered, 0.95)),
        "p99": number_or_nan(percentile(ordered, 0.99)),
        "p999": number_or_nan(percentile(ordered, 0.999)),
    }


def quantiles_of(spread: Spread) -> Quantiles:
    """Return the quantiles of a spread that was computed where the values were collected."""
    if not spread.count:
        return NO_QUANTILES
    return {
        "min": whole(spread.minimum),
        "max": whole(spread.maximum),
        "avg": whole(spread.average),
        "p50": number_or_nan(float(spread.p50)),
        "p90": number_or_nan(float(spread.p90)),
        "p95": number_or_nan(float(spread.p95)),
        "p99": number_or_nan(float(spread.p99)),
        "p999": number_or_nan(float(spread.p999)),
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile as Flink estimates it: interpolated between neighbours, with n + 1 intervals."""
    place = share * (len(ordered) + 1)
    if place < 1:
        return float(ordered[0])
    if place >= len(ordered):
        return float(ordered[-1])
    below = int(place)
    low, high = ordered[below - 1], ordered[below]
    return low + (place - below) * (high - low)
