"""Durable files below one root: read, write whole files, publish atomically, list and delete. Driver and task side.

Everything that survives a crash goes through here, so one class says what "durable" means, and tests can make it fail.
Names are relative to the root, with ``/`` between folders.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from flott.errors import ConfigurationError, FlottError, StorageError

if TYPE_CHECKING:
    from flott.runtime.fence import Fence

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
    fence: Fence | None = None  #: publishing and deleting are refused (LeadershipLostError) once another has taken over

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
        draft = self._draft_of(path)
        replaces = self.exists(name)
        try:
            self._write_draft(draft, data)
            if self.fence is not None and not self._is_home:
                self.fence.check()  # after the draft: whoever takes over deletes it before anything else
            self._publish_draft(draft, path)
            if self.sync:
                sync_folder(path.parent)
        except (OSError, FlottError) as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            if not isinstance(error, OSError):
                raise
            if not replaces:
                with contextlib.suppress(OSError):
                    self._remove(path)
            raise self._refusal("write", name, error) from error

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        try:
            self._remove(self._path(name))
        except OSError as error:
            raise self._refusal("delete", name, error) from error

    def delete_folder(self, name: str) -> None:
        """Delete a folder and the files in it, if it is there."""
        folder = self._path(name)
        try:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else self._remove(path)
            if folder.is_dir():
                folder.rmdir()
        except OSError as error:
            raise self._refusal("delete", name, error) from error

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

    # --- publishing and deleting, with and without a fence -----------------------------------------------------------

    @property
    def _is_home(self) -> bool:
        """Whether this is the folder that the fence protects, or another one that its leader writes to."""
        return self.fence is not None and self.fence.home == self.root

    def _draft_of(self, path: Path) -> Path:
        if self.fence is not None and self._is_home:
            return Path(self.fence.place(path.name))
        return path.with_name(f"{DRAFT}{path.name}-{os.getpid()}")

    def _write_draft(self, draft: Path, data: bytes) -> None:
        if not self._is_home:
            self._write(draft, data)
            return
        with _writable(os.open(draft, _WRITE, 0o666)) as file:  # a seat that is gone is not made anew
            file.write(data)
            self._settle(file)

    def _publish_draft(self, draft: Path, path: Path) -> None:
        try:
            self._move(draft, path)
        except FileNotFoundError:
            if not draft.exists():
                raise
            self._make_folder(path.parent)
            self._move(draft, path)

    def _remove(self, path: Path) -> None:
        if self.fence is not None and self._is_home:
            grave = Path(self.fence.place(path.name))
            try:
                self._move(path, grave)
            except FileNotFoundError:
                self.fence.check()  # it was not there
            else:
                grave.unlink(missing_ok=True)
            return
        if self.fence is not None:
            self.fence.check()
        path.unlink(missing_ok=True)

    def _move(self, source: Path, target: Path) -> None:
        os.replace(source, target)

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
        return _writable(descriptor)

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

    def _refusal(self, verb: str, name: str, error: OSError) -> FlottError:
        """Why a file cannot be published or deleted."""
        if self.fence is not None:
            self.fence.check()
        return self._failure(verb, name, error)

    def _failure(self, verb: str, name: str, error: OSError) -> StorageError:
        reason = error.strerror or str(error)
        return StorageError(
            f"Cannot {verb} {self._path(name)}: {reason}. Check that the folder exists, has room and is writable for"
            " this user on the driver and on every executor."
        )


def _writable(descriptor: int) -> BinaryIO:
    return open(descriptor, "wb", buffering=_BUFFER_BYTES)


def is_full(error: OSError) -> bool:
    """Whether the reason is that there is no room, or no more for this user."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


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
