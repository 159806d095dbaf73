"""Sources and sinks, under PyFlink's names. Re-exports only; loads no client library."""

from flott.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from flott.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from flott.datastream.connectors.number_seq import NumberSequenceSource

__all__ = [
    "Sink",
    "Source",
    "DeliveryGuarantee",
    "NumberSequenceSource",
    "BucketAssigner",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSplitAssignerProvider",
    "FileSource",
    "FileSourceBuilder",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
