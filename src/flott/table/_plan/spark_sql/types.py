"""Types and constants in the syntax of Spark."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from flott.table._plan.spark_sql.query import NotExpressible
from flott.table._types.logical import (
    BooleanType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    Family,
    FloatType,
    IntegerType,
    LocalZonedTimestampType,
    LogicalType,
    TimeAttribute,
    TimestampType,
    VarBinaryType,
    VarCharType,
)

#: Spark holds microseconds.
_MOST_DIGITS = 6


def spark_type(of: LogicalType) -> str:
    """Return the type of Spark that holds the same values."""
    match of:
        case BooleanType() | IntegerType() | FloatType() | DoubleType() | DecimalType() | DateType():
            return of.root_text
        case CharType() | VarCharType():
            return "STRING"  # a length is no more than a promise here, too: nothing is padded or cut
        case VarBinaryType():
            return "BINARY"
        case TimestampType() if of.precision <= _MOST_DIGITS and of.attribute is not TimeAttribute.PROCTIME:
            return "TIMESTAMP_NTZ"
        case LocalZonedTimestampType() if of.precision <= _MOST_DIGITS and of.attribute is not TimeAttribute.PROCTIME:
            return "TIMESTAMP"
    raise NotExpressible(f"a column of type {of}")


def is_approximate(of: LogicalType) -> bool:
    """Return whether values of a type may be NaN, which Spark compares differently."""
    return of.family is Family.APPROXIMATE


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


def constant(value: Any, of: LogicalType) -> str:
    """Return a constant of a type."""
    if value is None:
        return f"CAST(NULL AS {spark_type(of)})"
    match of:
        case BooleanType():
            return "TRUE" if value else "FALSE"
        case IntegerType() | DecimalType() if isinstance(value, int | Decimal):
            text = format(value, "f") if isinstance(value, Decimal) else str(value)
            return f"CAST('{text}' AS {spark_type(of)})"
        case DoubleType() | FloatType() if isinstance(value, int | float):
            return f"CAST('{float(value)!r}' AS {spark_type(of)})"
        case CharType() | VarCharType() if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case VarBinaryType() if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        case DateType() if isinstance(value, date):
            return f"DATE'{value.isoformat()}'"
        case TimestampType() if isinstance(value, datetime) and value.tzinfo is None:
            return f"{spark_type(of)}'{value.isoformat(sep=' ')}'"
    raise NotExpressible(f"a constant of type {of}")
