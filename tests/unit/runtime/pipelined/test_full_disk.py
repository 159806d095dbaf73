"""The disk is full at any write of a pipelined job: state files, channel files, metadata. Nothing is lost or doubled.

``test_failed_checkpoints`` fills it for state files alone, and looks at what is left behind.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.storage import PosixStorage, Storage
from flott.testing.clock import ManualClock
from flott.testing.harness import Incarnation, live
from flott.testing.sinks import Ledger
from flott.testing.sources import ScriptedSource
from tests.programs.slow_pipeline import SlowPipeline
from tests.unit.runtime.jobmaster.test_full_disk import Disk, DiskStorage, whole
from tests.unit.runtime.pipelined.test_changing_at_checkpoints import Hasty
from tests.unit.runtime.pipelined.test_pipelined_jobs import counting, expected_counts, pipelined

RECORDS = 60
RESTARTS = {
    "restart_strategy__type": "fixed-delay",
    "restart_strategy__fixed_delay__attempts": "1000",
    "restart_strategy__fixed_delay__delay": "1 ms",
}


@dataclass
class Job:
    """A pipelined job on such a disk, and its output."""

    folder: Path
    storage: Storage
    unaligned: bool = False
    tolerated: int = 1000
    records: int = RECORDS
    ledger: Ledger = field(default_factory=lambda: Ledger(uuid4().hex))

    def run(self, on_step: Callable[[str, int], None] | None = None, *listeners: JobListener) -> Incarnation:
        clock: ManualClock = Hasty()
        env = pipelined(
            2, "5 ms", flott__epoch__max_records="12", **RESTARTS,
            execution__checkpointing__unaligned__enabled=str(self.unaligned).lower(),
            execution__checkpointing__tolerable_failed_checkpoints=str(self.tolerated),
        )  # fmt: skip
        halves = {name: list(range(first, self.records, 2)) for first, name in enumerate(("even", "odd"))}
        counting(env, ScriptedSource(halves), self.ledger)
        pipeline = SlowPipeline(clock) if self.unaligned else LocalPipeline(clock)
        return live(
            env, self.folder, clock=clock, storage=self.storage, pipeline=pipeline, on_step=on_step,
            listeners=listeners,
        )  # fmt: skip

    def expect_exact(self, life: Incarnation) -> None:
        assert life.status is JobStatus.FINISHED, life.failure
        assert Counter(self.ledger.records) == expected_counts(self.records)
        whole(self.folder)


def run_on(folder: Path, disk: Disk, *, unaligned: bool, tolerated: int) -> None:
    job = Job(folder, DiskStorage(str(folder), sync=False, disk=disk), unaligned, tolerated)
    job.expect_exact(job.run())


@pytest.mark.parametrize("tolerated", [0, 1000], ids=["restarting", "tolerated"])
@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
def test_a_disk_that_is_full_for_any_one_file_loses_nothing(unaligned: bool, tolerated: int, tmp_path: Path) -> None:
    disk = Disk()
    run_on(tmp_path / "whole", disk, unaligned=unaligned, tolerated=tolerated)
    assert disk.begun > 15
    refused = list[str]()
    for number in range(1, disk.begun):  # the first one makes the job's directory
        once = Disk(lambda begun, _, number=number: begun == number, room=(0, 1, 100)[number % 3])  # type: ignore[misc]
        run_on(tmp_path / str(number), once, unaligned=unaligned, tolerated=tolerated)
        refused += once.refused
    assert len(refused) >= disk.begun // 2
    assert any("_metadata" in name for name in refused)
    assert any("channels" in name for name in refused) == unaligned


# --- a real file system ----------------------------------------------------------------------------------------------

SIZE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of its own that has room for one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not allow tests to mount file systems")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class Filling(JobListener):
    """Fills the disk to the last byte behind some checkpoints, and makes room after a few failures."""

    def __init__(self, disk: Path):
        self.filler = disk / "filler"
        self.failed = list[str]()
        self.failures_left = self.committed = 0

    def on_step(self, step: str, epoch: int) -> None:
        self.committed += step == "committed"
        if step == "committed" and self.committed in (2, 4):
            self.failures_left = 3
            with open(self.filler, "wb", buffering=0) as file:
                for size in (1 << 16, 1 << 12, 1):
                    try:
                        while True:
                            file.write(b"x" * size)
                    except OSError:
                        continue

    def on_epoch_failed(self, epoch: int, failure: object, tolerated: bool) -> None:
        self._note(str(getattr(failure, "text", failure)))

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self._note(card)

    def _note(self, text: str) -> None:
        self.failed.append(text)
        self.failures_left -= 1
        if not self.failures_left:
            os.remove(self.filler)


@pytest.mark.parametrize("tolerated", [0, 1000], ids=["restarting", "tolerated"])
@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
def test_a_file_system_without_room_for_a_while_loses_nothing(
    unaligned: bool, tolerated: int, small_disk: Path
) -> None:
    folder = small_disk / "job"
    job = Job(folder, PosixStorage(str(folder), sync=False), unaligned, tolerated, records=300)
    filling = Filling(small_disk)
    job.expect_exact(job.run(filling.on_step, filling))
    assert len(filling.failed) >= 6
    assert all("No space left on device" in text for text in filling.failed)
