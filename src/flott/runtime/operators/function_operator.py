"""The operator around a user function: opens and closes it, gives it its runtime context. Task side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.datastream.functions._basic import Function
from flott.datastream.functions._checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flott.datastream.functions._context import KeyedStateStore
from flott.datastream.state._operator_state import OperatorStateStore
from flott.metrics import MetricGroup
from flott.runtime.managed_state.operator.operator_handles import TaskOperatorStateStore
from flott.runtime.managed_state.ttl.state_clock import StateClocks
from flott.runtime.operators.context import TaskRuntimeContext
from flott.runtime.operators.operator import EpochScope, Operator, OperatorContext
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
        """Return whether the function object itself holds operator state, and one version of it only."""
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


class InitializationContext(FunctionInitializationContext):
    """Given to a CheckpointedFunction when it fills its fields from state."""

    def __init__(self, context: OperatorContext, keyed: KeyedStateStore):
        self._state = context.operator_state
        self._restored_id = context.scope.epoch - 1 if self._state.restored else None
        self._keyed = keyed

    def is_restored(self) -> bool:
        return self._restored_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self._restored_id

    def get_operator_state_store(self) -> OperatorStateStore:
        return TaskOperatorStateStore(self._state)

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self._keyed


class SnapshotContext(FunctionSnapshotContext):
    """Given to a CheckpointedFunction when it writes its fields to state, at the end of an epoch."""

    def __init__(self, scope: EpochScope):
        self._epoch = scope.epoch
        self._now_ms = scope.now_ms

    def get_checkpoint_id(self) -> int:
        return self._epoch

    def get_checkpoint_timestamp(self) -> int:
        return self._now_ms
