"""Into which windows a record belongs."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.constants import MIN_LONG_VALUE
from flott.common.time import Duration, Time
from flott.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    MergingWindowAssigner,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)
from flott.errors import ProgramError
from tests.unit.datastream.vocabulary.window_context import FakeAssignerContext

MOMENT = Time.milliseconds


class Doubled(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 2 * int(element)


#: Each pair assigns alike, by event time and by processing time.
PAIRS: list[tuple[WindowAssigner[Any, Any], WindowAssigner[Any, Any]]] = [
    (TumblingEventTimeWindows.of(MOMENT(10), MOMENT(3)), TumblingProcessingTimeWindows.of(MOMENT(10), MOMENT(3))),
    (SlidingEventTimeWindows.of(MOMENT(10), MOMENT(4)), SlidingProcessingTimeWindows.of(MOMENT(10), MOMENT(4))),
    (CumulativeEventTimeWindows.of(MOMENT(12), MOMENT(4)), CumulativeProcessingTimeWindows.of(MOMENT(12), MOMENT(4))),
    (EventTimeSessionWindows.with_gap(MOMENT(7)), ProcessingTimeSessionWindows.with_gap(MOMENT(7))),
    (
        EventTimeSessionWindows.with_dynamic_gap(Doubled()),
        ProcessingTimeSessionWindows.with_dynamic_gap(Doubled()),
    ),
]
BY_EVENT_TIME = [pair[0] for pair in PAIRS]
BY_PROCESSING_TIME = [pair[1] for pair in PAIRS]


def windows_of(assigner: WindowAssigner[Any, Any], timestamp: int, element: Any = 1, now: int = 0) -> list[Window]:
    return list(assigner.assign_windows(element, timestamp, FakeAssignerContext(now)))


def spans_of(assigner: WindowAssigner[Any, Any], timestamp: int) -> list[tuple[int, int]]:
    return [(window.start, window.end) for window in windows_of(assigner, timestamp) if isinstance(window, TimeWindow)]


# ---- windows of time -------------------------------------------------------------------------------------------------


@given(
    timestamp=st.integers(-(10**15), 10**15),
    size=st.integers(1, 10**9),
    share=st.floats(-0.999, 0.999),
)
def test_a_tumbling_window_holds_its_record_and_starts_at_the_offset(timestamp: int, size: int, share: float) -> None:
    offset = int(size * share)
    ((start, end),) = spans_of(TumblingEventTimeWindows(size, offset), timestamp)
    assert start <= timestamp < end == start + size
    assert (start - offset) % size == 0


@given(
    timestamp=st.integers(-(10**15), 10**15),
    slide=st.integers(1, 10**6),
    times=st.integers(1, 20),
    share=st.floats(-0.999, 0.999),
)
def test_a_record_is_in_size_by_slide_sliding_windows(timestamp: int, slide: int, times: int, share: float) -> None:
    spans = spans_of(SlidingEventTimeWindows(slide * times, slide, int(slide * share)), timestamp)
    assert len(spans) == times
    assert all(start <= timestamp < end for start, end in spans)
    assert all(start - following == slide for (start, _), (following, _) in pairwise(spans))


@given(
    timestamp=st.integers(-1000, 1000), size=st.integers(1, 60), slide=st.integers(1, 60), offset=st.integers(-59, 59)
)
def test_a_record_is_in_every_sliding_window_that_holds_its_timestamp(
    timestamp: int, size: int, slide: int, offset: int
) -> None:
    offset = offset % slide
    starts = range(offset - 2000 * slide, offset + 2000 * slide, slide)
    expected = [(start, start + size) for start in starts if start <= timestamp < start + size]
    assert sorted(spans_of(SlidingEventTimeWindows(size, slide, offset), timestamp)) == expected


def test_a_record_in_the_gap_between_sliding_windows_belongs_to_none() -> None:
    assigner = SlidingEventTimeWindows.of(MOMENT(3), MOMENT(10))
    assert spans_of(assigner, 12) == [(10, 13)]
    assert spans_of(assigner, 13) == []


@given(
    timestamp=st.integers(-1000, 1000), step=st.integers(1, 20), steps=st.integers(1, 10), offset=st.integers(-19, 19)
)
def test_a_record_is_in_every_cumulative_window_that_holds_its_timestamp(
    timestamp: int, step: int, steps: int, offset: int
) -> None:
    largest = step * steps
    offset = offset % largest
    starts = range(offset - 2000 * largest, offset + 2000 * largest, largest)
    expected = [
        (start, start + step * count)
        for start in starts
        if start <= timestamp < start + largest
        for count in range(1, steps + 1)
        if timestamp < start + step * count
    ]
    assert spans_of(CumulativeEventTimeWindows(largest, step, offset), timestamp) == expected


def test_cumulative_windows_share_their_start() -> None:
    day = CumulativeEventTimeWindows.of(Time.hours(24), Time.hours(6))
    hour = 3_600_000
    assert spans_of(day, 13 * hour) == [(0, 18 * hour), (0, 24 * hour)]
    assert spans_of(day, 12 * hour - 1) == [(0, 12 * hour), (0, 18 * hour), (0, 24 * hour)]


@pytest.mark.parametrize(("by_event", "by_processing"), PAIRS)
@pytest.mark.parametrize("time", [-25, 0, 6, 1_700_000_000_000])
def test_the_two_clocks_cut_windows_alike(by_event: Any, by_processing: Any, time: int) -> None:
    assert windows_of(by_event, time, element=4, now=-1) == windows_of(by_processing, MIN_LONG_VALUE, 4, now=time)


def test_days_of_another_time_zone_start_at_its_midnight() -> None:
    days = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    hour = 3_600_000
    assert spans_of(days, 15 * hour) == [(-8 * hour, 16 * hour)]
    assert spans_of(days, 16 * hour) == [(16 * hour, 40 * hour)]


@pytest.mark.parametrize("assigner", BY_EVENT_TIME)
@pytest.mark.parametrize("timestamp", [None, MIN_LONG_VALUE])
def test_a_record_without_timestamp_is_refused_by_event_time_windows(assigner: Any, timestamp: Any) -> None:
    with pytest.raises(ProgramError, match=r"assign_timestamps_and_watermarks\(\)") as refused:
        windows_of(assigner, timestamp)
    assert repr(assigner) in str(refused.value)


@pytest.mark.parametrize("assigner", BY_EVENT_TIME)
def test_windows_of_event_time_fire_by_the_watermark(assigner: WindowAssigner[Any, Any]) -> None:
    assert assigner.is_event_time()
    assert assigner.get_default_trigger(None) == EventTimeTrigger()  # type: ignore[arg-type]


@pytest.mark.parametrize("assigner", BY_PROCESSING_TIME)
def test_windows_of_processing_time_fire_by_the_clock(assigner: WindowAssigner[Any, Any]) -> None:
    assert not assigner.is_event_time()
    assert assigner.get_default_trigger(None) == ProcessingTimeTrigger()  # type: ignore[arg-type]


# ---- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assigner", [*BY_EVENT_TIME, *BY_PROCESSING_TIME])
def test_only_sessions_merge(assigner: WindowAssigner[Any, Any]) -> None:
    assert isinstance(assigner, MergingWindowAssigner) == ("Session" in type(assigner).__name__)


def test_a_session_of_one_record_lasts_for_the_gap() -> None:
    assert spans_of(EventTimeSessionWindows.with_gap(Time.seconds(5)), -3) == [(-3, 4997)]


@pytest.mark.parametrize("extractor", [Doubled(), lambda element: 2 * element])
def test_a_dynamic_gap_is_asked_of_each_record(extractor: Any) -> None:
    assigner = DynamicEventTimeSessionWindows.with_dynamic_gap(extractor)
    assert windows_of(assigner, 100, element=4) == [TimeWindow(100, 108)]
    assert windows_of(assigner, 100, element=1) == [TimeWindow(100, 102)]
    assert assigner == EventTimeSessionWindows.with_dynamic_gap(extractor)


@pytest.mark.parametrize("gap", [0, -1, 1.5, None])
def test_a_dynamic_gap_that_is_no_length_is_refused(gap: Any) -> None:
    with pytest.raises(ProgramError, match=f"session gap of a record .* found {gap!r}"):
        windows_of(DynamicProcessingTimeSessionWindows(lambda element: gap), 0)


@pytest.mark.parametrize("extractor", [5, "gap", Doubled])
def test_a_dynamic_gap_needs_a_function(extractor: Any) -> None:
    with pytest.raises(ProgramError, match="takes a SessionWindowTimeGapExtractor or a function"):
        EventTimeSessionWindows.with_dynamic_gap(extractor)


# ---- without time ----------------------------------------------------------------------------------------------------


def test_global_windows_put_everything_in_one_and_never_fire() -> None:
    assigner = GlobalWindows.create()
    assert windows_of(assigner, 5) == windows_of(assigner, MIN_LONG_VALUE) == [GlobalWindow.get()]
    assert assigner.get_default_trigger(None) == NeverTrigger()  # type: ignore[arg-type]
    assert not assigner.is_event_time()


def numbered(assigner: WindowAssigner[Any, Any], records: int) -> list[list[int]]:
    """Window after window, the numbers of the records in it."""
    context = FakeAssignerContext()
    held: dict[int, list[int]] = {}
    for number in range(records):
        for window in assigner.assign_windows(number, 0, context):
            assert isinstance(window, CountWindow)
            held.setdefault(window.id, []).append(number)
    return [held[number] for number in sorted(held)]


def test_tumbling_counts_divide_the_records_of_a_key() -> None:
    assert numbered(CountTumblingWindowAssigner.of(3), 8) == [[0, 1, 2], [3, 4, 5], [6, 7]]


@given(size=st.integers(1, 9), slide=st.integers(1, 9), records=st.integers(0, 40))
def test_a_sliding_count_starts_a_window_at_every_slide(size: int, slide: int, records: int) -> None:
    expected = [list(range(start, min(start + size, records))) for start in range(0, records, slide)]
    assert numbered(CountSlidingWindowAssigner.of(size, slide), records) == expected


@pytest.mark.parametrize("assigner", [CountTumblingWindowAssigner(3), CountSlidingWindowAssigner(3, 2)])
def test_a_count_window_fires_when_it_is_full_and_keeps_nothing(assigner: Any) -> None:
    assert assigner.get_default_trigger(None) == PurgingTrigger(CountTrigger(3))
    assert not assigner.is_event_time()


# ---- as values -------------------------------------------------------------------------------------------------------

ALL = [*BY_EVENT_TIME[:-1], *BY_PROCESSING_TIME[:-1], GlobalWindows(), CountTumblingWindowAssigner(2)]


@pytest.mark.parametrize("assigner", ALL)
def test_an_assigner_is_a_value(assigner: Any) -> None:
    copy = pickle.loads(pickle.dumps(assigner))
    assert (copy, hash(copy)) == (assigner, hash(assigner))
    assert [other for other in ALL if other == assigner] == [assigner]
    for name in vars(assigner):
        with pytest.raises(AttributeError):
            setattr(assigner, name, 1)


def test_lengths_may_be_times_or_durations() -> None:
    assert TumblingEventTimeWindows.of(Duration.of_seconds(5)) == TumblingEventTimeWindows.of(Time.seconds(5))
    sliding = SlidingProcessingTimeWindows.of(Duration.of_minutes(1), Time.seconds(10), Duration.of_millis(-7))
    assert (sliding.size_ms, sliding.slide_ms, sliding.offset_ms) == (60_000, 10_000, -7)
    assert EventTimeSessionWindows.with_gap(Duration.of_seconds(2)).gap_ms == 2000


def test_an_assigner_says_its_lengths() -> None:
    assert repr(TumblingEventTimeWindows.of(Time.seconds(5))) == "TumblingEventTimeWindows(size_ms=5000, offset_ms=0)"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: TumblingEventTimeWindows.of(Time.seconds(0)), "size of TumblingEventTimeWindows .* found 0"),
        (lambda: TumblingEventTimeWindows.of(MOMENT(5), MOMENT(5)), "smaller than its size of 5 ms .* found 5 ms"),
        (lambda: TumblingProcessingTimeWindows.of(MOMENT(5), MOMENT(-5)), "found -5 ms"),
        (
            lambda: TumblingEventTimeWindows.of(5),
            "The size of TumblingEventTimeWindows is a Time .* found 5 of type int",
        ),
        (lambda: TumblingEventTimeWindows.of(Duration.of_nanos(1)), "1 ns, expected whole milliseconds"),
        (lambda: SlidingEventTimeWindows.of(MOMENT(-1), MOMENT(5)), "size of SlidingEventTimeWindows .* found -1"),
        (lambda: SlidingEventTimeWindows.of(MOMENT(5), MOMENT(0)), "slide of SlidingEventTimeWindows .* found 0"),
        (lambda: SlidingEventTimeWindows.of(MOMENT(9), MOMENT(5), MOMENT(6)), "smaller than its slide of 5 ms"),
        (lambda: CumulativeEventTimeWindows.of(MOMENT(9), MOMENT(5)), "multiple of its step, found 9 ms and 5 ms"),
        (lambda: EventTimeSessionWindows.with_gap(MOMENT(0)), "gap of EventTimeSessionWindows .* found 0"),
        (lambda: CountTumblingWindowAssigner.of(0), "size of CountTumblingWindowAssigner .* found 0"),
        (lambda: CountSlidingWindowAssigner.of(3, 0), "slide of CountSlidingWindowAssigner .* found 0"),
        (lambda: CountSlidingWindowAssigner.of(True, 1), "found True"),
    ],
)
def test_windows_that_cannot_be_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        make()


def test_an_assigner_reads_the_same_in_every_run() -> None:
    assert repr(EventTimeSessionWindows.with_dynamic_gap(Doubled())) == "DynamicEventTimeSessionWindows(Doubled)"
    assert repr(ProcessingTimeSessionWindows.with_dynamic_gap(len)) == "DynamicProcessingTimeSessionWindows(len)"
