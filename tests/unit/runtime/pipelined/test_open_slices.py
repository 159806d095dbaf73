"""Splits that are followed: records come without a question to the driver, checkpoints end slices where they are."""

from __future__ import annotations

import selectors
import signal
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from flott.common import Duration, Time, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import Watermark, WatermarkGenerator
from flott.datastream.connectors.base import (
    Followed,
    Pause,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.functions import AggregateFunction, ProcessFunction
from flott.datastream.window import TumblingEventTimeWindows
from flott.graph.operator_ids import OperatorId
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.operators.source import SourceAssignment, SourceOperator
from flott.runtime.pipelined.control import Command, EndRound, ReadRound
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.slot_loop import fine_wait
from flott.runtime.pipelined.source_reading import ReadOutcome, RoundReading
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sources import FOLLOWED_ENTRIES, ScriptedSource
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_slot_processes import FolderSink, Numbered, committed

KEYS = 13
SPLITS, PER_SPLIT = 3, 2_000
SCRIPT = {f"split {split}": list(range(split * PER_SPLIT, (split + 1) * PER_SPLIT)) for split in range(SPLITS)}
RECORDS = SPLITS * PER_SPLIT


class CountingPipeline(ProcessPipeline):
    """Counts the rounds that were read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Counter[type] = Counter()

    def send(self, slot: int, command: Any) -> None:
        self.commands[type(command)] += 1
        super().send(slot, command)


def run(tmp_path: Path, pipeline: ProcessPipeline, kill_at: int | None = None, **options: str) -> Any:
    out = tmp_path / "out"
    out.mkdir()
    env = in_process(
        2, execution__mode="pipelined", restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__delay="1 ms", restart_strategy__fixed_delay__attempts="1000", **options,
    )  # fmt: skip
    source = ScriptedSource(SCRIPT, followed=True)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbered = numbers.key_by(lambda n: n % KEYS).process(Numbered(tmp_path / "mark", kill_at, signal.SIGKILL))
    numbered.uid("numbered").sink_to(FolderSink(str(out)))
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=pipeline)
    assert life.status is JobStatus.FINISHED, life.failure
    assert committed(out) == Counter((key, n + 1) for key in range(KEYS) for n in range(len(range(key, RECORDS, KEYS))))
    return life


def test_records_of_a_followed_split_come_without_a_round_for_each_batch(tmp_path: Path) -> None:
    pipeline = CountingPipeline()
    run(tmp_path, pipeline, execution__checkpointing__interval="1 h")
    batches = RECORDS / FOLLOWED_ENTRIES
    # Splits are followed for a few milliseconds at a time here; in rounds, every batch would be one.
    assert pipeline.commands[EndRound] > 0
    assert pipeline.commands[ReadRound] < batches / 2


@pytest.mark.parametrize("unaligned", ["true", "false"])
def test_checkpoints_end_open_slices_where_they_are_and_a_kill_loses_nothing(tmp_path: Path, unaligned: str) -> None:
    pipeline = CountingPipeline()
    options = {
        "execution__checkpointing__interval": "5 ms",
        "execution__checkpointing__unaligned__enabled": unaligned,
    }
    life = run(tmp_path, pipeline, RECORDS * 2 // 3, **options)
    assert len(life.history.restarts) == 1
    assert pipeline.commands[EndRound] > 3


# --- event time while splits are followed ----------------------------------------------------------------------------


class AllAtOnce(SplitEnumerator):
    """Lets all splits be followed as long as the job lasts."""

    def __init__(self, splits: Sequence[str]):
        self.reached: dict[str, int] = dict.fromkeys(splits, 0)

    def plan(self, request: SliceRequest) -> SlicePlan:
        assert request.may_be_open
        return SlicePlan(tuple(Slice(split, start, None, is_open=True) for split, start in self.reached.items()))

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        self.reached |= reached

    def snapshot(self) -> Any:
        return self.reached


class Ticking(SourceReader[int]):
    """Brings 0, 10, 20, … in all splits, one every ten milliseconds, and nothing in those that are silent."""

    def __init__(self) -> None:
        self.next: dict[str, int] = {}

    def read(self, part: Slice) -> Any:
        raise AssertionError("all slices are open")

    def follow(self, parts: Sequence[Slice]) -> Followed[int]:
        self.next |= {part.split: part.start for part in parts}
        while True:
            for part in parts:
                if not part.split.startswith("silent"):
                    value, self.next[part.split] = self.next[part.split], self.next[part.split] + 10
                    yield part, Records([value], [value])
            yield Pause(0.01)

    def reached(self, part: Slice) -> Any:
        return self.next[part.split]


class TickingSource(Source[int]):
    def __init__(self, *splits: str):
        self.splits = splits

    def create_enumerator(self) -> SplitEnumerator:
        return AllAtOnce(self.splits)

    def create_reader(self) -> SourceReader[int]:
        return Ticking()


class FollowingPipeline(LocalPipeline):
    """Lets slices be open, in the calling thread."""

    follows_splits = True

    def __init__(self, clock: ManualClock):
        super().__init__(clock)
        self.rounds = 0

    def send(self, slot: int, command: Command) -> None:
        self.rounds += isinstance(command, ReadRound)
        super().send(slot, command)


class Silent(Ticking):
    """Brings nothing for an hour."""

    def follow(self, parts: Sequence[Slice]) -> Followed[int]:
        self.next |= {part.split: part.start for part in parts}
        while True:
            yield Pause(3600)


class SilentSource(TickingSource):
    def create_reader(self) -> SourceReader[int]:
        return Silent()


class LooksPipeline(FollowingPipeline):
    """Counts how often the driver looks whether anything has happened."""

    looks = 0

    def events(self) -> list[Any]:
        self.looks += 1
        return super().events()


def test_a_driver_whose_sources_are_silent_looks_at_them_twice_a_second(tmp_path: Path) -> None:
    clock = ManualClock(0, until_ms=60_000)
    pipeline = LooksPipeline(clock)
    env = in_process(2, execution__mode="pipelined", execution__checkpointing__interval="1 s")
    silent = env.from_source(SilentSource("one", "two"), WatermarkStrategy.no_watermarks(), "silent")
    silent.key_by(lambda _: 0).map(lambda value: value).sink_to(DiscardSink())
    life = live(env, tmp_path, clock=clock, pipeline=pipeline)
    assert life.status is JobStatus.CANCELED, "the clock has come to its end"
    assert 60 * 2 <= pipeline.looks < 60 * 2 + 20


class TickingInBatches(Ticking):
    """Brings twenty records at once."""

    def follow(self, parts: Sequence[Slice]) -> Followed[int]:
        self.next |= {part.split: part.start for part in parts}
        while True:
            for part in parts:
                start, self.next[part.split] = self.next[part.split], self.next[part.split] + 200
                values = list(range(start, start + 200, 10))
                yield part, Records(values, values)
            yield Pause(0.01)


class BatchesSource(TickingSource):
    def create_reader(self) -> SourceReader[int]:
        return TickingInBatches()


class OfEveryRecord(WatermarkGenerator):
    """Emits a watermark for every record."""

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output: Any) -> None:
        pass


def windows_of(
    tmp_path: Path,
    *splits: str,
    idle_ms: int | None,
    parallelism: int = 1,
    source: type[TickingSource] = TickingSource,
    strategy: WatermarkStrategy | None = None,
    **options: str,
) -> tuple[list[Any], int]:
    """Return the windows that come in half a second, with the time of each, and the number of rounds."""
    clock = ManualClock(1_000, until_ms=1_500)
    pipeline = FollowingPipeline(clock)
    NOTED.clear()
    env = in_process(parallelism, execution__mode="pipelined", execution__checkpointing__interval="1 h", **options)
    strategy = strategy or WatermarkStrategy.for_monotonous_timestamps()
    if idle_ms is not None:
        strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
    ticks = env.from_source(source(*splits), strategy, "ticks").key_by(lambda _: 0)
    counts = ticks.window(TumblingEventTimeWindows.of(Time.milliseconds(50))).aggregate(Count())
    counts.process(Noted()).sink_to(DiscardSink())
    live(env, tmp_path, clock=clock, pipeline=pipeline)
    return [(at - 1_000, count) for at, count in NOTED], pipeline.rounds


#: Results, and when a task had them: sinks show them only after a checkpoint.
NOTED: list[tuple[int, int]] = []


class Noted(ProcessFunction[int, int]):
    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        NOTED.append((ctx.timer_service().current_processing_time(), value))
        yield value


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


def test_event_time_advances_while_a_split_is_followed(tmp_path: Path) -> None:
    found, rounds = windows_of(tmp_path, "a", "b", idle_ms=None)
    assert {count for _, count in found} == {10}
    assert [at for at, _ in found] == [pytest.approx(50 * n, abs=12) for n in range(1, len(found) + 1)]
    assert len(found) >= 8
    assert rounds == 1, "all of it came in one round"


def test_a_silent_split_holds_event_time_back_until_it_is_idle(tmp_path: Path) -> None:
    found, _ = windows_of(tmp_path / "held", "a", "silent", idle_ms=None)
    assert found == []
    found, _ = windows_of(tmp_path / "idle", "a", "silent", idle_ms=200)
    assert {count for _, count in found} == {5}
    assert 200 <= found[0][0] <= 215, "at once when the silent split has become idle"
    assert len(found) >= 8


def test_a_subtask_without_a_split_does_not_hold_event_time_back(tmp_path: Path) -> None:
    found, _ = windows_of(tmp_path, "a", idle_ms=None, parallelism=2)
    assert len(found) >= 8


def test_event_time_does_not_pass_records_of_a_batch_that_is_emitted_piece_by_piece(tmp_path: Path) -> None:
    """The task settles whenever the buffer timeout is over, also between two pieces."""
    found, _ = windows_of(
        tmp_path, "a", idle_ms=None, source=BatchesSource,
        strategy=WatermarkStrategy.for_generator(OfEveryRecord), execution__buffer_timeout__interval="0 ms",
    )  # fmt: skip
    assert len(found) >= 8
    assert {count for _, count in found} == {5}, "no record is late"


# --- one reading ------------------------------------------------------------------------------------------------------


class Head:
    """What a reading needs of a source operator: it plays news."""

    is_following = True
    has_followed = False

    def __init__(self, *news: Pause | None):
        self.news, self.ends = news, 0

    def read(self, assignment: Any) -> Iterator[Pause | None]:
        return iter(self.news)

    def end_open_slices(self) -> None:
        self.ends += 1


def reading_of(*news: Pause | None) -> RoundReading:
    order = ReadRound(OperatorId("s"), 1, SourceAssignment())
    return RoundReading(order, cast(Subtask, None), cast(SourceOperator, Head(*news)))


def test_a_reading_pauses_as_long_as_the_reader_says_or_longer_and_longer() -> None:
    reading = reading_of(Pause(0.5), Pause(), Pause(), Pause(), None, Pause())
    resumes = []
    for _ in range(4):
        assert reading.read_on(100.0) is ReadOutcome.PAUSED
        resumes.append(reading.resume_at)
    assert resumes == [100.5, 100.001, 100.002, 100.004]
    assert not reading.is_ready(100.003)
    assert reading.is_ready(100.004)
    assert reading.read_on(100.0) is ReadOutcome.READ
    assert reading.is_ready(0.0)
    assert reading.read_on(100.0) is ReadOutcome.PAUSED
    assert reading.resume_at == 100.001, "after records the next ones may come soon"
    assert reading.read_on(100.0) is ReadOutcome.ENDED


def test_a_reading_that_is_ended_goes_on_at_once() -> None:
    reading = reading_of(Pause(10.0))
    reading.read_on(0.0)
    assert not reading.is_ready(1.0)
    reading.end()
    assert reading.is_ready(1.0)


def test_a_wait_of_less_than_a_millisecond_is_not_rounded() -> None:
    with selectors.DefaultSelector() as selector:
        waiting = fine_wait(selector)
        if waiting is None:
            pytest.skip("the selector of this system needs no other wait, or has too high a file descriptor")
        one, other = socket.socketpair()
        with one, other:
            selector.register(one, selectors.EVENT_READ)
            other.send(b"x")
            waiting(60.0)  # it ends because there is something to read
            assert selector.select(0)
