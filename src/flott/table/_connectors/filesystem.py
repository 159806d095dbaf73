"""filesystem: tables of files in a folder, with partitions as folders such as ``day=2026-01-31``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flott.common._object_store_settings import is_hdfs_location, is_object_location
from flott.datastream.connectors.file_system._buckets import BasePathBucketAssigner
from flott.datastream.connectors.file_system._parts import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
)
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.errors import ProgramError
from flott.table._connectors.file_tables import ColumnFiles, TableFileSink, TableFileSource
from flott.table._connectors.format_registry import format_factory
from flott.table._connectors.formats import ParquetFiles
from flott.table._connectors.metadata import metadata_names, source_columns
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.pushed_filters import column_comparisons, is_comparison
from flott.table._connectors.table_source import (
    ConnectorTable,
    SparkScan,
    TableConnector,
    TableSink,
    TableSource,
)
from flott.table._expressions.expression import Expression, columns_of, remapped
from flott.table._types.logical import BIGINT, STRING, LocalZonedTimestampType, LogicalType

_PATH = (
    key("path").string_type().no_default_value()
    .with_description("The folder of the table's files, or a file, or a pattern.")
)  # fmt: skip
_FORMAT = key("format").string_type().no_default_value().with_description("The format of the files.")
_DEFAULT_PARTITION = (
    key("partition.default-name").string_type().default_value("__DEFAULT_PARTITION__")
    .with_description("The folder of rows whose partition column is NULL or empty.")
)  # fmt: skip
_MONITOR = (
    key("source.monitor-interval").duration_type().no_default_value().at_least(1)
    .with_description("Look for new files at this interval and never end. Not set: read what is there and end.")
)  # fmt: skip
_PATTERN = (
    key("source.path.regex-pattern").string_type().no_default_value()
    .with_description("A regular expression that the whole path of a file matches; others are left out.")
)  # fmt: skip
_STATISTICS = (
    key("source.report-statistics").string_type().default_value("FILE_SIZE")
    .with_description("Accepted and ignored.")
)  # fmt: skip
_ROLL_SIZE = (
    key("sink.rolling-policy.file-size").memory_type().default_value(128 * 1024 * 1024).at_least(1)
    .with_description("A file is complete at this size. Parquet and Avro roll on every checkpoint.")
)  # fmt: skip
_ROLL_INTERVAL = (
    key("sink.rolling-policy.rollover-interval").duration_type().default_value(30 * 60 * 1000).at_least(1)
    .with_description("A file is complete at this age.")
)  # fmt: skip
_ROLL_INACTIVITY = (
    key("sink.rolling-policy.inactivity-interval").duration_type().default_value(30 * 60 * 1000).at_least(1)
    .with_description("A file is complete if nothing was added for so long.")
)  # fmt: skip
_ROLL_CHECK = (
    key("sink.rolling-policy.check-interval").duration_type().default_value(60 * 1000)
    .with_description("Accepted and ignored: files are checked after every checkpoint.")
)  # fmt: skip
_PARALLELISM = (
    key("sink.parallelism").int_type().no_default_value().at_least(1)
    .with_description("How many subtasks write.")
)  # fmt: skip
_COMPACTION = (
    key("auto-compaction").boolean_type().default_value(False)
    .with_description("Accepted and ignored: the rolling policy says what is put together.")
)  # fmt: skip

_COMMIT_POLICY = (
    key("sink.partition-commit.policy.kind").string_type().no_default_value()
    .with_description("How readers are told that a partition is complete: success-file. Not set: they are not.")
)  # fmt: skip
_SUCCESS_FILE = (
    key("sink.partition-commit.success-file.name").string_type().default_value("_SUCCESS")
    .with_description("The name of the empty file in the folder of a complete partition.")
)  # fmt: skip
_COMMIT_TRIGGER = (
    key("sink.partition-commit.trigger").string_type().default_value("process-time")
    .with_description("When a partition is complete: process-time, the delay after its first rows.")
)  # fmt: skip
_COMMIT_DELAY = (
    key("sink.partition-commit.delay").duration_type().default_value(0).at_least(0)
    .with_description("How long after its first rows a partition is complete; 0: with each checkpoint.")
)  # fmt: skip

OPTIONS = (
    _PATH, _FORMAT, _DEFAULT_PARTITION, _MONITOR, _PATTERN, _STATISTICS, _ROLL_SIZE, _ROLL_INTERVAL, _ROLL_INACTIVITY,
    _ROLL_CHECK, _PARALLELISM, _COMPACTION, _COMMIT_POLICY, _SUCCESS_FILE, _COMMIT_TRIGGER, _COMMIT_DELAY,
)  # fmt: skip

METADATA: dict[str, LogicalType] = {
    "file.path": STRING.as_nullable(False),
    "file.name": STRING.as_nullable(False),
    "file.size": BIGINT.as_nullable(False),
    "file.modification-time": LocalZonedTimestampType(3, nullable=False),
}


def file_format(table: ConnectorTable, options: TableOptions) -> Any:
    """Return the format of a table's files: of all columns but those of the partition."""
    name = options.required(_FORMAT)
    factory = format_factory(options.table, name, "format", files=True)
    keys = table.table.partitioned_by
    fields = [(n, t) for n, t in zip(table.names, table.types, strict=True) if n not in keys]
    names, types = tuple(n for n, _ in fields), tuple(t for _, t in fields)
    if not names:
        raise ProgramError(f"Table {options.table} has no column that is not part of its partition.")
    return factory.make(names, types, options.under(f"{name}."))


def _source(table: ConnectorTable) -> TableSource:
    options = TableOptions(str(table.identifier), table.options)
    path = absolute_path(options.required(_PATH), hdfs=True)
    format = file_format(table, options)
    names, types = source_columns(table, METADATA)
    keys = table.table.partitioned_by
    declared = dict(zip(names, types, strict=True))
    monitor = None if table.batch else options.get(_MONITOR)
    pattern = options.get(_PATTERN)
    if pattern is not None:
        _check_pattern(options.table, pattern)

    def make(source: TableSource) -> TableFileSource:
        on_partition = [c for c in source.filters if _reads_only(c, source.names, keys)]
        at = {source.names.index(key): position for position, key in enumerate(keys) if key in source.names}
        return TableFileSource(
            path,
            format,
            source.names,
            source.types,
            keys,
            tuple(declared[key] for key in keys),
            options.get(_DEFAULT_PARTITION),
            tuple(remapped(condition, at) for condition in on_partition),
            column_comparisons([c for c in source.filters if c not in on_partition], source.names),
            tuple((name, key) for name, key in metadata_names(table) if name in source.names),
            pattern,
            monitor,
        )

    def applicable(read: Sequence[str], conditions: Sequence[Expression]) -> list[Expression]:
        fields = [name if name in format.names and isinstance(format, ParquetFiles) else "" for name in read]
        return [c for c in conditions if _reads_only(c, read, keys) or is_comparison(c, fields)]

    def spark(source: TableSource) -> SparkScan | None:
        if keys or not isinstance(format, ParquetFiles) or set(source.names) - set(format.names):
            return None
        from flott.runtime.connectors.columns.spark_scans import parquet_scan

        return parquet_scan(make(source))

    return TableSource(
        tuple(names),
        tuple(types),
        make,
        changelog=format.changelog,
        bounded=monitor is None,
        can_narrow=options.required(_FORMAT) in ("json", "parquet"),
        applicable=applicable,
        spark=spark,
        metadata=METADATA,
    )


def _reads_only(condition: Expression, names: Sequence[str], keys: Sequence[str]) -> bool:
    read = columns_of(condition)
    return bool(read) and all(names[index] in keys for index in read)


def _check_pattern(table: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ProgramError(
            f"Table {table}: 'source.path.regex-pattern' is a regular expression, found {pattern!r}: {error}."
        ) from error


def _sink(table: ConnectorTable) -> TableSink:
    options = TableOptions(str(table.identifier), table.options)
    format = file_format(table, options)
    bulk = format.layout in ("rows", "blocks")
    files = ColumnFiles(format, table.names, table.table.partitioned_by, options.get(_DEFAULT_PARTITION))
    success = _success_file(table, options)
    policy = DefaultRollingPolicy(options.get(_ROLL_SIZE), options.get(_ROLL_INTERVAL), options.get(_ROLL_INACTIVITY))
    sink = TableFileSink(
        absolute_path(options.required(_PATH), hdfs=True),
        files,  # type: ignore[arg-type]
        bulk=bulk,
        bucket_assigner=BasePathBucketAssigner(),
        rolling_policy=OnCheckpointRollingPolicy() if bulk or table.batch or success else policy,
        output_file_config=OutputFileConfig("part", ".parquet" if isinstance(format, ParquetFiles) else ""),
        success_file=success,
        commit_delay_ms=options.get(_COMMIT_DELAY),
    )

    def overwrite(partition: Mapping[str, Any]) -> TableFileSink:
        return replace(sink, overwrites=True, replaced_folder=files.folder(partition))

    return TableSink(
        table.names,
        table.types,
        lambda: sink,
        accepts=format.changelog,
        parallelism=options.get(_PARALLELISM),
        overwrite=overwrite,
    )


def _success_file(table: ConnectorTable, options: TableOptions) -> str | None:
    """Return the name of the file that marks complete partitions, if one is wanted."""
    if options.get(_COMMIT_POLICY) is None:
        return None
    path = options.required(_PATH)
    options.chosen(_COMMIT_POLICY, ("success-file",))
    options.chosen(_COMMIT_TRIGGER, ("process-time",))
    if not table.table.partitioned_by:
        raise ProgramError(f"Table {options.table}: '{_COMMIT_POLICY.key}' is for a table that is PARTITIONED BY.")
    if is_object_location(path) or is_hdfs_location(path):
        raise ProgramError(f"Table {options.table}: '{_COMMIT_POLICY.key}' is for local paths, found {path}.")
    return options.get(_SUCCESS_FILE)


CONNECTOR = TableConnector("filesystem", _source, _sink, options=described(OPTIONS), required=("path", "format"))
