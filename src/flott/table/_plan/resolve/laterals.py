"""What is made of each left row: UNNEST, table functions in Python, and LATERAL subqueries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flott.table._expressions.expression import Call, Expression, InputRef, UserFunction, conjunction, conjuncts
from flott.table._plan import logical
from flott.table._plan.logical import JoinKind, Schema
from flott.table._plan.resolve.calls import user_call
from flott.table._plan.resolve.decorrelation import above_join, decorrelate
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.group_windows import WINDOW_FUNCTIONS
from flott.table._plan.resolve.scope import Scope, references, scope_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest
from flott.table._types.logical import (
    INT,
    ArrayType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    row_type,
)

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


def is_lateral(queries: QueryResolver, node: sql.SqlRelation) -> bool:
    """Return whether a relation is made of the rows to its left."""
    if isinstance(node, sql.SqlLateral | sql.SqlUnnest):
        return True
    return isinstance(node, sql.SqlFunctionRelation) and not _is_window(node.call)


def _is_window(node: sql.SqlFunctionCall) -> bool:
    return len(node.name) == 1 and node.name[0].upper() in WINDOW_FUNCTIONS and node.function is None


def resolve_lateral(
    queries: QueryResolver,
    left: logical.Node,
    scope: Scope,
    node: sql.SqlRelation,
    *,
    outer: bool,
    condition: sql.SqlExpression | None,
) -> tuple[logical.Node, Scope]:
    """Return the left rows joined with what is made of them."""
    from flott.table._plan.resolve.relations import peeled

    alias, columns, inner = peeled(node)
    if isinstance(inner, sql.SqlLateral):
        inside_alias, inside_columns, inner = peeled(inner.relation)
        alias, columns = alias or inside_alias, columns or inside_columns
    resolver = ExpressionResolver(queries, scope, "FROM")
    match inner:
        case sql.SqlUnnest():
            made, call = _unnest(resolver, inner)
        case sql.SqlFunctionRelation() if not _is_window(inner.call):
            made, call = _table_function(resolver, inner.call)
        case sql.SqlQueryRelation():
            return _subquery(queries, left, scope, inner, alias, columns, outer, condition)
        case _:
            from flott.table._plan.resolve.relations import resolve_relation

            right, right_scope = resolve_relation(queries, node, replace(scope, columns=()))
            both = scope.beside(right_scope, len(left.schema))
            on = None if condition is None else ExpressionResolver(queries, both, "ON").condition(condition)
            kind = JoinKind.LEFT if outer else JoinKind.INNER
            return logical.Join(left, right, kind, on), both
    if columns:
        if len(columns) != len(made):
            raise SqlError(f"{alias} lists {len(columns)} columns, the function gives {len(made)}", node.position)
        made = Schema(columns, made.types)
    if outer:
        made = Schema(made.names, tuple(of.as_nullable() for of in made.types))
    right_scope = scope_of(logical.Values(made, ()), (alias,) if alias else (), like=replace(scope, columns=()))
    both = scope.beside(right_scope, len(left.schema))
    on = None if condition is None else ExpressionResolver(queries, both, "ON").condition(condition)
    return logical.Correlate(left, call, made, outer, conjunction(conjuncts(on))), both


# --- functions -------------------------------------------------------------------------------------------------------


def _unnest(resolver: ExpressionResolver, node: sql.SqlUnnest) -> tuple[Schema, Expression]:
    if len(node.operands) != 1:
        raise SqlError("UNNEST takes one array, map or multiset", node.position)
    operand = resolver.resolve(node.operands[0])
    names, types = unnested(operand.type, node)
    if node.with_ordinality:
        names, types = (*names, "ORDINALITY"), (*types, INT.as_nullable(False))
    of = row_type(dict(zip(names, types, strict=True)), nullable=False)
    return Schema(names, types), Call(of, "UNNEST_WITH_ORDINALITY" if node.with_ordinality else "UNNEST", (operand,))


def unnested(of: LogicalType, node: sql.SqlNode) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    """Return the columns of the rows that UNNEST makes of a collection."""
    match of:
        case MapType():
            return ("KEY", "VALUE"), (of.key, of.value)
        case ArrayType() | MultisetType():
            element = of.element
            if isinstance(element, RowType):
                return element.names, tuple(one.as_nullable(one.nullable or element.nullable) for one in element.types)
            return ("EXPR$0",), (element,)
    raise SqlError(f"UNNEST takes an array, a map or a multiset, found {of}", node.position)


def _table_function(resolver: ExpressionResolver, node: sql.SqlFunctionCall) -> tuple[Schema, Expression]:
    from flott.table._plan.resolve.function_calls import user_function

    user = user_function(resolver, node)
    if user is None:
        known = [*WINDOW_FUNCTIONS, *resolver.queries.environment.function_names()]
        shown = ".".join(node.name)
        raise SqlError(f"Table function {shown!r} is not known.{nearest(shown, known)}", node.position)
    if user.kind != "table":
        raise SqlError(f"{user.name} is a function of kind {user.kind}, FROM needs a table function", node.position)
    names, types = function_columns(user, node)
    result = row_type(dict(zip(names, types, strict=True)), nullable=False)
    arguments = resolver.all(node.arguments)
    return Schema(names, types), user_call(user, arguments, node.position, result)


def function_columns(user: UserFunction, node: sql.SqlNode) -> tuple[tuple[str, ...], tuple[LogicalType, ...]]:
    """Return the columns of the rows that a table function gives."""
    if user.result_type is None:
        raise SqlError(f"The result type of function {user.name} is not declared", node.position)
    if isinstance(user.result_type, RowType):
        return user.result_type.names, user.result_type.types
    return ("f0",), (user.result_type,)


# --- queries ---------------------------------------------------------------------------------------------------------


def _subquery(
    queries: QueryResolver,
    left: logical.Node,
    scope: Scope,
    node: sql.SqlQueryRelation,
    alias: str | None,
    columns: Sequence[str],
    outer: bool,
    condition: sql.SqlExpression | None,
) -> tuple[logical.Node, Scope]:
    """Return a join with a query that uses columns of the left rows."""
    from flott.table._plan.resolve.queries import renamed

    plan = renamed(queries.query(node.query, scope), columns, alias or "The query", node.position)
    inner = decorrelate(plan, scope.level, node.position)
    width, kind = len(left.schema), JoinKind.LEFT if outer else JoinKind.INNER
    right_scope = scope_of(plan, (alias,) if alias else (), like=replace(scope, columns=()))
    values = tuple(above_join(one, width, scope.level) for one in inner.columns)
    both_columns = scope.columns + tuple(replace(c, expression=values[i]) for i, c in enumerate(right_scope.columns))
    conditions = [above_join(one, width, scope.level) for one in inner.conditions]
    if condition is not None:
        on = ExpressionResolver(queries, replace(scope, columns=both_columns), "ON").condition(condition)
        conditions.append(on)
    joined: logical.Node = logical.Join(left, inner.plan, kind, conjunction(conditions))
    own = references(joined.schema)
    values = tuple(_retyped(value, own) for value in values)
    names = (*left.schema.names, *plan.schema.names)
    joined = logical.Project(joined, (*own[:width], *values), names)
    return joined, scope.beside(scope_of(_right(joined, width), (alias,) if alias else ()), width)


def _right(joined: logical.Node, width: int) -> logical.Node:
    return logical.Values(Schema(joined.schema.names[width:], joined.schema.types[width:]), ())


def _retyped(expression: Expression, own: Sequence[InputRef]) -> Expression:
    from flott.table._expressions.expression import rewritten

    return rewritten(expression, lambda one: own[one.index] if isinstance(one, InputRef) else one)
