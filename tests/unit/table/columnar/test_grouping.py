"""Groups of rows are those of a dict, numbered by first appearance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from flott.runtime.operators.columnar.windowing.grouping import arrival_ranks, group_rows  # noqa: E402
from flott.runtime.operators.columnar.windowing.sessions import merged_sessions  # noqa: E402

cells = st.tuples(
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.integers(-2, 2), st.just(2**62), st.just(-(2**62))),
    st.sampled_from(["", "a", "b", None]),
    st.one_of(st.none(), st.lists(st.integers(0, 2), max_size=2)),
)
TYPES = [pa.int32(), pa.int64(), pa.string(), pa.list_(pa.int64())]


@given(st.lists(cells, max_size=40), st.sets(st.integers(0, 3), min_size=1))
def test_rows_are_grouped_by_their_values(rows: list[Any], chosen: set[int]) -> None:
    columns = [pa.array([row[place] for row in rows], TYPES[place]) for place in sorted(chosen)]
    ids, first = group_rows(columns, len(rows))
    known: dict[str, int] = {}
    expected = [known.setdefault(str([row[place] for place in sorted(chosen)]), len(known)) for row in rows]
    assert ids.tolist() == expected
    assert first.tolist() == [expected.index(number) for number in range(len(known))]
    seen: dict[int, int] = {}
    ranks = []
    for number in expected:
        ranks.append(seen.get(number, 0))
        seen[number] = ranks[-1] + 1
    assert arrival_ranks(ids).tolist() == ranks


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 6)), max_size=20))
def test_intervals_that_touch_are_one_session(intervals: list[tuple[int, int, int]]) -> None:
    groups, starts, lengths = ([one[place] for one in intervals] for place in range(3))
    found = merged_sessions(
        np.array(groups, np.int64), np.array(starts, np.int64), np.array(starts, np.int64) + np.array(lengths, np.int64)
    )
    sessions = [(group, start, start + length) for group, start, length in intervals]
    merged = True
    while merged:
        merged = False
        for one in sessions:
            for other in sessions:
                if one is not other and one[0] == other[0] and one[1] <= other[2] and other[1] <= one[2]:
                    sessions = [kept for kept in sessions if kept is not one and kept is not other]
                    sessions.append((one[0], min(one[1], other[1]), max(one[2], other[2])))
                    merged = True
                    break
            if merged:
                break
    sessions.sort()
    assert list(zip(found[1].tolist(), found[2].tolist(), strict=True)) == [one[1:] for one in sessions]
    for (group, start, _), number in zip(intervals, found[0].tolist(), strict=True):
        assert sessions[number][0] == group
        assert sessions[number][1] <= start <= sessions[number][2]
