"""Windows as values: arithmetic, order, identity, and which of them merge."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from io import BytesIO
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.constants import MAX_LONG_VALUE
from flott.datastream.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    MergingWindowAssigner,
    TimeWindow,
    TimeWindowSerializer,
    Window,
)

TIMES = st.integers(-100, 100)
INTERVALS = st.tuples(TIMES, st.integers(1, 30)).map(lambda pair: TimeWindow(pair[0], pair[0] + pair[1]))


class Merges(MergingWindowAssigner.MergeCallback[TimeWindow]):
    """Takes note of what is merged."""

    def __init__(self) -> None:
        self.made: dict[TimeWindow, list[TimeWindow]] = {}

    def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
        self.made[merge_result] = list(to_be_merged)


def merges_of(windows: Iterable[TimeWindow]) -> dict[TimeWindow, list[TimeWindow]]:
    merges = Merges()
    TimeWindow.merge_windows(windows, merges)
    return merges.made


def test_the_last_timestamp_of_a_window_is_just_before_its_end() -> None:
    assert TimeWindow(10, 20).max_timestamp() == 19


@pytest.mark.parametrize("window", [CountWindow(3), GlobalWindow.get()])
def test_windows_without_time_last_for_ever(window: Window) -> None:
    assert window.max_timestamp() == MAX_LONG_VALUE


@pytest.mark.parametrize(
    ("other", "meets"),
    [
        (TimeWindow(20, 30), True),  # touching counts
        (TimeWindow(0, 10), True),
        (TimeWindow(12, 13), True),
        (TimeWindow(0, 50), True),
        (TimeWindow(21, 30), False),
        (TimeWindow(0, 9), False),
    ],
)
def test_windows_intersect_if_they_overlap_or_touch(other: TimeWindow, meets: bool) -> None:
    assert TimeWindow(10, 20).intersects(other) is meets
    assert other.intersects(TimeWindow(10, 20)) is meets


@given(INTERVALS, INTERVALS)
def test_a_cover_is_the_smallest_window_that_contains_both(one: TimeWindow, other: TimeWindow) -> None:
    assert one.cover(other) == other.cover(one) == TimeWindow(min(one.start, other.start), max(one.end, other.end))


@given(timestamp=st.integers(-(2**62), 2**62), size=st.integers(1, 10**12), shift=st.integers(-(10**13), 10**13))
def test_a_windows_start_is_at_most_one_size_before_the_timestamp(timestamp: int, size: int, shift: int) -> None:
    start = TimeWindow.get_window_start_with_offset(timestamp, shift, size)
    assert start <= timestamp < start + size
    assert (start - shift) % size == 0


@pytest.mark.parametrize(("timestamp", "start"), [(-1, -10), (-10, -10), (-11, -20), (0, 0), (9, 0)])
def test_windows_before_1970_start_like_those_after(timestamp: int, start: int) -> None:
    assert TimeWindow.get_window_start_with_offset(timestamp, 0, 10) == start


@given(st.lists(INTERVALS, max_size=12))
def test_merged_windows_are_the_union_of_the_intervals(windows: list[TimeWindow]) -> None:
    made = merges_of(windows)
    # The model: join any two that meet, until no two do.
    union = set(windows)
    while True:
        meeting = next(((a, b) for a in union for b in union if a != b and a.intersects(b)), None)
        if meeting is None:
            break
        union = (union - set(meeting)) | {meeting[0].cover(meeting[1])}
    parts = {part for group in made.values() for part in group}
    assert set(made) | (set(windows) - parts) == union
    assert all(len(group) > 1 and group == sorted(set(group)) for group in made.values())
    assert all(merged.cover(part) == merged for merged, group in made.items() for part in group)


def test_a_window_that_is_named_twice_is_not_merged_with_itself() -> None:
    assert merges_of([TimeWindow(0, 5), TimeWindow(0, 5)]) == {}


def test_a_short_window_inside_a_long_one_does_not_end_it() -> None:
    assert merges_of([TimeWindow(0, 30), TimeWindow(2, 4), TimeWindow(20, 35)]) == {
        TimeWindow(0, 35): [TimeWindow(0, 30), TimeWindow(2, 4), TimeWindow(20, 35)]
    }


def test_windows_are_ordered_by_start_then_end() -> None:
    ordered = [TimeWindow(-5, 9), TimeWindow(0, 3), TimeWindow(0, 9), TimeWindow(1, 2)]
    assert all(sorted(shuffled) == ordered for shuffled in permutations(ordered))
    assert ordered[1] <= TimeWindow(0, 3) < ordered[2] > ordered[1] >= TimeWindow(0, 3)
    with pytest.raises(TypeError):
        _ = TimeWindow(0, 1) < (0, 2)


@pytest.mark.parametrize(
    ("window", "same", "others"),
    [
        (TimeWindow(1, 2), TimeWindow(1, 2), [TimeWindow(1, 3), TimeWindow(0, 2), (1, 2), CountWindow(1)]),
        (CountWindow(1), CountWindow(1), [CountWindow(2), 1, GlobalWindow.get()]),
        (GlobalWindow.get(), GlobalWindow(), [None, CountWindow(0)]),
    ],
)
def test_windows_are_compared_by_what_they_name(window: Window, same: Window, others: list[Any]) -> None:
    assert (window, hash(window)) == (same, hash(same))
    assert all(window != other for other in others)


@pytest.mark.parametrize("window", [TimeWindow(-5, 2**62), CountWindow(7), GlobalWindow.get()])
def test_windows_survive_pickling(window: Window) -> None:
    assert pickle.loads(pickle.dumps(window)) == window


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (TimeWindow(1, 2), "TimeWindow(start=1, end=2)"),
        (CountWindow(1), "CountWindow(id=1)"),
        (GlobalWindow.get(), "GlobalWindow"),
    ],
)
def test_windows_read_as_in_pyflink(window: Window, text: str) -> None:
    assert repr(window) == text


@pytest.mark.parametrize(
    ("serializer", "windows"),
    [
        (TimeWindowSerializer(), [TimeWindow(-5, 2**62), TimeWindow(0, 1)]),
        (CountWindowSerializer(), [CountWindow(7), CountWindow(0)]),
        (GlobalWindowSerializer(), [GlobalWindow.get(), GlobalWindow.get()]),
    ],
)
def test_a_serializer_reads_what_it_wrote_one_window_after_the_other(serializer: Any, windows: list[Window]) -> None:
    stream = BytesIO()
    for window in windows:
        serializer.serialize(window, stream)
    stream.seek(0)
    assert [serializer.deserialize(stream) for _ in windows] == windows
    assert stream.read() == b""
