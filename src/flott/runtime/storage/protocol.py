"""What every storage does: the protocol that checkpoints, savepoints and state files are written against.

Everything that survives a crash goes through a storage, so one interface says what "durable" means, and tests can make
it fail. Two ways to write are told apart:

    create, write, copy     a file under a name that no other process uses. Until the call returns it may be torn, so
                            it counts only once something that was published refers to it.
    publish                 a file that appears whole or not at all, also when it replaces another one.

Where several leaders may believe that they lead, a storage has a *fence*: publishing and deleting are refused
(``LeadershipLostError``) once another leader has taken over, with no moment between the check and the deed. Decision
0020 says how a file system does this, decision 0023 how an object store does.

A storage is a value: it is pickled and travels to tasks, which read and create files and never publish or delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol


class Fence(Protocol):
    """One leader's part in protecting a folder from the leaders before it."""

    @property
    def token(self) -> int:
        """The fencing token of the leader: higher than that of every leader before it; 0: there is no election."""

    def claim(self, *, take_over: bool = True) -> None:
        """Take the folder over from leaders with lower tokens. Refuse to if there is, or was, one with a higher one.

        ``take_over`` False: only if no leader works there, as far as the storage can tell.
        """

    def check(self) -> None:
        """Raise ``LeadershipLostError`` once another leader has taken over.

        What was seen before a check that passes is not a successor's. What is done afterwards may come too late all the
        same, so it must be harmless then.
        """

    def release(self) -> None:
        """Give the folder up. That a leader with this token was here stays known."""


class Lock(Protocol):
    """What keeps other processes out of a folder."""

    def close(self) -> None:
        """Let the others in."""


class Storage(Protocol):
    """Durable files below one root. Names are relative to the root, or locations (``locations.is_absolute``)."""

    @property
    def root(self) -> str:
        """The location that names are relative to."""

    @property
    def sync(self) -> bool:
        """Whether a file counts as written only once it would survive a power failure."""

    @property
    def fence(self) -> Fence | None:
        """What lets only the leader publish and delete, if there can be more than one."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def location(self, name: str) -> str:
        """Return the absolute name of a file."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that can be read in parts: only the ranges that are read are fetched."""

    def list(self, folder: str) -> Iterator[str]:
        """Yield the names of files and folders directly in a folder, sorted; nothing if there is no such folder."""

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""

    def size(self, name: str) -> int:
        """Return how many bytes a file has."""

    def modified_ns(self, name: str) -> int:
        """Return when a file was written, in nanoseconds since 1970; 0 if there is none."""

    @property
    def is_reachable(self) -> bool:
        """Whether the place of the root can be seen from here, so that a missing file is known to be missing."""

    # --- writing ------------------------------------------------------------------------------------------------------

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Create a file that is written in parts, under a name no other process uses. If that fails, none is left."""

    def write(self, name: str, data: bytes) -> None:
        """Create a file at once, under a name no other process uses."""

    def copy(self, source: str, name: str) -> None:
        """Copy a file, of this storage or by absolute name, to a new name."""

    def flush(self, names: Iterable[str]) -> None:
        """Make files durable that were created by a storage without ``sync``."""

    # --- what only a leader may do ------------------------------------------------------------------------------------

    def publish(self, name: str, data: bytes) -> None:
        """Write a file that appears whole or not at all. After an error a new file is not there, and will not be."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""

    def delete_all(self, names: Iterable[str]) -> None:
        """Delete several files, which may cost less than one after the other. Those that are not there are skipped."""

    def delete_folder(self, name: str) -> None:
        """Delete a folder and the files in it, if it is there."""

    def drop_folder(self, name: str) -> None:
        """Delete a folder whose files were deleted, and what a crash left in it, where folders are things."""

    def delete_root(self) -> None:
        """Delete everything, and give up what the fence protects."""

    def drafts(self, folders: Iterable[str]) -> Iterator[str]:
        """Yield the names of what a crash left half published in these folders."""

    def seal(self, name: str) -> None:
        """Make sure that a file which is not there cannot be published any more by a leader that was deposed."""

    # --- related storages ---------------------------------------------------------------------------------------------

    def at(self, root: str, *, sync: bool | None = None) -> Storage:
        """Return a storage with another root, which may be of another kind, protected by the same fence."""

    def fenced(self, token: int) -> Storage:
        """Return this storage with a fence at its root, for the leader with this token. It must be claimed first."""

    def unfenced(self) -> Storage:
        """Return this storage without its fence."""

    def prepare(self) -> None:
        """Make sure that files can be created below the root."""

    def lock(self, name: str, *, shared: bool) -> Lock | None:
        """Keep other processes out; None if one of them is in. A storage that cannot lock relies on its fence."""

    @property
    def has_locks(self) -> bool:
        """Whether it can lock. One that cannot is fenced also where there is no election."""

    def remove_root(self) -> None:
        """Remove the root itself if nothing is in it."""
