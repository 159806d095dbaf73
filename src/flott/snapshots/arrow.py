"""State as Arrow tables. Driver side; pyarrow is optional, and imported here only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flott.errors import CorruptStateError, StateError
from flott.runtime.managed_state.files.column_codec import field_names
from flott.runtime.managed_state.schema.type_schema import Json
from flott.snapshots.table_columns import Column

try:
    import pyarrow
except ImportError as error:
    raise StateError(
        "Arrow tables need pyarrow, which is not installed here: pip install 'flott[arrow]'. items() and"
        " to_dataframe() do without."
    ) from error

_TYPES: dict[str, pyarrow.DataType] = {
    "boolean": pyarrow.bool_(),
    "byte": pyarrow.int8(),
    "short": pyarrow.int16(),
    "int": pyarrow.int32(),
    "long": pyarrow.int64(),
    "float": pyarrow.float64(),  # Python's float, of which nothing is rounded away
    "double": pyarrow.float64(),
    "char": pyarrow.string(),
    "string": pyarrow.string(),
    "bytes": pyarrow.binary(),
    "date": pyarrow.date32(),
    "time": pyarrow.string(),
    "timestamp": pyarrow.timestamp("us"),
    "instant": pyarrow.timestamp("us", tz="UTC"),
    "big-int": pyarrow.int64(),  # as far as they fit, which they nearly always do: every int of Python's is one
    # Of any precision, which Arrow's decimals are not.
    "big-decimal": pyarrow.string(),
    "pickled": pyarrow.string(),
}


def batches_of(columns: tuple[Column, ...], batches: Iterable[list[list[Any]]]) -> Iterator[pyarrow.RecordBatch]:
    """Return one record batch for each batch of cells, which come column by column."""
    schema = _schema(columns)
    for cells in batches:
        parts = zip(columns, schema, cells, strict=True)
        arrays = [_array(column, field.type, values) for column, field, values in parts]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def table_of(columns: tuple[Column, ...], batches: Iterable[list[list[Any]]]) -> pyarrow.Table:
    """Return all batches as one table."""
    return pyarrow.Table.from_batches(batches_of(columns, batches), schema=_schema(columns))


def _schema(columns: tuple[Column, ...]) -> pyarrow.Schema:
    return pyarrow.schema([pyarrow.field(column.name, arrow_type(column.type)) for column in columns])


def _array(column: Column, kind: pyarrow.DataType, cells: list[Any]) -> pyarrow.Array:
    try:
        return pyarrow.array(cells, type=kind)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise StateError(
            f"Column {column.name!r} holds a value that is no Arrow {kind}: {error}. Read the state with items(), or as"
            " text by the type Types.PICKLED_BYTE_ARRAY()."
        ) from error


def arrow_type(node: Json) -> pyarrow.DataType:
    """Arrow's type for a node of a schema."""
    kind = node["type"]
    if kind in _TYPES:
        return _TYPES[kind]
    match kind:
        case "list" | "tuple-of":
            return pyarrow.list_(arrow_type(node["element"]))
        case "map":
            return pyarrow.map_(arrow_type(node["key"]), arrow_type(node["value"]))
        case _ if "fields" in node:
            fields = zip(field_names(node), node["fields"], strict=True)
            return pyarrow.struct([pyarrow.field(name, arrow_type(field["type"])) for name, field in fields])
    raise CorruptStateError(f"The state names the type {kind!r}, which this version of Flott does not know.")
