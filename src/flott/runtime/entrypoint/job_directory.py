"""The directory of a job: which one it is, what the job starts from, and what remains after its end. Driver side."""

from __future__ import annotations

import logging
import shutil
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace

from flott.common import _options as options
from flott.common._ids import JobId
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, FlottError
from flott.graph.job_graph import JobGraph
from flott.runtime.checkpoint.pins import read_pins
from flott.runtime.checkpoint.restoring import (
    ClaimMode,
    Snapshot,
    begin_with,
    open_snapshot,
    read_claim,
    settle_claim,
    withdraw_claim,
)
from flott.runtime.checkpoint.store import CheckpointStore, latest_job
from flott.runtime.jobmaster.listener import RestoredFrom
from flott.runtime.jobmaster.restored_state import restorable
from flott.runtime.storage import PosixStorage, open_storage
from flott.runtime.storage.locations import join, last_part_of, resolved

log = logging.getLogger("flott.job")


@dataclass(frozen=True)
class JobIdentity:
    """The id that a JobManager gives to a job. A job that has an id continues from what its directory holds."""

    job_id: JobId = field(default_factory=lambda: JobId(uuid.uuid4().hex))
    token: int = 0  #: the fencing token of the leader that runs the job; a later leader has a higher one


@dataclass
class JobDirectory:
    """A job's directory and what the job starts from."""

    job_id: JobId
    store: CheckpointStore
    temporary: bool = False  #: it is deleted when the job ends, because no directory is configured
    snapshot: Snapshot | None = None  #: what a new job starts from
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM

    @property
    def beginning(self) -> RestoredFrom | None:
        """Return the snapshot as listeners are told of it."""
        if self.snapshot is None:
            return None
        manifest = self.snapshot.manifest
        return RestoredFrom(manifest.checkpoint_id, self.snapshot.folder, manifest.savepoint is not None)

    def begin(self, job_name: str) -> None:
        """Take over the snapshot that the job starts from."""
        # This process has claimed the directory, so no other process completes a first checkpoint any more.
        if self.snapshot is not None and not self.store.checkpoint_ids():
            begin_with(self.snapshot, self.store, job_name, self.claim_mode)

    def abandon(self) -> None:
        """Remove the traces of a job that could not be started."""
        with suppress(FlottError):  # what prevented the start may prevent this, too
            if self.snapshot is not None and self.store.is_claimed:  # then this attempt wrote all of it
                withdraw_claim(self.store.storage)
                self.store.delete_everything()
            else:
                self.store.abandon()
        self.store.release()
        if self.temporary:
            shutil.rmtree(self.store.storage.root, ignore_errors=True)

    def close(self, keep: bool) -> None:
        """Keep the checkpoints of a job that has ended, or delete them and the snapshot that it has claimed."""
        try:
            if not keep:
                self._settle_claim()
                self.store.delete_everything()
            self.store.release()
        except FlottError as error:
            log.warning("The job's checkpoint directory could not be deleted: %s", error)

    def _settle_claim(self) -> None:
        storage = self.store.storage
        claim = read_claim(storage)
        if claim is not None and not claim.is_needed((), read_pins(storage)):
            settle_claim(claim, storage)


def choose_directory(configuration: Configuration, graph: JobGraph, identity: JobIdentity) -> JobDirectory:
    """Return the directory of a job: that of an earlier run of the job if there is one, or a new one."""
    directory = options.read(configuration, options.CHECKPOINT_DIR)
    sync = options.read(configuration, options.STORAGE_SYNC)
    job_id, token = identity.job_id, identity.token
    if directory is None:
        _refuse_unshared(configuration)
        if options.read(configuration, options.RECOVER_FROM_LATEST):
            raise ConfigurationError(
                "execution.state-recovery.from-latest needs to know where: set execution.checkpointing.dir to the"
                " directory of the earlier run."
            )
        beginning = _beginning(configuration, graph)
        root = tempfile.mkdtemp(prefix="flott-job-")
        # The directory is lost with this process, so writes need not wait for the disk.
        return JobDirectory(job_id, CheckpointStore(PosixStorage(root, sync=False)), True, *beginning)
    directory = resolved(directory)
    if options.read(configuration, options.RECOVER_FROM_LATEST):
        found = latest_job(directory, graph.name, sync)
        if found is not None:
            store = CheckpointStore(found, token=token)
            if completed := store.completed():
                ignore = options.read(configuration, options.IGNORE_UNCLAIMED_STATE)
                restorable(completed[-1], graph, found, ignore_unclaimed=ignore)
                # The job does not need the snapshot that it was first started from, which may be deleted by now.
                return JobDirectory(JobId(last_part_of(found.root)), store)
            return JobDirectory(JobId(last_part_of(found.root)), store, False, *_beginning(configuration, graph))
    store = CheckpointStore(open_storage(join(directory, job_id), sync=sync), token=token)
    if store.storage.exists(".") and store.checkpoint_ids():
        return JobDirectory(job_id, store)  # the job ran before, under another JobManager or in a process that died
    return JobDirectory(job_id, store, False, *_beginning(configuration, graph))


def _beginning(configuration: Configuration, graph: JobGraph) -> tuple[Snapshot | None, ClaimMode]:
    """Return the savepoint or checkpoint that a new job starts from, and who owns its files."""
    mode = options.read(configuration, options.RECOVERY_CLAIM_MODE)
    if mode == "LEGACY":
        raise ConfigurationError(
            "execution.state-recovery.claim-mode LEGACY left it open whose files they are, and Flink has given it up."
            " Set NO_CLAIM to leave the savepoint alone, or CLAIM to let the job delete it when it is not needed."
        )
    path = options.read(configuration, options.RECOVERY_PATH)
    if not path:
        return None, ClaimMode(mode)
    sync = options.read(configuration, options.STORAGE_SYNC)
    snapshot = open_snapshot(path, sync)
    ignore = options.read(configuration, options.IGNORE_UNCLAIMED_STATE)
    manifest = restorable(snapshot.manifest, graph, open_storage(snapshot.root, sync=sync), ignore_unclaimed=ignore)
    return replace(snapshot, manifest=manifest), ClaimMode(mode)


def _refuse_unshared(configuration: Configuration) -> None:
    if options.needs_shared_storage(configuration):
        master = configuration.get_string("spark.master", "")
        raise ConfigurationError(
            f"With spark.master {master} state must be where all executors can reach it: set"
            " execution.checkpointing.dir to a directory on shared storage."
        )
