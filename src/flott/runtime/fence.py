"""The fence of a folder: of several leaders that believe in themselves, only the latest can change it. Driver side.

Leaders have tokens that grow. A leader that works in a folder takes a *seat* in it, a folder of its own, and changes
anything else there only by renames to and from that seat: what it publishes is written in the seat and renamed out of
it; what it deletes is renamed into it first. Whoever takes over removes the seats of those before it. A rename out of,
or into, a folder that does not exist fails, whatever the process knew or checked before, however long it was stopped.
So there is no moment between a check and a deed in which a deposed leader could do harm (decision 0020).

    <folder>/fence/
        17               a leader with this token has been here; a lower one is refused from then on
        17-3fa08c51/     its seat: drafts, and what is being deleted
        3fa08c51.gone/   a folder from the seat of somebody before, that is being deleted

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
from flott.runtime.storage import sync_folder

FOLDER = "fence"

_MARK = re.compile(r"\d+")
_SEAT = re.compile(r"(\d+)-[0-9a-f]+")
_TAKEN_OUT = ".gone"
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})


@dataclass(frozen=True)
class Fence:
    """A leader's part in the fence of a folder. A value: it travels with the storage it protects."""

    folder: str  #: where marks and seats are
    token: int
    sync: bool = True
    seat: str = field(default_factory=lambda: uuid4().hex[:8])  #: tells two processes of one leader apart

    @property
    def home(self) -> str:
        """The folder that is protected."""
        return os.path.dirname(self.folder)

    @property
    def path(self) -> str:
        """The seat."""
        return os.path.join(self.folder, f"{self.token}-{self.seat}")

    def claim(self) -> None:
        """Take the seat and remove those of all others. Refuses to if there is, or was, a leader with a higher token.

        The seat comes first, then the look at the others: of two that do this at once, one sees the other.
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
                if _SEAT.fullmatch(name) and name != os.path.basename(self.path):
                    _remove(os.path.join(self.folder, name))
                elif _MARK.fullmatch(name) and int(name) < self.token:
                    Path(self.folder, name).unlink(missing_ok=True)
                elif name.endswith(_TAKEN_OUT):
                    shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
            self._flush()
        except OSError as error:
            raise self.failure(error) from error

    def check(self) -> None:
        """Refuses to go on once somebody else has taken over. What was seen before a check that passes is not theirs.

        A deed that follows may come too late all the same: it must be a rename, or harmless.
        """
        try:
            os.stat(self.path)
        except OSError as error:
            raise self.failure(error) from error

    def place(self, name: str) -> str:
        """A new name in the seat, for a draft or for what is being deleted."""
        return os.path.join(self.path, f"{name}-{uuid4().hex[:8]}")

    def release(self) -> None:
        """Give the seat up. That a leader with this token was here stays known."""
        with suppress(OSError):  # it is in nobody's way
            _remove(self.path)

    def failure(self, error: OSError) -> StorageError | LeadershipLostError:
        """What an error on the way to the seat means."""
        if error.errno in _GONE and not os.path.isdir(self.path):
            return LeadershipLostError(
                f"Another JobManager has taken over {self.home} from the one with token {self.token}, or somebody has"
                " deleted the folder: nothing can be changed there from here any more."
            )
        return StorageError(f"The fence {self.folder} cannot be used: {error.strerror or error}.")

    def _flush(self) -> None:
        if self.sync:
            sync_folder(self.folder)
            sync_folder(self.home)


def open_seats(folder: str | Path) -> list[str]:
    """The seats in a fence: of leaders that work there, or died there."""
    try:
        return sorted(name for name in os.listdir(folder) if _SEAT.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _token_of(name: str) -> int:
    match = _SEAT.fullmatch(name)
    if match:
        return int(match[1])
    return int(name) if _MARK.fullmatch(name) else 0


def _remove(seat: str) -> None:
    """Remove a seat, whatever its owner may be putting into it meanwhile. When this returns it is gone for good.

    It is not enough to rename it: who looked it up before would still find it under its new name.
    """
    while True:
        try:
            for name in os.listdir(seat):
                _take_out(os.path.join(seat, name))
            os.rmdir(seat)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _take_out(path: str) -> None:
    """Take something out of a seat, at once: nobody can publish a draft of which a part is deleted already."""
    if not os.path.isdir(path):
        Path(path).unlink(missing_ok=True)
        return
    gone = os.path.join(os.path.dirname(os.path.dirname(path)), f"{uuid4().hex[:8]}{_TAKEN_OUT}")
    with suppress(FileNotFoundError):  # its owner was faster
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
