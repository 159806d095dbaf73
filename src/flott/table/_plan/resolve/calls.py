"""Calls of library functions and of functions in Python: arguments are checked, cast, and the result is typed."""

from __future__ import annotations

from collections.abc import Sequence

from flott.errors import FlottError
from flott.table._expressions.expression import Call, Cast, Expression, Literal, UserCall, UserFunction
from flott.table._functions.function import CallArguments
from flott.table._functions.registry import function_named, functions
from flott.table._sql.errors import SqlError, nearest
from flott.table._sql.nodes.base import Position
from flott.table._types.coercion import can_cast, can_cast_implicitly, cast_type, common_type, needs_cast
from flott.table._types.logical import BOOLEAN, STRING, LogicalType, NullType, RowType, plain


def cast_to(expression: Expression, target: LogicalType) -> Expression:
    """Return an expression converted to a type, if it is not of it already. Nullability stays as it is."""
    if not needs_cast(expression.type, target):
        return expression
    wanted = plain(target).as_nullable(expression.type.nullable)
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(wanted.as_nullable(), None)
    return Cast(wanted, expression)


def explicit_cast(operand: Expression, target: LogicalType, safe: bool, position: Position | None) -> Expression:
    """Return what CAST or TRY_CAST asks for."""
    if isinstance(operand, Literal) and operand.value is None:
        return Literal(target.as_nullable(), None)
    if not can_cast(operand.type, target):
        raise SqlError(f"{'TRY_CAST' if safe else 'CAST'} from {operand.type} to {target} is not supported", position)
    return Cast(cast_type(plain(operand.type), target, safe=safe), operand, safe)


def call_arguments(name: str, arguments: Sequence[Expression]) -> CallArguments:
    """Return what a function may know of its arguments before it runs."""
    return CallArguments(
        name,
        tuple(plain(argument.type) for argument in arguments),
        tuple(argument.value if isinstance(argument, Literal) else None for argument in arguments),
        tuple(isinstance(argument, Literal) for argument in arguments),
    )


def call(name: str, arguments: Sequence[Expression], position: Position | None = None) -> Expression:
    """Return a call of a library function, with a cast for each argument that needs one."""
    function = function_named(name)
    if function is None:
        raise SqlError(f"Function {name} is not known.{nearest(name, functions())}", position)
    try:
        if function.coerce is not None:
            wanted = function.coerce(call_arguments(function.name, arguments))
            if wanted is not None:
                arguments = [cast_to(a, t) for a, t in zip(arguments, wanted, strict=True)]
        result = function.infer(call_arguments(function.name, arguments))
    except FlottError as error:  # SignatureError, or a constant that the function refuses
        raise SqlError(str(error), position) from None
    return Call(result, function.name, tuple(arguments))


def user_call(
    function: UserFunction,
    arguments: Sequence[Expression],
    position: Position | None,
    result: LogicalType | None = None,
) -> UserCall:
    """Return a call of a function in Python, with its arguments cast to the declared types."""
    of = result or function.result_type
    if of is None:
        raise SqlError(f"The result type of function {function.name} is not declared", position)
    return UserCall(of, function, user_arguments(function, arguments, position))


def user_arguments(
    function: UserFunction, arguments: Sequence[Expression], position: Position | None
) -> tuple[Expression, ...]:
    """Return arguments cast to the types that a function in Python declares."""
    declared = function.argument_types
    if declared is None or function.takes_rows:
        return tuple(cast_to(a, STRING) if isinstance(a.type, NullType) else a for a in arguments)
    if len(declared) != len(arguments):
        raise SqlError(
            f"Function {function.name} takes {len(declared)} arguments ({', '.join(map(str, declared))}), "
            f"found {len(arguments)}",
            position,
        )
    cast = []
    for number, (argument, wanted) in enumerate(zip(arguments, declared, strict=True), 1):
        if not can_cast_implicitly(plain(argument.type), wanted):
            raise SqlError(
                f"Argument {number} of function {function.name} is {argument.type}, expected {wanted}", position
            )
        cast.append(cast_to(argument, wanted))
    return tuple(cast)


def case(
    branches: Sequence[tuple[Expression, Expression]], otherwise: Expression | None, position: Position | None
) -> Expression:
    """Return CASE WHEN with all results cast to their common type. Conditions must be BOOLEAN."""
    for condition, _ in branches:
        truth(condition, "WHEN", position)
    rest = otherwise if otherwise is not None else Literal(NullType(), None)
    results = [*(result for _, result in branches), rest]
    of = common(results, "The results of CASE", position)
    nullable = any(result.type.nullable for result in results)
    arguments: list[Expression] = []
    for condition, result in branches:
        arguments += (cast_to(condition, BOOLEAN), cast_to(result, of))
    return Call(of.as_nullable(nullable), "CASE", (*arguments, cast_to(rest, of)))


def common(expressions: Sequence[Expression], what: str, position: Position | None) -> LogicalType:
    """Return the type to which expressions are cast where they meet; raise ``SqlError`` if there is none."""
    of = common_type([plain(expression.type) for expression in expressions])
    if of is None:
        found = ", ".join(dict.fromkeys(str(expression.type) for expression in expressions))
        raise SqlError(f"{what} have no common type: {found}", position)
    return plain(of)


def truth(condition: Expression, clause: str, position: Position | None) -> Expression:
    """Return a condition; raise ``SqlError`` if it is not BOOLEAN."""
    if isinstance(condition.type, NullType):
        return cast_to(condition, BOOLEAN)
    if condition.type.family is not BOOLEAN.family:
        raise SqlError(f"The condition of {clause} is {condition.type}, expected BOOLEAN", position)
    return condition


def conjoined(conditions: Sequence[Expression]) -> Expression | None:
    """Return conditions combined by AND; None if there is none."""
    from flott.table._expressions.expression import conjunction

    return conjunction(list(conditions))


def row_of(items: Sequence[Expression], position: Position | None) -> Expression:
    """Return a row of expressions with fields EXPR$0, EXPR$1 and so on."""
    from flott.table._types.logical import RowField

    fields = tuple(RowField(f"EXPR${i}", plain(item.type)) for i, item in enumerate(items))
    return Call(RowType(fields, nullable=False), "ROW", tuple(items))
