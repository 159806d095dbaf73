"""What the subtasks of a task have done since their start, to be told between checkpoints. Task side.

Reports of checkpoints have the same numbers since the checkpoint before. While none completes, these are all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flott.common._ids import SubtaskIndex
from flott.graph.job_graph import VertexId
from flott.metrics import _engine_metrics as table
from flott.runtime.epoch.report import SubtaskReport
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.pipelined.control import SubtaskLoad
from flott.runtime.pipelined.task_time import TaskTime

#: A slot tells its load when a subtask has been busy or back-pressured for so long since it told it last. What an idle
#: task does, such as to poll a source, is less.
WORTH_TELLING_MS = 10.0


class TaskLoad:
    """The load of one task. The thread of its slot counts; ``at`` may be called by another."""

    def __init__(self, task: StageTask, time: TaskTime):
        self._task = task
        self._time = time
        self._before: dict[VertexId, tuple[int, int]] = {}  #: records up to the last checkpoint. Replaced as a whole

    def count(self, reports: Iterable[SubtaskReport]) -> None:
        """Add the reports of a checkpoint. Called when the counts of its subtasks have begun again, not before."""
        before = dict(self._before)
        for report in reports:
            records_in, records_out = before.get(report.vertex, (0, 0))
            measures = report.measures
            before[report.vertex] = (
                records_in + int(measures.get(table.TASK_RECORDS_IN.name, 0)),
                records_out + int(measures.get(table.TASK_RECORDS_OUT.name, 0)),
            )
        self._before = before

    def at(self, now: float) -> tuple[SubtaskLoad, ...]:
        """Return the load of its subtasks."""
        before, (busy, back_pressured) = self._before, self._time.until(now)
        loads = []
        for subtask in self._task.subtasks:
            records_in, records_out = before.get(subtask.vertex.id, (0, 0))
            loads.append(
                SubtaskLoad(
                    subtask.vertex.id,
                    SubtaskIndex(subtask.index),
                    busy * 1000,
                    back_pressured * 1000,
                    records_in + subtask.slots[0].counts.records_in,
                    records_out + subtask.records_sent,
                )
            )
        return tuple(loads)


def is_worth_telling(told: Sequence[SubtaskLoad], now: Sequence[SubtaskLoad]) -> bool:
    """Return whether loads differ from those that were told last by more than an idle slot's."""
    if len(told) != len(now):
        return bool(now)
    return any(
        after.busy_ms - before.busy_ms >= WORTH_TELLING_MS
        or after.back_pressured_ms - before.back_pressured_ms >= WORTH_TELLING_MS
        or (after.records_in, after.records_out) != (before.records_in, before.records_out)
        for before, after in zip(told, now, strict=True)
    )
