"""Value types shared by both APIs, under PyFlink's names. Re-exports only: no pyspark, no threads, no I/O."""

from typing import TYPE_CHECKING

from flott._absent import names_of
from flott.common._accumulators import (
    Accumulator,
    AverageAccumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    ListAccumulator,
    LongCounter,
    Maximum,
    Minimum,
)
from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.common.config_options import ConfigOption, ConfigOptions
from flott.common.configuration import Configuration
from flott.common.execution_config import ExecutionConfig
from flott.common.execution_mode import ExecutionMode
from flott.common.input_dependency_constraint import InputDependencyConstraint
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from flott.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from flott.common.serializer import TypeSerializer
from flott.common.time import Duration, Instant, Time
from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row, RowKind
from flott.common.watermark_strategy import WatermarkStrategy

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "DoubleCounter",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "ExecutionMode",
    "Histogram",
    "InputDependencyConstraint",
    "Instant",
    "IntCounter",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "ListAccumulator",
    "LongCounter",
    "Maximum",
    "Minimum",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SavepointFormatType",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]

if not TYPE_CHECKING:  # otherwise a type checker accepts any name of this module
    __getattr__ = names_of(__name__)
