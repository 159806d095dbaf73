"""The argument of ``Function.open``: the position of the function, its metrics and its keyed state.

Interfaces only; the runtime implements them in tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from random import Random

    from flott.common._accumulators import Accumulator, DoubleCounter, Histogram, IntCounter, LongCounter
    from flott.datastream.state._descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from flott.datastream.state._handles import AggregatingState, ListState, MapState, ReducingState, ValueState
    from flott.metrics.metricbase import MetricGroup

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class KeyedStateStore(ABC):
    """Returns handles to keyed state.

    A handle is requested once, in ``open``, and used for every record. It always accesses the state of the current
    record's
    key. Two descriptors of the same name in one function refer to the same state.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Return a handle to one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return a handle to one list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return a handle to one map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Return a handle to one value per key, to which values are added with a reduce function."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, OUT]
    ) -> AggregatingState[IN, OUT]:
        """Return a handle to one accumulator per key, to which values are added with an aggregate function."""


class RuntimeContext(KeyedStateStore):
    """The position of a function in the job, and the services it may use.

    State is available to functions on keyed streams only::

        class CountPerKey(KeyedProcessFunction[str, str, int]):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.count: ValueState[int] = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task, such as ``Map -> Filter``."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of this operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the maximum parallelism of this operator, which is the number of its key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, counted from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts of this subtask."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the task's name with its position among the subtasks counted from 1, such as ``Map (3/6)``."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter, or ``default_value`` if it is not set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group in which this subtask registers its metrics."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator, in ``open``. In Flink's Java API, not in PyFlink.

        Accumulators of the same name in all subtasks and operators of the job are merged. Each completed epoch counts
        once.
        Values that are added outside of epochs, in ``open`` or ``close``, do not count.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any, Any]:
        """Return the accumulator that this function registered under a name."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Return the accumulator of that name, and register it if it is new."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """Return the accumulator of that name, and register it if it is new."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return the accumulator of that name, and register it if it is new."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """Return the accumulator of that name, and register it if it is new."""

    @abstractmethod
    def get_random(self) -> Random:
        """Return a random number generator that is repeated when an epoch is repeated. Only in Flott.

        It is seeded from the job, the epoch and the subtask. A repeated epoch therefore draws the same numbers, unlike
        the
        global functions of :mod:`random`.
        """
