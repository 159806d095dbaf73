"""Keyed state, by the names PyFlink gives it. Re-exports only.

``_handles`` holds what a function works with, ``_descriptors`` how it asks for it, ``_ttl`` how long it lives.
"""

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
    "State",
    "AppendingState",
    "MergingState",
    "StateTtlConfig",
]
