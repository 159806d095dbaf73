"""Build a call of the library as the resolver does, and evaluate it over columns of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flott.table._expressions.compiled import compile_expressions
from flott.table._expressions.expression import Call, Cast, Expression, InputRef, Literal, walk
from flott.table._functions.function import CallArguments, Session
from flott.table._functions.registry import function_named
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import cast_type, needs_cast
from flott.table._types.logical import LogicalType


def call(name: str, *arguments: Expression) -> Expression:
    """Return a call with the casts that the function asks for and the type that it infers."""
    function = function_named(name)
    assert function is not None, name
    operands = list(arguments)
    if function.coerce is not None:
        wanted = function.coerce(_described(name, operands))
        if wanted is not None:
            operands = [_converted(one, to) for one, to in zip(operands, wanted, strict=True)]
    return Call(function.infer(_described(name, operands)), function.name, tuple(operands))


def _described(name: str, arguments: Sequence[Expression]) -> CallArguments:
    return CallArguments(
        name,
        tuple(argument.type for argument in arguments),
        tuple(argument.value if isinstance(argument, Literal) else None for argument in arguments),
        tuple(isinstance(argument, Literal) for argument in arguments),
    )


def _converted(expression: Expression, to: LogicalType) -> Expression:
    if not needs_cast(expression.type, to):
        return expression
    return Cast(to.as_nullable(expression.type.nullable), expression)


def column(index: int, of: LogicalType) -> Expression:
    return InputRef(of, index)


def literal(value: Any, of: LogicalType) -> Expression:
    return Literal(of.as_nullable(value is None), value)


def cast(operand: Expression, to: LogicalType, safe: bool = False) -> Expression:
    return Cast(cast_type(operand.type, to, safe=safe), operand, safe)


def evaluate(
    expression: Expression, *columns: tuple[LogicalType, Sequence[Any]], session: Session | None = None
) -> list[Any]:
    """Return the values of an expression over columns; a column without rows of its own has one row.

    Columns that are a part of longer ones, and columns without rows, must give the same.
    """
    arrays = [pa.array(list(values), type=arrow_type(of)) for of, values in columns]
    length = len(arrays[0]) if arrays else 1
    compiled, session = compile_expressions([expression]), session or Session()
    (found,) = compiled.over(arrays, length, session)
    assert found.type == arrow_type(expression.type), (found.type, expression.type)
    if arrays and length and not _varies(expression):
        longer = [pa.concat_arrays([array.slice(length - 1), array, array.slice(0, 1)]) for array in arrays]
        (part,) = compiled.over([array.slice(1, length) for array in longer], length, session)
        assert repr(part.to_pylist()) == repr(found.to_pylist())
    (empty,) = compiled.over([array.slice(0, 0) for array in arrays], 0, session)
    assert empty.type == found.type
    assert len(empty) == 0
    return found.to_pylist()


def _varies(expression: Expression) -> bool:
    functions = (function_named(node.function) for node in walk(expression) if isinstance(node, Call))
    return any(function is not None and function.per_row for function in functions)


def apply(name: str, *columns: tuple[LogicalType, Sequence[Any]], session: Session | None = None) -> list[Any]:
    """Return the values of a function over columns."""
    return evaluate(call(name, *(column(i, of) for i, (of, _) in enumerate(columns))), *columns, session=session)
