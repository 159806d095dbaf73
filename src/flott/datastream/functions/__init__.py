"""The base classes of user functions, under PyFlink's names. Re-exports only.

- ``_basic``: functions of one input
- ``_async``: asynchronous functions
- ``_co``: functions of connected streams
- ``_process``: functions with a context
- ``_broadcast``: functions with broadcast state
- ``_join``: functions of joins
- ``_window``: functions of windows
- ``_checkpointed``: the interface of functions whose fields are saved
- ``_context``: the argument of ``open``
- ``_legacy``: two names of PyFlink that Flott refuses

``_callables`` and ``_aggregations`` serve the API and the runtime and export nothing here.
"""

from flott.datastream.functions._async import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
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
from flott.datastream.functions._broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from flott.datastream.functions._checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flott.datastream.functions._co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flott.datastream.functions._context import KeyedStateStore, RuntimeContext
from flott.datastream.functions._join import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from flott.datastream.functions._legacy import SinkFunction, SourceFunction
from flott.datastream.functions._process import KeyedProcessFunction, ProcessFunction
from flott.datastream.functions._window import (
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
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
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "KeyedBroadcastProcessFunction",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "JoinFunction",
    "FlatJoinFunction",
    "CoGroupFunction",
    "ProcessJoinFunction",
    "TimerService",
    "WindowFunction",
    "AllWindowFunction",
    "ProcessWindowFunction",
    "ProcessAllWindowFunction",
    "PassThroughWindowFunction",
    "PassThroughAllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
]
