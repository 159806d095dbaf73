"""CASE, COALESCE, IF, NULLIF, IFNULL, GREATEST and LEAST.

The compiler evaluates CASE, COALESCE and IF itself, so that a branch that may fail runs for its own rows only. Their
kernels here serve callers that have all values already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.comparison import equal
from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import common_type, comparable_type, is_ordered
from flott.table._types.logical import BOOLEAN, Family, LogicalType


def _common(arguments: CallArguments, types: tuple[LogicalType, ...]) -> LogicalType:
    found = common_type(types)
    if found is None:
        raise arguments.refuse("values that have a common type")
    return found


def _values(arguments: CallArguments) -> tuple[LogicalType, ...]:
    """Return the types of the results of CASE: every second one and the last."""
    types = arguments.types
    if len(types) < 3 or len(types) % 2 == 0:
        raise arguments.refuse("condition, value, ..., and a last value")
    return (*types[1:-1:2], types[-1])


def _case_type(arguments: CallArguments) -> LogicalType:
    return _common(arguments, _values(arguments))


def _case_coerced(arguments: CallArguments) -> tuple[LogicalType, ...]:
    of = _case_type(arguments)
    count = len(arguments.types)
    return tuple(BOOLEAN if index % 2 == 0 and index != count - 1 else of for index in range(count))


def _case(call: KernelCall) -> Datum:
    wanted = arrow_type(call.type)
    found = call.arguments[-1].cast(wanted)
    for index in range(len(call.arguments) - 3, -1, -2):
        taken = pc.fill_null(call.arguments[index], False)
        found = pc.if_else(taken, call.arguments[index + 1].cast(wanted), found)
    return found


def _if_type(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 3 or arguments.types[0].family not in (Family.BOOLEAN, Family.NULL):
        raise arguments.refuse("a condition and two values")
    return _common(arguments, arguments.types[1:])


def _if_coerced(arguments: CallArguments) -> tuple[LogicalType, ...]:
    of = _if_type(arguments)
    return (BOOLEAN, of, of)


def _first_type(least: int, most: int | None) -> Callable[[CallArguments], LogicalType]:
    """Return the ``infer`` of what is NULL only if all of its arguments are."""

    def infer(arguments: CallArguments) -> LogicalType:
        count = len(arguments.types)
        if count < least or (most is not None and count > most):
            raise arguments.refuse(f"{least} values" if most == least else f"at least {least} values")
        nullable = all(of.nullable for of in arguments.types)
        return _common(arguments, arguments.types).as_nullable(nullable)

    return infer


def _all_common(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    of = common_type(arguments.types) if arguments.types else None
    return None if of is None else tuple(of for _ in arguments.types)


def _coalesce(call: KernelCall) -> Datum:
    wanted = arrow_type(call.type)
    return pc.coalesce(*(value.cast(wanted) for value in call.arguments))


def _nullif_type(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 2 or comparable_type(*arguments.types) is None:
        raise arguments.refuse("two values that can be compared")
    return arguments.types[0].as_nullable()


def _nullif(call: KernelCall) -> Datum:
    from flott.table._functions.casts import cast_datum

    one, _other = call.arguments
    compared = comparable_type(*call.types)
    assert compared is not None
    left, right = (
        cast_datum(value, of, compared, call.length, call.session)
        for value, of in zip(call.arguments, call.types, strict=True)
    )
    same = pc.fill_null(equal(left, right), False)
    return pc.if_else(same, pa.scalar(None, one.type), one)


def _extreme_type(arguments: CallArguments) -> LogicalType:
    if not arguments.types:
        raise arguments.refuse("at least one value")
    of = _common(arguments, arguments.types)
    if not is_ordered(of):
        raise arguments.refuse("values that can be ordered")
    return of


def _extreme(better: Callable[[Datum, Datum], Datum]) -> Kernel:
    def kernel(call: KernelCall) -> Datum:
        found = call.arguments[0]
        for value in call.arguments[1:]:
            taken = better(value, found)  # NULL if one of them is, and so is the result
            found = pc.if_else(taken, value, found)
        return found

    return kernel


def _function(
    name: str, infer: Any, kernel: Kernel, coerce: Any, syntax: str, description: str, **more: Any
) -> Function:
    return Function(
        name, infer, kernel, coerce=coerce, family="conditional", syntax=syntax, description=description, **more
    )


FUNCTIONS: tuple[Function, ...] = (
    _function(
        "CASE",
        _case_type,
        _case,
        _case_coerced,
        "CASE WHEN condition1 THEN result1 [WHEN condition2 THEN result2]* [ELSE result3] END",
        "Returns the result of the first condition that is TRUE, or that of ELSE (NULL if there is none).",
        spark=lambda arguments, types, result: (
            "CASE "
            + " ".join(f"WHEN {arguments[i]} THEN {arguments[i + 1]}" for i in range(0, len(arguments) - 1, 2))
            + f" ELSE {arguments[-1]} END"
        ),
    ),
    _function(
        "IF",
        _if_type,
        _case,
        _if_coerced,
        "IF(condition, value1, value2)",
        "Returns value1 if the condition is TRUE, otherwise value2.",
        spark="if",
    ),
    _function(
        "COALESCE",
        _first_type(1, None),
        _coalesce,
        _all_common,
        "COALESCE(value1 [, value2]*)",
        "Returns the first value that is not NULL.",
        spark="coalesce",
    ),
    _function(
        "IFNULL",
        _first_type(2, 2),
        _coalesce,
        _all_common,
        "IFNULL(value, replacement)",
        "Returns the value, or the replacement if the value is NULL.",
        spark="coalesce",
    ),
    _function(
        "NULLIF",
        _nullif_type,
        _nullif,
        None,
        "NULLIF(value1, value2)",
        "Returns NULL if both values are equal, otherwise value1.",
    ),
    _function(
        "GREATEST",
        _extreme_type,
        _extreme(pc.greater),
        _all_common,
        "GREATEST(value1 [, value2]*)",
        "Returns the greatest value, or NULL if one of them is NULL.",
    ),
    _function(
        "LEAST",
        _extreme_type,
        _extreme(pc.less),
        _all_common,
        "LEAST(value1 [, value2]*)",
        "Returns the least value, or NULL if one of them is NULL.",
    ),
)
