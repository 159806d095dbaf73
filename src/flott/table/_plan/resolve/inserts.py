"""INSERT: the columns of a query become those of the table that is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flott.table._catalog.catalog_table import CatalogTable, Identifier, MetadataColumn, PhysicalColumn
from flott.table._connectors.table_source import ChangelogMode, TableSink
from flott.table._expressions.expression import Expression, Literal
from flott.table._plan import logical
from flott.table._plan.resolve.calls import cast_to
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.queries import project
from flott.table._plan.resolve.relations import found_table, with_options
from flott.table._plan.resolve.scope import Scope, references
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest
from flott.table._types.coercion import can_assign, can_cast
from flott.table._types.logical import Family, LogicalType, NullType, plain

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver

_Column = PhysicalColumn | MetadataColumn


def insert(queries: QueryResolver, node: sql.SqlInsert) -> logical.SinkNode:
    """Return the plan of an INSERT statement."""
    found = found_table(queries, node.table, node.position)
    if not isinstance(found.object, CatalogTable):
        raise SqlError(f"{found.identifier.summary} is a view, INSERT needs a table", node.position)
    table = with_options(found.object, node.hints)
    return insert_plan(queries, queries.query(node.query), found.identifier, table, node)


def insert_plan(
    queries: QueryResolver, plan: logical.Node, identifier: Identifier, table: CatalogTable, node: sql.SqlInsert
) -> logical.SinkNode:
    """Return a plan that writes the rows of another one to a table."""
    columns: list[_Column] = [
        column
        for column in table.schema.columns
        if isinstance(column, PhysicalColumn) or (isinstance(column, MetadataColumn) and not column.virtual)
    ]
    static = _static_values(queries, node, table, columns)
    targets = _targets(node, columns, table, static)
    if len(targets) != len(plan.schema):
        listed = ", ".join(f"{column.name} {column.type}" for column in targets)
        given = ", ".join(f"{n} {t}" for n, t in zip(plan.schema.names, plan.schema.types, strict=True))
        raise SqlError(
            f"The query has {len(plan.schema)} columns ({given}), {identifier.summary} needs {len(targets)} ({listed})",
            node.query.position or node.position,
        )
    values: dict[str, Expression] = dict(static)
    configuration = queries.environment.configuration
    checks_lengths = configuration.get("table.exec.sink.type-length-enforcer", "IGNORE").upper() == "ERROR"
    for column, reference in zip(targets, references(plan.schema), strict=True):
        values[column.name] = _assigned(reference, column, plan, node, checks_lengths)
    sink = queries.environment.sink(identifier, table)
    if node.overwrite:
        _check_overwrite(queries, identifier, sink, node)
    if node.on_conflict is not None:
        _check_conflicts(identifier, sink, node)
    expressions = []
    for column in columns:
        value = values.get(column.name)
        if value is None:
            if not column.type.nullable:
                raise SqlError(
                    f"Column {column.name!r} is NOT NULL and the INSERT gives no value for it", node.position
                )
            value = Literal(column.type, None)
        expressions.append(value)
    below = project(plan, expressions, [column.name for column in columns])
    return logical.SinkNode(below, identifier, sink, table, node.overwrite, tuple(static.items()))


def _check_conflicts(identifier: Identifier, sink: TableSink, node: sql.SqlInsert) -> None:
    """Refuse what would be ignored otherwise. DEDUPLICATE is what a table that is written by key does anyway."""
    if sink.accepts is not ChangelogMode.UPSERT or not sink.key:
        raise SqlError(
            f"ON CONFLICT needs a table that is written by its primary key, and {identifier.summary} is not",
            node.position,
        )
    if node.on_conflict != "DEDUPLICATE":
        raise SqlError(
            f"ON CONFLICT DO {node.on_conflict} is not supported: the last row of a key wins (DO DEDUPLICATE). To keep"
            " the first one, select it by ROW_NUMBER() OVER (PARTITION BY key ORDER BY time) = 1",
            node.position,
        )


def _check_overwrite(queries: QueryResolver, identifier: Identifier, sink: TableSink, node: sql.SqlInsert) -> None:
    if sink.overwrite is None:
        raise SqlError(
            f"{identifier.summary} cannot be overwritten: its connector only adds rows. Use INSERT INTO", node.position
        )
    if queries.environment.configuration.get("execution.runtime-mode", "streaming").lower() != "batch":
        raise SqlError(
            "Streaming mode does not support INSERT OVERWRITE: rows are replaced once, when all of them are there. Use"
            " INSERT INTO, or SET 'execution.runtime-mode' = 'batch'",
            node.position,
        )


def _assigned(
    reference: Expression, column: _Column, plan: logical.Node, node: sql.SqlInsert, checks_lengths: bool
) -> Expression:
    source, wanted = plain(reference.type), plain(column.type)
    if isinstance(source, NullType):
        return Literal(wanted.as_nullable(), None)
    if not can_assign(source, wanted):
        advice = f" Use CAST(... AS {wanted.as_nullable()})." if can_cast(source, wanted) else ""
        raise SqlError(
            f"Column {column.name!r} is {column.type}, the query gives {reference.type} for it.{advice}",
            node.query.position or node.position,
        )
    if checks_lengths and source.family is wanted.family and source.family in (Family.CHARACTER, Family.BINARY):
        return reference  # a cast would cut the value before its length is checked
    return cast_to(reference, _with_nullability(wanted, reference.type))


def _with_nullability(wanted: LogicalType, given: LogicalType) -> LogicalType:
    return wanted.as_nullable(given.nullable)


def _targets(
    node: sql.SqlInsert, columns: Sequence[_Column], table: CatalogTable, static: dict[str, Expression]
) -> list[_Column]:
    """Return the columns that the query's columns are written to, in order."""
    by_name: dict[str, _Column] = {column.name: column for column in columns}
    if not node.columns:
        return [column for column in columns if column.name not in static]
    targets: list[_Column] = []
    for name in node.columns:
        if len(name) != 1:
            raise SqlError(
                f"INSERT cannot write the field {'.'.join(name)!r} alone; give the whole column", node.position
            )
        if name[0] not in by_name:
            raise SqlError(_unknown(name[0], by_name, table), node.position)
        if name[0] in (target.name for target in targets):
            raise SqlError(f"INSERT lists the column {name[0]!r} twice", node.position)
        if name[0] in static:
            raise SqlError(f"Column {name[0]!r} is given by PARTITION already", node.position)
        targets.append(by_name[name[0]])
    return targets


def _unknown(name: str, by_name: dict[str, _Column], table: CatalogTable) -> str:
    if any(column.name == name for column in table.schema.columns):
        return f"Column {name!r} is computed or virtual, INSERT cannot write it"
    return f"The table has no column {name!r}.{nearest(name, by_name)} There is: {', '.join(by_name)}."


def _static_values(
    queries: QueryResolver, node: sql.SqlInsert, table: CatalogTable, columns: Sequence[_Column]
) -> dict[str, Expression]:
    """Return the constants of PARTITION (column = value)."""
    found: dict[str, Expression] = {}
    by_name = {column.name: column for column in columns}
    for item in node.partition:
        if item.column not in by_name:
            raise SqlError(_unknown(item.column, by_name, table), item.position or node.position)
        if item.column not in table.partitioned_by:
            raise SqlError(f"The table is not partitioned by {item.column!r}", item.position or node.position)
        if item.value is None:
            continue
        value = ExpressionResolver(queries, Scope(), "PARTITION").resolve(item.value)
        wanted = by_name[item.column].type
        if not can_cast(value.type, wanted):
            raise SqlError(
                f"Column {item.column!r} is {wanted}, PARTITION gives {value.type}", item.position or node.position
            )
        found[item.column] = cast_to(value, wanted)
    return found
