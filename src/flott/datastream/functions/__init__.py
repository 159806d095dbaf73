"""What a user's function extends, by the names PyFlink gives them. Re-exports only.

``_basic`` holds one-input functions, ``_co`` those of connected streams, ``_process`` those with a context,
``_context`` what the runtime hands to ``open``, ``_legacy`` the two names Flott has another answer for.
``_callables`` and ``_aggregations`` serve the API and the runtime and export nothing here.
"""

from flott.datastream.functions._basic import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ReduceFunction,
)
from flott.datastream.functions._co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flott.datastream.functions._context import KeyedStateStore, RuntimeContext
from flott.datastream.functions._legacy import SinkFunction, SourceFunction
from flott.datastream.functions._process import KeyedProcessFunction, ProcessFunction
from flott.datastream.timerservice import TimerService

__all__ = [
    "RuntimeContext",
    "KeyedStateStore",
    "Function",
    "MapFunction",
    "CoMapFunction",
    "FlatMapFunction",
    "CoFlatMapFunction",
    "ReduceFunction",
    "AggregateFunction",
    "KeySelector",
    "NullByteKeySelector",
    "FilterFunction",
    "Partitioner",
    "SourceFunction",
    "SinkFunction",
    "ProcessFunction",
    "CoProcessFunction",
    "KeyedProcessFunction",
    "KeyedCoProcessFunction",
    "TimerService",
]
