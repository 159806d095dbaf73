"""State, under PyFlink's names. Re-exports only.

``_handles`` and ``_broadcast`` have the handles of functions, ``_descriptors`` their descriptors, ``_ttl`` the time to
live, and ``_operator_state`` state without a key.
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
