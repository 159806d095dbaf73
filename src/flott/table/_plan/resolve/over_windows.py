"""OVER: calls over the rows around each row become columns that are appended to the plan."""

from __future__ import annotations

from collections.abc import Sequence

from flott.table._expressions.expression import Expression, InputRef
from flott.table._plan import logical
from flott.table._plan.resolve.internal import Ordering, OverExpression
from flott.table._plan.resolve.scope import references


def with_over_columns(plan: logical.Node, outputs: Sequence[Expression]) -> tuple[logical.Node, list[Expression]]:
    """Return the plan with a column for each call, and the outputs that read them. Other columns stay in place."""
    found: dict[OverExpression, None] = {}
    for output in outputs:
        _collect(output, found)
    if not found:
        return plan, list(outputs)
    windows: dict[tuple[object, ...], list[OverExpression]] = {}
    for one in found:
        windows.setdefault((one.partition, one.order, one.frame), []).append(one)
    places: dict[OverExpression, InputRef] = {}
    for calls in windows.values():
        plan = _appended(plan, calls, places)
    return plan, [_replaced(output, places) for output in outputs]


def _collect(expression: Expression, found: dict[OverExpression, None]) -> None:
    if isinstance(expression, OverExpression):
        found.setdefault(expression)
        return
    for operand in expression.operands:
        _collect(operand, found)


def _replaced(expression: Expression, places: dict[OverExpression, InputRef]) -> Expression:
    if isinstance(expression, OverExpression):
        return places[expression]
    operands = expression.operands
    return expression.with_operands(tuple(_replaced(one, places) for one in operands)) if operands else expression


def _appended(
    plan: logical.Node, calls: Sequence[OverExpression], places: dict[OverExpression, InputRef]
) -> logical.Node:
    more: list[Expression] = []
    width = len(plan.schema)

    def position(expression: Expression) -> int:
        if isinstance(expression, InputRef):
            return expression.index
        if expression not in more:
            more.append(expression)
        return width + more.index(expression)

    first = calls[0]
    partition = tuple(position(one) for one in first.partition)
    order = tuple(_sort_key(one, position(one.expression)) for one in first.order)
    specified = []
    for number, one in enumerate(calls):
        arguments = tuple(position(argument) for argument in one.arguments)
        condition = None if one.filter is None else position(one.filter)
        specified.append(
            logical.AggregateCall(
                one.function,
                arguments,
                one.type,
                f"w{width}$o{number}",
                one.distinct,
                condition,
                one.user,
                one.literals,
            )
        )
    if more:
        names = (*plan.schema.names, *(f"$w{width + i}" for i in range(len(more))))
        plan = logical.Project(plan, (*references(plan.schema), *more), names)
    for number, one in enumerate(calls):
        places[one] = InputRef(one.type, len(plan.schema) + number)
    return logical.OverAggregate(plan, partition, order, first.frame, tuple(specified))


def _sort_key(one: Ordering, column: int) -> logical.SortKey:
    return logical.SortKey(column, one.descending, one.nulls_last)
