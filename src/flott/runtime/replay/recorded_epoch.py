"""What a job's directory holds of an epoch: its input, the checkpoint before it, and its own if it completed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from zlib import crc32

from flott.common._ids import EpochId, JobId
from flott.errors import StateError, StorageError
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import EpochInput, Manifest
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.replay.overlay import OverlayStorage
from flott.runtime.storage import local_path, open_storage
from flott.runtime.storage.locations import last_part_of, resolved

_MORE = "execution.checkpointing.num-retained says how many checkpoints a job keeps"


@dataclass(frozen=True)
class RecordedEpoch:
    """An epoch as it ran, or was to run."""

    directory: str  #: of the job
    job_id: JobId
    input: EpochInput
    before: Manifest | None  #: None: it was the job's first, and began with nothing
    after: Manifest | None  #: None: it never completed
    resumed: bool  #: whether the job was started from ``before``
    held_in: str | None = None  #: a folder in which its files stay though the job deletes them
    #: So many records are read on from ``before``, instead of an input that was recorded. None: it was.
    read_on: int | None = None

    @property
    def epoch(self) -> EpochId:
        """Return its number."""
        return self.input.epoch

    @property
    def seed(self) -> int:
        """Return the seed of the job's random numbers."""
        known = self.after or self.before
        return known.seed if known is not None else crc32(self.job_id.encode())

    @property
    def attempt(self) -> int:
        """Return how often it was tried before it completed."""
        _, attempt = _attempt_of(self.after)
        return attempt

    @property
    def parallelism(self) -> dict[OperatorId, int]:
        """Return the parallelism of every operator; for an epoch that never completed, that of the epoch before."""
        known = self.after or self.before
        return {} if known is None else {ident: operator.parallelism for ident, operator in known.operators.items()}

    @property
    def files(self) -> frozenset[str]:
        """Return the state files of the checkpoints before and after the epoch."""
        return frozenset().union(*(manifest.files for manifest in (self.before, self.after) if manifest is not None))


def replayable(directory: str) -> list[EpochId]:
    """Return the epochs that can be replayed, ascending; the last one may have failed."""
    store = _store(directory)
    complete = set(store.checkpoint_ids())
    planned = {epoch for name in store.storage.list(paths.INPUTS) if (epoch := paths.epoch_of_input(name)) is not None}
    return sorted(epoch for epoch in planned if epoch - 1 in complete or epoch == 1)


def read_epoch(directory: str, epoch: EpochId) -> RecordedEpoch:
    """Return what is known of an epoch. If that is not enough to replay it, the error says which epochs there are."""
    store = _store(directory)
    complete = store.checkpoint_ids()
    fixed = store.read_input(epoch)
    if fixed is None or (epoch > 1 and epoch - 1 not in complete):
        raise StateError(_refusal(store, epoch, fixed is not None))
    if not fixed.slices:
        raise StateError(
            f"Epoch {epoch} was run by a pipelined job, whose input is not recorded, so it cannot be replayed. Epochs"
            " of jobs with execution.mode epochs can."
        )
    earlier = EpochId(epoch - 1)
    try:
        before = store.read(earlier) if earlier in complete else None
        after = store.read(epoch) if epoch in complete else None
    except StorageError as error:
        raise StateError(
            f"The job in {directory} deleted a checkpoint that epoch {epoch} needs while it was being read. {_MORE}."
        ) from error
    began_here = store.read_input(earlier) is not None
    resumed = _attempt_of(before)[0] != _attempt_of(after)[0] if after is not None else not began_here
    return RecordedEpoch(store.storage.root, JobId(last_part_of(store.storage.root)), fixed, before, after, resumed)


def read_ahead(directory: str, records: int) -> RecordedEpoch:
    """Return an epoch that never ran: it reads on from the latest checkpoint, at most so many records."""
    store = _store(directory)
    complete = store.checkpoint_ids()
    if not complete:
        raise StateError(f"The job in {directory} has no checkpoint yet.")
    try:
        before = store.read(complete[-1])
    except StorageError as error:
        raise StateError(f"The job in {directory} deleted checkpoint {complete[-1]} while it was read.") from error
    fixed = EpochInput(EpochId(before.checkpoint_id + 1), before.completed_at_ms, {})
    root = store.storage.root
    return RecordedEpoch(root, JobId(last_part_of(root)), fixed, before, None, False, read_on=records)


def runs_pipelined(directory: str) -> bool:
    """Return whether continuous tasks took the latest checkpoint: then its input was not recorded."""
    store = _store(directory)
    complete = store.checkpoint_ids()
    fixed = store.read_input(complete[-1]) if complete else None
    return fixed is not None and not fixed.slices


@contextmanager
def held(recorded: RecordedEpoch) -> Iterator[RecordedEpoch]:
    """Keep the files of an epoch for as long as they are needed: a running job deletes them."""
    with tempfile.TemporaryDirectory(prefix="flott-replay-") as folder:
        storage = OverlayStorage(folder, sync=False, base=recorded.directory)
        storage.hold(recorded.files)
        if not all(storage.exists(name) for name in recorded.files):
            raise StateError(
                f"The job in {recorded.directory} has let go of epoch {recorded.epoch} meanwhile. {_MORE}; --epoch"
                " latest takes the newest one."
            )
        yield replace(recorded, held_in=folder)


def _store(directory: str) -> CheckpointStore:
    storage = open_storage(resolved(local_path(directory)), sync=False)
    if not storage.exists(paths.JOB):
        raise StateError(
            f"{directory} is not the directory of a job: there is no {paths.JOB} in it. Give the folder below"
            " execution.checkpointing.dir that bears the job's id. The checkpoints of a job that finished are deleted."
        )
    return CheckpointStore(storage)


def _attempt_of(manifest: Manifest | None) -> tuple[str | None, int]:
    """Return the run that completed a checkpoint and its attempt, with which the id of every task attempt begins."""
    if manifest is None or not manifest.attempts:
        return None, 0
    run, attempt, *_ = manifest.attempts[0].split("-", 2)
    return run, int(attempt) if attempt.isdecimal() else 0


def _refusal(store: CheckpointStore, epoch: EpochId, has_input: bool) -> str:
    complete = store.checkpoint_ids()
    latest = complete[-1] if complete else 0
    if epoch > latest + 1 or (epoch == latest + 1 and not has_input):
        found = f"The job has not come to epoch {epoch}: the last one that completed is {latest or 'none'}."
    elif epoch in complete and not has_input:
        found = (
            f"Epoch {epoch} has no plan: the job was started from it, or it was the end of a drain, and read nothing."
        )
    else:
        found = (
            f"Epoch {epoch} begins with checkpoint {epoch - 1}, which is gone. The job keeps"
            f" {', '.join(map(str, complete)) or 'none'}; {_MORE}."
        )
    can = replayable(store.storage.root)
    return f"{found} Of {store.storage.root} can be replayed: {', '.join(map(str, can)) or 'no epoch'}."
