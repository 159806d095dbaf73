"""A checkpoint is reported when its files are durable, and not before."""

from __future__ import annotations

import select
import threading
from pathlib import Path

import pytest

from flott.errors import StorageError
from flott.runtime.pipelined import file_writing
from flott.runtime.pipelined.file_writing import BackgroundWriter, FilesAside, ImmediateWriter, StateFilesWriter
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Faults, UnreliableStorage

WATCHDOG_S = 120


def aside(prefix: str = "") -> FilesAside:
    files = FilesAside()
    with files.create(f"state/{prefix}first") as file:
        file.write(b"one ")
        file.write(b"file")
    files.write(f"state/{prefix}second", b"another")
    return files


def wait_for(writer: BackgroundWriter) -> None:
    assert select.select([writer.socket], [], [], WATCHDOG_S)[0]


def test_files_are_durable_before_a_checkpoint_is_reported(tmp_path: Path) -> None:
    storage, told = PosixStorage(str(tmp_path), sync=False), list[bytes]()
    ImmediateWriter().write(aside(), storage, lambda error: told.append(storage.read("state/first")))
    assert told == [b"one file"]
    assert storage.read("state/second") == b"another"


def test_processing_goes_on_while_files_are_written(tmp_path: Path) -> None:
    released, told = threading.Event(), list[object]()

    def hold(verb: str, name: str) -> bool:
        assert released.wait(WATCHDOG_S)
        return False

    storage = UnreliableStorage(str(tmp_path), sync=False, faults=Faults(hold))
    writer = BackgroundWriter()
    try:
        writer.write(aside(), storage, told.append)
        assert told == []
        assert not select.select([writer.socket], [], [], 0)[0]
        released.set()
        wait_for(writer)
        assert told == []  # it is told in the thread of the tasks
        writer.finish()
        assert told == [None]
    finally:
        writer.close()
    assert (tmp_path / "state" / "second").read_bytes() == b"another"


@pytest.mark.parametrize("new_writer", [ImmediateWriter, BackgroundWriter])
def test_a_file_that_cannot_be_written_is_written_before_all_later_ones(
    new_writer: type[ImmediateWriter] | type[BackgroundWriter], tmp_path: Path
) -> None:
    """Its checkpoint has failed. The files of the next one are changes on top of it."""
    refused, tried, told = ["state/second"], list[str](), list[str]()

    def fails(verb: str, name: str) -> bool:
        tried.append(name)
        return name in refused

    storage = UnreliableStorage(str(tmp_path), sync=False, faults=Faults(fails))
    writer = new_writer()

    def write(prefix: str) -> None:
        writer.write(aside(prefix), storage, lambda error: told.append("saved" if error is None else str(error)))
        if isinstance(writer, BackgroundWriter):
            wait_for(writer)
        writer.finish()

    try:
        write("")
        assert told == ["Cannot write state/second: the test says so."]
        write("next-")
        assert told[1:] == told[:1]
        assert not (tmp_path / "state/next-first").exists()
        refused.clear()
        write("last-")
        assert told[2:] == ["saved"]
    finally:
        if isinstance(writer, BackgroundWriter):
            writer.close()
    names = ["first", "second", "next-first", "next-second", "last-first", "last-second"]
    assert list(dict.fromkeys(tried)) == [f"state/{name}" for name in names]
    assert tried.count("state/first") == 1  # what is durable is not written again
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == {
        name: b"one file" if name.endswith("first") else b"another" for name in names
    }


@pytest.mark.parametrize("new_writer", [ImmediateWriter, BackgroundWriter])
def test_what_waits_to_be_written_is_limited(
    new_writer: type[ImmediateWriter] | type[BackgroundWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writing, "MOST_WAITING_BYTES", 40)
    storage = UnreliableStorage(str(tmp_path), sync=False, faults=Faults(lambda verb, name: True))
    writer: StateFilesWriter = new_writer()
    try:
        for _ in range(3):  # 15 bytes each
            writer.write(aside(), storage, lambda error: None)
        with pytest.raises(StorageError, match="45 bytes of state files wait to be written, and at most 40 may"):
            writer.write(aside(), storage, lambda error: None)
    finally:
        if isinstance(writer, BackgroundWriter):
            writer.close()


def test_an_error_that_is_none_of_the_storage_fails_the_task_and_not_the_thread(tmp_path: Path) -> None:
    def fails(verb: str, name: str) -> bool:
        raise ZeroDivisionError

    storage = UnreliableStorage(str(tmp_path), sync=False, faults=Faults(fails))
    writer, told = BackgroundWriter(), list[object]()
    try:
        writer.write(aside(), storage, told.append)
        wait_for(writer)
        with pytest.raises(ZeroDivisionError):
            writer.finish()
        storage.faults.fails = lambda verb, name: False
        writer.write(FilesAside(), storage, told.append)
        wait_for(writer)
        writer.finish()
        assert told == [None]
    finally:
        writer.close()
