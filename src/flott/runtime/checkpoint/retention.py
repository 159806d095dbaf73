"""What may be deleted: pure. Which checkpoints stay, and which files belong to no checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flott.common.job_status import JobStatus
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest


@dataclass(frozen=True)
class Discard:
    """Names to delete, checkpoints first: a crash in between leaves orphans, never a checkpoint without its files."""

    checkpoints: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


def subsumed(completed: Sequence[Manifest], retained: int) -> tuple[Manifest, ...]:
    """Return the completed checkpoints (oldest first) that go. The last one stays: the job continues from it."""
    return tuple(completed[: -max(retained, 1)])


def orphans(
    state_files: Iterable[str], is_referenced: Callable[[str], bool], completed_epoch: int
) -> tuple[str, ...]:
    """Return files of the state folder that have no owner and that no running epoch can be writing.

    They stem from attempts that failed, or from a crash before their checkpoint was complete.
    """
    found = []
    for name in state_files:
        epoch = paths.epoch_of_state_file(name)
        path = paths.in_state_folder(name)
        if epoch is not None and epoch <= completed_epoch and not is_referenced(path):
            found.append(path)
    return tuple(found)


def outlive(status: JobStatus, retention: str) -> bool:
    """Return whether a job's checkpoints stay when it ends with this status: Flink's table of the retention modes.

    Those of a job that was torn from its work, or suspended to go on elsewhere, always do.
    """
    match status:
        case JobStatus.FINISHED:
            return False
        case JobStatus.FAILED:
            return retention != "NO_EXTERNALIZED_CHECKPOINTS"
        case JobStatus.CANCELED:
            return retention == "RETAIN_ON_CANCELLATION"
    return True
