"""Distributes the snapshot of an operator over its subtasks, also over another parallelism. Pure. Driver side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.errors import StateError
from flott.graph.job_graph import ChainedOperator, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import OperatorSnapshot
from flott.runtime.epoch.plan import SubtaskState
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.managed_state.operator.operator_shares import deal_out
from flott.runtime.operators.watermarks import TimeProgress


def redistribute(
    snapshot: OperatorSnapshot | None, operator: ChainedOperator, *, resuming: bool = False
) -> tuple[SubtaskState, ...]:
    """Return the state that each subtask of an operator begins with. Without a snapshot it is empty.

    ``resuming``: the checkpoint is the one that the job was started from.
    """
    node = operator.node
    if snapshot is None:
        return tuple(SubtaskState() for _ in range(node.parallelism))
    if snapshot.has_keyed_state and snapshot.max_parallelism != node.max_parallelism:
        raise StateError(
            f"Operator {operator.label} has state in {snapshot.max_parallelism} key groups, but the program gives it a"
            f" maximum parallelism of {node.max_parallelism}. State cannot be cut differently afterwards: call"
            f" set_max_parallelism({snapshot.max_parallelism})."
        )
    if snapshot.has_keyed_state and not node.is_keyed:
        raise StateError(
            f"The checkpoint holds keyed state of operator {operator.label}, which is not keyed in this program. Put"
            " key_by(...) back, or give the operator another uid to start without that state."
        )
    operator_starts = deal_out(
        [subtask.operator_state for subtask in snapshot.subtasks], node.parallelism, resuming=resuming
    )
    if snapshot.parallelism == node.parallelism:
        return tuple(
            SubtaskState(subtask.watermark, subtask.sequence or (), subtask.progress or TimeProgress(), start)
            for subtask, start in zip(snapshot.subtasks, operator_starts, strict=True)
        )
    watermark = min((subtask.watermark for subtask in snapshot.subtasks), default=MIN_WATERMARK)
    return tuple(
        SubtaskState(
            watermark,
            _overlapping(snapshot, groups_of(subtask, node.max_parallelism, node.parallelism)),
            _progress(snapshot, subtask, node.parallelism),
            operator_starts[subtask],
        )
        for subtask in range(node.parallelism)
    )


def _progress(snapshot: OperatorSnapshot, subtask: int, parallelism: int) -> TimeProgress:
    """Return the progress of a watermark generator in the middle of a stream. It is lost if the parallelism changes."""
    kept = snapshot.subtasks[subtask].progress if snapshot.parallelism == parallelism else None
    return kept or TimeProgress()


def _overlapping(snapshot: OperatorSnapshot, groups: range) -> FileSequence:
    """Return the files of the former subtasks that owned any of these key groups, restricted to the groups.

    The sequences of several subtasks stand one after the other: they have no key in common, so their order is free.
    """
    sequence: list[StateFile] = []
    for index, subtask in enumerate(snapshot.subtasks):
        owned = groups_of(index, snapshot.max_parallelism, snapshot.parallelism)
        shared = range(max(owned.start, groups.start), min(owned.stop, groups.stop))
        if shared:
            sequence += (file.restricted(shared) for file in subtask.sequence or () if file.within(shared))
    return tuple(sequence)


def is_rescaled(operators: Mapping[OperatorId, OperatorSnapshot], graph: JobGraph) -> bool:
    """Return whether a checkpoint was made with another parallelism than the graph has."""
    return any(
        ident in operators and operators[ident].parallelism != operator.node.parallelism
        for ident, operator in graph.operators.items()
    )


def starts_of(
    before: Mapping[OperatorId, OperatorSnapshot], graph: JobGraph, *, resuming: bool
) -> dict[OperatorId, tuple[SubtaskState, ...]]:
    """Return the states that subtasks begin with. ``resuming``: the job was started from this checkpoint."""
    starts = {
        ident: redistribute(before.get(ident), operator, resuming=resuming)
        for ident, operator in graph.operators.items()
    }
    if is_rescaled(before, graph):
        return {ident: level(before.get(ident), states) for ident, states in starts.items()}
    return starts


def level(snapshot: OperatorSnapshot | None, states: tuple[SubtaskState, ...]) -> tuple[SubtaskState, ...]:
    """All subtasks of an operator begin where the slowest stood: any of them may get what would have come to that one.

    Needed for operators whose own parallelism stays, too: records may now reach another of their subtasks, and one that
    is ahead would call them late. The same holds for watermark generators in the middle of a stream.
    """
    if snapshot is None or not snapshot.subtasks:
        return states
    watermark = min(subtask.watermark for subtask in snapshot.subtasks)
    progress = _slowest([subtask.progress for subtask in snapshot.subtasks if subtask.progress is not None])
    return tuple(replace(state, watermark=watermark, progress=progress) for state in states)


def _slowest(found: list[TimeProgress]) -> TimeProgress:
    """The one that was waited for; if all were idle, the one that got furthest."""
    active = [progress for progress in found if not progress.idle]
    if active:
        chosen = min(active, key=lambda progress: progress.watermark)
    else:
        chosen = max(found, key=lambda progress: progress.watermark, default=TimeProgress(MIN_WATERMARK))
    seen = [progress.active_at_ms for progress in found if progress.active_at_ms is not None]
    return replace(chosen, active_at_ms=max(seen, default=None))
