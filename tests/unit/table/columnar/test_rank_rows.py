"""Top-N against sorting: append-only and changelog inputs, ranks, offsets, ties, epochs, crashes and rescaling."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from flott.table._plan.logical import Schema, SortKey
from flott.table._plan.operations import RankRows
from flott.table._types.logical import BigIntType, DoubleType, IntType, VarCharType
from tests.unit.table.columnar.cluster import Change, Cluster, folded, upserted

ROWS = Schema(("p", "x", "y"), (IntType(), BigIntType(), VarCharType(9)))
RANKED = ROWS + Schema(("rank",), (BigIntType(nullable=False),))

rows = st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 6), st.sampled_from(["a", "b", "c", None]))
steps_of = st.lists(
    st.one_of(
        st.tuples(st.just("row"), rows, st.booleans()),
        st.tuples(st.just("row"), rows, st.just(True)),
        st.tuples(st.just("epoch"), st.none(), st.none()),
        st.tuples(st.just("crash"), st.integers(1, 3), st.none()),
    ),
    max_size=60,
)


def cluster_of(**changed: Any) -> Cluster:
    told: dict[str, Any] = {
        "input": ROWS,
        "function": "ROW_NUMBER",
        "partition": (0,),
        "order": (SortKey(1, True, True),),
        "start": 1,
        "end": 2,
        "rank": True,
        "retracts": (False,),
        **changed,
    }
    told["output"] = RANKED if told["rank"] else ROWS
    return Cluster(RankRows(**told), [ROWS], [told["partition"]])


def best(held: list[Any], start: int, end: int, rank: bool, function: str = "ROW_NUMBER") -> Counter[Any]:
    """Sort by x, descending; of equal rows the one that came first is first."""
    found: Counter[Any] = Counter()
    for partition in {row[0] for row in held}:
        members = sorted((row for row in held if row[0] == partition), key=lambda row: -row[1])
        for number, row in enumerate(members, 1):
            above = [other[1] for other in members if other[1] > row[1]]
            place = {"ROW_NUMBER": number, "RANK": len(above) + 1, "DENSE_RANK": len(set(above)) + 1}[function]
            if start <= place <= end:
                found[(*row, place) if rank else row] += 1
    return found


@given(
    steps=steps_of,
    start=st.integers(1, 3),
    size=st.integers(0, 3),
    rank=st.booleans(),
    retracts=st.booleans(),
    mini_batch=st.booleans(),
    function=st.sampled_from(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"]),
)
@settings(max_examples=250, deadline=None)
def test_the_best_rows_are_those_of_the_sorted_input(
    steps: list[Any], start: int, size: int, rank: bool, retracts: bool, mini_batch: bool, function: str
) -> None:
    end = start + size
    cluster = cluster_of(
        start=start, end=end, rank=rank, retracts=(retracts,), mini_batch=mini_batch, function=function
    )
    held: list[Any] = []
    waiting: list[Change] = []
    for what, row, add in [*steps, ("epoch", None, None)]:
        if what == "row":
            if add or not retracts:
                held.append(row)
                waiting.append(("+I", row))
            elif row in held:
                held.remove(row)
                waiting.append(("-D", row))
            continue
        cluster.epoch(waiting)
        waiting = []
        assert folded(cluster.out) == best(held, start, end, rank, function)
        if what == "crash":
            cluster.crash(row)


@given(steps=steps_of, rank=st.booleans(), mini_batch=st.booleans(), end=st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_rows_replace_those_with_their_unique_key(steps: list[Any], rank: bool, mini_batch: bool, end: int) -> None:
    cluster = cluster_of(end=end, rank=rank, retracts=(True,), mini_batch=mini_batch, unique=(2,))
    held: dict[Any, Any] = {}
    waiting: list[Change] = []
    number = 0
    for what, row, add in [*steps, ("epoch", None, None)]:
        if what == "row":
            number += 1
            key = (row[0], row[2])
            if add:
                row = (row[0], row[1] * 1000 - number, row[2])  # no ties: which of them is first is another matter
                held[key] = row
                waiting.append(("+U", row))
            elif key in held:
                waiting.append(("-D", held.pop(key)))
            continue
        cluster.epoch(waiting)
        waiting = []
        assert folded(cluster.out) == best(list(held.values()), 1, end, rank)
        if what == "crash":
            cluster.crash(row)
    if rank:
        shown = upserted([change for change in cluster.out if change[0] != "-U"], (0, 3))
        assert Counter(shown.values()) == folded(cluster.out)


@pytest.mark.parametrize("retracts", [False, True])
def test_every_rank_that_shifts_is_updated(retracts: bool) -> None:
    cluster = cluster_of(end=3, retracts=(retracts,))
    cluster.epoch([("+I", (1, 5, "a")), ("+I", (1, 3, "b"))])
    assert cluster.epoch([("+I", (1, 4, "c"))]) == [
        ("-U", (1, 3, "b", 2)),
        ("+U", (1, 4, "c", 2)),
        ("+I", (1, 3, "b", 3)),
    ]
    assert cluster.epoch([("+I", (1, 9, "d"))]) == [
        ("-U", (1, 5, "a", 1)),
        ("+U", (1, 9, "d", 1)),
        ("-U", (1, 4, "c", 2)),
        ("+U", (1, 5, "a", 2)),
        ("-U", (1, 3, "b", 3)),
        ("+U", (1, 4, "c", 3)),
    ]
    if retracts:
        assert cluster.epoch([("-D", (1, 5, "a"))]) == [
            ("-U", (1, 5, "a", 2)),
            ("+U", (1, 4, "c", 2)),
            ("-U", (1, 4, "c", 3)),
            ("+U", (1, 3, "b", 3)),
        ]
        assert cluster.epoch([("-D", (1, 3, "b"))]) == [("-D", (1, 3, "b", 3))]


@pytest.mark.parametrize("retracts", [False, True])
def test_without_a_rank_only_the_rows_that_leave_and_come_are_sent(retracts: bool) -> None:
    cluster = cluster_of(end=2, rank=False, retracts=(retracts,))
    sent = cluster.epoch([("+I", (1, x, "a")) for x in (1, 2, 0, 3)])
    assert sent == [
        ("+I", (1, 1, "a")),
        ("+I", (1, 2, "a")),
        ("-D", (1, 1, "a")),
        ("+I", (1, 3, "a")),
    ]
    if retracts:
        assert cluster.epoch([("-D", (1, 3, "a"))]) == [("-D", (1, 3, "a")), ("+I", (1, 1, "a"))]
        assert cluster.epoch([("-D", (1, 0, "a"))]) == []


def test_the_only_row_is_updated_by_inserts_and_replaced_by_changes() -> None:
    append, retract = cluster_of(end=1, rank=False), cluster_of(end=1, retracts=(True,))
    changes: list[Change] = [("+I", (1, 1, "a")), ("+I", (1, 2, "b")), ("+I", (1, 2, "c"))]
    assert append.epoch(changes) == [changes[0], ("-U", (1, 1, "a")), ("+U", (1, 2, "b"))]
    assert retract.epoch(changes) == [("+I", (1, 1, "a", 1)), ("-D", (1, 1, "a", 1)), ("+I", (1, 2, "b", 1))]


def test_a_hot_partition_with_better_and_better_rows() -> None:
    cluster = cluster_of(end=3, rank=False, partition=())
    cluster.epoch([("+I", (1, x, "a")) for x in range(20_000)])
    assert folded(cluster.out) == Counter({(1, x, "a"): 1 for x in (19_999, 19_998, 19_997)})
    assert cluster.rows_in_state() == 3


def test_nulls_and_numbers_that_are_not_are_sorted_as_in_flink() -> None:
    schema = Schema(("x",), (DoubleType(),))
    told = RankRows(
        output=schema + Schema(("rank",), (BigIntType(nullable=False),)),
        input=schema,
        function="ROW_NUMBER",
        partition=(),
        order=(SortKey(0),),
        start=1,
        end=9,
        rank=True,
        mini_batch=True,
    )
    cluster = Cluster(told, [schema], [()])
    values = [1.5, None, float("inf"), -2.0, -1.0, float("-inf")]
    sent = cluster.epoch([("+I", (value,)) for value in values])
    assert [row[0] for _, row in sent] == [None, float("-inf"), -2.0, -1.0, 1.5, float("inf")]
