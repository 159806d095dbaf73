"""Files as input and output: PyFlink's module of this name, and Flott's own formats. Re-exports only.

Specifications live here; what lists, reads, writes and publishes files is in ``flott.runtime.connectors.files``.
"""

from flott.datastream.connectors.file_system._buckets import BucketAssigner
from flott.datastream.connectors.file_system._bulk_writers import BulkWriterFactory
from flott.datastream.connectors.file_system._dead_letters import FileDeadLetterSink
from flott.datastream.connectors.file_system._formats import BulkFormat, StreamFormat
from flott.datastream.connectors.file_system._parts import (
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flott.datastream.connectors.file_system._sink import FileSink, StreamingFileSink
from flott.datastream.connectors.file_system._source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)

__all__ = [
    "FileCompactor",
    "FileCompactStrategy",
    "OutputFileConfig",
    "FileSource",
    "FileSourceBuilder",
    "FileSink",
    "FileDeadLetterSink",
    "StreamingFileSink",
    "StreamFormat",
    "BulkFormat",
    "BulkWriterFactory",
    "FileEnumeratorProvider",
    "FileSplitAssignerProvider",
    "RollingPolicy",
    "DefaultRollingPolicy",
    "OnCheckpointRollingPolicy",
    "BucketAssigner",
]
