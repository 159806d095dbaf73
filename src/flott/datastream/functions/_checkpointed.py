"""``CheckpointedFunction``: a function whose own fields are part of every checkpoint. Flink's; PyFlink has none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flott.datastream.functions._context import KeyedStateStore
    from flott.datastream.state._operator_state import OperatorStateStore


class FunctionInitializationContext(ABC):
    """What ``initialize_state`` is handed: where the function's state is."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether there is a checkpoint to go on from; if not, the function begins its very first epoch."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The checkpoint to go on from, if there is one."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Gives out state that belongs to the subtask."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Gives out state that belongs to a key, to functions on keyed streams."""


class FunctionSnapshotContext(ABC):
    """What ``snapshot_state`` is handed: which checkpoint it is for."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """The checkpoint that is being made: the number of the epoch that ends."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """The processing time of that epoch, in milliseconds."""


class CheckpointedFunction(ABC):
    """Extend it beside the function's kind to keep fields of the function in operator state::

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

    The promise: whatever process runs an epoch, the function's state is what it was at the end of the epoch before.
    Which process that is changes; an object that was left behind in another one is not used again, but replaced by a
    fresh copy of the function, as it was submitted, on which ``initialize_state`` and ``open`` are called. So these two
    run more often than in Flink. Fields that ``snapshot_state`` does not write are not part of the promise.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Get the state and fill the fields from it. Called on a fresh copy of the function, before ``open``."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write the fields to the state. Called at the end of every epoch."""
