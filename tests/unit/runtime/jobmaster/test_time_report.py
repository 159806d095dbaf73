"""explain_watermark: which split, operator or source holds event time back, since when, and what would release it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Duration, WatermarkStrategy
from flott.common._durations import rounded_millis
from flott.common._watermark_report import (
    HoldCause,
    SentenceInstant,
    TimePlace,
    WatermarkReport,
    sentence_text,
    watermark_text,
)
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkGenerator
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import KeyedProcessFunction
from flott.runtime.jobmaster.hold_words import HoldFacts, describe
from flott.runtime.jobmaster.time_report import explain, note_standings
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait

NEVER = MIN_WATERMARK
T = 1_700_000_000_000  # 2023-11-14 22:13:20
PLAIN = WatermarkStrategy.for_monotonous_timestamps()
ASCENDING = PLAIN.with_timestamp_assigner(lambda item, _: item[1])
IMPATIENT = ASCENDING.with_idleness(Duration.of_minutes(1))
FAR = [("a", T + 9_000_000)]


class Late(KeyedProcessFunction[Any, Any, Any]):
    """An operator with timers, if it wanted."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


class OnMark(WatermarkGenerator):
    """Emits only for a record "mark"."""

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        if value[0] == "mark":
            output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output: Any) -> None:
        return None


OWN = WatermarkStrategy.for_generator(OnMark).with_timestamp_assigner(lambda item, _: item[1])


def explained(
    folder: Path,
    *sources: tuple[str, Any, WatermarkStrategy],
    minutes: int = 8,
    endless: bool = True,
    stamped: WatermarkStrategy | None = None,
    poll: str = "10 s",
) -> WatermarkReport:
    """The report on a job that ran for so many minutes from T on."""
    env = in_process(1, flott__epoch__poll_interval=poll)
    streams = [env.from_source(ScriptedSource(s, endless=endless), strategy, name) for name, s, strategy in sources]
    stream = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    if stamped is not None:
        stream = stream.assign_timestamps_and_watermarks(stamped).name("Time")
    stream.key_by(lambda item: item[0]).process(Late()).name("Late").sink_to(LedgerSink(Ledger(uuid4().hex)))
    incarnation = live(env, folder, clock=ManualClock(T, until_ms=T + minutes * 60_000))
    assert incarnation.failure is None, incarnation.failure
    return explain(incarnation.master.time_snapshot())


def found(report: WatermarkReport) -> list[tuple[HoldCause, str, str | None]]:
    return [(hold.cause, hold.operator, hold.split) for hold in report.holds]


def names(place: TimePlace) -> set[str]:
    return {place.name}.union(*map(names, place.inputs))


def test_the_slowest_split_is_named_with_its_last_record_and_a_remedy(tmp_path: Path) -> None:
    orders = {"0": [("a", T + 9_000)], "3": [("a", T + 1_000)]}
    report = explained(tmp_path, ("orders", orders, ASCENDING), ("payments", FAR, ASCENDING))
    (hold,) = report.holds
    assert (hold.cause, hold.operator, hold.split) == (HoldCause.SILENT, "Source: orders", "3")
    assert (hold.watermark, hold.since_ms) == (T + 999, T)
    assert hold.finding == (
        "Split 3 of Source: orders has had no record since 2023-11-14 22:13:20 UTC (8 min ago);"
        " its watermark is 2023-11-14 22:13:20.999 UTC."
    )
    moments = [part for part in hold.finding_parts if isinstance(part, SentenceInstant)]
    in_its_own_zone = "a page writes them in the zone of its reader"
    assert moments == [SentenceInstant(T), SentenceInstant(T + 999, exact=True)], in_its_own_zone
    assert "with_idleness(" in hold.remedy
    assert report.watermark == T + 999


def test_since_when_is_when_its_watermark_last_moved_not_when_another_did(tmp_path: Path) -> None:
    busy = [entry for i in range(7) for entry in (("a", T + i * 60_000), Wait(60_000))]
    script = {"slow": [("a", T), Wait(60_000), ("a", T + 1)], "busy": busy}
    report = explained(tmp_path, ("s", script, ASCENDING))
    (hold,) = report.holds
    assert (hold.split, hold.since_ms) == ("slow", T + 60_000)
    (sink,) = report.places
    assert sink.since_ms == T + 60_000


@pytest.mark.parametrize(
    ("script", "strategy", "cause", "split", "words"),
    [
        ([("a", T)], ASCENDING.with_idleness(Duration.of_hours(1)), HoldCause.SILENT, "0", "from 2023-11-14 23:13:20"),
        ({"0": [Wait(9_000_000), ("a", T)]}, ASCENDING, HoldCause.NEVER_READ, "0", "with_idleness"),
        ({"0": []}, ASCENDING, HoldCause.NEVER_READ, "0", "with_idleness"),
        ({}, ASCENDING, HoldCause.NO_SPLIT, None, "with_idleness"),
        ([("a", T)], WatermarkStrategy.no_watermarks(), HoldCause.NO_WATERMARKS, "0", "for_bounded_out_of_orderness"),
        ([("a", T)], PLAIN, HoldCause.NO_TIMESTAMPS, "0", "with_timestamp_assigner"),
        ([("a", T)], OWN, HoldCause.SILENT_GENERATOR, "0", "on_periodic_emit"),
        ([("mark", T), Wait(60_000), ("a", T + 1)], OWN, HoldCause.SILENT_GENERATOR, "0", "on_periodic_emit"),
        ([("mark", T)], OWN, HoldCause.SILENT, "0", "with_idleness"),
    ],
)  # fmt: skip
def test_each_cause_is_told_apart(
    tmp_path: Path, script: Any, strategy: WatermarkStrategy, cause: HoldCause, split: str | None, words: str
) -> None:
    report = explained(tmp_path, ("culprit", script, strategy), ("other", FAR, ASCENDING))
    assert found(report) == [(cause, "Source: culprit", split)]
    assert words in report.holds[0].remedy
    assert str(report).count("◀ holds event time back") == 1


def test_records_without_timestamps_in_the_middle_of_a_stream_are_found_there(tmp_path: Path) -> None:
    none = WatermarkStrategy.no_watermarks()
    silent = explained(tmp_path / "a", ("s", [("a", T)], none), stamped=ASCENDING)
    assert found(silent) == [(HoldCause.SILENT, "Time", "0")]
    assert "Subtask 0 of Time has had no record since" in silent.holds[0].finding
    unstamped = explained(tmp_path / "b", ("s", [("a", T)], none), stamped=PLAIN)
    assert found(unstamped) == [(HoldCause.NO_TIMESTAMPS, "Time", "0")]
    clock = explained(tmp_path / "c", ("s", [("a", T)], none), stamped=WatermarkStrategy.for_ingestion_time())
    assert found(clock) == [(HoldCause.FOLLOWS_CLOCK, "Time", "0")]


def test_a_partition_that_gets_no_records_is_found(tmp_path: Path) -> None:
    env = in_process(2)
    stream = env.from_source(ScriptedSource([("a", T)], endless=True), WatermarkStrategy.no_watermarks(), "s")
    stamped = stream.rebalance().assign_timestamps_and_watermarks(ASCENDING).name("Time")
    stamped.sink_to(LedgerSink(Ledger(uuid4().hex)))
    incarnation = live(env, tmp_path, clock=ManualClock(T, until_ms=T + 60_000))
    ((cause, operator, _),) = found(explain(incarnation.master.time_snapshot()))
    assert (cause, operator) == (HoldCause.NEVER_READ, "Time")


def test_what_is_idle_holds_nobody_back_and_when_all_are_it_says_so(tmp_path: Path) -> None:
    script = {"0": [("a", T)], "1": [("a", T + 5_000)]}
    report = explained(tmp_path, ("s", script, IMPATIENT))
    assert {hold.cause for hold in report.holds} == {HoldCause.ALL_IDLE}
    assert "next record" in report.holds[0].remedy
    assert "(And 1 more like it.)" in report.holds[0].finding
    one = explained(tmp_path / "one", ("s", script, IMPATIENT), ("t", [("a", T + 9_000)], ASCENDING))
    assert found(one) == [(HoldCause.SILENT, "Source: t", "0")]


def test_input_that_is_waiting_is_not_called_silent(tmp_path: Path) -> None:
    env = in_process(1, flott__epoch__max_records="1")
    script = {"0": [("a", T + i) for i in range(9)]}
    env.from_source(ScriptedSource(script, endless=True), ASCENDING, "s").sink_to(LedgerSink(Ledger(uuid4().hex)))

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 3):
            raise Crash

    incarnation = live(env, tmp_path, on_step=die)
    report = explain(incarnation.master.time_snapshot())
    assert found(report) == [(HoldCause.BACKLOG, "Source: s", "0")]
    assert "parallelism" in report.holds[0].remedy


def test_a_split_that_is_read_just_now_is_only_the_slowest(tmp_path: Path) -> None:
    report = explained(tmp_path, ("s", [("a", T), Wait(59_500), ("a", T + 1)], ASCENDING), minutes=1, poll="500 ms")
    assert found(report) == [(HoldCause.SLOWEST, "Source: s", "0")]


def test_what_alignment_pauses_leads_to_the_split_it_waits_for(tmp_path: Path) -> None:
    """Two pipelines that share nothing but an alignment group."""
    aligned = ASCENDING.with_watermark_alignment("g", Duration.of_minutes(1))
    env = in_process(1)
    fast = env.from_source(ScriptedSource([("a", T + 600_000), EndOfEpoch(), ("a", T + 700_000)]), aligned, "fast")
    slow = env.from_source(ScriptedSource([("a", T)], endless=True), aligned, "slow")
    for stream in (fast, slow):
        stream.sink_to(LedgerSink(Ledger(uuid4().hex)))
    incarnation = live(env, tmp_path, clock=ManualClock(T, until_ms=T + 300_000))
    report = explain(incarnation.master.time_snapshot())
    assert found(report) == [
        (HoldCause.PAUSED, "Source: fast", "0"), (HoldCause.SILENT, "Source: slow", "0"),
    ]  # fmt: skip
    assert "more than 1 min ahead of the slowest of alignment group 'g'" in report.holds[0].finding
    assert "paused, unmoved for 5 min" in str(report)


def test_ingestion_time_follows_the_clock(tmp_path: Path) -> None:
    report = explained(tmp_path, ("s", [("a", 1)], WatermarkStrategy.for_ingestion_time()))
    assert [hold.cause for hold in report.holds] == [HoldCause.FOLLOWS_CLOCK]


def test_a_job_that_has_finished_is_at_the_end_of_its_input(tmp_path: Path) -> None:
    report = explained(tmp_path, ("s", [("a", T)], ASCENDING), ("t", FAR, ASCENDING), endless=False)
    assert [hold.cause for hold in report.holds] == [HoldCause.END_OF_INPUT]
    assert report.watermark == MAX_WATERMARK
    assert "◀" not in str(report)


def test_before_the_first_epoch_there_is_nothing_to_tell(tmp_path: Path) -> None:
    report = explained(tmp_path, ("s", [Wait(9_000_000), ("a", T)], ASCENDING))
    assert [hold.cause for hold in report.holds] == [HoldCause.NOT_STARTED]
    assert "before its first epoch" in str(report)


def test_many_splits_are_summed_up(tmp_path: Path) -> None:
    report = explained(tmp_path, ("s", {str(i): [("a", T + (i != 17))] for i in range(30)}, ASCENDING))
    assert found(report) == [(HoldCause.SILENT, "Source: s", "17")]
    (sink,) = report.places
    assert {"split 17", "26 more splits"} <= names(sink)
    assert "split 29" not in names(sink)


def test_a_diamond_is_drawn_once(tmp_path: Path) -> None:
    env = in_process(1)
    source = env.from_source(ScriptedSource([("a", T)], endless=True), ASCENDING, "s")
    left, right = source.map(lambda item: item), source.filter(lambda item: True)
    both = left.union(right).key_by(lambda item: item[0]).process(Late()).name("Late")
    both.sink_to(LedgerSink(Ledger(uuid4().hex))).name("one")
    both.map(lambda item: item).sink_to(LedgerSink(Ledger(uuid4().hex))).name("two")
    incarnation = live(env, tmp_path, clock=ManualClock(T, until_ms=T + 60_000))
    text = str(explain(incarnation.master.time_snapshot()))
    assert text.count("Source: s ") == 2, "in the tree and in the sentence"
    assert "Late (see above)" in text
    assert "Map" not in text, "what only passes time on is left out"


def test_the_text_is_for_people(tmp_path: Path) -> None:
    orders = {"0": [("a", T + 1_000), Wait(400_000), ("a", T + 999_000)], "1": [("a", T + 2_000)]}
    report = explained(tmp_path, ("orders", orders, ASCENDING), ("payments", FAR, IMPATIENT))
    page = Path(__file__).parents[4] / "docs/concepts/time.md"
    assert str(report) in page.read_text("utf-8")
    assert str(report) == """\
Event time of 'job' at 2023-11-14 22:21:20 UTC, after epoch 3

  Sink: Ledger             2023-11-14 22:13:21.999   unmoved for 1 min 20 s
  └─ Late                  2023-11-14 22:13:21.999   unmoved for 1 min 20 s
     ├─ Source: orders     2023-11-14 22:13:21.999   unmoved for 1 min 20 s
     │  ├─ split 1         2023-11-14 22:13:21.999   unmoved for 8 min   ◀ holds event time back
     │  └─ split 0         2023-11-14 22:29:58.999   unmoved for 1 min 20 s
     └─ Source: payments   2023-11-15 00:43:19.999   idle, unmoved for 8 min
        └─ split 0         2023-11-15 00:43:19.999   idle, unmoved for 8 min

▶ Split 1 of Source: orders has had no record since 2023-11-14 22:13:20 UTC (8 min ago); its watermark is
  2023-11-14 22:13:21.999 UTC.
  Event time goes on with its next record. To go on without it when it is silent, declare it idle:
  with_idleness(Duration.of_minutes(1)) on its watermark strategy."""


def test_a_client_explains_a_running_job_and_one_that_has_ended() -> None:
    env = in_process(1)
    seen = threading.Event()
    script = ScriptedSource({"0": [("a", T)], "1": [("a", T + 1)]}, endless=True)
    stream = env.from_source(script, ASCENDING, "s")
    stream.sink_to(CallableSink(lambda _: seen.set()))
    client = env.execute_async("explained")
    assert seen.wait(120)
    # The sink is served within the epoch's last step; its checkpoint is complete before that.
    assert client.explain_watermark().holds[0].split == "0"
    client.cancel().result(120)
    assert client.explain_watermark().watermark == T - 1


def test_standings_keep_the_time_of_the_last_move(tmp_path: Path) -> None:
    env = in_process(1)
    env.from_source(ScriptedSource([("a", T)], endless=True), ASCENDING, "s").sink_to(LedgerSink(Ledger(uuid4().hex)))
    master = live(env, tmp_path, clock=ManualClock(T, until_ms=T + 1_000)).master
    first = note_standings({}, master.time_snapshot(5))
    assert {since for _, since in first.values()} == {5}
    assert note_standings(first, master.time_snapshot(9)) == first
    moved = {place: (watermark - 1, since) for place, (watermark, since) in first.items()}
    assert {since for _, since in note_standings(moved, master.time_snapshot(9)).values()} == {9}


@pytest.mark.parametrize("cause", HoldCause)
def test_every_cause_has_words(cause: HoldCause) -> None:
    finding, remedy = describe(cause, HoldFacts("Source: s", "split 0", T, T, T, ASCENDING, T + 60_000))
    assert sentence_text(finding).endswith(".")
    assert not remedy or sentence_text(remedy).endswith(".")


@pytest.mark.parametrize(
    ("millis", "words"),
    [(0, "0 ms"), (-5, "0 ms"), (1_001, "1 s 1 ms"), (60_000, "1 min"), (3_600_001, "1 h"), (90_000_000, "1 d 1 h")],
)
def test_spans_are_rounded_to_two_units(millis: int, words: str) -> None:
    assert rounded_millis(millis) == words


def test_watermarks_beyond_any_calendar_are_numbers() -> None:
    assert watermark_text(2**62) == str(2**62)
    assert watermark_text(NEVER) == "none"
