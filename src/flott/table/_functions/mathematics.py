"""Functions of numbers: roots, logarithms, trigonometry, rounding, signs and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions import decimals, rounding
from flott.table._functions.argument_checks import NUMBERS, check, no_arguments, over_columns, result
from flott.table._functions.decimals import both_valid, raw_values, valid_mask, validity
from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._functions.temporal_fields import rounded_time, temporal_rounded_type
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import decimal_rounded
from flott.table._types.logical import (
    BIGINT,
    DOUBLE,
    STRING,
    DecimalType,
    Family,
    IntegerType,
    LogicalType,
    NullType,
)

_INTEGER = (Family.INTEGER,)


# --- functions of doubles --------------------------------------------------------------------------------------------


def _doubles(arguments: CallArguments) -> tuple[LogicalType, ...]:
    return tuple(DOUBLE for _ in arguments.types)


def _of_doubles(compute: Callable[..., Any]) -> Kernel:
    """Return the kernel of a numpy function of doubles. Out of its domain it gives NaN or an infinity, as Java does."""

    def kernel(call: KernelCall) -> pa.Array:
        columns = [raw_values(column, np.float64) for column in call.arguments]
        valid = None
        for column in call.arguments:
            valid = both_valid(valid, valid_mask(column))
        with np.errstate(all="ignore"):
            found = np.ascontiguousarray(compute(*columns), dtype=np.float64)
        return pa.Array.from_buffers(pa.float64(), call.length, [validity(valid), pa.py_buffer(found)])

    return over_columns(kernel)


def _double(name: str, compute: Callable[..., Any], description: str, count: int = 1, **more: Any) -> Function:
    words = ", ".join(f"numeric{i + 1}" for i in range(count)) if count > 1 else "numeric"
    expected = "numbers" if count > 1 else "a number"
    return Function(
        name,
        result(DOUBLE, expected, *(NUMBERS,) * count),
        _of_doubles(compute),
        coerce=_doubles,
        family="arithmetic",
        syntax=f"{name}({words})",
        description=description,
        **more,
    )


def _power(base: Any, exponent: Any) -> Any:
    found = np.power(base, exponent)
    # Java says that 1 to an unknown or infinite power is unknown.
    return np.where(np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent)), np.nan, found)


def _log_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a number, or a base and a number", NUMBERS, NUMBERS, least=1)
    return DOUBLE.as_nullable(arguments.nullable)


def _log(*numbers: Any) -> Any:
    return np.log(numbers[0]) if len(numbers) == 1 else np.log(numbers[1]) / np.log(numbers[0])


# --- rounding --------------------------------------------------------------------------------------------------------


def _whole_type(arguments: CallArguments) -> LogicalType:
    timed = temporal_rounded_type(arguments)
    if timed is not None:
        return timed
    if len(arguments.types) != 1 or not arguments.types[0].is_numeric:
        raise arguments.refuse("a number, or a time and a unit (TO DAY)")
    of = arguments.types[0]
    return DecimalType(of.precision, 0, nullable=of.nullable) if isinstance(of, DecimalType) else of


def _whole(upwards: bool) -> Kernel:
    of_time = rounded_time(upwards)

    def kernel(call: KernelCall) -> Datum:
        of = call.types[0]
        if not of.is_numeric:
            return of_time(call)
        value = call.arguments[0]
        if isinstance(of, IntegerType):
            return value
        if of.family is Family.APPROXIMATE:
            return pc.ceil(value) if upwards else pc.floor(value)
        return exact(call)

    @over_columns
    def exact(call: KernelCall) -> Datum:
        of = call.type
        assert isinstance(of, DecimalType)
        numbers = decimals.unscaled(call.arguments[0])
        step = 10 ** call.arguments[0].type.scale
        wide = numbers.values if step <= 2**62 else numbers.wide()
        found = -(-wide // step) if upwards else wide // step
        return decimals.decimal_column(decimals.Unscaled(found, numbers.valid), of.precision, 0)

    return kernel


def _digits_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a number and, if need be, an integer", NUMBERS, _INTEGER, least=1)
    of = arguments.types[0]
    nullable = arguments.nullable
    if not isinstance(of, DecimalType):
        return of.as_nullable(nullable)
    if len(arguments.types) == 1:
        return decimal_rounded(of, 0).as_nullable(nullable)
    digits = arguments.literals[1] if arguments.literals and arguments.is_literal[1] else None
    return (of if digits is None else decimal_rounded(of, digits)).as_nullable(nullable)


def _rounding(cut: bool) -> Kernel:
    """Return the kernel of ROUND (half up, away from zero), or of TRUNCATE if digits are just cut."""

    @over_columns
    def kernel(call: KernelCall) -> pa.Array:
        column, of = call.arguments[0], call.types[0]
        digits = call.arguments[1] if len(call.arguments) > 1 else pa.repeat(pa.scalar(0, pa.int32()), call.length)
        found = pa.nulls(call.length, arrow_type(call.type))
        for count in digits.unique().to_pylist():
            if count is None:
                continue
            mine = pc.fill_null(pc.equal(digits, count), False)
            if pc.all(mine).as_py():
                return _to_digits(column, of, call.type, count, cut)
            found = pc.replace_with_mask(found, mine, _to_digits(column.filter(mine), of, call.type, count, cut))
        return found

    return kernel


def _to_digits(column: pa.Array, of: LogicalType, wanted: LogicalType, digits: int, cut: bool) -> pa.Array:
    if isinstance(of, IntegerType) and digits >= 0:
        return column
    if of.family is Family.APPROXIMATE:
        return _floats_to_digits(column, digits, cut)
    scale = of.scale if isinstance(of, DecimalType) else 0
    numbers = decimals.unscaled(column)
    kept = min(digits, scale)
    change = kept - scale
    if cut:
        shorter = decimals.truncated(numbers, -change)
    else:
        shorter = decimals.rescaled(numbers, change)
    if isinstance(wanted, DecimalType):
        back = decimals.rescaled(shorter, wanted.scale - kept)
        return decimals.decimal_column(back, wanted.precision, wanted.scale)
    whole = decimals.rescaled(shorter, -kept)
    values = np.array([int(v) & (2**64 - 1) for v in whole.values], dtype=np.uint64).view(np.int64)
    return pa.array(values.astype(column.type.to_pandas_dtype()), mask=None if whole.valid is None else ~whole.valid)


def _floats_to_digits(column: pa.Array, digits: int, cut: bool) -> pa.Array:
    """Round the shortest decimal text of each number, as Java's BigDecimal does, not its binary value."""
    from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext

    single = pa.types.is_float32(column.type)
    if not single:
        values = raw_values(column, np.float64)
        rounded, sure = rounding.to_digits(values, digits, cut=cut)
        valid = valid_mask(column)
        doubtful = ~sure if valid is None else ~sure & valid
        found_quickly = pa.array(rounded, mask=None if valid is None else ~valid)
        if not doubtful.any():
            return found_quickly
        if not doubtful.all():
            mask = pa.array(doubtful)
            return pc.replace_with_mask(found_quickly, mask, _floats_to_digits(column.filter(mask), digits, cut))
    step = Decimal(1).scaleb(-digits)
    texts = column.cast(pa.string()).to_pylist() if single else column.to_pylist()
    found: list[float | None] = []
    with localcontext() as context:
        context.prec = 400
        for value in texts:
            number = None if value is None else float(value)
            if number is None or number != number or number in (float("inf"), float("-inf")):
                found.append(number)
                continue
            exact = Decimal(value) if single else Decimal(repr(value))
            found.append(float(exact.quantize(step, rounding=ROUND_DOWN if cut else ROUND_HALF_UP)))
    return pa.array(found, type=column.type)


# --- signs and bits --------------------------------------------------------------------------------------------------


def _own_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a number", NUMBERS)
    of = arguments.types[0]
    return DOUBLE if isinstance(of, NullType) else of


def _absolute(call: KernelCall) -> Datum:
    return pc.abs(call.arguments[0])


def _sign(call: KernelCall) -> Datum:
    value, of = call.arguments[0], call.types[0]
    wanted = arrow_type(of)
    if isinstance(of, DecimalType):
        from decimal import Decimal

        zero = pa.scalar(Decimal(0), wanted)
        one, minus = (pa.scalar(Decimal(number), wanted) for number in (1, -1))
        found = pc.if_else(pc.greater(value, zero), one, pc.if_else(pc.less(value, zero), minus, zero))
        return found
    if of.family is Family.APPROXIMATE:  # keeps NaN, and the sign of zero
        special = pc.or_(pc.is_nan(value), pc.equal(value, pa.scalar(0.0, wanted)))
        return pc.if_else(special, value, pc.sign(value))
    return pc.sign(value).cast(wanted)


def _binary(call: KernelCall) -> pa.Array:
    texts = [None if v is None else format(v & (2**64 - 1), "b") for v in call.arguments[0].to_pylist()]
    return pa.array(texts, type=pa.string())


def _constant(name: str, value: float, what: str) -> Function:
    return Function(
        name,
        no_arguments(DOUBLE),
        lambda call: pa.scalar(value, pa.float64()),
        family="arithmetic",
        syntax=f"{name}()",
        description=f"Returns the DOUBLE that is closest to {what}.",
        spark=name.lower(),
    )


_DOUBLES: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("SQRT", np.sqrt, "Returns the square root."),
    ("LN", np.log, "Returns the natural logarithm."),
    ("LOG10", np.log10, "Returns the logarithm to base 10."),
    ("LOG2", np.log2, "Returns the logarithm to base 2."),
    ("EXP", np.exp, "Returns e to the power of the number."),
    ("SIN", np.sin, "Returns the sine."),
    ("SINH", np.sinh, "Returns the hyperbolic sine."),
    ("COS", np.cos, "Returns the cosine."),
    ("COSH", np.cosh, "Returns the hyperbolic cosine."),
    ("TAN", np.tan, "Returns the tangent."),
    ("TANH", np.tanh, "Returns the hyperbolic tangent."),
    ("COT", lambda x: 1.0 / np.tan(x), "Returns the cotangent."),
    ("ASIN", np.arcsin, "Returns the arc sine."),
    ("ACOS", np.arccos, "Returns the arc cosine."),
    ("ATAN", np.arctan, "Returns the arc tangent."),
    ("DEGREES", np.degrees, "Returns an angle in radians as degrees."),
    ("RADIANS", np.radians, "Returns an angle in degrees as radians."),
)

#: Spark gives NULL for the logarithm of a number that has none; these functions it computes alike.
_SAME_IN_SPARK = ("SQRT", "EXP", "SIN", "COS", "TAN", "SINH", "COSH", "TANH", "ASIN", "ACOS", "ATAN")

FUNCTIONS: tuple[Function, ...] = (
    *(
        _double(name, compute, description, spark=name.lower() if name in _SAME_IN_SPARK else None)
        for name, compute, description in _DOUBLES
    ),
    _double("POWER", _power, "Returns numeric1 to the power of numeric2.", 2, spark="power"),
    _double("ATAN2", np.arctan2, "Returns the arc tangent of the point (numeric1, numeric2).", 2, spark="atan2"),
    Function(
        "LOG",
        _log_type,
        _of_doubles(_log),
        coerce=_doubles,
        family="arithmetic",
        syntax="LOG([numeric1, ]numeric2)",
        description="Returns the logarithm of numeric2 to base numeric1, or the natural one if there is no base.",
    ),
    _constant("PI", float(np.pi), "pi"),
    _constant("E", float(np.e), "e, the base of the natural logarithm"),
    Function(
        "ABS",
        _own_type,
        _absolute,
        family="arithmetic",
        syntax="ABS(numeric)",
        description="Returns the number without its sign.",
    ),
    Function(
        "SIGN",
        _own_type,
        _sign,
        family="arithmetic",
        syntax="SIGN(numeric)",
        description="Returns -1, 0 or 1 for a number that is less than, equal to or greater than 0.",
    ),
    Function(
        "CEIL",
        _whole_type,
        _whole(True),
        aliases=("CEILING",),
        family="arithmetic",
        syntax="CEIL(numeric), CEIL(timepoint TO timeintervalunit)",
        description="Returns the number rounded up to a whole one, or the time rounded up to a unit.",
    ),
    Function(
        "FLOOR",
        _whole_type,
        _whole(False),
        family="arithmetic",
        syntax="FLOOR(numeric), FLOOR(timepoint TO timeintervalunit)",
        description="Returns the number rounded down to a whole one, or the time rounded down to a unit.",
    ),
    Function(
        "ROUND",
        _digits_type,
        _rounding(False),
        family="arithmetic",
        syntax="ROUND(numeric[, int])",
        description="Returns the number rounded half up to so many digits behind the point (0 if left away).",
    ),
    Function(
        "TRUNCATE",
        _digits_type,
        _rounding(True),
        family="arithmetic",
        syntax="TRUNCATE(numeric[, int])",
        description="Returns the number cut to so many digits behind the point (0 if left away).",
    ),
    Function(
        "BIN",
        result(STRING, "an integer", _INTEGER),
        over_columns(_binary),
        coerce=lambda arguments: (BIGINT,) if len(arguments.types) == 1 else None,
        family="arithmetic",
        syntax="BIN(int)",
        description="Returns an integer in binary digits.",
        spark="bin",
    ),
)
