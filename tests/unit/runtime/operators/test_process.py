"""Process functions: what they are told about a record, and when their timers fire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.datastream import OutputTag, TimeDomain
from flott.datastream.functions import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from flott.errors import ProgramError
from flott.testing import OperatorHarness, TwoInputHarness

ASIDE = OutputTag("aside")


class Obedient(KeyedProcessFunction[str, Any, Any]):
    """Does what a record says: ``(key, verb, argument)``."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, verb, argument = value
        timers = ctx.timer_service()
        match verb:
            case "event":
                timers.register_event_time_timer(argument)
            case "processing":
                timers.register_processing_time_timer(argument)
            case "delete event":
                timers.delete_event_time_timer(argument)
            case "delete processing":
                timers.delete_processing_time_timer(argument)
            case "look":
                yield ctx.get_current_key(), ctx.timestamp(), timers.current_processing_time()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.time_domain(), ctx.timestamp()
        if timestamp == 50:
            ctx.timer_service().register_event_time_timer(20)  # in the past
            yield ASIDE, ctx.get_current_key()


def obedient(**settings: Any) -> OperatorHarness:
    return OperatorHarness(lambda stream: stream.key_by(lambda told: told[0]).process(Obedient()), **settings)


def test_a_record_is_seen_with_its_key_its_timestamp_and_the_clock() -> None:
    with obedient(processing_time=7) as harness:
        harness.process_element(("a", "look", None), timestamp=3)
        harness.process_element(("b", "look", None))
        assert harness.output_with_timestamps == [(("a", 3, 7), 3), (("b", None, 7), None)]


def test_timers_fire_in_the_order_of_their_timestamps_and_keys_whatever_the_order_of_registration() -> None:
    with obedient() as harness:
        harness.process_elements([("b", "event", 9), ("a", "event", 9), ("c", "event", 4), ("a", "event", 9)])
        harness.process_watermark(9)
    event = TimeDomain.EVENT_TIME
    assert harness.output == [("c", 4, event, 4), ("a", 9, event, 9), ("b", 9, event, 9)]


def test_a_deleted_timer_does_not_fire_and_others_of_its_timestamp_do() -> None:
    with obedient() as harness:
        harness.process_elements([("a", "event", 5), ("b", "event", 5), ("a", "processing", 5)])
        harness.process_elements([("a", "delete event", 5), ("b", "delete processing", 5), ("z", "delete event", 5)])
        harness.process_watermark(5)
        harness.set_processing_time(5)
    assert harness.output == [("b", 5, TimeDomain.EVENT_TIME, 5), ("a", 5, TimeDomain.PROCESSING_TIME, 5)]


def test_a_timer_that_sets_one_in_the_past_sees_it_fire_at_once() -> None:
    with obedient() as harness:
        harness.process_element(("a", "event", 50))
        harness.process_watermark(60)
        event = TimeDomain.EVENT_TIME
        assert harness.output_with_timestamps == [(("a", 50, event, 50), 50), (("a", 20, event, 20), 20)]
        assert harness.side_output_with_timestamps(ASIDE) == [("a", 50)]
        assert harness.num_event_time_timers == 0


def test_a_timer_that_is_due_already_fires_at_the_end_of_the_epoch_that_sets_it() -> None:
    with obedient(processing_time=100) as harness:
        harness.process_watermark(100)
        harness.process_elements([("a", "event", 30), ("a", "processing", 40)])
        assert harness.output == []
        harness.end_epoch()
    assert sorted(out[1] for out in harness.output) == [30, 40]


@pytest.mark.parametrize("timestamp", [30.0, True])
def test_a_timestamp_that_is_a_whole_number_is_taken_as_one(timestamp: Any) -> None:
    with obedient() as harness:
        harness.process_element(("a", "event", timestamp))
        harness.end_input()
        assert harness.output[0][1] == int(timestamp)


@pytest.mark.parametrize("timestamp", [30.5, "30", None])
def test_a_timestamp_that_is_no_number_is_refused(timestamp: Any) -> None:
    with pytest.raises(ProgramError, match="whole number of milliseconds"), obedient() as harness:
        harness.process_element(("a", "event", timestamp))


class Unkeyed(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.timestamp()
        ctx.timer_service().register_event_time_timer(1)


def test_timers_need_a_key() -> None:
    harness = OperatorHarness(lambda stream: stream.process(Unkeyed()))
    with pytest.raises(ProgramError, match=r"call key_by\(\.\.\.\) before process"):
        harness.process_element(1)


class Listed(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [value, value] if value % 2 else None  # not a generator


def test_a_process_function_may_return_a_list_or_nothing() -> None:
    with OperatorHarness(lambda numbers: numbers.key_by(lambda n: n).process(Listed())) as harness:
        harness.process_elements([1, 2, 3])
        assert harness.output == [1, 1, 3, 3]


class Sides(CoProcessFunction[Any, Any, Any]):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield "left", value, ctx.timestamp()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ASIDE, ("right", value, ctx.timestamp())


def test_each_input_has_its_method_and_either_may_write_to_a_side_output() -> None:
    with TwoInputHarness(lambda left, right: left.connect(right).process(Sides())) as harness:
        harness.process_element1(1, timestamp=5)
        harness.process_element2(2)
        assert harness.output_with_timestamps == [(("left", 1, 5), 5)]
        assert harness.side_output(ASIDE) == [("right", 2, None)]


class Meeting(KeyedCoProcessFunction[str, str, str, Any]):
    def process_element1(self, value: str, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(10)

    def process_element2(self, value: str, ctx: Any) -> None:
        ctx.timer_service().delete_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "alone", ctx.get_current_key()


def test_both_inputs_of_a_keyed_function_share_timers() -> None:
    def meeting(left: Any, right: Any) -> Any:
        return left.connect(right).key_by(lambda v: v, lambda v: v).process(Meeting())

    with TwoInputHarness(meeting, parallelism=2) as harness:
        harness.process_elements1(["a", "b", "c"])
        harness.process_element2("b")
        harness.process_watermark1(10)
        assert harness.output == []
        harness.process_watermark2(10)
        assert sorted(harness.output) == [("alone", "a"), ("alone", "c")]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("ab"), st.sampled_from(["event", "delete event"]), st.integers(0, 6)),
            st.integers(0, 7),
        ),
        max_size=20,
    )
)
def test_timers_are_a_set_of_keys_and_timestamps(script: list[Any]) -> None:
    """Commands, and watermarks between them, against a plain set."""
    waiting: set[tuple[int, str]] = set()
    fired: list[tuple[int, str]] = []
    with obedient() as harness:
        watermark = -1
        for step in [*script, 7]:
            if isinstance(step, int):
                watermark = max(watermark, step)
                due = sorted(timer for timer in waiting if timer[0] <= watermark)
                waiting -= set(due)
                fired += due
                harness.process_watermark(step)
            else:
                key, verb, timestamp = step
                harness.process_element(step)
                (waiting.add if verb == "event" else waiting.discard)((timestamp, key))
        assert [(timestamp, key) for key, timestamp, _, _ in harness.output] == fired
        assert harness.num_event_time_timers == len(waiting) == 0
