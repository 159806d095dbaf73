"""When triggers fire, which timers they set, and what is left when a window is dropped."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flott.common.constants import MIN_LONG_VALUE
from flott.common.time import Duration, Time
from flott.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindow,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
)
from flott.errors import ProgramError
from tests.unit.datastream.vocabulary.window_context import FakeTriggerContext

CONTINUE, FIRE, FIRE_AND_PURGE = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.FIRE_AND_PURGE
HUNDRED = TimeWindow(0, 100)


def change(old: float, new: float) -> float:
    return abs(new - old)


ALL: list[Trigger[Any, Any]] = [
    EventTimeTrigger(),
    ProcessingTimeTrigger(),
    ContinuousEventTimeTrigger(10),
    ContinuousProcessingTimeTrigger(10),
    CountTrigger(3),
    DeltaTrigger(2.5, change),
    NeverTrigger(),
    PurgingTrigger(CountTrigger(3)),
    ProcessingTimeoutTrigger(CountTrigger(3), 50),
]


class Bench:
    """A trigger at one window, with the clocks in the hands of the test."""

    def __init__(self, trigger: Trigger[Any, Any], window: Window = HUNDRED):
        self.trigger = trigger
        self.context = FakeTriggerContext(window)

    def element(self, timestamp: int = 0, value: Any = "x") -> TriggerResult:
        return self.trigger.on_element(value, timestamp, self.context.window, self.context)

    def watermark(self, time: int) -> list[tuple[int, TriggerResult]]:
        """Advance event time; what the trigger says to each timer."""
        self.context.watermark = time
        fired = []
        while (due := self.context.event_times()) and due[0] <= time:
            self.context.delete_event_time_timer(due[0])
            fired.append((due[0], self.trigger.on_event_time(due[0], self.context.window, self.context)))
        return fired

    def clock(self, time: int) -> list[tuple[int, TriggerResult]]:
        """Advance processing time; what the trigger says to each timer."""
        self.context.now = time
        fired: list[tuple[int, TriggerResult]] = []
        while (due := self.context.processing_times()) and due[0] <= time:
            assert len(fired) < 100, "the trigger sets timers that are due at once, again and again"
            self.context.delete_processing_time_timer(due[0])
            fired.append((due[0], self.trigger.on_processing_time(due[0], self.context.window, self.context)))
        return fired

    def merge(self, into: TimeWindow) -> None:
        """The current window and one more become this one."""
        old = self.context.window
        self.context.window, self.context.merged = into, [old]
        self.trigger.on_merge(into, self.context)


# ---- the result ------------------------------------------------------------------------------------------------------


def test_a_result_says_what_happens_to_the_window() -> None:
    assert [(result.is_fire(), result.is_purge()) for result in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]
    assert all(pickle.loads(pickle.dumps(result)) is result for result in TriggerResult)


# ---- at the end of the window ----------------------------------------------------------------------------------------


def test_an_event_time_trigger_fires_when_the_watermark_reaches_the_last_timestamp() -> None:
    bench = Bench(EventTimeTrigger())
    assert bench.element(5) == bench.element(99) == CONTINUE
    assert bench.watermark(98) == []
    assert bench.watermark(99) == [(99, FIRE)]


def test_an_event_time_trigger_fires_for_each_record_after_the_end() -> None:
    bench = Bench(EventTimeTrigger())
    bench.watermark(99)
    assert bench.element(5) == bench.element(6) == FIRE
    assert bench.context.event_times() == []


def test_an_event_time_trigger_is_silent_at_timers_that_are_not_the_windows_end() -> None:
    bench = Bench(EventTimeTrigger())
    assert bench.trigger.on_event_time(120, HUNDRED, bench.context) == CONTINUE  # the end of its allowed lateness
    assert bench.trigger.on_processing_time(99, HUNDRED, bench.context) == CONTINUE


def test_an_event_time_trigger_waits_for_the_end_of_a_merged_window() -> None:
    bench = Bench(EventTimeTrigger())
    bench.element(5)
    bench.merge(TimeWindow(0, 150))
    assert bench.context.event_times() == [149]
    late = Bench(EventTimeTrigger())
    late.context.watermark = 149
    late.merge(TimeWindow(0, 150))
    assert late.context.event_times() == []  # the record that caused the merge fires it


def test_a_processing_time_trigger_fires_when_the_clock_reaches_the_last_moment() -> None:
    bench = Bench(ProcessingTimeTrigger())
    assert bench.element() == CONTINUE
    assert bench.clock(98) == []
    assert bench.clock(500) == [(99, FIRE)]
    assert bench.trigger.on_event_time(99, HUNDRED, bench.context) == CONTINUE


def test_a_processing_time_trigger_waits_for_the_end_of_a_merged_window() -> None:
    bench = Bench(ProcessingTimeTrigger())
    bench.merge(TimeWindow(0, 150))
    assert bench.context.processing_times() == [149]
    late = Bench(ProcessingTimeTrigger())
    late.context.now = 149
    late.merge(TimeWindow(0, 150))
    assert late.context.processing_times() == []  # the record that caused the merge sets it


# ---- again and again -------------------------------------------------------------------------------------------------


def test_a_continuous_event_time_trigger_fires_at_multiples_of_the_interval_and_at_the_end() -> None:
    bench = Bench(ContinuousEventTimeTrigger.of(Time.milliseconds(30)))
    assert bench.element(35) == CONTINUE
    assert bench.watermark(59) == []
    assert bench.watermark(60) == [(60, FIRE)]
    assert bench.watermark(1000) == [(90, FIRE), (99, FIRE)]
    assert bench.element(35) == FIRE  # late


def test_a_continuous_event_time_trigger_keeps_its_rhythm_before_1970() -> None:
    bench = Bench(ContinuousEventTimeTrigger(30), TimeWindow(-100, 0))
    bench.element(-35)
    assert bench.watermark(-1) == [(-30, FIRE), (-1, FIRE)]


def test_a_continuous_trigger_fires_a_merged_window_when_the_earliest_of_them_would() -> None:
    bench = Bench(ContinuousEventTimeTrigger(30))
    bench.element(65)
    bench.context.window = TimeWindow(-50, 10)
    bench.element(5)
    bench.context.window, bench.context.merged = TimeWindow(-50, 120), [HUNDRED, TimeWindow(-50, 10)]
    bench.trigger.on_merge(bench.context.window, bench.context)
    assert bench.element(70) == CONTINUE
    assert bench.watermark(30) == [(9, FIRE)]
    assert bench.watermark(119) == [(39, FIRE), (69, FIRE), (99, FIRE), (119, FIRE)]


def test_a_continuous_event_time_trigger_needs_timestamps() -> None:
    bench = Bench(ContinuousEventTimeTrigger(30), GlobalWindow.get())
    with pytest.raises(ProgramError, match=r"ContinuousEventTimeTrigger.*assign_timestamps_and_watermarks\(\)"):
        bench.element(MIN_LONG_VALUE)


def test_a_continuous_processing_time_trigger_fires_at_multiples_of_the_interval_and_at_the_end() -> None:
    bench = Bench(ContinuousProcessingTimeTrigger.of(Duration.of_millis(30)))
    bench.context.now = 35
    assert bench.element() == CONTINUE
    assert bench.clock(59) == []
    assert bench.clock(60) == [(60, FIRE)]
    assert bench.clock(98) == [(90, FIRE)]
    assert bench.clock(99) == [(99, FIRE)]


def test_a_continuous_processing_time_trigger_goes_on_in_a_window_of_long_ago() -> None:
    bench = Bench(ContinuousProcessingTimeTrigger(30), TimeWindow(0, 100))
    bench.context.now = 1_000_005
    bench.element()
    assert bench.clock(1_000_080) == [(1_000_020, FIRE), (1_000_050, FIRE), (1_000_080, FIRE)]


def test_a_continuous_processing_time_trigger_fires_a_merged_window_when_it_would_have_fired() -> None:
    bench = Bench(ContinuousProcessingTimeTrigger(30))
    bench.context.now = 10
    bench.element()
    bench.merge(TimeWindow(0, 150))
    assert bench.clock(30) == [(30, FIRE)]
    assert bench.context.processing_times() == [60]


# ---- by what arrives -------------------------------------------------------------------------------------------------


def test_a_count_trigger_fires_at_every_nth_record() -> None:
    bench = Bench(CountTrigger.of(3), GlobalWindow.get())
    assert [bench.element() for _ in range(7)] == [CONTINUE, CONTINUE, FIRE, CONTINUE, CONTINUE, FIRE, CONTINUE]


def test_a_count_trigger_counts_on_when_windows_merge() -> None:
    bench = Bench(CountTrigger(3))
    bench.element()
    bench.context.window = TimeWindow(90, 190)
    bench.element()
    bench.context.window, bench.context.merged = TimeWindow(0, 190), [HUNDRED, TimeWindow(90, 190)]
    bench.trigger.on_merge(bench.context.window, bench.context)
    assert bench.element() == FIRE


def test_a_delta_trigger_fires_when_a_record_differs_enough_from_the_one_that_fired_last() -> None:
    bench = Bench(DeltaTrigger.of(2.5, change))
    assert [bench.element(value=value) for value in (1, 3, 3.5, 4, 6, 1)] == [
        CONTINUE,
        CONTINUE,
        CONTINUE,
        FIRE,
        CONTINUE,
        FIRE,
    ]


def test_a_never_trigger_never_fires() -> None:
    bench = Bench(NeverTrigger(), GlobalWindow.get())
    assert bench.element() == CONTINUE
    assert bench.trigger.on_event_time(5, GlobalWindow.get(), bench.context) == CONTINUE
    assert bench.trigger.on_processing_time(5, GlobalWindow.get(), bench.context) == CONTINUE


# ---- around another trigger ------------------------------------------------------------------------------------------


def test_a_purging_trigger_purges_whenever_the_other_fires() -> None:
    counting = Bench(PurgingTrigger.of(CountTrigger.of(2)))
    assert [counting.element() for _ in range(4)] == [CONTINUE, FIRE_AND_PURGE, CONTINUE, FIRE_AND_PURGE]
    by_time = Bench(PurgingTrigger(EventTimeTrigger()))
    by_time.element(5)
    assert by_time.watermark(99) == [(99, FIRE_AND_PURGE)]
    by_clock = Bench(PurgingTrigger(ProcessingTimeTrigger()))
    by_clock.element()
    assert by_clock.clock(99) == [(99, FIRE_AND_PURGE)]


def test_a_purging_trigger_merges_as_the_other_does() -> None:
    bench = Bench(PurgingTrigger(EventTimeTrigger()))
    bench.merge(TimeWindow(0, 150))
    assert bench.context.event_times() == [149]
    assert not PurgingTrigger(DeltaTrigger(1.0, change)).can_merge()


def test_a_timeout_fires_when_the_other_trigger_takes_too_long() -> None:
    bench = Bench(ProcessingTimeoutTrigger.of(CountTrigger.of(3), Duration.of_millis(50)), GlobalWindow.get())
    bench.element()
    bench.context.now = 40
    bench.element()
    assert bench.clock(49) == []
    assert bench.clock(50) == [(50, FIRE)]
    # Everything begins anew, the count included.
    assert [bench.element() for _ in range(3)] == [CONTINUE, CONTINUE, FIRE]
    assert bench.context.processing_times() == []
    assert bench.context.state == {}


def test_a_timeout_may_run_anew_from_each_record() -> None:
    bench = Bench(ProcessingTimeoutTrigger.of(CountTrigger.of(9), Time.milliseconds(50), True), GlobalWindow.get())
    bench.element()
    bench.context.now = 40
    bench.element()
    assert bench.clock(89) == []
    assert bench.clock(90) == [(90, FIRE)]


def test_a_timeout_may_leave_the_other_trigger_as_it_is() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.milliseconds(50), should_clear_on_timeout=False)
    bench = Bench(trigger, GlobalWindow.get())
    bench.element()
    assert bench.clock(50) == [(50, FIRE)]
    assert [bench.element() for _ in range(2)] == [CONTINUE, FIRE]  # the first record still counts


def test_a_timeout_leaves_timers_of_the_other_trigger_to_it() -> None:
    bench = Bench(ProcessingTimeoutTrigger(EventTimeTrigger(), 50))
    bench.element(5)
    assert bench.trigger.on_event_time(120, HUNDRED, bench.context) == CONTINUE
    assert bench.watermark(99) == [(99, FIRE)]
    assert bench.clock(1000) == []  # fired already
    assert bench.trigger.on_processing_time(37, HUNDRED, bench.context) == CONTINUE
    nested = Bench(ProcessingTimeoutTrigger(PurgingTrigger(ProcessingTimeTrigger()), 500))
    nested.element()
    assert nested.clock(99) == [(99, FIRE_AND_PURGE)]


# ---- for all of them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ALL)
def test_a_dropped_window_leaves_neither_timers_nor_state(trigger: Trigger[Any, Any]) -> None:
    bench = Bench(trigger, HUNDRED)
    bench.element(5, 1)
    bench.element(7, 2)
    trigger.clear(HUNDRED, bench.context)
    assert (bench.context.event_timers, bench.context.processing_timers, bench.context.state) == (set(), set(), {})


@pytest.mark.parametrize("trigger", ALL)
def test_a_trigger_is_a_value(trigger: Any) -> None:
    copy = pickle.loads(pickle.dumps(trigger))
    assert (copy, hash(copy), repr(copy)) == (trigger, hash(trigger), repr(trigger))
    assert [other for other in ALL if other == trigger] == [trigger]
    for name in vars(trigger):
        with pytest.raises(AttributeError):
            setattr(trigger, name, 1)


def test_which_triggers_can_merge() -> None:
    assert [type(trigger).__name__ for trigger in ALL if not trigger.can_merge()] == [
        "DeltaTrigger",
        "NeverTrigger",
        "ProcessingTimeoutTrigger",
    ]


def test_a_trigger_that_cannot_merge_says_so() -> None:
    with pytest.raises(NotImplementedError, match="DeltaTrigger has no on_merge"):
        DeltaTrigger(1.0, change).on_merge(HUNDRED, FakeTriggerContext(HUNDRED))


def test_ready_made_triggers_can_be_had_by_their_factories() -> None:
    assert EventTimeTrigger.create() == EventTimeTrigger()
    assert ProcessingTimeTrigger.create() == ProcessingTimeTrigger()
    assert ContinuousEventTimeTrigger.of(Time.seconds(1)) == ContinuousEventTimeTrigger(1000)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: CountTrigger.of(0), "count of a CountTrigger .* found 0"),
        (lambda: ContinuousEventTimeTrigger.of(Time.seconds(0)), "interval of a ContinuousEventTimeTrigger .* found 0"),
        (lambda: ContinuousProcessingTimeTrigger.of(5), "is a Time .* found 5 of type int"),
        (lambda: PurgingTrigger.of(CountTrigger), "PurgingTrigger takes a Trigger"),
        (lambda: ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.seconds(-1)), "found -1000"),
        (lambda: DeltaTrigger.of(1.0, 2.0), "DeltaTrigger takes a function .* found 2.0"),
    ],
)
def test_triggers_that_cannot_be_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        make()
