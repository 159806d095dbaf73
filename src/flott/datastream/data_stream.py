"""Streams, under PyFlink's names. Re-exports only."""

from flott.datastream._collect import CloseableIterator
from flott.datastream._connected_streams import ConnectedStreams
from flott.datastream._data_stream import DataStream, DataStreamSink
from flott.datastream._keyed_stream import KeyedStream

__all__ = ["CloseableIterator", "ConnectedStreams", "DataStream", "DataStreamSink", "KeyedStream"]
