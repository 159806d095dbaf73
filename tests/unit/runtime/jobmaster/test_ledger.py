"""The late-data ledger: for every windowed or timed operator and epoch, in = processed + late + dropped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Time, WatermarkStrategy
from flott.common._late_records import MAX_SAMPLES, LateSample, LedgerEntry
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.output_tag import OutputTag
from flott.datastream.window import TumblingEventTimeWindows
from flott.runtime.console import LogDisplay
from flott.runtime.jobmaster.ledger import add, describe, first_drops
from flott.testing.clock import ManualClock
from flott.testing.harness import Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])
TAG = OutputTag("late")


class Pass(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


def run(
    script: Any, folder: Path, ledger: Ledger, late: Ledger | None = None, parallelism: int = 2, **how: Any
) -> Incarnation:
    restarts = {"restart_strategy__type": "fixed-delay", "restart_strategy__fixed_delay__attempts": "999"}
    env = in_process(parallelism, **restarts)
    keyed = env.from_source(ScriptedSource(script), ASCENDING, "items").key_by(lambda item: item[0])
    again = keyed.process(Pass()).name("Pass").key_by(lambda item: item[0])
    windows = again.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    if late is not None:
        windows = windows.side_output_late_data(TAG)
    result = windows.reduce(lambda a, b: (a[0], a[1], a[2] + b[2])).name("Window")
    result.sink_to(LedgerSink(ledger))
    if late is not None:
        result.get_side_output(TAG).sink_to(LedgerSink(late))
    return live(env, folder, **how)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_processed_or_late_or_dropped_in_every_epoch(tmp_path: Path, seed: int, kept: bool) -> None:
    random = Random(seed)
    script: dict[str, list[Any]] = {}
    for split in range(random.randint(1, 3)):
        entries: list[Any] = []
        for i in range(60):
            entries.append((f"k{random.randrange(3)}", max(0, i * 3 - random.choice([0, 0, 0, 40, 90])), 1))
            entries += random.choices([[], [EndOfEpoch()], [Abort()]], [6, 2, 0.2])[0]
        script[str(split)] = entries
    total = sum(isinstance(entry, tuple) for entries in script.values() for entry in entries)
    ledger, late = Ledger(uuid4().hex), Ledger(uuid4().hex)
    incarnation = run(script, tmp_path, ledger, late if kept else None, parallelism=random.randint(1, 3))
    assert incarnation.failure is None
    processed = sum(count for _, _, count in ledger.records)
    (entry,) = [entry for entry in incarnation.master.ledger.values() if entry.operator == "Window"]
    assert entry.records_in == total
    assert entry.processed == processed
    assert (entry.late, entry.dropped) == ((total - processed, 0) if kept else (0, total - processed))
    assert entry.late == len(late.records)
    epochs = [e for s in incarnation.history.epochs for e in s.ledger.values() if e.operator == "Window"]
    assert sum(e.records_in for e in epochs) == total
    assert sum(e.refused for e in epochs) == total - processed > 0
    assert incarnation.master.metrics["Window.numLateRecordsDropped"] == entry.dropped
    assert incarnation.master.metrics["Window.numLateRecords"] == entry.refused
    assert all(sample.behind_ms >= 0 for sample in entry.samples)


def test_a_keyed_process_function_has_an_entry_too_and_never_drops(tmp_path: Path) -> None:
    script = [("k", 50, 1), EndOfEpoch(), ("k", 1, 1)]
    incarnation = run(script, tmp_path, Ledger(uuid4().hex))
    assert {e.operator: (e.records_in, e.processed, e.dropped) for e in incarnation.master.ledger.values()} == {
        "Pass": (2, 2, 0), "Window": (2, 1, 1),
    }  # fmt: skip
    assert "Pass.numLateRecordsDropped" not in incarnation.master.metrics


def test_the_first_drop_of_an_operator_is_logged_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = [("k", 500, 1), *[entry for i in range(20) for entry in (EndOfEpoch(), ("k", i, 1))]]
    with caplog.at_level(logging.WARNING, logger="flott.job"):
        run(script, tmp_path, Ledger(uuid4().hex))
    (warning,) = [record.getMessage() for record in caplog.records if "late" in record.getMessage()]
    assert "Window" in warning
    assert "('k', 0, 1) (499 ms late)" in warning
    assert "side_output_late_data" in warning


def test_a_result_tells_what_became_of_late_records() -> None:
    env = in_process(1)
    script = [("k", 50, 1), EndOfEpoch(), ("k", 1, 1), ("k", 60, 1)]
    stream = env.from_source(ScriptedSource(script), ASCENDING, "items").key_by(lambda item: item[0])
    window = stream.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    window.reduce(lambda a, b: a).name("Window").sink_to(LedgerSink(Ledger(uuid4().hex)))
    result = env.execute("late")
    (entry,) = result.get_late_records()
    assert (entry.operator, entry.records_in, entry.processed, entry.late, entry.dropped) == ("Window", 3, 2, 0, 1)
    assert entry.samples == (LateSample("('k', 1, 1)", 1, 49),)
    assert result.get_metrics()["Window.numLateRecordsDropped"] == 1


def test_the_display_ends_with_a_line_for_each_operator_that_refused_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    display = LogDisplay("job", ManualClock(), every_seconds=None)
    run([("k", 50, 1), EndOfEpoch(), ("k", 1, 1)], tmp_path, Ledger(uuid4().hex), listeners=[display])
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1
    assert "Window: of 2 records 1 came too late, dropped 1. For example ('k', 1, 1) (48 ms late)." in shown[0]
    quiet = LogDisplay("job", ManualClock(), every_seconds=None)
    quiet.on_status(JobStatus.FINISHED)
    assert capsys.readouterr().err == ""


def test_words_fit_what_happened() -> None:
    sample = LateSample("'x'", 1_000, 3_601_000)
    assert describe(LedgerEntry("W", 10, late=2, samples=(sample,))) == (
        "W: of 10 records 2 came too late, sent 2 to a side output. For example 'x' (1 h late)."
    )
    assert "dropped 1 and sent 1 to a side output" in describe(LedgerEntry("W", 10, 1, 1))
    assert "after the end of event time" in describe(
        LedgerEntry("W", 10, 0, 1, samples=(LateSample("'x'", 1, MAX_WATERMARK),))
    )


def test_totals_add_up_and_keep_the_first_samples() -> None:
    samples = tuple(LateSample(str(i), i, 100) for i in range(MAX_SAMPLES + 2))
    one, other = LedgerEntry("W", 5, 1, 1, samples[:2]), LedgerEntry("W", 7, 0, 3, samples[2:])
    totals: Any = add({}, {"w": one})
    assert add(totals, {"w": other, "v": other}) == {
        "w": LedgerEntry("W", 12, 1, 4, samples[:MAX_SAMPLES]), "v": other,
    }  # fmt: skip
    assert first_drops({}, {"w": one}) == [one]
    assert first_drops(totals, {"w": other}) == []
    assert first_drops({"w": LedgerEntry("W", 5)}, {"w": other}) == [other]
