"""Tells whether Spark reads the files of a table as this package does, by what the files say of themselves."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from flott.common._object_store_settings import is_hdfs_location, is_object_location
from flott.table._connectors.file_tables import TableFileSource
from flott.table._connectors.table_source import SparkScan
from flott.table._plan.spark_sql.query import NotExpressible
from flott.table._plan.spark_sql.types import quoted, spark_type
from flott.table._types.arrow import arrow_schema


def parquet_scan(source: TableFileSource) -> SparkScan | None:
    """Return how Spark reads Parquet files: exactly the files found, if their columns have the declared types.

    Where types differ, each reader converts in its own way; there this package's is asked.
    """
    if is_object_location(source.path) or is_hdfs_location(source.path) or source.monitor_interval_ms is not None:
        return None
    try:
        fields = [f"{quoted(n)} {spark_type(of)}" for n, of in zip(source.names, source.types, strict=True)]
    except NotExpressible:
        return None
    paths = [file.path for file in source.create_enumerator().found()]  # type: ignore[attr-defined]
    declared = arrow_schema(source.names, source.types)
    if not paths or not fields or not all(_agrees(path, declared) for path in paths):
        return None
    return SparkScan("parquet", tuple(paths), ", ".join(fields))


def _agrees(path: str, declared: pa.Schema) -> bool:
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return False
    return all(
        found.field(field.name).type == field.type for field in declared if found.get_field_index(field.name) >= 0
    ) and len(set(found.names)) == len(found.names)
