"""The fence of a folder in a file system: of several leaders, only the latest can change the folder. Driver side.

Leaders have tokens that grow. A leader that works in a folder makes a *leader folder* in it, and changes anything else
there only by renames to and from its leader folder: what it publishes is written there and renamed out of it; what it
deletes is renamed into it first. A leader that takes over removes the leader folders of those before it. A rename out
of, or into, a folder that does not exist fails, whatever the process knew or checked before, however long it was
stopped. So there is no moment between a check and a deed in which a deposed leader could do harm (decision 0020).

    <folder>/fence/
        17               a leader with this token has been here; a lower one is refused from then on
        17-3fa08c51/     its leader folder: drafts, and what is being deleted
        3fa08c51.gone/   a folder out of the leader folder of a former leader, which is being deleted

The file system must rename atomically and show every process the same names: a local one, or a shared one that does not
cache names (NFS: mount it with ``lookupcache=none,actimeo=0``).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from flott.errors import LeadershipLostError, StorageError
from flott.runtime.storage.posix import FENCE_FOLDER as FOLDER
from flott.runtime.storage.posix import sync_folder

__all__ = ["FOLDER", "PosixFence", "leader_folders"]

_MARK = re.compile(r"\d+")
_LEADER_FOLDER = re.compile(r"(\d+)-[0-9a-f]+")
_TAKEN_OUT = ".gone"
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


@dataclass(frozen=True)
class PosixFence:
    """A leader's part in the fence of a folder. A value: it travels with the storage it protects."""

    folder: str  #: where marks and leader folders are
    token: int
    sync: bool = True
    nonce: str = field(default_factory=lambda: uuid4().hex[:8])  #: tells two processes of one leader apart

    @property
    def home(self) -> str:
        """Return the folder that is protected."""
        return os.path.dirname(self.folder)

    @property
    def path(self) -> str:
        """Return the leader folder."""
        return os.path.join(self.folder, f"{self.token}-{self.nonce}")

    def claim(self, *, take_over: bool = True) -> None:
        """Make the leader folder and remove those of all others. Refuse to if there is, or was, a higher token.

        The folder is made first, then the others are looked for: of two that do this at once, one sees the other.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            Path(self.folder, str(self.token)).touch()
            os.makedirs(self.path, exist_ok=True)
            self._flush()
            names = os.listdir(self.folder)
            highest = max(map(_token_of, names))
            if highest > self.token:
                self.release()
                raise LeadershipLostError(
                    f"A JobManager with token {highest} has taken over {self.home}; this one's is {self.token}."
                )
            for name in names:
                if _LEADER_FOLDER.fullmatch(name) and name != os.path.basename(self.path):
                    _remove(os.path.join(self.folder, name))
                elif _MARK.fullmatch(name) and int(name) < self.token:
                    Path(self.folder, name).unlink(missing_ok=True)
                elif name.endswith(_TAKEN_OUT):
                    shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
            self._flush()
        except OSError as error:
            raise self.failure(error) from error

    def check(self) -> None:
        """Raise ``LeadershipLostError`` once another leader has taken over.

        What was seen before a check that passes is not a successor's. What is done afterwards may come too late all the
        same, so it must be a rename, or harmless.
        """
        try:
            os.stat(self.path)
        except OSError as error:
            raise self.failure(error) from error

    def place(self, name: str) -> str:
        """Return a new name in the leader folder, for a draft or for what is being deleted."""
        return os.path.join(self.path, f"{name}-{uuid4().hex[:8]}")

    def release(self) -> None:
        """Remove the leader folder. That a leader with this token was here stays known."""
        with suppress(OSError):  # one that is left does no harm
            _remove(self.path)

    def failure(self, error: OSError) -> StorageError | LeadershipLostError:
        """Return what an error on the way to the leader folder means."""
        if error.errno in _GONE and not os.path.isdir(self.path):
            return LeadershipLostError(
                f"Another JobManager has taken over {self.home} from the one with token {self.token}, or the folder was"
                " deleted: nothing can be changed there from here any more."
            )
        return StorageError(f"The fence {self.folder} cannot be used: {error.strerror or error}.")

    def _flush(self) -> None:
        if self.sync:
            sync_folder(self.folder)
            sync_folder(self.home)


def leader_folders(folder: str | Path) -> list[str]:
    """Return the leader folders in a fence: of leaders that work there, or died there."""
    try:
        return sorted(name for name in os.listdir(folder) if _LEADER_FOLDER.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _token_of(name: str) -> int:
    match = _LEADER_FOLDER.fullmatch(name)
    if match:
        return int(match[1])
    return int(name) if _MARK.fullmatch(name) else 0


def _remove(folder: str) -> None:
    """Remove a leader folder, whatever its owner may be putting into it meanwhile. When this returns it is gone.

    It is not enough to rename it: a process that looked it up before would still find it under its new name.
    """
    while True:
        try:
            for name in os.listdir(folder):
                _take_out(os.path.join(folder, name))
            os.rmdir(folder)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _take_out(path: str) -> None:
    """Take something out of a leader folder at once: its owner cannot publish a draft that is half deleted."""
    if not os.path.isdir(path):
        Path(path).unlink(missing_ok=True)
        return
    gone = os.path.join(os.path.dirname(os.path.dirname(path)), f"{uuid4().hex[:8]}{_TAKEN_OUT}")
    with suppress(FileNotFoundError):  # its owner was faster
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
