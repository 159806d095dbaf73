"""Window table functions, top-n and joins within windows, against models that look at all rows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.table._expressions.expression import InputRef
from flott.table._plan.logical import (
    EquiKeys,
    JoinKind,
    Schema,
    SortKey,
    Window,
    WindowKind,
    joined_schema,
    window_columns,
)
from flott.table._plan.operations import AssignSessions, AssignWatermarks, AssignWindows, JoinWindows, RankWindows
from flott.table._types.logical import BIGINT, INT, STRING, TimeAttribute, TimestampType
from tests.unit.runtime.managed_state.kind_cluster import events
from tests.unit.table.columnar.operator_cluster import OperatorCluster

ROWTIME = TimestampType(3, TimeAttribute.ROWTIME)
BOUND = TimestampType(3)
INPUT = Schema(("k", "v", "t"), (STRING, INT, ROWTIME))
WINDOWED = Schema(("k", "v", "ws", "we"), (STRING, INT, BOUND, BOUND))

windowed = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.one_of(st.none(), st.integers(0, 5)),
    st.sampled_from([(0, 10), (5, 10), (10, 20)]),
).map(lambda row: (0, (row[0], row[1], *row[2])))
epochs = st.lists(
    st.tuples(st.lists(windowed, max_size=8), st.lists(windowed, max_size=8), st.integers(0, 25), events), max_size=8
)


def happen(cluster: OperatorCluster, event: tuple[Any, ...]) -> None:
    cluster.happen(event if event[0] not in ("crash", "put aside") else ("checkpoint",))


@pytest.mark.parametrize(("first", "last", "latest"), [(1, 2, False), (2, 3, False), (1, 1, True)])
@settings(max_examples=40)
@given(history=epochs)
def test_the_first_rows_of_each_window_are_sent_when_it_ends(
    first: int, last: int, latest: bool, history: list[Any]
) -> None:
    output = WINDOWED + Schema(("r",), (BIGINT,))
    told = RankWindows(
        output=output,
        input=WINDOWED,
        partition=(0,),
        order=(SortKey(1, descending=True, nulls_last=True),),
        start=first,
        end=last,
        rank=True,
        window=(2, 3),
        latest=latest,
    )
    held: dict[Any, list[Any]] = defaultdict(list)
    late = 0
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [WINDOWED], [(0,)], Path(folder))
        for rows, _, watermark, event in [*history, ([], [], MAX_WATERMARK, ("checkpoint",))]:
            for _, row in rows:
                if row[3] - 1 <= cluster.watermark:
                    late += 1
                else:
                    held[row[0], row[2], row[3]].append(row)
            found = cluster.epoch([rows], watermark)
            expected = []
            for key in [key for key in held if key[2] - 1 <= cluster.watermark]:
                group = held.pop(key)
                if latest:
                    group = group[::-1]
                group = sorted(group, key=lambda row: 1 if row[1] is None else -row[1])
                expected += [(*row, rank) for rank, row in enumerate(group, 1) if first <= rank <= last]
            assert sorted(map(str, (row for _, row in found))) == sorted(map(str, expected))
            assert cluster.late == late
            happen(cluster, event)
        cluster.close()


def test_the_last_of_equal_rows_is_kept_if_the_query_keeps_the_last_row() -> None:
    schema = Schema(("k", "id", "o", "ws", "we"), (STRING, INT, INT, BOUND, BOUND))
    for latest, expected in ((False, 1), (True, 3)):
        told = RankWindows(
            output=schema,
            input=schema,
            partition=(0,),
            order=(SortKey(2),),
            start=1,
            end=1,
            rank=False,
            window=(3, 4),
            latest=latest,
        )
        with TemporaryDirectory() as folder:
            cluster = OperatorCluster(told, [schema], [(0,)], Path(folder))
            cluster.epoch([[(0, ("a", 1, 7, 0, 10)), (0, ("a", 2, 7, 0, 10))]], 0)
            cluster.happen(("rescale", 2))
            found = cluster.epoch([[(0, ("a", 3, 7, 0, 10)), (0, ("a", 4, 9, 0, 10))]], 9)
            assert [row[1] for _, row in found] == [expected]


KINDS = list(JoinKind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("nulls_equal", [False, True])
@settings(max_examples=15)
@given(history=epochs)
def test_rows_of_one_window_are_joined_when_it_ends(kind: JoinKind, nulls_equal: bool, history: list[Any]) -> None:
    told = JoinWindows(
        output=joined_schema(kind, WINDOWED, WINDOWED),
        kind=kind,
        left=WINDOWED,
        right=WINDOWED,
        keys=EquiKeys((0,), (0,), (not nulls_equal,)),
        left_window=(2, 3),
        right_window=(2, 3),
        condition=None,
    )
    held: tuple[list[Any], list[Any]] = ([], [])
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [WINDOWED, WINDOWED], [(0,), (0,)], Path(folder))
        for left, right, watermark, event in [*history, ([], [], MAX_WATERMARK, ("checkpoint",))]:
            for side, rows in zip(held, (left, right), strict=True):
                side += [row for _, row in rows if row[3] - 1 > cluster.watermark]
            found = cluster.epoch([left, right], watermark)
            due = [[row for row in side if row[3] - 1 <= cluster.watermark] for side in held]
            for side in held:
                side[:] = [row for row in side if row[3] - 1 > cluster.watermark]
            assert sorted(map(str, (row for _, row in found))) == sorted(map(str, joined(kind, *due, nulls_equal)))
            happen(cluster, event)
        cluster.close()


def joined(kind: JoinKind, left: list[Any], right: list[Any], nulls_equal: bool) -> list[Any]:
    """A join by two loops."""

    def fit(one: Any, other: Any) -> bool:
        return (one[0], one[2:]) == (other[0], other[2:]) and (nulls_equal or one[0] is not None)

    pairs = [(one, other) for one in left for other in right if fit(one, other)]
    alone_left = [one for one in left if not any(fit(one, other) for other in right)]
    alone_right = [other for other in right if not any(fit(one, other) for one in left)]
    if kind is JoinKind.SEMI:
        return [one for one in left if one not in alone_left]
    if kind is JoinKind.ANTI:
        return alone_left
    found = [one + other for one, other in pairs]
    if kind.left_outer:
        found += [one + (None,) * 4 for one in alone_left]
    if kind.right_outer:
        found += [(None,) * 4 + other for other in alone_right]
    return found


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(WindowKind.TUMBLE, 2, 10, offset_ms=2), [(2, 12)]),
        (Window(WindowKind.HOP, 2, 10, 5), [(10, 20), (5, 15)]),
        (Window(WindowKind.CUMULATE, 2, 15, 5), [(0, 15)]),
        (Window(WindowKind.CUMULATE, 2, 20, 5), [(0, 15), (0, 20)]),
    ],
)
def test_a_row_is_sent_once_for_each_of_its_windows(window: Window, expected: list[tuple[int, int]]) -> None:
    told = AssignWindows(output=INPUT + window_columns(ROWTIME), input=INPUT, window=window)
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [()], Path(folder))
        found = cluster.epoch([[(1, ("a", 1, 11)), (2, ("b", None, None))]])
        assert found == [(1, ("a", 1, 11, start, end, end - 1)) for start, end in expected]


def test_rows_of_a_session_are_sent_with_its_bounds_when_it_ends() -> None:
    window = Window(WindowKind.SESSION, 2, 5, partition=(0,))
    told = AssignSessions(output=INPUT + window_columns(ROWTIME), input=INPUT, window=window)
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [(0,)], Path(folder))
        assert cluster.epoch([[(0, ("a", 1, 11)), (0, ("a", 2, 1)), (0, ("b", 3, 30))]], 3) == []
        cluster.happen(("rescale", 3))
        # The row at 6 joins both sessions of a; one at -9 is late.
        assert cluster.epoch([[(0, ("a", 4, 6)), (0, ("a", 5, -9))]], 14) == []
        assert cluster.late == 1
        cluster.happen(("rescale", 1))
        found = cluster.epoch([[]], 15)
        assert found == [
            (0, ("a", 1, 11, 1, 16, 15)),
            (0, ("a", 2, 1, 1, 16, 15)),
            (0, ("a", 4, 6, 1, 16, 15)),
        ]
        assert cluster.epoch([[]], MAX_WATERMARK) == [(0, ("b", 3, 30, 30, 35, 34))]


def test_watermarks_follow_the_largest_value_of_their_expression() -> None:
    from types import SimpleNamespace

    from flott.runtime.operators.batch import ColumnBatch
    from flott.runtime.operators.columnar.build import build_columnar
    from flott.runtime.operators.operator import EpochScope, EventTime
    from flott.runtime.operators.watermarks import TimeProgress
    from flott.table._types.arrow import arrow_schema
    from flott.table._types.record_types import record_type_of
    from tests.unit.table.columnar.operator_cluster import batch_of_rows

    told = AssignWatermarks(output=INPUT, input=INPUT, rowtime=2, watermark=InputRef(ROWTIME, 2), idle_ms=100)
    scope = EpochScope(now_ms=1000)
    context: Any = SimpleNamespace(
        scope=scope,
        keyed_state=None,
        batch=False,
        subtask=0,
        operator=None,
        job_parameters={},
        task_name="task",
        parallelism=1,
        max_parallelism=128,
    )
    operator = build_columnar(context, told)
    sent: list[Any] = []
    operator.emit = sent.append
    operator.restore(MIN_WATERMARK, TimeProgress())
    operator.begin()
    rows = batch_of_rows([("a", 1, 7), ("b", 2, None), ("c", 3, 5)], arrow_schema(INPUT.names, INPUT.types))
    operator.process(ColumnBatch(rows, record_type_of(INPUT)))
    assert [len(batch) for batch in sent] == [3]
    assert operator.advance(EventTime(99)) == EventTime(7)
    assert operator.next_wakeup_ms() == 1100
    saved = operator.outcome().progress
    assert saved is not None
    again = build_columnar(context, told)
    again.restore(7, saved)
    scope.now_ms = 1100
    again.begin()
    assert again.advance(EventTime(99)) == EventTime(7, idle=True)
    assert again.advance(EventTime(99, ended=True)) == EventTime(MAX_WATERMARK, ended=True)
