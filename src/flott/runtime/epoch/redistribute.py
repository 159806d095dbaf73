"""Snapshot x new parallelism -> where each subtask begins: pure. Driver side."""

from __future__ import annotations

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.errors import StateError
from flott.graph.job_graph import ChainedOperator
from flott.runtime.checkpoint.manifest import OperatorSnapshot
from flott.runtime.epoch.plan import SubtaskState
from flott.runtime.operators.watermarks import TimeProgress
from flott.runtime.state.key_groups import groups_of
from flott.runtime.state.keyed_state import Chain


def redistribute(
    snapshot: OperatorSnapshot | None, operator: ChainedOperator, claimed: bool = True
) -> tuple[SubtaskState, ...]:
    """Where the subtasks of an operator begin, given its snapshot (None: from nothing).

    The files of a checkpoint that is not claimed belong to another job: they are read once and written anew.
    """
    node = operator.node
    if snapshot is None:
        return tuple(SubtaskState() for _ in range(node.parallelism))
    if snapshot.has_state and snapshot.max_parallelism != node.max_parallelism:
        raise StateError(
            f"Operator {operator.label} has state in {snapshot.max_parallelism} key groups, but the program gives it a"
            f" maximum parallelism of {node.max_parallelism}. State cannot be cut differently afterwards: call"
            f" set_max_parallelism({snapshot.max_parallelism})."
        )
    if snapshot.has_state and not node.is_keyed:
        raise StateError(
            f"The checkpoint holds keyed state of operator {operator.label}, which is not keyed in this program. Put"
            " key_by(...) back, or give the operator another uid to start without that state."
        )
    if snapshot.parallelism == node.parallelism and claimed:
        return tuple(
            SubtaskState(subtask.watermark, subtask.chain or (), (), subtask.progress or TimeProgress())
            for subtask in snapshot.subtasks
        )
    watermark = min((subtask.watermark for subtask in snapshot.subtasks), default=MIN_WATERMARK)
    return tuple(
        SubtaskState(
            watermark,
            (),
            _overlapping(snapshot, groups_of(subtask, node.max_parallelism, node.parallelism)),
            _progress(snapshot, subtask, node.parallelism),
        )
        for subtask in range(node.parallelism)
    )


def _progress(snapshot: OperatorSnapshot, subtask: int, parallelism: int) -> TimeProgress:
    """What a watermark generator in the middle of the stream had seen; nobody's after a change of parallelism."""
    kept = snapshot.subtasks[subtask].progress if snapshot.parallelism == parallelism else None
    return kept or TimeProgress()


def _overlapping(snapshot: OperatorSnapshot, groups: range) -> tuple[Chain, ...]:
    """The chains of the former subtasks that owned any of these key groups."""
    chains = []
    for index, subtask in enumerate(snapshot.subtasks):
        owned = groups_of(index, snapshot.max_parallelism, snapshot.parallelism)
        if subtask.chain and owned.start < groups.stop and groups.start < owned.stop:
            chains.append(subtask.chain)
    return tuple(chains)
