"""Joins of a special kind, found by their condition: window joins and interval joins."""

from __future__ import annotations

from dataclasses import dataclass

from flott.table._expressions.expression import (
    Call,
    Cast,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
)
from flott.table._plan.logical import EquiKeys, IntervalJoin, Join, JoinKind, Node, WindowJoin
from flott.table._plan.rules.filters import equality
from flott.table._plan.window_columns import compared_windows, window_columns_of
from flott.table._types.logical import DayTimeIntervalType, Family, is_proctime, is_rowtime


def equi_keys(condition: Expression | None, width: int) -> tuple[EquiKeys, Expression | None]:
    """Return the columns that a condition compares for equality, and what else it asks for."""
    left, right, filters, kept = [], [], [], []
    for one in conjuncts(condition):
        pair = equality(one, width)
        if pair is None:
            kept.append(one)
        else:
            left.append(pair[0])
            right.append(pair[1])
            filters.append(not pair[2])
    return EquiKeys(tuple(left), tuple(right), tuple(filters)), conjunction(kept)


def find_window_joins(node: Node) -> Node:
    """Return a join on equal window bounds of two windowed inputs as a window join."""
    if not isinstance(node, Join):
        return node
    keys, rest = equi_keys(node.condition, len(node.left.schema))
    pairs = list(zip(keys.left, keys.right, strict=True))
    bounds = compared_windows(pairs, window_columns_of(node.left), window_columns_of(node.right))
    if bounds is None:
        return node
    kept = [i for i, pair in enumerate(pairs) if pair not in bounds]
    left, right = zip(*bounds, strict=True)
    others = EquiKeys(
        tuple(keys.left[i] for i in kept),
        tuple(keys.right[i] for i in kept),
        tuple(keys.filter_nulls[i] for i in kept),
    )
    return WindowJoin(node.left, node.right, node.kind, others, left, right, rest)


# --- intervals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Moment:
    """A time attribute and what is added to it."""

    column: int
    shift_ms: int


@dataclass(frozen=True)
class _Bound:
    """left time - right time >= ``least``, or <= ``most``."""

    least: int | None = None
    most: int | None = None


def find_interval_joins(node: Node) -> Node:
    """Return a join whose condition bounds the distance of two time attributes on both sides as an interval join."""
    if not isinstance(node, Join) or node.null_aware:
        return node
    schema, width = node.left.schema + node.right.schema, len(node.left.schema)
    least: int | None = None
    most: int | None = None
    times: tuple[int, int] | None = None
    kept: list[Expression] = []
    for condition in conjuncts(node.condition):
        found = _bounds(condition, width)
        if found is None or (times is not None and found[0] != times):
            kept.append(condition)
            continue
        times, bound = found
        if bound.least is not None:
            least = bound.least if least is None else max(least, bound.least)
        if bound.most is not None:
            most = bound.most if most is None else min(most, bound.most)
    if times is None or least is None or most is None:
        return node
    keys, rest = equi_keys(conjunction(kept), width)
    proctime = is_proctime(schema.types[times[0]])
    kind = node.kind
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return node
    return IntervalJoin(node.left, node.right, kind, keys, times[0], times[1] - width, least, most, rest, proctime)


def _bounds(condition: Expression, width: int) -> tuple[tuple[int, int], _Bound] | None:
    if not isinstance(condition, Call) or condition.function not in ("<", "<=", ">", ">=", "="):
        return None
    one, other = (_moment(argument) for argument in condition.arguments)
    if one is None or other is None:
        return None
    operator = condition.function
    if one.column >= width > other.column:
        one, other = other, one
        operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}[operator]
    if not one.column < width <= other.column:
        return None
    # left + a OP right + b   is   left - right OP b - a
    distance = other.shift_ms - one.shift_ms
    bound = {
        "<": _Bound(most=distance - 1),
        "<=": _Bound(most=distance),
        ">": _Bound(least=distance + 1),
        ">=": _Bound(least=distance),
        "=": _Bound(least=distance, most=distance),
    }[operator]
    return (one.column, other.column), bound


def _moment(expression: Expression) -> _Moment | None:
    """Return a time attribute with an interval added to it."""
    match expression:
        case Cast(of, operand) if of.family is Family.TIMESTAMP:
            return _moment(operand)
        case InputRef(of, index) if is_rowtime(of) or is_proctime(of):
            return _Moment(index, 0)
        case Call(_, "+" | "-" as sign, (operand, Literal(DayTimeIntervalType(), value))) if value is not None:
            inner = _moment(operand)
            return None if inner is None else _Moment(inner.column, inner.shift_ms + (value if sign == "+" else -value))
        case Call(_, "+", (Literal(DayTimeIntervalType(), value), operand)) if value is not None:
            inner = _moment(operand)
            return None if inner is None else _Moment(inner.column, inner.shift_ms + value)
    return None
