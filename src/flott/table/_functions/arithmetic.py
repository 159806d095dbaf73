"""The operators ``+ - * / %``, unary minus and MOD: on numbers, and where times and intervals take part.

Integers wrap at their width, as in Flink; a division by zero fails for integers and decimals and is infinite for
floating-point numbers. Operands of different number types need no cast: the kernels take them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions import decimal_kernels, decimals, spark_forms, temporal_arithmetic
from flott.table._functions.argument_checks import EvaluationError, over_columns
from flott.table._functions.decimals import Unscaled, both_valid, raw_values, valid_mask
from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import arithmetic_type, is_datetime
from flott.table._types.logical import DecimalType, Family, IntegerType, LogicalType, NullType, YearMonthIntervalType

_ZERO = "Division by zero. Guard the divisor, for example with NULLIF(divisor, 0)."


def _inferred(operator: str) -> Callable[[CallArguments], LogicalType]:
    def infer(arguments: CallArguments) -> LogicalType:
        if len(arguments.types) == 2:
            one, other = arguments.types
            found = arithmetic_type(operator, one, other) or temporal_arithmetic.temporal_type(operator, one, other)
            if found is not None:
                return found
        raise arguments.refuse(f"numbers, or times and intervals that {operator} is defined for")

    return infer


def _without_untyped(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    """Give a NULL without a type that of the other side."""
    types = arguments.types
    if len(types) != 2 or not any(isinstance(of, NullType) for of in types):
        return None
    one, other = types
    if isinstance(one, NullType):
        return (other.as_nullable(), other)
    return (one, other.as_nullable() if not isinstance(other, NullType) else one.as_nullable())


# --- kernels of numbers ----------------------------------------------------------------------------------------------


def _approximate(operator: str, one: Datum, other: Datum, of: pa.DataType) -> Datum:
    one, other = _as_float(one, of), _as_float(other, of)
    match operator:
        case "+":
            return pc.add(one, other)
        case "-":
            return pc.subtract(one, other)
        case "*":
            return pc.multiply(one, other)
        case "/":
            return pc.divide(one, other)
    if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
        return _float_remainder(pa.repeat(one, 1), pa.repeat(other, 1), of)[0]
    length = len(other) if isinstance(one, pa.Scalar) else len(one)
    left, right = (pa.repeat(v, length) if isinstance(v, pa.Scalar) else v for v in (one, other))
    return _float_remainder(left, right, of)


def _as_float(value: Datum, of: pa.DataType) -> Datum:
    # An integer beyond 2**53 becomes the nearest double, as in Java.
    return value if value.type == of else pc.cast(value, of, safe=False)


def _float_remainder(one: pa.Array, other: pa.Array, of: pa.DataType) -> pa.Array:
    dtype = of.to_pandas_dtype()
    with np.errstate(all="ignore"):
        found = np.fmod(raw_values(one, dtype), raw_values(other, dtype))
    valid = both_valid(valid_mask(one), valid_mask(other))
    return pa.Array.from_buffers(of, len(found), [decimals.validity(valid), pa.py_buffer(found)])


def _integers(operator: str, one: Datum, other: Datum, of: pa.DataType) -> Datum:
    wide = one.type if one.type.bit_width >= other.type.bit_width else other.type
    if operator == "%":
        return _integer_remainder(one, other, wide, of)
    one, other = (value if value.type == wide else pc.cast(value, wide) for value in (one, other))
    match operator:
        case "+":
            return pc.add(one, other)
        case "-":
            return pc.subtract(one, other)
        case "*":
            return pc.multiply(one, other)
    if _has(other, 0):
        raise EvaluationError(_ZERO)
    found = pc.divide(one, other)
    if _has(other, -1):  # the least integer divided by -1 wraps to itself
        found = pc.if_else(pc.equal(other, pa.scalar(-1, wide)), pc.negate(one), found)
    return found


def _has(value: Datum, number: int) -> bool:
    """Return whether a column contains a number."""
    if isinstance(value, pa.Scalar):
        return bool(value.as_py() == number)
    return bool(pc.index(value, pa.scalar(number, value.type)).as_py() >= 0)


def _integer_remainder(one: Datum, other: Datum, wide: pa.DataType, of: pa.DataType) -> Datum:
    if _has(other, 0):
        raise EvaluationError(_ZERO)
    constant = isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar)
    if isinstance(other, pa.Scalar) and not other.is_valid:
        return pa.scalar(None, of) if constant else pa.nulls(len(one), of)
    dividend = pa.repeat(one, 1 if constant else len(other)) if isinstance(one, pa.Scalar) else one
    values = raw_values(dividend, one.type.to_pandas_dtype())
    valid = valid_mask(dividend)
    if isinstance(other, pa.Scalar):
        found = _remainder_of_constant(values, other.as_py(), wide.to_pandas_dtype())
    else:
        divisors = pc.fill_null(other, 1) if other.null_count else other
        found = np.fmod(values, raw_values(divisors, other.type.to_pandas_dtype()))
        valid = both_valid(valid, valid_mask(other))
    found = np.ascontiguousarray(found.astype(of.to_pandas_dtype(), copy=False))
    column = pa.Array.from_buffers(of, len(found), [decimals.validity(valid), pa.py_buffer(found)])
    return column[0] if constant else column


def _remainder_of_constant(values: np.ndarray[Any, Any], divisor: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Return remainders by a constant: numpy divides by a constant much faster than it takes remainders."""
    values = values.astype(dtype, copy=False)
    if len(values) and values.min() >= 0 and divisor > 0:
        found: np.ndarray[Any, Any] = values - values // dtype(divisor) * dtype(divisor)
    else:
        found = np.fmod(values, dtype(divisor))
    return found


def _exact(operator: str, call: KernelCall, of: DecimalType) -> pa.Array:
    quick = decimal_kernels.computed(operator, call, of)
    if quick is not None:
        return quick
    one, other = (decimals.unscaled(column) for column in _decimal_columns(call))
    ours, theirs = (_scale(column.type) for column in call.arguments)
    try:
        found, scale = _DECIMAL[operator](one, other, ours, theirs, of.scale)
    except ZeroDivisionError:
        raise EvaluationError(_ZERO) from None
    return decimals.decimal_column(decimals.rescaled(found, of.scale - scale), of.precision, of.scale)


def _decimal_columns(call: KernelCall) -> list[pa.Array]:
    """Return the operands; a constant stays a column of one value, which numpy spreads over the others."""
    return [
        pa.repeat(value, 1) if isinstance(value, pa.Scalar) and value.is_valid else call.column(index)
        for index, value in enumerate(call.arguments)
    ]


def _scale(of: pa.DataType) -> int:
    return of.scale if pa.types.is_decimal(of) else 0


def _summed(sign: int) -> Callable[[Unscaled, Unscaled, int, int, int], tuple[Unscaled, int]]:
    def summed(one: Unscaled, other: Unscaled, ours: int, theirs: int, wanted: int) -> tuple[Unscaled, int]:
        scale = max(ours, theirs)
        return decimals.added(
            decimals.rescaled(one, scale - ours), decimals.rescaled(other, scale - theirs), sign
        ), scale

    return summed


def _multiplied(one: Unscaled, other: Unscaled, ours: int, theirs: int, wanted: int) -> tuple[Unscaled, int]:
    return decimals.multiplied(one, other), ours + theirs


def _divided(one: Unscaled, other: Unscaled, ours: int, theirs: int, wanted: int) -> tuple[Unscaled, int]:
    shift = wanted - ours + theirs
    if shift < 0:
        return decimals.divided(one, decimals.rescaled(other, -shift), 0), wanted
    return decimals.divided(one, other, shift), wanted


def _remainder(one: Unscaled, other: Unscaled, ours: int, theirs: int, wanted: int) -> tuple[Unscaled, int]:
    scale = max(ours, theirs)
    return decimals.remainder(decimals.rescaled(one, scale - ours), decimals.rescaled(other, scale - theirs)), scale


_DECIMAL = {"+": _summed(1), "-": _summed(-1), "*": _multiplied, "/": _divided, "%": _remainder}


# --- kernels ---------------------------------------------------------------------------------------------------------


def _operator(operator: str) -> Kernel:
    exact = _over_constants(lambda call: _exact(operator, call, call.type))  # type: ignore[arg-type]
    temporal = over_columns(lambda call: _temporal(operator, call))

    def kernel(call: KernelCall) -> Datum:
        one, other = call.arguments
        if pa.types.is_null(one.type) or pa.types.is_null(other.type):
            return pa.scalar(None, arrow_type(call.type))
        family = call.type.family
        if family is Family.INTEGER:
            return _integers(operator, one, other, arrow_type(call.type))
        if family is Family.APPROXIMATE:
            return _approximate(operator, one, other, arrow_type(call.type))
        return exact(call) if family is Family.DECIMAL else temporal(call)

    return kernel


def _over_constants(kernel: Kernel) -> Kernel:
    """Return a kernel that gives a constant if all of its arguments are."""

    def general(call: KernelCall) -> Datum:
        found = kernel(call)
        return found[0] if all(isinstance(value, pa.Scalar) for value in call.arguments) else found

    return general


def _temporal(operator: str, call: KernelCall) -> pa.Array:
    (one, other), (ours, theirs) = call.arguments, call.types
    if operator in "*/":
        if theirs.family is Family.INTERVAL:
            one, other = other, one
        try:
            return temporal_arithmetic.scaled_interval(one, other, operator)
        except ZeroDivisionError:
            raise EvaluationError(_ZERO) from None
    sign = 1 if operator == "+" else -1
    if ours.family is Family.INTERVAL and theirs.family is Family.INTERVAL:
        return temporal_arithmetic.summed_intervals(one, other, sign)
    if not is_datetime(ours):
        one, other, ours, theirs = other, one, theirs, ours
    return temporal_arithmetic.plus_interval(one, other, ours, theirs, sign)


def _negated(call: KernelCall) -> Datum:
    value, of = call.arguments[0], call.types[0]
    if isinstance(of, DecimalType | IntegerType | YearMonthIntervalType) or of.family is Family.APPROXIMATE:
        return pc.negate(value)
    return pc.negate(value.cast(pa.int64())).cast(pa.duration("ms"))


def _signed(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) == 1:
        of = arguments.types[0]
        if of.is_numeric or of.family is Family.INTERVAL:
            return of
    raise arguments.refuse("a number or an interval")


def _function(name: str, operator: str, syntax: str, description: str, **more: Any) -> Function:
    return Function(
        name,
        _inferred(operator),
        _operator(operator),
        coerce=_without_untyped,
        family="arithmetic",
        syntax=syntax,
        description=description,
        **more,
    )


FUNCTIONS: tuple[Function, ...] = (
    _function(
        "+",
        "+",
        "numeric1 + numeric2",
        "Returns the sum, or a time moved by an interval.",
        spark=spark_forms.arithmetic("+"),
    ),
    _function(
        "-",
        "-",
        "numeric1 - numeric2",
        "Returns the difference, or a time moved back by an interval.",
        spark=spark_forms.arithmetic("-"),
    ),
    _function(
        "*",
        "*",
        "numeric1 * numeric2",
        "Returns the product, or a multiple of an interval.",
        spark=spark_forms.arithmetic("*"),
    ),
    _function(
        "/",
        "/",
        "numeric1 / numeric2",
        "Returns the quotient; that of integers is an integer, cut towards zero.",
        may_fail=True,
        spark=spark_forms.arithmetic("/"),
    ),
    _function(
        "%",
        "%",
        "numeric1 % numeric2",
        "Returns the remainder of a division, with the sign of the first number.",
        may_fail=True,
        spark=spark_forms.arithmetic("%"),
        aliases=("MOD",),
    ),
    Function(
        "NEGATIVE",
        _signed,
        _negated,
        family="arithmetic",
        syntax="- numeric",
        description="Returns the number with the other sign.",
        spark=lambda arguments, types, result: (
            f"(- {arguments[0]})" if str(types[0].as_nullable()) == "DOUBLE" else None
        ),
    ),
)
