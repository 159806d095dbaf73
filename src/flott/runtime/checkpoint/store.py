"""The job's directory: read and write fixed inputs and checkpoints, find the latest, lock it. Driver side.

Without high availability one process has the directory, as long as it holds the lock. A JobManager that another may
depose has a token (``leadership``): then there is a fence round the directory, and the storage lets only the leader
with the highest token publish and delete there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

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
from flott.runtime.fence import FOLDER as FENCE
from flott.runtime.fence import Fence, open_seats
from flott.runtime.storage import DRAFT, LocalStorage


@dataclass
class CheckpointStore:
    """Durable fixed inputs and checkpoints of one job."""

    storage: LocalStorage
    token: int = 0  #: of the leader this process works for; 0: there is no other
    _lock: IO[str] | None = None

    def __post_init__(self) -> None:
        if self.token:
            fence = Fence(str(Path(self.storage.root, FENCE)), self.token, self.storage.sync)
            self.storage = replace(self.storage, fence=fence)

    @property
    def fence(self) -> Fence | None:
        """What keeps a deposed leader out, if there can be one."""
        return self.storage.fence

    def claim(self, job_name: str) -> None:
        """Make the directory this process's own; refuses one that another process is running.

        A leader takes it over from leaders with lower tokens, whether they live or not (LeadershipLostError: there is
        one with a higher token).
        """
        root = Path(self.storage.root)
        try:
            root.mkdir(parents=True, exist_ok=True)
            lock = open(root / paths.LOCK, "a")  # noqa: SIM115  # held until release()
        except OSError as error:
            raise ConfigurationError(
                f"The checkpoint directory {root} cannot be used: {error.strerror}. Set execution.checkpointing.dir to"
                " a folder this user may write to."
            ) from error
        try:
            # Leaders share it: a deposed one that was stopped must not keep the next one out.
            fcntl.flock(lock, (fcntl.LOCK_SH if self.token else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise JobLockedError(
                f"Another process is running the job in {root}. Stop it first, or start this one without"
                " execution.state-recovery.from-latest to run it as a new job."
            ) from error
        self._lock = lock
        try:
            self._raise_fence()
            if not self.storage.exists(paths.JOB):
                description = {"version": 1, "job-name": job_name, "job-id": root.name}
                self.storage.publish(paths.JOB, json.dumps(description).encode())
        except FlottError:
            self.release()
            raise
        self._delete_drafts()

    def _raise_fence(self) -> None:
        if self.fence is not None:
            self.fence.claim()
        elif seats := open_seats(Path(self.storage.root, FENCE)):
            raise JobLockedError(
                f"The job in {self.storage.root} is run by a JobManager with high availability (token"
                f" {seats[-1].partition('-')[0]}). Ask that one, or the next one, which goes on with the job; if there"
                f" is to be none any more, delete {Path(self.storage.root, FENCE)}."
            )

    @property
    def is_claimed(self) -> bool:
        """Whether the directory is this process's own at present."""
        return self._lock is not None

    def release(self) -> None:
        """Let go of the directory."""
        if self._lock is not None:
            if self.fence is not None:
                self.fence.release()
            self._lock.close()
            self._lock = None

    def _delete_drafts(self) -> None:
        """Delete what a crash left half written. Nobody else writes here while the lock is held."""
        with contextlib.suppress(StorageError):  # they are in nobody's way
            checkpoints = [name for name in self.storage.list(".") if paths.id_of_checkpoint(name) is not None]
            for folder in (".", paths.PINS, *checkpoints):
                for name in self.storage.list(folder):
                    if name.startswith(DRAFT):
                        self.storage.delete(f"{folder}/{name}")
            for name in self.storage.list(paths.INPUTS):
                if paths.epoch_of_input(name) is None:
                    self.storage.delete(f"{paths.INPUTS}/{name}")

    # --- fixed inputs ------------------------------------------------------------------------------------------------

    def write_input(self, fixed: EpochInput) -> None:
        """Fix the input of an epoch, durably."""
        self.storage.publish(paths.epoch_input(fixed.epoch), encode_input(fixed))

    def read_input(self, epoch: int) -> EpochInput | None:
        """Return the input of an epoch, or None if it was never fixed."""
        name = paths.epoch_input(epoch)
        if not self.storage.exists(name):
            return None
        return decode_input(self.storage.read(name), str(Path(self.storage.root, name)))

    def forget_input(self, epoch: int) -> None:
        """Delete the input of an epoch, so that it is chosen again. Nothing that was made of it is visible."""
        self.storage.delete(paths.epoch_input(epoch))

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def publish(self, manifest: Manifest) -> None:
        """Complete a checkpoint: the atomic commit point of its epoch."""
        self.storage.publish(paths.metadata(manifest.checkpoint_id), encode_manifest(manifest))

    def read(self, checkpoint_id: int) -> Manifest:
        """A completed checkpoint."""
        name = paths.metadata(checkpoint_id)
        return decode_manifest(self.storage.read(name), str(Path(self.storage.root, name)))

    def checkpoint_ids(self) -> list[int]:
        """The numbers of all completed checkpoints, ascending."""
        ids = sorted(ident for name in self.storage.list(".") if (ident := paths.id_of_checkpoint(name)) is not None)
        return [ident for ident in ids if self.storage.exists(paths.metadata(ident))]

    def completed(self) -> list[Manifest]:
        """All completed checkpoints, oldest first."""
        return [self.read(ident) for ident in self.checkpoint_ids()]

    # --- deleting ----------------------------------------------------------------------------------------------------

    def discard(self, discard: Discard) -> None:
        """Delete what retention lets go."""
        for checkpoint_id in discard.checkpoints:
            self.storage.delete(paths.metadata(checkpoint_id))
            self.storage.delete_folder(paths.checkpoint(checkpoint_id))
            self.storage.delete(paths.epoch_input(checkpoint_id))
        for name in discard.files:
            self.storage.delete(name)

    def state_files(self) -> Iterator[str]:
        """Names in the state folder."""
        return self.storage.list(paths.STATE)

    def stale_inputs(self, oldest_retained: int) -> Iterator[int]:
        """Yield the epochs before the oldest retained checkpoint whose input is still there."""
        for name in self.storage.list(paths.INPUTS):
            epoch = paths.epoch_of_input(name)
            if epoch is not None and epoch < oldest_retained:
                yield epoch

    def abandon(self) -> None:
        """Let go of a directory in which nothing was ever planned, and of the directory itself.

        With high availability it stays: the next leader may have better luck.
        """
        is_alone = self._lock is not None and self.fence is None
        if is_alone and not any(self.storage.list(paths.INPUTS)) and not self.completed():
            self.delete_everything()
        self.release()

    def delete_everything(self) -> None:
        """The job is over and nobody wants its checkpoints. What savepoints refer to stays, until they are disposed.

        With high availability, that it is over must be durable elsewhere by now: who finds nothing begins anew.
        """
        pinned = {name for pin in read_pins(self.storage) if not pin.is_void for name in pin.files}
        if not pinned:
            if self.fence is not None:
                self.fence.check()
            self.release()
            replace(self.storage, fence=None).delete_folder(".")
            return
        for name in self.storage.list("."):
            if paths.id_of_checkpoint(name) is not None:
                self.storage.delete(f"{name}/{paths.METADATA}")
                self.storage.delete_folder(name)
        for name in [f"{paths.STATE}/{name}" for name in self.state_files()]:
            if name not in pinned:
                self.storage.delete(name)
        self.storage.delete_folder(paths.INPUTS)
        self.release()


def latest_job(directory: str, job_name: str, sync: bool) -> LocalStorage | None:
    """The directory of the most recent job of this name that has a completed checkpoint.

    If none has, of the most recent one that came as far as planning an epoch.
    """
    best: tuple[bool, int, str] | None = None
    for path in sorted(Path(directory).glob(f"*/{paths.JOB}")):
        if _job_name(path) != job_name:
            continue
        checkpoints = _times(path.parent, "chk-*/_metadata")
        times = checkpoints + _times(path.parent, "plans/*.json")
        found = (bool(checkpoints), max(times, default=0), str(path.parent))
        if times and (best is None or found[:2] > best[:2]):
            best = found
    return LocalStorage(best[2], sync) if best is not None else None


def _job_name(path: Path) -> str | None:
    try:
        return json.loads(path.read_bytes())["job-name"]  # type: ignore[no-any-return]
    except (OSError, ValueError, LookupError, TypeError):
        return None  # not a description of ours, or not any more


def _times(folder: Path, pattern: str) -> list[int]:
    """When files were last written. A running job may delete some meanwhile."""
    times = []
    for path in folder.glob(pattern):
        with contextlib.suppress(FileNotFoundError):
            times.append(os.stat(path).st_mtime_ns)
    return times


def open_checkpoint(path: str, sync: bool) -> tuple[LocalStorage, Manifest]:
    """The checkpoint or savepoint at a path (its folder, or the metadata file in it): its manifest, and the storage
    below which the files are that it names."""
    folder = Path(path).parent if Path(path).name == paths.METADATA else Path(path)
    metadata = folder / paths.METADATA
    if not metadata.is_file():
        raise StateError(
            f"{path} is not a completed checkpoint or savepoint: there is no {paths.METADATA} file in it. Give the path"
            " of a folder such as .../<job id>/chk-42 or .../savepoint-ab12cd-0123456789ab."
        )
    try:
        data = metadata.read_bytes()
    except OSError as error:
        raise StateError(f"{metadata} cannot be read: {error.strerror}.") from error
    manifest = decode_manifest(data, str(metadata))
    if manifest.savepoint is None and paths.id_of_checkpoint(folder.name) != manifest.checkpoint_id:
        raise StateError(
            f"{path} holds the metadata of checkpoint {manifest.checkpoint_id} of job {manifest.job_id}, away from the"
            " job's directory, where its files are. Give the path of the folder there; to take a checkpoint elsewhere,"
            " export it."
        )
    root = folder if manifest.savepoint is not None else folder.parent
    return LocalStorage(str(root.resolve()), sync), manifest
