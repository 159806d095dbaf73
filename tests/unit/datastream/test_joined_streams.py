"""Joins of two streams: what each call adds to the program, what is refused, and what window joins compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Duration, Time, Types, WatermarkStrategy
from flott.datastream import (
    CoGroupedStreams,
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinedStreams,
    JoinFunction,
    KeyedProcessFunction,
    KeySelector,
    OutputTag,
    ProcessJoinFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flott.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flott.errors import ProgramError
from flott.graph.specs import IntervalJoinSpec, KeySpec
from flott.graph.stream_graph import StreamNode
from flott.testing import TwoInputHarness, collect, in_process

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
LATE = OutputTag("late")


class Pairs(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left, right


class Both(JoinFunction[Any, Any, Any]):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


@pytest.fixture
def pair(env: StreamExecutionEnvironment) -> tuple[DataStream[Any], DataStream[Any]]:
    return env.from_collection([1]).name("one"), env.from_collection([2]).name("two")


def operator_of(stream: DataStream[Any]) -> StreamNode:
    stream.print()
    return stream.get_execution_environment().get_stream_graph().node(stream._id)  # type: ignore[arg-type]


# --- interval join: the program ---------------------------------------------------------------------------------------


def test_an_interval_join_is_an_operator_of_two_keyed_inputs(pair: tuple[DataStream[Any], DataStream[Any]]) -> None:
    join = pair[0].key_by(str, Types.STRING()).interval_join(pair[1].key_by(repr, Types.STRING()))
    made = join.between(Time.seconds(-1), Duration.of_seconds(2)).process(Pairs(), Types.TUPLE([Types.INT()] * 2))
    node = operator_of(made)
    assert node.name == "Interval Join"
    assert node.keys == (KeySpec(str, Types.STRING()), KeySpec(repr, Types.STRING()))
    assert node.output_type == made.get_type() == Types.TUPLE([Types.INT()] * 2)
    assert isinstance(node.spec, IntervalJoinSpec)
    assert (node.spec.lower_ms, node.spec.upper_ms) == (-1000, 2000)
    assert (node.spec.left_late_tag_id, node.spec.right_late_tag_id) == (None, None)
    graph = made.get_execution_environment().get_stream_graph()
    assert [
        (graph.node(edge.source).name, edge.partitioning.label, edge.input_index) for edge in graph.edges_into(node.id)
    ] == [("Source: one", "HASH", 0), ("Source: two", "HASH", 1)]


def test_exclusive_bounds_and_tags_are_in_the_spec(pair: tuple[DataStream[Any], DataStream[Any]]) -> None:
    join = pair[0].key_by(str).interval_join(pair[1].key_by(str)).between(Time.seconds(1), Time.seconds(2))
    join = join.lower_bound_exclusive().upper_bound_exclusive()
    join = join.side_output_left_late_data(LATE).side_output_right_late_data(OutputTag("other"))
    spec = operator_of(join.process(Pairs())).spec
    assert isinstance(spec, IntervalJoinSpec)
    assert (spec.lower_ms, spec.upper_ms) == (1001, 1999)
    assert (spec.left_late_tag_id, spec.right_late_tag_id) == ("late", "other")


@pytest.mark.parametrize(
    ("lower", "upper", "exclusive", "found"),
    [
        (2, 1, "", r"\[2 ms, 1 ms\]"),
        (1, 1, "lower", r"\(1 ms, 1 ms\]"),
        (1, 2, "lower upper", r"\(1 ms, 2 ms\)"),
    ],
)
def test_an_interval_in_which_nothing_can_be_is_refused(
    pair: tuple[DataStream[Any], DataStream[Any]], lower: int, upper: int, exclusive: str, found: str
) -> None:
    join = pair[0].key_by(str).interval_join(pair[1].key_by(str))
    join = join.between(Time.milliseconds(lower), Time.milliseconds(upper))  # type: ignore[assignment]
    for bound in exclusive.split():
        getattr(join, f"{bound}_bound_exclusive")()
    with pytest.raises(ProgramError, match=f"{found}, in which no record can be"):
        join.process(Pairs())  # type: ignore[attr-defined]


def interval(pair: tuple[DataStream[Any], DataStream[Any]]) -> Any:
    return pair[0].key_by(str).interval_join(pair[1].key_by(str)).between(Time.seconds(0), Time.seconds(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one, two: one.key_by(str).interval_join(two), "found one that is not. Call key_by"),
        (lambda one, two: one.key_by(str).interval_join(7), r"interval_join\(\) takes streams, found 7"),
        (
            lambda one, two: one.key_by(str, Types.STRING()).interval_join(two.key_by(int, Types.INT())),
            "would never be equal",
        ),
        (lambda one, two: interval((one, two)).process(lambda left, right, ctx: []), "needs a ProcessJoinFunction"),
        (lambda one, two: interval((one, two)).process(Both()), r"use it with join\(\) of two streams, in a window"),
        (lambda one, two: interval((one, two)).side_output_left_late_data("late"), "takes an OutputTag"),
        (lambda one, two: interval((one, two)).side_output_right_late_data("late"), "takes an OutputTag"),
        (
            lambda one, two: one.key_by(str).interval_join(two.key_by(str)).between(0, Time.seconds(1)),
            "The lower bound of between.. is a Time",
        ),
        (
            lambda one, two: one.key_by(str).interval_join(two.key_by(str)).between(Time.seconds(1), "5 s"),
            "The upper bound of between.. is a Time",
        ),
        (lambda one, two: one.join("two"), r"join\(\) takes streams, found 'two'"),
        (lambda one, two: one.co_group(None), r"co_group\(\) takes streams, found None"),
        (lambda one, two: one.join(two).where(1.5), r"where\(\) needs a KeySelector"),
        (lambda one, two: one.join(two).where(str).equal_to(None), r"equal_to\(\) needs a KeySelector"),
        (
            lambda one, two: one.join(two).where(str, Types.STRING()).equal_to(int, Types.INT()),
            "would never be equal",
        ),
        (lambda one, two: one.join(two).where(str).equal_to(str).window(10), "takes a WindowAssigner"),
        (lambda one, two: one.join(two).where(str).equal_to(str).window(TEN).trigger(1), "takes a Trigger"),
        (lambda one, two: one.join(two).where(str).equal_to(str).window(TEN).evictor(1), "takes an Evictor"),
        (
            lambda one, two: one.join(two).where(str).equal_to(str).window(TEN).allowed_lateness(-1),
            "allowed lateness is 0 ms or more",
        ),
        (
            lambda one, two: one.join(two).where(str).equal_to(str).window(TEN).side_output_late_data("late"),
            "takes an OutputTag",
        ),
        (
            lambda one, two: one.join(two).where(str).equal_to(str).window(TEN).apply(lambda value: value),
            r"with 2 arguments \(first, second\)",
        ),
        (
            lambda one, two: one.join(two).where(str).equal_to(str).window(TEN).apply(Pairs()),
            r"use it with interval_join\(\) of two keyed streams",
        ),
        (
            lambda one, two: one.co_group(two).where(str).equal_to(str).window(TEN).apply(Both()),
            r"use it with join\(\) of two streams, in a window",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(
    pair: tuple[DataStream[Any], DataStream[Any]], call: Callable[..., Any], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        call(*pair)


def test_streams_of_two_environments_cannot_be_joined(env: StreamExecutionEnvironment) -> None:
    other = in_process()
    with pytest.raises(ProgramError, match="of one environment"):
        env.from_collection([1]).join(other.from_collection([1]))


# --- window join: the program -----------------------------------------------------------------------------------------


def test_a_window_join_is_one_keyed_operator_over_both_tagged_streams(
    env: StreamExecutionEnvironment, pair: tuple[DataStream[Any], DataStream[Any]]
) -> None:
    joined = pair[0].join(pair[1])
    assert isinstance(joined, JoinedStreams)
    assert isinstance(pair[0].co_group(pair[1]), CoGroupedStreams)
    made = joined.where(str).equal_to(str, Types.STRING()).window(TEN).apply(Both(), Types.TUPLE([Types.INT()] * 2))
    made.uid("the join").print().name("out")
    assert made.get_type() == Types.TUPLE([Types.INT()] * 2)
    # The taggers run where their inputs run, and need no exchange of their own.
    assert [(vertex.name, vertex.parallelism) for vertex in env.get_job_graph().vertices] == [
        ("Source: one -> Input 1", 1),
        ("Source: two -> Input 2", 1),
        ("Window Join -> Sink: out", 2),
    ]


def test_taggers_need_no_uid(env: StreamExecutionEnvironment) -> None:
    env.get_config().disable_auto_generated_uids()
    one, two = env.from_collection([1]).uid("one"), env.from_collection([2]).uid("two").set_parallelism(1)
    made = one.join(two).where(str).equal_to(str).window(TEN).apply(Both())
    made.uid("join").print().uid("sink")
    env.get_job_graph()


def test_a_keyed_stream_is_joined_without_being_divided_by_its_own_key_first(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1]).map(int)
    numbers.key_by(str).join(numbers).where(str).equal_to(str).window(TEN).apply(Both()).print()
    assert [vertex.name for vertex in env.get_job_graph().vertices] == [
        "Source: Collection Source",
        "Map -> (Input 1, Input 2)",
        "Window Join -> Sink: Print",
    ]


# --- window join: what it computes ------------------------------------------------------------------------------------


class FirstField(KeySelector[Any, Any]):
    def get_key(self, value: Any) -> Any:
        return value[0]


def harness(write: Callable[[Any], DataStream[Any]], assigner: Any = TEN, method: str = "join") -> TwoInputHarness:
    """A join of records ``(key, timestamp)`` with records ``(timestamp, key)``."""
    return TwoInputHarness(
        lambda one, two: write(getattr(one, method)(two).where(FirstField()).equal_to(1).window(assigner))
    )


def feed(target: TwoInputHarness, one: Iterable[tuple[str, int]], two: Iterable[tuple[int, str]]) -> None:
    one, two = list(one), list(two)
    target.process_elements1(one, timestamps=[record[1] for record in one])
    target.process_elements2(two, timestamps=[record[0] for record in two])


def test_pairs_of_the_same_key_and_window_are_joined_and_have_the_time_of_the_window() -> None:
    with harness(lambda windows: windows.apply(Both())) as target:
        feed(target, [("a", 1), ("b", 3), ("a", 9), ("a", 10), ("z", 4)], [(0, "a"), (8, "a"), (11, "a"), (2, "c")])
        assert target.output == []
        target.process_watermark(9)
        assert target.output_with_timestamps == [
            ((("a", 1), (0, "a")), 9),
            ((("a", 1), (8, "a")), 9),
            ((("a", 9), (0, "a")), 9),
            ((("a", 9), (8, "a")), 9),
        ]
        target.clear_output()
        target.end_input()
        assert target.output_with_timestamps == [((("a", 10), (11, "a")), 19)]
        assert target.num_keyed_state_entries == 0


class IfEven(FlatJoinFunction[Any, Any, Any]):
    def join(self, first: Any, second: Any) -> Any:
        return ["even", first[1] + second[0]] if (first[1] + second[0]) % 2 == 0 else None


def test_a_flat_join_gives_any_number_of_records_for_a_pair() -> None:
    with harness(lambda windows: windows.apply(IfEven())) as target:
        feed(target, [("a", 1), ("a", 2)], [(1, "a"), (4, "a")])
        target.end_input()
        assert target.output == ["even", 2, "even", 6]


def test_a_plain_callable_is_a_join_function() -> None:
    with harness(lambda windows: windows.apply(lambda first, second: first[1] * second[0])) as target:
        feed(target, [("a", 3)], [(7, "a")])
        target.end_input()
        assert target.output == [21]


class Sizes(CoGroupFunction[Any, Any, Any]):
    """Knows its life cycle."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterator[Any]:
        yield self.subtasks, [record[1] for record in first], [record[0] for record in second]


def test_a_co_group_sees_all_records_of_a_key_and_window_also_of_one_stream_alone() -> None:
    with harness(lambda windows: windows.apply(Sizes()), method="co_group") as target:
        feed(target, [("a", 1), ("b", 3), ("a", 2), ("a", 12)], [(0, "a"), (5, "c"), (13, "a")])
        target.end_input()
        assert sorted(target.output_with_timestamps) == [
            ((1, [], [5]), 9),
            ((1, [1, 2], [0]), 9),
            ((1, [3], []), 9),
            ((1, [12], [13]), 19),
        ]


def test_a_co_group_may_be_a_callable_that_returns_nothing() -> None:
    def unmatched(first: list[Any], second: list[Any]) -> list[Any] | None:
        return None if second else first

    with harness(lambda windows: windows.apply(unmatched), method="co_group") as target:
        feed(target, [("a", 1), ("b", 3)], [(0, "a")])
        target.end_input()
        assert target.output == [("b", 3)]


def test_settings_are_those_of_windows() -> None:
    def write(windows: Any) -> DataStream[Any]:
        windows = windows.allowed_lateness(Time.milliseconds(5)).side_output_late_data(LATE)
        return windows.apply(Both())  # type: ignore[no-any-return]

    with harness(write) as target:
        feed(target, [("a", 1)], [(2, "a")])
        target.process_watermark(12)
        target.clear_output()
        feed(target, [("a", 3)], [])  # late, but the window is still there, and fires again
        target.process_watermark(13)
        assert sorted(target.output) == [(("a", 1), (2, "a")), (("a", 3), (2, "a"))]
        target.process_watermark(20)
        feed(target, [("a", 4)], [(5, "a")])
        assert target.side_output(LATE) == [(1, ("a", 4)), (2, (5, "a"))]
        assert (target.late_records.late, target.late_records.dropped) == (2, 0)


def test_a_trigger_decides_when_pairs_are_made() -> None:
    def write(windows: Any) -> DataStream[Any]:
        return windows.trigger(PurgingTrigger.of(CountTrigger.of(3))).apply(Both())  # type: ignore[no-any-return]

    with harness(write) as target:
        feed(target, [("a", 1), ("a", 2)], [(3, "a"), (4, "a")])
        assert target.output == [(("a", 1), (3, "a")), (("a", 2), (3, "a"))]


def test_a_failing_function_is_shown_with_its_key_and_window() -> None:
    target = harness(lambda windows: windows.apply(lambda first, second: first[1] // second[0]))
    feed(target, [("a", 1)], [(0, "a")])
    with pytest.raises(ZeroDivisionError) as failure:
        target.process_watermark(20)
    assert "Window Join" in failure.value.__notes__[0]
    assert "'a'" in failure.value.__notes__[0]


records = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=12)


@pytest.mark.parametrize(
    ("assigner", "windows_of"),
    [
        (TEN, lambda t: [t // 10]),
        (
            SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
            lambda t: [t // 5, t // 5 - 1],
        ),
    ],
    ids=["tumbling", "sliding"],
)
@settings(max_examples=60)
@given(one=records, two=records)
def test_a_window_join_is_the_product_of_both_sides_per_key_and_window(
    assigner: Any, windows_of: Callable[[int], list[int]], one: list[tuple[str, int]], two: list[tuple[str, int]]
) -> None:
    turned = [(time, key) for key, time in two]
    expected = [
        (first, second)
        for first, second in product(one, turned)
        if first[0] == second[1]
        for _ in set(windows_of(first[1])) & set(windows_of(second[0]))
    ]
    with harness(lambda windows: windows.apply(Both()), assigner) as target:
        feed(target, one, turned)
        target.end_input()
        assert sorted(target.output) == sorted(expected)


def test_sessions_of_both_streams_are_joined() -> None:
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
    with harness(lambda windows: windows.apply(Both()), sessions) as target:
        feed(target, [("a", 1), ("a", 20)], [(4, "a"), (8, "a"), (30, "a")])
        target.end_input()
        assert target.output_with_timestamps == [((("a", 1), (4, "a")), 12), ((("a", 1), (8, "a")), 12)]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_batch_job_joins_the_same_pairs(parallelism: int) -> None:
    """As one epoch, key by key; in a batch job nothing is late."""

    def pairs(mode: RuntimeExecutionMode) -> list[Any]:
        env = in_process(parallelism)
        env.set_runtime_mode(mode)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
        one, two = (
            env.from_collection([(f"key{n * step % 5}", n * step % 97) for n in range(60)])
            .assign_timestamps_and_watermarks(strategy)
            .map(lambda record: record)
            for step in (7, 11)
        )
        close = one.key_by(0).interval_join(two.key_by(0)).between(Time.milliseconds(-3), Time.milliseconds(9))
        windows = one.join(two).where(0).equal_to(0).window(TEN)
        return sorted(collect(close.process(Pairs()).union(windows.apply(Both()))))

    found = pairs(RuntimeExecutionMode.BATCH)
    assert found == pairs(RuntimeExecutionMode.STREAMING)
    assert len(found) > 50


# --- unions -----------------------------------------------------------------------------------------------------------


class Watermarks(KeyedProcessFunction[Any, Any, Any]):
    """Emits its records, and a mark when event time has passed them all."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(100)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "passed", timestamp


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("keyed", [False, True])
def test_streams_of_different_parallelism_can_be_united(parallelism: int, keyed: bool) -> None:
    env = in_process(parallelism)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    parts = []
    for width in (1, 2, 4):
        numbers = env.from_collection(list(range(width * 100, width * 100 + 50))).set_parallelism(1)
        stamped = numbers.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
        parts.append(stamped.map(lambda n: n).set_parallelism(width))
    united = parts[0].union(*parts[1:])
    result = united.key_by(lambda n: 0).process(Watermarks()) if keyed else united.map(lambda n: n)
    found = collect(result)
    expected = [n for width in (1, 2, 4) for n in range(width * 100, width * 100 + 50)]
    assert sorted(n for n in found if isinstance(n, int)) == expected
    # Event time is that of the slowest subtask of all streams: the timer fires once, behind everything before 100.
    assert [mark for mark in found if not isinstance(mark, int)] == ([("passed", 100)] if keyed else [])


def test_a_union_may_be_read_by_operators_of_any_parallelism_and_be_part_of_a_union() -> None:
    env = in_process(2)
    one, two = env.from_collection([1, 2]).map(int).set_parallelism(3), env.from_collection([3]).map(int)
    inner = one.union(two)
    outer = inner.union(inner.map(lambda n: n * 10).set_parallelism(1), one.filter(lambda n: n > 1).set_parallelism(4))
    assert sorted(collect(outer.map(int).set_parallelism(3))) == [1, 2, 2, 3, 10, 20, 30]
