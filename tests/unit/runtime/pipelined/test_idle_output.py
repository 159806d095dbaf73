"""Output that no input has caused, because a split has become idle, is committed by a checkpoint of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Duration, JobStatus, Time, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import (
    Followed,
    Pause,
    Records,
    Sink,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.window import TumblingEventTimeWindows
from flott.runtime.clock import SystemClock
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource, Wait
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_open_slices import AllAtOnce, Count, FollowingPipeline
from tests.unit.runtime.pipelined.test_slot_processes import FolderSink

#: The window of the first two ends with the third.
TIMES = (0, 10, 60)
IDLE_MS, INTERVAL_MS = 200, 20


def counting(env: StreamExecutionEnvironment, source: Source[int], sink: Sink[Any]) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda time, _: time)
    times = env.from_source(source, strategy.with_idleness(Duration.of_millis(IDLE_MS)), "times")
    windows = times.key_by(lambda _: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    windows.aggregate(Count()).map(lambda count: ("count", count)).sink_to(sink)


@dataclass(frozen=True)
class FollowedTimes(Source[int]):
    """Brings a few records in one split, and none in another. It ends when there is a file, or after a long time."""

    done: str = ""

    def create_enumerator(self) -> SplitEnumerator:
        return UntilDone(self.done)

    def create_reader(self) -> SourceReader[int]:
        return TimesReader()


class UntilDone(AllAtOnce):
    started_ms: int | None = None

    def __init__(self, done: str):
        super().__init__(("a", "silent"))
        self.done = done

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self.started_ms is None:
            self.started_ms = request.now_ms
        if self.done and (Path(self.done).exists() or request.now_ms > self.started_ms + 60_000):
            return SlicePlan(finished=True)
        plan = super().plan(request)
        return SlicePlan(plan.slices, wake_at_ms=request.now_ms + 500)


class TimesReader(SourceReader[int]):
    def __init__(self) -> None:
        self.next: dict[str, int] = {}

    def read(self, part: Slice) -> Any:
        raise AssertionError("all slices are open")

    def follow(self, parts: Sequence[Slice]) -> Followed[int]:
        self.next |= {part.split: part.start for part in parts}
        for part in parts:
            if part.split == "a" and not part.start:
                self.next["a"] = len(TIMES)
                yield part, Records(list(TIMES))
        while True:
            yield Pause(0.01)

    def reached(self, part: Slice) -> Any:
        return self.next[part.split]


def scripted() -> Source[int]:
    return ScriptedSource({"a": [*TIMES, Wait(1_000_000), 0], "silent": [Wait(1_000_000), 0]})


@pytest.mark.parametrize("source", [scripted, FollowedTimes])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_window_that_fires_because_a_split_is_idle_is_committed_without_further_input(
    tmp_path: Path, source: Any, parallelism: int
) -> None:
    env = in_process(parallelism, execution__mode="pipelined", execution__checkpointing__interval=f"{INTERVAL_MS} ms")
    ledger, clock = Ledger(f"idle-{uuid4()}"), ManualClock(1_000, until_ms=6_000)
    counting(env, source(), LedgerSink(ledger))
    seen: list[tuple[int, list[Any]]] = []

    def on_step(step: str, epoch: int) -> None:
        if step == "committed":
            seen.append((clock.now_ms() - 1_000, list(ledger.records)))

    live(env, tmp_path, clock=clock, pipeline=FollowingPipeline(clock), on_step=on_step)
    committed_ms = next(at for at, found in seen if found)
    assert ledger.records == [("count", 2)]
    assert IDLE_MS <= committed_ms <= IDLE_MS + 3 * INTERVAL_MS
    assert len(seen) <= 4, "an idle job takes no checkpoints for nothing"


def test_slots_in_processes_report_such_output_too(tmp_path: Path) -> None:
    env = in_process(2, execution__mode="pipelined", execution__checkpointing__interval=f"{INTERVAL_MS} ms")
    out, done = tmp_path / "out", tmp_path / "done"
    out.mkdir()
    counting(env, FollowedTimes(str(done)), FolderSink(str(out)))

    def on_step(step: str, epoch: int) -> None:
        if step == "committed" and any(json.loads(path.read_text()) for path in out.glob("committed-*")):
            done.touch()

    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline(), on_step=on_step)
    assert life.status is JobStatus.FINISHED, life.failure
    found = [record for path in sorted(out.glob("committed-*")) for record in json.loads(path.read_text())]
    assert found[0] == ["count", 2]
    assert found.count(["count", 1]) == 1, "the end of the job fires the last window"
    # Without a checkpoint of its own, the first would only have been committed with the last one.
    first, last = (next(p for p in out.glob("committed-*") if record in json.loads(p.read_text())) for record in found)
    assert first != last
