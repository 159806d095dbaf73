"""One SELECT: FROM, WHERE, GROUP BY, HAVING, OVER, the list of columns, DISTINCT and ORDER BY, in this order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flott.table._expressions.expression import Expression, FieldAccess, walk
from flott.table._plan import logical
from flott.table._plan.resolve.aggregation import Grouping, aggregated, resolve_grouping
from flott.table._plan.resolve.expressions import ExpressionResolver, has_aggregates
from flott.table._plan.resolve.hints import query_hints
from flott.table._plan.resolve.internal import GroupingExpression, Ordering, WindowProperty
from flott.table._plan.resolve.over_windows import with_over_columns
from flott.table._plan.resolve.queries import distinct, ordinal_of, project
from flott.table._plan.resolve.relations import resolve_relation
from flott.table._plan.resolve.scope import Scope, flattened, one_row, references
from flott.table._plan.resolve.subqueries import filtered, with_subquery_columns
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


@dataclass(frozen=True)
class Item:
    """A column of the result: its name, and the item of the list from which it comes."""

    name: str
    expression: Expression
    written: sql.SqlSelectItem


def resolve_select(
    queries: QueryResolver, node: sql.SqlSelect, around: Scope | None, order_by: Sequence[sql.SqlOrderItem]
) -> logical.Node:
    """Return the plan of a SELECT with the ORDER BY behind it."""
    inside = Scope() if around is None else around.outer()
    queries = replace(queries, hints=query_hints(node))
    plan, scope = _source(queries, node, inside)
    if node.where is not None:
        where = ExpressionResolver(queries, scope, "WHERE")
        plan = filtered(plan, where.condition(node.where), scope.level)
    windows = {window.name: window.specification for window in node.windows}
    listed = ExpressionResolver(queries, scope, "SELECT", aggregates=True, over=True, windows=windows)
    items = _items(listed, node.items)
    grouping = resolve_grouping(listed, node.group_by, [(i.name, i.expression, bool(i.written.alias)) for i in items])
    having = _having(listed, node.having, items)
    qualify = None
    if node.qualify is not None:
        qualify = replace(listed, clause="QUALIFY", scope=_with_aliases(scope, items)).condition(node.qualify)
    order = [_sort_item(listed, item, items, node.distinct) for item in order_by]
    sorted_by = [one for one in order if isinstance(one, Ordering)]
    outputs = [*(item.expression for item in items), *(one.expression for one in sorted_by)]
    conditions = [one for one in (having, qualify) if one is not None]
    if grouping is not None or having is not None or any(map(_grouped, (*outputs, *conditions))):
        grouping = grouping or Grouping(())
        plan, changed = aggregated(queries, plan, scope, grouping, [*outputs, *conditions], node, _ttl(queries, node))
        outputs, conditions = changed[: len(outputs)], changed[len(outputs) :]
    if having is not None:
        plan = filtered(plan, conditions[0], scope.level)
    if qualify is not None:
        outputs = [*outputs, conditions[-1]]
    plan, outputs = with_subquery_columns(plan, outputs, scope.level)
    plan, outputs = with_over_columns(plan, outputs)
    if qualify is not None:
        plan = logical.Filter(plan, outputs.pop())
    return _finished(plan, items, outputs, order, node)


def _source(queries: QueryResolver, node: sql.SqlSelect, inside: Scope) -> tuple[logical.Node, Scope]:
    if node.source is None:
        return one_row(), inside
    return resolve_relation(queries, node.source, inside)


def _ttl(queries: QueryResolver, node: sql.SqlSelect) -> int | None:
    """Return how long the groups of an aggregation over one table are kept; None if no hint says it."""
    return None if node.source is None else queries.hints.ttl_of(node.source)


def _grouped(expression: Expression) -> bool:
    return has_aggregates(expression) or any(
        isinstance(e, GroupingExpression | WindowProperty) for e in walk(expression)
    )


# --- the list of columns ---------------------------------------------------------------------------------------------


def _items(resolver: ExpressionResolver, written: Sequence[sql.SqlSelectItem]) -> list[Item]:
    items: list[Item] = []
    for item in written:
        node = item.expression
        if isinstance(node, sql.SqlStar):
            found = resolver.scope.star(node.qualifier, node.position)
            if not found:
                raise SqlError("* stands for no column: there is no FROM", node.position)
            items += [Item(column.name, column.expression, item) for column in found]
        elif isinstance(node, sql.SqlFlatten):
            operand = resolver.resolve(node.operand)
            prefix = f"{_name(node.operand, operand, 0)}$"
            items += [Item(prefix + c.name, c.expression, item) for c in flattened(operand, node.position)]
        else:
            expression = resolver.resolve(node)
            items.append(Item(item.alias or _name(node, expression, len(items)), expression, item))
    return [replace(item, name=name) for item, name in zip(items, unique([i.name for i in items]), strict=True)]


def _name(node: sql.SqlNode, expression: Expression, position: int) -> str:
    if isinstance(node, sql.SqlColumnReference):
        return node.parts[-1]
    if isinstance(expression, FieldAccess) and isinstance(node, sql.SqlFieldAccess):
        return expression.name
    return f"EXPR${position}"


def unique(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal: a second ``a`` is called ``a0``."""
    taken: set[str] = set()
    found = []
    for name in names:
        number, candidate = 0, name
        while candidate in taken or (candidate != name and candidate in names):
            candidate, number = f"{name}{number}", number + 1
        taken.add(candidate)
        found.append(candidate)
    return found


# --- HAVING and ORDER BY ---------------------------------------------------------------------------------------------


def _having(resolver: ExpressionResolver, node: sql.SqlExpression | None, items: Sequence[Item]) -> Expression | None:
    if node is None:
        return None
    scope = _with_aliases(resolver.scope, items)
    return replace(resolver, clause="HAVING", over=False, scope=scope).condition(node)


def _with_aliases(scope: Scope, items: Sequence[Item]) -> Scope:
    """Return a scope in which aliases of the SELECT are known, behind the columns of FROM."""
    from flott.table._plan.resolve.scope import ScopeColumn

    known = {column.name for column in scope.columns}
    more = tuple(
        ScopeColumn(i.written.alias, i.expression) for i in items if i.written.alias and i.written.alias not in known
    )
    return replace(scope, columns=scope.columns + more)


def _sort_item(
    resolver: ExpressionResolver, item: sql.SqlOrderItem, items: Sequence[Item], only_listed: bool
) -> Ordering | logical.SortKey:
    """Return a sort key: a position in the list of columns, or an expression that is computed for it."""
    nulls_last = item.descending if item.nulls_first is None else not item.nulls_first
    node, position = item.expression, ordinal_of(item.expression, len(items), "ORDER BY")
    if position is None and isinstance(node, sql.SqlColumnReference) and len(node.parts) == 1:
        position = next((i for i, one in enumerate(items) if one.name == node.parts[0]), None)
    if position is None:
        scope = _with_aliases(resolver.scope, items)
        expression = replace(resolver, clause="ORDER BY", scope=scope).resolve(node)
        position = next((i for i, one in enumerate(items) if one.expression == expression), None)
        if position is None and only_listed:
            raise SqlError("ORDER BY of a SELECT DISTINCT may use only its columns", item.position or node.position)
        if position is None:
            return Ordering(expression, item.descending, nulls_last)
    return logical.SortKey(position, item.descending, nulls_last)


def _finished(
    plan: logical.Node,
    items: Sequence[Item],
    outputs: Sequence[Expression],
    order: Sequence[Ordering | logical.SortKey],
    node: sql.SqlSelect,
) -> logical.Node:
    names = tuple(item.name for item in items)
    hidden = len(outputs) - len(items)
    all_names = (*names, *unique([*names, *(f"$order{i}" for i in range(hidden))])[len(names) :])
    plan = project(plan, outputs, all_names)
    if node.distinct:
        plan = distinct(plan)
    if order:
        next_hidden = iter(range(len(items), len(outputs)))
        keys = tuple(
            one
            if isinstance(one, logical.SortKey)
            else logical.SortKey(next(next_hidden), one.descending, one.nulls_last)
            for one in order
        )
        plan = logical.Sort(plan, keys)
        if hidden:
            plan = logical.Project(plan, references(plan.schema)[: len(items)], names)
    return plan
