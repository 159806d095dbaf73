"""A storage in a folder of a file system: local, or mounted on all machines. Driver and task side.

A file is published by a rename: of a draft beside it, or, with a fence, of a draft in the leader's folder
(``posix_fence``). A file is deleted by a rename into the leader's folder, if there is one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from flott.errors import FlottError, StorageError
from flott.runtime.storage.locations import is_object_location, parent_of
from flott.runtime.storage.protocol import Fence, Lock, Storage

if TYPE_CHECKING:
    from flott.runtime.storage.posix_fence import PosixFence

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
#: How much of a stream is collected before it is written.
_BUFFER_BYTES = 1 << 20

#: How the name of a file begins that is being published. A crash may leave one behind, which is never read.
DRAFT = ".draft-"
#: The folder, below the one that is protected, in which leaders have their folders.
FENCE_FOLDER = "fence"


@dataclass(frozen=True)
class PosixStorage:
    """A folder of the local (or a mounted, shared) file system. A value: it travels to tasks."""

    root: str
    sync: bool = True  #: flush to the disk before a file counts as written: survives power loss, not just a crash
    fence: Fence | None = None  #: refuses to publish and delete for a leader that was deposed

    def location(self, name: str) -> str:
        """Return the absolute name of a file."""
        return str(self._path(name))

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        if (other := self._elsewhere(name)) is not None:
            return other.read(name)
        try:
            return self._path(name).read_bytes()
        except OSError as error:
            raise self._failure("read", name, error) from error

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file to be read in parts."""
        if (other := self._elsewhere(name)) is not None:
            with other.open(name) as remote:
                yield remote
            return
        try:
            with open(self._path(name), "rb") as file:
                yield file
        except OSError as error:
            raise self._failure("read", name, error) from error

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Create a file to be written in parts, under a name no other process uses. If that fails, none is left."""
        if (other := self._elsewhere(name)) is not None:
            with other.create(name) as remote:
                yield remote
            return
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
        """Create a file under a name no other process uses. A crash may tear it; publish what must not be torn."""
        path = self._path(name)
        try:
            self._write(path, data)
            if self.sync:
                sync_folder(path.parent)
        except OSError as error:
            raise self._failure("write", name, error) from error

    def publish(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all, also when it replaces another.

        After an error a new file is not there: a reader may not find what its writer was told did not happen.
        """
        path = self._path(name)
        draft = self._draft_of(path)
        replaces = self.exists(name)
        try:
            self._write_draft(draft, data)
            if self.fence is not None and not self._is_home:
                self.fence.check()  # after the draft was written: a successor deletes it before it does anything else
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

    def delete_all(self, names: Iterable[str]) -> None:
        """Delete several files, those that are there."""
        for name in names:
            self.delete(name)

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
        """Yield the names of files and folders directly in a folder, sorted; nothing if there is no such folder."""
        try:
            yield from sorted(os.listdir(self._path(folder)))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failure("list", folder, error) from error

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""
        if (other := self._elsewhere(name)) is not None:
            return other.exists(name)
        try:
            return self._path(name).exists()
        except OSError as error:
            raise self._failure("look for", name, error) from error

    def size(self, name: str) -> int:
        """Return how many bytes a file has."""
        if (other := self._elsewhere(name)) is not None:
            return other.size(name)
        try:
            return self._path(name).stat().st_size
        except OSError as error:
            raise self._failure("read", name, error) from error

    def modified_ns(self, name: str) -> int:
        """Return when a file was written; 0 if there is none (any more)."""
        try:
            return self._path(name).stat().st_mtime_ns
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise self._failure("look for", name, error) from error

    def flush(self, names: Iterable[str]) -> None:
        """Make files durable that were created by a storage without ``sync``."""
        for name in names:
            with self.open(name) as file:
                os.fsync(file.fileno())

    @property
    def is_reachable(self) -> bool:
        """Whether the folder that the root is in is mounted."""
        return Path(self.root).parent.is_dir()

    def drop_folder(self, name: str) -> None:
        """Delete a folder, and what a crash left in it."""
        self.delete_folder(name)

    def delete_root(self) -> None:
        """Delete the folder. The leader gives it up before, since its own folder goes, too."""
        if self.fence is not None:
            self.fence.check()
            self.fence.release()
        self.unfenced().delete_folder(".")

    def drafts(self, folders: Iterable[str]) -> Iterator[str]:
        """Yield the names of files that were being published."""
        for folder in folders:
            yield from (f"{folder}/{name}" for name in self.list(folder) if name.startswith(DRAFT))

    def seal(self, name: str) -> None:
        """Delete the drafts of a file: a leader that was deposed cannot rename them any more."""
        path = self._path(name)
        for found in self.list(str(path.parent)):
            if found.startswith(DRAFT):
                self.delete(str(path.with_name(found)))

    # --- related storages ---------------------------------------------------------------------------------------------

    def at(self, root: str, *, sync: bool | None = None) -> Storage:
        """Return a storage with another root, which may be of another kind, protected by the same fence."""
        if is_object_location(root):
            from flott.runtime.storage.object_store import ObjectStorage
            from flott.runtime.storage.opening import open_storage

            found = open_storage(root)
            return replace(found, fence=self.fence) if isinstance(found, ObjectStorage) else found
        return replace(self, root=root, sync=self.sync if sync is None else sync)

    def fenced(self, token: int) -> Storage:
        """Return this storage with a fence at its root, for the leader with this token."""
        from flott.runtime.storage.posix_fence import PosixFence

        return replace(self, fence=PosixFence(str(Path(self.root, FENCE_FOLDER)), token, self.sync))

    def unfenced(self) -> Storage:
        """Return this storage without its fence."""
        return replace(self, fence=None)

    def prepare(self) -> None:
        """Make the folder."""
        try:
            Path(self.root).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure("use", ".", error) from error

    def lock(self, name: str, *, shared: bool) -> Lock | None:
        """Lock a file of this name. The lock goes with the process that holds it."""
        lock = open(self._path(name), "a")  # noqa: SIM115  # held until it is closed
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock

    @property
    def has_locks(self) -> bool:
        """A lock goes with the process that holds it."""
        return True

    def remove_root(self) -> None:
        """Remove the folder, unless it never came to be or something else was put into it."""
        with contextlib.suppress(OSError):
            Path(self.root).rmdir()

    # --- publishing and deleting, with and without a fence -----------------------------------------------------------

    @property
    def _is_home(self) -> bool:
        """Whether this is the folder that the fence protects, or another one that its leader writes to."""
        return getattr(self.fence, "home", None) == self.root

    def _in_leader_folder(self, name: str) -> Path:
        return Path(cast("PosixFence", self.fence).place(name))

    def _draft_of(self, path: Path) -> Path:
        if self._is_home:
            return self._in_leader_folder(path.name)
        return path.with_name(f"{DRAFT}{path.name}-{os.getpid()}")

    def _write_draft(self, draft: Path, data: bytes) -> None:
        if not self._is_home:
            self._write(draft, data)
            return
        with _writable(os.open(draft, _WRITE, 0o666)) as file:  # a leader's folder that is gone is not made again
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
            removed = self._in_leader_folder(path.name)
            try:
                self._move(path, removed)
            except FileNotFoundError:
                self.fence.check()  # the file was not there
            else:
                removed.unlink(missing_ok=True)
            return
        if self.fence is not None:
            self.fence.check()
        path.unlink(missing_ok=True)

    def _move(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def _path(self, name: str) -> Path:
        return Path(self.root, name)

    def _elsewhere(self, name: str) -> Storage | None:
        """Return the storage of a name that is in an object store."""
        return self.at(parent_of(name)).unfenced() if is_object_location(name) else None

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
        """Return why a file cannot be published or deleted."""
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
    """Return whether an operation failed because there is no room (left for this user)."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: str | Path) -> None:
    """Make a new name durable: the entry in the folder must reach the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

