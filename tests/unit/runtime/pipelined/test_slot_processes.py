"""Slots in processes of their own: sockets, credits, and processes that die or stop."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import (
    CommitPermit,
    Committer,
    Guarantee,
    Json,
    Sink,
    SinkWriter,
    WriterContext,
)
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.pipelined.control import TaskWait
from flott.testing.harness import in_process, live
from tests.unit.runtime.pipelined.certificates import make_certificates, tls_of
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline

RECORDS, KEYS = 20_000, 13


def wait_for_ever() -> None:
    while True:
        time.sleep(0.1)


class Numbered(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Numbers the records of a key. It kills or stops its process at a record, once, or does not return."""

    def __init__(self, mark: Path, at: int | None, signal_number: int | None):
        self.mark, self.at, self.signal = str(mark), at, signal_number

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        if value == self.at and not os.path.exists(self.mark):
            Path(self.mark).touch()
            if self.signal is None:
                wait_for_ever()
            else:
                os.kill(os.getpid(), self.signal)
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


class FolderSink(Sink[Any]):
    """Stages a file for each attempt, and commits it by its name: other processes can write it."""

    def __init__(self, folder: str):
        self.folder = folder

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return FolderWriter(self.folder, f"{context.epoch}-{context.subtask}-{context.attempt_id}")

    def create_committer(self) -> Committer:
        return FolderCommitter(self.folder)


class FolderWriter(SinkWriter[Any]):
    def __init__(self, folder: str, name: str):
        self.folder, self.name = folder, name
        self.values: list[Any] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self.values.extend(values)

    def prepare_commit(self) -> list[Json]:
        Path(self.folder, f"staged-{self.name}").write_text(json.dumps(self.values))
        return [self.name]


class FolderCommitter(Committer):
    def __init__(self, folder: str):
        self.folder = folder

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        for name in committables:
            Path(self.folder, f"committed-{name}").write_bytes(Path(self.folder, f"staged-{name}").read_bytes())

    def discard(self, live_attempts: Collection[str]) -> None:
        pass


def committed(folder: Path) -> Counter[Any]:
    return Counter(
        tuple(record) for path in folder.glob("committed-*") for record in json.loads(path.read_text())
    )


def program(
    ledger: Path, mark: Path, kill_at: int | None, signal_number: int | None = signal.SIGKILL, **options: str
) -> StreamExecutionEnvironment:
    settings = {
        "execution__mode": "pipelined", "execution__checkpointing__interval": "20 ms",
        "flott__epoch__max_records": "3000", "restart_strategy__type": "fixed-delay",
        "restart_strategy__fixed_delay__delay": "1 ms", "restart_strategy__fixed_delay__attempts": "1000",
    }  # fmt: skip
    env = in_process(2, **{**settings, **options})
    numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    numbered = numbers.key_by(lambda n: n % KEYS).process(Numbered(mark, kill_at, signal_number)).uid("numbered")
    numbered.sink_to(FolderSink(str(ledger)))
    return env


def expected() -> Counter[Any]:
    return Counter((key, n + 1) for key in range(KEYS) for n in range(len(range(key, RECORDS, KEYS))))


@pytest.mark.parametrize("way", ["unix", "tcp", "tls"])
def test_slots_exchange_records_by_sockets_and_each_counts_once(way: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    small = TaskSettings(buffer_records=50, input_memory_bytes=1)  # the fewest credits there are
    env = program(out, tmp_path / "mark", None)
    tls = tls_of(make_certificates(tmp_path)) if way == "tls" else None
    pipeline = ProcessPipeline(tcp=way != "unix", tls=tls)
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=pipeline, settings=small)
    assert life.status is JobStatus.FINISHED, life.failure
    assert committed(out) == expected()


def test_after_the_sigkill_of_a_slot_the_job_continues_from_its_last_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    env = program(out, tmp_path / "mark", RECORDS * 2 // 3)
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline())
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(life.history.restarts) == 1
    assert "slot" in life.history.restarts[0][0]
    assert committed(out) == expected()


#: Of a slot: it is watched ten times a second, and not given up for being silent.
WATCHED = {"heartbeat__interval": "100 ms", "heartbeat__timeout": "10 min"}


def test_a_slot_that_stops_makes_the_checkpoint_time_out_and_the_job_continues_without_a_loss(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    limit = {"execution__checkpointing__timeout": "1500 ms", **WATCHED}
    env = program(out, tmp_path / "mark", RECORDS * 2 // 3, signal.SIGSTOP, **limit)
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline())
    assert life.status is JobStatus.FINISHED, life.failure
    assert any("These subtasks have not saved their state: " in card for card, _ in life.history.restarts)
    assert committed(out) == expected()


def test_a_slot_that_stops_for_ever_is_noticed_by_its_heartbeats(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    beats = {"heartbeat__interval": "100 ms", "heartbeat__timeout": "1 s"}
    env = program(out, tmp_path / "mark", RECORDS * 2 // 3, signal.SIGSTOP, **beats)
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline())
    assert life.status is JobStatus.FINISHED, life.failure
    assert any("has sent no heartbeat for 1 s" in card for card, _ in life.history.restarts)
    assert committed(out) == expected()


def test_a_slot_that_stops_and_continues_costs_nothing_but_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    env = program(out, tmp_path / "mark", RECORDS * 2 // 3, signal.SIGSTOP)
    pipeline = ProcessPipeline()

    def wake_up() -> None:
        while not (tmp_path / "mark").exists():
            time.sleep(0.01)
        time.sleep(1.0)
        for process in pipeline.processes:
            os.kill(process, signal.SIGCONT)

    waking = threading.Thread(target=wake_up)
    waking.start()
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=pipeline)
    waking.join()
    assert life.status is JobStatus.FINISHED, life.failure
    assert life.history.restarts == []
    assert committed(out) == expected()


def test_a_function_that_does_not_return_is_told_with_its_place(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    limit = {"execution__checkpointing__timeout": "3 s", **WATCHED}
    env = program(out, tmp_path / "mark", RECORDS * 2 // 3, None, **limit)
    told = Told()
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline(), listeners=[told])
    assert life.status is JobStatus.FINISHED, life.failure
    (card,) = [card for card, _ in life.history.restarts]
    stuck = r"KeyedProcess -> Sink: Folder \(\d/2\) has made no progress for .*: it is in a call that does not return: "
    assert re.search(stuck, card), card
    assert re.search(r"wait_for_ever \(test_slot_processes.py:\d+\) < process_element ", card), card
    assert any("wait_for_ever" in wait.reason for waits in told.waits for wait in waits)
    assert not any("wait_for_ever" in wait.reason for wait in told.waits[-1])
    assert committed(out) == expected()


class Told(JobListener):
    def __init__(self) -> None:
        self.waits: list[tuple[TaskWait, ...]] = []

    def on_waits(self, waits: Sequence[TaskWait]) -> None:
        self.waits.append(tuple(waits))
