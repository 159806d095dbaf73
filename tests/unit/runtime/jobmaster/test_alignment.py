"""Alignment: who is ahead by more than the drift waits, the slowest never does, and a program sees the same records."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Duration, WatermarkStrategy
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.connectors.base import SlicePlan
from flott.datastream.connectors.collection import CollectionSource
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.runtime.jobmaster.alignment import (
    FIRST_SLICE,
    AlignedSource,
    Alignment,
    SplitTime,
    align,
    aligned_budget,
    next_pace,
)
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.jobmaster.test_sources_and_commits import coordinator_of, report

NEVER = MIN_WATERMARK


def source(drift: int = 10, group: str = "g", **splits: int | SplitTime) -> AlignedSource:
    times = {name: time if isinstance(time, SplitTime) else SplitTime(time) for name, time in splits.items()}
    return AlignedSource(group, drift, times)


def idle(watermark: int) -> SplitTime:
    return SplitTime(watermark, idle=True)


@pytest.mark.parametrize(
    ("sources", "paused"),
    [
        ({"a": source(x=5)}, {"a": set()}),
        ({"a": source(x=5, y=15)}, {"a": set()}),
        ({"a": source(x=5, y=16)}, {"a": {"y"}}),
        ({"a": source(x=5), "b": source(x=16, y=14)}, {"a": set(), "b": {"x"}}),
        # Groups do not know each other.
        ({"a": source(x=5), "b": source(group="other", x=99)}, {"a": set(), "b": set()}),
        # Idle splits are not waited for, but wait when they are ahead.
        ({"a": source(x=idle(5), y=99), "b": source(x=95)}, {"a": set(), "b": set()}),
        ({"a": source(x=5, y=idle(99))}, {"a": {"y"}}),
        ({"a": source(x=idle(5), y=idle(99))}, {"a": set()}),
        # A source that has read nothing is to be read first.
        ({"a": AlignedSource("g", 10), "b": source(x=0)}, {"a": set(), "b": {"x"}}),
        ({"a": AlignedSource("g", 10), "b": AlignedSource("g", 10)}, {"a": set(), "b": set()}),
        # Each source has its own idea of what is too far.
        ({"a": source(x=0), "b": source(50, x=50), "c": source(50, x=51)}, {"a": set(), "b": set(), "c": {"x"}}),
    ],
)  # fmt: skip
def test_splits_ahead_of_the_slowest_by_more_than_the_drift_are_paused(
    sources: dict[str, AlignedSource], paused: dict[str, set[str]]
) -> None:
    assert {ident: set(alignment.paused) for ident, alignment in align(sources).items()} == paused


@pytest.mark.parametrize(
    ("sources", "advance"),
    [
        ({"a": source(x=5)}, {"a": None}),
        ({"a": source(x=5, y=idle(5))}, {"a": 10}),
        ({"a": source(x=5, y=9)}, {"a": 10}),
        ({"a": source(x=5), "b": source(x=1000)}, {"a": 1005, "b": None}),
        ({"a": source(x=NEVER), "b": source(x=1000)}, {"a": 10, "b": None}),
        ({"a": AlignedSource("g", 10)}, {"a": 10}),
    ],
)
def test_a_split_may_move_by_the_drift_and_one_that_is_behind_until_it_is_level(
    sources: dict[str, AlignedSource], advance: dict[str, int | None]
) -> None:
    assert {ident: alignment.advance_ms for ident, alignment in align(sources).items()} == advance


splits = st.dictionaries(
    st.sampled_from("wxyz"), st.builds(SplitTime, st.integers(0, 200) | st.just(NEVER), st.booleans()), min_size=1
)
groups = st.dictionaries(
    st.sampled_from("abcd"), st.builds(AlignedSource, st.sampled_from("gh"), st.integers(1, 50), splits), min_size=1
)


@given(groups)
def test_nobody_waits_for_itself_and_everybody_else_as_told(sources: dict[str, AlignedSource]) -> None:
    alignments = align(sources)
    for group in {each.group for each in sources.values()}:
        members = {ident: each for ident, each in sources.items() if each.group == group}
        active = [time.watermark for each in members.values() for time in each.splits.values() if not time.idle]
        for ident, each in members.items():
            limit = min(active) + each.max_drift_ms if active else None
            expected = {name for name, time in each.splits.items() if limit is not None and time.watermark > limit}
            assert alignments[ident].paused == expected
            assert alignments[ident].readable == len(each.splits) - len(expected)
        if active:
            slowest = {(i, n) for i, s in members.items() for n, t in s.splits.items() if t == SplitTime(min(active))}
            assert not any(name in alignments[ident].paused for ident, name in slowest)


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=30), min_size=2, max_size=5),
    st.integers(1, 60),
    st.randoms(use_true_random=False),
)
def test_a_group_never_locks_up_and_nobody_is_ahead_by_more_than_the_drift_and_one_slice(
    steps: list[list[int]], drift: int, random: Random
) -> None:
    """A model of a job: every epoch reads some records of the splits that may be read, whose timestamps ascend."""
    read, left = dict.fromkeys(range(len(steps)), NEVER), {i: list(step) for i, step in enumerate(steps)}
    for _ in range(sum(map(len, steps)) + 1):
        times = {str(i): SplitTime(read[i]) for i in left}
        if not left:
            return
        paused = align({"s": AlignedSource("g", drift, times)})["s"].paused
        free = [i for i in left if str(i) not in paused]
        assert free, "locked up"
        slowest = min(read[i] for i in left)
        for i in list(free):
            before = read[i]
            for _ in range(random.randint(1, 3)):
                if left[i]:
                    read[i] = max(read[i], 0) + left[i].pop(0)
            if before > NEVER:
                assert before <= slowest + drift
            if not left[i]:
                del left[i]
    assert not left


def test_slices_are_as_large_as_the_pace_allows() -> None:
    two = Alignment(readable=2, advance_ms=1_000)
    assert aligned_budget(10_000, two, None, parallelism=4) == 2 * FIRST_SLICE
    assert aligned_budget(10_000, two, 10.0, parallelism=4) == 200
    assert aligned_budget(10_000, two, 10.0, parallelism=1) == 100
    assert aligned_budget(50, two, 10.0, parallelism=4) == 50
    assert aligned_budget(10_000, two, 5_000.0, parallelism=4) == 2, "everybody moves"
    assert aligned_budget(10_000, two, 0.0, parallelism=4) == 10_000
    assert aligned_budget(10_000, two, 5e-324, parallelism=4) == 10_000
    assert aligned_budget(10_000, Alignment(), 10.0, parallelism=4) == 10_000


def test_the_pace_rises_at_once_and_falls_by_half() -> None:
    assert next_pace(None, 100, 10) == 10
    assert next_pace(10.0, 100, 1) == 100
    assert next_pace(100.0, 0, 10) == 50


# --- whole programs --------------------------------------------------------------------------------------------------

ALIGNED = (
    WatermarkStrategy.for_monotonous_timestamps()
    .with_timestamp_assigner(lambda item, _: item[1])
    .with_watermark_alignment("g", Duration.of_millis(100))
)


class Spread(JobListener):
    """How far apart the records of each epoch's splits had come, by what the sink has seen."""

    def __init__(self, ledger: Ledger):
        self.ledger = ledger
        self.latest: dict[str, int] = {}
        self.spreads: list[int] = []
        self._seen = 0

    def on_epoch(self, statistics: EpochStatistics) -> None:
        for split, time in self.ledger.records[self._seen :]:
            self.latest[split] = max(time, self.latest.get(split, 0))
        self._seen = len(self.ledger.records)
        if len(self.latest) > 1:
            self.spreads.append(max(self.latest.values()) - min(self.latest.values()))


def ticks(name: str, step: int, count: int) -> list[Any]:
    return [(name, step * i) for i in range(count)]


@pytest.mark.parametrize("separate", [False, True])
def test_splits_and_sources_of_a_group_stay_together_as_far_as_slices_allow(tmp_path: Path, separate: bool) -> None:
    scripts = {"fast": ticks("fast", 10, 2_000), "slow": ticks("slow", 1, 20_000)}
    ledger = Ledger(uuid4().hex)
    env = in_process(2)
    if separate:
        sources = [env.from_source(ScriptedSource({n: s}), ALIGNED, n) for n, s in scripts.items()]
        stream = sources[0].union(sources[1])
    else:
        stream = env.from_source(ScriptedSource(scripts), ALIGNED, "both")
    stream.sink_to(LedgerSink(ledger))
    spread = Spread(ledger)
    incarnation = live(env, tmp_path, listeners=[spread])
    assert incarnation.failure is None
    assert sorted(ledger.records) == sorted(scripts["fast"] + scripts["slow"])
    # Until the paces are known a slice holds 100 records; from then on nobody is ahead by more than twice the drift.
    assert max(spread.spreads[:10]) <= 100 * 10
    assert max(spread.spreads[10:]) <= 200


def test_without_a_group_they_do_not(tmp_path: Path) -> None:
    free = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])
    ledger = Ledger(uuid4().hex)
    env = in_process(2)
    script = {"fast": ticks("fast", 10, 2_000), "slow": ticks("slow", 1, 20_000)}
    env.from_source(ScriptedSource(script), free, "both").sink_to(LedgerSink(ledger))
    spread = Spread(ledger)
    live(env, tmp_path, listeners=[spread])
    assert max(spread.spreads) > 5_000


@pytest.mark.parametrize("seed", range(8))
def test_aligned_jobs_give_every_record_once_over_crashes_silences_and_other_parallelism(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    sources: list[ScriptedSource] = []
    items: list[Any] = []
    for number in range(random.randint(1, 3)):
        script = {}
        for split in range(random.randint(1, 3)):
            entries: list[Any] = []
            time = random.randrange(300)
            for _ in range(random.randrange(30)):
                time += random.choice([1, 10, 150, 400])
                entries.append((f"{number}-{split}", time))
                entries += random.choices([[], [EndOfEpoch()], [Wait(random.choice([10, 700]))]], [4, 2, 1])[0]
            script[str(split)] = entries
            items += [entry for entry in entries if isinstance(entry, tuple)]
        sources.append(ScriptedSource(script))
    strategy = ALIGNED if random.random() < 0.5 else ALIGNED.with_idleness(Duration.of_millis(300))
    ledger, parallelism, clock = Ledger(uuid4().hex), random.randint(1, 3), ManualClock()
    while True:
        env = in_process(parallelism)
        streams = [env.from_source(each, strategy, f"s{i}").uid(f"s{i}") for i, each in enumerate(sources)]
        streams[0].union(*streams[1:]).sink_to(LedgerSink(ledger)).uid("sink")
        left = random.randint(5, 40)

        def die(step: str, epoch: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        incarnation = live(env, tmp_path, clock=clock, on_step=die)
        if not incarnation.crashed:
            break
        parallelism = random.randint(1, 3)
    assert incarnation.failure is None
    assert sorted(ledger.records) == sorted(items)


def test_a_silent_member_holds_the_group_back_until_it_is_idle(tmp_path: Path) -> None:
    script = [entry for i in range(10) for entry in (("fast", i * 1_000), EndOfEpoch())]

    def seen(strategy: WatermarkStrategy) -> list[Any]:
        ledger = Ledger(uuid4().hex)
        env = in_process(1)
        busy = env.from_source(ScriptedSource(script, endless=True), strategy, "busy")
        silent = env.from_source(ScriptedSource([], endless=True), strategy, "silent")
        busy.union(silent).sink_to(LedgerSink(ledger))
        live(env, tmp_path / uuid4().hex, clock=ManualClock(0, until_ms=10_000))
        return ledger.records

    assert seen(ALIGNED) == [("fast", 0)]
    assert len(seen(ALIGNED.with_idleness(Duration.of_millis(500)))) == 10


def test_a_paused_split_is_not_idle(tmp_path: Path) -> None:
    """ "ahead" is paused far beyond the idle timeout; it has as long again from when it may be read."""
    strategy = ALIGNED.with_idleness(Duration.of_seconds(5))
    behind = [entry for i in range(24) for entry in (("behind", i * 40), Wait(2_000))]  # 920 comes after 46 seconds
    script = {"ahead": [("ahead", 1_000)], "behind": [*behind, ("behind", 5_000)]}
    env = in_process(1)
    ledger = Ledger(uuid4().hex)
    env.from_source(ScriptedSource(script, endless=True), strategy, "s").sink_to(LedgerSink(ledger))
    history = live(env, tmp_path, clock=ManualClock(0, until_ms=60_000)).history
    reached = {statistics.watermark: statistics.completed_at_ms for statistics in reversed(history.epochs)}
    assert reached[919] == 46_000
    assert reached[999] == 48_000
    assert reached[4_999] == 51_000


def test_no_epoch_runs_because_a_paused_split_is_silent(tmp_path: Path) -> None:
    env = in_process(1)
    patient = env.from_source(ScriptedSource([("behind", 1)], endless=True), ALIGNED, "behind")
    strategy = ALIGNED.with_idleness(Duration.of_seconds(5))
    ahead = env.from_source(ScriptedSource([("ahead", 1_000), EndOfEpoch(), ("ahead", 1_001)]), strategy, "ahead")
    patient.union(ahead).sink_to(LedgerSink(Ledger(uuid4().hex)))
    history = live(env, tmp_path, clock=ManualClock(0, until_ms=60_000)).history
    assert [(statistics.epoch, statistics.watermark) for statistics in history.epochs] == [(1, 0)]


def test_a_source_all_of_whose_splits_are_paused_is_not_asked_to_open_others() -> None:
    coordinator = coordinator_of(ScriptedSource({"a": [1] * 9, "b": [1] * 9}), ALIGNED)
    coordinator.open(None)
    plan = coordinator.choose_slices(1, 0)
    coordinator.complete(plan, {part.split: report(1, 50, 0) for part in plan.slices}, 0)
    every = frozenset(part.split for part in plan.slices)
    assert coordinator.choose_slices(9, 0, Alignment(paused=every, readable=0)) == SlicePlan(backlog=True)
    assert coordinator.choose_slices(9, 0, Alignment(readable=len(every))).slices


def test_every_kind_of_source_can_be_aligned(tmp_path: Path) -> None:
    """All but the numbers have ascending splits; those are cut into two halves, of which the later one waits first."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("1", "2"):
        (folder / name).write_text("".join(f"file{name} {i}\n" for i in range(0, 6_000, 3)))
    env = in_process(2)
    strategy = ALIGNED.with_watermark_alignment("g", Duration.of_millis(300))
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    by_line = strategy.with_timestamp_assigner(lambda line, _: int(line.split()[1]))
    by_itself = strategy.with_timestamp_assigner(lambda number, _: number)
    streams = [
        env.from_source(DataGeneratorSource(lambda i: ("made", i * 2), count=3_000), strategy, "made"),
        env.from_source(CollectionSource(tuple(ticks("listed", 10, 600))), strategy, "listed"),
        env.from_source(files, by_line, "files").map(lambda line: (line.split()[0], int(line.split()[1]))),
        env.from_source(NumberSequenceSource(0, 5_999), by_itself, "numbers").map(
            lambda number: ("low" if number < 3_000 else "high", number)
        ),
    ]
    ledger = Ledger(uuid4().hex)
    streams[0].union(*streams[1:]).sink_to(LedgerSink(ledger))
    spread = Spread(ledger)
    incarnation = live(env, tmp_path / "job", listeners=[spread])
    assert incarnation.failure is None
    assert len(ledger.records) == len(set(ledger.records)) == 3_000 + 600 + 4_000 + 6_000
    positions = {name: [n for n, (who, _) in enumerate(ledger.records) if who == name] for name in ("low", "high")}
    assert positions["high"][200] > positions["low"][2_500], "what is 3000 ahead waited"
