"""Savepoints as files: make one self-contained, dispose of one, remove one that was half written. Driver side.

Everything here works without the job that took the savepoint, running or not, and without its program.
"""

from __future__ import annotations

import logging
from uuid import uuid4

from flott.errors import JobLockedError, StateError, StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest, encode_manifest
from flott.runtime.checkpoint.pins import delete_pin, read_pins
from flott.runtime.checkpoint.savepoint import exported, located
from flott.runtime.checkpoint.store import CheckpointStore, open_checkpoint
from flott.runtime.storage import DRAFT, Storage, open_storage
from flott.runtime.storage.locations import is_absolute, join, resolved

log = logging.getLogger("flott.job")


def export_savepoint(path: str, directory: str, *, sync: bool = True) -> str:
    """Copy a savepoint, or a retained checkpoint, with all it refers to into a new folder in a directory.

    The copy depends on nothing and may be moved. Returns its path.
    """
    origin, manifest = open_checkpoint(path, sync)
    ident = paths.savepoint(manifest.job_id, uuid4().hex[:12])
    copied, copies = exported(located(manifest, origin.root), ident)
    target = open_storage(join(resolved(directory), ident), sync=sync)
    try:
        for source, name in copies.items():
            target.copy(source, name)
        target.publish(paths.METADATA, encode_manifest(copied))
    except BaseException:
        remove_half_written(target)
        raise
    return target.root


def dispose_savepoint(path: str, *, sync: bool = True) -> None:
    """Delete a savepoint and what only it needs. Refuses to delete anything that is not a savepoint.

    Jobs that were started from it in NO_CLAIM mode do not need it any more.
    """
    storage, manifest = open_checkpoint(path, sync)
    if manifest.savepoint is None:
        raise StateError(
            f"{path} is a checkpoint of job {manifest.job_id}, not a savepoint: the job deletes it when it does not"
            " need it any more. If the job is gone for good, delete its directory."
        )
    # The metadata first: from here on it is no savepoint any more, whatever happens.
    storage.delete(paths.METADATA)
    if manifest.savepoint.home is None:
        for name in sorted(manifest.files):
            if not is_absolute(name):
                storage.delete(name)
    else:
        release_pin(storage.at(manifest.savepoint.home), manifest.savepoint.ident, manifest.job_name)
    storage.remove_root()


def release_pin(home: Storage, name: str, job_name: str) -> None:
    """Delete a pin, and the files that only it kept, unless the job runs and deletes them itself."""
    pins = {pin.name: pin for pin in read_pins(home)}
    if name not in pins:
        return
    delete_pin(home, name)
    store = CheckpointStore(home)
    try:
        store.claim(job_name, take_over=False)
    except JobLockedError:
        return
    try:
        _delete_unneeded(store, pins[name].files)
    finally:
        store.release()


def discard_checkpoint(home: Storage, manifest: Manifest, pin: str) -> None:
    """Delete a checkpoint of a job that does not run, and what only it needed, after its claim was settled."""
    store = CheckpointStore(home)
    store.claim(manifest.job_name, take_over=False)
    try:
        delete_pin(home, pin)
        home.delete(paths.metadata(manifest.checkpoint_id))
        home.delete_folder(paths.checkpoint(manifest.checkpoint_id))
        _delete_unneeded(store, manifest.files)
    finally:
        store.release()


def _delete_unneeded(store: CheckpointStore, files: frozenset[str]) -> None:
    """Delete those files of a job that does not run to which neither its checkpoints nor its pins refer."""
    completed, pins = store.completed(), list(read_pins(store.storage))
    if not completed and not pins:
        store.delete_everything()
        return
    needed = {name for manifest in completed for name in manifest.files} | {name for pin in pins for name in pin.files}
    for name in sorted(files - needed):
        if not is_absolute(name):
            store.storage.delete(name)


def remove_half_written(savepoint: Storage) -> bool:
    """Remove what a savepoint that failed has left; whether that was possible. If not, at least it has no metadata."""
    try:
        savepoint.delete(paths.METADATA)
        for name in savepoint.list("."):
            if paths.is_savepoint_file(name) or name.startswith(DRAFT):
                savepoint.delete(name)
    except StorageError as error:
        log.warning("The unfinished savepoint in %s could not be removed: %s", savepoint.root, error)
        return False
    savepoint.remove_root()
    return True
