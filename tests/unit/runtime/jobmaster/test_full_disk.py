"""The disk is full, at any write of any epoch: the epoch fails, nothing of it counts, the job goes on when it can."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from flott.common.job_status import JobStatus
from flott.errors import StorageError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.storage import DRAFT, PosixStorage
from flott.testing.harness import Incarnation, live
from flott.testing.sinks import Ledger
from tests.unit.runtime.jobmaster.summing_job import check, new_ledger, summing_job

RETRY = {
    "restart_strategy__type": "fixed-delay",
    "restart_strategy__fixed_delay__attempts": "100",
}
NO_RETRY = {"restart_strategy__type": "none"}
#: Compactions something after almost every epoch.
OFTEN = CompactionRules(fan_in=2, rewrite_min_deltas=2)


@dataclass
class Disk:
    """Counts the files that are written, and is full when a test says so."""

    is_full: Callable[[int, str], bool] = lambda number, name: False  #: (how many files were begun before, its name)
    room: int = 0  #: so many bytes of a file are still written when it is full
    begun: int = 0
    refused: list[str] = field(default_factory=list)

    def begin(self, path: Path) -> bool:
        """A file is going to be written: whether there is no room for it."""
        self.begun += 1
        if full := self.is_full(self.begun - 1, str(path)):
            self.refused.append(path.name)
        return full


class _FullFile(io.FileIO):
    """Takes a few bytes; then the disk is full."""

    def __init__(self, descriptor: int, room: int):
        super().__init__(descriptor, "wb")
        self._room = room

    def write(self, data: Any, /) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().write(memoryview(data)[: self._room]) or 0
        self._room -= written
        return written


@dataclass(frozen=True)
class DiskStorage(PosixStorage):
    """Local storage on such a disk."""

    disk: Disk = field(default_factory=Disk)

    def _new(self, path: Path) -> BinaryIO:
        file = super()._new(path)
        if self.disk.begin(path):
            descriptor = os.dup(file.fileno())
            file.close()
            return io.BufferedWriter(_FullFile(descriptor, self.disk.room))
        return file


def run(folder: Path, disk: Disk, ledger: Ledger, **options: str) -> Incarnation:
    storage = DiskStorage(str(folder), sync=False, disk=disk)
    return live(summing_job(ledger, **options), folder, storage=storage, compaction_rules=OFTEN)


def whole(folder: Path) -> None:
    """Assert that every checkpoint has all its files, with their sizes, and that nothing is half written."""
    for manifest in CheckpointStore(PosixStorage(str(folder))).completed():
        for operator in manifest.operators.values():
            for subtask in operator.subtasks:
                for file in subtask.files:
                    assert (folder / file.name).stat().st_size == file.size
    assert not [path for path in folder.rglob("*") if path.name.startswith(DRAFT)]


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many files a run writes if all goes well."""
    disk, ledger = Disk(), new_ledger()
    assert run(tmp_path_factory.mktemp("job"), disk, ledger).status is JobStatus.FINISHED
    check(ledger)
    assert disk.begun > 40
    return disk.begun


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_job_that_may_restart_goes_on_when_there_is_room_again(writes: int, room: int, tmp_path: Path) -> None:
    """Each write of the job fails once, in a run of its own."""
    for number in range(1, writes):
        disk, ledger = Disk(lambda begun, _, number=number: begun == number, room), new_ledger()  # type: ignore[misc]
        ended = run(tmp_path / str(number), disk, ledger, **RETRY)
        assert ended.status is JobStatus.FINISHED, ended.failure
        assert len(disk.refused) == 1
        check(ledger)
        whole(tmp_path / str(number))


def test_a_job_that_may_not_restart_fails_with_a_clear_sentence_and_can_be_started_again(
    writes: int, tmp_path: Path
) -> None:
    for number in range(1, writes):
        folder = tmp_path / str(number)
        disk, ledger = Disk(lambda begun, _, number=number: begun >= number, room=50), new_ledger()  # type: ignore[misc]
        ended = run(folder, disk, ledger, **NO_RETRY)
        assert ended.status is JobStatus.FAILED
        assert any(name.removeprefix(DRAFT).partition("-")[0] in str(ended.failure) for name in disk.refused)
        assert "No space left on device. Check that the folder exists, has room" in str(ended.failure)
        whole(folder)
        visible = len(ledger.records)
        completed = CheckpointStore(PosixStorage(str(folder))).completed()
        assert visible == 6 * (completed[-1].checkpoint_id if completed else 0)  # what is not complete is not seen
        assert run(folder, Disk(), ledger, **NO_RETRY).status is JobStatus.FINISHED
        check(ledger)
        whole(folder)


def test_a_job_whose_directory_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Cannot write .*job/job.json: No space left on device"):
        run(tmp_path / "job", Disk(lambda begun, name: True), new_ledger())
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["lock"]
    assert run(tmp_path / "job", Disk(), new_ledger()).status is JobStatus.FINISHED


def test_nothing_of_an_epoch_counts_that_could_not_be_written(tmp_path: Path) -> None:
    """Full for a while in the third epoch, whatever is written: two checkpoints are there, and stay as they were."""
    folder, ledger = tmp_path / "job", new_ledger()
    disk = Disk()
    seen: list[tuple[int, int]] = []

    def full_for_a_while(begun: int, name: str) -> bool:
        done = CheckpointStore(PosixStorage(str(folder))).completed()
        if done and done[-1].checkpoint_id == 2 and len(disk.refused) < 12:
            seen.append((len(done), len(ledger.records)))
            return True
        return False

    disk.is_full = full_for_a_while
    ended = run(folder, disk, ledger, **RETRY, execution__checkpointing__num_retained="2")
    assert ended.status is JobStatus.FINISHED
    assert len(ended.history.restarts) >= 5
    assert set(seen) <= {(2, 6), (2, 12)}  # completed checkpoints, committed records
    assert {record for _, record in seen[-5:]} == {12}
    check(ledger)
    whole(folder)


def test_files_that_were_given_up_do_not_stay(tmp_path: Path) -> None:
    disk, ledger = Disk(lambda begun, name: begun % 7 == 3 and "job.json" not in name, room=10), new_ledger()
    ended = run(tmp_path / "job", disk, ledger, **RETRY)
    assert ended.status is JobStatus.FINISHED
    assert len(disk.refused) > 5
    check(ledger)
    (last,) = CheckpointStore(PosixStorage(str(tmp_path / "job"))).completed()
    kept = {f"state/{path.name}" for path in (tmp_path / "job/state").iterdir()}
    assert kept == last.files
