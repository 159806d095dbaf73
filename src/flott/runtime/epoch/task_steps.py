"""The steps of a task, each a function of its own. Task side.

    restore_state   bring every subtask to the version of its state that a plan names
    begin           start processing, or continue after save_state: timers that are due fire
    read_input      read batches and push them through the subtasks        (``input_reading``)
    advance_time    advance event time, and tell the receivers
    save_state      make changed state durable, and report                 (``state_saving``)
    begin_saving    the same in small steps, between which processing continues

``flott.runtime.epoch.task`` calls them once per epoch, in this order. A task that runs continuously can call
``read_input`` for the buffers that have arrived, ``advance_time`` when event time has advanced, and ``save_state``,
followed by ``begin``, when a checkpoint is due (``tests/unit/runtime/epoch/test_task_steps.py`` does so).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from flott.common._stepwise import Stepwise
from flott.graph.job_graph import JobEdge, VertexId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.gate import combine
from flott.runtime.epoch.input_reading import read_input as read_input
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.state_saving import save_subtask, saving_subtask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.wire import TIME, Row
from flott.runtime.operators.operator import EventTime, Operator
from flott.runtime.storage import Storage

#: The event time that every operator of a vertex has reached, by the position of the operator.
Times = dict[VertexId, list[EventTime]]


@dataclass(frozen=True)
class SavedSubtask:
    """A subtask whose state is durable."""

    subtask: Subtask
    operators: dict[OperatorId, OperatorReport]
    wakeup_ms: int | None  #: when it needs another epoch, with input or without


@dataclass(frozen=True)
class SavingSubtask:
    """A subtask whose state was taken aside and is being saved."""

    subtask: Subtask
    steps: Stepwise[dict[OperatorId, OperatorReport]]
    wakeup_ms: int | None


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
        times[subtask.vertex.id] = subtask.advance(_time_in(task, gate, subtask, times))
    return times


def advance_behind(task: StageTask, gate: TimedInput, operator: Operator) -> Times:
    """Advance event time in what follows an operator that has advanced its own between two records."""
    times = {subtask.vertex.id: [slot.time_out for slot in subtask.slots] for subtask in task.subtasks}
    moved: set[VertexId] = set()
    origin = next(subtask for subtask in task.subtasks if operator in subtask.operators)
    for subtask in task.subtasks:
        if subtask is origin:
            subtask.advance_behind(operator)
        elif any(edge.source in moved and _is_local(task, edge) for edge in task.incoming[subtask.vertex.id]):
            task.turn_to(subtask)
            subtask.advance(_time_in(task, gate, subtask, times))
        else:
            continue
        moved.add(subtask.vertex.id)
        times[subtask.vertex.id] = [slot.time_out for slot in subtask.slots]
    task.turn_to(origin)
    return times


def _time_in(task: StageTask, gate: TimedInput, subtask: Subtask, times: Times) -> EventTime:
    """Return the event time of the inputs of a subtask."""
    return combine(
        [
            times[edge.source][edge.source_operator] if _is_local(task, edge) else gate.time(edge.index, subtask.index)
            for edge in task.incoming[subtask.vertex.id]
        ]
    )


def _is_local(task: StageTask, edge: JobEdge) -> bool:
    return edge.index in task.image.topology.local_edges


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


def save_state(task: StageTask, attempt_id: str) -> list[SavedSubtask]:
    """Make the state of all subtasks durable."""
    saved = []
    for subtask in task.subtasks:
        task.turn_to(subtask)
        wakeup_ms = subtask.next_wakeup_ms()  # first: saving may empty the state it is read from
        saved.append(SavedSubtask(subtask, save_subtask(subtask, attempt_id), wakeup_ms))
    return saved


def begin_saving(task: StageTask, attempt_id: str, storage: Storage) -> list[SavingSubtask]:
    """Take the state of all subtasks aside, to be saved in steps. Processing may continue at once."""
    saving = []
    for subtask in task.subtasks:
        task.turn_to(subtask)
        wakeup_ms = subtask.next_wakeup_ms()
        saving.append(SavingSubtask(subtask, Stepwise(saving_subtask(subtask, attempt_id, storage)), wakeup_ms))
    return saving
