"""What stands in FROM: tables, views, subqueries, window functions; joins are in ``joins``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flott.table._catalog.catalog_table import CatalogTable, CatalogView
from flott.table._plan import logical
from flott.table._plan.resolve.environment import FoundTable
from flott.table._plan.resolve.hints import check_hints
from flott.table._plan.resolve.queries import renamed
from flott.table._plan.resolve.scope import Scope, one_row, scope_of
from flott.table._plan.resolve.tables import scan
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest
from flott.table._sql.parser import parse_query

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


def resolve_relation(queries: QueryResolver, node: sql.SqlRelation, inside: Scope) -> tuple[logical.Node, Scope]:
    """Return the plan of a relation and the names of its columns. ``inside`` says which queries are around it."""
    from flott.table._plan.resolve.joins import resolve_join
    from flott.table._plan.resolve.laterals import is_lateral, resolve_lateral

    if isinstance(node, sql.SqlJoin):
        return resolve_join(queries, node, inside)
    alias, columns, inner = peeled(node)
    if is_lateral(queries, inner):
        return resolve_lateral(queries, one_row(), inside, node, outer=False, condition=None)
    match inner:
        case sql.SqlTableReference():
            plan = table_named(queries, inner.name, inner.hints, inner.position)
            qualifier = _path(queries, inner.name)
        case sql.SqlSnapshot():
            return _snapshot(queries, node, inner, inside)
        case sql.SqlJoin():
            joined, scope = resolve_join(queries, inner, inside)
            return _aliased(joined, scope, alias, columns, node)
        case _:
            plan, qualifier = _plan(queries, inner, inside), ()
    plan = renamed(plan, columns, alias or "The relation", node.position)
    return plan, scope_of(plan, (alias,) if alias else qualifier, like=inside)


def _plan(queries: QueryResolver, node: sql.SqlRelation, inside: Scope) -> logical.Node:
    from flott.table._plan.resolve.window_functions import resolve_window_function

    match node:
        case sql.SqlQueryRelation():
            # A query in FROM does not see its neighbours, but the queries around.
            return queries.query(node.query, inside.parent)
        case sql.SqlTableInput():
            return _plan_of(queries, queries.environment.query_of(node.table))
        case sql.SqlFunctionRelation():
            return resolve_window_function(queries, node.call, inside)
        case sql.SqlMatchRecognize():
            raise SqlError(
                "MATCH_RECOGNIZE is not supported yet; use the patterns of the DataStream API", node.position
            )
        case sql.SqlSample():
            raise SqlError("TABLESAMPLE is not supported", node.position)
    raise SqlError(f"{type(node).__name__.removeprefix('Sql')} cannot stand in FROM", node.position)


def _plan_of(queries: QueryResolver, found: sql.SqlQuery | logical.Node) -> logical.Node:
    return found if isinstance(found, logical.Node) else queries.query(found)


def peeled(node: sql.SqlRelation) -> tuple[str | None, tuple[str, ...], sql.SqlRelation]:
    """Return alias, names of columns, and the relation itself."""
    alias: str | None = None
    columns: tuple[str, ...] = ()
    while isinstance(node, sql.SqlAliased):
        alias, columns, node = alias or node.alias, columns or node.columns, node.relation
    return alias, columns, node


def _aliased(
    plan: logical.Node, scope: Scope, alias: str | None, columns: tuple[str, ...], node: sql.SqlRelation
) -> tuple[logical.Node, Scope]:
    if alias is None:
        return plan, scope
    plan = renamed(plan, columns, alias, node.position)
    return plan, scope_of(plan, (alias,), like=scope)


def _snapshot(
    queries: QueryResolver, node: sql.SqlRelation, inner: sql.SqlSnapshot, inside: Scope
) -> tuple[logical.Node, Scope]:
    """Return a table as of a constant time: catalogs here keep no history, so only a join can ask for a time."""
    raise SqlError("FOR SYSTEM_TIME AS OF is supported for the right table of a join", inner.position or node.position)


# --- tables by name --------------------------------------------------------------------------------------------------


def _path(queries: QueryResolver, name: tuple[str, ...]) -> tuple[str, ...]:
    environment = queries.environment
    if len(name) == 1 and name[0] in queries.common_tables:
        return name
    return (environment.catalog, environment.database, *name)[-3:] if len(name) < 3 else name


def found_table(queries: QueryResolver, name: tuple[str, ...], position: sql.Position | None) -> FoundTable:
    """Return the object that a name stands for; raise ``SqlError`` if there is none."""
    found = queries.environment.find_table(name)
    if found is not None:
        return found
    known = [*queries.common_tables, *queries.environment.table_names()]
    shown = ".".join(name)
    listed = f" There is: {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}." if known else ""
    raise SqlError(f"Table {shown!r} is not known.{nearest(name[-1], known)}{listed}", position)


def table_named(
    queries: QueryResolver, name: tuple[str, ...], hints: tuple[sql.SqlHint, ...], position: sql.Position | None
) -> logical.Node:
    """Return the plan of a table, view or common table."""
    if len(name) == 1 and name[0] in queries.common_tables:
        return queries.common_tables[name[0]]
    found = found_table(queries, name, position)
    match found.object:
        case CatalogTable():
            return scan(queries, found.identifier, with_options(found.object, hints))
        case CatalogView():
            if hints:
                raise SqlError(f"{found.identifier.summary} is a view, and hints of tables concern tables", position)
            return _view(queries, found, found.object, position)
        case _:
            return _plan_of(queries, found.object)


def with_options(table: CatalogTable, hints: tuple[sql.SqlHint, ...]) -> CatalogTable:
    """Return a table with the options of an OPTIONS hint; other hints belong behind SELECT."""
    check_hints(hints)
    for hint in hints:
        if hint.name != "OPTIONS":
            raise SqlError(f"The hint {hint.name} belongs behind SELECT; a table takes OPTIONS", hint.position)
    options = {o.key: o.value or "" for hint in hints for o in hint.options}
    return replace(table, options={**table.options, **options}) if options else table


def _view(queries: QueryResolver, found: FoundTable, view: CatalogView, position: sql.Position | None) -> logical.Node:
    name = found.identifier.summary
    if name in queries.views:
        raise SqlError(f"The view {name} contains itself", position)
    inner = replace(queries, common_tables={}, views=(*queries.views, name))
    try:
        plan = inner.query(parse_query(view.query))
    except SqlError as error:
        raise SqlError(f"The view {name} cannot be used: {error.in_text(view.query)}", position) from None
    return renamed(plan, view.columns, f"The view {name}", position)
