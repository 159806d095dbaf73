"""``WindowedStream`` and ``AllWindowedStream``: a stream with windows, before their function is set.

Settings (``trigger``, ``allowed_lateness`` …) change the object and return it. Methods that compute something
(``reduce``, ``aggregate``, ``apply``, ``process`` …) add one operator to the program. Driver side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, overload

from flott.common.time import Duration, Time
from flott.common.typeinfo._infer import TypeHint
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.datastream._data_stream import KEY, OUT, DataStream, T, check_type
from flott.datastream._step_settings import is_integer
from flott.datastream.functions import _aggregations as aggregations
from flott.datastream.functions._basic import AggregateFunction, Function, NullByteKeySelector, ReduceFunction
from flott.datastream.functions._callables import validate_function
from flott.datastream.functions._window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.window._assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    MergingWindowAssigner,
    WindowAssigner,
)
from flott.datastream.window._evictors import Evictor
from flott.datastream.window._lengths import to_ms
from flott.datastream.window._triggers import Trigger
from flott.datastream.window._windows import CountWindow, W
from flott.errors import ProgramError
from flott.graph.specs import AggregateFold, ReduceFold, WindowSpec

if TYPE_CHECKING:
    from flott.datastream._keyed_stream import KeyedStream
    from flott.datastream.stream_execution_environment import StreamExecutionEnvironment

IN = TypeVar("IN")
ACC = TypeVar("ACC")

#: The window function after an aggregation, of either kind.
Finishing: TypeAlias = WindowFunction[IN, OUT, KEY, W] | ProcessWindowFunction[IN, OUT, KEY, W]
FinishingAll: TypeAlias = AllWindowFunction[IN, OUT, W] | ProcessAllWindowFunction[IN, OUT, W]


class _Windows(Generic[T, KEY, W]):
    """The common part of windowed streams with and without a key."""

    #: The kinds of window function for this kind of stream: a plain one, and one with a context.
    _plain: type[Function]
    _with_context: type[Function]
    _title: str  #: the first word of the operator's description

    def __init__(self, stream: KeyedStream[T, KEY], assigner: WindowAssigner[Any, W]):
        self._stream = stream
        self._assigner = assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the stream's program."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the declared type of the records, or any picklable object."""
        return self._stream.get_type()

    # ------------------------------------------------------------------------------------------------------- settings

    def trigger(self, trigger: Trigger[T, W]) -> Self:
        """Replace the assigner's default trigger."""
        if not isinstance(trigger, Trigger):
            raise ProgramError(f"trigger() takes a Trigger such as CountTrigger.of(100), found {trigger!r}.")
        self._check_merging(trigger)
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[T, W]) -> Self:
        """Set the evictor. Windows then keep all their records, also for ``reduce``."""
        if not isinstance(evictor, Evictor):
            raise ProgramError(f"evictor() takes an Evictor such as CountEvictor.of(100), found {evictor!r}.")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> Self:
        """Set how long after its end an event-time window accepts records. Each of them makes it fire again.

        The time is in milliseconds, or a Time or Duration.
        """
        late_by = time_ms if is_integer(time_ms) else to_ms(time_ms, "The allowed lateness, if not an int,")
        if not isinstance(late_by, int) or late_by < 0:
            raise ProgramError(f"The allowed lateness is 0 ms or more, found {time_ms!r}.")
        self._allowed_lateness_ms = late_by
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send records that are late for all their windows to a side output.

        Without a tag they are counted and dropped.

        The side output belongs to the stream that the window operation returns.
        """
        if not isinstance(output_tag, OutputTag):
            raise ProgramError(
                f'side_output_late_data() takes an OutputTag such as OutputTag("late"), found {output_tag!r}.'
            )
        self._late_tag = output_tag
        return self

    # --------------------------------------------------------------------------------------------- built-in functions

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Emit the sum of one field. The other fields are those of the window's first record. Not in PyFlink."""
        return self._aggregated(aggregations.rolling_sum(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Emit the smallest value of one field.

        The other fields are those of the window's first record. Not in PyFlink.
        """
        return self._aggregated(aggregations.rolling_min(position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Emit the largest value of one field.

        The other fields are those of the window's first record. Not in PyFlink.
        """
        return self._aggregated(aggregations.rolling_max(position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Emit the record with the smallest value in one field, the first of equal ones. Not in PyFlink."""
        return self._aggregated(aggregations.rolling_min_by(position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Emit the record with the largest value in one field, the first of equal ones. Not in PyFlink."""
        return self._aggregated(aggregations.rolling_max_by(position_to_max_by))

    def _aggregated(self, aggregation: aggregations.RollingAggregation) -> DataStream[T]:
        return self._add(ReduceFold(aggregation), None, self._stream._type)

    # --------------------------------------------------------------------------------------------------------- inside

    def _reduced(self, reduce_function: object, window_function: object, output_type: object) -> DataStream[Any]:
        validate_function(reduce_function, ReduceFunction, "reduce")
        result_type = check_type(output_type, "reduce")
        if window_function is None and result_type is None:
            result_type = self._stream._type
        return self._add(ReduceFold(reduce_function), self._either(window_function, "reduce"), result_type)

    def _aggregate(
        self, aggregate_function: object, window_function: object, accumulator_type: object, output_type: object
    ) -> DataStream[Any]:
        validate_function(aggregate_function, AggregateFunction, "aggregate")
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        fold = AggregateFold(aggregate_function, check_type(accumulator_type, "aggregate"))
        return self._add(fold, self._either(window_function, "aggregate"), check_type(output_type, "aggregate"))

    def _evaluated(self, method: str, function: object, kind: type[Function], output_type: object) -> DataStream[Any]:
        validate_function(function, kind, method)
        return self._add(None, function, check_type(output_type, method))

    def _either(self, function: object, method: str) -> object:
        """Return a checked window function of either kind, after an aggregation."""
        if function is not None:
            kind = self._with_context if isinstance(function, self._with_context) else self._plain
            validate_function(function, kind, method)
        return function

    def _add(
        self, fold: ReduceFold | AggregateFold | None, function: Any, output_type: TypeInformation | None
    ) -> DataStream[Any]:
        """Add the operator."""
        trigger = self._trigger
        if trigger is None:
            trigger = self._assigner.get_default_trigger(self.get_execution_environment())
            self._check_merging(trigger)
        spec = WindowSpec(
            self._assigner,
            trigger,
            fold,
            function,
            self._evictor,
            self._allowed_lateness_ms,
            None if self._late_tag is None else self._late_tag.tag_id,
            self._stream._declared(),
        )
        made = self._stream._apply(type(self._assigner).__name__, spec, output_type)
        return made.set_description(self._description(spec))

    def _check_merging(self, trigger: Trigger[Any, Any]) -> None:
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ProgramError(
                f"{self._assigner!r} merges windows, and {trigger!r} cannot: its can_merge() is false. Use a trigger"
                " that can, such as EventTimeTrigger, or windows that do not merge."
            )

    def _description(self, spec: WindowSpec) -> str:
        functions = [spec.fold.function if spec.fold else None, spec.function]
        names = [_called(function) for function in functions if function is not None]
        return f"{self._title}({', '.join([repr(spec.assigner), type(spec.trigger).__name__, *names])})"


def _called(function: object) -> str:
    """Return the name of a function: that of its class, or its own."""
    if isinstance(function, aggregations.RollingAggregation):
        return repr(function)
    return str(getattr(function, "__name__", None) or type(function).__name__)


class WindowedStream(_Windows[T, KEY, W]):
    """The result of ``window``: the records of each key, assigned to windows.

    >>> from flott.common import Time
    >>> from flott.datastream import StreamExecutionEnvironment
    >>> from flott.datastream.window import TumblingProcessingTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> words = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(0)
    >>> sink = words.window(TumblingProcessingTimeWindows.of(Time.seconds(5))).sum(1).print()
    >>> [vertex.name for vertex in env.get_job_graph().vertices]
    ['Source: Collection Source', 'TumblingProcessingTimeWindows -> Sink: Print']
    """

    _plain = WindowFunction
    _with_context = ProcessWindowFunction
    _title = "Window"

    def __init__(self, keyed_stream: KeyedStream[T, KEY], window_assigner: WindowAssigner[Any, W]):
        super().__init__(keyed_stream, check_assigner(window_assigner, "window"))

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: Finishing[T, OUT, KEY, W],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: Finishing[T, OUT, KEY, W] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[Any]:
        """Combine the records of each window into one as they arrive. A window function may process the result."""
        return self._reduced(reduce_function, window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, OUT],
        window_function: None = None,
        accumulator_type: TypeHint | list[Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, IN],
        window_function: Finishing[IN, OUT, KEY, W],
        accumulator_type: TypeHint | list[Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, Any],
        window_function: Finishing[Any, OUT, KEY, W] | None = None,
        accumulator_type: TypeHint | list[Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[Any]:
        """Aggregate the records of each window in an accumulator as they arrive.

        A window function may process the result.
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self, window_function: WindowFunction[T, OUT, KEY, W], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Emit any number of records for each window from all its records, which are kept until then."""
        return self._evaluated("apply", window_function, WindowFunction, output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[T, OUT, KEY, W],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each window from all its records.

        The function has access to time and state.
        """
        return self._evaluated("process", process_window_function, ProcessWindowFunction, output_type)


class AllWindowedStream(_Windows[T, int, W]):
    """The result of ``window_all``: all records assigned to windows regardless of their key, in a single subtask."""

    _plain = AllWindowFunction
    _with_context = ProcessAllWindowFunction
    _title = "AllWindow"

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner[Any, W]):
        assigner = check_assigner(window_assigner, "window_all")
        super().__init__(data_stream.key_by(NullByteKeySelector()), assigner)

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: FinishingAll[T, OUT, W],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: FinishingAll[T, OUT, W] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[Any]:
        """Combine the records of each window into one as they arrive. A window function may process the result."""
        return self._reduced(reduce_function, window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, OUT],
        window_function: None = None,
        accumulator_type: TypeHint | list[Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, IN],
        window_function: FinishingAll[IN, OUT, W],
        accumulator_type: TypeHint | list[Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, ACC, Any],
        window_function: FinishingAll[Any, OUT, W] | None = None,
        accumulator_type: TypeHint | list[Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[Any]:
        """Aggregate the records of each window in an accumulator as they arrive.

        A window function may process the result.
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self, window_function: AllWindowFunction[T, OUT, W], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Emit any number of records for each window from all its records, which are kept until then."""
        return self._evaluated("apply", window_function, AllWindowFunction, output_type)

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[T, OUT, W],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each window from all its records.

        The function has access to time and state.
        """
        return self._evaluated("process", process_window_function, ProcessAllWindowFunction, output_type)

    def _add(
        self, fold: ReduceFold | AggregateFold | None, function: Any, output_type: TypeInformation | None
    ) -> DataStream[Any]:
        return super()._add(fold, function, output_type).force_non_parallel()


def check_assigner(assigner: object, method: str) -> WindowAssigner[Any, Any]:
    """Refuse an argument that is not a window assigner."""
    if isinstance(assigner, WindowAssigner):
        return assigner
    raise ProgramError(
        f"{method}() takes a WindowAssigner such as TumblingEventTimeWindows.of(Time.seconds(5)), found {assigner!r}."
    )


def count_assigner(size: int, slide: int) -> WindowAssigner[Any, CountWindow]:
    """Return an assigner of windows of so many records. A slide of 0 means windows without overlap."""
    return CountTumblingWindowAssigner(size) if slide == 0 else CountSlidingWindowAssigner(size, slide)
