"""Numbers as pages show them: shares, means, and how uneven the subtasks of a vertex are. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.rest.shapes.values.numbers import finite

#: From 0 to 1, with three digits.
Share = float


class Skew(TypedDict):
    """The subtask with the largest number against the mean. ``ratio`` is 1 if all are even; None: there is nothing."""

    largest: float
    mean: float
    ratio: float | None
    subtask: int | None


def share(value: float) -> Share:
    """Return a share, rounded and within its bounds."""
    return round(min(1.0, max(0.0, finite(value))), 3)


def mean(values: Sequence[float]) -> float:
    """Return the mean, and 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def event_time(watermark: int) -> int | None:
    """Return a watermark; None: event time has not begun, or has ended."""
    return watermark if MIN_WATERMARK < watermark < MAX_WATERMARK else None


def skew_of(values: Sequence[float]) -> Skew:
    """Return how uneven the numbers of subtasks are.

    >>> skew_of([10, 10, 40])
    {'largest': 40.0, 'mean': 20.0, 'ratio': 2.0, 'subtask': 2}
    """
    numbers = [finite(value) for value in values]
    average = mean(numbers)
    if average <= 0.0:
        return {"largest": max(numbers, default=0.0), "mean": average, "ratio": None, "subtask": None}
    largest = max(numbers)
    return {
        "largest": largest,
        "mean": round(average, 3),
        "ratio": round(largest / average, 3),
        "subtask": numbers.index(largest),
    }
