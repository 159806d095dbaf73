"""Windows of all kinds on random, out-of-order input: what comes out is what a brute-force model says.

Epoch sizes, parallelism, folding, lateness, crashes and a change of parallelism in the middle are random too.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Duration, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.common.time import Time
from flott.datastream import OutputTag, StreamExecutionEnvironment
from flott.datastream.functions import AggregateFunction, ProcessWindowFunction
from flott.datastream.window import (
    ContinuousEventTimeTrigger,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.unit.runtime.operators.window.model import Cumulative, Kind, Model, Record, Session, Sliding, Tumbling

LATE = OutputTag("late")
STEPS = ["planned", "ran", "acknowledged", "completed", "committed"]
FOLDS = ["elements", "reduce", "reduce with function", "aggregate", "aggregate with function"]


def assigner_of(kind: Kind) -> WindowAssigner[Any, Any]:
    match kind:
        case Tumbling(size, offset):
            return TumblingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(offset))
        case Sliding(size, slide, offset):
            lengths = (Time.milliseconds(length) for length in (size, slide, offset))
            return SlidingEventTimeWindows.of(*lengths)
        case Cumulative(largest, step):
            return CumulativeEventTimeWindows.of(Time.milliseconds(largest), Time.milliseconds(step))
        case Session(gap):
            return EventTimeSessionWindows.with_gap(Time.milliseconds(gap))


class Show(ProcessWindowFunction[Any, Any, str, Any]):
    """Emits the window with all it holds, whether it was given records or what they were folded to."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        values: list[int] = []
        for element in elements:
            values.extend(element[2] if isinstance(element[2], tuple) else (element[2],))
        window = context.window()
        yield key, window.start, window.end, tuple(sorted(values))


class Gather(AggregateFunction[Any, Any, Any]):
    """Accumulates (key, earliest timestamp, values)."""

    def create_accumulator(self) -> Any:
        return ("", 0, ())

    def add(self, value: Any, accumulator: Any) -> Any:
        return value[0], 0, (*accumulator[2], value[2])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0], 0, acc_a[2] + acc_b[2]


def gather(one: Any, other: Any) -> Any:
    return one[0], 0, _values(one) + _values(other)


def _values(record: Any) -> tuple[int, ...]:
    return record[2] if isinstance(record[2], tuple) else (record[2],)


def build(
    env: StreamExecutionEnvironment, epochs: list[list[Record]], kind: Kind, fold: str, lateness: int, bound: int
) -> tuple[Any, Any]:
    script: list[Any] = []
    for records in epochs:
        script += [*records, EndOfEpoch()]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound)).with_timestamp_assigner(
        lambda record, _: record[1]
    )
    source = env.from_source(ScriptedSource(script), strategy, "records").uid("records")
    windows = source.key_by(lambda record: record[0]).window(assigner_of(kind)).side_output_late_data(LATE)
    windows = windows.allowed_lateness(lateness)
    match fold:
        case "elements":
            results = windows.process(Show())
        case "reduce":
            results = windows.reduce(gather)
        case "reduce with function":
            results = windows.reduce(gather, Show())
        case "aggregate":
            results = windows.aggregate(Gather())
        case _:
            results = windows.aggregate(Gather(), Show())
    results = results.uid("windows")
    return results, results.get_side_output(LATE)


def expected(
    epochs: list[list[Record]], kind: Kind, fold: str, lateness: int, bound: int
) -> tuple[Counter[Any], Counter[Record]]:
    model = Model(kind, lateness, bound)
    for records in epochs:
        model.epoch(records)
    model.finish()
    results = Counter(model.results)
    if "function" not in fold and fold != "elements":
        results = Counter()
        for (key, _, _, values), times in model.results.items():
            results[key, values] += times
    return results, Counter(model.late)


def seen(results: Iterable[Any], fold: str) -> Counter[Any]:
    if "function" in fold or fold == "elements":
        return Counter(results)
    return Counter((key, tuple(sorted(_values((key, 0, values))))) for key, _, values in results)


records = st.tuples(st.sampled_from("abc"), st.integers(-15, 60), st.integers(0, 9))
epoch_lists = st.lists(st.lists(records, max_size=12), min_size=1, max_size=6)
kinds = st.one_of(
    st.builds(Tumbling, st.integers(1, 12)),
    st.integers(2, 10).flatmap(lambda size: st.builds(Tumbling, st.just(size), st.integers(1 - size, size - 1))),
    st.builds(Sliding, st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 5), st.integers(1, 4)).map(lambda p: Cumulative(p[0] * p[1], p[0])),
    st.builds(Session, st.integers(1, 12)),
)


@given(
    epochs=epoch_lists,
    kind=kinds,
    fold=st.sampled_from(FOLDS),
    lateness=st.sampled_from([0, 0, 7]),
    bound=st.sampled_from([0, 3, 20]),
    parallelism=st.integers(1, 3),
)
@settings(max_examples=100)
def test_windows_give_what_the_model_gives(
    epochs: list[list[Record]], kind: Kind, fold: str, lateness: int, bound: int, parallelism: int
) -> None:
    ledger, late = Ledger(uuid4().hex), Ledger(uuid4().hex)
    env = in_process(parallelism)
    results, refused = build(env, epochs, kind, fold, lateness, bound)
    results.sink_to(LedgerSink(ledger))
    refused.sink_to(LedgerSink(late))
    with tempfile.TemporaryDirectory() as folder:
        run = live(env, folder)
    assert run.status is JobStatus.FINISHED, run.failure
    assert (seen(ledger.records, fold), Counter(late.records)) == expected(epochs, kind, fold, lateness, bound)


@given(
    epochs=epoch_lists,
    kind=kinds,
    fold=st.sampled_from(FOLDS),
    lateness=st.sampled_from([0, 0, 7]),
    bound=st.sampled_from([0, 3, 20]),
    crashes=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_windows_survive_crashes_and_changes_of_parallelism(
    epochs: list[list[Record]], kind: Kind, fold: str, lateness: int, bound: int, crashes: list[tuple[str, int, int]]
) -> None:
    ledger, late = Ledger(uuid4().hex), Ledger(uuid4().hex)
    with tempfile.TemporaryDirectory() as folder:
        for crash in [*crashes, None]:
            env = in_process(crash[2] if crash is not None else 2)
            results, refused = build(env, epochs, kind, fold, lateness, bound)
            results.sink_to(LedgerSink(ledger)).uid("sink")
            refused.sink_to(LedgerSink(late)).uid("late")

            def perhaps_crash(step: str, epoch: int, crash: Any = crash) -> None:
                if crash is not None and (step, epoch) == crash[:2]:
                    raise Crash

            run = live(env, folder, on_step=perhaps_crash)
    assert run.status is JobStatus.FINISHED, run.failure
    assert (seen(ledger.records, fold), Counter(late.records)) == expected(epochs, kind, fold, lateness, bound)


@pytest.mark.parametrize("kind", [Tumbling(10), Sliding(10, 5), Session(10)], ids=repr)
@pytest.mark.parametrize("lateness", [0, 5])
def test_nothing_is_kept_once_all_windows_are_over(kind: Kind, lateness: int) -> None:
    env = in_process(2)
    epochs = [[("a", n, n), ("b", n + 2, n)] for n in range(0, 200, 7)]
    results, _ = build(env, [*epochs, [("a", 10_000, 1)]], kind, "aggregate", lateness, 3)
    results.sink_to(LedgerSink(Ledger(uuid4().hex)))
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        run = live(env, folder)
        entries = [statistics.state_entries for statistics in run.history.epochs]
    assert max(entries[:-2]) <= 30  # windows that are open, not windows that ever were
    assert entries[-1] == 0


def test_a_trigger_that_fires_early_changes_nothing_in_the_end() -> None:
    env = in_process(2)
    epochs = [[("a", n, 1)] for n in range(20)]
    source = ScriptedSource([entry for records in epochs for entry in (*records, EndOfEpoch())])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
    ledger = Ledger(uuid4().hex)
    (
        env.from_source(source, strategy, "n")
        .key_by(lambda record: record[0])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
        .process(Show())
        .sink_to(LedgerSink(ledger))
    )
    with tempfile.TemporaryDirectory() as folder:
        live(env, folder)
    lengths = [len(values) for _, start, _, values in ledger.records if start == 0]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 10
    assert len(lengths) > 1
