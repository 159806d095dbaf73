"""State, by the names PyFlink gives it. Re-exports only.

``_handles`` and ``_broadcast`` hold what a function works with, ``_descriptors`` how it asks for it, ``_ttl`` how long
it lives, ``_operator_state`` where state is found that belongs to no key.
"""

from flott.datastream.state._broadcast import BroadcastState, ReadOnlyBroadcastState
from flott.datastream.state._descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flott.datastream.state._handles import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from flott.datastream.state._operator_state import OperatorStateStore
from flott.datastream.state._ttl import StateTtlConfig

__all__ = [
    "StateDescriptor",
    "ValueStateDescriptor",
    "ValueState",
    "ListStateDescriptor",
    "ListState",
    "MapStateDescriptor",
    "MapState",
    "ReducingStateDescriptor",
    "ReducingState",
    "AggregatingStateDescriptor",
    "AggregatingState",
    "ReadOnlyBroadcastState",
    "BroadcastState",
    "OperatorStateStore",
    "State",
    "AppendingState",
    "MergingState",
    "StateTtlConfig",
]
