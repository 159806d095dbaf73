"""The steps of a task, each a function of its own. Task side.

    restore_state   bring every subtask to the version of its state that a plan names
    begin           start processing, or continue after save_state: timers that are due fire
    read_input      read batches and push them through the subtasks        (``input_reading``)
    advance_time    advance event time, and tell the receivers
    save_state      make changed state durable, and report                 (``state_saving``)

``flott.runtime.epoch.task`` calls them once per epoch, in this order. A task that runs continuously can call
``read_input`` for the buffers that have arrived, ``advance_time`` when event time has advanced, and ``save_state``,
followed by ``begin``, when a checkpoint is due (``tests/unit/runtime/epoch/test_task_steps.py`` does so).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from flott.graph.job_graph import VertexId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.gate import combine
from flott.runtime.epoch.input_reading import read_input as read_input
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.state_saving import save_subtask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.wire import TIME, Row
from flott.runtime.operators.operator import EventTime
from flott.runtime.storage import Storage

#: The event time that every operator of a vertex has reached, by the position of the operator.
Times = dict[VertexId, list[EventTime]]


@dataclass(frozen=True)
class SavedSubtask:
    """A subtask whose state is durable."""

    subtask: Subtask
    operators: dict[OperatorId, OperatorReport]
    wakeup_ms: int | None  #: when it needs another epoch, with input or without


def restore_state(task: StageTask, plan: EpochPlan, attempt_id: str) -> None:
    """Bring all subtasks to the state that a plan names, and open functions that are not open yet."""
    for subtask in task.subtasks:
        task.turn_to(subtask)
        subtask.restore(plan, attempt_id)


def begin(task: StageTask) -> None:
    """Start processing, or continue after ``save_state``. The last subtask is first, so that it is ready for others."""
    for subtask in reversed(task.subtasks):
        task.turn_to(subtask)
        subtask.begin()


class TimedInput(Protocol):
    """What knows how far event time has come on the edges into a task."""

    def time(self, edge: int, subtask: int) -> EventTime:
        """Return how far event time has come on an edge: the minimum over its channels."""


def advance_time(task: StageTask, gate: TimedInput) -> Times:
    """Advance event time in all subtasks to the minimum of their inputs."""
    times: Times = {}
    for subtask in task.subtasks:
        task.turn_to(subtask)
        inputs = [
            times[edge.source][edge.source_operator]
            if edge.index in task.image.topology.local_edges
            else gate.time(edge.index, subtask.index)
            for edge in task.incoming[subtask.vertex.id]
        ]
        times[subtask.vertex.id] = subtask.advance(combine(inputs))
    return times


def time_rows(task: StageTask, times: Times, attempt_id: str) -> Iterator[Row]:
    """Return one row for each receiving task, with the event time of all edges to it."""
    entries: dict[tuple[int, int], list[tuple[int, int, bool, bool]]] = {}
    for subtask in task.subtasks:
        for index, partition in subtask.partitions.items():
            edge = partition.edge
            time = times[subtask.vertex.id][edge.source_operator]
            for receiver in partition.receivers():
                address = (task.image.topology.stage_of[edge.target], receiver)
                entries.setdefault(address, []).append((index, time.watermark, time.idle, time.ended))
    for (stage, receiver), found in entries.items():
        yield stage, receiver, TIME, task.stage.index, task.partition, 0, (attempt_id, found)


def save_state(task: StageTask, attempt_id: str, storage: Storage | None = None) -> list[SavedSubtask]:
    """Make the state of all subtasks durable: in the job's storage, or in what takes its place."""
    saved = []
    for subtask in task.subtasks:
        task.turn_to(subtask)
        wakeup_ms = subtask.next_wakeup_ms()  # first: saving may empty the state it is read from
        saved.append(SavedSubtask(subtask, save_subtask(subtask, attempt_id, storage), wakeup_ms))
    return saved
