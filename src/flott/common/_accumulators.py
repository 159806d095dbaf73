"""Accumulators: values that all functions of a job aggregate and the program reads, as in Flink's Java API.

A function registers an accumulator in ``open`` under a name that is unique in the job. All accumulators with the same
name are merged over subtasks and operators. A completed epoch counts once, a failed one does not. Values only.

    Accumulator
    ├── IntCounter, LongCounter, DoubleCounter    sums
    ├── Minimum, Maximum                          the smallest and the largest value
    ├── AverageAccumulator                        the mean
    ├── Histogram                                 the number of occurrences of each value
    └── ListAccumulator                           all values
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Generic, Self, TypeVar

V = TypeVar("V")
R = TypeVar("R")


class Accumulator(ABC, Generic[V, R]):
    """Aggregates values of type V to a result of type R. Extend it for another aggregation.

    It is sent to the driver at the end of each epoch, so it must be picklable.
    """

    @abstractmethod
    def add(self, value: V) -> None:
        """Add a value."""

    @abstractmethod
    def get_local_value(self) -> R:
        """Return the current result: in a function, that of its subtask in the current epoch."""

    @abstractmethod
    def reset_local(self) -> None:
        """Reset to the initial value. Called at the start of every epoch."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add the values of another, later accumulator of the same name."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_local_value()!r})"


class IntCounter(Accumulator[int, int]):
    """A sum of integers.

    >>> counter = IntCounter()
    >>> counter.add(3)
    >>> counter.merge(IntCounter(4))
    >>> counter
    IntCounter(7)
    """

    def __init__(self, value: int = 0):
        self._sum = value

    def add(self, value: int = 1) -> None:
        self._sum += value

    def get_local_value(self) -> int:
        return self._sum

    def reset_local(self) -> None:
        self._sum = 0

    def merge(self, other: IntCounter) -> None:
        self._sum += other._sum


class LongCounter(IntCounter):
    """Flink's sum of 64-bit integers. Python's integers have no limit, so it equals :class:`IntCounter`."""


class DoubleCounter(Accumulator[float, float]):
    """A sum of numbers."""

    def __init__(self, value: float = 0.0):
        self._sum = float(value)

    def add(self, value: float) -> None:
        self._sum += value

    def get_local_value(self) -> float:
        return self._sum

    def reset_local(self) -> None:
        self._sum = 0.0

    def merge(self, other: DoubleCounter) -> None:
        self._sum += other._sum


class Minimum(Accumulator[Any, Any]):
    """The smallest value, None before the first: Flink's IntMinimum, LongMinimum and DoubleMinimum."""

    def __init__(self) -> None:
        self._best: Any = None

    def add(self, value: Any) -> None:
        if self._best is None or self._is_better(value, self._best):
            self._best = value

    @staticmethod
    def _is_better(value: Any, best: Any) -> bool:
        return bool(value < best)

    def get_local_value(self) -> Any:
        return self._best

    def reset_local(self) -> None:
        self._best = None

    def merge(self, other: Minimum) -> None:
        if other._best is not None:
            self.add(other._best)


class Maximum(Minimum):
    """The largest value, None before the first: Flink's IntMaximum, LongMaximum and DoubleMaximum."""

    @staticmethod
    def _is_better(value: Any, best: Any) -> bool:
        return bool(value > best)


class AverageAccumulator(Accumulator[float, float]):
    """The mean of the values, 0.0 before the first."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float:
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        self._count, self._sum = 0, 0.0

    def merge(self, other: AverageAccumulator) -> None:
        self._count += other._count
        self._sum += other._sum


class Histogram(Accumulator[Any, dict[Any, int]]):
    """The number of occurrences of each value.

    >>> histogram = Histogram()
    >>> for digit in (3, 1, 3):
    ...     histogram.add(digit)
    >>> histogram.get_local_value()
    {1: 1, 3: 2}
    """

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()

    def add(self, value: Any) -> None:
        self._counts[value] += 1

    def get_local_value(self) -> dict[Any, int]:
        return dict(sorted(self._counts.items()))

    def reset_local(self) -> None:
        self._counts = Counter()

    def merge(self, other: Histogram) -> None:
        self._counts.update(other._counts)


class ListAccumulator(Accumulator[V, list[V]]):
    """All values, ordered by epoch and subtask. They are part of every checkpoint, so use it for few values only."""

    def __init__(self) -> None:
        self._values: list[V] = []

    def add(self, value: V) -> None:
        self._values.append(value)

    def get_local_value(self) -> list[V]:
        return list(self._values)

    def reset_local(self) -> None:
        self._values = []

    def merge(self, other: ListAccumulator[V]) -> None:
        self._values += other._values
