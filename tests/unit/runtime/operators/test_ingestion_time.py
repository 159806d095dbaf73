"""Ingestion time: records bear the clock of their epoch, and event time follows the clock, with and without records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Duration, WatermarkStrategy
from flott.datastream.functions import KeyedProcessFunction
from flott.errors import ProgramError
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait

INGESTION = WatermarkStrategy.for_ingestion_time()


class Remind(KeyedProcessFunction[Any, Any, Any]):
    """Emits each record with its time and the watermark, and again so many milliseconds of event time later."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        watermark = ctx.timer_service().current_watermark()
        yield "late" if ctx.timestamp() <= watermark else "seen", value[0], ctx.timestamp()
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()


def run(
    ledger: Ledger,
    folder: Path,
    *sources: ScriptedSource,
    clock: ManualClock,
    middle: bool = False,
    other: WatermarkStrategy | None = None,
    parallelism: int = 1,
    **how: Any,
) -> Incarnation:
    env = in_process(parallelism)
    none = WatermarkStrategy.no_watermarks()
    streams = [env.from_source(s, none if middle else INGESTION, f"s{i}").uid(f"s{i}") for i, s in enumerate(sources)]
    if other is not None:
        streams[1] = env.from_source(sources[1], other, "other")
    stream = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    if middle:
        stream = stream.rebalance().assign_timestamps_and_watermarks(INGESTION).uid("time")
    stream.key_by(lambda item: item[0]).process(Remind()).uid("remind").sink_to(LedgerSink(ledger)).uid("sink")
    return live(env, folder, clock=clock, **how)


@pytest.mark.parametrize("middle", [False, True])
def test_an_idle_job_fires_event_timers_as_time_passes_and_runs_no_other_epochs(tmp_path: Path, middle: bool) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(1_000, until_ms=100_000)
    script = [("a", 5_000), ("b", 3_000), Wait(10_000), ("c", 1)]
    incarnation = run(ledger, tmp_path, ScriptedSource(script, endless=True), clock=clock, middle=middle)
    assert incarnation.failure is None
    assert sorted(record for record in ledger.records if record[0] == "seen") == [
        ("seen", "a", 1_000), ("seen", "b", 1_000), ("seen", "c", 11_000),
    ]  # fmt: skip
    # The watermark is one behind the clock, so a timer fires a millisecond after its time.
    timers = [record[1:] for record in ledger.records if record[0] == "timer"]
    assert timers == [("b", 4_000, 4_001), ("a", 6_000, 6_001), ("c", 11_001, 11_002)]
    assert len(incarnation.history.epochs) == 5


def test_records_of_later_epochs_are_never_late_even_in_the_same_millisecond(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(1_000)
    script = {"x": [("a", 9), EndOfEpoch(), ("b", 9), EndOfEpoch(), ("c", 9)], "y": [("d", 9), EndOfEpoch(), ("e", 9)]}
    run(ledger, tmp_path, ScriptedSource(script), clock=clock, parallelism=2)
    assert sorted(r[:2] for r in ledger.records if r[0] != "timer") == [("seen", key) for key in "abcde"]


@pytest.mark.parametrize("parallelism", [2, 3])
@pytest.mark.parametrize("middle", [False, True])
def test_event_time_never_goes_back_when_the_clock_does(tmp_path: Path, middle: bool, parallelism: int) -> None:
    ledger = Ledger(uuid4().hex)
    source = ScriptedSource({"x": [("a", 50), EndOfEpoch(), ("b", 50)], "y": [EndOfEpoch(), EndOfEpoch(), ("c", 70)]})

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 1):
            raise Crash

    first = run(ledger, tmp_path, source, clock=ManualClock(10_000), middle=middle, parallelism=2, on_step=die)
    assert first.crashed
    second = run(ledger, tmp_path, source, clock=ManualClock(3_000), middle=middle, parallelism=parallelism)
    assert second.failure is None
    times = {record[1]: record[2] for record in ledger.records if record[0] == "seen"}
    assert times == {"a": 10_000, "b": 10_000, "c": 10_000}
    assert all(record[0] != "late" for record in ledger.records)


def test_a_timer_waits_for_another_source_too_without_busy_epochs(tmp_path: Path) -> None:
    """The second source has event time of its own and is silent: one epoch finds out that waking up does not help."""
    ascending = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])
    ledger, clock = Ledger(uuid4().hex), ManualClock(1_000, until_ms=60_000)
    sources = [ScriptedSource([("a", 5_000)], endless=True), ScriptedSource([], endless=True)]
    incarnation = run(ledger, tmp_path, *sources, clock=clock, other=ascending)
    assert [record for record in ledger.records if record[0] == "timer"] == []
    assert len(incarnation.history.epochs) == 2
    idle = ascending.with_idleness(Duration.of_millis(20_000))
    ledger, clock = Ledger(uuid4().hex), ManualClock(1_000, until_ms=60_000)
    incarnation = run(ledger, tmp_path / "idle", *sources, clock=clock, other=idle)
    assert [record[1:] for record in ledger.records if record[0] == "timer"] == [("a", 6_000, 21_000)]


def test_windows_end_with_the_clock(tmp_path: Path) -> None:
    from flott.common.time import Time
    from flott.datastream.window import TumblingEventTimeWindows

    ledger, clock = Ledger(uuid4().hex), ManualClock(1_000, until_ms=60_000)
    env = in_process(2)
    script = [("a", 1), ("a", 1), Wait(3_000), ("a", 1), Wait(10_000), ("a", 1)]
    (
        env.from_source(ScriptedSource(script, endless=True), INGESTION, "s")
        .key_by(lambda item: item[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .sink_to(LedgerSink(ledger))
    )
    incarnation = live(env, tmp_path, clock=clock)
    assert incarnation.failure is None
    assert ledger.records == [("a", 3), ("a", 1)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: INGESTION.with_timestamp_assigner(lambda value, _: 0),
        lambda: INGESTION.with_watermark_alignment("g", Duration.of_seconds(1)),
    ],
)
def test_what_has_no_meaning_in_ingestion_time_is_refused(wrong: Any) -> None:
    with pytest.raises(ProgramError, match="ingestion time"):
        wrong()
