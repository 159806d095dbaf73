"""Durable files below one root: read, write whole files, publish atomically, list and delete. Driver and task side.

Everything that survives a crash goes through here, so one class says what "durable" means, and tests can make it fail.
Names are relative to the root, with ``/`` between folders.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flott.errors import ConfigurationError, StorageError

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
#: How much of a stream is collected before it is written.
_BUFFER_BYTES = 1 << 20

#: How the name of a file begins that is being published. A crash may leave one behind; nobody reads it.
DRAFT = ".draft-"


@dataclass(frozen=True)
class LocalStorage:
    """A folder of the local (or a mounted, shared) file system. A value: it travels to tasks."""

    root: str
    sync: bool = True  #: flush to the disk before a file counts as written: survives power loss, not just a crash

    def read(self, name: str) -> bytes:
        """The whole file."""
        try:
            return self._path(name).read_bytes()
        except OSError as error:
            raise self._failure("read", name, error) from error

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The file, to be read in parts."""
        try:
            with open(self._path(name), "rb") as file:
                yield file
        except OSError as error:
            raise self._failure("read", name, error) from error

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """A new file under a name nobody else uses, to be written in parts. If that fails, no file is left."""
        path = self._path(name)
        try:
            with self._new(path) as file:
                yield file
                self._settle(file)
            if self.sync:
                sync_folder(path.parent)
        except BaseException as error:
            with contextlib.suppress(OSError):
                path.unlink()
            if isinstance(error, OSError):
                raise self._failure("write", name, error) from error
            raise

    def copy(self, source: str, name: str) -> None:
        """Copy a file, of this storage or by absolute name, to a new name."""
        with self.open(source) as original, self.create(name) as copied:
            shutil.copyfileobj(original, copied, _BUFFER_BYTES)

    def write(self, name: str, data: bytes) -> None:
        """Write a new file under a name nobody else uses. It may be torn by a crash; publish what must not be."""
        path = self._path(name)
        try:
            self._write(path, data)
            if self.sync:
                sync_folder(path.parent)
        except OSError as error:
            raise self._failure("write", name, error) from error

    def publish(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all, also when it replaces another.

        After an error a new file is not there: nobody may find what its writer was told did not happen.
        """
        path = self._path(name)
        draft = path.with_name(f"{DRAFT}{path.name}-{os.getpid()}")
        replaces = self.exists(name)
        try:
            self._write(draft, data)
            os.replace(draft, path)
            if self.sync:
                sync_folder(path.parent)
        except OSError as error:
            for remnant in (draft,) if replaces else (draft, path):
                with contextlib.suppress(OSError):
                    remnant.unlink()
            raise self._failure("write", name, error) from error

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise self._failure("delete", name, error) from error

    def delete_folder(self, name: str) -> None:
        """Delete a folder and the files in it, if it is there."""
        folder = self._path(name)
        try:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            if folder.is_dir():
                folder.rmdir()
        except OSError as error:
            raise self._failure("delete", name, error) from error

    def list(self, folder: str) -> Iterator[str]:
        """Names of the files and folders directly in a folder, sorted; nothing if there is no such folder."""
        try:
            yield from sorted(os.listdir(self._path(folder)))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failure("list", folder, error) from error

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return self._path(name).exists()
        except OSError as error:
            raise self._failure("look for", name, error) from error

    def _path(self, name: str) -> Path:
        return Path(self.root, name)

    def _write(self, path: Path, data: bytes) -> None:
        with self._new(path) as file:
            file.write(data)
            self._settle(file)

    def _new(self, path: Path) -> BinaryIO:
        try:
            descriptor = os.open(path, _WRITE, 0o666)
        except FileNotFoundError:
            self._make_folder(path.parent)
            descriptor = os.open(path, _WRITE, 0o666)
        return open(descriptor, "wb", buffering=_BUFFER_BYTES)

    def _settle(self, file: BinaryIO) -> None:
        if self.sync:
            file.flush()
            os.fsync(file.fileno())

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            if self.sync:
                sync_folder(folder.parent)

    def _failure(self, verb: str, name: str, error: OSError) -> StorageError:
        reason = error.strerror or str(error)
        return StorageError(
            f"Cannot {verb} {self._path(name)}: {reason}. Check that the folder exists, has room and is writable for"
            " this user on the driver and on every executor."
        )


def sync_folder(folder: str | Path) -> None:
    """Make a new name durable: the folder's own entry must reach the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def local_path(path: str) -> str:
    """A local path from a path or a file: URI."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        raise ConfigurationError(
            f"{path} is not a local path. This version of Flott keeps checkpoints in file systems that are mounted on"
            " the driver and on all executors."
        )
    return path
