"""The fence round a job's directory: whoever has a higher token takes over, and nobody before it changes anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flott.errors import JobLockedError, LeadershipLostError, StorageError
from flott.runtime.checkpoint.manifest import EpochInput, Manifest
from flott.runtime.checkpoint.pins import Pin
from flott.runtime.checkpoint.retention import Discard
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmaster.commits import LiveAttempts
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.storage import PosixStorage
from flott.runtime.storage.posix_fence import PosixFence, leader_folders

ROOT = Path(__file__).parents[3]


def store_at(folder: Path, token: int, sync: bool = False) -> CheckpointStore:
    return CheckpointStore(PosixStorage(str(folder), sync=sync), token)


def claimed(folder: Path, token: int) -> CheckpointStore:
    store = store_at(folder, token)
    store.claim("job")
    return store


def manifest(checkpoint_id: int, name: str = "job") -> Manifest:
    return Manifest("j", name, checkpoint_id, 0, 0)


def test_a_leader_publishes_reads_and_deletes_like_anybody_else(tmp_path: Path) -> None:
    store = store_at(tmp_path / "new" / "job", 7, sync=True)
    store.claim("job")
    store.write_input(EpochInput(1, 0, {}))
    for checkpoint_id in (1, 2):
        store.publish(manifest(checkpoint_id))
    store.publish(manifest(2, "replaced"))
    assert [found.job_name for found in store.completed()] == ["job", "replaced"]
    store.discard(Discard(checkpoints=(1,), files=("state/never-there",)))
    assert store.checkpoint_ids() == [2]
    store.release()
    assert leader_folders(tmp_path / "new" / "job" / "fence") == []
    assert sorted(path.name for path in (tmp_path / "new" / "job" / "fence").iterdir()) == ["7"]


def test_a_deposed_leader_can_change_nothing(tmp_path: Path) -> None:
    deposed = claimed(tmp_path, 3)
    deposed.write_input(EpochInput(1, 0, {}))
    deposed.publish(manifest(1))
    deposed.storage.write("state/file", b"state")
    leader = claimed(tmp_path, 5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    deeds = [
        lambda: deposed.publish(manifest(2)),
        lambda: deposed.publish(manifest(1, "other")),
        lambda: deposed.write_input(EpochInput(2, 0, {})),
        lambda: deposed.forget_input(1),
        lambda: deposed.discard(Discard(checkpoints=(1,))),
        lambda: deposed.discard(Discard(files=("state/file",))),
        lambda: deposed.discard(Discard(files=("state/never-there",))),
        lambda: deposed.storage.delete_folder("chk-1"),
        deposed.delete_everything,
        lambda: replace(deposed.storage, root=str(tmp_path / "savepoint")).publish("_metadata", b"x"),
    ]
    for deed in deeds:
        with pytest.raises(LeadershipLostError, match=r"Another JobManager has taken over .* with token 3"):
            deed()
    deposed.release()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    leader.publish(manifest(2))


def test_a_leader_that_comes_late_is_refused_even_when_the_other_has_ended(tmp_path: Path) -> None:
    claimed(tmp_path, 5).release()
    with pytest.raises(LeadershipLostError, match=r"A JobManager with token 5 has taken over .*; this one's is 4"):
        store_at(tmp_path, 4).claim("job")
    claimed(tmp_path, 5).release()
    claimed(tmp_path, 6).release()
    assert [path.name for path in (tmp_path / "fence").iterdir()] == ["6"]


def test_a_second_process_of_the_same_leader_takes_over_from_the_first(tmp_path: Path) -> None:
    first = claimed(tmp_path, 5)
    second = claimed(tmp_path, 5)
    with pytest.raises(LeadershipLostError):
        first.publish(manifest(1))
    second.publish(manifest(1))


def test_a_job_that_a_leader_runs_is_not_run_without_a_token_and_the_reverse(tmp_path: Path) -> None:
    leader = claimed(tmp_path, 2)
    with pytest.raises(JobLockedError, match="Another process is running the job"):
        store_at(tmp_path, 0).claim("job")
    assert leader._lock is not None
    leader._lock.close()  # as if it had died
    with pytest.raises(JobLockedError, match=r"by a JobManager with high availability \(token 2\).* delete .*fence"):
        store_at(tmp_path, 0).claim("job")
    claimed(tmp_path, 3).release()
    alone = claimed(tmp_path, 0)
    with pytest.raises(JobLockedError):
        store_at(tmp_path, 4).claim("job")
    alone.release()
    claimed(tmp_path, 4)


def test_trouble_with_the_disk_is_no_loss_of_leadership(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = claimed(tmp_path, 2)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StorageError, match="No space left on device"):
            store.publish(manifest(1))
        with pytest.raises(StorageError, match="No space left on device"):
            store.forget_input(1)
    assert store.checkpoint_ids() == []
    store.publish(manifest(1))
    assert os.listdir(Path(tmp_path, "fence", leader_folders(tmp_path / "fence")[0])) == []


def test_what_could_not_be_made_durable_is_taken_back_only_by_the_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deposed leader's publication came in time; it fails to flush the folder, and would undo it."""
    deposed = store_at(tmp_path, 2, sync=True)
    deposed.claim("job")
    move = PosixStorage._move

    def deposed_afterwards(self: PosixStorage, source: Path, target: Path) -> None:
        move(self, source, target)
        if target.name == "_metadata":
            monkeypatch.setattr(PosixStorage, "_move", move)
            claimed(tmp_path, 3)
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(PosixStorage, "_move", deposed_afterwards)
    with pytest.raises(LeadershipLostError):
        deposed.publish(manifest(1))
    assert store_at(tmp_path, 0).checkpoint_ids() == [1]


def test_attempts_of_a_successor_are_never_taken_for_failed_ones(tmp_path: Path) -> None:
    fence = PosixFence(str(tmp_path / "fence"), 2)
    fence.claim()
    live = LiveAttempts(["run-0-1"], fence)
    assert "run-0-1" in live
    assert "run-0-0" not in live
    PosixFence(str(tmp_path / "fence"), 3).claim()
    with pytest.raises(LeadershipLostError):
        assert "other-0-0" not in live


# --- savepoints, which are elsewhere ----------------------------------------------------------------------------------


def half_written(tmp_path: Path, deposed: CheckpointStore) -> PosixStorage:
    target = replace(deposed.storage, root=str(tmp_path / "savepoints" / "savepoint-1"))
    RetainedCheckpoints(deposed, 1).pin(Pin("savepoint-1", target.root, frozenset()))
    target.write(f"{'0' * 32}-0.state", b"state")
    return target


def test_a_savepoint_cannot_be_completed_once_the_successor_has_removed_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deposed = claimed(tmp_path / "job", 2)
    target = half_written(tmp_path, deposed)
    move = PosixStorage._move

    def deposed_before(self: PosixStorage, source: Path, file: Path) -> None:
        monkeypatch.setattr(PosixStorage, "_move", move)
        RetainedCheckpoints(claimed(tmp_path / "job", 3), 1).open()
        move(self, source, file)

    monkeypatch.setattr(PosixStorage, "_move", deposed_before)
    with pytest.raises(LeadershipLostError):
        target.publish("_metadata", b"complete")
    assert not Path(target.root).exists()


def test_a_savepoint_that_is_completed_in_the_last_moment_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deposed = claimed(tmp_path / "job", 2)
    target = half_written(tmp_path, deposed)
    seal = PosixStorage.seal

    def completed_before(savepoint: PosixStorage, name: str) -> None:
        replace(target, fence=None).publish("_metadata", b"complete")  # its check had passed in time
        seal(savepoint, name)

    monkeypatch.setattr(PosixStorage, "seal", completed_before)
    RetainedCheckpoints(claimed(tmp_path / "job", 3), 1).open()
    assert sorted(os.listdir(target.root)) == [f"{'0' * 32}-0.state", "_metadata"]


# --- a process that is really stopped ---------------------------------------------------------------------------------

WRITER = """
import sys
from flott.errors import LeadershipLostError
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage import PosixStorage
store = CheckpointStore(PosixStorage(sys.argv[1], sync=False), int(sys.argv[2]))
store.claim("job")
print("claimed", flush=True)
number = 0
try:
    while True:
        number += 1
        store.publish(Manifest("j", sys.argv[2], number, 0, 0))
except LeadershipLostError:
    print("lost", number, flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_process_that_was_stopped_in_the_middle_publishes_nothing_when_it_goes_on(
    tmp_path: Path, writer: subprocess.Popen[str]
) -> None:
    assert writer.stdout is not None
    assert writer.stdout.readline() == "claimed\n"
    while not (tmp_path / "chk-20").exists():
        assert writer.poll() is None
    writer.send_signal(signal.SIGSTOP)
    leader = claimed(tmp_path, 2)
    known = leader.checkpoint_ids()
    for checkpoint_id in range(known[-1] + 1, known[-1] + 6):
        leader.publish(manifest(checkpoint_id, "2"))
    writer.send_signal(signal.SIGCONT)
    assert writer.stdout.readline().split()[0] == "lost"
    assert [found.job_name for found in leader.completed()] == ["1"] * len(known) + ["2"] * 5
