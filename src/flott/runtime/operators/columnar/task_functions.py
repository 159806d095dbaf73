"""The functions in Python that an operator calls: opened with the task's context, measured, and closed. Task side."""

from __future__ import annotations

from contextlib import AbstractContextManager

from flott.metrics import MetricGroup
from flott.runtime.operators.operator import OperatorContext
from flott.table._functions.python_functions import FunctionScope
from flott.table.udf import FunctionContext


class TaskFunctions:
    """Gives functions their context, and reports what an epoch added to their metrics."""

    def __init__(self, context: OperatorContext, parameters: dict[str, str]):
        self.metrics = MetricGroup()  #: of the functions, and of the operator itself
        self._before: dict[str, tuple[str, int | float]] = {}
        self._scope = FunctionScope(
            FunctionContext(
                self.metrics,
                {**parameters, **context.job_parameters},
                context.task_name,
                f"{context.task_name} ({context.subtask + 1}/{context.parallelism})",
                context.parallelism,
                context.max_parallelism,
                context.subtask,
                context.scope.attempt,
            )
        )

    def begin(self) -> None:
        """Begin an epoch."""
        self._before = self.metrics.readings()

    def active(self) -> AbstractContextManager[None]:
        """Make calls inside calls of this task."""
        return self._scope.active()

    def metric_changes(self) -> dict[str, tuple[str, int | float]]:
        """Return what the epoch added to each metric. Workers come and go, so only changes can be added up."""
        before = self._before
        return {
            name: (mode, number - before[name][1] if mode == "sum" and name in before else number)
            for name, (mode, number) in self.metrics.readings().items()
        }

    def close(self) -> None:
        """Close the functions that were opened."""
        self._scope.close()
