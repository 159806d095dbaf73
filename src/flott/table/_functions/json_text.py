"""Values as JSON text, as Flink writes it: keys in order, no blanks, bytes in Base64, times in ISO form."""

from __future__ import annotations

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

from flott.table._types import logical
from flott.table._types.logical import LogicalType


class JsonText(str):
    """Text that is JSON already and is put in as it is."""

    __slots__ = ()


def json_text(value: Any) -> str:
    """Return a plain value (of a parsed document, or made by ``plain_json``) as text."""
    match value:
        case None:
            return "null"
        case JsonText():
            return str(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return str(value)
        case float():
            return java_double(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            inner = ",".join(f"{json_text(str(key))}:{json_text(value[key])}" for key in sorted(value, key=str))
            return "{" + inner + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_text, value)) + "]"
    raise TypeError(value)


def java_double(value: float) -> str:
    """Return a floating-point number as Java writes it."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else format(Decimal(text), "f")
    mantissa, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def plain_json(value: Any, of: LogicalType) -> Any:
    """Return a value of a column, as Arrow gives it, in the plain form of JSON."""
    if value is None:
        return None
    match of:
        case logical.BinaryType() | logical.VarBinaryType():
            return base64.b64encode(value).decode()
        case logical.TimestampType():
            return _iso(value)
        case logical.LocalZonedTimestampType():
            return _iso(value.astimezone(datetime.UTC).replace(tzinfo=None)) + "Z"
        case logical.ArrayType():
            return [plain_json(one, of.element) for one in value]
        case logical.MapType():
            return {_key(key): plain_json(one, of.value) for key, one in value}
        case logical.MultisetType():
            return {_key(key): count for key, count in value}
        case logical.RowType():
            return {field.name: plain_json(value[field.name], field.type) for field in of.fields}
    return str(value) if isinstance(value, datetime.date | datetime.time | datetime.timedelta) else value


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _iso(value: datetime.datetime) -> str:
    text = value.replace(microsecond=0).isoformat()
    digits = f"{value.microsecond:06d}"
    return text if not value.microsecond else f"{text}.{digits[:3] if digits.endswith('000') else digits}"
