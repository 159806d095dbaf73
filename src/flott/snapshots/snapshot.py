"""A checkpoint or savepoint, opened to be read. Driver side."""

from __future__ import annotations

import os
from functools import cached_property

from flott.common.job_client import JobClient
from flott.errors import StateError, StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.store import CheckpointStore, open_checkpoint
from flott.runtime.storage import Storage, open_storage
from flott.runtime.storage.locations import last_part_of, normalized, resolved
from flott.snapshots.listing import listing
from flott.snapshots.operators import OperatorView
from flott.snapshots.views import StateView

#: How often the latest checkpoint of a running job is looked for, if it is deleted while it is being opened.
_ATTEMPTS = 10

Place = str | os.PathLike[str] | JobClient


def open_snapshot_at(place: Place) -> StateSnapshot:
    """Open a checkpoint or a savepoint, or the latest checkpoint of a job.

    ``place`` is the folder of a checkpoint (``.../chk-42``) or of a savepoint, the directory of a job
    (``execution.checkpointing.dir`` and the job's id), or what ``execute_async()`` returned. The job may be running:
    nothing is locked, and nothing is written.
    """
    path = _path_of(place)
    if last_part_of(path) == paths.METADATA or open_storage(path).exists(paths.METADATA):
        storage, manifest = open_checkpoint(path, sync=False)
        return StateSnapshot(storage, manifest, path)
    return _latest(path)


class StateSnapshot:
    """The state of a job at one moment: the end of an epoch."""

    def __init__(self, storage: Storage, manifest: Manifest, path: str):
        self.path = path  #: of the checkpoint or savepoint
        self.job_id = manifest.job_id
        self.job_name = manifest.job_name
        self.checkpoint_id = manifest.checkpoint_id  #: the number of the epoch that it ends
        self.completed_at_ms = manifest.completed_at_ms
        self.is_savepoint = manifest.savepoint is not None
        self.storage = storage
        self.manifest = manifest

    @cached_property
    def operators(self) -> tuple[OperatorView, ...]:
        """Return all operators of the job, those without state as well."""
        return tuple(
            OperatorView(ident, operator, self.storage, self._label)
            for ident, operator in self.manifest.operators.items()
        )

    def operator(self, name: str) -> OperatorView:
        """Return the operator with this uid; or id; or name, if no other has the same."""
        by_name = [operator for operator in self.operators if operator.name == name]
        for operator in self.operators:
            if name in (operator.uid, operator.id):
                return operator
        if len(by_name) == 1:
            return by_name[0]
        known = ", ".join(sorted(operator.uid or f"{operator.name!r} (no uid)" for operator in self.operators))
        found = "several operators are called" if by_name else "there is no operator"
        raise StateError(f"In {self._label} {found} {name!r}. It has {known or 'none'}; describe() shows their ids.")

    def state(self, operator: str, name: str) -> StateView:
        """Return one state of one operator."""
        return self.operator(operator).state(name)

    def describe(self, *, count_keys: bool = True) -> str:
        """Operators and states with their types and sizes, as text. Counting keys reads all of the state."""
        return listing(self.header, self.operators, count_keys=count_keys)

    @property
    def header(self) -> str:
        """Return what it is, in one line."""
        kind = "savepoint" if self.is_savepoint else "checkpoint"
        return f"{kind} of job {self.job_name!r} ({self.job_id}) after epoch {self.checkpoint_id}"

    def latest(self) -> StateSnapshot:
        """Return the latest checkpoint of the same job, which may be this one."""
        if self.is_savepoint:
            raise StateError(f"{self.path} is a savepoint, which stands for itself: open the job's directory.")
        return _latest(self.storage.root)

    @property
    def _label(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<{self.header}: {self.path}>"


def _path_of(place: Place) -> str:
    return place.get_checkpoint_directory() if isinstance(place, JobClient) else normalized(os.fspath(place))


def _latest(directory: str) -> StateSnapshot:
    """Return the latest checkpoint of a job, all of whose files are there."""
    store = CheckpointStore(open_storage(resolved(directory), sync=False))
    last_seen: int | None = None
    for _ in range(_ATTEMPTS):
        found = [] if os.path.isfile(directory) else store.checkpoint_ids()
        if not found:
            break
        last_seen = found[-1]
        try:
            manifest = store.read(last_seen)
            if all(store.storage.exists(name) for name in manifest.files):
                return StateSnapshot(store.storage, manifest, store.storage.location(paths.checkpoint(last_seen)))
        except StorageError as error:  # it was deleted meanwhile: there is a newer one
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
    if last_seen is not None:
        raise StateError(
            f"Checkpoint {last_seen} in {directory} refers to files that do not exist. If the job is running, it"
            " deletes checkpoints faster than they can be opened: raise execution.checkpointing.num-retained."
        )
    raise StateError(f"There is no completed checkpoint in {directory}. {_what_is_there(directory)}")


def _what_is_there(directory: str) -> str:
    storage = open_storage(directory, sync=False)
    if not storage.exists("."):
        return "There is no such folder."
    if os.path.isfile(directory):
        return "It is a file, not a folder."
    if jobs := [name for name in storage.list(".") if storage.at(storage.location(name)).exists(paths.JOB)]:
        listed = ", ".join(jobs[:5]) + (", ..." if jobs[5:] else "")
        return f"It holds the directories of jobs: open one of them ({listed})."
    if storage.exists(paths.JOB):
        return "Its job has not completed an epoch."
    return "Give the path of a checkpoint (.../chk-42), of a savepoint, or of a job's directory."
