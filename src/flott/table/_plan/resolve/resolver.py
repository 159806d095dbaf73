"""The way in: a query, an INSERT or the schema of a table, resolved in a session."""

from __future__ import annotations

from flott.table._catalog.catalog_table import CatalogTable, Identifier
from flott.table._expressions.expression import walk
from flott.table._plan import logical
from flott.table._plan.resolve.environment import ResolveEnvironment
from flott.table._plan.resolve.inserts import insert
from flott.table._plan.resolve.internal import OuterRef, SubqueryExpression
from flott.table._plan.resolve.queries import QueryResolver
from flott.table._plan.resolve.tables import ResolvedSchema, schema_of, with_declared
from flott.table._plan.resolve.walks import expressions_of
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.queries import SqlQuery
from flott.table._sql.nodes.statements import SqlInsert


def resolve_query(query: SqlQuery, environment: ResolveEnvironment) -> logical.Node:
    """Return the logical plan of a query. Raises ``SqlError`` for anything that is wrong in it."""
    try:
        return _checked(QueryResolver(environment).query(query))
    except RecursionError:
        raise SqlError("The query is nested too deeply", query.position) from None


def resolve_insert(statement: SqlInsert, environment: ResolveEnvironment) -> logical.SinkNode:
    """Return the logical plan of an INSERT: the query with its columns brought to those of the sink."""
    try:
        plan = insert(QueryResolver(environment), statement)
        _checked(plan)
        return plan
    except RecursionError:
        raise SqlError("The query is nested too deeply", statement.position) from None


def resolve_declared(
    plan: logical.Node, identifier: Identifier, table: CatalogTable, environment: ResolveEnvironment
) -> logical.Node:
    """Return rows of a stream with the columns and the event time that a schema declares."""
    return with_declared(QueryResolver(environment), plan, identifier, table)


def resolve_schema(table: CatalogTable, environment: ResolveEnvironment) -> ResolvedSchema:
    """Return the types of a table's columns, computed ones included, and its watermark."""
    return schema_of(QueryResolver(environment), table)


def _checked(plan: logical.Node) -> logical.Node:
    """Return a plan; raise ``SqlError`` if a subquery stands where it cannot become a join."""
    for node in logical.walk(plan):
        for expression in expressions_of(node):
            for one in walk(expression):
                if isinstance(one, SubqueryExpression):
                    raise SqlError("A subquery is not supported here", one.position)
                if isinstance(one, OuterRef):
                    raise SqlError("A column of an outer query is not supported here")
    return plan
