"""The operator around a user function: opens and closes it, gives it its runtime context. Task side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.datastream.functions._basic import Function
from flott.datastream.functions._checkpointed import CheckpointedFunction
from flott.metrics import MetricGroup
from flott.runtime.managed_state.ttl.state_clock import StateClocks
from flott.runtime.operators.checkpointed import InitializationContext, SnapshotContext
from flott.runtime.operators.context import TaskRuntimeContext
from flott.runtime.operators.operator import Operator, OperatorContext
from flott.runtime.operators.outcome import OperatorOutcome


class FunctionOperator(Operator):
    """An operator that runs one user function, rich or plain."""

    def __init__(self, context: OperatorContext, function: Any):
        super().__init__(context)
        self.function = function
        self.metrics = MetricGroup()
        self._readings_before: dict[str, tuple[str, int | float]] = {}
        self.runtime_context = TaskRuntimeContext(context, self.metrics)
        state = context.keyed_state
        self.clocks = state.lifetimes.clocks if state is not None else StateClocks()

    @property
    def keeps_state_in_fields(self) -> bool:
        """Whether the function object itself stands for operator state, and for one version of it only."""
        return isinstance(self.function, CheckpointedFunction)

    def open(self) -> None:
        self._begin_lifetimes()  # state that is asked for may have to be converted
        if isinstance(self.function, CheckpointedFunction):
            try:
                self.function.initialize_state(InitializationContext(self.context, self.runtime_context))
            except Exception as error:
                raise self.failure("initialize_state()") from error
        if isinstance(self.function, Function):
            try:
                self.function.open(self.runtime_context)
            except Exception as error:
                raise self.failure("open()") from error
        self.prepare()

    def prepare(self) -> None:
        """Resolve what is looked up once: called when the function is open."""

    def begin(self) -> None:
        self._readings_before = self.metrics.readings()
        self._begin_lifetimes()
        self.runtime_context.begin()

    def _begin_lifetimes(self) -> None:
        if (state := self.context.keyed_state) is not None:
            state.lifetimes.begin(self.context.scope.now_ms, self.watermark)

    def snapshot(self) -> None:
        if (state := self.context.keyed_state) is not None:
            state.lifetimes.sweep(self.records_in)
        if isinstance(self.function, CheckpointedFunction):
            try:
                self.function.snapshot_state(SnapshotContext(self.context.scope))
            except Exception as error:
                raise self.failure("snapshot_state()") from error

    def outcome(self) -> OperatorOutcome:
        return replace(
            super().outcome(), metrics=self._metric_changes(), accumulators=self.runtime_context.accumulators
        )

    def _metric_changes(self) -> dict[str, tuple[str, int | float]]:
        """Return what the epoch added to each metric. Workers come and go, so only changes can be added up."""
        before = self._readings_before
        return {
            name: (mode, number - before[name][1] if mode == "sum" and name in before else number)
            for name, (mode, number) in self.metrics.readings().items()
        }

    def close(self) -> None:
        if isinstance(self.function, Function):
            try:
                self.function.close()
            except Exception as error:
                raise self.failure("close()") from error
