"""Window aggregation against a model that looks at all rows for every window, whatever happens between epochs."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.table._plan.logical import AggregateCall, Schema, Window, WindowKind
from flott.table._plan.operations import (
    AggregateWindows,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SessionSettings,
)
from flott.table._plan.window_partials import partial_schema
from flott.table._types.logical import (
    BIGINT,
    DOUBLE,
    INT,
    STRING,
    DecimalType,
    LocalZonedTimestampType,
    TimeAttribute,
    TimestampType,
)
from tests.unit.runtime.managed_state.kind_cluster import events
from tests.unit.table.columnar.operator_cluster import Change, OperatorCluster

ROWTIME = TimestampType(3, TimeAttribute.ROWTIME)
BOUND = TimestampType(3)
INPUT = Schema(("k", "v", "t"), (STRING, INT, ROWTIME))
CALLS = (
    AggregateCall("COUNT", (), BIGINT, "n"),
    AggregateCall("SUM", (1,), INT, "s"),
    AggregateCall("MIN", (1,), INT, "low"),
    AggregateCall("MAX", (1,), INT, "high"),
    AggregateCall("AVG", (1,), INT, "mean"),
    AggregateCall("COUNT", (1,), BIGINT, "d", distinct=True),
)
PROPERTIES = ("start", "end", "rowtime")
KEYED = Schema(("k",), (STRING,))
OUTPUT = (
    KEYED
    + Schema(tuple(c.name for c in CALLS), tuple(c.type for c in CALLS))
    + Schema(("ws", "we", "wt"), (BOUND, BOUND, ROWTIME))
)

TUMBLE = Window(WindowKind.TUMBLE, 2, 10, offset_ms=3)
HOP = Window(WindowKind.HOP, 2, 15, 5)
UNEVEN_HOP = Window(WindowKind.HOP, 2, 10, 4, offset_ms=1)
GAPS = Window(WindowKind.HOP, 2, 4, 10)
CUMULATE = Window(WindowKind.CUMULATE, 2, 20, 5, offset_ms=2)
SESSION = Window(WindowKind.SESSION, 2, 6, partition=(0,))


def operation(window: Window | None, calls: tuple[AggregateCall, ...] = CALLS, **more: Any) -> AggregateWindows:
    return AggregateWindows(
        output=OUTPUT, input=INPUT, keys=(0,), calls=calls, window=window, attached=None, properties=PROPERTIES, **more
    )


def windows_of(window: Window, time: int) -> list[tuple[int, int]]:
    """All windows of a time, found by trying."""
    found = []
    for start in range(time - 2 * window.size_ms, time + 1):
        aligned = (start - window.offset_ms) % (window.slide_ms if window.kind is WindowKind.HOP else window.size_ms)
        if aligned:
            continue
        if window.kind is WindowKind.CUMULATE:
            ends = range(start + window.slide_ms, start + window.size_ms + 1, window.slide_ms)
        else:
            ends = range(start + window.size_ms, start + window.size_ms + 1)
        found += [(start, end) for end in ends if start <= time < end]
    return found


def summary(values: list[int | None]) -> tuple[Any, ...]:
    """What the calls say about the values of one window."""
    there = [value for value in values if value is not None]
    mean = None
    if there:
        total = sum(there)
        mean = -(-total // len(there)) if total < 0 else total // len(there)
    return (
        len(values),
        sum(there) if there else None,
        min(there, default=None),
        max(there, default=None),
        mean,
        len(set(there)),
    )


class AlignedModel:
    """Rows by key and window; a row counts for the windows that had not ended when it came."""

    def __init__(self, window: Window):
        self.window = window
        self.held: dict[tuple[Any, int, int], list[Change]] = defaultdict(list)
        self.watermark = MIN_WATERMARK
        self.late = 0

    def epoch(self, rows: list[Change], watermark: int) -> list[Any]:
        for kind, (key, value, time) in rows:
            windows = windows_of(self.window, time)
            open_ = [(start, end) for start, end in windows if end - 1 > self.watermark]
            self.late += bool(windows) and not open_
            for start, end in open_:
                self.held[key, start, end].append((kind, value))
        self.watermark = max(self.watermark, watermark)
        found = []
        for key, start, end in [one for one in self.held if one[2] - 1 <= self.watermark]:
            values = folded(self.held.pop((key, start, end)))
            if values:
                found.append((key, *summary(values), start, end, end - 1))
        return found


class SessionModel:
    """Rows by key; sessions are found by looking at all rows that are held."""

    def __init__(self, gap: int):
        self.gap = gap
        self.held: dict[Any, list[tuple[int, int | None]]] = defaultdict(list)
        self.watermark = MIN_WATERMARK
        self.late = 0

    def epoch(self, rows: list[Change], watermark: int) -> list[Any]:
        for _, (key, value, time) in rows:
            self.held[key].append((time, value))
        found = []
        former, self.watermark = self.watermark, max(self.watermark, watermark)
        for key, held in self.held.items():
            held.sort(key=lambda row: row[0])
            sessions: list[list[tuple[int, int | None]]] = []
            for row in held:
                if sessions and row[0] <= sessions[-1][-1][0] + self.gap:
                    sessions[-1].append(row)
                else:
                    sessions.append([row])
            self.held[key] = []
            for session in sessions:
                start, end = session[0][0], session[-1][0] + self.gap
                if end - 1 <= former:
                    self.late += len(session)
                elif end - 1 <= self.watermark:
                    found.append((key, *summary([value for _, value in session]), start, end, end - 1))
                else:
                    self.held[key] += session
        return found


def folded(changes: list[Change]) -> list[Any]:
    """The values that are left of a changelog."""
    counts: Counter[Any] = Counter()
    for kind, value in changes:
        counts[value] += 1 if kind in (0, 2) else -1
    return list(counts.elements())


rows = st.tuples(
    st.just(0),
    st.tuples(st.sampled_from(["a", "b", None, "c"]), st.one_of(st.none(), st.integers(-9, 9)), st.integers(-20, 90)),
)
epochs = st.lists(st.tuples(st.lists(rows, max_size=12), st.integers(-10, 100), events), max_size=12)


def played(told: AggregateWindows, history: list[Any], model: Any) -> None:
    """Run epochs with crashes and rescaling between them; a crashed epoch is run again."""
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [told.input], [told.keys], Path(folder))
        for given_rows, watermark, event in [*history, ([], MAX_WATERMARK, ("checkpoint",))]:
            before, late, alone = cluster.watermark, cluster.late, len(cluster.subtasks) == 1
            found = cluster.epoch([given_rows], watermark)
            if event == ("crash",):
                cluster.happen(event)
                cluster.watermark, cluster.late = before, late
                found = cluster.epoch([given_rows], watermark)
                cluster.happen(("checkpoint",))
            else:
                cluster.happen(event)
                if event == ("put aside",):
                    cluster.happen(("checkpoint",))
            assert all(kind == 0 for kind, _ in found)
            expected = model.epoch(given_rows, watermark)
            assert sorted(map(str, (row for _, row in found))) == sorted(map(str, expected))
            ends = [row[-2] for _, row in found]
            if alone:
                assert ends == sorted(ends)
            assert cluster.late == model.late
        cluster.close()


@pytest.mark.parametrize(
    "window", [TUMBLE, HOP, UNEVEN_HOP, GAPS, CUMULATE], ids=lambda w: f"{w.kind.value}{w.slide_ms}"
)
@settings(max_examples=25)
@given(history=epochs)
def test_aligned_windows_hold_their_rows_whatever_happens(window: Window, history: list[Any]) -> None:
    played(operation(window), history, AlignedModel(window))


@settings(max_examples=40)
@given(history=epochs)
def test_sessions_merge_whatever_happens(history: list[Any]) -> None:
    played(operation(SESSION), history, SessionModel(SESSION.size_ms))


@st.composite
def changelogs(draw: Any) -> list[Any]:
    """Epochs in which some rows are taken away again, as long as their windows are open."""
    history: list[Any] = []
    held: list[Any] = []
    for given_rows, _, event in draw(epochs):
        changes = []
        for _, row in given_rows:
            if held and draw(st.booleans()):
                changes.append((draw(st.sampled_from([1, 3])), held.pop(draw(st.integers(0, len(held) - 1)))))
            held.append(row)
            changes.append((draw(st.sampled_from([0, 2])), row))
        history.append((changes, MIN_WATERMARK, event))
    return history


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE], ids=lambda w: w.kind.value)
@settings(max_examples=20)
@given(history=changelogs())
def test_retracted_rows_do_not_count(window: Window, history: list[Any]) -> None:
    played(operation(window, retracts=(True,)), history, AlignedModel(window))


PARTIAL_CALLS = CALLS[:5]


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE], ids=lambda w: w.kind.value)
@settings(max_examples=10)
@given(history=epochs)
def test_two_phases_give_what_one_phase_gives(window: Window, history: list[Any]) -> None:
    output = Schema(OUTPUT.names[:6] + OUTPUT.names[7:], OUTPUT.types[:6] + OUTPUT.types[7:])
    partial = partial_schema(INPUT, (0,), PARTIAL_CALLS, False)
    local = LocalWindowAggregate(output=partial, input=INPUT, keys=(0,), calls=PARTIAL_CALLS, window=window)
    shared: Any = {
        "output": output,
        "input": INPUT,
        "keys": (0,),
        "calls": PARTIAL_CALLS,
        "window": window,
        "attached": None,
        "properties": PROPERTIES,
    }
    with TemporaryDirectory() as one, TemporaryDirectory() as two, TemporaryDirectory() as three:
        whole = OperatorCluster(AggregateWindows(**shared), [INPUT], [(0,)], Path(one))
        first = OperatorCluster(local, [INPUT], [(0,)], Path(two))
        second = OperatorCluster(GlobalWindowAggregate(**shared), [partial], [(0,)], Path(three))
        for given_rows, watermark, event in [*history, ([], MAX_WATERMARK, ("checkpoint",))]:
            expected = whole.epoch([given_rows], watermark)
            found = second.epoch([first.epoch([given_rows], watermark)], watermark)
            assert sorted(map(str, found)) == sorted(map(str, expected))
            for cluster, what in ((whole, ("checkpoint",)), (second, event)):
                cluster.happen(what if what[0] not in ("crash", "put aside") else ("checkpoint",))


# --- one by one ------------------------------------------------------------------------------------------------------


def run(told: AggregateWindows, *history: tuple[list[tuple[Any, ...]], int], now: list[int] | None = None) -> list[Any]:
    """The rows that epochs of inserts emit."""
    found = []
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [told.input], [told.keys], Path(folder))
        for number, (given_rows, watermark) in enumerate(history):
            changes = cluster.epoch([[(0, row) for row in given_rows]], watermark, now[number] if now else 0)
            found.append([row for _, row in changes])
    return found


def test_a_window_is_emitted_as_soon_as_the_watermark_reaches_its_last_millisecond() -> None:
    told = operation(Window(WindowKind.TUMBLE, 2, 10))
    found = run(told, ([("a", 1, 3)], 8), ([("a", 2, 9)], 9), ([("a", 5, 9)], 30))
    assert found == [[], [("a", 2, 3, 1, 2, 1, 2, 0, 10, 9)], []]


def test_windows_of_a_zone_follow_its_wall_clock() -> None:
    """In Berlin the day of the change to summer time has 23 hours, and that of the change back has 25."""
    hour, day = 3_600_000, 86_400_000
    time = LocalZonedTimestampType(3, TimeAttribute.ROWTIME)
    given_schema = Schema(("k", "v", "t"), (STRING, INT, time))
    calls = (AggregateCall("COUNT", (), BIGINT, "n"),)
    output = KEYED + Schema(("n", "ws", "we", "wt"), (BIGINT, BOUND, BOUND, time))
    told = AggregateWindows(
        output=output,
        input=given_schema,
        keys=(0,),
        calls=calls,
        window=Window(WindowKind.TUMBLE, 2, day),
        attached=None,
        properties=PROPERTIES,
        settings=SessionSettings(time_zone="Europe/Berlin"),
    )
    spring = 1_774_738_800_000  # 2026-03-28T23:00Z: midnight of the 29th in Berlin
    local = spring + hour
    found = run(
        told,
        ([("a", 1, spring), ("a", 1, spring + 23 * hour - 1), ("a", 1, spring + 23 * hour)], spring + 23 * hour - 2),
        ([], spring + 23 * hour - 1),
    )
    assert found == [[], [("a", 2, local, local + day, spring + 23 * hour - 1)]]
    autumn = 1_792_879_200_000  # 2026-10-24T22:00Z: midnight of the 25th in Berlin
    local = autumn + 2 * hour
    found = run(
        told,
        ([("a", 1, autumn), ("a", 1, autumn + 25 * hour - 1), ("a", 1, autumn + 25 * hour)], autumn + 25 * hour - 2),
        ([], autumn + 25 * hour - 1),
    )
    assert found == [[], [("a", 2, local, local + day, autumn + 25 * hour - 1)]]


def test_windows_of_the_clock_end_by_the_clock_and_ask_to_be_woken() -> None:
    told = operation(Window(WindowKind.HOP, 2, 10, 5, proctime=True))
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [(0,)], Path(folder))
        assert cluster.epoch([[(0, ("a", 1, None))]], now_ms=101) == []
        assert cluster.wakeups == [104]
        assert [row[-3:-1] for _, row in cluster.epoch([[]], now_ms=104)] == [(95, 105)]
        assert cluster.wakeups == [109]
        cluster.happen(("rescale", 2))
        assert cluster.epoch([[(0, ("a", 2, None))]], now_ms=107) == []
        cluster.happen(("rescale", 1))
        found = cluster.epoch([[]], now_ms=111)
        assert found == [(0, ("a", 2, 3, 1, 2, 1, 2, 100, 110, 109))]
        assert [row[1:3] for _, row in cluster.epoch([[]], now_ms=130)] == [(1, 2)]
        assert cluster.wakeups == [None]


def test_cumulating_windows_of_the_clock_are_emitted_once() -> None:
    told = operation(Window(WindowKind.CUMULATE, 2, 20, 5, proctime=True))
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [(0,)], Path(folder))
        emitted = []
        for now in range(101, 125, 2):
            rows_now = [(0, ("a", now, None))] if now in (101, 107) else []
            emitted += [(row[1], *row[-3:-1]) for _, row in cluster.epoch([rows_now], now_ms=now)]
            cluster.happen(("checkpoint",))
        assert emitted == [(1, 100, 105), (2, 100, 110), (2, 100, 115), (2, 100, 120)]


def test_sums_wrap_around_and_decimals_keep_their_digits() -> None:
    decimal = DecimalType(10, 2)
    given_schema = Schema(("k", "d", "t", "i", "f"), (STRING, decimal, ROWTIME, INT, DOUBLE))
    calls = (
        AggregateCall("SUM", (1,), DecimalType(38, 2), "s"),
        AggregateCall("AVG", (1,), DecimalType(38, 6), "m"),
        AggregateCall("SUM", (3,), INT, "i"),
        AggregateCall("AVG", (4,), DOUBLE, "f"),
    )
    output = KEYED + Schema(tuple(c.name for c in calls), tuple(c.type for c in calls))
    told = AggregateWindows(
        output=output,
        input=given_schema,
        keys=(0,),
        calls=calls,
        window=Window(WindowKind.TUMBLE, 2, 10),
        attached=None,
        properties=(),
    )
    from decimal import Decimal

    found = run(
        told,
        ([("a", Decimal("1.01"), 1, 2**31 - 1, 1.5), ("a", Decimal("2.00"), 2, 2, 2.0)], 5),
        ([("a", Decimal("0.01"), 3, 0, None)], 50),
    )
    assert found[1] == [("a", Decimal("3.02"), Decimal("1.006667"), -(2**31) + 1, 1.75)]


def test_windows_of_rows_end_with_their_last_row() -> None:
    calls = (AggregateCall("SUM", (1,), INT, "s"),)
    output = KEYED + Schema(("s",), (INT,))
    window = Window(WindowKind.HOP, 2, 0, proctime=True, count=3, count_slide=2)
    told = AggregateWindows(
        output=output, input=INPUT, keys=(0,), calls=calls, window=window, attached=None, properties=()
    )
    rows_in = [("a", 1, 0), ("b", 10, 0), ("a", 2, 0), ("a", 4, 0), ("b", 20, 0)], 0
    assert run(told, rows_in, ([("a", 8, 0), ("a", 16, 0), ("b", 30, 0)], 0)) == [[("a", 7)], [("a", 28), ("b", 60)]]


def test_attached_windows_are_grouped_by_both_bounds() -> None:
    given_schema = Schema(("k", "v", "ws", "we"), (STRING, INT, BOUND, BOUND))
    calls = (AggregateCall("COUNT", (), BIGINT, "n"), AggregateCall("COUNT", (1,), BIGINT, "d", distinct=True))
    output = KEYED + Schema(("n", "d", "ws", "we"), (BIGINT, BIGINT, BOUND, BOUND))
    told = AggregateWindows(
        output=output,
        input=given_schema,
        keys=(0,),
        calls=calls,
        window=None,
        attached=(2, 3),
        properties=("start", "end"),
    )
    given_rows = [("a", 1, 0, 10), ("a", 1, 0, 10), ("a", 1, 5, 10), ("b", 2, 0, 20)]
    found = run(told, (given_rows, 5), ([("a", 7, 0, 10)], 9), ([("a", 1, 0, 10)], 19))
    assert [sorted(rows) for rows in found] == [[], [("a", 1, 1, 5, 10), ("a", 3, 2, 0, 10)], [("b", 1, 1, 0, 20)]]


def test_functions_without_parts_are_evaluated_when_a_window_ends() -> None:
    calls = (
        AggregateCall("LISTAGG", (0,), STRING, "l", literals=("/",)),
        AggregateCall("LAST_VALUE", (1,), INT, "v", filter=None),
        AggregateCall("STDDEV_POP", (1,), INT, "sd"),
    )
    output = Schema(("l", "v", "sd", "we"), (STRING, INT, INT, BOUND))
    told = AggregateWindows(
        output=output,
        input=INPUT,
        keys=(),
        calls=calls,
        window=Window(WindowKind.HOP, 2, 10, 5),
        attached=None,
        properties=("end",),
    )
    found = run(told, ([("a", 1, 2), ("b", 3, 1)], 3), ([("a", 5, 7), ("c", None, 8)], 9), ([], 14))
    assert found == [[], [("a/b", 3, 1, 5), ("a/b/a/c", 5, 1, 10)], [("a/c", 5, 0, 15)]]
