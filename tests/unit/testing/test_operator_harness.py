"""A piece of a program in a harness does what it does in a job."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Duration, Time, Types, WatermarkStrategy
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, TimestampAssigner
from flott.datastream import AsyncDataStream, OutputTag
from flott.datastream.functions import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
)
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flott.datastream.window import TumblingEventTimeWindows
from flott.errors import CorruptStateError, ProgramError, StateError, UnserializableError
from flott.testing import (
    EndOfEpoch,
    HarnessSnapshot,
    OperatorHarness,
    ScriptedSource,
    TwoInputHarness,
    collect,
    in_process,
)

ODD = OutputTag("odd")


class Reminder(KeyedProcessFunction[str, tuple[str, int], Any]):
    """Counts per key; says so when event time is five past a record, or when asked for it in processing time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.calls = runtime_context.get_metrics_group().counter("calls")

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        self.calls.inc()
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.add(value[1])
        timers = ctx.timer_service()
        if ctx.timestamp() is None:
            timers.register_processing_time_timer(timers.current_processing_time() + value[1])
        else:
            timers.register_event_time_timer(ctx.timestamp() + 5)
        if value[1] % 2:
            yield ODD, value
        yield value[0], count, timers.current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp, self.count.value(), list(self.seen.get())


def reminders(stream: Any) -> Any:
    return stream.key_by(lambda pair: pair[0]).process(Reminder()).uid("reminder")


# --- time ------------------------------------------------------------------------------------------------------------


def test_records_are_processed_at_once_and_at_the_watermark_that_was_reached_before_them() -> None:
    with OperatorHarness(reminders) as harness:
        harness.process_element(("a", 2), 1)
        assert harness.output == [("a", 1, MIN_WATERMARK)]
        harness.process_watermark(3)
        harness.process_element(("a", 2), 4)
        assert harness.output_with_timestamps[1:] == [(("a", 2, 3), 4)]
        assert (harness.num_event_time_timers, harness.current_watermark) == (2, 3)
        harness.clear_output()
        harness.process_watermark(6)
        assert harness.output_with_timestamps == [(("timer", "a", 6, 2, [2, 2]), 6)]
        harness.process_watermark(2)
        assert (harness.current_watermark, harness.num_event_time_timers) == (6, 1)
        harness.end_input()
        assert harness.current_watermark == MAX_WATERMARK
        assert harness.output == [("timer", "a", 6, 2, [2, 2]), ("timer", "a", 9, 2, [2, 2])]


def test_processing_time_stands_still_until_it_is_set_and_then_fires_its_timers() -> None:
    with OperatorHarness(reminders, processing_time=100) as harness:
        harness.process_elements([("a", 20), ("b", 10)])
        assert harness.num_processing_time_timers == 2
        harness.clear_output()
        harness.set_processing_time(109)
        assert harness.output == []
        harness.set_processing_time(500)
        assert harness.output_with_timestamps == [
            (("timer", "b", 110, 1, [10]), None),
            (("timer", "a", 120, 1, [20]), None),
        ]
        assert harness.num_processing_time_timers == 0
        with pytest.raises(ProgramError, match="cannot go back from 500 to 499"):
            harness.set_processing_time(499)
        harness.process_element(("a", 0))
        harness.end_epoch()
        assert harness.output[-1] == ("timer", "a", 500, 2, [20, 0]), "due already when it was set"


def test_event_time_of_two_inputs_is_the_lesser_of_their_watermarks() -> None:
    with TwoInputHarness(lambda left, right: left.union(right).process(WatermarkOf())) as harness:
        harness.process_watermark1(10)
        harness.process_element1("x")
        harness.process_watermark2(7)
        harness.process_element2("x")
        harness.process_watermark(20)
        harness.process_element1("x")
    assert harness.output == [MIN_WATERMARK, 7, 20]


class WatermarkOf(ProcessFunction[Any, int]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield ctx.timer_service().current_watermark()


def test_a_watermark_strategy_of_the_piece_decides_at_the_end_of_each_epoch() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    with OperatorHarness(lambda s: reminders(s.assign_timestamps_and_watermarks(strategy))) as harness:
        harness.process_elements([("a", 1), ("a", 7)])
        harness.end_epoch()
        assert harness.output[-1] == ("timer", "a", 6, 2, [1, 7])
        taken = harness.snapshot()
    with OperatorHarness(
        lambda s: reminders(s.assign_timestamps_and_watermarks(strategy)), snapshot=taken
    ) as restored:
        restored.process_element(("b", 3))
        assert restored.output == [("b", 1, 6)], "the generator goes on where it was"


@pytest.mark.parametrize("timestamps", [(5, 50), (50, 5)])
def test_an_operator_is_as_far_as_the_slowest_subtask_before_it(timestamps: tuple[int, int]) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())

    def piece(stream: Any) -> Any:
        timed = stream.rebalance().assign_timestamps_and_watermarks(strategy)
        return timed.key_by(lambda pair: pair[0]).process(Watermarks())

    with OperatorHarness(piece, parallelism=2) as harness:
        harness.process_elements([("a", timestamp) for timestamp in timestamps])  # one for each subtask
        harness.end_epoch()
        harness.process_element(("a", 60))
        assert harness.output == [MIN_WATERMARK, MIN_WATERMARK, 4]


def test_an_operator_that_is_not_fused_is_as_far_as_its_own_subtask_before_it() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())

    def piece(stream: Any) -> Any:
        timed = stream.rebalance().assign_timestamps_and_watermarks(strategy)
        return timed.process(WatermarkOf()).start_new_chain()

    with OperatorHarness(piece, parallelism=2) as harness:
        harness.process_elements([("a", 5), ("a", 50)])
        harness.end_epoch()
        harness.clear_output()
        harness.process_elements([("a", 60), ("a", 60)])
        assert sorted(harness.output) == [4, 49]


class Watermarks(KeyedProcessFunction[Any, Any, int]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield ctx.timer_service().current_watermark()


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


# --- output and state ------------------------------------------------------------------------------------------------


def test_side_outputs_need_not_be_declared() -> None:
    with OperatorHarness(lambda s: reminders(s).map(lambda out: out[0])) as harness:
        harness.process_elements([("a", 1), ("b", 2), ("c", 3)], timestamps=[5, 6, 7])
        assert harness.output == ["a", "b", "c"]
        assert harness.side_output(ODD) == [("a", 1), ("c", 3)]
        assert harness.side_output_with_timestamps(ODD) == [(("a", 1), 5), (("c", 3), 7)]
        assert harness.side_output(OutputTag("other")) == []
        harness.clear_output()
        assert harness.side_output(ODD) == []


def test_a_side_output_that_the_piece_reads_itself_still_reaches_its_reader() -> None:
    with OperatorHarness(lambda s: reminders(s).get_side_output(ODD).map(lambda pair: pair[1])) as harness:
        harness.process_elements([("a", 1), ("b", 2)])
        assert (harness.output, harness.side_output(ODD)) == ([1], [("a", 1)])


class EveryKind(KeyedProcessFunction[str, str, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.STRING()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))
        adding = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT())
        self.sum = runtime_context.get_reducing_state(adding)

    def process_element(self, value: str, ctx: Any) -> None:
        self.value.update(value)
        self.list.add(value)
        self.map.put(value, len(value))
        self.sum.add(len(value))


def test_keyed_state_can_be_looked_into() -> None:
    with OperatorHarness(lambda s: s.key_by(lambda word: word[0]).process(EveryKind()), parallelism=3) as harness:
        harness.process_elements(["ant", "bear", "ape"])
        assert [harness.get_state("a", name) for name in ("value", "list", "map", "sum")] == [
            "ape", ["ant", "ape"], {"ant": 3, "ape": 3}, 6,
        ]  # fmt: skip
        assert [harness.get_state("z", name) for name in ("value", "list", "map", "sum")] == [None, [], {}, None]
        assert harness.num_keyed_state_entries == 8
        with pytest.raises(ProgramError, match="'colour' is held by no operator; states of this piece: list, map"):
            harness.get_state("a", "colour")


def test_a_state_that_two_operators_have_is_asked_for_by_operator() -> None:
    def twice(stream: Any) -> Any:
        first = stream.key_by(lambda pair: pair[0]).process(Reminder()).uid("first")
        return first.map(lambda out: (out[0], 0)).key_by(lambda pair: pair[0]).process(Reminder()).name("second")

    with OperatorHarness(twice, parallelism=2) as harness:
        harness.process_elements([("a", 4), ("a", 6)])
        assert harness.get_state("a", "seen", "first") == [4, 6]
        assert harness.get_state("a", "seen", operator="second") == [0, 0]
        with pytest.raises(ProgramError, match=r"is held by .* and 'second'"):
            harness.get_state("a", "seen")


def test_metrics_are_summed_over_subtasks() -> None:
    with OperatorHarness(lambda s: reminders(s).name("remind"), parallelism=4) as harness:
        harness.process_elements([(key, 2) for key in "abcdefgh"])
        harness.end_epoch()
        harness.process_element(("a", 2))
        assert harness.metrics == {"remind.calls": 9}


def test_two_inputs_keep_their_places() -> None:
    class Both(CoMapFunction[int, str, str]):
        def map1(self, value: int) -> str:
            return f"number {value}"

        def map2(self, value: str) -> str:
            return f"word {value}"

    with TwoInputHarness(lambda numbers, words: numbers.connect(words).map(Both())) as harness:
        harness.process_element2("x")
        harness.process_elements1([1, 2])
        harness.process_elements2(["y"], timestamps=[3])
    assert harness.output_with_timestamps == [("word x", None), ("number 1", None), ("number 2", None), ("word y", 3)]


class Join(KeyedCoProcessFunction[str, Any, Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.left.update(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.left.value(), value


def test_both_inputs_of_a_keyed_piece_are_routed_to_the_subtask_that_owns_the_key() -> None:
    def join(left: Any, right: Any) -> Any:
        return left.connect(right).key_by(lambda pair: pair[0], lambda pair: pair[0]).process(Join())

    with TwoInputHarness(join, parallelism=5) as harness:
        harness.process_elements1([(key, "left") for key in "abcdefgh"])
        harness.process_elements2([(key, "right") for key in "abcdefgh"])
        taken = harness.snapshot()
    assert sorted(harness.output) == [((key, "left"), (key, "right")) for key in "abcdefgh"]
    with TwoInputHarness(join, parallelism=2, snapshot=taken) as harness:
        harness.process_element2(("c", "again"))
    assert harness.output == [(("c", "left"), ("c", "again"))]


def test_functions_learn_where_they_run() -> None:
    class Where(MapFunction[int, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.context = runtime_context

        def map(self, value: int) -> Any:
            context = self.context
            return (
                context.get_index_of_this_subtask(),
                context.get_number_of_parallel_subtasks(),
                context.get_max_number_of_parallel_subtasks(),
                context.get_job_parameter("colour", "none"),
            )

    where = OperatorHarness(
        lambda s: s.map(Where()), parallelism=2, max_parallelism=8, job_parameters={"colour": "blue"}
    )
    where.process_elements([1, 2, 3])
    assert sorted(set(where.output)) == [(0, 2, 8, "blue"), (1, 2, 8, "blue")]


def test_input_of_a_declared_type_is_checked() -> None:
    with (
        pytest.raises(TypeError, match="declared Integer"),
        OperatorHarness(lambda s: s.map(lambda n: n), input_type=Types.INT()) as harness,
    ):
        harness.process_element("one")


# --- other kinds of operators ----------------------------------------------------------------------------------------

LATE = OutputTag("late")


def test_windows_fire_at_watermarks_and_late_records_are_in_the_ledger() -> None:
    def sums(stream: Any) -> Any:
        windows = stream.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))

    with OperatorHarness(sums, parallelism=2) as harness:
        harness.process_elements([("a", 1), ("b", 2), ("a", 3)], timestamps=[1, 2, 11])
        assert (harness.output, harness.num_keyed_state_entries) == ([], 3)
        harness.process_watermark(9)
        assert sorted(harness.output_with_timestamps) == [(("a", 1), 9), (("b", 2), 9)]
        harness.process_elements([("a", 5), ("a", 7)], timestamps=[8, 12])
        assert harness.late_records.dropped == 1
        harness.end_epoch()
        harness.process_element(("b", 6), timestamp=3)
        assert (harness.late_records.dropped, harness.late_records.late) == (2, 0)
        assert [sample.record for sample in harness.late_records.samples] == ["('a', 5)", "('b', 6)"]
        taken = harness.snapshot()
    with OperatorHarness(sums, snapshot=taken) as harness:
        harness.end_input()
        assert harness.output == [("a", 10)]


def test_late_records_that_are_kept_are_in_their_side_output_and_in_the_ledger() -> None:
    def sums(stream: Any) -> Any:
        windows = stream.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.side_output_late_data(LATE).reduce(lambda a, b: (a[0], a[1] + b[1]))

    with OperatorHarness(sums) as harness:
        harness.process_watermark(9)
        harness.process_element(("a", 5), timestamp=8)
        assert harness.side_output_with_timestamps(LATE) == [(("a", 5), 8)]
        assert (harness.late_records.dropped, harness.late_records.late) == (0, 1)
        harness.end_input()
        assert (harness.late_records.dropped, harness.late_records.late) == (0, 1)


class Rules(BroadcastProcessFunction[int, int, int]):
    LIMITS = MapStateDescriptor("limits", str, int)

    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        if value <= (ctx.get_broadcast_state(self.LIMITS).get("limit") or 0):
            yield value

    def process_broadcast_element(self, value: int, ctx: Any) -> None:
        ctx.get_broadcast_state(self.LIMITS).put("limit", value)


def test_a_broadcast_reaches_every_subtask_and_survives_a_snapshot() -> None:
    def rules(numbers: Any, limits: Any) -> Any:
        return numbers.rebalance().connect(limits.broadcast(Rules.LIMITS)).process(Rules())

    with TwoInputHarness(rules, parallelism=3) as harness:
        harness.process_elements1([1, 2, 3])
        harness.process_element2(2)
        harness.process_elements1([1, 2, 3] * 3)
        assert sorted(harness.output) == [1, 1, 1, 2, 2, 2]
        taken = harness.snapshot()
    with TwoInputHarness(rules, parallelism=2, snapshot=taken) as harness:
        harness.process_elements1([1, 2, 3] * 2)
        assert sorted(harness.output) == [1, 1, 2, 2]


class Seen(MapFunction[int, list[int]], CheckpointedFunction):
    """Keeps all it has seen in union state: after a restart every subtask knows what all have seen."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("seen", int))
        self.seen = sorted(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.seen)

    def map(self, value: int) -> list[int]:
        self.seen.append(value)
        return list(self.seen)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_operator_state_is_dealt_out_when_a_snapshot_is_restored(parallelism: int) -> None:
    with OperatorHarness(lambda s: s.rebalance().map(Seen()), parallelism=2) as harness:
        harness.process_elements([1, 2, 3, 4])
        taken = harness.snapshot()
    with OperatorHarness(lambda s: s.rebalance().map(Seen()), parallelism=parallelism, snapshot=taken) as harness:
        harness.process_element(5)
        assert harness.output == [[1, 2, 3, 4, 5]]


async def doubled(value: int) -> list[int]:
    return [value, value]


def test_what_waits_is_awaited_before_the_epoch_ends() -> None:
    with OperatorHarness(lambda s: AsyncDataStream.ordered_wait(s, doubled, Time.seconds(10))) as harness:
        harness.process_elements([1, 2])
        harness.end_epoch()
        assert harness.output == [1, 1, 2, 2]


# --- serialization ---------------------------------------------------------------------------------------------------


def test_a_function_that_could_not_travel_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(UnserializableError, match="captures 'lock'"):
        OperatorHarness(lambda s: s.map(lambda value: (value, lock)))


def test_records_are_copies_and_those_that_could_not_travel_are_refused() -> None:
    given_ = [1]
    with OperatorHarness(lambda s: s.map(lambda value: value)) as harness:
        harness.process_element(given_)
        assert harness.output == [[1]]
        assert harness.output[0] is not given_
        with pytest.raises(ProgramError, match="cannot be sent"):
            harness.process_element(generator(2))
    with OperatorHarness(lambda s: s.map(lambda value: value.append(2)).filter(lambda value: False)) as harness:
        harness.process_element(given_)
        assert given_ == [1], "what a function does to a record is not seen outside"
    with pytest.raises(ProgramError, match="cannot be sent"), OperatorHarness(lambda s: s.map(generator)) as harness:
        harness.process_element(1)


def generator(value: int) -> Any:
    return (n for n in range(value))


def test_state_that_could_not_be_saved_is_refused_at_the_end_of_the_epoch() -> None:
    class Keeps(KeyedProcessFunction[int, int, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("live", Types.PICKLED_BYTE_ARRAY()))

        def process_element(self, value: int, ctx: Any) -> None:
            self.state.update(generator(value))

    harness = OperatorHarness(lambda s: s.key_by(lambda n: n).process(Keeps()))
    harness.process_element(1)
    with pytest.raises(StateError, match="'live'"):
        harness.end_epoch()


def test_without_serialization_functions_and_records_are_the_objects_that_were_given() -> None:
    seen: list[Any] = []
    element = object()
    harness = OperatorHarness(lambda s: s.key_by(id).map(lambda value: seen.append(value) or value), serialize=False)
    harness.process_element(element)
    harness.end_epoch()
    assert seen == harness.output == [element]
    with pytest.raises(ProgramError, match="one subtask only"):
        OperatorHarness(lambda s: s.map(str), serialize=False, parallelism=2)


def test_without_serialization_state_and_timers_work_as_well() -> None:
    harness = OperatorHarness(reminders, serialize=False)
    harness.process_element(("a", 2), 1)
    harness.process_watermark(6)
    assert harness.output == [("a", 1, MIN_WATERMARK), ("timer", "a", 6, 1, [2])]
    with OperatorHarness(reminders, parallelism=2, snapshot=harness.snapshot()) as restored:
        assert restored.get_state("a", "count") == 1


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_a_value_and_restores_state_timers_and_both_times() -> None:
    with OperatorHarness(reminders, processing_time=50) as harness:
        harness.process_element(("a", 2), 1)
        harness.process_element(("p", 30))
        harness.process_watermark(4)
        taken = harness.snapshot()
        harness.process_element(("a", 2), 5)
        assert harness.snapshot() != taken
    kept = HarnessSnapshot(bytes(pickle.loads(pickle.dumps(taken))))
    assert kept == taken
    for _ in range(2):  # it can be restored any number of times
        with OperatorHarness(reminders, parallelism=3, snapshot=kept) as restored:
            assert (restored.get_state("a", "count"), restored.current_watermark) == (1, 4)
            assert (restored.num_event_time_timers, restored.num_processing_time_timers) == (1, 1)
            restored.process_watermark(6)
            restored.set_processing_time(80)
            assert restored.output == [("timer", "a", 6, 1, [2]), ("timer", "p", 80, 1, [30])]


def test_what_was_taken_back_is_not_in_the_snapshot() -> None:
    taken = OperatorHarness(reminders).snapshot()
    with OperatorHarness(reminders, snapshot=taken) as restored:
        assert restored.num_keyed_state_entries == 0


def test_a_snapshot_of_something_else_is_refused() -> None:
    harness = OperatorHarness(reminders)
    harness.process_element(("a", 2))
    taken = harness.snapshot()
    with pytest.raises(ProgramError, match="uid 'reminder'"):
        OperatorHarness(lambda s: s.map(str), snapshot=taken)
    with pytest.raises(StateError, match="128 key groups"):
        OperatorHarness(reminders, snapshot=taken, max_parallelism=64)
    with pytest.raises(CorruptStateError, match="not a snapshot"):
        OperatorHarness(reminders, snapshot=HarnessSnapshot(b"nonsense"))


def test_a_finished_harness_has_a_last_snapshot() -> None:
    harness = OperatorHarness(reminders)
    harness.process_element(("a", 2), 1)
    harness.end_input()
    assert OperatorHarness(reminders, snapshot=harness.snapshot()).get_state("a", "count") == 1
    with pytest.raises(ProgramError, match=r"because end_input\(\) was called"):
        harness.process_element(("a", 2), 1)


# --- failure and life ------------------------------------------------------------------------------------------------


class Picky(KeyedProcessFunction[str, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> None:
        if value[1] == 0:
            raise ZeroDivisionError("no zeros here")
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        raise LookupError(f"cannot fire {timestamp}")


def test_user_code_raises_its_own_exception_with_the_failure_card_as_a_note() -> None:
    harness = OperatorHarness(lambda s: s.key_by(lambda p: p[0]).process(Picky()).name("picky"), parallelism=2)
    with pytest.raises(ZeroDivisionError) as caught:
        harness.process_elements([("a", 1), ("b", 0)], timestamps=[1, 2])
    card = "\n".join(caught.value.__notes__)
    for fact in ("picky", "processing a record", "key        'b'", "record     ('b', 0)", "timestamp  2", "of 2"):
        assert fact in card
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    with pytest.raises(ProgramError, match=r"failed \(ZeroDivisionError: no zeros here\)"):
        harness.process_element(("a", 1))
    assert harness.output == []
    harness.close()


def test_a_timer_that_raises_says_which() -> None:
    harness = OperatorHarness(lambda s: s.key_by(lambda p: p[0]).process(Picky()))
    harness.process_element(("a", 7))
    with pytest.raises(LookupError, match="cannot fire 7") as caught:
        harness.process_watermark(8)
    assert "on_timer(7) in event time" in caught.value.__notes__[0]


class Diary(MapFunction[Any, Any]):
    def __init__(self, diary: list[str], fails_to: str = ""):
        self.diary, self.fails_to = diary, fails_to

    def open(self, runtime_context: RuntimeContext) -> None:
        self.diary.append("open")
        if self.fails_to == "open":
            raise OSError("cannot open")

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        self.diary.append("close")
        if self.fails_to == "close":
            raise OSError("cannot close")


def test_functions_are_opened_and_closed_once() -> None:
    diary: list[str] = []
    with OperatorHarness(lambda s: s.map(Diary(diary)), serialize=False) as harness:
        harness.process_element(1)
        harness.end_epoch()
        harness.process_element(2)
        assert diary == ["open"]
    harness.close()
    assert diary == ["open", "close"]


def test_failures_to_open_and_to_close_are_raised() -> None:
    with pytest.raises(OSError, match="cannot open"):
        OperatorHarness(lambda s: s.map(Diary([], "open")))
    harness = OperatorHarness(lambda s: s.map(Diary([], "close")))
    with pytest.raises(OSError, match="cannot close"):
        harness.close()
    with pytest.raises(ValueError, match="the test's own"), OperatorHarness(lambda s: s.map(Diary([], "close"))):
        raise ValueError("the test's own")


@pytest.mark.parametrize(
    ("piece", "complaint"),
    [
        (lambda s: None, "found None"),
        (lambda s: s.print(), "returns the stream"),
        (lambda s: [s, s.print()][0], "before a sink"),
        (lambda s: in_process(1).from_collection([1]), "found"),
    ],
)
def test_what_is_no_piece_of_a_program_is_refused(piece: Any, complaint: str) -> None:
    with pytest.raises(ProgramError, match=complaint):
        OperatorHarness(piece)


def test_an_input_that_is_not_used_is_noticed() -> None:
    with pytest.raises(ProgramError, match="'second input'"):
        TwoInputHarness(lambda left, right: left.map(str))


def test_timestamps_are_given_for_all_elements_or_for_none() -> None:
    with OperatorHarness(reminders) as harness, pytest.raises(ProgramError, match="2 elements and 1 timestamps"):
        harness.process_elements([("a", 1), ("b", 2)], timestamps=[1])


# --- the same as a job -----------------------------------------------------------------------------------------------

elements = st.tuples(st.sampled_from("abcde"), st.integers(0, 30))
#: An epoch of a job is at most four times as large as the one before, so these are the job's epochs, too.
epochs = st.lists(st.lists(elements, min_size=1, max_size=4), min_size=1, max_size=6)


def several_steps(stream: Any) -> Any:
    """Two exchanges, a fork and a union, whose sides do not meet in one key: their order is anybody's."""
    counted = reminders(stream)
    return counted.union(counted.get_side_output(ODD).map(lambda pair: ("odd", *pair))).key_by(
        lambda out: out[:2]
    ).process(Tail())


class Tail(KeyedProcessFunction[Any, Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = (self.number.value() or 0) + 1
        self.number.update(number)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 3)
        yield value, number

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "tail", ctx.get_current_key(), timestamp, self.number.value()


def in_a_job(piece: Any, script: list[list[Any]], parallelism: int) -> list[Any]:
    env = in_process(parallelism, flott__epoch__target_duration="1 h")
    entries = [entry for epoch in script for entry in [*epoch, EndOfEpoch()]]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2)).with_timestamp_assigner(
        SecondField()
    )
    stream = env.from_source(ScriptedSource(entries), strategy, uuid4().hex).set_parallelism(1)
    return collect(piece(stream))


def process(harness: OperatorHarness, epoch: list[Any]) -> None:
    harness.process_elements(epoch, timestamps=[timestamp for _, timestamp in epoch])


@settings(max_examples=20)
@given(epochs)
def test_in_one_subtask_a_harness_gives_exactly_what_a_job_gives(script: list[list[Any]]) -> None:
    for piece in (reminders, several_steps):
        with OperatorHarness(piece) as harness:
            greatest = 0
            for epoch in script[:-1]:
                process(harness, epoch)
                greatest = max(greatest, *(timestamp for _, timestamp in epoch))
                harness.process_watermark(greatest - 3)
            process(harness, script[-1])
            harness.end_input()
            expected = in_a_job(piece, script, 1)
            if piece is reminders:
                assert harness.output == expected
            assert sorted(map(repr, harness.output)) == sorted(map(repr, expected))


@settings(max_examples=20)
@given(epochs, st.data())
def test_snapshots_restored_at_any_parallelism_go_on_as_if_nothing_had_happened(
    script: list[list[Any]], data: st.DataObject
) -> None:
    for piece in (reminders, several_steps):
        harness = OperatorHarness(piece)
        output: list[Any] = []
        greatest = 0
        for epoch in script[:-1]:
            process(harness, epoch)
            greatest = max(greatest, *(timestamp for _, timestamp in epoch))
            harness.process_watermark(greatest - 3)
            if data.draw(st.booleans()):
                output += harness.output
                parallelism = data.draw(st.integers(1, 4))
                harness = OperatorHarness(piece, parallelism=parallelism, snapshot=harness.snapshot())
        process(harness, script[-1])
        harness.end_input()
        output += harness.output
        assert sorted(map(repr, output)) == sorted(map(repr, in_a_job(piece, script, 2)))
