"""How busy subtasks are, told while no checkpoint completes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flott.common import WatermarkStrategy
from flott.common._ids import SubtaskIndex
from flott.common.job_status import JobStatus
from flott.datastream.connectors.base import WriterContext
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.graph.job_graph import VertexId
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.pipelined.control import SubtaskLoad
from flott.runtime.pipelined.task_load import is_worth_telling
from flott.runtime.pipelined.task_time import TaskTime
from flott.testing.harness import in_process, live
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_slot_processes import FolderSink, FolderWriter, committed

RECORDS = 40_000


class SlowSink(FolderSink):
    """Does not return from its first write in subtask 1 before a file exists."""

    def __init__(self, folder: str, gate: Path):
        super().__init__(folder)
        self.gate = str(gate)

    def create_writer(self, context: WriterContext) -> FolderWriter:
        gate = self.gate if context.subtask == 1 else None
        return SlowWriter(self.folder, f"{context.epoch}-{context.subtask}-{context.attempt_id}", gate)


class SlowWriter(FolderWriter):
    def __init__(self, folder: str, name: str, gate: str | None):
        super().__init__(folder, name)
        self.gate = gate

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        while self.gate is not None and not os.path.exists(self.gate):
            time.sleep(0.01)
        super().write(values, timestamps)


class Watching(JobListener):
    """Opens the gate once a source was back-pressured and a sink busy."""

    def __init__(self, gate: Path):
        self.gate = gate
        self.vertices: dict[str, str] = {}
        self.seen: dict[tuple[str, int], SubtaskLoad] = {}
        self.completed_before = 0

    def on_graph(self, graph: Any) -> None:
        self.vertices = {vertex.id: vertex.name for vertex in graph.vertices}

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.completed_before += not self.gate.exists()

    def on_loads(self, loads: Sequence[SubtaskLoad]) -> None:
        if self.gate.exists():
            return
        self.seen |= {(self.vertices[load.vertex].partition(":")[0], load.subtask): load for load in loads}
        source, sink = self.seen.get(("Source", 0)), self.seen.get(("Sink", 1))
        if source is not None and sink is not None and source.back_pressured_ms > 500 and sink.busy_ms > 500:
            self.gate.touch()


def test_a_slow_sink_is_busy_and_its_source_back_pressured_while_no_checkpoint_completes(tmp_path: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    out.mkdir()
    env = in_process(2, execution__mode="pipelined", execution__checkpointing__interval="1 h")
    numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda n: (n, "x" * 100)).rebalance().sink_to(SlowSink(str(out), gate)).name("Sink: slow")
    small = TaskSettings(buffer_records=50, input_memory_bytes=1)
    watching = Watching(gate)
    life = live(
        env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline(), settings=small, listeners=[watching]
    )
    assert life.status is JobStatus.FINISHED, life.failure
    assert watching.completed_before == 0
    assert watching.seen["Source", 0].records_out > 0
    assert watching.seen["Sink", 1].back_pressured_ms == 0
    assert sum(committed(out).values()) == RECORDS


def test_the_time_of_a_task_includes_what_lasts_and_starts_again_for_each_report() -> None:
    time = TaskTime(10.0)
    time.busy += 1.0
    time.works_since = 12.0
    assert time.until(15.0) == (4.0, 0.0)
    time.works_since, time.blocked_since = None, 13.0
    time.busy += 1.0
    assert time.until(15.0) == (2.0, 2.0)
    time.blocked_since = None
    time.back_pressured += 2.0
    assert time.read(20.0) == (2.0, 2.0, 6.0)
    time.busy += 0.5
    assert time.read(21.0) == (0.5, 0.0, 0.5)
    assert time.until(21.0) == (2.5, 2.0)


@pytest.mark.parametrize(("busy_ms", "records", "expected"), [(105.0, 7, False), (110.0, 7, True), (100.0, 8, True)])
def test_an_idle_slot_tells_its_load_with_heartbeats_only(busy_ms: float, records: int, expected: bool) -> None:
    told = [SubtaskLoad(VertexId("v"), SubtaskIndex(0), 100.0, 0.0, 7, 7)]
    now = [SubtaskLoad(VertexId("v"), SubtaskIndex(0), busy_ms, 0.0, records, 7)]
    assert is_worth_telling(told, now) is expected
    assert is_worth_telling([], now)
