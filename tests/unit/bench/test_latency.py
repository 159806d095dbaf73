"""The latency benchmark's own decisions: what is due, what is right, what counts, and what is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.latency import flott, plan, samples, tables, timetable
from bench.latency.__main__ import reason_in
from bench.latency.idle import QuietEnumerator, QuietReader
from bench.latency.recovery import Note, NotingCount, TurnSource, after
from bench.latency.samples import Part, Sample, Taker
from bench.latency.timetable import WARM_UP_S, Digest, Timetable
from flott.datastream.connectors.base import Pause, Slice, SliceRequest

TABLE = Timetable(rate=1_000, seconds=1.0, keys=100, fill=100, folder="")


def counted(table: Timetable, subtask: int = 0) -> Taker:
    """All results of a run, as a correct engine makes them."""
    taker, counts = Taker(subtask, table.every), dict[int, int]()
    for number in range(table.records):
        key = table.key(number)
        counts[key] = counts.get(key, 0) + 1
        taker.take([(key, counts[key], table.due_us(number, samples.now_us()))])
    return taker


# --- what is due and what is right -----------------------------------------------------------------------------------


def test_records_of_the_fill_touch_every_key_once_and_are_never_late() -> None:
    assert sorted(TABLE.key(number) for number in range(TABLE.fill)) == list(range(TABLE.keys))
    assert {TABLE.due_us(number, 5) for number in range(TABLE.fill)} == {0}


def test_a_record_is_due_at_its_time_and_not_before() -> None:
    began = 1_000_000
    for number in (TABLE.fill, TABLE.fill + 1, TABLE.fill + 777, TABLE.records - 1):
        due = TABLE.due_us(number, began)
        assert TABLE.due_by(due, began) == number + 1
        assert TABLE.due_by(due - 1, began) == number
    assert TABLE.due_by(began - 5_000_000, began) == TABLE.fill
    assert TABLE.due_by(began + 1_000_000_000, began) == TABLE.records


@pytest.mark.parametrize("seconds", [0.0, 0.37, 2.0])
def test_the_expected_digest_is_that_of_a_count(seconds: float) -> None:
    table = replace(TABLE, seconds=seconds)
    taker = counted(table)
    assert Digest(taker.results, taker.counts, taker.keyed) == table.expected()


# --- what sinks leave ------------------------------------------------------------------------------------------------


def test_samples_are_read_as_they_were_written(tmp_path: Path) -> None:
    table = replace(TABLE, folder=str(tmp_path))
    for subtask in (0, 1):
        counted(table, subtask).write(table.folder)
    parts = list(samples.read(tmp_path))
    assert sorted(part.subtask for part in parts) == [0, 1]
    assert [len(part.samples) for part in parts] == [table.records - table.fill] * 2
    assert samples.judge(table, parts, WARM_UP_S)["missing"] == "results differ from the reference"


def test_a_sink_without_results_leaves_nothing(tmp_path: Path) -> None:
    Taker(0, 1).write(str(tmp_path))
    assert list(samples.read(tmp_path)) == []


# --- what follows ----------------------------------------------------------------------------------------------------


def run(age_of: Any, table: Timetable = TABLE) -> list[Part]:
    """The right results, each with an age that a function of its place among the paced ones gives, in microseconds."""
    due = [table.due_us(number, 1) for number in range(table.fill, table.records)]
    return [Part(0, table.expected(), [Sample(at, int(age_of(n))) for n, at in enumerate(due)])]


def test_percentiles_are_of_what_came_after_the_warm_up() -> None:
    warm_up = int(WARM_UP_S * TABLE.rate)
    found = samples.judge(TABLE, run(lambda n: 9_000_000 if n < warm_up else (n - warm_up + 1)), WARM_UP_S)
    assert (found["samples"], found["p50"], found["p99"], found["max"]) == (1_000, 0.5, 0.99, 1.0)


def test_an_engine_that_falls_behind_has_no_numbers() -> None:
    found = samples.judge(TABLE, run(lambda n: n * 1_000), WARM_UP_S)
    assert str(found["missing"]).startswith("does not keep 1,000 records a second: ages grow by")
    catching_up = samples.judge(TABLE, run(lambda n: 10_000_000 - n * 1_000), WARM_UP_S)
    assert "still catching up" in str(catching_up["missing"])


def test_an_engine_that_left_records_out_has_no_numbers() -> None:
    part = run(lambda n: 1)[0]
    less = replace(part, digest=replace(part.digest, results=TABLE.records - 3))
    assert samples.judge(TABLE, [less], WARM_UP_S)["missing"] == (
        f"does not keep 1,000 records a second: 3 of {TABLE.records:,} left"
    )


def test_a_pause_of_one_subtask_is_a_gap_though_the_other_goes_on() -> None:
    def is_paused(n: int) -> bool:
        return 5_500 <= n < 5_700

    both = run(lambda n: (5_700 - n) * 1_000 if is_paused(n) and n % 2 else 100)[0]
    parts = [Part(n, replace(both.digest, results=0, counts=0, keyed=0), both.samples[n::2]) for n in (0, 1)]
    found = samples.judge(TABLE, [*parts, replace(both, samples=[])], WARM_UP_S)
    assert found["longest_gap"] == pytest.approx(201, abs=3)


def test_the_maximum_is_the_rate_at_which_results_come_after_the_warm_up() -> None:
    part = Part(
        0, Digest(), [Sample(1, n * 10_000 if n < 100 else 1_000_000 + (n - 100) * 1_000) for n in range(1_100)]
    )
    assert samples.rate(TABLE, [part], 1.0) == pytest.approx(1_000)


# --- what is measured ------------------------------------------------------------------------------------------------


def test_every_engine_is_compared_at_the_common_rate() -> None:
    chosen = plan.measurements(plan.USUAL, plan.LOADS)
    assert {engine for engine, load in chosen if load.name == "common-10k"} == set(plan.USUAL)
    assert len(chosen) == len(set(chosen))


def test_an_engine_that_does_not_keep_a_rate_is_not_tried_at_a_higher_one() -> None:
    failed = [{"engine": "spark-tws", "rate": 5_000, "keys": plan.LITTLE, "missing": "does not keep 5,000 …"}]
    assert plan.too_much("spark-tws", 20_000, plan.MUCH, failed)
    assert plan.too_much("spark-tws", 1_000, plan.MUCH, failed) is None
    assert plan.too_much("epochs", 20_000, plan.MUCH, failed) is None


def test_results_at_other_rates_are_not_kept_beside_new_ones() -> None:
    maxima = {str(plan.LITTLE): 200_000.0, str(plan.MUCH): 100_000.0}
    last = [
        {"engine": "epochs", "load": "10%-10k", "rate": 20_000},
        {"engine": "epochs", "load": "50%-10k", "rate": 90_000},
        {"engine": "pipelined", "load": "10%-10k", "rate": 20_000},
    ]
    assert plan.kept(last, [("pipelined", plan.Load(plan.LITTLE, 0.1))], maxima) == last[:1]


class Time:
    """The clock of the source, which a test moves."""

    def __init__(self) -> None:
        self.us = 1_000_000_000

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(flott, "now_us", made)
    return made


def followed(reader: flott.PacedReader, parts: list[Slice], clock: Time, steps: int) -> list[Any]:
    """What open slices bring in so many steps, with a pause of time whenever they have nothing."""
    news, found = reader.follow(parts), []
    for _ in range(steps):
        one = next(news)
        if isinstance(one, Pause):
            clock.us += 1_000 if one.seconds is None else round(one.seconds * 1e6) + 1
        else:
            found += [(record, clock.us) for record in one[1].values]
    news.close()
    return found


@pytest.mark.parametrize("opens", ["never", "always", "in turn"])
def test_every_record_comes_once_and_not_before_it_is_due(opens: str, clock: Time) -> None:
    enumerator, reader = flott.PacedEnumerator(TABLE), flott.PacedReader(TABLE)
    found: list[Any] = []
    for turn in range(100_000):
        may_be_open = opens == "always" or (opens == "in turn" and turn % 3 == 0)
        plan = enumerator.plan(SliceRequest(max_records=30, now_ms=0, parallelism=2, may_be_open=may_be_open))
        open_parts = [part for part in plan.slices if part.is_open]
        found += [(record, clock.us) for part in plan.slices if not part.is_open for record in reader.read(part)]
        found += followed(reader, open_parts, clock, steps=1 + turn % 40) if open_parts else []
        enumerator.advance(plan, {part.split: reader.reached(part) for part in plan.slices})
        if plan.finished:
            break
        clock.us += 2_000
    assert Counter(key for (key, _), _ in found) == Counter(map(TABLE.key, range(TABLE.records)))
    assert all(due <= at for (_, due), at in found)
    paced = sorted(due for (_, due), _ in found if due)
    assert paced == [TABLE.due_us(number, paced[0]) for number in range(TABLE.fill, TABLE.records)]


def test_a_quiet_source_gives_its_fill_and_then_nothing() -> None:
    enumerator = QuietEnumerator(TABLE)
    request = SliceRequest(max_records=1_000, now_ms=0, parallelism=2, may_be_open=True)
    first = enumerator.plan(request)
    assert sum(part.records or 0 for part in first.slices) == TABLE.fill
    enumerator.advance(first, {part.split: part.stop for part in first.slices})
    second = enumerator.plan(request)
    assert not second.finished
    assert all(part.is_open for part in second.slices)
    assert isinstance(next(QuietReader(TABLE).follow(second.slices)), Pause)


def test_the_first_new_result_is_of_an_instance_opened_after_the_signal() -> None:
    old, late, early = Note(1, 5, 100, 0), Note(2, 12, 40, 50), Note(3, 11, 30, 60)
    assert after([old, late, early], 10) == [early, late]


def test_the_reason_for_nothing_is_the_last_line_with_an_error() -> None:
    log = "starting\nException: first\npyspark.Error: [STREAMING_REAL_TIME_MODE.X] refused\nbye\n"
    assert reason_in(log) == "pyspark.Error: [STREAMING_REAL_TIME_MODE.X] refused"
    assert reason_in("") == "no output"


# --- what is shown ---------------------------------------------------------------------------------------------------

DOCUMENT: dict[str, Any] = {
    "machine": {"cores": 2, "date": "2026-01-01T00:00:00"},
    "results": [
        {
            "engine": "pipelined",
            "load": "50%-1m",
            "rate": 9_000,
            "p50": 0.5,
            "p99": 12.3,
            "p99.9": 34.5,
            "longest_gap": 40,
        },
        {"engine": "spark-tws", "load": "50%-1m", "rate": 9_000, "missing": "does not keep 9,000 records a second"},
        {"engine": "spark-rtm", "load": "common-10k", "rate": 1_000, "missing": "refused"},
    ],
    "recovery": {"hashmap": {"keys": 1_000_000, "first_ms": [900, 1_100, 2_000], "caught_up_ms": [1_500]}},
    "idle": {"cores": 0.009, "driver": 0.004, "jvm": 0.003, "slots": 0.002},
}


def test_the_tables_show_numbers_and_what_could_not_be_kept() -> None:
    text = "\n".join(tables.tables(DOCUMENT))
    assert "| Flott, pipelined | not measured | 0.50 / 12 / 34 |" in text
    assert "| Spark `transformWithState` | not measured | not kept |" in text
    assert "Missing, the same, Real-Time Mode: refused" in text
    assert "1 M keys: 40 ms (Flott, pipelined)" in text
    assert "1.1 s to the first new result" in text
    assert "takes 0.9% of a core" in text


def test_without_results_there_is_no_table() -> None:
    assert tables.tables({}) == []


# --- the program -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_the_program_counts_each_record_once_and_samples_the_paced_ones(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timetable, "WARM_UP_S", 0.1)
    monkeypatch.setattr(timetable, "GRACE_S", 600.0)
    ages, notes = tmp_path / "ages", tmp_path / "notes"
    ages.mkdir()
    notes.mkdir()
    table = Timetable(rate=2_000, seconds=0.2, keys=100, fill=100, folder=str(ages), settle_s=0.0)
    settings = {"execution.target": "in-process", "flott.storage.sync": "false"}
    env = flott.environment(mode, str(tmp_path), **settings)
    counts = flott.results(env, TurnSource(table), NotingCount(str(notes)))
    counts.sink_to(flott.AgeSink(table))
    env.execute("latency")
    parts = list(samples.read(ages))
    assert sum((part.digest for part in parts), Digest()) == table.expected()
    assert sum(len(part.samples) for part in parts) == table.records - table.fill
    assert not (notes / "wrong").exists()
    assert list(notes.glob("*.note"))
