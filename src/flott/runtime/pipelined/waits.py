"""What tasks wait for: the receivers of their output, barriers, files, or user code that does not return. Task side.

A task waits if it has not worked since the last look although it has something to do, or holds inputs back for a
checkpoint. A task without input only is idle, and not listed.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from dataclasses import replace
from types import FrameType

from flott.common._ids import SubtaskIndex
from flott.graph.job_graph import VertexId
from flott.runtime.epoch.image import JobImage
from flott.runtime.pipelined.control import TaskWait
from flott.runtime.pipelined.input_channels import InputChannels
from flott.runtime.pipelined.messages import TaskAddress
from flott.runtime.pipelined.task import PipelinedTask

#: How many calls of a task that does not return are told, the innermost ones.
CALLS_TOLD = 8
#: How many tasks of each reason are named.
TASKS_NAMED = 5


def waits_of(image: JobImage, tasks: Iterable[PipelinedTask]) -> list[TaskWait]:
    """Return what tasks wait for at this moment, if they do. May be called beside their loop."""
    return [_wait(image, task.address, reason) for task in tasks if (reason := _reason(image, task)) is not None]


def stuck(image: JobImage, address: TaskAddress, frame: FrameType | None) -> TaskWait:
    """Return that a task has not returned from what it does, and where it is."""
    calls = traceback.extract_stack(frame)[-CALLS_TOLD:] if frame is not None else []
    told = " < ".join(f"{call.name} ({os.path.basename(call.filename)}:{call.lineno})" for call in reversed(calls))
    return _wait(image, address, f"it is in a call that does not return: {told or 'its stack is not known'}")


def writing(image: JobImage, partition: int) -> TaskWait:
    """Return that the files of a checkpoint of a slot are not durable yet."""
    return _wait(image, TaskAddress(0, partition), "the state files of its slot are being written to the storage")


def waiting_for_slots(image: JobImage, reason: str, waited_ms: int) -> tuple[TaskWait, ...]:
    """Return that all tasks of a job wait for slots."""
    addresses = [TaskAddress(stage.index, index) for stage in image.topology.stages for index in range(stage.width)]
    return tuple(replace(_wait(image, address, reason), waited_ms=waited_ms) for address in addresses)


def lasting(before: Iterable[TaskWait], now: Iterable[TaskWait], passed_ms: int) -> tuple[TaskWait, ...]:
    """Return the present waits, with how long each has lasted."""
    known = {(wait.vertices, wait.subtask, _kind(wait)): wait.waited_ms for wait in before}
    return tuple(
        replace(wait, waited_ms=known.get((wait.vertices, wait.subtask, _kind(wait)), 0) + passed_ms) for wait in now
    )


def _kind(wait: TaskWait) -> str:
    return wait.reason.partition(":")[0]  # a call that does not return is at another line now


def _reason(image: JobImage, task: PipelinedTask) -> str | None:
    if task.is_over:
        return None
    if task.is_blocked:
        receivers = _listed(name_of(image, address) for address in task.outputs.blocking)
        return f"no more of its output is taken by {receivers}"
    inputs = task.inputs
    if awaited := inputs.alignment.awaited:
        missing = _listed(_input_name(image, one) for one in awaited)
        return f"the barrier of checkpoint {inputs.alignment.checkpoint} has not come from {missing}{_held(inputs)}"
    return None


def _held(inputs: InputChannels) -> str:
    waiting = inputs.waiting_messages
    return f", and {waiting} messages of other inputs are held back" if waiting else ""


def _input_name(image: JobImage, found: object) -> str:
    return name_of(image, found) if isinstance(found, TaskAddress) else "its own source"


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    more = len(found) - TASKS_NAMED
    return ", ".join(found[:TASKS_NAMED]) + (f" and {more} more" if more > 0 else "")


def _wait(image: JobImage, address: TaskAddress, reason: str) -> TaskWait:
    vertices = _vertices(image, address)
    return TaskWait(vertices, SubtaskIndex(address.partition), name_of(image, address), reason)


def _vertices(image: JobImage, address: TaskAddress) -> tuple[VertexId, ...]:
    vertices = image.topology.stages[address.stage].vertices
    return tuple(ident for ident in vertices if address.partition < image.shapes[ident].parallelism)


def name_of(image: JobImage, address: TaskAddress) -> str:
    """Return the name of a task for users: its vertices, and the number of its subtasks."""
    shapes = [image.shapes[ident] for ident in _vertices(image, address)]
    return " and ".join(f"{shape.name} ({address.partition + 1}/{shape.parallelism})" for shape in shapes)
