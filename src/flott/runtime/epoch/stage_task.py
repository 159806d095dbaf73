"""A task of a stage: the subtasks that share it, connected to each other and to the outbox. Task side.

A task outlives an epoch: ``task_cache`` keeps it, opened, for the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from flott.graph.column_key import ColumnKey
from flott.graph.job_graph import JobEdge, JobVertex, VertexId
from flott.runtime.epoch.exchange import to_no_target
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.topology import Stage, Topology
from flott.runtime.epoch.wire import Row
from flott.runtime.operators.batch import Batch, Emit
from flott.runtime.operators.operator import EpochScope, RecordFailure


def _ignore(subtask: Subtask) -> None:
    pass


@dataclass
class StageTask:
    """The subtasks with one index of all vertices of a stage."""

    image: JobImage
    stage: Stage
    partition: int  #: the index of its subtasks
    subtasks: list[Subtask]  #: in the order in which records flow
    incoming: dict[VertexId, tuple[JobEdge, ...]]
    outbox: deque[Row] = field(default_factory=deque)  #: rows for other tasks that were not sent yet
    #: Called whenever another subtask begins to work: whatever fails or is logged next belongs to it.
    turn_to: Callable[[Subtask], None] = _ignore

    @staticmethod
    def build(
        image: JobImage, stage: Stage, partition: int, hands_over: Callable[[int], bool] = to_no_target
    ) -> StageTask:
        """Load the subtasks of a task and connect them.

        ``hands_over``: whether the subtasks with an index take records as they are, because they are in this process.
        """
        task = StageTask(image, stage, partition, [], {})
        scope = EpochScope()
        outgoing: dict[VertexId, tuple[JobEdge, ...]] = {}
        for ident in stage.vertices:
            if partition < image.shapes[ident].parallelism:
                vertex, edges_in, edges_out = image.load_vertex(ident)
                by_key = image.batch and _comes_by_key(vertex, edges_in, image.topology)
                task.subtasks.append(Subtask(image, vertex, edges_out, partition, scope, by_key))
                task.incoming[ident], outgoing[ident] = edges_in, edges_out
        by_vertex = {subtask.vertex.id: subtask for subtask in task.subtasks}
        neighbours: dict[int, Emit] = {
            edge.index: _from_neighbour(by_vertex[ident].input(edge.input_index, edge.index))
            for ident, edges in task.incoming.items()
            for edge in edges
            if edge.index in image.topology.local_edges
        }
        for subtask in task.subtasks:
            own = {edge.index for edge in outgoing[subtask.vertex.id]}
            subtask.compose(task.outbox.append, {i: emit for i, emit in neighbours.items() if i in own}, hands_over)
        return task

    def interrupt(self) -> None:
        """Make every operator that waits for something fail. May be called from any thread."""
        for subtask in self.subtasks:
            subtask.interrupt()

    def close(self) -> None:
        """Close all subtasks, and raise the first failure after all were closed."""
        failure: Exception | None = None
        for subtask in self.subtasks:
            try:
                subtask.close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def discard_local_state(self) -> None:
        """Delete local copies of the state of a closed task, which has moved to another host."""
        for subtask in self.subtasks:
            for slot in subtask.slots:
                if slot.keyed_state is not None:
                    slot.keyed_state.discard()

    def close_quietly(self) -> None:
        """Close a task that is given up. Its own failure was reported already."""
        with suppress(Exception):
            self.close()


def _comes_by_key(vertex: JobVertex, incoming: tuple[JobEdge, ...], topology: Topology) -> bool:
    """Return whether the keyed inputs of a vertex can be grouped by key: none comes from a vertex of the same task.

    Columns are not grouped: their operators work on many keys at a time.
    """
    keys = vertex.head.node.keys
    if any(key is not None and isinstance(key.selector, ColumnKey) for key in keys):
        return False
    keyed = [edge for edge in incoming if keys and keys[edge.input_index] is not None]
    return bool(keyed) and not any(edge.index in topology.local_edges for edge in keyed)


def _from_neighbour(take: Emit) -> Emit:
    """Return an input for another vertex of the task: positions in its batches are not positions in the source's."""

    def taken(batch: Batch) -> None:
        try:
            take(batch)
        except RecordFailure as failure:
            failure.index = None
            raise

    return taken
