"""What the runtime hands to ``Function.open``: where the function runs, its metrics and its keyed state.

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
    """Gives out handles to keyed state.

    A handle is asked for once, in ``open``, and used for every record: it always shows the state of the key of the
    record being processed. Two descriptors of the same name in one function mean the same state.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """A handle to one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A handle to one list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """A handle to one map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """A handle to one value per key, to which values are added with a reduce function."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, OUT]
    ) -> AggregatingState[IN, OUT]:
        """A handle to one accumulator per key, to which values are added with an aggregate function."""


class RuntimeContext(KeyedStateStore):
    """Where a function runs, and what it may use there.

    State is available to functions on keyed streams only::

        class CountPerKey(KeyedProcessFunction[str, str, int]):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.count: ValueState[int] = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """The name of the task, such as ``Map -> Filter``."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The parallelism of this operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The maximum parallelism of this operator: the number of its key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel subtasks this is, counted from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often this subtask was tried before, 0 at first."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """The task's name with its place among the subtasks counted from 1, such as ``Map (3/6)``."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter, or ``default_value`` if the program has set none of that name."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Where this subtask registers its metrics."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator, in ``open``. In Flink's Java API, not in PyFlink.

        Accumulators of the same name, in whatever subtask or operator of the job, are added up. Each epoch that
        completes counts once; what is added outside of epochs, in ``open`` or ``close``, does not count.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any, Any]:
        """The accumulator that this function registered under a name."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """The accumulator of that name, registered if it is new."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """The accumulator of that name, registered if it is new."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """The accumulator of that name, registered if it is new."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """The accumulator of that name, registered if it is new."""

    @abstractmethod
    def get_random(self) -> Random:
        """A source of random numbers that repeats itself when an epoch is repeated. Only in Flott.

        It is seeded from the job, the epoch and the subtask. An epoch that fails and runs again therefore draws the
        same numbers and makes the same decisions, which the global functions of :mod:`random` would not.
        """
