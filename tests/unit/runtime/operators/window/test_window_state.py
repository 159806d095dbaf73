"""What windows keep: how much, for how long, at what cost per record, and what becomes of it in a changed program."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Time, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import OutputTag
from flott.datastream.functions import AggregateFunction, ProcessWindowFunction
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flott.errors import StateError
from flott.runtime.managed_state.kinds.lists import ListTable
from flott.runtime.managed_state.kinds.maps import MapTable
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.testing import EndOfEpoch, Ledger, LedgerSink, OperatorHarness, ScriptedSource, in_process, live
from tests.unit.runtime.operators.window.model import Model, Session, Sliding, Tumbling

TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
CUMULATIVE = CumulativeEventTimeWindows.of(Time.milliseconds(12), Time.milliseconds(4))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(5))

Settings = Callable[[Any], Any]


def by_first(stream: Any) -> Any:
    return stream.key_by(lambda record: record[0])


class Total(AggregateFunction[Any, list[int], int]):
    """Counts what is asked of it."""

    added = merged = 0

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        self.added += 1
        accumulator[0] += value[1]
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        self.merged += 1
        return [acc_a[0] + acc_b[0]]


class Shown(ProcessWindowFunction[Any, Any, str, Any]):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        window = context.window()
        yield key, window.start, window.end, sum(e if isinstance(e, int) else e[1] for e in elements)


def keyed_states(harness: OperatorHarness) -> list[Any]:
    found = [operator.context.keyed_state for _, operator in harness._piece.operators()]
    return [state for state in found if state is not None]


def sizes(harness: OperatorHarness) -> dict[str, int]:
    """Entries per state, over all subtasks."""
    total: dict[str, int] = {}
    for state in keyed_states(harness):
        for name, size in state.sizes().items():
            total[name] = total.get(name, 0) + size
    return {name: size for name, size in total.items() if size}


def changes(harness: OperatorHarness) -> int:
    """How many entries an epoch that ended now would save."""
    return sum(_changes(state.find(name)) for state in keyed_states(harness) for name in state.sizes())


def _changes(table: Any) -> int:
    match table:
        case ListPaneTable():
            marks = ((pane, key, saved) for pane, keys in table.changed.items() for key, saved in keys.items())
            return sum(len(table.panes[pane][key]) - saved for pane, key, saved in marks)
        case PaneTable():
            return sum(map(len, table.changed.values()))
        case ListTable():
            whole = sum(len(table.entries.get(entry, ())) for entry in table.rewritten)
            return whole + sum(len(table.entries[entry]) - saved for entry, saved in table.saved_lengths.items())
        case MapTable():
            return sum(map(len, table.put.values())) + sum(map(len, table.removed.values())) + len(table.cleared)
        case ValueTable() | TimerTable():
            return len(table.changed)
    raise AssertionError(table)


# --- how much --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assigner", "windows"), [(TUMBLING, 3), (SLIDING, 6), (CUMULATIVE, 6), (SESSIONS, 3)], ids=lambda p: repr(p)[:12]
)
@pytest.mark.parametrize("lateness", [0, 7], ids=["fast", "general"])
def test_a_fold_keeps_one_accumulator_per_key_and_window(assigner: Any, windows: int, lateness: int) -> None:
    harness = OperatorHarness(
        lambda stream: by_first(stream).window(assigner).allowed_lateness(lateness).aggregate(Total())
    )
    for timestamp in (3, 13, 23):
        harness.process_elements([(key, 1) for key in "abcd"] * 25, [timestamp] * 100)
    harness.end_epoch()
    held = sizes(harness)
    if "_sessions" in held:
        sessions = [entry for state in keyed_states(harness) for entry in state.find("_sessions").entries.values()]
        assert sum(map(len, sessions)) == 4 * windows
    else:
        assert held.get("_window-panes", held.get("_window-contents")) == 4 * windows


KEEPING: list[tuple[str, Settings]] = [
    ("elements", lambda windows: windows.process(Shown())),
    ("aggregate", lambda windows: windows.aggregate(Total(), Shown())),
]
TRIGGERS: list[tuple[str, Settings]] = [
    ("at the end", lambda windows: windows),
    ("lateness", lambda windows: windows.allowed_lateness(7)),
    ("count", lambda windows: windows.trigger(CountTrigger.of(2))),
    ("continuous", lambda windows: windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(3)))),
    ("purging", lambda windows: windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).allowed_lateness(2)),
    ("evictor", lambda windows: windows.evictor(CountEvictor.of(2))),
]
WITH_TIMEOUT = (
    "timeout",
    lambda windows: windows.trigger(ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), Time.milliseconds(4))),
)


@pytest.mark.parametrize(("_", "evaluate"), KEEPING, ids=[title for title, _ in KEEPING])
@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        pytest.param(assigner, trigger, id=f"{type(assigner).__name__}, {title}")
        for assigner in (TUMBLING, SLIDING, CUMULATIVE, SESSIONS)
        for title, trigger in [*TRIGGERS, *([] if assigner is SESSIONS else [WITH_TIMEOUT])]
    ],
)
def test_state_and_timers_are_those_of_open_windows(
    assigner: Any, trigger: Settings, _: str, evaluate: Settings
) -> None:
    harness = OperatorHarness(lambda stream: evaluate(trigger(by_first(stream).window(assigner))), processing_time=0)
    entries = []
    for now in range(0, 600, 6):
        harness.set_processing_time(now)
        harness.process_elements([("a", 1), ("b", 1), ("a", 1)], [now, now + 1, now - 3])
        harness.process_watermark(now)
        entries.append(sum(sizes(harness).values()))
    assert max(entries[50:]) <= max(entries[:50])  # of windows that are open, not of windows that ever were
    harness.process_watermark(10_000)
    harness.set_processing_time(10_000)
    harness.end_epoch()
    assert sizes(harness) == {}


def test_timers_that_a_trigger_takes_away_do_not_keep_a_window() -> None:
    harness = OperatorHarness(lambda stream: WITH_TIMEOUT[1](by_first(stream).window(TUMBLING)).process(Shown()))
    harness.process_elements([("a", 1)], [1])
    harness.set_processing_time(100)
    assert harness.output == [("a", 0, 10, 1)]
    snapshot = harness.snapshot()
    for parallelism in (1, 3):
        restored = OperatorHarness(
            lambda stream: WITH_TIMEOUT[1](by_first(stream).window(TUMBLING)).process(Shown()),
            parallelism=parallelism,
            snapshot=snapshot,
        )
        restored.process_watermark(9)
        assert (restored.output, sizes(restored)) == ([], {})


class Once(ProcessWindowFunction[Any, Any, str, Any]):
    """Says so if a window is cleared that has not fired since it was cleared last."""

    fired = ValueStateDescriptor("fired")

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        context.window_state().get_state(self.fired).update(True)
        yield key, sum(value for _, value in elements)

    def clear(self, context: Any) -> None:
        assert context.window_state().get_state(self.fired).value(), "cleared twice"
        context.window_state().get_state(self.fired).clear()


def test_a_window_whose_trigger_took_the_end_away_and_set_it_again_ends_once() -> None:
    harness = OperatorHarness(lambda stream: WITH_TIMEOUT[1](by_first(stream).window(TUMBLING)).process(Once()))
    keys = "abcdefgh"
    harness.process_elements([(key, 1) for key in keys], [1] * 8)
    harness.set_processing_time(100)
    harness.clear_output()
    harness.process_elements([(key, 2) for key in keys], [2] * 8)
    harness.process_watermark(20)
    assert sorted(harness.output) == [(key, 3) for key in keys]
    assert harness.num_keyed_state_entries == 0


class Stray(EventTimeTrigger[Any]):
    """Leaves a timer behind."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        ctx.register_event_time_timer(window.max_timestamp() + 50)
        return super().on_element(element, timestamp, window, ctx)


def test_a_timer_that_outlives_its_window_does_nothing() -> None:
    harness = OperatorHarness(lambda stream: by_first(stream).window(TUMBLING).trigger(Stray()).process(Once()))
    harness.process_elements([("a", 1)], [1])
    harness.process_watermark(9)
    harness.process_watermark(1000)
    assert (harness.output, sizes(harness)) == ([("a", 1)], {})


# --- at what cost ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("_", "trigger"), TRIGGERS[:3], ids=[title for title, _ in TRIGGERS[:3]])
@pytest.mark.parametrize("folds", [True, False], ids=["folds", "keeps"])
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CUMULATIVE, SESSIONS], ids=lambda a: type(a).__name__)
def test_a_record_costs_the_same_however_many_windows_keys_and_records_are_held(
    assigner: Any, folds: bool, _: str, trigger: Settings
) -> None:
    def cost(keys: int, windows: int, records: int) -> tuple[int, int]:
        total = Total()

        def piece(stream: Any) -> Any:
            opened = trigger(by_first(stream).window(assigner))
            return opened.aggregate(total) if folds else opened.process(Shown())

        harness = OperatorHarness(piece, serialize=False)
        for window in range(windows):
            for key in range(keys):
                values, stamps = [(f"k{key}", 1)] * records, [12 * window + 100] * records
                harness.process_elements(values, stamps)
        harness.process_elements([("k0", 1)], [100])
        harness.end_epoch()
        before = total.added
        harness.process_elements([("k0", 1)], [101])
        return changes(harness), total.added - before

    assert cost(keys=30, windows=30, records=3) == cost(keys=1, windows=1, records=3)
    assert cost(keys=1, windows=1, records=301) == cost(keys=1, windows=1, records=3)


def test_a_session_that_grows_sets_no_timer_per_record() -> None:
    harness = OperatorHarness(lambda stream: by_first(stream).window(SESSIONS).aggregate(Total()))
    for now in range(0, 1000, 2):
        harness.process_element(("a", 1), now)
        harness.process_watermark(now)
        assert harness.num_event_time_timers == 1


def test_sessions_are_merged_once_each() -> None:
    total = Total()
    harness = OperatorHarness(lambda stream: by_first(stream).window(SESSIONS).aggregate(total), serialize=False)
    harness.process_elements([("a", 1)] * 100, range(0, 1000, 10))
    harness.process_elements([("a", 1)] * 99, range(5, 990, 10))
    assert (total.added, total.merged) == (199, 99)
    harness.process_watermark(2000)
    assert harness.output == [199]


# --- a program that changes ------------------------------------------------------------------------------------------

CHANGES: list[tuple[str, Settings]] = [
    ("at the end", lambda windows: windows),
    ("lateness", lambda windows: windows.allowed_lateness(5)),
    ("more lateness", lambda windows: windows.allowed_lateness(9)),
    ("another trigger", lambda windows: windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(1000)))),
]


@pytest.mark.parametrize(("former", "before"), CHANGES, ids=[f"from {title}" for title, _ in CHANGES])
@pytest.mark.parametrize(("latter", "after"), CHANGES, ids=[f"to {title}" for title, _ in CHANGES])
@pytest.mark.parametrize(("_", "evaluate"), KEEPING, ids=[title for title, _ in KEEPING])
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CUMULATIVE, SESSIONS], ids=lambda a: type(a).__name__)
def test_open_windows_survive_another_trigger_or_lateness(
    assigner: Any, before: Settings, after: Settings, evaluate: Settings, former: str, latter: str, _: str
) -> None:
    one = OperatorHarness(lambda stream: evaluate(before(by_first(stream).window(assigner))).uid("windows"))
    one.process_elements([("a", 1), ("b", 2), ("a", 4), ("c", 8)], [21, 22, 23, 1])
    one.process_watermark(20)
    two = OperatorHarness(
        lambda stream: evaluate(after(by_first(stream).window(assigner))).uid("windows"),
        parallelism=3,
        snapshot=one.snapshot(),
    )
    two.process_elements([("a", 16)], [23])
    two.process_watermark(100)
    expected = {
        TUMBLING: {("a", 20, 30, 21), ("b", 20, 30, 2)},
        SLIDING: {("a", 15, 25, 21), ("b", 15, 25, 2), ("a", 20, 30, 21), ("b", 20, 30, 2)},
        CUMULATIVE: {("a", 12, 24, 21), ("b", 12, 24, 2)},
        SESSIONS: {("a", 21, 28, 21), ("b", 22, 27, 2)},
    }[assigner]
    assert set(two.output) == expected
    if "another trigger" not in (former, latter):  # which fires a session at the end it had at first, too
        assert len(two.output) == len(expected)
    two.process_watermark(200)
    left = sizes(two)
    if former == "another trigger":
        left.pop("_trigger:fire-time", None)  # the trigger that knew of it is gone
    assert left == {}


def test_less_lateness_ends_windows_that_waited_for_more() -> None:
    def piece(lateness: int) -> Callable[[Any], Any]:
        return lambda stream: by_first(stream).window(TUMBLING).allowed_lateness(lateness).process(Once()).uid("w")

    one = OperatorHarness(piece(50))
    one.process_elements([("a", 1), ("b", 1)], [1, 12])
    one.process_watermark(10)
    two = OperatorHarness(piece(5), parallelism=3, snapshot=one.snapshot())
    two.process_watermark(100)
    assert (two.output, sizes(two)) == ([("b", 1)], {})
    three = OperatorHarness(piece(0), snapshot=one.snapshot())
    three.process_watermark(100)
    assert (three.output, sizes(three)) == ([("b", 1)], {})


def test_windows_that_are_cut_otherwise_leave_the_open_ones_as_they_are() -> None:
    one = OperatorHarness(lambda stream: by_first(stream).window(TUMBLING).aggregate(Total(), Shown()).uid("w"))
    one.process_elements([("a", 1)], [5])
    larger = TumblingEventTimeWindows.of(Time.milliseconds(20))
    two = OperatorHarness(
        lambda stream: by_first(stream).window(larger).aggregate(Total(), Shown()).uid("w"), snapshot=one.snapshot()
    )
    two.process_elements([("a", 2)], [6])
    two.end_input()
    assert two.output == [("a", 0, 10, 1), ("a", 0, 20, 2)]


EVALUATIONS: list[tuple[str, Settings]] = [
    *KEEPING,
    ("evictor", lambda windows: windows.evictor(CountEvictor.of(2)).process(Shown())),
]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(before, after, id=f"{a} to {b}")
        for a, before in EVALUATIONS
        for b, after in EVALUATIONS
        if a != b
    ],
)
@pytest.mark.parametrize("lateness", [0, 5])
def test_a_program_that_cannot_read_its_windows_is_refused(before: Settings, after: Settings, lateness: int) -> None:
    one = OperatorHarness(lambda stream: before(by_first(stream).window(TUMBLING)).uid("w"))
    one.process_elements([("a", 1)], [5])
    with pytest.raises(StateError, match="or give the operator another uid to begin without state"):
        OperatorHarness(
            lambda stream: after(by_first(stream).window(TUMBLING).allowed_lateness(lateness)).uid("w"),
            snapshot=one.snapshot(),
        )


def test_a_window_without_an_end_does_not_become_one_of_time() -> None:
    one = OperatorHarness(lambda stream: by_first(stream).window(GlobalWindows.create()).aggregate(Total()).uid("w"))
    one.process_elements([("a", 1)], [5])
    with pytest.raises(StateError, match="holds the window GlobalWindow"):
        OperatorHarness(
            lambda stream: by_first(stream).window(TUMBLING).aggregate(Total()).uid("w"), snapshot=one.snapshot()
        )


# --- the ledger ------------------------------------------------------------------------------------------------------

LATE = OutputTag("late")

records = st.tuples(st.sampled_from("abc"), st.integers(-15, 60), st.integers(0, 9))
kinds = st.one_of(
    st.builds(Tumbling, st.integers(1, 12)),
    st.builds(Sliding, st.integers(1, 12), st.integers(1, 12)),
    st.builds(Session, st.integers(1, 12)),
)


def assigner_of(kind: Tumbling | Sliding | Session) -> Any:
    match kind:
        case Tumbling(size):
            return TumblingEventTimeWindows.of(Time.milliseconds(size))
        case Sliding(size, slide):
            return SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide))
        case Session(gap):
            return EventTimeSessionWindows.with_gap(Time.milliseconds(gap))


@given(
    epochs=st.lists(st.lists(records, max_size=12), min_size=1, max_size=6),
    kind=kinds,
    folds=st.booleans(),
    lateness=st.sampled_from([0, 0, 7]),
    kept=st.booleans(),
)
@settings(max_examples=150)
def test_a_record_is_in_a_window_or_late_or_dropped(
    epochs: list[list[Any]], kind: Tumbling | Sliding | Session, folds: bool, lateness: int, kept: bool
) -> None:
    def piece(stream: Any) -> Any:
        windows = by_first(stream).window(assigner_of(kind)).allowed_lateness(lateness)
        windows = windows.side_output_late_data(LATE) if kept else windows
        return windows.aggregate(Total()) if folds else windows.process(Shown())

    model, harness = Model(kind, lateness, bound=0), OperatorHarness(piece, parallelism=2)
    for epoch in epochs:
        model.epoch(epoch)
        harness.process_elements([(key, value) for key, _, value in epoch], [timestamp for _, timestamp, _ in epoch])
        harness.process_watermark(model.watermark)
        seen = harness.late_records
        assert (seen.late, seen.dropped) == ((len(model.late), 0) if kept else (0, len(model.late)))
        assert len(harness.side_output(LATE)) == seen.late
    assert not harness.late_records.samples or all(sample.behind_ms >= 0 for sample in harness.late_records.samples)


@given(
    epochs=st.lists(st.lists(records, min_size=1, max_size=12), min_size=1, max_size=5),
    kind=kinds,
    kept=st.booleans(),
    parallelism=st.integers(1, 3),
)
@settings(max_examples=60)
def test_the_ledger_of_every_epoch_adds_up(
    epochs: list[list[Any]], kind: Tumbling | Sliding | Session, kept: bool, parallelism: int
) -> None:
    env = in_process(parallelism)
    script = [entry for epoch in epochs for entry in (*epoch, EndOfEpoch())]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
    windows = by_first(env.from_source(ScriptedSource(script), strategy, "records")).window(assigner_of(kind))
    if kept:
        windows = windows.side_output_late_data(LATE)
    windows.reduce(lambda a, b: a).name("windows").sink_to(LedgerSink(Ledger(uuid4().hex)))
    with tempfile.TemporaryDirectory() as folder:
        run = live(env, folder)
    assert run.status is JobStatus.FINISHED, run.failure

    model, expected = Model(kind, lateness=0, bound=0), []
    for epoch in epochs:
        before = len(model.late)
        model.epoch(epoch)
        late = len(model.late) - before
        expected.append((len(epoch), len(epoch) - late, late if kept else 0, 0 if kept else late))
    entries = [entry for epoch in run.history.epochs for entry in epoch.ledger.values() if entry.operator == "windows"]
    seen = [(entry.records_in, entry.processed, entry.late, entry.dropped) for entry in entries]
    assert [counts for counts in seen if counts[0]] == expected


def test_windows_of_processing_time_find_nothing_late() -> None:
    harness = OperatorHarness(
        lambda stream: by_first(stream)
        .window(TumblingProcessingTimeWindows.of(Time.milliseconds(10)))
        .side_output_late_data(LATE)
        .aggregate(Total())
    )
    harness.process_watermark(1000)
    harness.process_elements([("a", 1)], [1])
    assert (harness.late_records.late, harness.late_records.dropped) == (0, 0)
