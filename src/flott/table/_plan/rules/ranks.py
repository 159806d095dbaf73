"""Top-N and deduplication, found by their shape: a filter on the number that ROW_NUMBER and the like give a row."""

from __future__ import annotations

from flott.table._expressions.expression import Call, Cast, Expression, InputRef, Literal, conjuncts
from flott.table._plan.logical import Deduplicate, Filter, Node, OverAggregate, Project, Rank
from flott.table._plan.rules.filters import filtered
from flott.table._plan.window_columns import window_columns_of
from flott.table._types.logical import is_proctime, is_rowtime, is_time_attribute

_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def find_ranks(node: Node) -> Node:
    """Return Filter(rank <= n, OverAggregate(rank)) as a Rank."""
    if not (isinstance(node, Filter) and isinstance(node.input, OverAggregate)):
        return node
    over = node.input
    if len(over.calls) != 1 or over.calls[0].function not in _RANKS:
        return node
    place = len(over.input.schema)
    start, end, kept = 1, None, []
    for condition in conjuncts(node.condition):
        bound = _bound(condition, place)
        if bound is None:
            kept.append(condition)
            continue
        operator, number = bound
        if operator in ("=", ">", ">="):
            start = max(start, number + (operator == ">"))
        if operator in ("=", "<", "<="):
            limit = number - (operator == "<")
            end = limit if end is None else min(end, limit)
    if end is None:
        return node
    windows = window_columns_of(over.input)
    window = None if windows is None else windows.bounds_among(over.partition)
    call = over.calls[0]
    ranked: Node = Rank(over.input, call.function, over.partition, over.order, start, end, call.name, window)
    if kept:
        ranked = filtered(ranked, kept)
    # The type of a rank is BIGINT in every case, so the columns above stay as they were.
    return ranked


def _bound(condition: Expression, place: int) -> tuple[str, int] | None:
    """Return (operator, number) of a comparison of the rank with a constant."""
    if not isinstance(condition, Call) or condition.function not in _MIRRORED:
        return None
    one, other = (_without_casts(argument) for argument in condition.arguments)
    operator = condition.function
    if isinstance(one, Literal):
        one, other, operator = other, one, _MIRRORED[operator]
    if isinstance(one, InputRef) and one.index == place and isinstance(other, Literal) and other.value is not None:
        return operator, int(other.value)
    return None


def _without_casts(expression: Expression) -> Expression:
    return _without_casts(expression.operand) if isinstance(expression, Cast) else expression


def find_deduplications(node: Node) -> Node:
    """Return a Rank that keeps the first row by a time attribute as a Deduplicate."""
    if not isinstance(node, Rank) or node.function != "ROW_NUMBER" or (node.start, node.end) != (1, 1):
        return node
    if len(node.order) != 1 or node.window is not None:
        return node
    key = node.order[0]
    of = node.input.schema.types[key.column]
    if not is_time_attribute(of):
        return node
    return Deduplicate(
        node.input,
        node.partition,
        key.column,
        keep_last=key.descending,
        proctime=is_proctime(of) and not is_rowtime(of),
        rank_name=node.rank_name,
    )


def constant_ranks(node: Node) -> Node:
    """Return a projection in which a rank that is always 1 is that constant, so that nothing has to carry it."""
    if isinstance(node, Project) and isinstance(node.input, Deduplicate) and node.input.rank_name is not None:
        place = len(node.input.input.schema)
        if not any(isinstance(one, InputRef) and one.index == place for one in node.expressions):
            return node
        from dataclasses import replace

        from flott.table._types.logical import BIGINT

        bare = replace(node.input, rank_name=None)
        one = Literal(BIGINT.as_nullable(False), 1)
        changed = tuple(one if isinstance(e, InputRef) and e.index == place else e for e in node.expressions)
        return Project(bare, changed, node.names)
    return node
