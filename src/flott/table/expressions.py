"""Functions that begin an expression: ``col``, ``lit``, constants, and functions of several arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError
from flott.table._literals import literal, type_node
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_expression
from flott.table.expression import Expression, JsonOnNull, TimePointUnit, call_node, node_of
from flott.table.expression import call as _function
from flott.table.types import DataType, logical_type_of

if TYPE_CHECKING:
    from flott.table.udf import UserDefinedFunctionWrapper

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "descriptor",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lag",
    "lead",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "object_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
]


def _marker(name: str, *arguments: ast.SqlExpression) -> Expression[Any]:
    """Return an expression that only a method of Table understands."""
    return Expression(ast.SqlFunctionCall((f"${name}",), arguments))


UNBOUNDED_ROW: Expression[Any] = _marker("UNBOUNDED_ROW")
UNBOUNDED_RANGE: Expression[Any] = _marker("UNBOUNDED_RANGE")
CURRENT_ROW: Expression[Any] = _marker("CURRENT_ROW")
CURRENT_RANGE: Expression[Any] = _marker("CURRENT_RANGE")


def col(name: str) -> Expression[Any]:
    """Return a column of a table.

    >>> str(col("a") > 1)
    'a > 1'
    """
    if not isinstance(name, str):
        raise ProgramError(f"Found {name!r}, expected the name of a column")
    return Expression(ast.SqlStar() if name == "*" else ast.SqlColumnReference((name,)))


def lit(v: Any, data_type: DataType | None = None) -> Expression[Any]:
    """Return a literal. Without a type 12 is INT, "abc" CHAR(3), 1.5 DOUBLE."""
    if data_type is None:
        return Expression(literal(v))
    return Expression(ast.SqlCast(literal(v), type_node(logical_type_of(data_type))))


def range_(start: str | int, end: str | int) -> Expression[Any]:
    """Return the columns from one to another, by name or by position from 1, for ``with_columns``."""
    return _marker("RANGE", *(literal(v) if isinstance(v, int) else ast.SqlColumnReference((v,)) for v in (start, end)))


def with_all_columns() -> Expression[Any]:
    """Return all columns."""
    return Expression(ast.SqlStar())


def with_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Return these columns: names, positions from 1, or ranges."""
    return _marker("WITH_COLUMNS", *(node_of(part) for part in (head, *tails)))


def without_columns(head: Any, *tails: Any) -> Expression[Any]:
    """Return all columns except these."""
    return _marker("WITHOUT_COLUMNS", *(node_of(part) for part in (head, *tails)))


def _joined(operator: str, parts: tuple[Any, ...]) -> Expression[bool]:
    found = node_of(parts[0])
    for part in parts[1:]:
        found = ast.SqlBinaryOperation(operator, found, node_of(part))
    return Expression(found)


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """Return whether all conditions hold."""
    return _joined("AND", (predicate0, predicate1, *predicates))


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression[bool]:
    """Return whether one of the conditions holds."""
    return _joined("OR", (predicate0, predicate1, *predicates))


def not_(expression: Any) -> Expression[bool]:
    """Return the opposite of a condition."""
    return Expression(ast.SqlUnaryOperation("NOT", node_of(expression)))


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression[Any]:
    """Return one of two values, by a condition."""
    return Expression(node_of(condition)).then(if_true, if_false)


def coalesce(*args: Any) -> Expression[Any]:
    """Return the first argument that is not NULL."""
    return _function("COALESCE", *args)


def null_of(data_type: DataType) -> Expression[Any]:
    """Return the NULL of a type."""
    return lit(None, data_type)


# --- time -----------------------------------------------------------------------------------------------------------


def current_database() -> Expression[str]:
    """Return the name of the current database."""
    return _function("CURRENT_DATABASE")


def current_date() -> Expression[Any]:
    """Return the date of today in the session's time zone."""
    return _function("CURRENT_DATE")


def current_time() -> Expression[Any]:
    """Return the time of day in the session's time zone."""
    return _function("CURRENT_TIME")


def current_timestamp() -> Expression[Any]:
    """Return the present point in time, as TIMESTAMP_LTZ."""
    return _function("CURRENT_TIMESTAMP")


def local_time() -> Expression[Any]:
    """Return the time of day in the session's time zone."""
    return _function("LOCALTIME")


def local_timestamp() -> Expression[Any]:
    """Return the date and time in the session's time zone, as TIMESTAMP."""
    return _function("LOCALTIMESTAMP")


def current_watermark(rowtimeAttribute: Any) -> Expression[Any]:
    """Return the watermark of an event-time column; NULL before the first."""
    return _function("CURRENT_WATERMARK", rowtimeAttribute)


def source_watermark() -> Expression[Any]:
    """Return the watermark that the source makes, for ``Schema.watermark``."""
    return _function("SOURCE_WATERMARK")


def to_date(date_str: Any, format: Any = None) -> Expression[Any]:
    """Return the date of a text."""
    return _function("TO_DATE", date_str, *(() if format is None else (format,)))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression[Any]:
    """Return the timestamp of a text."""
    return _function("TO_TIMESTAMP", timestamp_str, *(() if format is None else (format,)))


def to_timestamp_ltz(*args: Any) -> Expression[Any]:
    """Return the point in time of a number and its precision, or of a text, its format and its time zone."""
    return _function("TO_TIMESTAMP_LTZ", *args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression[bool]:
    """Return whether two spans of time overlap, each of a start and an end or a length."""
    left = ast.SqlRowConstructor((node_of(left_time_point), node_of(left_temporal)), explicit=False)
    right = ast.SqlRowConstructor((node_of(right_time_point), node_of(right_temporal)), explicit=False)
    return Expression(ast.SqlBinaryOperation("OVERLAPS", left, right))


def date_format(timestamp: Any, format: Any) -> Expression[str]:
    """Return a timestamp in a format."""
    return _function("DATE_FORMAT", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: Any, time_point2: Any) -> Expression[int]:
    """Return how many whole units are between two points in time."""
    unit = ast.SqlSymbol(time_point_unit.name)
    return Expression(ast.SqlFunctionCall(("TIMESTAMPDIFF",), (unit, node_of(time_point1), node_of(time_point2))))


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression[str]:
    """Return the text of a timestamp in another time zone."""
    return _function("CONVERT_TZ", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression[str]:
    """Return the text of the point in time so many seconds after 1970."""
    return _function("FROM_UNIXTIME", unixtime, *(() if format is None else (format,)))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression[int]:
    """Return the seconds since 1970, now or at the time of a text."""
    return _function("UNIX_TIMESTAMP", *(part for part in (date_str, format) if part is not None))


# --- numbers and text -----------------------------------------------------------------------------------------------


def pi() -> Expression[float]:
    """Return the number pi."""
    return _function("PI")


def e() -> Expression[float]:
    """Return the number e."""
    return _function("E")


def rand(seed: Any = None) -> Expression[float]:
    """Return a random number from 0 to 1."""
    return _function("RAND", *(() if seed is None else (seed,)))


def rand_integer(bound: Any, seed: Any = None) -> Expression[int]:
    """Return a random integer from 0 to a bound, which is not reached."""
    return _function("RAND_INTEGER", *(() if seed is None else (seed,)), bound)


def atan2(y: Any, x: Any) -> Expression[float]:
    """Return the angle of a point."""
    return _function("ATAN2", y, x)


def negative(v: Any) -> Expression[Any]:
    """Return the number with the other sign."""
    return Expression(ast.SqlUnaryOperation("-", node_of(v)))


def log(v: Any, base: Any = None) -> Expression[float]:
    """Return the logarithm, natural or to a base."""
    return _function("LN", v) if base is None else _function("LOG", base, v)


def concat(first: Any, *others: Any) -> Expression[str]:
    """Return texts one after the other; NULL if one of them is."""
    return _function("CONCAT", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression[str]:
    """Return texts with a separator between them, without those that are NULL."""
    return _function("CONCAT_WS", separator, first, *others)


def uuid() -> Expression[str]:
    """Return a random UUID."""
    return _function("UUID")


# --- rows, arrays, maps ---------------------------------------------------------------------------------------------


def array(head: Any, *tail: Any) -> Expression[Any]:
    """Return an array."""
    return Expression(ast.SqlArrayConstructor(tuple(node_of(item) for item in (head, *tail))))


def row(head: Any, *tail: Any) -> Expression[Any]:
    """Return a row."""
    return Expression(ast.SqlRowConstructor(tuple(node_of(item) for item in (head, *tail))))


def map_(key: Any, value: Any, *tail: Any) -> Expression[Any]:
    """Return a map of keys and values by turns."""
    return Expression(ast.SqlMapConstructor(tuple(node_of(item) for item in (key, value, *tail))))


def map_from_arrays(key: Any, value: Any) -> Expression[Any]:
    """Return a map of an array of keys and one of values."""
    return _function("MAP_FROM_ARRAYS", key, value)


def descriptor(*column_names: str) -> Expression[Any]:
    """Return names of columns as an argument."""
    return Expression(ast.SqlDescriptor(tuple(ast.SqlDescriptorColumn(name) for name in column_names)))


def object_of(class_name: str, *args: Any) -> Expression[Any]:
    """Return a structured object, of names and values by turns."""
    return _function("OBJECT_OF", class_name, *args)


def row_interval(rows: int) -> Expression[Any]:
    """Return a number of rows, for windows."""
    return _marker("ROW_INTERVAL", literal(rows))


# --- JSON -----------------------------------------------------------------------------------------------------------


def json(value: Any) -> Expression[Any]:
    """Return a text that is JSON already, for ``json_object`` and ``json_array``."""
    return _function("JSON", value)


def json_string(value: Any) -> Expression[str]:
    """Return any value as JSON."""
    return _function("JSON_STRING", value)


def _with_nulls(node: ast.SqlFunctionCall, on_null: JsonOnNull) -> Expression[str]:
    return Expression(replace(node, options=(ast.SqlCallOption("ON NULL", on_null.name),)))


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression[str]:
    """Return a JSON object of keys and values by turns."""
    return _with_nulls(call_node("JSON_OBJECT", *args), on_null)


def json_object_agg(on_null: JsonOnNull, key_expr: Any, value_expr: Any) -> Expression[str]:
    """Return a JSON object of the keys and values of all rows."""
    return _with_nulls(call_node("JSON_OBJECTAGG", key_expr, value_expr), on_null)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression[str]:
    """Return a JSON array."""
    return _with_nulls(call_node("JSON_ARRAY", *args), on_null)


def json_array_agg(on_null: JsonOnNull, item_expr: Any) -> Expression[str]:
    """Return a JSON array of the values of all rows."""
    return _with_nulls(call_node("JSON_ARRAYAGG", item_expr), on_null)


# --- calls ----------------------------------------------------------------------------------------------------------


def lag(expr: Any, offset: Any = 1, default: Any = None) -> Expression[Any]:
    """Return the value so many rows before, for over windows."""
    return _function("LAG", expr, offset, *(() if default is None else (default,)))


def lead(expr: Any, offset: Any = 1, default: Any = None) -> Expression[Any]:
    """Return the value so many rows after, for over windows."""
    return _function("LEAD", expr, offset, *(() if default is None else (default,)))


def call(f: str | UserDefinedFunctionWrapper, *args: Any) -> Expression[Any]:
    """Return the call of a function by its name, or of a Python function."""
    if isinstance(f, str):
        name = parse_expression(f)
        if not isinstance(name, ast.SqlColumnReference):
            raise ProgramError(f"Found {f!r}, expected the name of a function")
        return Expression(ast.SqlFunctionCall(name.parts, tuple(node_of(argument) for argument in args)))
    function = f.user_function
    node = ast.SqlFunctionCall((function.name,), tuple(node_of(argument) for argument in args), function=function)
    return Expression(node, f.alias_names)


def call_sql(sql_expression: str) -> Expression[Any]:
    """Return the expression that a SQL text stands for."""
    return Expression(parse_expression(sql_expression))
