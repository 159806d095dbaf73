"""Which records evictors take out of a window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.constants import MIN_LONG_VALUE
from flott.common.time import Duration, Time
from flott.datastream.window import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue, TimeWindow
from flott.errors import ProgramError

WINDOW = TimeWindow(0, 1000)


def kept(evictor: Evictor[Any, Any], timestamps: list[int]) -> tuple[list[int], list[int]]:
    """What is left of records (whose values are their timestamps) before and after the function."""
    elements = [TimestampedValue(timestamp, timestamp) for timestamp in timestamps]
    evictor.evict_before(elements, len(elements), WINDOW, None)  # type: ignore[arg-type]
    before = [element.value for element in elements]
    evictor.evict_after(elements, len(elements), WINDOW, None)  # type: ignore[arg-type]
    return before, [element.value for element in elements]


def distance(value: int, last: int) -> float:
    return abs(value - last)


@pytest.mark.parametrize(
    ("count", "left"), [(1, [9]), (2, [3, 9]), (3, [5, 3, 9]), (4, [5, 3, 9])], ids=["1", "2", "3", "4"]
)
def test_a_count_evictor_keeps_the_last_records(count: int, left: list[int]) -> None:
    assert kept(CountEvictor.of(count), [5, 3, 9]) == (left, left)


@given(st.lists(st.integers(-50, 50)), st.integers(1, 60))
def test_a_time_evictor_keeps_what_is_younger_than_the_latest_minus_its_length(times: list[int], length: int) -> None:
    expected = [time for time in times if time > max(times) - length]
    assert kept(TimeEvictor(length), times) == (expected, expected)


def test_a_time_evictor_keeps_records_without_timestamps() -> None:
    assert kept(TimeEvictor(5), [MIN_LONG_VALUE, MIN_LONG_VALUE])[0] == [MIN_LONG_VALUE] * 2
    assert kept(TimeEvictor(5), [MIN_LONG_VALUE, 1, 10])[0] == [MIN_LONG_VALUE, 10]


@given(st.lists(st.integers(-50, 50)), st.integers(1, 60))
def test_a_delta_evictor_keeps_what_differs_little_from_the_last(values: list[int], threshold: int) -> None:
    expected = [value for value in values if abs(value - values[-1]) < threshold]
    assert kept(DeltaEvictor.of(threshold, distance), values) == (expected, expected)


@pytest.mark.parametrize(
    "evictor",
    [
        CountEvictor.of(1, do_evict_after=True),
        TimeEvictor.of(Time.milliseconds(1), do_evict_after=True),
        DeltaEvictor.of(1.0, distance, do_evict_after=True),
    ],
)
def test_an_evictor_may_wait_until_the_function_has_seen_everything(evictor: Evictor[Any, Any]) -> None:
    assert kept(evictor, [1, 2, 3]) == ([1, 2, 3], [3])


def test_records_know_whether_they_have_a_timestamp() -> None:
    assert TimestampedValue("x", 0).has_timestamp()
    assert not TimestampedValue("x", MIN_LONG_VALUE).has_timestamp()


def test_an_evictor_is_a_value() -> None:
    assert TimeEvictor.of(Duration.of_seconds(1)) == TimeEvictor.of(Time.seconds(1)) != TimeEvictor.of(Time.seconds(2))
    assert repr(CountEvictor.of(3)) == "CountEvictor(max_count=3, do_evict_after=False)"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: CountEvictor.of(0), "number of records a CountEvictor keeps .* found 0"),
        (lambda: TimeEvictor.of(Time.seconds(0)), "length of a TimeEvictor .* found 0"),
        (lambda: TimeEvictor.of("5 s"), "is a Time .* found '5 s' of type str"),
        (lambda: DeltaEvictor.of(1.0, None), "DeltaEvictor takes a function .* found None"),
    ],
)
def test_evictors_that_cannot_be_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(ProgramError, match=problem):
        make()
