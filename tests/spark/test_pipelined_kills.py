"""Processes of a pipelined job are killed at random moments: workers, executors, JVM, driver. Results are exact.

The moments come from a seed: each is a while after a checkpoint. The job goes on by itself, or with another driver.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS, DriverProcess
from tests.spark.scripts.pipelined_counts import expected

LOCAL = {"spark.master": "local[2]"}
#: Two executors with a core each, in processes of their own.
CLUSTER = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "512m"}
#: What the two tasks process in a second, at most.
RATE = 1000
#: The longest time between a checkpoint and a kill, in seconds.
LONGEST = 0.3
WATCHDOG = 300.0


@dataclass
class Counts:
    """The job of ``scripts/pipelined_counts.py`` in a folder of its own."""

    start_driver: StartDriver
    folder: Path
    seed: str
    records: int
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def start(self) -> DriverProcess:
        settings = {"folder": str(self.folder), "records": self.records, "options": self.options}
        return self.start_driver(SCRIPTS / "pipelined_counts.py", json.dumps(settings), folder=self.folder)

    def await_moment(self, process: DriverProcess) -> bool:
        """Wait for another checkpoint and a random while longer; return whether the job still runs."""
        before, deadline = process.stdout.count("checkpoint "), time.monotonic() + WATCHDOG
        while process._process.poll() is None:
            assert time.monotonic() < deadline, f"No checkpoint came.\n{process.stdout}\n{process.stderr}"
            if process.stdout.count("checkpoint ") > before:
                time.sleep(self.random.uniform(0, LONGEST))
                return process._process.poll() is None
            time.sleep(0.01)
        return False

    def kill_some(self, process: DriverProcess, is_victim: Callable[[str], bool], times: int) -> int:
        """Kill one of the processes that fit, so many times while the job runs; return how many were killed."""
        killed = 0
        while killed < times and self.await_moment(process):
            victims = sorted(pid for pid in process.processes() if is_victim(command_of(pid)))
            if victims:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(victims), signal.SIGKILL)
                    killed += 1
        return killed

    def expect_exact(self) -> None:
        """Assert that each record was counted once, and that nothing is left of the job."""
        parts = [path for path in (self.folder / "files").glob("*") if not path.name.startswith((".", "_"))]
        assert sorted(line for path in parts for line in path.read_text().splitlines()) == expected(self.records)
        assert [path.name for path in (self.folder / "files").iterdir() if path.name.startswith(".")] == []
        assert list((self.folder / "checkpoints").iterdir()) == []


def restarts_of(process: DriverProcess) -> list[str]:
    ended = process.wait(WATCHDOG).expect_success()
    return list(json.loads(ended.stdout.splitlines()[-1])["restarts"])


def command_of(pid: int) -> str:
    """Return the whole command line of a process, empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def is_worker(line: str) -> bool:
    return "pyspark.daemon" in line


def is_executor(line: str) -> bool:
    return "CoarseGrainedExecutorBackend" in line


def is_jvm(line: str) -> bool:
    return line.split(" ")[0].endswith("java") and not is_executor(line)


UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}
ROCKSDB = {"state.backend.type": "rocksdb"}


def long(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("seed", "kills", "options"),
    [(1, 2, {}), long(2, 6, UNALIGNED), long(3, 6, ROCKSDB), long(4, 6, UNALIGNED | ROCKSDB), long(5, 6, {})],
)
def test_workers_that_are_killed_at_random_moments_cost_no_record(
    seed: int, kills: int, options: dict[str, str], start_driver: StartDriver, tmp_path: Path
) -> None:
    local = {"io.tmp.dirs": str(tmp_path / "local")}
    job = Counts(start_driver, tmp_path / "job", f"workers:{seed}", RATE * (1 + kills), LOCAL | local | options)
    process = job.start()
    assert job.kill_some(process, is_worker, kills) > 0
    assert len(restarts_of(process)) > 0
    job.expect_exact()


@pytest.mark.long
@pytest.mark.parametrize(("seed", "options"), [(1, {}), (2, UNALIGNED), (3, ROCKSDB)])
def test_executors_that_are_killed_at_random_moments_cost_no_record(
    seed: int, options: dict[str, str], start_driver: StartDriver, tmp_path: Path
) -> None:
    local = {"io.tmp.dirs": str(tmp_path / "local")}
    job = Counts(start_driver, tmp_path / "job", f"executors:{seed}", RATE * 8, CLUSTER | local | options)
    process = job.start()
    assert job.kill_some(process, is_executor, 3) > 0
    assert len(restarts_of(process)) > 0
    job.expect_exact()


@pytest.mark.long
@pytest.mark.parametrize(("seed", "options"), [(1, {}), (2, UNALIGNED), (3, ROCKSDB)])
def test_drivers_that_are_killed_at_random_moments_are_continued_by_the_next_one(
    seed: int, options: dict[str, str], start_driver: StartDriver, tmp_path: Path
) -> None:
    local = {"io.tmp.dirs": str(tmp_path / "local")}
    job = Counts(start_driver, tmp_path / "job", f"drivers:{seed}", RATE * 8, LOCAL | local | options)
    killed = 0
    while killed < 3:
        process = job.start()
        if not job.await_moment(process):
            break
        assert process.kill().code == -signal.SIGKILL
        process.expect_no_leftovers()
        killed += 1
    assert killed > 0
    restarts_of(job.start())
    job.expect_exact()


@pytest.mark.long
def test_a_driver_whose_jvm_is_killed_says_so_and_is_continued_by_the_next_one(
    start_driver: StartDriver, tmp_path: Path
) -> None:
    job = Counts(start_driver, tmp_path / "job", "jvm", RATE * 4, LOCAL)
    process = job.start()
    assert job.kill_some(process, is_jvm, 1) == 1
    ended = process.wait(WATCHDOG)
    assert ended.code > 0, f"{ended.stdout}\n{ended.stderr}"
    assert "Spark" in ended.stderr
    restarts_of(job.start())
    job.expect_exact()
