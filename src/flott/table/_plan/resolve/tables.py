"""Tables of catalogs: the scan, computed columns, event time; and the types of a declared schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flott.table._catalog.catalog_table import CatalogTable, ComputedColumn, Identifier, MetadataColumn, PhysicalColumn
from flott.table._expressions.expression import Expression, InputRef
from flott.table._plan import logical
from flott.table._plan.resolve.calls import cast_to
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.scope import Scope, ScopeColumn, references, scope_of
from flott.table._sql.errors import SqlError, nearest
from flott.table._sql.parser import parse_expression
from flott.table._types.coercion import can_cast, needs_cast
from flott.table._types.logical import (
    LocalZonedTimestampType,
    LogicalType,
    TimeAttribute,
    TimestampType,
    is_proctime,
    plain,
)

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


@dataclass(frozen=True)
class ResolvedSchema:
    """The columns of a table with all types known. ``watermark`` is over these columns."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    rowtime: int | None = None
    watermark: Expression | None = None
    computed: tuple[tuple[str, Expression], ...] = ()  #: over the physical and metadata columns, in their order


def schema_of(queries: QueryResolver, table: CatalogTable) -> ResolvedSchema:
    """Return the types of all columns of a table, computed ones included."""
    declared = [column for column in table.schema.columns if not isinstance(column, ComputedColumn)]
    scope = Scope(tuple(ScopeColumn(c.name, InputRef(c.type, i)) for i, c in enumerate(declared)))
    expressions, computed = [], []
    for column in table.schema.columns:
        expression = _column(queries, column, scope)
        expressions.append(expression)
        if isinstance(column, ComputedColumn):
            computed.append((column.name, expression))
    names = tuple(column.name for column in table.schema.columns)
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise SqlError(f"The table has two columns {double!r}")
    for key in table.schema.primary_key:
        if key not in names:
            raise SqlError(
                f"The primary key names the column {key!r}, which the table does not have.{nearest(key, names)}"
            )
    types = [expression.type for expression in expressions]
    if table.schema.watermark is None:
        return ResolvedSchema(names, tuple(types), computed=tuple(computed))
    columns = Scope(
        tuple(ScopeColumn(name, InputRef(of, i)) for i, (name, of) in enumerate(zip(names, types, strict=True)))
    )
    rowtime, watermark = _watermark(queries, table, names, columns)
    types[rowtime] = replace(types[rowtime], attribute=TimeAttribute.ROWTIME)  # type: ignore[call-arg]
    return ResolvedSchema(names, tuple(types), rowtime, watermark, tuple(computed))


def _column(
    queries: QueryResolver, column: PhysicalColumn | ComputedColumn | MetadataColumn, scope: Scope
) -> Expression:
    if not isinstance(column, ComputedColumn):
        return scope.find((column.name,), None)
    return _parsed(queries, column.expression, scope, f"the computed column {column.name!r}")


def _parsed(queries: QueryResolver, text: str, scope: Scope, what: str) -> Expression:
    try:
        return ExpressionResolver(queries, scope, what).resolve(parse_expression(text))
    except SqlError as error:
        raise error.in_text(text) from None


def _watermark(
    queries: QueryResolver, table: CatalogTable, names: tuple[str, ...], scope: Scope
) -> tuple[int, Expression]:
    spec = table.schema.watermark
    assert spec is not None
    if spec.column not in names:
        raise SqlError(f"WATERMARK FOR {spec.column!r}: the table has no such column.{nearest(spec.column, names)}")
    rowtime = names.index(spec.column)
    of = scope.columns[rowtime].expression.type
    if not isinstance(of, TimestampType | LocalZonedTimestampType) or of.precision > 3 or is_proctime(of):
        raise SqlError(
            f"WATERMARK FOR {spec.column!r} needs TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p of at most 3, found {of}"
        )
    watermark = _parsed(queries, spec.expression, scope, f"the watermark of {spec.column!r}")
    if not isinstance(watermark.type, TimestampType | LocalZonedTimestampType):
        raise SqlError(f"The watermark of {spec.column!r} is {watermark.type}, expected {plain(of)}")
    return rowtime, cast_to(watermark, plain(of))


def scan(queries: QueryResolver, identifier: Identifier, table: CatalogTable) -> logical.Node:
    """Return the plan that reads a table: all of its declared columns in order, with its event time."""
    source = queries.environment.source(identifier, table)
    return with_declared(queries, logical.Scan(identifier, table, source), identifier, table)


def with_declared(
    queries: QueryResolver, plan: logical.Node, identifier: Identifier, table: CatalogTable
) -> logical.Node:
    """Return rows with the columns and the event time that a table declares."""
    declared = schema_of(queries, table)
    scope = scope_of(plan)
    known = Scope(tuple(_declared_column(column, scope, identifier) for column in table.schema.columns
                        if not isinstance(column, ComputedColumn)))  # fmt: skip
    expressions = tuple(_column(queries, column, known) for column in table.schema.columns)
    if expressions != references(plan.schema) or declared.names != plan.schema.names:
        plan = logical.Project(plan, expressions, declared.names)
    if declared.rowtime is not None and declared.watermark is not None:
        plan = logical.WatermarkAssigner(plan, declared.rowtime, declared.watermark)
    return plan


def _declared_column(column: PhysicalColumn | MetadataColumn, scope: Scope, identifier: Identifier) -> ScopeColumn:
    name = column.name
    if isinstance(column, MetadataColumn) and all(one.name != name for one in scope.columns):
        name = column.metadata_key
    if all(one.name != name for one in scope.columns):
        names = [one.name for one in scope.columns]
        what = "metadata column" if isinstance(column, MetadataColumn) else "column"
        raise SqlError(
            f"The connector of {identifier.summary} does not give the {what} {name!r}.{nearest(name, names)}"
        )
    expression = scope.find((name,), None)
    if needs_cast(expression.type, column.type):
        if not can_cast(expression.type, column.type):
            raise SqlError(
                f"Column {column.name!r} is declared as {column.type}, the connector gives {expression.type}"
            )
        expression = cast_to(expression, column.type)
    return ScopeColumn(column.name, expression)
