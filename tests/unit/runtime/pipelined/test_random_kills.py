"""Slots in processes of their own are killed at random moments, again and again: results are exact.

A process that comes back on the same host continues with its local database, if state is in RocksDB.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.managed_state.backends.backend import BackendSettings
from flott.runtime.managed_state.files.state_file import StateFileReader
from flott.testing.harness import Incarnation, in_process, live
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_slot_processes import FolderSink, Numbered, committed

RECORDS, KEYS = 30_000, 13
SLOTS = 3


class KillingPipeline(ProcessPipeline):
    """Kills a process of a slot now and then, when the driver looks: at any step, whatever the process is doing."""

    def __init__(self, random: Random, kills: int, **options: Any):
        super().__init__(**options)
        self._random = random
        self._left = kills
        self._looks = 0
        self.killed = 0

    def start(self, *args: Any) -> None:
        super().start(*args)
        self._looks = int(self._random.expovariate(1 / 40)) + 1

    def events(self) -> Any:
        self._looks -= 1
        if self._looks == 0 and self._left:
            self._left -= 1
            self.killed += 1
            with suppress(ProcessLookupError):  # it is the one that was killed before, and the job is about to restart
                os.kill(self._random.choice(self.processes), signal.SIGKILL)
        return super().events()


def noting_reads(notes: Path) -> Callable[[int], None]:
    """Return what lets the process of a slot note in a file what it reads of state files, but for their footers."""

    def in_child(slot: int) -> None:
        decode = StateFileReader._decode

        def noted(reader: StateFileReader, *args: Any) -> Any:
            with open(notes, "a") as file:
                file.write(f"{reader._name}\n")
            return decode(reader, *args)

        StateFileReader._decode = noted  # type: ignore[method-assign]

    return in_child


@dataclass
class Job:
    """A job whose processes are killed."""

    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    settings: TaskSettings = field(default_factory=TaskSettings)
    interval: str = "10 ms"

    def run(self, pipeline: ProcessPipeline, on_step: Callable[[str, int], None] | None = None) -> Incarnation:
        out = self.folder / "out"
        out.mkdir()
        env = in_process(
            SLOTS, execution__mode="pipelined", execution__checkpointing__interval=self.interval,
            flott__epoch__max_records="300", restart_strategy__type="fixed-delay",
            restart_strategy__fixed_delay__delay="1 ms", restart_strategy__fixed_delay__attempts="1000", **self.options,
        )  # fmt: skip
        sequence = NumberSequenceSource(0, RECORDS - 1)
        numbers = env.from_source(sequence, WatermarkStrategy.no_watermarks(), "numbers")
        numbered = numbers.key_by(lambda n: n % KEYS).process(Numbered(self.folder / "died", None, None))
        numbered.uid("numbered").sink_to(FolderSink(str(out)))
        life = live(
            env, self.folder / "job", clock=SystemClock(), pipeline=pipeline, settings=self.settings, on_step=on_step
        )
        assert life.status is JobStatus.FINISHED, life.failure
        expected = Counter((key, n + 1) for key in range(KEYS) for n in range(len(range(key, RECORDS, KEYS))))
        assert committed(out) == expected
        return life


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))])
def test_processes_that_are_killed_at_random_moments_lose_nothing(seed: int, tmp_path: Path) -> None:
    pipeline = KillingPipeline(Random(f"kills:{seed}"), kills=6, tcp=seed % 4 > 1)
    options = {"execution__checkpointing__unaligned__enabled": "true" if seed % 2 else "false"}
    life = Job(tmp_path, options).run(pipeline)
    assert pipeline.killed > 0
    assert len(life.history.restarts) > 0


def killed_between_two_checkpoints(folder: Path, backend: str) -> tuple[int, int, list[str]]:
    """Kill a process of a job; return its restarts, its last epoch, and the state files that were read."""
    settings = TaskSettings(backend=BackendSettings(backend, local_dir=str(folder / "local")))
    notes = folder / "notes"
    notes.touch()
    pipeline = ProcessPipeline(in_child=noting_reads(notes))

    def kill(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 1):
            os.kill(pipeline.processes[1], signal.SIGKILL)

    # So short that no machine is done before the first checkpoint, which would end the job.
    life = Job(folder, settings=settings, interval="30 ms").run(pipeline, kill)
    return len(life.history.restarts), int(life.history.epochs[-1].epoch), notes.read_text().splitlines()


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_subtasks_on_rocksdb_read_no_state_again_after_a_process_was_killed(backend: str, tmp_path: Path) -> None:
    """It was killed between two checkpoints. During one, its database may contain what no checkpoint does.

    The job has a process of its own: RocksDB has threads, so where it was used it cannot be used after a fork.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        restarts, last_epoch, read = fresh.submit(killed_between_two_checkpoints, tmp_path, backend).result()
    assert restarts == 1
    assert last_epoch > 1
    assert (read == []) == (backend == "rocksdb"), read
