"""Handles to broadcast state, a map that is the same in every subtask. The runtime implements them in tasks.

    State ── clear
    └── ReadOnlyBroadcastState    for the stream that is not broadcast
        └── BroadcastState        for the broadcast stream

Values are the program's own objects and are not copied. The runtime does not detect a change in place.
"""

from __future__ import annotations

from flott.datastream.state._handles import K, MapReading, MapWriting, V


class ReadOnlyBroadcastState(MapReading[K, V]):
    """Broadcast state that can only be read. Changing it raises an error."""


class BroadcastState(ReadOnlyBroadcastState[K, V], MapWriting[K, V]):
    """Broadcast state for the broadcast stream. Changes must be the same in every subtask."""
