"""Joins in FROM: ON, USING, NATURAL, with functions and subqueries of the left rows, and with versions of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flott.table._expressions.expression import Call, Expression, InputRef, columns_of, conjunction, conjuncts, shifted
from flott.table._plan import logical
from flott.table._plan.logical import EquiKeys, JoinKind
from flott.table._plan.resolve.calls import call
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.laterals import is_lateral, resolve_lateral
from flott.table._plan.resolve.relations import peeled, resolve_relation
from flott.table._plan.resolve.scope import Scope, ScopeColumn, references
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver

_KINDS = {
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.RIGHT,
    "FULL": JoinKind.FULL,
}


def resolve_join(queries: QueryResolver, node: sql.SqlJoin, inside: Scope) -> tuple[logical.Node, Scope]:
    """Return the plan of a join and the names of both sides."""
    left, scope = resolve_relation(queries, node.left, inside)
    kind = _KINDS.get(node.kind.upper())
    if kind is None:
        raise SqlError(f"A join of the kind {node.kind} is not supported", node.position)
    _, _, inner = peeled(node.right)
    if is_lateral(queries, inner):
        if kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise SqlError(f"{node.kind} JOIN cannot be used with LATERAL or UNNEST; use INNER or LEFT", node.position)
        return resolve_lateral(queries, left, scope, node.right, outer=kind is JoinKind.LEFT, condition=node.condition)
    if isinstance(inner, sql.SqlSnapshot):
        from flott.table._plan.resolve.temporal_joins import resolve_temporal_join

        return resolve_temporal_join(queries, left, scope, node, inner, kind)
    right, right_scope = resolve_relation(queries, node.right, inside)
    _check_aliases(scope, right_scope, node)
    both = scope.beside(right_scope, len(left.schema))
    if node.natural or node.using:
        condition, merged = _using(node, scope, right_scope, both, len(left.schema), kind)
    else:
        condition, merged = _on(queries, node, both), both
    ttl_ms = (queries.hints.ttl_of(node.left), queries.hints.ttl_of(node.right))
    joined = _with_subqueries(logical.Join(left, right, kind, condition, ttl_ms), both.level, node)
    return joined, outer_types(merged, joined)


def _on(queries: QueryResolver, node: sql.SqlJoin, both: Scope) -> Expression | None:
    if node.condition is None:
        if node.kind.upper() in ("LEFT", "RIGHT", "FULL"):
            raise SqlError(f"{node.kind} JOIN needs ON or USING", node.position)
        return None
    return ExpressionResolver(queries, both, "ON").condition(node.condition)


def _with_subqueries(join: logical.Join, level: int, node: sql.SqlJoin) -> logical.Node:
    """Return a join whose condition has no subqueries: those of an inner join filter its result."""
    from flott.table._expressions.expression import walk
    from flott.table._plan.resolve.internal import SubqueryExpression
    from flott.table._plan.resolve.subqueries import filtered

    plain: list[Expression] = []
    special: list[Expression] = []
    for one in conjuncts(join.condition):
        (special if any(isinstance(e, SubqueryExpression) for e in walk(one)) else plain).append(one)
    if not special:
        return join
    if join.kind is not JoinKind.INNER:
        raise SqlError("A subquery in ON is supported for inner joins only", node.position)
    whole = conjunction(special)
    assert whole is not None
    return filtered(replace(join, condition=conjunction(plain)), whole, level)


def _check_aliases(left: Scope, right: Scope, node: sql.SqlJoin) -> None:
    taken = {c.qualifier for c in left.columns if c.qualifier}
    twice = taken & {c.qualifier for c in right.columns if c.qualifier}
    if twice:
        name = ".".join(sorted(twice)[0][-1:])
        raise SqlError(f"FROM has two tables called {name!r}: give one of them an alias", node.position)


def outer_types(scope: Scope, plan: logical.Node) -> Scope:
    """Return a scope whose columns have the nullability that a join gives them."""
    from flott.table._expressions.expression import rewritten

    types = plan.schema.types

    def change(one: Expression) -> Expression:
        return InputRef(types[one.index], one.index) if isinstance(one, InputRef) else one

    return replace(scope, columns=tuple(replace(c, expression=rewritten(c.expression, change)) for c in scope.columns))


def _using(
    node: sql.SqlJoin, left: Scope, right: Scope, both: Scope, width: int, kind: JoinKind
) -> tuple[Expression | None, Scope]:
    """Return the condition of USING or NATURAL, and a scope with one column for each pair in front."""
    shown = {column.name for column in right.columns if not column.hidden}
    names = node.using or tuple(dict.fromkeys(c.name for c in left.columns if not c.hidden and c.name in shown))
    conditions: list[Expression] = []
    merged: list[ScopeColumn] = []
    pairs: set[Expression] = set()
    for name in names:
        one, other = _side(left, name, node, "left"), shifted(_side(right, name, node, "right"), width)
        conditions.append(call("=", (one, other), node.position))
        pairs |= {one, other}
        value = other if kind is JoinKind.RIGHT else one
        if kind is JoinKind.FULL:
            nullable = [InputRef(e.type.as_nullable(), e.index) if isinstance(e, InputRef) else e for e in (one, other)]
            value = call("COALESCE", nullable, node.position)
        merged.append(ScopeColumn(name, value))
    hidden = tuple(
        replace(c, hidden=True) if c.name in names and (c.expression in pairs or c.hidden) else c for c in both.columns
    )
    return conjunction(conditions), replace(both, columns=(*merged, *hidden))


def _side(scope: Scope, name: str, node: sql.SqlJoin, side: str) -> Expression:
    names = [c.name for c in scope.columns if not c.hidden]
    if name not in names:
        raise SqlError(f"USING: the {side} table has no column {name!r}.{nearest(name, names)}", node.position)
    return replace(scope, parent=None).find((name,), node.position)


def equi_keys(
    condition: Expression | None, left: logical.Node, right_width: int
) -> tuple[logical.Node, EquiKeys, list[Expression]]:
    """Return the pairs of columns that a condition compares, and the rest of it.

    A left side that is computed becomes a column appended to the left plan; positions of right columns in the rest are
    moved accordingly.
    """
    width = len(left.schema)
    keys: list[tuple[Expression, int]] = []
    rest: list[Expression] = []
    for one in conjuncts(condition):
        pair = _pair(one, width)
        if pair is None:
            rest.append(one)
        else:
            keys.append(pair)
    more = [value for value, _ in keys if not isinstance(value, InputRef)]
    if more:
        names = (*left.schema.names, *(f"$k{i}" for i in range(len(more))))
        left = logical.Project(left, (*references(left.schema), *more), names)
    positions = {i: i if i < width else i + len(more) for i in range(width + right_width)}
    from flott.table._expressions.expression import remapped

    of_left = tuple(v.index if isinstance(v, InputRef) else width + more.index(v) for v, _ in keys)
    pairs = EquiKeys(of_left, tuple(column for _, column in keys), (True,) * len(keys))
    return left, pairs, [remapped(one, positions) for one in rest]


def _pair(condition: Expression, width: int) -> tuple[Expression, int] | None:
    if not isinstance(condition, Call) or condition.function != "=":
        return None
    for one, other in (condition.arguments, condition.arguments[::-1]):
        if isinstance(other, InputRef) and other.index >= width and all(c < width for c in columns_of(one)):
            return one, other.index - width
    return None
