"""What may be deleted: pure. A file lives as long as any retained checkpoint refers to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest


@dataclass(frozen=True)
class Discard:
    """Names to delete, checkpoints first: a crash in between leaves orphans, never a checkpoint without its files."""

    checkpoints: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


def subsumed(completed: Sequence[Manifest], retained: int) -> tuple[tuple[Manifest, ...], Discard]:
    """Which of the completed checkpoints (oldest first) stay, and what goes with the others."""
    keep = tuple(completed[-max(retained, 1) :])  # the last one always stays: the job continues from it
    drop = completed[: len(completed) - len(keep)]
    still_used = frozenset().union(*(manifest.files for manifest in keep)) if keep else frozenset()
    unused = frozenset().union(*(manifest.files for manifest in drop)) - still_used if drop else frozenset()
    return keep, Discard(tuple(manifest.checkpoint_id for manifest in drop), tuple(sorted(unused)))


def orphans(state_files: Iterable[str], retained: Sequence[Manifest], completed_epoch: int) -> tuple[str, ...]:
    """State files that no retained checkpoint refers to and no running epoch can be writing.

    They stem from attempts that failed, or from a crash before their checkpoint was complete.
    """
    used = frozenset().union(*(manifest.files for manifest in retained)) if retained else frozenset()
    found = []
    for name in state_files:
        epoch = paths.epoch_of_state_file(name)
        path = f"{paths.STATE}/{name}"
        if epoch is not None and epoch <= completed_epoch and path not in used:
            found.append(path)
    return tuple(found)
