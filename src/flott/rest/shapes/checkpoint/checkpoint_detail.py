"""One checkpoint by vertex and by subtask. Pure."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from flott.rest.shapes.checkpoint.checkpoints import (
    CheckpointItem,
    TaskCheckpoint,
    checkpoint_item,
    subtask_count,
    task_checkpoint,
)
from flott.rest.shapes.values.statistics import ALWAYS_ZERO, Quantiles, quantiles
from flott.runtime.jobmanager.views.job_view import CheckpointTask, CheckpointView, JobView, VertexView

CheckpointDurations = TypedDict("CheckpointDurations", {"sync": int, "async": int})
CheckpointDurationSummary = TypedDict("CheckpointDurationSummary", {"sync": Quantiles, "async": Quantiles})


class CheckpointAlignment(TypedDict):
    buffered: int
    processed: int
    persisted: int
    duration: int


class CheckpointAlignmentSummary(TypedDict):
    buffered: Quantiles
    processed: Quantiles
    persisted: Quantiles
    duration: Quantiles


class SubtaskCheckpoint(TypedDict):
    className: Literal["completed", "pending_or_failed"]
    index: int
    status: Literal["completed", "pending_or_failed"]
    ack_timestamp: NotRequired[int]
    end_to_end_duration: NotRequired[int]
    checkpointed_size: NotRequired[int]
    state_size: NotRequired[int]
    checkpoint: NotRequired[CheckpointDurations]
    alignment: NotRequired[CheckpointAlignment]
    start_delay: NotRequired[int]
    unaligned_checkpoint: NotRequired[bool]
    aborted: NotRequired[bool]


class TaskCheckpointSummary(TypedDict):
    checkpointed_size: Quantiles
    state_size: Quantiles
    end_to_end_duration: Quantiles
    checkpoint_duration: CheckpointDurationSummary
    alignment: CheckpointAlignmentSummary
    start_delay: Quantiles


class TaskCheckpointDetail(TaskCheckpoint):
    summary: TaskCheckpointSummary
    subtasks: list[SubtaskCheckpoint]



def find_checkpoint(job: JobView, ident: int) -> CheckpointView | None:
    """Return the checkpoint with this number, if it is in the history. A savepoint with the same number is skipped."""
    view = job.checkpoints
    known = [*view.history, view.latest_completed, view.latest_savepoint, view.latest_failed]
    found = [one for one in known if one is not None and one.id == ident]
    return next((one for one in found if one.tasks), found[0] if found else None)


def checkpoint_detail(job: JobView, checkpoint: CheckpointView) -> CheckpointItem:
    """Return a checkpoint with the part of every vertex."""
    item = checkpoint_item(checkpoint, subtask_count(job))
    tasks: dict[str, list[CheckpointTask]] = {}
    for task in checkpoint.tasks:
        tasks.setdefault(task.vertex, []).append(task)
    item["tasks"] = {
        vertex.id: task_checkpoint(checkpoint, tasks.get(vertex.id, []), vertex.parallelism) for vertex in job.vertices
    }
    return item


def task_checkpoint_detail(checkpoint: CheckpointView, vertex: VertexView) -> TaskCheckpointDetail:
    """Return the part of one vertex, with its subtasks."""
    tasks = sorted((task for task in checkpoint.tasks if task.vertex == vertex.id), key=lambda task: task.subtask)
    part = task_checkpoint(checkpoint, tasks, vertex.parallelism)
    by_index = {task.subtask: task for task in tasks}
    width = max(vertex.parallelism, 1 + max(by_index, default=-1))
    return {
        **part,
        "summary": {
            "checkpointed_size": quantiles([task.written_bytes for task in tasks]),
            "state_size": quantiles([task.state_bytes for task in tasks]),
            "end_to_end_duration": quantiles([task.duration_ms for task in tasks]),
            "checkpoint_duration": {
                "sync": quantiles([_sync_ms(task) for task in tasks]),
                "async": quantiles([task.async_ms for task in tasks]),
            },
            "alignment": {
                "buffered": ALWAYS_ZERO,
                "processed": ALWAYS_ZERO,
                "persisted": quantiles([task.persisted_bytes for task in tasks]),
                "duration": quantiles([task.alignment_ms for task in tasks]),
            },
            "start_delay": quantiles([task.start_delay_ms for task in tasks]),
        },
        "subtasks": [_subtask(checkpoint, index, by_index.get(index)) for index in range(width)],
    }


def _subtask(checkpoint: CheckpointView, index: int, task: CheckpointTask | None) -> SubtaskCheckpoint:
    if task is None:
        return {"className": "pending_or_failed", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "status": "completed",
        "ack_timestamp": _acknowledged_ms(checkpoint, task),
        "end_to_end_duration": task.duration_ms,
        "checkpointed_size": task.written_bytes,
        "state_size": task.state_bytes,
        "checkpoint": {"sync": _sync_ms(task), "async": task.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": task.persisted_bytes,
            "duration": task.alignment_ms,
        },
        "start_delay": task.start_delay_ms,
        "unaligned_checkpoint": task.unaligned,
        "aborted": False,
    }


def _sync_ms(task: CheckpointTask) -> int:
    return task.duration_ms if task.sync_ms is None else task.sync_ms


def _acknowledged_ms(checkpoint: CheckpointView, task: CheckpointTask) -> int:
    """Return when a subtask acknowledged it: in an epoch, all subtasks do so together."""
    if not checkpoint.pipelined:
        return checkpoint.acknowledged_ms
    return min(checkpoint.triggered_ms + task.duration_ms, checkpoint.acknowledged_ms)
