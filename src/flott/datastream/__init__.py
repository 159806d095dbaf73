"""The DataStream API, under PyFlink's names. Re-exports only; loads neither Spark nor a client library."""

from flott.datastream.checkpoint_config import CheckpointConfig
from flott.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from flott.datastream.checkpointing_mode import CheckpointingMode
from flott.datastream.data_stream import ConnectedStreams, DataStream, DataStreamSink, KeyedStream
from flott.datastream.execution_mode import RuntimeExecutionMode
from flott.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from flott.datastream.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from flott.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.datastream.time_domain import TimeDomain
from flott.datastream.timerservice import TimerService

__all__ = [
    "StreamExecutionEnvironment",
    "DataStream",
    "KeyedStream",
    "ConnectedStreams",
    "DataStreamSink",
    "MapFunction",
    "CoMapFunction",
    "FlatMapFunction",
    "CoFlatMapFunction",
    "ReduceFunction",
    "FilterFunction",
    "ProcessFunction",
    "KeyedProcessFunction",
    "CoProcessFunction",
    "KeyedCoProcessFunction",
    "AggregateFunction",
    "RuntimeContext",
    "TimerService",
    "CheckpointingMode",
    "CheckpointConfig",
    "ExternalizedCheckpointRetention",
    "StateBackend",
    "HashMapStateBackend",
    "EmbeddedRocksDBStateBackend",
    "PredefinedOptions",
    "CheckpointStorage",
    "JobManagerCheckpointStorage",
    "FileSystemCheckpointStorage",
    "RuntimeExecutionMode",
    "TimeDomain",
    "KeySelector",
    "Partitioner",
    "SourceFunction",
    "SinkFunction",
    "SlotSharingGroup",
    "MemorySize",
    "OutputTag",
]
