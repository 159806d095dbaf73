"""Turns a type as it is written into the logical type that it means."""

from __future__ import annotations

from collections.abc import Callable

from flott.table._sql.errors import SqlError, nearest
from flott.table._sql.keywords import TYPE_SYNONYMS, TYPE_WORDS
from flott.table._sql.nodes.base import SqlTypeName
from flott.table._sql.parser import parse_type_name
from flott.table._types import logical

_PLAIN: dict[str, logical.LogicalType] = {
    "BOOLEAN": logical.BOOLEAN,
    "TINYINT": logical.TINYINT,
    "SMALLINT": logical.SMALLINT,
    "INT": logical.INT,
    "BIGINT": logical.BIGINT,
    "FLOAT": logical.FLOAT,
    "DOUBLE": logical.DOUBLE,
    "STRING": logical.STRING,
    "BYTES": logical.BYTES,
    "BITMAP": logical.BITMAP,
    "DATE": logical.DATE,
    "NULL": logical.NULL,
}

#: By name: the type of a length or precision, the default, the least and the greatest one.
_WITH_NUMBER: dict[str, tuple[Callable[[int], logical.LogicalType], int, int, int]] = {
    "CHAR": (logical.CharType, 1, 1, logical.UNLIMITED),
    "VARCHAR": (logical.VarCharType, logical.UNLIMITED, 1, logical.UNLIMITED),
    "BINARY": (logical.BinaryType, 1, 1, logical.UNLIMITED),
    "VARBINARY": (logical.VarBinaryType, logical.UNLIMITED, 1, logical.UNLIMITED),
    "TIME": (logical.TimeType, 0, 0, logical.MAX_TIMESTAMP_PRECISION),
    "TIMESTAMP": (logical.TimestampType, 6, 0, logical.MAX_TIMESTAMP_PRECISION),
    "TIMESTAMP_LTZ": (logical.LocalZonedTimestampType, 6, 0, logical.MAX_TIMESTAMP_PRECISION),
}

_MONTH_UNITS = {"YEAR", "MONTH", "QUARTER"}


def parse_type(text: str) -> logical.LogicalType:
    """Return the type that a text names, such as ``DECIMAL(10, 2) NOT NULL``."""
    name = parse_type_name(text)
    try:
        return logical_type(name)
    except SqlError as error:
        raise error.in_text(text) from None


def logical_type(name: SqlTypeName) -> logical.LogicalType:
    """Return the logical type that a written type means."""
    return _nullable_type(name).as_nullable(name.nullable)


def _nullable_type(name: SqlTypeName) -> logical.LogicalType:
    plain = _PLAIN.get(name.name)
    if plain is not None:
        return plain
    if name.name in _WITH_NUMBER:
        make, default, least, most = _WITH_NUMBER[name.name]
        number = name.parameters[0] if name.parameters else default
        if not least <= number <= most:
            raise SqlError(f"{name.name}({number}) does not exist: expected {least} to {most}", name.position)
        return make(number)
    match name.name:
        case "DECIMAL":
            return _decimal(name)
        case "INTERVAL":
            return _interval(name)
        case "ARRAY":
            return logical.ArrayType(logical_type(name.elements[0]))
        case "MULTISET":
            return logical.MultisetType(logical_type(name.elements[0]))
        case "MAP":
            return logical.MapType(logical_type(name.elements[0]), logical_type(name.elements[1]))
        case "ROW" | "STRUCTURED":
            fields = (logical.RowField(f.name, logical_type(f.type), f.description) for f in name.fields)
            return logical.RowType(tuple(fields))
        case "RAW":
            return logical.RawType(name.texts[0])
    known = (*TYPE_WORDS, *TYPE_SYNONYMS)
    raise SqlError(f"There is no type {name.name!r}.{nearest(name.name, known)}", name.position)


def _decimal(name: SqlTypeName) -> logical.LogicalType:
    precision, scale = (*name.parameters, *(10, 0)[len(name.parameters) :])
    if not 1 <= precision <= logical.MAX_DECIMAL_PRECISION:
        raise SqlError(f"The precision of DECIMAL is {precision}, expected 1 to 38", name.position)
    if scale > precision:
        raise SqlError(f"The scale of DECIMAL is {scale}, expected 0 to its precision {precision}", name.position)
    return logical.DecimalType(precision, scale)


def _interval(name: SqlTypeName) -> logical.LogicalType:
    text = interval_text(name.interval, name.parameters)
    if name.interval[0] in _MONTH_UNITS:
        return logical.YearMonthIntervalType(text=text)
    return logical.DayTimeIntervalType(text=text)


def interval_text(units: tuple[str, ...], numbers: tuple[int, ...] = ()) -> str:
    """Return how an interval type of one or two units is written, with Flink's default precisions."""
    leading = 2 if not numbers or (len(numbers) == 1 and units[-1] == "SECOND") else numbers[0]
    written = [f"{unit}({leading})" if unit in ("YEAR", "DAY") else unit for unit in units]
    if units[-1] == "SECOND":
        written[-1] = f"SECOND({numbers[-1] if numbers else 6})"
    return "INTERVAL " + " TO ".join(written)
