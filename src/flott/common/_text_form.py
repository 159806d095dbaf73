"""Formats values of declared types as Flink does, for ``print()`` and the string encoder. Runs in tasks.

    text_form      as Java writes it: (hi,1)   +I[hi, 1]   [1, 2]   {a=1}   null   true   1.0E10
    printed_form   as PyFlink's print() does: the same, except for rows: +I[hi,1]

A type is examined once, and the resulting function is called for every value. A value without a declared type, of a
type that Flink does not have, or not of its type is formatted by ``str()``.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from flott.common.time import Instant
from flott.common.typeinfo._basic import (
    BasicType,
    BasicTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import (
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    VariadicTupleTypeInfo,
)
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._float32 import shortest
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row

TextForm = Callable[[Any], str]


def printed_form(declared: TypeInformation | None) -> TextForm:
    """Return the function by which ``print()`` formats the records of a stream.

    >>> from flott.common import Row, Types
    >>> printed_form(Types.ROW([Types.STRING(), Types.BOOLEAN()]))(Row("hi", True))
    '+I[hi,True]'
    >>> printed_form(Types.TUPLE([Types.STRING(), Types.BOOLEAN()]))(("hi", True))
    '(hi,true)'
    """
    return _or_null(_printed_row) if isinstance(declared, RowTypeInfo | ExternalTypeInfo) else text_form(declared)


def text_form(declared: TypeInformation | None) -> TextForm:
    """Return the function that formats a value of a type as Java does.

    >>> from flott.common import Types
    >>> text_form(Types.TUPLE([Types.DOUBLE(), Types.LIST(Types.STRING())]))((1e7, ["a", None]))
    '(1.0E7,[a, null])'
    """
    match declared:
        case BasicTypeInfo():
            return _or_null(_BASIC.get(declared._basic_type, str))
        case TimeTypeInfo():
            return _or_null(lambda value: value.strftime("%H:%M:%S"))
        case TimestampTypeInfo():
            return _or_null(_sql_timestamp)
        case LocalTimeTypeInfo():
            return _or_null(_iso)
        case ExternalTypeInfo():
            return text_form(declared._type_info)
        case TupleTypeInfo():
            return _or_null(_fields("({})", ",", declared.get_field_types()))
        case RowTypeInfo():
            fields = _fields("[{}]", ", ", declared.get_field_types())
            return _or_null(lambda row: f"{row.get_row_kind()}{fields(row)}")
        case MapTypeInfo():
            return _or_null(_entries(text_form(declared._key_type_info), text_form(declared._value_type_info)))
        case ListTypeInfo() if not isinstance(declared, VariadicTupleTypeInfo):
            return _or_null(_elements(text_form(declared.elem_type)))
    return str


def _or_null(form: TextForm) -> TextForm:
    def written(value: Any) -> str:
        if value is None:
            return "null"
        try:
            return form(value)
        except (AttributeError, TypeError, ValueError):
            return str(value)  # not of the type: nothing checked it before, and formatting must not fail the job

    return written


def _fields(frame: str, separator: str, types: list[TypeInformation]) -> TextForm:
    forms = [text_form(field_type) for field_type in types]

    def written(values: Any) -> str:
        return frame.format(separator.join([form(value) for form, value in zip(forms, values, strict=True)]))

    return written


def _elements(form: TextForm) -> TextForm:
    def written(values: Any) -> str:
        if isinstance(values, bytes):
            values = [value - 256 if value > 127 else value for value in values]  # Java's bytes are signed
        return f"[{', '.join(map(form, values))}]"

    return written


def _entries(key_form: TextForm, value_form: TextForm) -> TextForm:
    return lambda values: f"{{{', '.join([f'{key_form(k)}={value_form(v)}' for k, v in values.items()])}}}"


def _printed_row(value: Any) -> str:
    if not isinstance(value, Row):
        return str(value)
    return f"{value.get_row_kind()}[{','.join(map(str, value))}]"


def _number(value: float) -> str:
    """Format a floating-point number as Java does: plain from a thousandth to ten million, else with an exponent.

    >>> [_number(value) for value in (0.001, 9999999.0, 1e7, 1.5e-300, float("inf"), -0.0)]
    ['0.001', '9999999.0', '1.0E7', '1.5E-300', 'Infinity', '-0.0']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{len(rest) + int(exponent)}"


_BASIC: dict[BasicType, TextForm] = {
    BasicType.BOOLEAN: lambda value: "true" if value else "false",
    BasicType.FLOAT: lambda value: _number(shortest(value)),
    BasicType.DOUBLE: _number,
    BasicType.INSTANT: lambda value: _instant(value),
}


def _sql_timestamp(value: datetime.datetime) -> str:
    """
    >>> _sql_timestamp(datetime.datetime(2026, 1, 2, 3, 4, 5, 11000))
    '2026-01-02 03:04:05.011'
    """
    return f"{value:%Y-%m-%d %H:%M:%S}.{f'{value.microsecond:06d}'.rstrip('0') or '0'}"


def _iso(value: datetime.date | datetime.time | datetime.datetime) -> str:
    """Format a time as java.time does: without zero seconds, and with fractions of three digits.

    >>> _iso(datetime.time(12, 0)), _iso(datetime.datetime(2026, 1, 2, 3, 4, 0, 500000))
    ('12:00', '2026-01-02T03:04:00.500')
    """
    if not isinstance(value, (datetime.time, datetime.datetime)):
        return value.isoformat()
    if value.microsecond % 1000:
        return value.isoformat(timespec="microseconds")
    if value.microsecond:
        return value.isoformat(timespec="milliseconds")
    return value.isoformat(timespec="seconds" if value.second else "minutes")


def _instant(value: Instant) -> str:
    """
    >>> _instant(Instant(1, 500_000_000)), _instant(Instant(0, 0))
    ('1970-01-01T00:00:01.500Z', '1970-01-01T00:00:00Z')
    """
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    except OverflowError:
        return str(value)  # outside of the years that Python supports
    fraction = f"{value.nanos:09d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{moment.isoformat(timespec='seconds')}{'.' * bool(fraction)}{fraction}Z"
