"""Accumulators: what the functions of a job add up together, for the program to read. Flink's, of its Java API.

A function registers one in ``open`` under a name that is the job's; all accumulators of a name are merged over subtasks
and operators. What a completed epoch added counts, once; what a failed one added does not. Values only.

    Accumulator
    ├── IntCounter, LongCounter, DoubleCounter    sums
    ├── Minimum, Maximum                          the least and the greatest
    ├── AverageAccumulator                        the mean
    ├── Histogram                                 how often each value came
    └── ListAccumulator                           all values
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Generic, Self, TypeVar

V = TypeVar("V")
R = TypeVar("R")


class Accumulator(ABC, Generic[V, R]):
    """Takes values of type V and has a result of type R. Extend it for another way of adding up.

    It travels to the driver at the end of each epoch, so it must be picklable.
    """

    @abstractmethod
    def add(self, value: V) -> None:
        """Take a value into account."""

    @abstractmethod
    def get_local_value(self) -> R:
        """The result so far: in a function, of what its subtask added in the epoch at hand."""

    @abstractmethod
    def reset_local(self) -> None:
        """Begin anew. Called at the start of every epoch."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take into account what another accumulator of the same name has seen, later than this one."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_local_value()!r})"


class IntCounter(Accumulator[int, int]):
    """A sum of whole numbers.

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
    """Flink's sum of 64-bit numbers: Python's have no limit, so it is the same as an :class:`IntCounter`."""


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
    """The least of the values; None before the first. Flink's IntMinimum, LongMinimum and DoubleMinimum."""

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
    """The greatest of the values; None before the first. Flink's IntMaximum, LongMaximum and DoubleMaximum."""

    @staticmethod
    def _is_better(value: Any, best: Any) -> bool:
        return bool(value > best)


class AverageAccumulator(Accumulator[float, float]):
    """The mean of the values; 0.0 before the first."""

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
    """How often each value came, by value.

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
    """All values, by epoch and subtask. They are kept in every checkpoint: for a few only."""

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
