"""How busy the subtasks of a vertex are, and whether they are backpressured. Pure."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import finite
from flott.rest.shapes.vertex.states import all_subtasks
from flott.runtime.jobmanager.views.job_view import SubtaskView, TaskState, VertexView

Level = Literal["ok", "low", "high"]

SubtaskBackPressure = TypedDict(
    "SubtaskBackPressure",
    {
        "subtask": int,
        "attempt-number": int,
        "backpressure-level": Level,
        "backpressureLevel": Level,
        "ratio": float,
        "idleRatio": float,
        "busyRatio": float,
        "waits-for": NotRequired[str],
    },
)
BackPressure = TypedDict(
    "BackPressure",
    {
        "status": Literal["ok", "deprecated"],
        "backpressure-level": NotRequired[Level],
        "backpressureLevel": NotRequired[Level],
        "end-timestamp": NotRequired[int],
        "subtasks": NotRequired[list[SubtaskBackPressure]],
    },
)


def back_pressure(vertex: VertexView, now_ms: int) -> BackPressure:
    """Return the shares of a running vertex. For other vertices nothing is known, which Flink calls deprecated."""
    if vertex.state is not TaskState.RUNNING:
        return {"status": "deprecated"}
    subtasks = [_of_subtask(subtask) for subtask in all_subtasks(vertex)]
    level = level_of(max((subtask["ratio"] for subtask in subtasks), default=0.0))
    return {
        "status": "ok",
        "backpressure-level": level,
        "backpressureLevel": level,
        "end-timestamp": now_ms,
        "subtasks": subtasks,
    }


def shares(subtask: SubtaskView) -> tuple[float, float, float]:
    """Return the busy, idle and backpressured shares of a subtask's time. Their sum is 1."""
    busy = min(1.0, max(0.0, finite(subtask.busy_ratio)))
    idle = min(1.0 - busy, max(0.0, finite(subtask.idle_ratio)))
    return busy, idle, max(0.0, 1.0 - busy - idle)


def level_of(ratio: float) -> Level:
    """Return Flink's name for a share of time."""
    return "ok" if ratio <= 0.1 else "low" if ratio <= 0.5 else "high"


def _of_subtask(subtask: SubtaskView) -> SubtaskBackPressure:
    busy, idle, held_up = shares(subtask)
    level = level_of(held_up)
    found: SubtaskBackPressure = {
        "subtask": subtask.index,
        "attempt-number": subtask.attempt,
        "backpressure-level": level,
        "backpressureLevel": level,
        "ratio": held_up,
        "idleRatio": idle,
        "busyRatio": busy,
    }
    if subtask.waits_for:
        found["waits-for"] = subtask.waits_for
    return found
