"""Shows state as DataFrames, and reads DataFrames as rows for state. Driver side.

A column's type is a node of a schema (``managed_state.schema.type_schema``). Cells come as Python objects that Spark
takes as they are: no Arrow is needed, here or on the executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.column_codec import field_names
from flott.runtime.managed_state.schema.type_schema import Json
from flott.runtime.spark.session import log_file_in, spark_context

_TYPES: dict[str, spark_types.DataType] = {
    "boolean": spark_types.BooleanType(),
    "byte": spark_types.ByteType(),
    "short": spark_types.ShortType(),
    "int": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "float": spark_types.DoubleType(),  # as precise as Python's float
    "double": spark_types.DoubleType(),
    "char": spark_types.StringType(),
    "string": spark_types.StringType(),
    "bytes": spark_types.BinaryType(),
    "date": spark_types.DateType(),
    "time": spark_types.StringType(),
    "timestamp": spark_types.TimestampNTZType(),
    "instant": spark_types.TimestampType(),
    "big-int": spark_types.LongType(),  # every Python int has this type, and nearly all fit
    # Spark's decimals have a limited precision, these do not.
    "big-decimal": spark_types.StringType(),
    "pickled": spark_types.StringType(),
}


def make_frame(
    session: SparkSession | None,
    parts: Sequence[Any],
    read: Callable[[Any], Iterable[tuple[Any, ...]]],
    columns: Sequence[tuple[str, Json]],
) -> DataFrame:
    """Return a DataFrame of the rows that ``read`` returns for each part, with one task per part."""
    session = session or active_session()
    schema = spark_types.StructType([spark_types.StructField(name, spark_type(node)) for name, node in columns])
    if not parts:
        return session.createDataFrame([], schema)
    rows = session.sparkContext.parallelize(parts, len(parts)).flatMap(read)
    return session.createDataFrame(rows, schema, verifySchema=False)


def active_session() -> SparkSession:
    """Return the active session, or a new one."""
    found = SparkSession.getActiveSession()
    if found is None:
        spark_context({}, log_file_in(None))
        found = SparkSession.builder.getOrCreate()
    return found


def spark_type(node: Json) -> spark_types.DataType:
    """Return Spark's type for a node of a schema."""
    kind = node["type"]
    if kind in _TYPES:
        return _TYPES[kind]
    match kind:
        case "list" | "tuple-of":
            return spark_types.ArrayType(spark_type(node["element"]))
        case "map":
            return spark_types.MapType(spark_type(node["key"]), spark_type(node["value"]))
        case _ if "fields" in node:
            fields = zip(field_names(node), node["fields"], strict=True)
            return spark_types.StructType(
                [spark_types.StructField(name, spark_type(field["type"])) for name, field in fields]
            )
    raise CorruptStateError(f"The state names the type {kind!r}, which this version of Flott does not know.")


def is_frame(rows: object) -> bool:
    """Return whether an object is a DataFrame."""
    return isinstance(rows, DataFrame)


def rows_of_frame(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of a DataFrame as dicts. The driver holds one partition while the next is computed."""
    for row in frame.toLocalIterator(prefetchPartitions=True):
        yield row.asDict(recursive=True)
