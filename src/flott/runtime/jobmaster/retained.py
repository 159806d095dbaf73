"""The checkpoints that a job keeps, and the files that go with those it does not. Driver side.

Which ones go is decided by ``retention``; here the decision is carried out: metadata first, then the files that
no owner in the registry refers to any more. A crash in between leaves orphans, never a checkpoint without its files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from flott.errors import CorruptStateError, StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.pins import Pin, delete_pin, read_pins, write_pin
from flott.runtime.checkpoint.registry import SharedRegistry
from flott.runtime.checkpoint.restoring import Claim, read_claim, settle_claim
from flott.runtime.checkpoint.retention import Discard, orphans, subsumed
from flott.runtime.checkpoint.savepoint_files import remove_half_written
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage.locations import is_absolute

log = logging.getLogger("flott.job")


class RetainedCheckpoints:
    """Completed checkpoints, oldest first, and who refers to which file."""

    def __init__(self, store: CheckpointStore, retain: int, keeps_two: Callable[[], bool] = lambda: False):
        self.registry = SharedRegistry(store.storage.root)
        self.completed: tuple[Manifest, ...] = ()
        #: Whether a state file of this name is being written, to which no checkpoint refers yet.
        self.is_being_written: Callable[[str], bool] = lambda name: False
        self._store = store
        self._retain = retain
        self._keeps_two = keeps_two  #: whether a reader, such as a preview, needs the epoch between the last two
        self._pinned: set[str] = set()  #: owners that stand for durable pins
        self._pinning = threading.Lock()
        self._claim: Claim | None = None  #: the snapshot the job was started from, if it owns it
        self._deleting = threading.Lock()
        self._undeleted: set[str] = set()  #: unreferenced files that could not be deleted yet

    def open(self) -> None:
        """Read what earlier runs of the job left: checkpoints, and pins whose savepoints exist."""
        for manifest in self._store.completed():
            self.add(manifest)
        for pin in read_pins(self._store.storage):
            if self._is_settled(pin):
                delete_pin(self._store.storage, pin.name)
        self._read_pins()
        self._claim = read_claim(self._store.storage)

    def _is_settled(self, pin: Pin) -> bool:
        """Return whether a pin is obsolete after a crash. A half-written savepoint is removed first."""
        storage = self._store.storage
        if pin.is_void(storage):
            savepoint = storage.at(pin.savepoint)
            savepoint.seal(paths.METADATA)  # a deposed leader that was about to complete it cannot do so any more
            if pin.is_void(storage):
                return remove_half_written(savepoint)
        return not pin.files

    def add(self, manifest: Manifest) -> None:
        """Add a completed checkpoint."""
        self.registry.register(_owner(manifest), manifest.files)
        self.completed = (*self.completed, manifest)

    def subsume(self) -> None:
        """Delete the checkpoints that later ones replace, and what only they needed."""
        gone = subsumed(self.completed, max(self._retain, 2) if self._keeps_two() else self._retain)
        try:
            self._store.discard(Discard(checkpoints=tuple(manifest.checkpoint_id for manifest in gone)))
        except StorageError as error:
            log.warning("Old checkpoints could not be deleted yet: %s", error)
            return  # they stay known, with their files, and go next time
        self.completed = self.completed[len(gone) :]
        self.delete([name for manifest in gone for name in self.registry.release(_owner(manifest))])
        if self._claim is not None:
            self._settle(self._claim)

    def _settle(self, claim: Claim) -> None:
        """Delete what the job was started from and owns, once it does not need it any more."""
        try:
            if not claim.is_needed(self.completed, read_pins(self._store.storage)):
                settle_claim(claim, self._store.storage)
                self._claim = None
        except (StorageError, CorruptStateError) as error:
            log.warning("%s could not be deleted yet: %s", claim.folder, error)

    def pin(self, pin: Pin) -> None:
        """Keep the files of a savepoint beyond the checkpoints they belong to, durably. From any thread."""
        with self._pinning:
            write_pin(self._store.storage, pin)
            owner = paths.pin(pin.name)
            self.registry.register(owner, pin.files)
            self._pinned.add(owner)

    def unpin(self, name: str) -> None:
        """Release the files of a savepoint that does not need them or does not exist. From any thread."""
        with self._pinning:
            delete_pin(self._store.storage, name)
            owner = paths.pin(name)
            self._pinned.discard(owner)
        self.release(owner)

    def release(self, owner: str) -> None:
        """Release the files of an owner and delete those that no other owner refers to."""
        self.delete(self.registry.release(owner))

    def delete(self, names: Iterable[str]) -> None:
        """Delete unreferenced files, from any thread. Those that cannot be deleted are tried again."""
        failure: StorageError | None = None
        with self._deleting:
            wanted = {*names, *self._undeleted}
            # What the job was started from and owns is deleted as a whole: see ``restoring``.
            wanted = {name for name in wanted if not (self.registry.is_referenced(name) or is_absolute(name))}
            try:
                self._store.storage.delete_all(sorted(wanted))
                wanted = set()
            except StorageError as error:
                failure = error
            self._undeleted = wanted
        if failure is not None:
            log.warning("%d old state files could not be deleted yet: %s", len(self._undeleted), failure)

    def delete_state_files(self, chosen: Callable[[str], bool]) -> None:
        """Delete the chosen files of the state folder that are not referenced."""
        try:
            names = [paths.in_state_folder(name) for name in self._store.state_files()]
        except StorageError as error:
            log.warning("Old state files could not be listed: %s", error)
        else:
            self.delete(name for name in names if chosen(name))

    def sweep(self, completed_epoch: int, last_begun: int | None = None) -> None:
        """Delete what crashes and failed attempts left behind. Called while no epoch runs.

        ``last_begun``: the epoch that tasks had come to, if it was not the next one.
        """
        try:
            self._read_pins()
            # Files of the next epoch stem from a failed attempt at it.
            begun = max(completed_epoch + 1, last_begun or 0)
            self.delete(orphans(self._store.state_files(), self._is_in_use, begun))
            oldest = self.completed[0].checkpoint_id if self.completed else completed_epoch + 1
            self._store.discard(Discard(checkpoints=tuple(self._store.stale_inputs(oldest))))
        except (StorageError, CorruptStateError) as error:
            log.warning("Old files could not be deleted yet: %s", error)

    def _is_in_use(self, name: str) -> bool:
        return self.is_being_written(name) or self.registry.is_referenced(name)

    def _read_pins(self) -> None:
        """Follow what was pinned, and unpinned by a disposal in some other process."""
        with self._pinning:
            found = {paths.pin(pin.name): pin.files for pin in read_pins(self._store.storage)}
            for owner in self._pinned - found.keys():
                self.release(owner)
            for owner in found.keys() - self._pinned:
                self.registry.register(owner, found[owner])
            self._pinned = set(found)


def _owner(manifest: Manifest) -> str:
    return paths.checkpoint(manifest.checkpoint_id)
