"""Reading the input of a task and passing it to its subtasks, batch by batch. Task side.

Input comes from sources, which a subtask reads itself, and from other tasks, whose buffers the gate has collected.
Every function is a generator that yields after each batch, so that the caller can send what was produced meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flott.graph.job_graph import JobEdge
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.gate import InputGate
from flott.runtime.epoch.grouping import KeyGrouping
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.operators.source import SourceAssignment, SourceOperator

#: What every subtask of every source reads.
Assignments = Mapping[OperatorId, tuple[SourceAssignment, ...]]


def read_input(task: StageTask, gate: InputGate, assignments: Assignments) -> Iterator[None]:
    """Read everything that a task has to process in an epoch."""
    yield from _read_leading(task, gate)
    for subtask in task.subtasks:
        task.turn_to(subtask)
        head = subtask.operators[0]
        if isinstance(head, SourceOperator):
            assigned = assignments.get(subtask.vertex.head.id)
            for _ in head.read(assigned[subtask.index] if assigned is not None else SourceAssignment()):
                yield  # slices of an epoch have an end, so there is no pause
        else:
            yield from _read_exchanged(task, subtask, gate)


def _read_leading(task: StageTask, gate: InputGate) -> Iterator[None]:
    """Read inputs that come before all others. The last vertex is first: no other vertex has sent it records yet."""
    for subtask in reversed(task.subtasks):
        leading = subtask.operators[0].leading_input
        for edge in task.incoming[subtask.vertex.id]:
            if edge.input_index == leading:
                task.turn_to(subtask)
                yield from _read_edge(subtask, gate, edge)


def _read_exchanged(task: StageTask, subtask: Subtask, gate: InputGate) -> Iterator[None]:
    """Read what other tasks have sent to a subtask."""
    keys = subtask.vertex.head.node.keys if subtask.by_key else ()
    by_key: list[JobEdge] = []
    for edge in task.incoming[subtask.vertex.id]:
        if keys and keys[edge.input_index] is not None:
            by_key.append(edge)
        else:
            yield from _read_edge(subtask, gate, edge)
    if by_key:
        yield from _read_by_key(task, subtask, gate, by_key)


def _read_edge(subtask: Subtask, gate: InputGate, edge: JobEdge) -> Iterator[None]:
    take = subtask.input(edge.input_index, edge.index)
    for batch, origin in subtask.announced(edge.input_index, gate.batches(edge.index, subtask.index)):
        subtask.scope.origin = origin
        take(batch)
        yield
    subtask.scope.origin = None


def _read_by_key(task: StageTask, subtask: Subtask, gate: InputGate, edges: list[JobEdge]) -> Iterator[None]:
    """Read keyed inputs of a batch job: all records of one key, then its timers, then the next key."""
    takes = [subtask.input(index) for index in range(len(subtask.vertex.head.node.keys))]
    grouping = KeyGrouping(task.image.settings.input_memory_bytes)
    try:
        for edge in edges:
            for payload in gate.payloads(edge.index, subtask.index):
                subtask.group(edge.input_index, edge.index, payload, grouping)
                yield
        for batch in grouping.batches():
            if batch is None:
                subtask.end_keys()
            else:
                index, rows = batch
                takes[index](rows)
            yield
    finally:
        grouping.close()
