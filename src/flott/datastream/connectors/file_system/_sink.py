"""The file sink and its builders: specifications. What writes and publishes is in ``flott.runtime.connectors.files``.

The runtime calls ``validate``, ``create_writer`` and ``create_committer``; their imports stand inside, so that the API
does not load the runtime.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from flott._absent import no_java_object
from flott.common._object_store_settings import is_hdfs_location, is_object_location
from flott.common.serialization import Encoder
from flott.datastream.connectors.base import Committer, Guarantee, Sink, SinkWriter, WriterContext
from flott.datastream.connectors.file_system._buckets import BucketAssigner, FunctionBucketAssigner
from flott.datastream.connectors.file_system._bulk_writers import AvroWriterFactory, BulkWriterFactory
from flott.datastream.connectors.file_system._parts import (
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.errors import ProgramError


@dataclass(frozen=True)
class FileSink(Sink[Any]):
    """Writes records into files, each exactly once.

    Below the base path there is a directory for each bucket, and in it part files. A part file appears complete, by
    being renamed, once the checkpoint of what is in it is complete; until then its content is in hidden files. By
    default a bucket is an hour, and a part file holds the output of one subtask in a minute.

    >>> sink = FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder()).build()
    >>> sink.base_path
    '/tmp/out'
    """

    base_path: str
    encoder: Encoder | BulkWriterFactory
    bulk: bool = False  #: every file is a whole of its own and cannot be put together with another
    bucket_assigner: BucketAssigner = field(default_factory=BucketAssigner.date_time_bucket_assigner)
    rolling_policy: RollingPolicy = field(default_factory=DefaultRollingPolicy)
    output_file_config: OutputFileConfig = field(default_factory=OutputFileConfig)

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Start building a sink that writes one record after the other."""
        return FileSink.RowFormatBuilder(FileSink(absolute_path(base_path, hdfs=True), encoder))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory | Encoder) -> FileSink.BulkFormatBuilder:
        """Start building a sink that writes a file at a time, such as Parquet; it rolls on every checkpoint."""
        path = absolute_path(base_path, hdfs=True)
        sink = FileSink(path, writer_factory, bulk=True, rolling_policy=OnCheckpointRollingPolicy())
        return FileSink.BulkFormatBuilder(sink)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.files.committer import check_base_path

        if is_hdfs_location(self.base_path):
            from flott.runtime.connectors.files.hdfs_sink import check_hdfs_path

            check_hdfs_path(self.base_path)
        elif not is_object_location(self.base_path):
            check_base_path(self.base_path)
        if isinstance(self.encoder, AvroWriterFactory):
            from flott.runtime.connectors.files.avro import check_avro_factory

            check_avro_factory(self.encoder)

    def rehearsal(self, folder: str) -> FileSink:
        return replace(self, base_path=folder)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        if is_object_location(self.base_path):
            from flott.runtime.connectors.files.object_writer import ObjectFileWriter

            return ObjectFileWriter(self, context)
        if is_hdfs_location(self.base_path):
            from flott.runtime.connectors.files.hdfs_sink import HdfsFileWriter

            return HdfsFileWriter(self, context)
        from flott.runtime.connectors.files.writer import FileWriter

        return FileWriter(self, context)

    def create_committer(self) -> Committer:
        if is_object_location(self.base_path):
            from flott.runtime.connectors.files.object_committer import ObjectFileCommitter

            return ObjectFileCommitter(self)
        if is_hdfs_location(self.base_path):
            from flott.runtime.connectors.files.hdfs_sink import HdfsFileCommitter

            return HdfsFileCommitter(self)
        from flott.runtime.connectors.files.committer import FileCommitter

        return FileCommitter(self)

    class RowFormatBuilder:
        """Collects the settings of a sink for a row format."""

        def __init__(self, sink: FileSink):
            self._sink = sink

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Do nothing, for ported programs: buckets are checked after every checkpoint."""
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner | Callable[[Any], str]) -> Self:
            """Set which directory a record goes to; a plain function of the record will do."""
            if not isinstance(bucket_assigner, BucketAssigner):
                bucket_assigner = FunctionBucketAssigner(bucket_assigner)
            self._sink = replace(self._sink, bucket_assigner=bucket_assigner)
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set how part files are named."""
            self._sink = replace(self._sink, output_file_config=output_file_config)
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set when part files are published."""
            self._sink = replace(self._sink, rolling_policy=rolling_policy)
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Do nothing, for ported programs: the rolling policy decides what is put together."""
            return self

        def disable_compact(self) -> Self:
            """Do nothing, for ported programs."""
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            return self._sink

    class BulkFormatBuilder(RowFormatBuilder):
        """Collects the settings of a sink for a bulk format."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Accept :class:`OnCheckpointRollingPolicy` only: the files of a bulk format cannot be put together."""
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise ProgramError(f"A bulk format rolls on every checkpoint, found {rolling_policy}.")
            return self


class StreamingFileSink:
    """Flink's older name for :class:`FileSink`: the builders are the same."""

    get_java_function = no_java_object("get_java_function")

    DefaultRowFormatBuilder = FileSink.RowFormatBuilder
    DefaultBulkFormatBuilder = FileSink.BulkFormatBuilder

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        _deprecated()
        return FileSink.for_row_format(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        _deprecated()
        return FileSink.for_bulk_format(base_path, writer_factory)


def _deprecated() -> None:
    warnings.warn("StreamingFileSink is FileSink's older name: use FileSink.", DeprecationWarning, stacklevel=3)
