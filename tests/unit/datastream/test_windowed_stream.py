"""What a windowed stream adds to the program, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from flott.common import Types
from flott.common.time import Duration, Time
from flott.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from flott.datastream.data_stream import AllWindowedStream, WindowedStream
from flott.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    NullByteKeySelector,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flott.datastream.functions._aggregations import (
    rolling_max,
    rolling_max_by,
    rolling_min,
    rolling_min_by,
    rolling_sum,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from flott.errors import ProgramError
from flott.graph.partitioning import Hash
from flott.graph.specs import AggregateFold, ReduceFold, WindowSpec
from flott.graph.stream_graph import StreamNode


class Total(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Applied(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


class AppliedToAll(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return inputs


class Processed(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class ProcessedAll(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return elements


class NotOfWindows(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [value]


def larger(value1: Any, value2: Any) -> Any:
    return max(value1, value2)


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
MINUTES = TumblingEventTimeWindows.of(Time.minutes(1))
SESSIONS = EventTimeSessionWindows.with_gap(Time.minutes(1))
LATE = OutputTag("late")


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream[tuple[str, int], str]:
    return env.from_collection([("a", 1)], PAIR).key_by(0, Types.STRING())


@pytest.fixture
def minutes(keyed: KeyedStream[Any, Any]) -> WindowedStream[Any, Any, Any]:
    return keyed.window(MINUTES)


@pytest.fixture
def all_minutes(env: StreamExecutionEnvironment) -> AllWindowedStream[Any, Any]:
    return env.from_collection([("a", 1)], PAIR).window_all(MINUTES)


def node_of(stream: DataStream[Any]) -> StreamNode:
    stream.print()
    return stream.get_execution_environment().get_stream_graph().node(stream._id)  # type: ignore[arg-type]


def spec_of(stream: DataStream[Any]) -> WindowSpec:
    spec = node_of(stream).spec
    assert isinstance(spec, WindowSpec)
    return spec


# ---- one operator ----------------------------------------------------------------------------------------------------


def test_a_window_operation_is_one_keyed_operator(minutes: WindowedStream[Any, Any, Any], keyed: Any) -> None:
    counted = minutes.reduce(larger)
    node = node_of(counted)
    (edge,) = counted.get_execution_environment().get_stream_graph().edges_into(node.id)
    assert node.name == "TumblingEventTimeWindows"
    assert node.keys == (keyed._key,)
    assert isinstance(edge.partitioning, Hash)
    assert node.spec == WindowSpec(MINUTES, EventTimeTrigger(), ReduceFold(larger), None, record_type=PAIR)


def test_the_description_tells_windows_trigger_and_functions(minutes: WindowedStream[Any, Any, Any]) -> None:
    made = minutes.trigger(CountTrigger.of(3)).aggregate(Total(), Processed())
    assert made._transformation.description == (
        "Window(TumblingEventTimeWindows(size_ms=60000, offset_ms=0), CountTrigger, Total, Processed)"
    )


def test_what_is_set_reaches_the_operator(minutes: WindowedStream[Any, Any, Any]) -> None:
    settings = minutes.trigger(PurgingTrigger.of(CountTrigger.of(3))).evictor(CountEvictor.of(5))
    settings = settings.allowed_lateness(2000).side_output_late_data(LATE)
    assert settings is minutes  # as in PyFlink
    function = Applied()
    assert spec_of(settings.apply(function)) == WindowSpec(
        MINUTES, PurgingTrigger(CountTrigger(3)), None, function, CountEvictor(5), 2000, "late", PAIR
    )


def test_windows_hold_values_of_the_type_of_the_stream_or_of_their_accumulator(env: StreamExecutionEnvironment) -> None:
    def specs(stream: DataStream[Any]) -> list[WindowSpec]:
        windows = [stream.key_by(0, Types.STRING()).window(MINUTES) for _ in range(3)]
        total = windows[1].aggregate(Total(), accumulator_type=Types.LONG())
        return [spec_of(windows[0].reduce(larger)), spec_of(total), spec_of(windows[2].apply(Applied()))]

    declared, undeclared = env.from_collection([("a", 1)], PAIR), env.from_collection([("a", 1)])
    assert [spec.folded_type for spec in specs(declared)[:2]] == [PAIR, Types.LONG()]
    assert [spec.record_type for spec in specs(declared)] == [PAIR] * 3
    assert [spec.folded_type for spec in specs(undeclared)[:2]] == [None, Types.LONG()]
    assert specs(declared.union(undeclared))[2].record_type is None


@pytest.mark.parametrize("lateness", [5000, Time.seconds(5), Duration.of_seconds(5)])
def test_lateness_is_given_in_milliseconds_or_as_a_length_of_time(minutes: Any, lateness: Any) -> None:
    assert spec_of(minutes.allowed_lateness(lateness).sum(1)).allowed_lateness_ms == 5000


def test_late_records_are_a_side_output_of_the_result(minutes: WindowedStream[Any, Any, Any]) -> None:
    result = minutes.side_output_late_data(LATE).sum(1)
    node_of(result)
    late = result.get_side_output(LATE)
    late.print()
    graph = late.get_execution_environment().get_stream_graph()
    assert [edge.side_tag for edge in graph.edges if edge.source == result._id] == [None, "late"]


# ---- functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", [None, Applied(), Processed()])
def test_reduce_and_aggregate_fold_records_and_may_finish_with_a_function(minutes: Any, finish: Any) -> None:
    reduced, aggregated = minutes.reduce(larger, finish), minutes.aggregate(total := Total(), finish, Types.LONG())
    assert (spec_of(reduced).fold, spec_of(reduced).function) == (ReduceFold(larger), finish)
    assert (spec_of(aggregated).fold, spec_of(aggregated).function) == (AggregateFold(total, Types.LONG()), finish)


@pytest.mark.parametrize("finish", [None, AppliedToAll(), ProcessedAll()])
def test_the_same_without_keys(all_minutes: Any, finish: Any) -> None:
    reduced, aggregated = all_minutes.reduce(larger, finish), all_minutes.aggregate(total := Total(), finish)
    assert (spec_of(reduced).fold, spec_of(reduced).function) == (ReduceFold(larger), finish)
    assert (spec_of(aggregated).fold, spec_of(aggregated).function) == (AggregateFold(total), finish)


def test_apply_and_process_keep_all_records(minutes: Any, all_minutes: Any) -> None:
    made = [
        minutes.apply(apply := Applied()),
        minutes.process(process := Processed()),
        all_minutes.apply(apply_all := AppliedToAll()),
        all_minutes.process(process_all := ProcessedAll()),
    ]
    assert [spec_of(stream).fold for stream in made] == [None] * 4
    assert [spec_of(stream).function for stream in made] == [apply, process, apply_all, process_all]


@pytest.mark.parametrize(
    ("method", "aggregation"),
    [
        ("sum", rolling_sum(1)),
        ("min", rolling_min(1)),
        ("max", rolling_max(1)),
        ("min_by", rolling_min_by(1)),
        ("max_by", rolling_max_by(1)),
    ],
)
def test_built_in_aggregations_reduce_a_field(minutes: Any, all_minutes: Any, method: str, aggregation: Any) -> None:
    for windows in (minutes, all_minutes):
        made = getattr(windows, method)(1)
        assert spec_of(made).fold == ReduceFold(aggregation)
        assert made.get_type() == PAIR


def test_the_result_of_a_plain_reduce_has_the_type_of_its_input(minutes: WindowedStream[Any, Any, Any]) -> None:
    assert minutes.get_input_type() == PAIR
    assert minutes.reduce(larger).get_type() == PAIR
    assert minutes.reduce(larger, output_type=Types.STRING()).get_type() == Types.STRING()
    assert minutes.reduce(larger, Applied()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert minutes.aggregate(Total(), output_type=Types.LONG()).get_type() == Types.LONG()
    assert minutes.apply(Applied(), Types.LONG()).get_type() == Types.LONG()
    assert minutes.process(Processed(), Types.LONG()).get_type() == Types.LONG()


def test_types_may_be_given_as_hints(minutes: WindowedStream[Any, Any, Any]) -> None:
    made = minutes.aggregate(total := Total(), accumulator_type=float, output_type=str)
    assert spec_of(made).fold == AggregateFold(total, Types.DOUBLE())
    assert made.get_type() == Types.STRING()


def test_a_list_of_types_means_an_accumulator_that_is_a_row(minutes: WindowedStream[Any, Any, Any]) -> None:
    made = minutes.aggregate(total := Total(), accumulator_type=[Types.LONG(), Types.STRING()])
    assert spec_of(made).fold == AggregateFold(total, Types.ROW([Types.LONG(), Types.STRING()]))


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_windows_over_all_records_run_in_one_subtask(env: StreamExecutionEnvironment, keyed: Any) -> None:
    for stream in (env.from_collection([("a", 1)]), keyed):
        node = node_of(stream.window_all(MINUTES).sum(1))
        assert (node.parallelism, node.max_parallelism) == (1, 1)
        (key,) = node.keys
        assert key is not None
        assert isinstance(key.selector, NullByteKeySelector)
        assert (node.description or "").startswith("AllWindow(")


def test_a_windowed_stream_knows_its_environment(env: StreamExecutionEnvironment, minutes: Any) -> None:
    assert minutes.get_execution_environment() is env


def test_count_windows_tumble_or_slide(env: StreamExecutionEnvironment, keyed: KeyedStream[Any, Any]) -> None:
    stream = env.from_collection([1])
    windowed = [keyed.count_window(5), keyed.count_window(5, 2), stream.count_window_all(5)]
    assert [spec_of(each.sum()).assigner for each in windowed] == [
        CountTumblingWindowAssigner(5),
        CountSlidingWindowAssigner(5, 2),
        CountTumblingWindowAssigner(5),
    ]
    assert spec_of(stream.count_window_all(5, 2).sum()).assigner == CountSlidingWindowAssigner(5, 2)


def test_the_default_trigger_is_the_assigners(keyed: KeyedStream[Any, Any]) -> None:
    assert spec_of(keyed.window(GlobalWindows.create()).sum(1)).trigger == NeverTrigger()
    assert spec_of(keyed.window(SESSIONS).sum(1)).trigger == EventTimeTrigger()


def test_one_windowed_stream_may_have_several_results(minutes: WindowedStream[Any, Any, Any]) -> None:
    totals, largest = minutes.sum(1), minutes.max(1)
    assert (spec_of(totals).fold, spec_of(largest).fold) == (ReduceFold(rolling_sum(1)), ReduceFold(rolling_max(1)))


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", [DeltaTrigger.of(1.0, lambda a, b: 1.0), NeverTrigger()])
def test_windows_that_merge_need_a_trigger_that_can(env: Any, keyed: Any, trigger: Any) -> None:
    for windows in (keyed.window(SESSIONS), env.from_collection([1]).window_all(SESSIONS)):
        with pytest.raises(
            ProgramError, match=r"EventTimeSessionWindows\(gap_ms=60000\) merges windows, and .* cannot"
        ):
            windows.trigger(trigger)


def test_an_assigner_whose_own_trigger_cannot_merge_is_refused_too(keyed: KeyedStream[Any, Any]) -> None:
    class Odd(EventTimeSessionWindows[Any]):
        def get_default_trigger(self, env: Any) -> Any:
            return NeverTrigger()

    with pytest.raises(ProgramError, match="merges windows"):
        keyed.window(Odd(5)).sum(1)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda windows: windows.trigger(CountTrigger), r"trigger\(\) takes a Trigger"),
        (lambda windows: windows.evictor(5), r"evictor\(\) takes an Evictor .* found 5"),
        (lambda windows: windows.allowed_lateness(-1), "0 ms or more, found -1"),
        (lambda windows: windows.allowed_lateness(Time.seconds(-1)), "0 ms or more, found Time"),
        (lambda windows: windows.allowed_lateness("5 s"), "allowed lateness.* found '5 s'"),
        (lambda windows: windows.allowed_lateness(True), "allowed lateness.* found True"),
        (lambda windows: windows.side_output_late_data("late"), r"takes an OutputTag .* found 'late'"),
        (lambda windows: windows.reduce(5), r"reduce\(\) needs a ReduceFunction or a callable"),
        (lambda windows: windows.reduce(lambda value: value), r"reduce\(\) calls the function with 2 arguments"),
        (lambda windows: windows.aggregate(larger), r"aggregate\(\) needs an AggregateFunction"),
        (lambda windows: windows.aggregate(Total(), accumulator_type=5), "aggregate: A type is one of"),
        (lambda windows: windows.aggregate(Total(), output_type=5), "aggregate: A type is one of"),
        (
            lambda windows: windows.process(NotOfWindows()),
            r"process\(\) needs a Process(All)?WindowFunction, found the",
        ),
        (lambda windows: windows.apply(lambda *records: records), r"apply\(\) needs an? (All)?WindowFunction"),
        (lambda windows: windows.reduce(larger, larger), r"reduce\(\) needs an? (All)?WindowFunction"),
    ],
)
def test_what_cannot_be_windowed_so_is_refused(minutes: Any, all_minutes: Any, call: Any, problem: str) -> None:
    for windows in (minutes, all_minutes):
        with pytest.raises(ProgramError, match=problem):
            call(windows)


def test_window_functions_of_the_other_kind_are_refused_with_advice(minutes: Any, all_minutes: Any) -> None:
    with pytest.raises(ProgramError, match=r"AllWindowFunction AppliedToAll: use it with apply\(\) of .*window_all"):
        minutes.apply(AppliedToAll())
    with pytest.raises(ProgramError, match=r"ProcessWindowFunction Processed: use it with process\(\) of a windowed"):
        all_minutes.process(Processed())
    with pytest.raises(ProgramError, match="ProcessAllWindowFunction ProcessedAll"):
        minutes.reduce(larger, ProcessedAll())
    with pytest.raises(ProgramError, match="WindowFunction Applied"):
        all_minutes.aggregate(Total(), Applied())


@pytest.mark.parametrize("assigner", [5, TumblingEventTimeWindows, Time.seconds(5)])
def test_windows_need_an_assigner(env: StreamExecutionEnvironment, keyed: Any, assigner: Any) -> None:
    with pytest.raises(ProgramError, match=r"window\(\) takes a WindowAssigner"):
        keyed.window(assigner)
    with pytest.raises(ProgramError, match=r"window_all\(\) takes a WindowAssigner"):
        env.from_collection([1]).window_all(assigner)


@pytest.mark.parametrize(("size", "slide"), [(0, 0), (-1, 2), (3, -1)])
def test_count_windows_have_at_least_one_record(keyed: Any, size: int, slide: int) -> None:
    with pytest.raises(ProgramError, match="whole number of at least 1"):
        keyed.count_window(size, slide)
