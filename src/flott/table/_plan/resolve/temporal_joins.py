"""Joins with FOR SYSTEM_TIME AS OF: versions of a table at the left row's event time, or rows looked up at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flott.table._catalog.catalog_table import CatalogTable, ComputedColumn
from flott.table._expressions.expression import Call, Expression, InputRef, conjunction
from flott.table._plan import logical
from flott.table._plan.logical import JoinKind
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.joins import equi_keys, outer_types
from flott.table._plan.resolve.relations import found_table, peeled, resolve_relation, with_options
from flott.table._plan.resolve.scope import Scope, ScopeColumn, references, scope_of
from flott.table._plan.resolve.tables import schema_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._types.logical import is_proctime, is_rowtime

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


def resolve_temporal_join(
    queries: QueryResolver,
    left: logical.Node,
    scope: Scope,
    node: sql.SqlJoin,
    snapshot: sql.SqlSnapshot,
    kind: JoinKind,
) -> tuple[logical.Node, Scope]:
    """Return the plan of a join with a version of the right table."""
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise SqlError(f"{node.kind} JOIN cannot be used with FOR SYSTEM_TIME AS OF; use INNER or LEFT", node.position)
    if node.condition is None:
        raise SqlError("A join with FOR SYSTEM_TIME AS OF needs ON", node.position)
    time = ExpressionResolver(queries, scope, "FOR SYSTEM_TIME AS OF").resolve(snapshot.period)
    if is_proctime(time.type) and isinstance(time, Call):  # FOR SYSTEM_TIME AS OF PROCTIME()
        names = (*left.schema.names, "$proctime")
        width = len(left.schema)
        left = logical.Project(left, (*references(left.schema), time), names)
        time = InputRef(time.type, width)
    if not isinstance(time, InputRef) or not (is_proctime(time.type) or is_rowtime(time.type)):
        raise SqlError(
            f"FOR SYSTEM_TIME AS OF needs a time attribute of the left table, found {time.type}", snapshot.position
        )
    if is_proctime(time.type):
        found = _looked_up(queries, left, scope, node, snapshot, kind)
        if found is not None:
            return found
    return _versioned(queries, left, scope, node, snapshot, kind, time)


def _versioned(
    queries: QueryResolver,
    left: logical.Node,
    scope: Scope,
    node: sql.SqlJoin,
    snapshot: sql.SqlSnapshot,
    kind: JoinKind,
    time: InputRef,
) -> tuple[logical.Node, Scope]:
    alias, columns, _ = peeled(node.right)
    inner: sql.SqlRelation = snapshot.relation
    if alias is not None:
        inner = sql.SqlAliased(inner, alias, columns, position=node.right.position)
    right, right_scope = resolve_relation(queries, inner, replace(scope, columns=()))
    versions = next((i for i, of in enumerate(right.schema.types) if is_rowtime(of)), None)
    if is_rowtime(time.type) and versions is None:
        raise SqlError(
            "The right table of FOR SYSTEM_TIME AS OF has no event time: declare a WATERMARK", snapshot.position
        )
    both = scope.beside(right_scope, len(left.schema))
    assert node.condition is not None
    condition = ExpressionResolver(queries, both, "ON").condition(node.condition)
    width = len(left.schema)
    left, keys, rest = equi_keys(condition, left, len(right.schema))
    if not keys.left:
        raise SqlError(
            "A join with FOR SYSTEM_TIME AS OF needs a condition left column = key of the right table", node.position
        )
    joined: logical.Node = logical.TemporalJoin(
        left, right, kind, keys, time.index, versions if is_rowtime(time.type) else None, conjunction(rest)
    )
    joined = _dropped(joined, width, len(left.schema), len(right.schema))
    return joined, outer_types(both, joined)


def _dropped(plan: logical.Node, width: int, widened: int, right: int) -> logical.Node:
    """Return a join without the columns that were appended to its left input for keys."""
    if width == widened:
        return plan
    own = references(plan.schema)
    kept = (*own[:width], *own[widened : widened + right])
    names = plan.schema.names
    return logical.Project(plan, kept, (*names[:width], *names[widened : widened + right]))


def _looked_up(
    queries: QueryResolver,
    left: logical.Node,
    scope: Scope,
    node: sql.SqlJoin,
    snapshot: sql.SqlSnapshot,
    kind: JoinKind,
) -> tuple[logical.Node, Scope] | None:
    """Return a lookup join if the right side is a table whose connector fetches rows by key."""
    alias, columns, _ = peeled(node.right)
    inner_alias, inner_columns, relation = peeled(snapshot.relation)
    if not isinstance(relation, sql.SqlTableReference) or relation.name[0] in queries.common_tables:
        return None
    found = found_table(queries, relation.name, relation.position)
    if not isinstance(found.object, CatalogTable):
        return None
    table = with_options(found.object, relation.hints)
    lookup = queries.environment.lookup(found.identifier, table)
    if lookup is None:
        return None
    right = logical.Schema(lookup.names, lookup.types)
    declared = _declared(queries, table, right, columns or inner_columns)
    name = alias or inner_alias
    identifier = found.identifier
    qualifier = (name,) if name else (identifier.catalog, identifier.database, identifier.name)
    right_scope = Scope(tuple(replace(column, qualifier=qualifier) for column in declared))
    both = scope.beside(right_scope, len(left.schema))
    assert node.condition is not None
    condition = ExpressionResolver(queries, both, "ON").condition(node.condition)
    width = len(left.schema)
    left, keys, rest = equi_keys(condition, left, len(right))
    if not keys.left:
        raise SqlError("A lookup join needs a condition left value = column of the right table", node.position)
    parallel = queries.hints.lookups_of(node.right)
    joined: logical.Node = logical.LookupJoin(left, kind, identifier, lookup, right, keys, conjunction(rest), parallel)
    joined = _dropped(joined, width, len(left.schema), len(right))
    return joined, outer_types(both, joined)


def _declared(
    queries: QueryResolver, table: CatalogTable, right: logical.Schema, columns: tuple[str, ...]
) -> list[ScopeColumn]:
    """Return the declared columns over those that are fetched; computed ones are computed above the join."""
    known = scope_of(logical.Values(right, ()))
    found: list[ScopeColumn] = []
    computed: dict[str, Expression] = dict(schema_of(queries, table).computed)
    physical = [c for c in table.schema.columns if not isinstance(c, ComputedColumn)]
    fetched = tuple(known.find((column.name,), None) for column in physical)
    for column in table.schema.columns:
        if isinstance(column, ComputedColumn):
            from flott.table._expressions.expression import replaced

            found.append(ScopeColumn(column.name, replaced(computed[column.name], fetched)))
        else:
            found.append(ScopeColumn(column.name, known.find((column.name,), None)))
    if columns:
        found = [replace(c, name=name) for c, name in zip(found, columns, strict=False)]
    return found
