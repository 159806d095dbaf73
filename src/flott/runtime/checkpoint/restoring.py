"""A job begins with a snapshot of another: its files are copied or taken over before the first epoch. Driver side.

    NO_CLAIM   the files are copied into the job's own directory; the snapshot stays its user's, and may be deleted
    CLAIM      the job refers to them where they are and owns them: when no checkpoint of it needs any of them any more,
               the snapshot is deleted as a whole

Either way the snapshot becomes the job's own first checkpoint, under the number it had. From there on nothing in the
job knows that it did not begin by itself; a crash before the first epoch finds that checkpoint.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from uuid import uuid4
from zlib import crc32

from flott.common._ids import JobId
from flott.errors import CorruptStateError, FlottError, JobLockedError, StateError, StorageError
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest, with_names
from flott.runtime.checkpoint.pins import Pin, write_pin
from flott.runtime.checkpoint.savepoint import located
from flott.runtime.checkpoint.savepoint_files import discard_checkpoint, dispose_savepoint
from flott.runtime.checkpoint.store import CheckpointStore, folder_of_snapshot, open_checkpoint
from flott.runtime.managed_state.files.channel_file import verify_channel_file
from flott.runtime.managed_state.files.file_sequence import StateFile
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.managed_state.operator.operator_shares import OperatorStateFile
from flott.runtime.storage import Storage, open_storage
from flott.runtime.storage.locations import is_absolute, last_part_of, resolved

log = logging.getLogger("flott.job")

#: Copying more than this is announced, and again after every so many bytes.
LARGE_BYTES = 1 << 30


class ClaimMode(Enum):
    """Whose files a snapshot's are once a job has been started from it."""

    NO_CLAIM = "NO_CLAIM"
    CLAIM = "CLAIM"


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint or savepoint that a job is to begin with."""

    folder: str
    root: str  #: what the names in the manifest are relative to
    manifest: Manifest

    @property
    def located(self) -> Manifest:
        """Return the manifest with absolute names."""
        return located(self.manifest, self.root)


def open_snapshot(path: str, sync: bool) -> Snapshot:
    """Return the checkpoint or savepoint at a path, whole: a file that is missing or cut off is found here."""
    storage, manifest = open_checkpoint(path, sync)
    snapshot = Snapshot(resolved(folder_of_snapshot(path)), storage.root, manifest)
    sizes = {file.name: file.size for _, _, files in _subtask_files(snapshot.located) for file in files}
    sizes |= {file.name: file.size for file in snapshot.located.channels}
    for name, expected in sizes.items():
        try:
            found = storage.size(name)
        except StorageError as error:
            reason = getattr(error.__cause__, "strerror", None) or str(error)
            raise StateError(
                f"The snapshot {snapshot.folder} is incomplete: its file {name} cannot be read ({reason})."
                " Checkpoints of a running job go away as it runs on: take a savepoint to start another job from."
            ) from error
        if found != expected:
            raise CorruptStateError(
                f"The snapshot {snapshot.folder} is damaged: its file {name} has {found} bytes, expected {expected}."
            )
    return snapshot


def begin_with(snapshot: Snapshot, store: CheckpointStore, job_name: str, mode: ClaimMode) -> None:
    """Make a snapshot the first checkpoint of a job that has none. The store is the job's, and claimed by it."""
    manifest, job_id = snapshot.located, JobId(last_part_of(store.storage.root))
    if manifest.savepoint is not None and manifest.savepoint.drained:
        log.warning(
            "%s was taken when its job was drained: its sources have ended and event time is at its end. The job that"
            " starts from it finishes at once.", snapshot.folder,
        )  # fmt: skip
    if mode is ClaimMode.CLAIM:
        _claim(snapshot, store, job_id)
    else:
        manifest = _copied(manifest, store.storage)
    # Accumulators are results of a job, as in Flink, not a part of its state.
    own = replace(
        manifest, job_id=job_id, job_name=job_name, seed=crc32(job_id.encode()),
        final=False, accumulators=None, savepoint=None,
    )  # fmt: skip
    store.publish(own)


def _copied(manifest: Manifest, storage: Storage) -> Manifest:
    names: dict[str, str] = {}
    attempt = uuid4().hex[:8]  # a name is never used by two processes, of which one may be deposed
    for operator, subtask, files in _subtask_files(manifest):
        for file in files:
            number = f"{len(names)}-{attempt}"
            names.setdefault(file.name, paths.restored(operator, subtask, manifest.checkpoint_id, number))
    channels = {file.name: file for file in manifest.channels}
    for index, (name, channel) in enumerate(channels.items()):
        number = f"{len(names)}-{attempt}"
        names[name] = paths.restored(channel.sections[0].edge.target, index, manifest.checkpoint_id, number)
    total, done, announced = manifest.state_bytes, 0, 0
    if total >= LARGE_BYTES:
        log.info("Copying %d state files, %.1f GB, into %s.", len(names), total / 1e9, storage.root)
    for source, name in names.items():
        # Damage that is found in a copy does not say which file it came from.
        if source in channels:
            verify_channel_file(storage, channels[source])
        else:
            with open_state_file(storage, source) as original:
                original.verify()
        storage.copy(source, name)
        done += storage.size(name)
        if done - announced >= LARGE_BYTES:
            log.info("Copied %.1f of %.1f GB.", done / 1e9, total / 1e9)
            announced = done
    return with_names(manifest, names.__getitem__)


def _subtask_files(manifest: Manifest) -> Iterator[tuple[OperatorId, int, tuple[StateFile | OperatorStateFile, ...]]]:
    for ident, operator in manifest.operators.items():
        for index, subtask in enumerate(operator.subtasks):
            yield ident, index, subtask.files


# --- claims ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A snapshot that a job was started from and owns."""

    folder: str
    checkpoint_id: int

    def is_needed(self, retained: Sequence[Manifest], pins: Iterable[Pin]) -> bool:
        """Return whether a checkpoint is the snapshot itself, or a checkpoint or a pin refers to a file of it."""
        if any(manifest.checkpoint_id <= self.checkpoint_id for manifest in retained):
            return True
        files = {name for manifest in retained for name in manifest.files} | {n for pin in pins for n in pin.files}
        return any(is_absolute(name) for name in files)


def _claim(snapshot: Snapshot, store: CheckpointStore, job_id: JobId) -> None:
    """Say durably that the snapshot is this job's. The files of a checkpoint are also held on to where they are."""
    claim = {"version": 1, "snapshot": snapshot.folder, "checkpoint-id": snapshot.manifest.checkpoint_id}
    store.storage.publish(paths.CLAIMED, json.dumps(claim).encode())
    if snapshot.manifest.savepoint is None:
        home = open_storage(snapshot.root, sync=store.storage.sync)
        former = CheckpointStore(home)
        try:
            former.claim(snapshot.manifest.job_name, take_over=False)
        except JobLockedError as error:
            raise StateError(
                f"{snapshot.folder} belongs to a job that is running, so its files cannot be claimed. Stop that job"
                " first, or set execution.state-recovery.claim-mode to NO_CLAIM."
            ) from error
        try:
            claim_folder = store.storage.location(paths.CLAIM)
            write_pin(home, Pin(paths.pin_of_claim(job_id), claim_folder, snapshot.manifest.files))
        finally:
            former.release()


def read_claim(storage: Storage) -> Claim | None:
    """Return what the job was started from and owns, if there is such a thing."""
    if not storage.exists(paths.CLAIMED):
        return None
    try:
        content = json.loads(storage.read(paths.CLAIMED))
        return Claim(content["snapshot"], content["checkpoint-id"])
    except (LookupError, ValueError, TypeError) as error:
        where = storage.location(paths.CLAIMED)
        raise CorruptStateError(f"{where} is damaged: {type(error).__name__} {error}.") from error


def withdraw_claim(storage: Storage) -> None:
    """Give a claim up, since the job never started: the snapshot stays what it was."""
    claim = read_claim(storage)
    if claim is not None:
        root, manifest = open_checkpoint(claim.folder, storage.sync)
        if manifest.savepoint is None:
            root.delete(paths.pin(paths.pin_of_claim(last_part_of(storage.root))))
        storage.delete_folder(paths.CLAIM)


def settle_claim(claim: Claim, storage: Storage) -> None:
    """Delete a snapshot of which the job needs nothing any more."""
    try:
        home, manifest = open_checkpoint(claim.folder, storage.sync)
        if manifest.savepoint is None:
            inherited = read_claim(home)
            discard_checkpoint(home, manifest, paths.pin_of_claim(last_part_of(storage.root)))
            if inherited is not None and not home.exists(paths.JOB):
                settle_claim(inherited, home)  # the former job had taken over something itself
        else:
            dispose_savepoint(claim.folder, sync=storage.sync)
        log.info("Deleted %s: the job was started from it and does not need it any more.", claim.folder)
    except FlottError as error:
        log.warning("%s, which the job was started from, could not be deleted: %s", claim.folder, error)
    storage.delete_folder(paths.CLAIM)
