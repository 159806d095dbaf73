"""Durable files: whole or not at all, and errors that say what to look at."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from flott.errors import EpochFailure, StorageError
from flott.runtime.storage import PosixStorage
from flott.runtime.storage import posix as storage_module


@pytest.fixture(params=[True, False], ids=["sync", "no sync"])
def storage(request, tmp_path) -> PosixStorage:
    return PosixStorage(str(tmp_path / "root"), sync=request.param)


def failing(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_was_written_or_published_is_read(storage):
    storage.write("state/a", b"one")
    storage.publish("chk-1/_metadata", b"two")
    storage.publish("chk-1/_metadata", b"three")
    assert storage.read("state/a") == b"one"
    assert storage.read("chk-1/_metadata") == b"three"
    assert list(storage.list(".")) == ["chk-1", "state"]
    assert list(storage.list("chk-1")) == ["_metadata"]


def test_files_are_readable_by_others_as_the_user_decides_and_not_executable(storage, tmp_path):
    storage.write("a", b"")
    storage.publish("b", b"")
    for name in "ab":
        assert (tmp_path / "root" / name).stat().st_mode & 0o111 == 0


@pytest.mark.parametrize("step", ["write", "fsync", "replace", "folder"])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_publication_that_fails_at_any_step_shows_nothing_of_itself(tmp_path, monkeypatch, step, replaces):
    storage = PosixStorage(str(tmp_path))
    if replaces:
        storage.publish("chk-1/_metadata", b"old")
    else:
        storage.write("chk-1/other", b"")
    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr("builtins.open", failing)
        elif step == "fsync":
            patch.setattr(os, "fsync", failing)
        elif step == "replace":
            patch.setattr(os, "replace", failing)
        else:
            patch.setattr(storage_module, "sync_folder", failing)
        with pytest.raises(StorageError, match=r"Cannot write .*chk-1/_metadata: No space left on device\. Check"):
            storage.publish("chk-1/_metadata", b"new")
    if not replaces:
        assert not storage.exists("chk-1/_metadata")
    else:
        # Replaced or not: one of the two, and whole.
        assert storage.read("chk-1/_metadata") == (b"new" if step == "folder" else b"old")
    assert not [name for name in storage.list("chk-1") if name.startswith(".")]


def test_a_crash_in_the_middle_of_a_publication_leaves_the_old_file(tmp_path, monkeypatch):
    storage = PosixStorage(str(tmp_path))
    storage.publish("job.json", b"old")

    class PowerLoss(BaseException):
        pass

    def lose_power(*_: Any) -> None:
        raise PowerLoss

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lose_power)
        with pytest.raises(PowerLoss):
            storage.publish("job.json", b"new")
    assert storage.read("job.json") == b"old"
    assert [name for name in os.listdir(tmp_path) if name.startswith(storage_module.DRAFT)]


def test_cleaning_up_after_a_failure_does_not_hide_it(tmp_path, monkeypatch):
    storage = PosixStorage(str(tmp_path))
    monkeypatch.setattr(os, "replace", failing)
    monkeypatch.setattr("pathlib.Path.unlink", failing)
    with pytest.raises(StorageError, match="No space left"):
        storage.publish("a", b"x")


def test_names_of_new_files_and_folders_reach_the_disk_too(tmp_path, monkeypatch):
    synced: list[str] = []
    monkeypatch.setattr(storage_module, "sync_folder", lambda folder: synced.append(str(folder)))
    storage = PosixStorage(str(tmp_path / "jobs" / "j1"))
    storage.publish("chk-1/_metadata", b"x")
    root = tmp_path
    assert synced == [str(root), str(root / "jobs"), str(root / "jobs/j1"), str(root / "jobs/j1/chk-1")]
    synced.clear()
    storage.write("state/a", b"x")
    assert synced == [str(root / "jobs/j1"), str(root / "jobs/j1/state")]
    PosixStorage(storage.root, sync=False).write("other/a", b"x")
    assert len(synced) == 2


def test_a_missing_file_is_a_readable_storage_error(storage):
    with pytest.raises(StorageError, match=r"Cannot read .*/root/state/x: No such file or directory\. Check"):
        storage.read("state/x")
    assert issubclass(StorageError, EpochFailure)  # the restart strategy decides


def test_every_operation_reports_a_refusal_as_a_storage_error(storage, tmp_path):
    storage.write("file", b"")
    for operation in (
        lambda: storage.write("file/below", b""),
        lambda: storage.publish("file/below", b""),
        lambda: storage.read("file/below"),
        lambda: list(storage.list("file")),
        lambda: storage.read("."),
        lambda: storage.delete("file/below"),
    ):
        with pytest.raises(StorageError, match=r"Cannot (read|write|list|delete) .*/file|Cannot read"):
            operation()


def test_a_folder_that_may_not_be_entered_is_a_storage_error(storage, monkeypatch):
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.exists", refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        storage.exists("a")


def test_what_is_not_there_is_no_error_to_delete_or_list(storage):
    storage.delete("nothing")
    storage.delete_folder("nothing")
    assert list(storage.list("nothing")) == []
    assert not storage.exists("nothing")


def test_a_folder_is_deleted_with_everything_in_it_and_nothing_else(storage, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    for name in ("chk-1/_metadata", "chk-1/deep/er/file", "chk-10/_metadata"):
        storage.write(name, b"")
    os.symlink(outside, tmp_path / "root" / "chk-1" / "link")
    os.symlink(tmp_path / "gone", tmp_path / "root" / "chk-1" / "dangling")
    storage.delete_folder("chk-1")
    assert list(storage.list(".")) == ["chk-10"]
    assert (outside / "kept").exists()


def test_a_folder_that_cannot_be_deleted_is_a_storage_error(storage, monkeypatch):
    storage.write("chk-1/_metadata", b"")
    monkeypatch.setattr("pathlib.Path.unlink", failing)
    with pytest.raises(StorageError, match=r"Cannot delete .*chk-1: No space"):
        storage.delete_folder("chk-1")
    with pytest.raises(StorageError, match=r"Cannot delete .*chk-1/_metadata: No space"):
        storage.delete("chk-1/_metadata")
