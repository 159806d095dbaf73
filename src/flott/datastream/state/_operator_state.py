"""Where a function asks for state that belongs to its subtask. An interface; the runtime implements it in tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from flott.datastream.state._broadcast import BroadcastState
    from flott.datastream.state._descriptors import ListStateDescriptor, MapStateDescriptor
    from flott.datastream.state._handles import ListState

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OperatorStateStore(ABC):
    """Gives out handles to operator state. PyFlink's has broadcast state only; the lists are those of Flink.

    What distinguishes the three is what becomes of them when a job goes on from a checkpoint, perhaps with another
    parallelism.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """The subtask's own list. After a change of parallelism the items of all lists are divided evenly, in order."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """The subtask's own list, of which every subtask gets *all* items when a job is resumed from a checkpoint.

        Each subtask picks what is its own and writes only that; otherwise the lists grow with every such restart.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """A map that the program keeps the same in every subtask."""
