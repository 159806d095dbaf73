"""Filters: pushed down through projections, joins, unions and aggregations, and into sources."""

from __future__ import annotations

from dataclasses import replace

from flott.table._expressions.expression import (
    Call,
    Expression,
    InputRef,
    columns_of,
    conjunction,
    conjuncts,
    remapped,
    replaced,
    shifted,
)
from flott.table._plan.logical import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    JoinKind,
    Node,
    OverAggregate,
    Project,
    Scan,
    Union,
    WatermarkAssigner,
    WindowTable,
)
from flott.table._plan.rules.projections import is_repeatable


def filtered(node: Node, conditions: list[Expression]) -> Node:
    """Return the rows of a node for which all conditions are true."""
    condition = conjunction(conditions)
    return node if condition is None else Filter(node, condition)


def push_filters(node: Node) -> Node:
    """Return Filter(x) with as much of its condition as possible below x."""
    if not isinstance(node, Filter):
        return node
    conditions, inner = conjuncts(node.condition), node.input
    match inner:
        case Project():
            movable = [c for c in conditions if all(is_repeatable(inner.expressions[i]) for i in columns_of(c))]
            if not movable:
                return node
            below = filtered(inner.input, [replaced(c, inner.expressions) for c in movable])
            kept = [c for c in conditions if c not in movable]
            return filtered(Project(push_filters(below), inner.expressions, inner.names), kept)
        case Union():
            branches = tuple(push_filters(filtered(branch, conditions)) for branch in inner.branches)
            return Union(branches)
        case Join():
            return _through_join(inner, conditions)
        case Aggregate() if inner.keys:
            # A condition on keys chooses groups, so it may choose rows. HAVING on results stays above.
            width = len(inner.keys)
            movable = [c for c in conditions if columns_of(c) and max(columns_of(c)) < width and is_repeatable(c)]
            return _below(inner, conditions, movable, dict(enumerate(inner.keys)))
        case WindowTable() | Correlate():
            width = len(inner.input.schema)
            movable = [c for c in conditions if columns_of(c) and max(columns_of(c)) < width and is_repeatable(c)]
            return _below(inner, conditions, movable, {i: i for i in range(width)})
        case OverAggregate():
            movable = [c for c in conditions if columns_of(c) and columns_of(c) <= set(inner.partition)]
            return _below(inner, conditions, movable, {i: i for i in inner.partition})
    return node


def _below(node: Node, conditions: list[Expression], movable: list[Expression], places: dict[int, int]) -> Node:
    if not movable:
        return filtered(node, conditions)
    (inner,) = node.inputs
    below = push_filters(filtered(inner, [remapped(c, places) for c in movable]))
    return filtered(node.with_inputs((below,)), [c for c in conditions if c not in movable])


def _through_join(join: Join, conditions: list[Expression]) -> Node:
    """Push conditions that concern one side below the join, as far as outer rows allow it."""
    width = len(join.left.schema)
    left_ok = join.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
    right_ok = join.kind in (JoinKind.INNER, JoinKind.RIGHT)
    left, right, both, kept = [], [], [], []
    for condition in conditions:
        used = columns_of(condition)
        if not is_repeatable(condition):
            kept.append(condition)
        elif used and max(used) < width and left_ok:
            left.append(condition)
        elif used and min(used) >= width and right_ok:
            right.append(shifted(condition, -width))
        elif join.kind is JoinKind.INNER and used:
            both.append(condition)
        else:
            kept.append(condition)
    if not (left or right or both):
        return filtered(join, kept)
    merged = conjunction([*conjuncts(join.condition), *both])
    pushed = replace(
        join,
        left=push_filters(filtered(join.left, left)),
        right=push_filters(filtered(join.right, right)),
        condition=merged,
    )
    return filtered(push_join_conditions(pushed), kept)


def push_join_conditions(node: Node) -> Node:
    """Return a join whose conditions on one side only are filters of that side, where that means the same."""
    if not isinstance(node, Join) or node.null_aware:
        return node
    width = len(node.left.schema)
    left_ok = node.kind in (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI)
    right_ok = node.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
    left, right, kept = [], [], []
    for condition in conjuncts(node.condition):
        used = columns_of(condition)
        if used and max(used) < width and left_ok and is_repeatable(condition):
            left.append(condition)
        elif used and min(used) >= width and right_ok and is_repeatable(condition):
            right.append(shifted(condition, -width))
        else:
            kept.append(condition)
    if not (left or right):
        return node
    return replace(
        node,
        left=push_filters(filtered(node.left, left)),
        right=push_filters(filtered(node.right, right)),
        condition=conjunction(kept),
    )


def push_filters_into_sources(node: Node) -> Node:
    """Return a scan that applies the conditions which its source can apply itself; the others stay above."""
    if isinstance(node, Filter) and isinstance(node.input, WatermarkAssigner):
        # The watermark must see all rows: a filter never moves below it, not even into the source.
        return node
    if isinstance(node, Filter) and isinstance(node.input, Scan) and not node.input.source.filters:
        conditions = conjuncts(node.condition)
        taken = list(node.input.source.applied([c for c in conditions if is_repeatable(c)]))
        if taken:
            source = replace(node.input.source, filters=tuple(taken))
            return filtered(replace(node.input, source=source), [c for c in conditions if c not in taken])
    return node


def simplify_conditions(node: Node) -> Node:
    """Return a filter without conditions that occur twice."""
    if isinstance(node, Filter):
        conditions = list(dict.fromkeys(conjuncts(node.condition)))
        return filtered(node.input, conditions)
    return node


def equality(condition: Expression, width: int) -> tuple[int, int, bool] | None:
    """Return (left column, right column, nulls match) of a condition that compares one column of each side.

    Columns of the right side are counted from its first one.
    """
    if not isinstance(condition, Call) or condition.function not in ("=", "IS NOT DISTINCT FROM"):
        return None
    one, other = condition.arguments
    if not (isinstance(one, InputRef) and isinstance(other, InputRef)):
        return None
    if one.index > other.index:
        one, other = other, one
    if one.index < width <= other.index:
        return one.index, other.index - width, condition.function != "="
    return None
