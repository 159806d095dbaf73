"""Deduplication, normalization, materialization and sets against small models, cut into epochs at random."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from datetime import UTC, datetime

from flott.table._plan.logical import Schema
from flott.table._plan.operations import KeepInserts, KeepOnePerKey, MaterializeForSink, NormalizeChanges, SetRows
from flott.table._types.logical import IntType, TimestampType, VarCharType
from tests.unit.table.columnar.cluster import Change, Cluster, folded, upserted

ROWS = Schema(("k", "v", "t"), (IntType(), VarCharType(9), TimestampType(3)))
PAIRS = Schema(("k", "v"), (IntType(), VarCharType(9)))


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)


rows = st.tuples(st.sampled_from([None, 1, 2, 3]), st.sampled_from(["a", "b", "c", None]), st.integers(0, 20).map(at))
marks = st.one_of(st.just("epoch"), st.integers(1, 3))


def dedup(**told: Any) -> Cluster:
    operation = KeepOnePerKey(output=ROWS, input=ROWS, keys=(0,), time=2, **told)
    return Cluster(operation, [ROWS], [(0,)])


def run(cluster: Cluster, steps: list[Any]) -> list[tuple[Any, ...]]:
    """Run inserts, epochs where the steps say so, and crashes to so many subtasks; return the rows."""
    waiting: list[Change] = []
    seen: list[tuple[Any, ...]] = []
    for step in [*steps, "epoch"]:
        if isinstance(step, tuple):
            waiting.append(("+I", step))
            seen.append(step)
            continue
        cluster.epoch(waiting)
        waiting = []
        if isinstance(step, int):
            cluster.crash(step)
    return seen


@given(steps=st.lists(st.one_of(rows, rows, rows, marks), max_size=50), mini_batch=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_last_row_by_event_time_is_kept(steps: list[Any], mini_batch: bool) -> None:
    cluster = dedup(keep_last=True, proctime=False, mini_batch=mini_batch)
    expected: dict[Any, Any] = {}
    for row in run(cluster, steps):
        if row[0] not in expected or row[2] >= expected[row[0]][2]:
            expected[row[0]] = row
    assert folded(cluster.out) == Counter(expected.values())


@given(steps=st.lists(st.one_of(rows, rows, rows, marks), max_size=50), last=st.booleans(), mini_batch=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_first_or_last_row_that_came_is_kept(steps: list[Any], last: bool, mini_batch: bool) -> None:
    cluster = dedup(keep_last=last, proctime=True, mini_batch=mini_batch)
    expected: dict[Any, Any] = {}
    for row in run(cluster, steps):
        if last or row[0] not in expected:
            expected[row[0]] = row
    assert folded(cluster.out) == Counter(expected.values())
    if not last:
        assert all(kind == "+I" for kind, _ in cluster.out)


def test_every_row_replaces_the_one_before_it() -> None:
    cluster = dedup(keep_last=True, proctime=False)
    sent = cluster.epoch(
        [("+I", (1, "a", at(5))), ("+I", (1, "b", at(4))), ("+I", (1, "c", at(5))), ("+I", (2, "d", at(1)))]
    )
    assert sent == [
        ("+I", (1, "a", at(5))),
        ("-U", (1, "a", at(5))),
        ("+U", (1, "c", at(5))),
        ("+I", (2, "d", at(1))),
    ]
    assert cluster.epoch([("+I", (1, "e", at(3)))]) == []


def test_the_first_row_by_event_time_is_sent_once_when_the_watermark_reaches_it() -> None:
    cluster = dedup(keep_last=False, proctime=False)
    assert cluster.epoch([("+I", (1, "a", at(5))), ("+I", (2, "b", at(9)))], watermark=2) == []
    assert cluster.epoch([("+I", (1, "c", at(4))), ("+I", (1, "d", at(4)))], watermark=3) == []
    cluster.crash(2)
    assert cluster.epoch([], watermark=6) == [("+I", (1, "c", at(4)))]
    assert cluster.epoch([("+I", (1, "e", at(7))), ("+I", (3, "late", at(1)))], watermark=7) == []
    assert sum(operator.ledger.read().dropped for operator in cluster.operators) == 1
    assert cluster.epoch([], ended=True) == [("+I", (2, "b", at(9)))]


@given(
    steps=st.lists(st.one_of(st.tuples(st.sampled_from(["+I", "+U", "-D"]), rows), marks), max_size=60),
    mini_batch=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_upserts_become_a_changelog(steps: list[Any], mini_batch: bool) -> None:
    operation = NormalizeChanges(output=ROWS, input=ROWS, keys=(0,), mini_batch=mini_batch)
    cluster = Cluster(operation, [ROWS], [(0,)])
    waiting: list[Change] = []
    everything: list[Change] = []
    for step in [*steps, "epoch"]:
        if isinstance(step, tuple):
            waiting.append(step)
            everything.append(step)
            continue
        cluster.epoch(waiting)
        waiting = []
        assert folded(cluster.out) == Counter(upserted(everything, (0,)).values())
        if isinstance(step, int):
            cluster.crash(step)
    for (kind, row), (after, new) in zip(cluster.out, cluster.out[1:], strict=False):
        assert (kind == "-U") == (after == "+U")
        assert kind != "-U" or row != new


pairs = st.tuples(st.sampled_from([1, 2]), st.sampled_from(["a", "b", "c"]))


@given(
    steps=st.lists(st.one_of(st.tuples(st.booleans(), pairs), st.tuples(st.booleans(), pairs), marks), max_size=60),
)
@settings(max_examples=100, deadline=None)
def test_the_last_row_that_is_left_wins(steps: list[Any]) -> None:
    cluster = Cluster(MaterializeForSink(output=PAIRS, input=PAIRS, keys=(0,)), [PAIRS], [(0,)])
    lists: dict[int, list[Any]] = {1: [], 2: []}
    waiting: list[Change] = []
    for step in [*steps, "epoch"]:
        if isinstance(step, tuple):
            add, row = step
            if add:
                lists[row[0]].append(row)
            elif row in lists[row[0]]:
                lists[row[0]].remove(row)
            waiting.append(("+U" if add else "-U", row))
            continue
        cluster.epoch(waiting)
        waiting = []
        assert upserted(cluster.out, (0,)) == {(key,): held[-1] for key, held in lists.items() if held}
        assert cluster.rows_in_state() == sum(map(len, lists.values()))
        if isinstance(step, int):
            cluster.crash(step)


def test_a_row_of_the_same_upstream_key_takes_its_place() -> None:
    cluster = Cluster(MaterializeForSink(output=PAIRS, input=PAIRS, keys=(1,), unique=(0,)), [PAIRS], [(1,)])
    cluster.epoch([("+I", (1, "a")), ("+I", (2, "a")), ("+U", (1, "a"))])
    assert cluster.out == [("+I", (1, "a")), ("+U", (2, "a")), ("+U", (1, "a"))]
    assert cluster.epoch([("-D", (1, "a"))]) == []
    assert cluster.epoch([("-D", (2, "a"))]) == [("-D", (2, "a"))]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.booleans(), st.booleans(), pairs), st.tuples(st.just(True), st.booleans(), pairs), marks
        ),
        max_size=60,
    ),
    intersect=st.booleans(),
    all_rows=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_sets_of_changelogs(steps: list[Any], intersect: bool, all_rows: bool) -> None:
    operation = SetRows(output=PAIRS, left=PAIRS, intersect=intersect, all=all_rows, retracts=(True, True))
    cluster = Cluster(operation, [PAIRS, PAIRS], [(0, 1), (0, 1)])
    held: tuple[Counter[Any], Counter[Any]] = (Counter(), Counter())
    waiting: tuple[list[Change], list[Change]] = ([], [])
    for step in [*steps, "epoch"]:
        if isinstance(step, tuple):
            add, side, row = step
            if add or held[side][row]:
                held[side][row] += 1 if add else -1
                waiting[side].append(("+I" if add else "-D", row))
            continue
        cluster.epoch(*waiting)
        waiting = ([], [])
        left, right = +held[0], +held[1]
        if all_rows:
            expected = left & right if intersect else left - right
        else:
            expected = Counter(row for row in left if (row in right) == intersect)
        assert folded(cluster.out) == expected
        if isinstance(step, int):
            cluster.crash(step)


def test_former_rows_are_dropped_if_their_key_has_another_row() -> None:
    cluster = Cluster(KeepInserts(output=PAIRS, keys=(0,)), [PAIRS], [(0,)])
    changes: list[Change] = [("+I", (1, "a")), ("-U", (1, "a")), ("+U", (1, "b")), ("-D", (1, "b"))]
    assert cluster.epoch(changes) == [changes[0], changes[2], changes[3]]
    assert cluster.epoch(changes[:1]) == changes[:1]


def test_a_former_row_that_no_row_of_its_key_follows_is_deleted() -> None:
    cluster = Cluster(KeepInserts(output=PAIRS, keys=(0,)), [PAIRS], [(0,)])
    changes: list[Change] = [
        ("-U", (1, "a")),
        ("+U", (2, "b")),
        ("-U", (2, "b")),
        ("+U", (2, "c")),
        ("-U", (None, "d")),
    ]
    assert cluster.epoch(changes) == [("-D", (1, "a")), changes[1], changes[3], ("-D", (None, "d"))]
