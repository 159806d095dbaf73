"""``CheckpointedFunction``: a function whose fields are part of every checkpoint. Flink's; PyFlink has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flott.datastream.functions._context import KeyedStateStore
    from flott.datastream.state._operator_state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """The argument of ``initialize_state``, which gives access to the function's state."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether there is a checkpoint to restore. If not, the function starts its first epoch."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the checkpoint to restore, if there is one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of the subtask's state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state, for functions on keyed streams."""


class FunctionSnapshotContext(ABC):
    """The argument of ``snapshot_state``, which identifies the checkpoint."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the number of the checkpoint, which is that of the ending epoch."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the processing time of that epoch, in milliseconds."""


class CheckpointedFunction(ABC):
    """Extend it together with the function's kind to keep fields of the function in operator state::

        class Batches(FlatMapFunction[int, list[int]], CheckpointedFunction):
            def __init__(self):
                self.waiting = []

            def initialize_state(self, context):
                store = context.get_operator_state_store()
                self.saved = store.get_list_state(ListStateDescriptor("waiting", Types.INT()))
                self.waiting.extend(self.saved.get())

            def flat_map(self, value):
                self.waiting.append(value)
                if len(self.waiting) == 100:
                    yield self.waiting
                    self.waiting = []

            def snapshot_state(self, context):
                self.saved.update(self.waiting)

    In every epoch, the function's state is what it was at the end of the previous epoch, regardless of the process that
    runs it. A function object that is outdated, because another process ran the subtask in between, is replaced by a
    new
    copy of the submitted function, on which ``initialize_state`` and ``open`` are called. These two therefore run more
    often than in Flink. Fields that ``snapshot_state`` does not write are lost.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state and set the fields from it. Called on a new copy of the function, before ``open``."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write the fields to the state. Called at the end of every epoch."""
