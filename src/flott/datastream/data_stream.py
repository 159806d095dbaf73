"""Streams, under PyFlink's names. Re-exports only."""

from flott.datastream._broadcast_stream import BroadcastConnectedStream, BroadcastStream
from flott.datastream._cached_stream import CachedDataStream
from flott.datastream._collect import CloseableIterator
from flott.datastream._connected_streams import ConnectedStreams
from flott.datastream._data_stream import DataStream, DataStreamSink
from flott.datastream._keyed_stream import KeyedStream
from flott.datastream._preview import Preview
from flott.datastream._windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "Preview",
    "WindowedStream",
]
