"""Rows into Arrow columns of a table's schema, many at a time. Task side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.arrow_schemas import schema_of

try:
    import pyarrow as pa
except ImportError as error:  # pragma: no cover
    raise ProgramError("Tables need pyarrow: pip install 'flott[parquet]'.") from error

#: The codes of row kinds.
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


def arrow_schema(schema: Any) -> Any:
    """Return what a program gives as the schema of a new table as a ``pyarrow.Schema``."""
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, TypeInformation):
        return schema_of(schema)
    if isinstance(schema, Mapping):
        try:
            fields = [(name, pa.type_for_alias(kind) if isinstance(kind, str) else kind)
                      for name, kind in schema.items()]  # fmt: skip
            return pa.schema(fields)
        except (ValueError, TypeError) as error:
            raise ProgramError(f"Found the schema {schema}: {error}. Use Arrow's names, such as int64.") from error
    raise ProgramError(
        f"A table's schema is a pyarrow.Schema, a mapping such as {{'id': 'int64'}} or Types.ROW_NAMED(...), found"
        f" {schema!r}."
    )


def kinds_of(values: Sequence[Any]) -> bytes | None:
    """Return the codes of the kinds of rows; None if all are inserts."""
    codes = bytes([value._row_kind._value_ if isinstance(value, Row) else 0 for value in values])
    return codes if any(codes) else None


def cells_of(values: Sequence[Any], names: Sequence[str]) -> list[Sequence[Any]]:
    """Return the values of records by column: dicts, rows and named tuples by name, tuples by position."""
    if not values:
        return [()] * len(names)
    first = values[0]
    try:
        if isinstance(first, dict):
            return _cells_of_dicts(values, names)
        if isinstance(first, Row):
            fields = first._fields
            if any(value._fields is not fields and value._fields != fields for value in values):
                return _cells_of_dicts([value.as_dict() for value in values], names)
            return _cells_of_tuples([value._values for value in values], fields, names)
        if isinstance(first, tuple):
            return _cells_of_tuples(values, getattr(first, "_fields", None), names)
    except (AttributeError, ValueError) as error:
        raise TypeMismatchError(
            f"Records of one batch differ in their fields: {error}. The first is {first!r}."
        ) from error
    raise TypeMismatchError(f"A table takes dicts, rows and tuples, found {first!r} of type {type(first).__name__}.")


def _cells_of_dicts(values: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Sequence[Any]]:
    known = frozenset(names)
    for index, value in enumerate(values):
        if not value.keys() <= known:
            raise TypeMismatchError(
                f"The table has no column {sorted(value.keys() - known)}, found it in {value!r}: it has {list(names)}.",
                index,
            )
    return [[value.get(name) for value in values] for name in names]


def _cells_of_tuples(
    rows: Sequence[Sequence[Any]], fields: Sequence[str] | None, names: Sequence[str]
) -> list[Sequence[Any]]:
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    width = len(names) if fields is None else len(fields)
    if len(columns) != width:
        raise TypeMismatchError(f"A record has {len(columns)} fields, expected {width}: {list(fields or names)}.")
    if fields is None or tuple(fields) == tuple(names):
        return columns
    if strange := sorted(set(fields) - set(names)):
        raise TypeMismatchError(f"The table has no column {strange}, found it in a record: it has {list(names)}.")
    by_name = dict(zip(fields, columns, strict=True))
    missing: Sequence[Any] = (None,) * len(rows)
    return [by_name.get(name, missing) for name in names]


def table_of(cells: Sequence[Sequence[Any]], schema: Any) -> Any:
    """Return columns of Python values as a ``pyarrow.Table``."""
    arrays = []
    for column, field in zip(cells, schema, strict=True):
        try:
            array = pa.array(column, type=field.type)
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
            raise TypeMismatchError(
                f"A value of column {field.name} is not of the table's type {field.type}: {error}."
            ) from error
        if not field.nullable and array.null_count:
            raise TypeMismatchError(f"Column {field.name} of the table must not be null, found a null in a record.")
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=schema)


def rows_to_table(values: Sequence[Any], schema: Any) -> Any:
    """Return records as a ``pyarrow.Table`` of a schema."""
    return table_of(cells_of(values, schema.names), schema)
