"""What a CheckpointedFunction is handed when it fills its fields from state, and when it writes them. Task side."""

from __future__ import annotations

from flott.datastream.functions._checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from flott.datastream.functions._context import KeyedStateStore
from flott.datastream.state._operator_state import OperatorStateStore
from flott.runtime.managed_state.operator.operator_handles import TaskOperatorStateStore
from flott.runtime.operators.operator import EpochScope, OperatorContext


class InitializationContext(FunctionInitializationContext):
    """Of one operator subtask, in the epoch at hand."""

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
    """Of the epoch that ends."""

    def __init__(self, scope: EpochScope):
        self._epoch = scope.epoch
        self._now_ms = scope.now_ms

    def get_checkpoint_id(self) -> int:
        return self._epoch

    def get_checkpoint_timestamp(self) -> int:
        return self._now_ms
