"""OVER against a model that looks at all rows before each row, whatever happens between epochs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.errors import ProgramError
from flott.table._plan.logical import AggregateCall, Frame, Schema, SortKey
from flott.table._plan.operations import AggregateOver
from flott.table._types.logical import BIGINT, DOUBLE, INT, STRING, TimeAttribute, TimestampType
from tests.unit.runtime.managed_state.kind_cluster import events
from tests.unit.table.columnar.operator_cluster import Change, OperatorCluster

ROWTIME = TimestampType(3, TimeAttribute.ROWTIME)
INPUT = Schema(("id", "k", "v", "t"), (INT, STRING, INT, ROWTIME))
CALLS = (
    AggregateCall("COUNT", (), BIGINT, "n"),
    AggregateCall("SUM", (2,), INT, "s"),
    AggregateCall("MIN", (2,), INT, "low"),
    AggregateCall("MAX", (1,), STRING, "high"),
    AggregateCall("COUNT", (2,), BIGINT, "d", distinct=True),
    AggregateCall("LAG", (0,), INT, "lag", literals=(2, -1)),
    AggregateCall("LISTAGG", (1,), STRING, "l", literals=("",)),
)
RANKS = (
    AggregateCall("ROW_NUMBER", (), BIGINT, "rn"),
    AggregateCall("RANK", (), BIGINT, "r"),
    AggregateCall("DENSE_RANK", (), BIGINT, "dr"),
)


def operation(frame: Frame, calls: tuple[AggregateCall, ...], **more: Any) -> AggregateOver:
    output = INPUT + Schema(tuple(call.name for call in calls), tuple(call.type for call in calls))
    told: dict[str, Any] = {"partition": (1,), "order": (SortKey(3),), **more}
    return AggregateOver(output=output, input=INPUT, frame=frame, calls=calls, **told)


def summary(frame: Frame, before: list[Any], at: int, ranked: bool) -> tuple[Any, ...]:
    """What the calls say about the row at a position of all rows of its key in order of time."""
    time = before[at][3]
    if ranked:
        times = [row[3] for row in before]
        return (at + 1, times.index(time) + 1, len(set(times[: at + 1])))
    last = at
    if not frame.rows:
        last = max(place for place, row in enumerate(before) if row[3] == time)
    first = 0
    if frame.lower is not None:
        first = (
            max(0, at + frame.lower)
            if frame.rows
            else min(place for place, row in enumerate(before) if row[3] >= time + frame.lower)
        )
    rows = before[first : last + 1]
    values = [row[2] for row in rows if row[2] is not None]
    keys = [row[1] for row in rows if row[1] is not None]
    return (
        len(rows),
        sum(values) if values else None,
        min(values, default=None),
        max(keys, default=None),
        len(set(values)),
        before[at - 2][0] if at >= 2 else -1,
        "".join(keys) if keys else None,
    )


def is_late(frame: Frame, time: int, last: int, watermark: int) -> bool:
    """Whether a row comes too late; ``last`` is the time of the last row of its key that was sent."""
    return time <= (min(last, watermark) if frame.rows and frame.lower is not None else watermark)


rows = st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(-4, 4)), st.integers(0, 25))
epochs = st.lists(st.tuples(st.lists(rows, max_size=8), st.integers(-1, 30), events), max_size=10)


@pytest.mark.parametrize(
    ("frame", "calls"),
    [
        (Frame(True, None), CALLS),
        (Frame(False, None), CALLS),
        (Frame(True, -2), CALLS),
        (Frame(False, -5), CALLS),
        (Frame(False, -5), CALLS[:5]),
        (Frame(True, None), RANKS),
    ],
    ids=["rows", "range", "rows-2", "range-5", "range-5-without-lag", "ranks"],
)
@pytest.mark.parametrize("partitioned", [True, False])
@settings(max_examples=15)
@given(history=epochs)
def test_rows_come_in_order_of_time_with_what_was_before_them(
    frame: Frame, calls: tuple[AggregateCall, ...], partitioned: bool, history: list[Any]
) -> None:
    told = operation(frame, calls, partition=(1,) if partitioned else ())
    held: list[Any] = []
    emitted: list[Any] = []
    late = number = 0
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [told.partition], Path(folder))
        for given_rows, watermark, event in [*history, ([], MAX_WATERMARK, ("checkpoint",))]:
            changes: list[Change] = []
            for key, value, time in given_rows:
                number += 1
                row = (number, key, value, time)
                changes.append((0, row))
                last = max((one[3] for one in emitted if not partitioned or one[1] == key), default=MIN_WATERMARK)
                if is_late(frame, time, last, cluster.watermark):
                    late += 1
                else:
                    held.append(row)
            alone = len(cluster.subtasks) == 1
            found = [row for _, row in cluster.epoch([changes], watermark)]
            due = sorted((row for row in held if row[3] <= cluster.watermark), key=lambda row: row[3])
            held = [row for row in held if row[3] > cluster.watermark]
            emitted += due
            expected = []
            for row in due:
                before = [one for one in emitted if not partitioned or one[1] == row[1]]
                said = summary(frame, before, before.index(row), calls is RANKS)
                expected.append((*row, *said[: len(calls)]))
            assert sorted(found, key=str) == sorted(expected, key=str)
            if alone:
                assert [row[3] for row in found] == [row[3] for row in expected]
            assert cluster.late == late
            cluster.happen(event if event[0] not in ("crash", "put aside") else ("checkpoint",))
        cluster.close()


def test_state_of_bounded_frames_does_not_grow() -> None:
    for frame, expected in ((Frame(True, -2), 2), (Frame(False, -5), 5)):
        with TemporaryDirectory() as folder:
            cluster = OperatorCluster(operation(frame, CALLS[:3]), [INPUT], [(1,)], Path(folder))
            for time in range(100):
                cluster.epoch([[(0, (time, "a", 1, time))]], time)
                cluster.happen(("checkpoint",))
            assert cluster.subtasks[0].state.sizes() == {"waiting": 0, "history": expected}
            cluster.epoch([[]], 200)
            cluster.close()


def test_rows_ordered_by_the_clock_are_sent_at_once() -> None:
    told = operation(Frame(False, -10), (CALLS[0],), proctime=True)
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [(1,)], Path(folder))
        counts = []
        for now in (100, 105, 110, 111, 130):
            changes = [(0, (now, "a", 1, None)), (0, (now, "b", 1, None))][: 1 + now % 2]
            counts.append([row[4] for _, row in cluster.epoch([changes], now_ms=now)])
            cluster.happen(("checkpoint",))
        assert counts == [[1], [2, 1], [3], [3, 2], [1]]


# --- other orders ----------------------------------------------------------------------------------------------------

PLAIN = Schema(("k", "v", "i"), (STRING, INT, INT))
SUM = AggregateCall("SUM", (1,), INT, "s")


def by_value(rows_frame: bool, **more: Any) -> AggregateOver:
    told: dict[str, Any] = {"partition": (0,), "order": (SortKey(1),), "retracts": (True,), **more}
    return AggregateOver(
        output=PLAIN + Schema(("s",), (INT,)), input=PLAIN, frame=Frame(rows_frame, None), calls=(SUM,), **told
    )


def test_a_change_updates_the_rows_behind_it() -> None:
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(by_value(False), [PLAIN], [(0,)], Path(folder))
        first = cluster.epoch([[(0, ("a", 1, 1)), (0, ("a", 4, 2)), (0, ("a", 9, 3)), (0, ("b", 5, 4))]])
        assert first == [
            (0, ("a", 1, 1, 1)),
            (0, ("a", 4, 2, 5)),
            (0, ("a", 9, 3, 14)),
            (0, ("b", 5, 4, 5)),
        ]
        cluster.happen(("rescale", 2))
        cluster.happen(("rescale", 1))
        second = cluster.epoch([[(1, ("a", 4, 2)), (2, ("a", 5, 2)), (0, ("a", 5, 7))]])
        assert second == [
            (3, ("a", 4, 2, 5)),
            (1, ("a", 9, 3, 14)),
            (2, ("a", 9, 3, 10)),
            (2, ("a", 5, 2, 6)),
            (1, ("a", 9, 3, 10)),
            (2, ("a", 9, 3, 15)),
            # Rows of the same value have the same sum.
            (1, ("a", 5, 2, 6)),
            (2, ("a", 5, 2, 11)),
            (0, ("a", 5, 7, 11)),
            (1, ("a", 9, 3, 15)),
            (2, ("a", 9, 3, 20)),
        ]


@pytest.mark.parametrize("rows_frame", [True, False])
@settings(max_examples=40)
@given(
    history=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.sampled_from("ab"), st.integers(-3, 3), st.integers(0, 3), st.booleans()), max_size=6
            ),
            events,
        ),
        max_size=6,
    )
)
def test_the_folded_changes_are_the_aggregates_of_what_is_left(rows_frame: bool, history: list[Any]) -> None:
    held: list[Any] = []
    folded: list[Any] = []
    number = 0
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(by_value(rows_frame), [PLAIN], [(0,)], Path(folder))
        for given_rows, event in history:
            changes: list[Change] = []
            for key, value, pick, add in given_rows:
                if held and not add:
                    changes.append((3, held.pop(pick % len(held))))
                else:
                    number += 1
                    held.append((key, value, number))
                    changes.append((0, held[-1]))
            for kind, row in cluster.epoch([changes]):
                if kind in (0, 2):
                    folded.append(row)
                else:
                    folded.remove(row)
            cluster.happen(event if event[0] not in ("crash", "put aside") else ("checkpoint",))
            expected = []
            for row in held:
                same = sorted((one for one in held if one[0] == row[0]), key=lambda one: one[1])
                last = same.index(row)
                if not rows_frame:
                    last = max(place for place, one in enumerate(same) if one[1] == row[1])
                expected.append((*row, sum(one[1] for one in same[: last + 1])))
            assert sorted(folded) == sorted(expected)
        cluster.close()


def test_functions_that_need_later_rows_are_refused() -> None:
    with TemporaryDirectory() as folder:
        told = operation(Frame(True, None), (AggregateCall("LEAD", (2,), INT, "x"),))
        with pytest.raises(ProgramError, match="LEAD needs rows behind"):
            OperatorCluster(told, [INPUT], [(1,)], Path(folder)).epoch([[]], MIN_WATERMARK)


def test_frames_of_floats_are_added_up_in_order() -> None:
    schema = Schema(("id", "k", "v", "t"), (INT, STRING, DOUBLE, ROWTIME))
    call = AggregateCall("SUM", (2,), DOUBLE, "s")
    told = AggregateOver(
        output=schema + Schema(("s",), (DOUBLE,)),
        input=schema,
        partition=(1,),
        order=(SortKey(3),),
        frame=Frame(True, -1),
        calls=(call,),
    )
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [schema], [(1,)], Path(folder))
        values = [1e100, 1.0, 2.0, None, None]
        found = cluster.epoch([[(0, (n, "a", value, n)) for n, value in enumerate(values)]], 10)
        assert [row[4] for _, row in found] == [1e100, 1e100, 3.0, 2.0, None]
