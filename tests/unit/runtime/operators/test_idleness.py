"""Idleness: what was declared idle holds event time back no more and comes back cleanly; all else is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Duration, WatermarkStrategy
from flott.common.watermark_strategy import MIN_WATERMARK, Watermark, WatermarkGenerator
from flott.datastream.connectors.base import Slice, SlicePlan
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction
from flott.runtime.checkpoint.manifest import NO_SPLIT
from flott.runtime.operators.source import SplitReport
from flott.runtime.operators.watermarks import TimeKeeper, TimeProgress
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.jobmaster.test_sources_and_commits import coordinator_of

ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])
IMPATIENT = ASCENDING.with_idleness(Duration.of_millis(500))
#: Splits "busy" and "slow"; the first goes on at 2, 4 and 6 seconds.
BUSY = [("a", 100), Wait(2_000), ("a", 200), Wait(2_000), ("a", 300), Wait(2_000), ("a", 400)]


class Met(KeyedProcessFunction[Any, Any, Any]):
    """Emits each record with the watermark it met."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[1], ctx.timer_service().current_watermark()


class MetBoth(KeyedCoProcessFunction[Any, Any, Any, Any]):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[1], ctx.timer_service().current_watermark()

    process_element2 = process_element1


def life(env: Any, stream: Any, folder: Path, **how: Any) -> tuple[dict[int, int], Incarnation]:
    """The watermark that each record met, by its timestamp."""
    ledger = Ledger(uuid4().hex)
    stream.sink_to(LedgerSink(ledger))
    incarnation = live(env, folder, clock=how.pop("clock", None) or ManualClock(0, until_ms=30_000), **how)
    assert incarnation.failure is None, incarnation.failure
    watermarks = [statistics.watermark for statistics in incarnation.history.epochs]
    assert all(before <= after for before, after in pairwise(watermarks)), "event time went back"
    return dict(ledger.records), incarnation


def met(folder: Path, splits: dict[str, Any], strategy: WatermarkStrategy, parallelism: int = 2) -> dict[int, int]:
    env = in_process(parallelism)
    stream = env.from_source(ScriptedSource(splits, endless=True), strategy, "items")
    return life(env, stream.key_by(lambda item: item[0]).process(Met()), folder)[0]


def test_a_split_of_which_nothing_was_read_yet_is_waited_for(tmp_path: Path) -> None:
    splits = {"busy": BUSY, "slow": [Wait(5_000), ("b", 150), EndOfEpoch(), ("b", 250)]}
    found = met(tmp_path, splits, ASCENDING)
    assert found[300] == MIN_WATERMARK
    assert found[150] == MIN_WATERMARK, "so it is not late when it comes"
    assert found[400] == 249


def test_a_split_of_which_nothing_was_read_yet_becomes_idle_too(tmp_path: Path) -> None:
    splits = {"busy": BUSY, "slow": [Wait(5_000), ("b", 150), EndOfEpoch(), ("b", 250)]}
    found = met(tmp_path, splits, IMPATIENT)
    assert found[200] == 99
    assert found[300] == 199
    assert found[150] == 299, "declared idle, it is late when it comes"
    assert found[400] == 299, "awake, it is waited for, but event time does not go back for it"


def test_an_idle_split_that_comes_back_with_old_records_is_late_and_is_waited_for_again(tmp_path: Path) -> None:
    slow = [("b", 10), Wait(3_000), ("b", 50), EndOfEpoch(), ("b", 220), Wait(60_000)]
    found = met(tmp_path, {"busy": BUSY, "slow": slow}, IMPATIENT)
    assert found[50] == 199
    assert found[220] == 199
    assert found[300] == 219, "waited for, at 219"
    assert found[400] == 299, "idle again"


def test_when_all_are_idle_the_furthest_counts_and_no_epochs_run(tmp_path: Path) -> None:
    env = in_process(2)
    source = ScriptedSource({"x": [("a", 100)], "y": [("b", 50)], "z": []}, endless=True)
    stream = env.from_source(source, IMPATIENT, "items").key_by(lambda item: item[0]).process(Met())
    _, incarnation = life(env, stream, tmp_path)
    assert [(s.epoch, s.watermark) for s in incarnation.history.epochs] == [(1, MIN_WATERMARK), (2, 99)]


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("silent", [{}, [], [("b", 10)]], ids=["no split", "never a record", "one record"])
def test_a_whole_source_is_waited_for_until_it_is_idle(tmp_path: Path, silent: Any, connected: bool) -> None:
    def found(strategy: WatermarkStrategy) -> dict[int, int]:
        env = in_process(2)
        busy = env.from_source(ScriptedSource(BUSY, endless=True), ASCENDING, "busy")
        other = env.from_source(ScriptedSource(silent, endless=True), strategy, "silent")
        if connected:
            keyed = busy.key_by(lambda item: item[0]).connect(other.key_by(lambda item: item[0]))
            stream = keyed.process(MetBoth())
        else:
            stream = busy.union(other).key_by(lambda item: item[0]).process(Met())
        return life(env, stream, tmp_path / uuid4().hex)[0]

    held = MIN_WATERMARK if not silent else 9
    assert [found(ASCENDING)[at] for at in (200, 300, 400)] == [held] * 3
    assert [found(IMPATIENT)[at] for at in (200, 300, 400)] == [99, 199, 299]


def test_a_source_subtask_without_a_split_is_not_waited_for(tmp_path: Path) -> None:
    assert met(tmp_path, {"busy": BUSY}, ASCENDING, parallelism=4)[400] == 299


@pytest.mark.parametrize("edge", ["rebalance", "keyed", "forward"])
def test_an_idle_partition_in_the_middle_of_a_stream_is_not_waited_for(tmp_path: Path, edge: str) -> None:
    """One of three partitions gets all records, or each gets one after the other."""

    def found(strategy: WatermarkStrategy) -> dict[int, int]:
        env = in_process(3)
        stream = env.from_source(ScriptedSource(BUSY, endless=True), WatermarkStrategy.no_watermarks(), "items")
        if edge == "rebalance":
            stream = stream.rebalance()
        elif edge == "keyed":
            stream = stream.key_by(lambda item: "all").map(lambda item: item)
        stamped = stream.assign_timestamps_and_watermarks(strategy)
        return life(env, stamped.key_by(lambda item: item[0]).process(Met()), tmp_path / uuid4().hex)[0]

    assert found(ASCENDING)[300] == MIN_WATERMARK, "without idleness the empty ones hold it back"
    idle = found(IMPATIENT)
    # By turns: the partition of 100 is idle when 300 comes, and so is everybody else: the furthest counts.
    assert [idle[at] for at in (200, 300, 400)] == [99, 199, 299]


def test_crashes_do_not_lose_what_was_declared_idle(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(0, until_ms=30_000)
    source = ScriptedSource({"busy": BUSY, "slow": [("b", 10)], "empty": []}, endless=True)
    for at in (("completed", 2), ("planned", 3), ("ran", 4), ("never", 0)):
        env = in_process(2)
        stream = env.from_source(source, IMPATIENT, "items").key_by(lambda item: item[0]).process(Met())
        stream.sink_to(LedgerSink(ledger))

        def die(step: str, epoch: int, at: tuple[str, int] = at) -> None:
            if (step, epoch) == at:
                raise Crash

        live(env, tmp_path, clock=clock, on_step=die)
    assert dict(ledger.records) == {
        100: MIN_WATERMARK, 10: MIN_WATERMARK, 200: 99, 300: 199, 400: 299,
    }  # fmt: skip


# --- a source that has no split for a while --------------------------------------------------------------------------


def read(reached: int, watermark: int, now: int, ended: bool = False) -> SplitReport:
    return SplitReport(reached, TimeProgress(watermark, False, now, b""), 1, ended)


def test_a_source_whose_splits_have_ended_is_waited_for_where_they_ended() -> None:
    coordinator = coordinator_of(ScriptedSource({"a": [1], "b": [1]}), IMPATIENT)
    coordinator.open(None)
    plan = SlicePlan((Slice("a", 0, 1, 1, ends_split=True), Slice("b", 0, 1, 1, ends_split=True)))
    assert [a.bereft for a in coordinator.assign(plan, 0)] == [True, True]
    coordinator.complete(plan, {"a": read(1, 100, 0, True), "b": read(1, 70, 0, True)}, 0)
    assert coordinator.snapshot().splits == {NO_SPLIT: TimeProgress(70, active_at_ms=0)}
    nothing = SlicePlan()
    assert {(a.held_watermark, a.idle_watermark, a.bereft) for a in coordinator.assign(nothing, 499)} == {
        (70, None, False)
    }
    assert coordinator.idle_deadline_ms() == 500
    assert {(a.held_watermark, a.idle_watermark) for a in coordinator.assign(nothing, 500)} == {(None, 70)}
    coordinator.complete(nothing, {}, 500)
    assert coordinator.idle_deadline_ms() is None
    again = SlicePlan((Slice("c", 0, 1, 1),))
    assert {(a.held_watermark, a.idle_watermark) for a in coordinator.assign(again, 600)} == {(None, None)}
    coordinator.complete(again, {"c": read(1, 60, 600)}, 600)
    assert coordinator.snapshot().splits.keys() == {"c"}


def test_a_watched_directory_holds_event_time_back_between_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1").write_text("b 50\nb 60\n")

    def found(strategy: WatermarkStrategy) -> dict[int, int]:
        env = in_process(2)
        by_text = strategy.with_timestamp_assigner(lambda line, _: int(line.split()[1]))
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        files = builder.monitor_continuously(Duration.of_seconds(1)).build()
        lines = env.from_source(files, by_text, "files").map(lambda line: (line.split()[0], int(line.split()[1])))
        busy = env.from_source(ScriptedSource(BUSY, endless=True), ASCENDING, "busy")
        stream = lines.union(busy).key_by(lambda item: item[0]).process(Met())
        return life(env, stream, tmp_path / uuid4().hex)[0]

    assert [found(ASCENDING)[at] for at in (200, 300, 400)] == [59, 59, 59]
    assert [found(IMPATIENT)[at] for at in (200, 300, 400)] == [99, 199, 299]


# --- what a generator may say ----------------------------------------------------------------------------------------


class Moody(WatermarkGenerator):
    """Says itself when it is idle."""

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        match value:
            case "sleep":
                output.mark_idle()
            case "wake":
                output.mark_active()
            case "mark":
                output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("values", "watermark", "idle"),
    [
        (["sleep"], MIN_WATERMARK, True),
        (["sleep", "wake"], MIN_WATERMARK, False),
        (["sleep", "mark"], 2, False),
        (["mark", "sleep"], 1, True),
        (["mark", "x", "mark"], 3, False),
    ],
)
def test_a_generator_decides_when_it_is_idle_and_a_watermark_ends_it(
    values: list[str], watermark: int, idle: bool
) -> None:
    keeper = TimeKeeper(WatermarkStrategy.for_generator(Moody), TimeProgress(), now_ms=5, ingestion_ms=5)
    keeper.observe(values, list(range(1, len(values) + 1)))
    progress = keeper.close_epoch()
    assert (progress.watermark, progress.idle) == (watermark, idle)


def test_a_generator_stays_idle_until_it_says_otherwise_over_epochs() -> None:
    strategy = WatermarkStrategy.for_generator(Moody)
    first = TimeKeeper(strategy, TimeProgress(), now_ms=5, ingestion_ms=5)
    first.observe(["mark", "sleep"], [7, 8])
    second = TimeKeeper(strategy, first.close_epoch(), now_ms=6, ingestion_ms=6)
    assert second.close_epoch().idle
    third = TimeKeeper(strategy, second.close_epoch(), now_ms=7, ingestion_ms=7)
    third.observe(["mark"], [3])
    assert third.close_epoch() == TimeProgress(7, False, 7, third.close_epoch().generator)
