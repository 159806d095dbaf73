"""Joins by time, and sorting, against small models; cut into epochs at random."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from flott.table._expressions.expression import Call, InputRef, Literal
from flott.table._plan.logical import EquiKeys, JoinKind, Schema, SortKey
from flott.table._plan.operations import JoinIntervals, JoinVersions, SortRows
from flott.table._types.logical import BigIntType, BooleanType, IntType, TimeAttribute, TimestampType, VarCharType
from tests.unit.table.columnar.cluster import Change, Cluster, folded

TIME = TimestampType(3, attribute=TimeAttribute.ROWTIME)
LEFT = Schema(("k", "v", "t"), (IntType(), BigIntType(), TIME))
RIGHT = Schema(("k", "w", "t"), (IntType(), VarCharType(9), TIME))


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)


def ms(time: datetime) -> int:
    return round(time.replace(tzinfo=UTC).timestamp() * 1000)


left_rows = st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 3), st.integers(0, 30).map(at))
right_rows = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from(["a", "b"]), st.integers(0, 30).map(at))
steps_of = st.lists(
    st.one_of(
        st.tuples(st.just(0), left_rows),
        st.tuples(st.just(1), right_rows),
        st.tuples(st.just("epoch"), st.integers(0, 25)),
        st.tuples(st.just("crash"), st.integers(1, 3)),
    ),
    max_size=60,
)


@given(steps=steps_of, lower=st.integers(-6, 3), size=st.integers(0, 8), kind=st.sampled_from(list(JoinKind)[:4]))
@settings(max_examples=150, deadline=None)
def test_rows_are_joined_whose_times_differ_by_an_interval(
    steps: list[Any], lower: int, size: int, kind: JoinKind
) -> None:
    told = JoinIntervals(
        output=LEFT + RIGHT,
        kind=kind,
        left=LEFT,
        right=RIGHT,
        keys=EquiKeys((0,), (0,), (True,)),
        left_time=2,
        right_time=2,
        lower_ms=lower,
        upper_ms=lower + size,
        condition=None,
    )
    cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
    held: tuple[list[Any], list[Any]] = ([], [])
    waiting: tuple[list[Change], list[Change]] = ([], [])
    for what, value in [*steps, ("end", 0)]:
        if what in (0, 1):
            if ms(value[2]) > cluster.watermark:  # late rows are another test
                held[what].append(value)
                waiting[what].append(("+I", value))
            continue
        cluster.epoch(*waiting, watermark=value if what == "epoch" else None, ended=what == "end")
        waiting = ([], [])
        if what == "crash":
            cluster.crash(value)
    expected: Counter[Any] = Counter()
    partners: set[tuple[int, int]] = set()
    for one, left in enumerate(held[0]):
        for other, right in enumerate(held[1]):
            apart = ms(left[2]) - ms(right[2])
            if left[0] is not None and left[0] == right[0] and lower <= apart <= lower + size:
                expected[left + right] += 1
                partners |= {(0, one), (1, other)}
    if kind.left_outer:
        expected.update((*row, None, None, None) for n, row in enumerate(held[0]) if (0, n) not in partners)
    if kind.right_outer:
        expected.update((None, None, None, *row) for n, row in enumerate(held[1]) if (1, n) not in partners)
    assert folded(cluster.out) == expected
    assert cluster.rows_in_state() == 0


def test_rows_without_a_partner_are_sent_when_none_can_come_any_more() -> None:
    told = JoinIntervals(
        output=LEFT + RIGHT,
        kind=JoinKind.LEFT,
        left=LEFT,
        right=RIGHT,
        keys=EquiKeys((0,), (0,), (True,)),
        left_time=2,
        right_time=2,
        lower_ms=-5,
        upper_ms=0,
        condition=None,
    )
    cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
    assert cluster.epoch([("+I", (1, 1, at(10)))], [], watermark=15) == []
    assert cluster.operators[0].next_event_time_ms() == 16
    assert cluster.epoch([], [], watermark=16) == [("+I", (1, 1, at(10), None, None, None))]
    assert cluster.rows_in_state() == 0


@given(steps=steps_of, kind=st.sampled_from([JoinKind.INNER, JoinKind.LEFT]), deletes=st.booleans())
@settings(max_examples=150, deadline=None)
def test_rows_see_the_version_of_their_time(steps: list[Any], kind: JoinKind, deletes: bool) -> None:
    told = JoinVersions(
        output=LEFT + RIGHT,
        kind=kind,
        left=LEFT,
        right=RIGHT,
        keys=EquiKeys((0,), (0,), (True,)),
        left_time=2,
        right_time=2,
        condition=None,
        retracts=(False, True),
    )
    cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
    lefts: list[Any] = []
    versions: dict[Any, dict[int, Any]] = {}
    waiting: tuple[list[Change], list[Change]] = ([], [])
    for what, value in [*steps, ("end", 0)]:
        if what in (0, 1):
            if ms(value[2]) <= cluster.watermark:
                continue
            if what == 0:
                lefts.append(value)
                waiting[0].append(("+I", value))
            else:
                gone = deletes and value[1] == "b"
                waiting[1].append(("-D" if gone else "+U", value))
                versions.setdefault(value[0], {})[ms(value[2])] = None if gone else value
            continue
        cluster.epoch(*waiting, watermark=value if what == "epoch" else None, ended=what == "end")
        waiting = ([], [])
        if what == "crash":
            cluster.crash(value)
    expected: Counter[Any] = Counter()
    for left in lefts:
        times = [time for time in versions.get(left[0], {}) if time <= ms(left[2])]
        seen = versions[left[0]][max(times)] if times and left[0] is not None else None
        if seen is not None:
            expected[left + seen] += 1
        elif kind is JoinKind.LEFT:
            expected[(*left, None, None, None)] += 1
    assert folded(cluster.out) == expected
    assert cluster.rows_in_state() <= len(versions)


@given(steps=steps_of)
@settings(max_examples=80, deadline=None)
def test_rows_are_sent_in_the_order_of_event_time(steps: list[Any]) -> None:
    order = (SortKey(2), SortKey(1, True, True))
    cluster = Cluster(SortRows(output=LEFT, input=LEFT, order=order), [LEFT], [()])
    held: list[Any] = []
    waiting: list[Change] = []
    for what, value in [*steps, ("end", 0)]:
        if what == 0:
            if ms(value[2]) > cluster.watermark:
                held.append(value)
                waiting.append(("+I", value))
            continue
        if what == 1:
            continue
        cluster.epoch(waiting, watermark=value if what == "epoch" else None, ended=what == "end")
        waiting = []
        if what == "crash":
            cluster.crash(value)
    assert [row for _, row in cluster.out] == sorted(held, key=lambda row: (row[2], -row[1]))


def test_rows_that_come_behind_those_that_were_sent_are_dropped() -> None:
    cluster = Cluster(SortRows(output=LEFT, input=LEFT, order=(SortKey(2),)), [LEFT], [()])
    cluster.epoch([("+I", (1, 1, at(5)))], watermark=9)
    assert cluster.epoch([("+I", (1, 2, at(5))), ("+I", (1, 3, at(6)))]) == [("+I", (1, 3, at(6)))]


@given(values=st.lists(st.integers(0, 9), max_size=30), cut=st.integers(1, 9), offset=st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_a_limit_sends_the_first_rows_and_a_sort_everything_at_the_end(
    values: list[int], cut: int, offset: int
) -> None:
    limit = Cluster(SortRows(output=LEFT, input=LEFT, order=(), offset=offset, fetch=5), [LEFT], [()])
    order = (SortKey(1, True, True),)
    sort = Cluster(SortRows(output=LEFT, input=LEFT, order=order, offset=offset, fetch=5), [LEFT], [()])
    for start in range(0, len(values), cut):
        changes: list[Change] = [("+I", (1, value, at(0))) for value in values[start : start + cut]]
        limit.epoch(changes)
        assert sort.epoch(changes) == []
        limit.crash()
        sort.crash()
    sort.epoch([], ended=True)
    assert [row[1] for _, row in limit.out] == values[offset : offset + 5]
    assert [row[1] for _, row in sort.out] == sorted(values, reverse=True)[offset : offset + 5]


def test_a_limit_of_a_changelog_fills_up_when_a_row_goes() -> None:
    told = SortRows(output=LEFT, input=LEFT, order=(), fetch=1, retracts=(True,))
    cluster = Cluster(told, [LEFT], [()])
    one, two = (1, 1, at(1)), (2, 2, at(2))
    assert cluster.epoch([("+I", one), ("+I", two)]) == [("+I", one)]
    assert cluster.epoch([("-D", one)]) == [("-D", one), ("+I", two)]


def test_a_changelog_is_sorted_when_it_ends() -> None:
    told = SortRows(output=LEFT, input=LEFT, order=(SortKey(1),), retracts=(True,))
    cluster = Cluster(told, [LEFT], [()])
    cluster.epoch([("+I", (1, 3, at(1))), ("+I", (1, 2, at(1))), ("+I", (1, 2, at(1)))])
    cluster.epoch([("-U", (1, 3, at(1))), ("+U", (1, 1, at(1)))])
    cluster.crash()
    assert [row[1] for _, row in cluster.epoch([], ended=True)] == [1, 2, 2]


def test_rows_with_the_same_time_keep_their_order_through_crashes() -> None:
    cluster = Cluster(SortRows(output=LEFT, input=LEFT, order=(SortKey(2),)), [LEFT], [()])
    for number in range(30):
        cluster.epoch([("+I", (1, number, at(100)))], watermark=number)
        if number % 3 == 0:
            cluster.crash()
        if number % 5 == 0:
            cluster.scope.epoch = cluster.scope.epoch + 7  # type: ignore[assignment]
    assert [row[1] for _, row in cluster.epoch([], ended=True)] == list(range(30))


LESS = Call(
    function="<",
    arguments=(InputRef(index=1, type=BigIntType()), Literal(value=2, type=BigIntType())),
    type=BooleanType(),
)


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT])
def test_pairs_must_fulfil_the_condition(kind: JoinKind) -> None:
    common: dict[str, Any] = {
        "output": LEFT + RIGHT,
        "kind": kind,
        "left": LEFT,
        "right": RIGHT,
        "keys": EquiKeys((0,), (0,), (True,)),
        "left_time": 2,
        "right_time": 2,
        "condition": LESS,
    }
    lefts: list[Change] = [("+I", (1, 1, at(5))), ("+I", (1, 2, at(5)))]
    rights: list[Change] = [("+I", (1, "a", at(5)))]
    expected = Counter({(1, 1, at(5), 1, "a", at(5)): 1})
    if kind is JoinKind.LEFT:
        expected[(1, 2, at(5), None, None, None)] += 1
    for told in (JoinIntervals(**common, lower_ms=0, upper_ms=0), JoinVersions(**common)):
        cluster = Cluster(told, [LEFT, RIGHT], [(0,), (0,)])
        cluster.epoch(lefts, rights)
        cluster.epoch([], [], ended=True)
        assert folded(cluster.out) == expected
