"""Decimal arithmetic by Arrow's own kernels, wherever these give Flink's result: they are the fastest there are.

What needs more than 76 digits, rounds in another way or may overflow is left to ``decimals``.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.function import KernelCall
from flott.table._types.coercion import as_decimal
from flott.table._types.logical import DecimalType

_SIMPLE = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def computed(operator: str, call: KernelCall, of: DecimalType) -> Any:
    """Return a column of ``of``, or None if Arrow's kernels are not the right ones."""
    types = [as_decimal(each) for each in call.types]
    if any(each is None for each in types) or all(isinstance(value, pa.Scalar) for value in call.arguments):
        return None
    one, other = types[0], types[1]
    assert one is not None
    assert other is not None
    try:
        if operator in _SIMPLE:
            return _simple(operator, call, one, other, of)
        return _quotient(call, one, other, of) if operator == "/" else None
    except pa.ArrowInvalid:  # too many digits for a row: that row is NULL
        return None


def _as(value: Any, of: pa.DataType) -> Any:
    return value if value.type == of else value.cast(of)


def _simple(operator: str, call: KernelCall, one: DecimalType, other: DecimalType, of: DecimalType) -> Any:
    if operator == "*":
        precision = one.precision + other.precision + 1
    else:
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale + 1
    if precision > 38:
        return None
    left, right = (
        _as(value, pa.decimal128(each.precision, each.scale))
        for value, each in zip(call.arguments, (one, other), strict=True)
    )
    found = _SIMPLE[operator](left, right)
    return _as(found, pa.decimal128(of.precision, of.scale))


def _quotient(call: KernelCall, one: DecimalType, other: DecimalType, of: DecimalType) -> Any:
    """Divide with a few digits more than wanted, and round those away half up."""
    divisor = call.arguments[1]
    zero = pc.equal(divisor, pa.scalar(0, pa.int8()).cast(divisor.type))
    if zero.as_py() if isinstance(zero, pa.Scalar) else pc.any(zero, skip_nulls=True).as_py():
        return None
    extra = max(of.scale + 1 - (one.scale + other.precision - other.scale + 1), 0)
    scale = one.scale + extra
    precision = one.precision + extra
    needed = precision + other.precision + 1
    if needed >= 76:
        return None
    make = pa.decimal128 if needed < 38 else pa.decimal256
    dividend = _as(call.arguments[0], make(max(one.precision, 1), one.scale)).cast(make(precision, scale))
    quotient = pc.divide(dividend, _as(divisor, make(other.precision, other.scale)))
    return _rounded(quotient, of)


def _rounded(column: Any, of: DecimalType) -> Any:
    """Round half up: half a unit is added, away from zero, and what is behind it cut."""
    half = Decimal((0, (5,), -of.scale - 1))
    exact = type(column.type) is pa.Decimal128Type
    make = pa.decimal128 if exact else pa.decimal256
    unit, zero = make(of.scale + 1, of.scale + 1), make(1, 0)
    away = pc.if_else(pc.less(column, pa.scalar(Decimal(0), zero)), pa.scalar(-half, unit), pa.scalar(half, unit))
    moved = pc.add(column, away)
    cut = pc.CastOptions(target_type=make(moved.type.precision, of.scale), allow_decimal_truncate=True)
    return pc.cast(moved, options=cut).cast(pa.decimal128(of.precision, of.scale))
