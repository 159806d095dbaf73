"""The metrics that functions use: plain objects in the memory of a task.

Nothing is sent from here. At the end of an epoch the task takes the ``readings()`` of its root group and reports what
the epoch added with its acknowledgement; rates are computed on the driver, which knows how long the epoch took.
Imports nothing of Flott.

    Metric
    ├── Counter        goes up and down
    ├── Gauge          asks a function when it is read
    ├── Meter          counts events
    └── Distribution   count, sum, least and greatest of the values it saw
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from operator import index
from typing import Any, ClassVar, TypeVar

M = TypeVar("M", bound="Metric")


class Metric(ABC):
    """A metric with one or more numbers."""

    #: How each of its numbers is combined over subtasks and epochs: "sum", "min", "max" or "last". A number without a
    #: mode is derived from others and is not reported.
    modes: ClassVar[dict[str, str]] = {"": "sum"}

    @abstractmethod
    def numbers(self) -> dict[str, int | float]:
        """Return the numbers by name. The empty name stands for the metric itself."""


class Counter(Metric):
    """A number that is incremented and decremented."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count

    def numbers(self) -> dict[str, int | float]:
        return {"": self._count}


class Gauge(Metric):
    """A number that is computed when it is read."""

    modes: ClassVar[dict[str, str]] = {"": "last"}
    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], Any]):
        self._function = function

    def get_value(self) -> Any:
        return self._function()

    def numbers(self) -> dict[str, int | float]:
        # A gauge that fails or returns no number is left out: a metric must never end a job.
        try:
            value = self._function()
        except Exception:
            return {}
        return {"": value} if isinstance(value, (int, float)) else {}


class Meter(Metric):
    """Counts events. ``time_span_in_seconds`` is the window of the rate that the driver computes."""

    modes: ClassVar[dict[str, str]] = {"count": "sum"}
    __slots__ = ("_count", "time_span_in_seconds")

    def __init__(self, time_span_in_seconds: int = 60):
        self._count = 0
        self.time_span_in_seconds = time_span_in_seconds

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def numbers(self) -> dict[str, int | float]:
        return {"count": self._count}


class Distribution(Metric):
    """Count, sum, minimum and maximum, which can be merged over subtasks without keeping the values."""

    modes: ClassVar[dict[str, str]] = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
    __slots__ = ("_count", "_max", "_min", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._sum: int | float = 0
        self._min: int | float = 0
        self._max: int | float = 0

    def update(self, value: int | float) -> None:
        if self._count == 0:
            self._min = self._max = value
        elif value < self._min:
            self._min = value
        elif value > self._max:
            self._max = value
        self._count += 1
        self._sum += value

    def get_count(self) -> int:
        return self._count

    def get_sum(self) -> int | float:
        return self._sum

    def numbers(self) -> dict[str, int | float]:
        if not self._count:
            return {"count": 0}
        return {
            "count": self._count,
            "sum": self._sum,
            "min": self._min,
            "max": self._max,
            "mean": self._sum / self._count,
        }


class MetricGroup:
    """A named group of metrics and further groups.

    >>> group = MetricGroup()
    >>> group.add_group("shop", "berlin").counter("orders").inc(3)
    >>> group.snapshot()
    {'shop.berlin.orders': 3}
    """

    def __init__(self, variables: dict[str, str] | None = None):
        self._variables = dict(variables or {})
        self._groups: dict[str, MetricGroup] = {}
        self._metrics: dict[str, Metric] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return the group of this name; with ``extra``, the group ``extra`` in it, which has a variable ``<name>``.

        Asked again it is the same group: functions are opened again in every epoch.
        """
        if extra is None:
            return self._groups.setdefault(name, MetricGroup(self._variables))
        key_group = self._groups.setdefault(name, MetricGroup(self._variables))
        return key_group._groups.setdefault(extra, MetricGroup(self._variables | {f"<{name}>": extra}))

    def counter(self, name: str) -> Counter:
        return self._register(name, Counter, Counter)

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Register a function that is called whenever the metrics are read."""
        # The latest function wins: after a reopening the older one refers to an object that is not used any more.
        if isinstance(self._metrics.get(name), Gauge):
            del self._metrics[name]
        self._register(name, Gauge, lambda: Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._register(name, Meter, lambda: Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        return self._register(name, Distribution, Distribution)

    def _register(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = make()
        if not isinstance(metric, kind):
            raise ValueError(
                f"Metric {name!r} is a {type(metric).__name__} already and cannot be a {kind.__name__} too: "
                "choose another name."
            )
        return metric

    def get_all_variables(self) -> dict[str, str]:
        """Return the variables that ``add_group(key, value)`` defined for this group and its parents."""
        return dict(self._variables)

    def snapshot(self) -> dict[str, int | float]:
        """Return all numbers of this group and its subgroups, with names joined by dots."""
        return {name: number for name, (_, number) in self._walk()}

    def readings(self) -> dict[str, tuple[str, int | float]]:
        """Return the numbers, and how they are combined over subtasks and epochs: ``name -> (mode, number)``."""
        return {
            name: (mode, plain)
            for name, (mode, number) in self._walk()
            if mode and (plain := _plain(number)) is not None
        }

    def _walk(self) -> Iterator[tuple[str, tuple[str, int | float]]]:
        for name, metric in self._metrics.items():
            for part, number in metric.numbers().items():
                yield f"{name}.{part}" if part else name, (metric.modes.get(part, ""), number)
        for name, group in self._groups.items():
            for part, reading in group._walk():
                yield f"{name}.{part}", reading


def _plain(number: Any) -> int | float | None:
    """Return a number as int or float. Users may count with NumPy's numbers or an enumeration of their own."""
    if type(number) is int or type(number) is float:
        return number
    try:
        return float(number) if isinstance(number, float) else index(number)
    except TypeError:
        pass
    try:
        return float(number)
    except Exception:
        return None


def combine(totals: dict[str, int | float], changes: Mapping[str, tuple[str, int | float]]) -> None:
    """Add readings to totals. ``sum`` readings are what was added since the last ones."""
    for name, (mode, number) in changes.items():
        before = totals.get(name)
        if before is None or mode == "last":
            totals[name] = number
        elif mode == "sum":
            totals[name] = before + number
        else:
            totals[name] = min(before, number) if mode == "min" else max(before, number)
