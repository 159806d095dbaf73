"""Handles to broadcast state: a map that is the same in every subtask. Interfaces; the runtime implements them in
tasks.

    State ── clear
    └── ReadOnlyBroadcastState    for the stream that is not broadcast
        └── BroadcastState        for the broadcast stream

Values are the program's own objects and are not copied: change one in place, and nothing tells the runtime.
"""

from __future__ import annotations

from flott.datastream.state._handles import K, MapReading, MapWriting, V


class ReadOnlyBroadcastState(MapReading[K, V]):
    """Broadcast state as a function that must not change it sees it. An attempt to change it is an error."""


class BroadcastState(ReadOnlyBroadcastState[K, V], MapWriting[K, V]):
    """Broadcast state as the broadcast stream sees it. What is done to it must be the same in every subtask."""
