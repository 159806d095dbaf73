"""Expressions as Spark SQL: the forms of the function library, and the few that need Spark's wrapping arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flott.table._expressions.expression import Call, Cast, Expression, InputRef, Literal
from flott.table._functions.registry import function_named
from flott.table._functions.spark_forms import field_of_day
from flott.table._plan.spark_sql.query import NotExpressible
from flott.table._plan.spark_sql.types import constant, is_approximate, spark_type
from flott.table._types.coercion import as_decimal, needs_cast
from flott.table._types.logical import (
    BIGINT,
    BooleanType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    Family,
    FloatType,
    IntegerType,
    LogicalType,
    TimestampType,
    VarCharType,
)

#: Writes a column of the input by its position.
Column = Callable[[int], str]

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_FIELDS = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "weekofyear", "DOY": "dayofyear", "DAY": "day",
    "DOW": "dayofweek", "HOUR": "hour", "MINUTE": "minute",
}  # fmt: skip
_INFINITY = "CAST('Infinity' AS DOUBLE)"


def printed(expression: Expression, column: Column) -> str:
    """Return an expression whose value in Spark has our type and is ours."""
    match expression:
        case InputRef():
            return column(expression.index)
        case Literal():
            return constant(expression.value, expression.type)
        case Cast():
            return _cast(expression, printed(expression.operand, column))
        case Call():
            return _call(expression, [_argument(one, column) for one in expression.arguments])
    raise NotExpressible(f"the expression {expression}")


def _argument(expression: Expression, column: Column) -> str:
    if isinstance(expression, Literal) and expression.type.family is Family.OTHER:
        return ""  # a symbol such as DAY: the form of the function reads it from the expression
    return printed(expression, column)


def _call(call: Call, arguments: Sequence[str]) -> str:
    text = _own_form(call, arguments)
    if text is None:
        text = _library_form(call, arguments)
    if isinstance(call.type, BooleanType):
        return text
    return f"CAST({text} AS {spark_type(call.type)})"


def _library_form(call: Call, arguments: Sequence[str]) -> str:
    function = function_named(call.function)
    form = None if function is None else function.spark
    types = [one.type for one in call.arguments]
    text = f"{form}({', '.join(arguments)})" if isinstance(form, str) else form and form(arguments, types, call.type)
    if not text:
        given = ", ".join(one.type.root_text for one in call.arguments)
        raise NotExpressible(f"the function {call.function}({given})")
    return text


def _own_form(call: Call, arguments: Sequence[str]) -> str | None:
    name, types = call.function.upper(), [one.type for one in call.arguments]
    if name in _COMPARISONS and any(map(is_approximate, types)):
        return _compared_doubles(name, call, arguments)
    if name in ("IN", "NOT IN", "IS NOT DISTINCT FROM") and any(map(is_approximate, types)):
        raise NotExpressible(f"{name} of numbers that may be NaN")
    if name in (*_COMPARISONS, "IN", "NOT IN", "IS NOT DISTINCT FROM") and not _comparable(types):
        raise NotExpressible(f"{name} of {', '.join(of.root_text for of in types)}")
    if name in ("+", "-", "*", "/") and len(types) == 2:
        return _arithmetic(name, types, call.type, arguments)
    if name == "LIKE" and len(arguments) == 2:
        return _like(call.arguments[1], arguments)
    if name in ("SUBSTRING", "SUBSTR"):
        return _substring(call.arguments, arguments)
    if name == "EXTRACT":
        return _extract(call.arguments, arguments, call.type)
    return None


def _comparable(types: Sequence[LogicalType]) -> bool:
    """Return whether Spark compares values of these types without a conversion of its own that may lose digits."""
    exact = [as_decimal(of) for of in types]
    if all(isinstance(of, IntegerType) for of in types):
        return True
    if all(of is not None for of in exact):
        known = [of for of in exact if of is not None]
        return max(of.precision - of.scale for of in known) + max(of.scale for of in known) <= 38
    return len({of.family for of in types}) == 1 and len({spark_type(of) for of in types}) == 1


def _as_double(text: str, of: LogicalType) -> str:
    if isinstance(of, DoubleType):
        return text
    return f"CAST({text} AS DOUBLE)"


def _compared_doubles(operator: str, call: Call, arguments: Sequence[str]) -> str:
    """Return a comparison in which NaN equals nothing and is neither less nor greater, which in Spark it is."""
    types = [one.type for one in call.arguments]
    if any(isinstance(of, FloatType) for of in types) and not all(map(is_approximate, types)):
        raise NotExpressible("a comparison of FLOAT with an exact number")
    if not all(of.is_numeric for of in types):
        raise NotExpressible(f"{operator} of {', '.join(of.root_text for of in types)}")
    one, other = (_as_double(text, of) for text, of in zip(arguments, types, strict=True))
    if operator == "<>":
        return f"(CASE WHEN isnan({one}) AND {other} IS NOT NULL THEN TRUE ELSE {one} <> {other} END)"
    known = f"{one} IS NOT NULL AND {other} IS NOT NULL AND (isnan({one}) OR isnan({other}))"
    return f"(CASE WHEN {known} THEN FALSE ELSE {one} {operator} {other} END)"


def _arithmetic(
    operator: str, types: Sequence[LogicalType], result: LogicalType, arguments: Sequence[str]
) -> str | None:
    """Return arithmetic of integers, which wraps around, and of doubles, whose division by zero is infinite."""
    if isinstance(result, IntegerType) and all(isinstance(of, IntegerType) for of in types):
        one, other = (f"CAST({text} AS {result.root_text})" for text in arguments)
        if operator == "/":
            if any(of.bits > result.bits for of in types if isinstance(of, IntegerType)):
                return None
            return f"({one} div if({other} = 0, raise_error('Division by zero'), {other}))"
        return f"({one} {operator} {other})"
    if isinstance(result, DoubleType) and all(of.is_numeric and not isinstance(of, FloatType) for of in types):
        one, other = (_as_double(text, of) for text, of in zip(arguments, types, strict=True))
        if operator == "/":
            infinite = f"{one} * if(CAST({other} AS STRING) = '-0.0', -{_INFINITY}, {_INFINITY})"
            return f"if({other} = 0, {infinite}, {one} / {other})"
        return f"({one} {operator} {other})"
    return None


def _like(pattern: Expression, arguments: Sequence[str]) -> str | None:
    if isinstance(pattern, Literal) and isinstance(pattern.value, str) and "\\" not in pattern.value:
        return f"({arguments[0]} LIKE {arguments[1]})"
    return None


def _substring(given: Sequence[Expression], arguments: Sequence[str]) -> str | None:
    numbers = [one.value for one in given[1:] if isinstance(one, Literal)]
    if len(numbers) == len(given) - 1 and all(isinstance(number, int) and number > 0 for number in numbers):
        return f"substring({', '.join([arguments[0], *map(str, numbers)])})"
    return None


def _extract(given: Sequence[Expression], arguments: Sequence[str], result: LogicalType) -> str | None:
    unit, operand = given
    name = unit.value if isinstance(unit, Literal) else None
    function = _FIELDS.get(str(name).upper())
    if function is None or (isinstance(operand.type, DateType) and function in ("hour", "minute")):
        return None
    return field_of_day(function)([arguments[1]], [operand.type], result)


def _cast(cast: Cast, operand: str) -> str:
    """Return a conversion that cannot fail and gives the same value; others are left to our own kernels."""
    source, target = cast.operand.type, cast.type
    if not needs_cast(source, target):
        return operand
    wanted = f"CAST({operand} AS {spark_type(target)})"
    exact_source, exact_target = as_decimal(source), as_decimal(target)
    match source, target:
        case (IntegerType(), IntegerType()) if source.bits <= target.bits:
            return wanted
        case (IntegerType(), DoubleType()) | (FloatType(), DoubleType()) | (DecimalType(), DoubleType()):
            return wanted
        case (IntegerType() | DecimalType(), DecimalType()) if exact_source is not None and exact_target is not None:
            whole = exact_target.precision - exact_target.scale >= exact_source.precision - exact_source.scale
            if whole and exact_target.scale >= exact_source.scale:
                return wanted
        case (CharType() | VarCharType(), VarCharType()) if source.length <= target.length:
            return operand
        case (IntegerType() | DateType(), VarCharType()) if target.length >= BIGINT.digits + 1:
            return wanted
        case (BooleanType(), VarCharType()) if target.length >= len("FALSE"):
            return f"upper({wanted})"
        case (DateType(), TimestampType()) | (TimestampType(), DateType()):
            return wanted
        case (TimestampType(), TimestampType()) if source.precision <= target.precision:
            return operand
    raise NotExpressible(f"the cast from {source} to {target}")
