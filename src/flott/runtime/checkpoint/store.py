"""The job's directory: read and write fixed inputs and checkpoints, find the latest, lock it. Driver side.

Without high availability one process has the directory, as long as it holds the lock. A JobManager that another may
depose has a token (``leadership``): then there is a fence round the directory, and the storage lets only the leader
with the highest token publish and delete there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from flott.common._ids import EpochId
from flott.datastream.connectors.base import CommitPermit, _issue_permit
from flott.errors import ConfigurationError, FlottError, JobLockedError, StateError, StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import (
    EpochInput,
    Manifest,
    decode_input,
    decode_manifest,
    encode_input,
    encode_manifest,
)
from flott.runtime.checkpoint.pins import read_pins
from flott.runtime.checkpoint.retention import Discard
from flott.runtime.storage import Fence, Storage, open_storage
from flott.runtime.storage.locations import last_part_of, parent_of, resolved
from flott.runtime.storage.protocol import Lock


@dataclass
class CheckpointStore:
    """Durable fixed inputs and checkpoints of one job."""

    storage: Storage
    token: int = 0  #: of the leader this process works for; 0: there is no other
    _lock: Lock | None = None
    _complete: set[int] = field(default_factory=set)  #: checkpoints that this store published or read

    def __post_init__(self) -> None:
        if self.token or not self.storage.has_locks:
            self.storage = self.storage.fenced(self.token)

    @property
    def fence(self) -> Fence | None:
        """Return what keeps a deposed leader out, if there can be one."""
        return self.storage.fence

    def claim(self, job_name: str, *, take_over: bool = True) -> None:
        """Make the directory this process's own; refuses one that another process is running.

        In an object store, which has no locks, a process that starts a job deposes the one that runs it; with
        ``take_over`` False it is refused.

        A leader takes it over from leaders with lower tokens, whether they live or not (LeadershipLostError: there is
        one with a higher token).
        """
        root = self.storage.root
        try:
            self.storage.prepare()
            # Leaders share it: a deposed one that was stopped must not keep the next one out.
            lock = self.storage.lock(paths.LOCK, shared=bool(self.token))
        except (OSError, StorageError) as error:
            reason = getattr(error.__cause__ or error, "strerror", None) or str(error)
            raise ConfigurationError(
                f"The checkpoint directory {root} cannot be used: {reason}. Set execution.checkpointing.dir to a folder"
                " this user may write to."
            ) from error
        if lock is None:
            raise JobLockedError(
                f"Another process is running the job in {root}. Stop it first, or start this one without"
                " execution.state-recovery.from-latest to run it as a new job."
            )
        self._lock = lock
        try:
            self._raise_fence(take_over)
            if not self.storage.exists(paths.JOB):
                description = {"version": 1, "job-name": job_name, "job-id": last_part_of(root)}
                self.storage.publish(paths.JOB, json.dumps(description).encode())
        except FlottError:
            self.release()
            raise
        self._delete_drafts()

    def _raise_fence(self, take_over: bool) -> None:
        if self.fence is not None:
            self.fence.claim(take_over=take_over)
        elif tokens := paths.leader_tokens(self.storage.list(paths.FENCE)):
            raise JobLockedError(
                f"The job in {self.storage.root} is run by a JobManager with high availability (token {tokens[-1]})."
                " Ask that one, or the next one, which goes on with the job; if there is to be none any more, delete"
                f" {self.storage.location(paths.FENCE)}."
            )

    @property
    def is_claimed(self) -> bool:
        """Return whether the directory is this process's own at present."""
        return self._lock is not None

    def release(self) -> None:
        """Let go of the directory."""
        if self._lock is not None:
            if self.fence is not None:
                self.fence.release()
            self._lock.close()
            self._lock = None

    def _delete_drafts(self) -> None:
        """Delete what a crash left half written. No other process writes here while the lock is held."""
        with contextlib.suppress(StorageError):  # what is left does no harm
            checkpoints = [name for name in self.storage.list(".") if paths.id_of_checkpoint(name) is not None]
            self.storage.delete_all(self.storage.drafts((".", paths.PINS, *checkpoints)))
            for name in self.storage.list(paths.INPUTS):
                if paths.epoch_of_input(name) is None:
                    self.storage.delete(paths.in_inputs_folder(name))

    # --- fixed inputs ------------------------------------------------------------------------------------------------

    def write_input(self, fixed: EpochInput) -> None:
        """Fix the input of an epoch, durably."""
        self.storage.publish(paths.epoch_input(fixed.epoch), encode_input(fixed))

    def read_input(self, epoch: EpochId) -> EpochInput | None:
        """Return the input of an epoch, or None if it was never fixed."""
        name = paths.epoch_input(epoch)
        if not self.storage.exists(name):
            return None
        return decode_input(self.storage.read(name), self.storage.location(name))

    def forget_input(self, epoch: EpochId) -> None:
        """Delete the input of an epoch, so that it is chosen again. Nothing that was made of it is visible."""
        self.storage.delete(paths.epoch_input(epoch))

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def publish(self, manifest: Manifest, now_ms: int | None = None) -> CommitPermit:
        """Complete a checkpoint: the atomic commit point of its epoch. Return the permit to commit its output.

        ``now_ms``: the clock of the epoch, for committers that act by the time. None: when the checkpoint completed.
        """
        self.storage.publish(paths.metadata(manifest.checkpoint_id), encode_manifest(manifest))
        self._complete.add(manifest.checkpoint_id)
        now_ms = manifest.completed_at_ms if now_ms is None else now_ms
        return _issue_permit(manifest.checkpoint_id, now_ms, final=manifest.final, leader=self.token)

    def permit_again(self, manifest: Manifest, now_ms: int) -> CommitPermit:
        """Return a permit to commit once more what may have been committed before a failure.

        Refuses a checkpoint that this store has neither published nor read as complete.
        """
        if manifest.checkpoint_id not in self._complete:
            raise StateError(
                f"Checkpoint {manifest.checkpoint_id} of job {manifest.job_id} is not complete in {self.storage.root},"
                " so its output cannot be committed."
            )
        return _issue_permit(manifest.checkpoint_id, now_ms, replay=True, final=manifest.final, leader=self.token)

    def read(self, checkpoint_id: EpochId) -> Manifest:
        """Return a completed checkpoint."""
        name = paths.metadata(checkpoint_id)
        manifest = decode_manifest(self.storage.read(name), self.storage.location(name))
        self._complete.add(checkpoint_id)
        return manifest

    def checkpoint_ids(self) -> list[EpochId]:
        """Return the numbers of all completed checkpoints, ascending."""
        ids = sorted(ident for name in self.storage.list(".") if (ident := paths.id_of_checkpoint(name)) is not None)
        return [ident for ident in ids if self.storage.exists(paths.metadata(ident))]

    def completed(self) -> list[Manifest]:
        """Return all completed checkpoints, oldest first."""
        return [self.read(ident) for ident in self.checkpoint_ids()]

    # --- deleting ----------------------------------------------------------------------------------------------------

    def discard(self, discard: Discard) -> None:
        """Delete what retention lets go."""
        self.storage.delete_all(paths.metadata(checkpoint_id) for checkpoint_id in discard.checkpoints)
        for checkpoint_id in discard.checkpoints:
            self._complete.discard(checkpoint_id)
            self.storage.drop_folder(paths.checkpoint(checkpoint_id))
        self.storage.delete_all([*map(paths.epoch_input, discard.checkpoints), *discard.files])

    def state_files(self) -> Iterator[str]:
        """Yield the names in the state folder."""
        return self.storage.list(paths.STATE)

    def stale_inputs(self, oldest_retained: int) -> Iterator[EpochId]:
        """Yield the epochs before the oldest retained checkpoint whose input is still there."""
        for name in self.storage.list(paths.INPUTS):
            epoch = paths.epoch_of_input(name)
            if epoch is not None and epoch < oldest_retained:
                yield epoch

    def abandon(self) -> None:
        """Let go of a directory in which nothing was ever planned, and of the directory itself.

        With high availability it stays: the next leader may have better luck.
        """
        is_alone = self._lock is not None and not self.token
        if is_alone and not any(self.storage.list(paths.INPUTS)) and not self.completed():
            self.delete_everything()
        self.release()

    def delete_everything(self) -> None:
        """Delete all checkpoints of a job that is over. What savepoints refer to stays until they are disposed of.

        With high availability, that it is over must be durable elsewhere by now: a leader that finds nothing would
        start the job again from the beginning.
        """
        pinned = {name for pin in read_pins(self.storage) if not pin.is_void(self.storage) for name in pin.files}
        if not pinned:
            self.storage.delete_root()
            self.release()
            return
        for name in self.storage.list("."):
            if paths.id_of_checkpoint(name) is not None:
                self.storage.delete(f"{name}/{paths.METADATA}")
                self.storage.delete_folder(name)
        for name in map(paths.in_state_folder, [*self.state_files()]):
            if name not in pinned:
                self.storage.delete(name)
        self.storage.delete_folder(paths.INPUTS)
        self.release()


def latest_job(directory: str, job_name: str, sync: bool) -> Storage | None:
    """Return the directory of the most recent job of this name that has a completed checkpoint.

    If none has, return that of the most recent one that came as far as planning an epoch.
    """
    best: tuple[tuple[bool, int], Storage] | None = None
    jobs = open_storage(directory, sync=sync)
    for job_id in jobs.list("."):
        storage = jobs.at(jobs.location(job_id))
        if _job_name(storage) != job_name:
            continue
        checkpoints = _times(storage, (paths.metadata_in(name) for name in storage.list(".")))
        inputs = _times(storage, (paths.input_in(name) for name in storage.list(paths.INPUTS)))
        found = bool(checkpoints), max([*checkpoints, *inputs], default=0)
        if (checkpoints or inputs) and (best is None or found > best[0]):
            best = found, storage
    return best[1] if best is not None else None


def _job_name(storage: Storage) -> str | None:
    try:
        return json.loads(storage.read(paths.JOB))["job-name"]  # type: ignore[no-any-return]
    except (StorageError, ValueError, LookupError, TypeError):
        return None  # not a description of ours, or not any more


def _times(storage: Storage, names: Iterator[str | None]) -> list[int]:
    """Return when files were last written. A running job may delete some meanwhile."""
    times = [storage.modified_ns(name) for name in names if name is not None]
    return [time for time in times if time]


def open_checkpoint(path: str, sync: bool) -> tuple[Storage, Manifest]:
    """Open the checkpoint or savepoint at a location (its folder, or the metadata file in it).

    Returns the storage below which the files are that it names, and its manifest.
    """
    folder = resolved(folder_of_snapshot(path))
    storage = open_storage(folder, sync=sync)
    metadata = storage.location(paths.METADATA)
    if not storage.exists(paths.METADATA):
        raise StateError(
            f"{path} is not a completed checkpoint or savepoint: there is no {paths.METADATA} file in it. Give the path"
            " of a folder such as .../<job id>/chk-42 or .../savepoint-ab12cd-0123456789ab."
        )
    try:
        data = storage.read(paths.METADATA)
    except StorageError as error:
        reason = getattr(error.__cause__, "strerror", None) or str(error)
        raise StateError(f"{metadata} cannot be read: {reason}.") from error
    manifest = decode_manifest(data, metadata)
    if manifest.savepoint is None and paths.id_of_checkpoint(last_part_of(folder)) != manifest.checkpoint_id:
        raise StateError(
            f"{path} holds the metadata of checkpoint {manifest.checkpoint_id} of job {manifest.job_id}, away from the"
            " job's directory, where its files are. Give the path of the folder there; to take a checkpoint elsewhere,"
            " export it."
        )
    return (storage if manifest.savepoint is not None else storage.at(parent_of(folder))), manifest


def folder_of_snapshot(path: str) -> str:
    """Return the folder of a checkpoint or savepoint, given that or the metadata file in it."""
    return parent_of(path.rstrip("/")) if last_part_of(path) == paths.METADATA else path
