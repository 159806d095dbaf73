"""Takes outer columns out of a subquery's plan: what they are compared with becomes a join condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flott.table._expressions.expression import (
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    replaced,
    rewritten,
    shifted,
    walk,
)
from flott.table._plan import logical
from flott.table._plan.logical import JoinKind
from flott.table._plan.resolve.internal import OuterRef
from flott.table._plan.resolve.scope import references
from flott.table._plan.resolve.walks import expressions_of
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.base import Position


@dataclass(frozen=True)
class Decorrelated:
    """A plan without outer columns.

    ``conditions`` and ``columns`` are over the plan's columns (``InputRef``) and those of the outer query
    (``OuterRef``). ``columns`` are those of the former plan, to be computed above the join.
    """

    plan: logical.Node
    conditions: tuple[Expression, ...]
    columns: tuple[Expression, ...]


def is_correlated(plan: logical.Node, level: int) -> bool:
    """Return whether a plan reads columns of the query at a nesting level."""
    return any(reads_outer(e, level) for node in logical.walk(plan) for e in expressions_of(node))


def reads_outer(expression: Expression, level: int) -> bool:
    """Return whether an expression reads columns of the query at a nesting level."""
    return any(isinstance(one, OuterRef) and one.level == level for one in walk(expression))


def above_join(expression: Expression, width: int, level: int) -> Expression:
    """Return an expression over both as one over a join; ``width`` is the number of columns of the outer query."""

    def change(one: Expression) -> Expression:
        return InputRef(one.type, one.index) if isinstance(one, OuterRef) and one.level == level else one

    return rewritten(shifted(expression, width), change)


def decorrelate(plan: logical.Node, level: int, position: Position | None) -> Decorrelated:
    """Return a plan without the columns of the query at ``level``; raise ``SqlError`` if that is not possible."""
    if not is_correlated(plan, level):
        return Decorrelated(plan, (), references(plan.schema))
    match plan:
        case logical.Filter():
            return _filter(plan, level, position)
        case logical.Project():
            inner = decorrelate(plan.input, level, position)
            columns = tuple(replaced(one, inner.columns) for one in plan.expressions)
            return replace(inner, columns=columns)
        case logical.Join():
            return _join(plan, level, position)
        case logical.Aggregate():
            return _aggregate(plan, level, position)
        case logical.Sort() if plan.fetch is None and not plan.offset:
            return decorrelate(plan.input, level, position)
        case logical.Sort():
            return _limit(plan, level, position)
    raise _refused(f"outer columns inside {type(plan).__name__}", position)


def _refused(what: str, position: Position | None) -> SqlError:
    return SqlError(
        f"The subquery uses columns of the query around it in a way that is not supported: {what}", position
    )


def _filter(plan: logical.Filter, level: int, position: Position | None) -> Decorrelated:
    inner = decorrelate(plan.input, level, position)
    moved: list[Expression] = []
    kept: list[Expression] = []
    for one in conjuncts(replaced(plan.condition, inner.columns)):
        (moved if reads_outer(one, level) else kept).append(one)
    rest = conjunction(kept)
    below = inner.plan if rest is None else logical.Filter(inner.plan, rest)
    return Decorrelated(below, (*inner.conditions, *moved), inner.columns)


def _join(plan: logical.Join, level: int, position: Position | None) -> Decorrelated:
    left = decorrelate(plan.left, level, position)
    if plan.kind is not JoinKind.INNER and is_correlated(plan.right, level):
        raise _refused(f"outer columns on the right of a {plan.kind.value}", position)
    if plan.kind in (JoinKind.RIGHT, JoinKind.FULL) and left.conditions:
        raise _refused(f"outer columns on the left of a {plan.kind.value}", position)
    right = decorrelate(plan.right, level, position)
    width = len(left.plan.schema)
    both = (*left.columns, *(shifted(one, width) for one in right.columns))
    moved: list[Expression] = []
    kept: list[Expression] = []
    for one in conjuncts(None if plan.condition is None else replaced(plan.condition, both)):
        (moved if reads_outer(one, level) else kept).append(one)
    semi = plan.kind in (JoinKind.SEMI, JoinKind.ANTI)
    if moved and plan.kind is not JoinKind.INNER:
        raise _refused(f"outer columns in the condition of a {plan.kind.value}", position)
    joined = logical.Join(left.plan, right.plan, plan.kind, conjunction(kept), plan.ttl_ms, plan.null_aware)
    conditions = (*left.conditions, *(shifted(one, width) for one in right.conditions), *moved)
    return Decorrelated(joined, conditions, left.columns if semi else both)


def equal_pairs(
    conditions: Sequence[Expression], level: int, position: Position | None
) -> tuple[tuple[Expression, Expression], ...]:
    """Return pairs (outer, inner) of conditions that all compare for equality; raise ``SqlError`` for others."""
    pairs = []
    for one in conditions:
        if not isinstance(one, Call) or one.function != "=":
            raise _refused("an aggregate or a value needs conditions of the form inner column = outer column", position)
        first, second = one.arguments
        if reads_outer(second, level):
            first, second = second, first
        mixed = any(isinstance(e, InputRef) for e in walk(first)) or reads_outer(second, level)
        if mixed:
            raise _refused("a condition that mixes inner and outer columns on one side", position)
        pairs.append((first, second))
    return tuple(pairs)


def _keyed(
    inner: Decorrelated, level: int, position: Position | None
) -> tuple[logical.Node, tuple[tuple[Expression, Expression], ...]]:
    """Return a projection of all former columns and then the inner sides of the conditions."""
    pairs = equal_pairs(inner.conditions, level, position)
    if any(reads_outer(one, level) for one in inner.columns):
        raise _refused("outer columns below an aggregation or a limit", position)
    expressions = (*inner.columns, *(key for _, key in pairs))
    names = tuple(f"$c{i}" for i in range(len(expressions)))
    return logical.Project(inner.plan, expressions, names), pairs


def _equalities(pairs: Sequence[tuple[Expression, Expression]], first: int) -> tuple[Expression, ...]:
    from flott.table._plan.resolve.calls import call

    return tuple(call("=", (outer, InputRef(inner.type, first + i))) for i, (outer, inner) in enumerate(pairs))


def _aggregate(plan: logical.Aggregate, level: int, position: Position | None) -> Decorrelated:
    below, pairs = _keyed(decorrelate(plan.input, level, position), level, position)
    width = len(plan.input.schema)
    keys = (*plan.keys, *range(width, width + len(pairs)))
    above = logical.Aggregate(below, keys, plan.calls, plan.ttl_ms)
    own = references(above.schema)
    results = own[len(keys) :]
    columns = (*own[: len(plan.keys)], *(results if plan.keys else or_zero(results, plan.calls, position)))
    return Decorrelated(above, _equalities(pairs, len(plan.keys)), columns)


def or_zero(
    results: Sequence[InputRef], calls: Sequence[logical.AggregateCall], position: Position | None
) -> tuple[Expression, ...]:
    """Return aggregates over all rows as a left join shows them: a count that it does not find is zero."""
    from flott.table._plan.resolve.calls import call

    columns: list[Expression] = []
    for reference, one in zip(results, calls, strict=True):
        nullable = InputRef(reference.type.as_nullable(), reference.index)
        if one.function in ("COUNT", "APPROX_COUNT_DISTINCT", "$SUM0"):
            columns.append(call("COALESCE", (nullable, Literal(reference.type.as_nullable(False), 0)), position))
        else:
            columns.append(nullable)
    return tuple(columns)


def _limit(plan: logical.Sort, level: int, position: Position | None) -> Decorrelated:
    below, pairs = _keyed(decorrelate(plan.input, level, position), level, position)
    if plan.fetch is None:
        raise _refused("OFFSET without LIMIT", position)
    width = len(plan.input.schema)
    partition = tuple(range(width, width + len(pairs)))
    ranked = logical.Rank(below, "ROW_NUMBER", partition, plan.keys, plan.offset + 1, plan.offset + plan.fetch)
    return Decorrelated(ranked, _equalities(pairs, width), references(ranked.schema)[:width])
