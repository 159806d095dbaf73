"""What a savepoint consists of: a checkpoint's manifest in, a savepoint's out. Pure. Driver side.

A savepoint is taken of a checkpoint whose output is committed, so it holds no committables: a job that starts
from it has nothing left to make visible, however much later that is and wherever the output has gone meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from flott.common._savepoint_format import SavepointFormatType
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot, SavepointMark, SubtaskSnapshot, with_names
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.file_sequence import StateFile
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.managed_state.ttl.time_to_live import Horizon
from flott.runtime.storage.locations import join, last_part_of

#: One operator subtask.
Place = tuple[OperatorId, int]


@dataclass(frozen=True)
class CanonicalWork:
    """What must be written before a canonical savepoint is complete: compacted keyed state, copied operator state."""

    compactions: Mapping[Place, CompactionOrder]
    copies: Mapping[str, str]  #: file of the job -> name in the savepoint's folder


def canonical_work(manifest: Manifest, folder: str) -> CanonicalWork:
    """Return which files a canonical savepoint in a folder needs."""
    compactions: dict[Place, CompactionOrder] = {}
    copies: dict[str, str] = {}
    for (ident, index), operator, subtask in _subtasks(manifest):
        if subtask.sequence:
            groups = groups_of(index, operator.max_parallelism, operator.parallelism)
            target = join(folder, paths.keyed_state(ident, index))
            horizon = Horizon(manifest.completed_at_ms, subtask.watermark, detached=True)
            compactions[ident, index] = CompactionOrder(
                subtask.sequence, (groups.start, groups.stop), target, True, horizon
            )
        if subtask.operator_state is not None:
            copies.setdefault(subtask.operator_state.name, paths.operator_state(ident, index))
    return CanonicalWork(compactions, copies)


def canonical(manifest: Manifest, ident: str, work: CanonicalWork, compacted: Mapping[Place, StateFile]) -> Manifest:
    """Return the manifest of a canonical savepoint once its files are written: all names are relative to its folder."""

    def subtask_of(place: Place, subtask: SubtaskSnapshot) -> SubtaskSnapshot:
        sequence, items = subtask.sequence, subtask.operator_state
        if sequence:
            file = compacted[place]
            sequence = (StateFile(last_part_of(file.name), file.size, is_base=True),)
        if items is not None:
            items = replace(items, name=work.copies[items.name])
        return replace(subtask, sequence=sequence, operator_state=items)

    operators = {
        operator_id: replace(
            operator,
            subtasks=tuple(subtask_of((operator_id, i), subtask) for i, subtask in enumerate(operator.subtasks)),
        )
        for operator_id, operator in manifest.operators.items()
    }
    mark = SavepointMark(ident, SavepointFormatType.CANONICAL, drained=manifest.final)
    return _without_job(replace(manifest, operators=operators), mark)


def native(manifest: Manifest, ident: str, home: str) -> Manifest:
    """Return the manifest of a native savepoint: all names are absolute."""
    mark = SavepointMark(ident, SavepointFormatType.NATIVE, home, drained=manifest.final)
    return _without_job(located(manifest, home), mark)


def exported(manifest: Manifest, ident: str) -> tuple[Manifest, dict[str, str]]:
    """Return a self-contained savepoint of a snapshot whose names are absolute, and what to copy: file -> name.

    The files are copied as they are, so it needs neither the program nor its classes. It is not known
    whether the output of a checkpoint was committed, so its committables stay.
    """
    copies = {name: paths.exported(number) for number, name in enumerate(sorted(manifest.files))}
    drained = manifest.savepoint.drained if manifest.savepoint is not None else manifest.final
    mark = SavepointMark(ident, SavepointFormatType.CANONICAL, drained=drained)
    copied = replace(with_names(manifest, copies.__getitem__), savepoint=mark, accumulators=None, final=False)
    return copied, copies


def located(manifest: Manifest, root: str) -> Manifest:
    """Return the manifest with absolute names, given the folder that its relative ones are relative to."""
    return with_names(manifest, lambda name: join(root, name))


def _without_job(manifest: Manifest, mark: SavepointMark) -> Manifest:
    """Return the manifest without what concerns only the job that made it."""
    return replace(manifest, savepoint=mark, committables={}, attempts=(), accumulators=None, final=False)


def _subtasks(manifest: Manifest) -> Iterator[tuple[Place, OperatorSnapshot, SubtaskSnapshot]]:
    for ident, operator in manifest.operators.items():
        for index, subtask in enumerate(operator.subtasks):
            yield (ident, index), operator, subtask
