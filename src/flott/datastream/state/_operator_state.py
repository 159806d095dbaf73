"""The interface of a subtask's state without a key. The runtime implements it in tasks."""

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
    """Returns handles to operator state. PyFlink has only broadcast state; the lists are those of Flink.

    The three kinds differ in what happens to them when a job is restored from a checkpoint, perhaps with another
    parallelism.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the subtask's own list.

        After a change of parallelism, the items of all lists are divided evenly, in order.
        """

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the subtask's own list, of which every subtask gets *all* items after a restore.

        Each subtask must select its own items and write only those. Otherwise the lists grow with every restart.
        """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Return a map that the program keeps equal in every subtask."""
