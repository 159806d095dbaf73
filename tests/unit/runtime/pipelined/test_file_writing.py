"""A checkpoint is reported when its files are durable, and not before."""

from __future__ import annotations

import select
import threading
from pathlib import Path

import pytest

from flott.errors import StorageError
from flott.runtime.pipelined.file_writing import BackgroundWriter, FilesAside, ImmediateWriter
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Faults, UnreliableStorage

WATCHDOG_S = 120


def aside() -> FilesAside:
    files = FilesAside()
    with files.create("state/first") as file:
        file.write(b"one ")
        file.write(b"file")
    files.write("state/second", b"another")
    return files


def wait_for(writer: BackgroundWriter) -> None:
    assert select.select([writer.socket], [], [], WATCHDOG_S)[0]


def test_files_are_durable_before_a_checkpoint_is_reported(tmp_path: Path) -> None:
    storage, told = PosixStorage(str(tmp_path), sync=False), list[bytes]()
    ImmediateWriter().write(aside(), storage, lambda: told.append(storage.read("state/first")))
    assert told == [b"one file"]
    assert storage.read("state/second") == b"another"


def test_processing_goes_on_while_files_are_written(tmp_path: Path) -> None:
    released, told = threading.Event(), list[str]()

    def hold(verb: str, name: str) -> bool:
        assert released.wait(WATCHDOG_S)
        return False

    storage = UnreliableStorage(str(tmp_path), sync=False, faults=Faults(hold))
    writer = BackgroundWriter()
    try:
        writer.write(aside(), storage, lambda: told.append("saved"))
        assert told == []
        assert not select.select([writer.socket], [], [], 0)[0]
        released.set()
        wait_for(writer)
        assert told == []  # it is told in the thread of the tasks
        writer.finish()
        assert told == ["saved"]
    finally:
        writer.close()
    assert (tmp_path / "state" / "second").read_bytes() == b"another"


def test_a_file_that_cannot_be_written_fails_the_task_and_not_the_thread(tmp_path: Path) -> None:
    storage = UnreliableStorage(str(tmp_path), sync=False, faults=Faults(lambda verb, name: name.endswith("first")))
    writer, told = BackgroundWriter(), list[str]()
    try:
        writer.write(aside(), storage, lambda: told.append("saved"))
        wait_for(writer)
        with pytest.raises(StorageError, match="the test says so"):
            writer.finish()
        writer.write(FilesAside(), storage, lambda: told.append("next"))
        wait_for(writer)
        writer.finish()
        assert told == ["next"]
    finally:
        writer.close()
