"""A job's directory: one owner, found again by name, refusing what is not a checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flott.errors import ConfigurationError, CorruptStateError, JobLockedError, StateError, StorageError
from flott.runtime.checkpoint.manifest import EpochInput, Manifest
from flott.runtime.checkpoint.retention import Discard
from flott.runtime.checkpoint.store import CheckpointStore, latest_job, open_checkpoint
from flott.runtime.storage import PosixStorage


def store_at(path: Path) -> CheckpointStore:
    return CheckpointStore(PosixStorage(str(path), sync=False))


def manifest(checkpoint_id: int, name: str = "job") -> Manifest:
    return Manifest("j", name, checkpoint_id, 0, 0)


# --- the lock ---------------------------------------------------------------------------------------------------------


CLAIM = """
import sys
from flott.errors import JobLockedError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage import PosixStorage
try:
    CheckpointStore(PosixStorage(sys.argv[1])).claim("job")
    print("claimed")
except JobLockedError as error:
    print("refused:", error)
"""


def claim_in_another_process(path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CLAIM, str(path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return ran.stdout


def test_a_second_process_is_refused_until_the_first_lets_go(tmp_path):
    store = store_at(tmp_path)
    store.claim("job")
    assert "refused: Another process is running the job in" in claim_in_another_process(tmp_path)
    store.release()
    store.release()
    assert claim_in_another_process(tmp_path) == "claimed\n"
    store.claim("job")  # the other process has ended, and with it its claim


def test_a_second_claim_in_the_same_process_is_refused_too(tmp_path):
    first, second = store_at(tmp_path), store_at(tmp_path)
    first.claim("job")
    with pytest.raises(JobLockedError, match=r"Stop it first, or start this one without .*from-latest"):
        second.claim("job")
    first.release()
    second.claim("job")


def test_a_directory_that_cannot_be_made_is_a_configuration_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"/file/job cannot be used: Not a directory\. Set execution\.check"):
        store_at(tmp_path / "file" / "job").claim("job")


def test_a_claim_that_fails_half_way_lets_go(tmp_path, monkeypatch):
    store = store_at(tmp_path)
    with monkeypatch.context() as patch:
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "replace", refuse)
        with pytest.raises(StorageError, match="No space left"):
            store.claim("job")
    store_at(tmp_path).claim("job")


def test_a_claim_clears_away_what_a_crash_left_half_written(tmp_path):
    store = store_at(tmp_path)
    store.claim("job")
    store.write_input(EpochInput(1, 0, {}))
    store.publish(manifest(1))
    store.release()
    (tmp_path / "pins").mkdir()
    drafts = [".draft-job.json-1", "plans/.draft-epoch-2.json-1", "chk-1/.draft-_metadata-1", "pins/.draft-s.json-1"]
    for name in (*drafts, "plans/run-x-1-0"):
        (tmp_path / name).write_text("x")
    store.claim("another name")
    assert sorted(os.listdir(tmp_path)) == ["chk-1", "job.json", "lock", "pins", "plans"]
    assert os.listdir(tmp_path / "plans") == ["epoch-1.json"]
    assert os.listdir(tmp_path / "chk-1") == ["_metadata"]
    assert os.listdir(tmp_path / "pins") == []
    assert json.loads((tmp_path / "job.json").read_text())["job-name"] == "job"


# --- plans and checkpoints --------------------------------------------------------------------------------------------


def test_plans_and_checkpoints_are_found_again_in_order(tmp_path):
    store = store_at(tmp_path)
    assert store.completed() == []
    assert store.read_input(1) is None
    for number in (9, 10, 2):
        store.write_input(EpochInput(number, 5, {}))
        store.publish(manifest(number))
    (tmp_path / "chk-11").mkdir()  # not complete
    (tmp_path / "chk-x").mkdir()
    assert [done.checkpoint_id for done in store.completed()] == [2, 9, 10]
    assert store.read_input(9) == EpochInput(9, 5, {})
    assert list(store.stale_inputs(10)) == [2, 9]


def test_a_damaged_file_is_named_in_full(tmp_path):
    store = store_at(tmp_path)
    store.publish(manifest(1))
    store.write_input(EpochInput(1, 0, {}))
    (tmp_path / "chk-1" / "_metadata").write_text("{")
    (tmp_path / "plans" / "epoch-1.json").write_text("{")
    with pytest.raises(CorruptStateError, match=f"{tmp_path}/chk-1/_metadata"):
        store.completed()
    with pytest.raises(CorruptStateError, match=f"{tmp_path}/plans/epoch-1.json"):
        store.read_input(1)


def test_a_discarded_checkpoint_is_gone_with_its_plan_and_files(tmp_path):
    store = store_at(tmp_path)
    for number in (1, 2):
        store.write_input(EpochInput(number, 0, {}))
        store.publish(manifest(number))
        store.storage.write(f"state/f{number}", b"")
    store.discard(Discard((1, 7), ("state/f1", "state/never")))
    assert [done.checkpoint_id for done in store.completed()] == [2]
    assert list(store.state_files()) == ["f2"]
    assert store.read_input(1) is None
    assert not (tmp_path / "chk-1").exists()


def test_the_metadata_goes_first_so_that_no_checkpoint_is_seen_without_its_files(tmp_path, monkeypatch):
    store = store_at(tmp_path)
    store.publish(manifest(1))
    order: list[str] = []
    monkeypatch.setattr(PosixStorage, "delete", lambda self, name: order.append(name))
    monkeypatch.setattr(PosixStorage, "delete_folder", lambda self, name: order.append(name))
    store.discard(Discard((1,), ("state/f1",)))
    assert order == ["chk-1/_metadata", "chk-1", "plans/epoch-1.json", "state/f1"]


def test_everything_can_be_deleted(tmp_path):
    store = store_at(tmp_path / "job")
    store.claim("job")
    store.publish(manifest(1))
    store.delete_everything()
    assert list(tmp_path.iterdir()) == []


# --- finding a job ----------------------------------------------------------------------------------------------------


def make_job(path: Path, name: str, age: int, checkpoint: bool = True, plan: bool = True) -> None:
    store = store_at(path)
    store.claim(name)
    store.release()
    now = 1_700_000_000
    if checkpoint:
        store.publish(manifest(1, name))
        os.utime(path / "chk-1" / "_metadata", (now - age, now - age))
    if plan:
        store.write_input(EpochInput(2, 0, {}))
        os.utime(path / "plans" / "epoch-2.json", (now - age, now - age))


def found(directory: Path, name: str) -> str | None:
    storage = latest_job(str(directory), name, sync=False)
    return Path(storage.root).name if storage is not None else None


def test_the_latest_job_of_a_name_is_the_one_that_ran_last(tmp_path):
    make_job(tmp_path / "a", "job", age=30)
    make_job(tmp_path / "b", "job", age=10)
    make_job(tmp_path / "c", "job", age=20)
    make_job(tmp_path / "d", "other", age=0)
    assert found(tmp_path, "job") == "b"
    assert found(tmp_path, "other") == "d"
    assert found(tmp_path, "none") is None
    assert found(tmp_path / "nowhere", "job") is None


def test_a_job_with_a_checkpoint_is_preferred_to_a_later_one_that_never_completed_any(tmp_path):
    make_job(tmp_path / "a", "job", age=30)
    make_job(tmp_path / "b", "job", age=10, checkpoint=False)
    assert found(tmp_path, "job") == "a"


def test_a_job_that_only_planned_is_found_if_there_is_no_other(tmp_path):
    make_job(tmp_path / "a", "job", age=30, checkpoint=False)
    make_job(tmp_path / "b", "job", age=0, checkpoint=False, plan=False)
    assert found(tmp_path, "job") == "a"


@pytest.mark.parametrize("content", ["", "[]", "5", "{}", '{"job-name": 5}', "\x00"])
def test_directories_that_are_no_jobs_are_passed_over(tmp_path, content):
    make_job(tmp_path / "a", "job", age=30)
    make_job(tmp_path / "b", "job", age=10)
    (tmp_path / "b" / "job.json").write_text(content)
    assert found(tmp_path, "job") == "a"


def test_files_that_a_running_job_deletes_meanwhile_do_not_disturb(tmp_path, monkeypatch):
    make_job(tmp_path / "a", "job", age=30)
    stat = os.stat

    def vanishing(path, *arguments, **options):
        if str(path).endswith("epoch-2.json"):
            raise FileNotFoundError(path)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", vanishing)
    assert found(tmp_path, "job") == "a"


# --- opening a checkpoint by its path ---------------------------------------------------------------------------------


def test_a_checkpoint_is_opened_by_its_folder_or_its_metadata(tmp_path, monkeypatch):
    store_at(tmp_path / "job").publish(manifest(42))
    monkeypatch.chdir(tmp_path)
    for path in (
        tmp_path / "job/chk-42", tmp_path / "job/chk-42/_metadata", f"{tmp_path}/job/chk-42/", "job/chk-42",
    ):  # fmt: skip
        storage, opened = open_checkpoint(str(path), sync=False)
        assert Path(storage.root) == tmp_path / "job"
        assert opened.checkpoint_id == 42


@pytest.mark.parametrize("path", ["", "job", "job/chk-7", "job/chk-1", "job/other", "job/chk-42/_metadata/x", "none"])
def test_a_path_that_is_no_completed_checkpoint_is_refused_with_advice(tmp_path, path):
    store_at(tmp_path / "job").publish(manifest(42))
    (tmp_path / "job" / "chk-1").mkdir()
    (tmp_path / "job" / "other").mkdir()
    (tmp_path / "job" / "other" / "_metadata").write_text("{}")
    with pytest.raises(StateError, match=r"is not a (completed checkpoint.*such as .*chk-42|Flott snapshot)"):
        open_checkpoint(str(tmp_path / path), sync=False)


def test_a_damaged_checkpoint_is_told_from_a_missing_one(tmp_path):
    store_at(tmp_path).publish(manifest(42))
    (tmp_path / "chk-42" / "_metadata").write_text("flott-snapshot 99 00000000 2\n{}")
    with pytest.raises(CorruptStateError, match="format version 99"):
        open_checkpoint(str(tmp_path / "chk-42"), sync=False)
