"""Table aggregate functions (``flat_aggregate`` of the Table API): any number of rows for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flott.table._expressions.expression import Expression, InputRef
from flott.table._plan import logical
from flott.table._plan.logical import Schema
from flott.table._plan.resolve.calls import user_arguments
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.function_calls import user_function
from flott.table._plan.resolve.laterals import function_columns
from flott.table._plan.resolve.relations import resolve_relation
from flott.table._plan.resolve.scope import Scope
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._types.logical import plain

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


def resolve_table_aggregate(queries: QueryResolver, node: sql.SqlTableAggregate, around: Scope | None) -> logical.Node:
    """Return the plan of a table aggregation: keys, then the columns of the function."""
    inside = Scope() if around is None else around.outer()
    plan, scope = resolve_relation(queries, node.source, inside)
    resolver = ExpressionResolver(queries, scope, "flat_aggregate")
    user = user_function(resolver, node.call)
    if user is None or user.kind != "table_aggregate":
        raise SqlError(f"{'.'.join(node.call.name)} is not a table aggregate function", node.call.position)
    keys = [resolver.resolve(item.expression) for item in node.group_by]
    arguments = user_arguments(user, resolver.all(node.call.arguments), node.call.position)
    names, types = function_columns(user, node.call)
    if node.columns:
        if len(node.columns) != len(names):
            raise SqlError(
                f"{user.name} gives {len(names)} columns, {len(node.columns)} names are given", node.position
            )
        names = node.columns
    expressions: list[Expression] = [InputRef(plain(k.type), k.index) if isinstance(k, InputRef) else k for k in keys]
    key_names = [item.alias or _name(item, i) for i, item in enumerate(node.group_by)]
    below = logical.Project(plan, (*expressions, *arguments), (*key_names, *(f"$a{i}" for i in range(len(arguments)))))
    width = len(expressions)
    of = user.result_type
    assert of is not None
    call = logical.AggregateCall(user.name, tuple(range(width, width + len(arguments))), of, user.name, user=user)
    return logical.TableAggregate(below, tuple(range(width)), call, Schema(names, types))


def _name(item: sql.SqlSelectItem, position: int) -> str:
    node = item.expression
    return node.parts[-1] if isinstance(node, sql.SqlColumnReference) else f"EXPR${position}"
