"""Queries: WITH, set operations, VALUES, ORDER BY and LIMIT, and the way to SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import flott.table._plan.resolve.subquery_rules  # noqa: F401 - adds its rules
from flott.table._expressions.expression import Expression, InputRef, Literal, walk
from flott.table._plan import logical
from flott.table._plan.resolve.calls import cast_to, common
from flott.table._plan.resolve.environment import ResolveEnvironment
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.function_calls import ordering
from flott.table._plan.resolve.hints import QueryHints
from flott.table._plan.resolve.internal import SubqueryExpression
from flott.table._plan.resolve.scope import Scope, one_row, references, scope_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._types.coercion import needs_cast
from flott.table._types.logical import IntegerType, LogicalType, NullType, plain


@dataclass(frozen=True)
class QueryResolver:
    """Resolves queries in one session. ``common_tables`` are those of WITH that are in sight."""

    environment: ResolveEnvironment
    common_tables: dict[str, logical.Node] = field(default_factory=dict)
    views: tuple[str, ...] = ()  #: views that are being resolved, to find one that contains itself
    hints: QueryHints = field(default_factory=QueryHints)  #: of the SELECT whose FROM is being resolved
    _numbers: list[int] = field(default_factory=lambda: [0])

    def next_number(self) -> int:
        """Return a number that was not given before in this statement."""
        self._numbers[0] += 1
        return self._numbers[0]

    def query(self, node: sql.SqlQuery, around: Scope | None = None) -> logical.Node:
        """Return the plan of a query. ``around`` is the scope of the query in which it stands."""
        match node:
            case sql.SqlSelect():
                return self._select(node, around, ())
            case sql.SqlSortedQuery():
                return self._sorted(node, around)
            case sql.SqlWithQuery():
                return self._with(node, around)
            case sql.SqlValues():
                return self._values(node, around)
            case sql.SqlSetOperation():
                return self._set_operation(node, around)
            case sql.SqlTableQuery():
                from flott.table._plan.resolve.relations import table_named

                return table_named(self, node.name, (), node.position)
            case sql.SqlTableAggregate():
                from flott.table._plan.resolve.table_aggregates import resolve_table_aggregate

                return resolve_table_aggregate(self, node, around)
        raise SqlError(f"A query of the form {type(node).__name__} is not supported", node.position)

    def _select(self, node: sql.SqlSelect, around: Scope | None, order: Sequence[sql.SqlOrderItem]) -> logical.Node:
        from flott.table._plan.resolve.selects import resolve_select

        return resolve_select(self, node, around, order)

    def _with(self, node: sql.SqlWithQuery, around: Scope | None) -> logical.Node:
        if node.recursive and any(_mentions(table) for table in node.tables):
            raise SqlError("WITH RECURSIVE is not supported", node.position)
        inner = self
        for table in node.tables:
            plan = renamed(inner.query(table.query, around), table.columns, table.name, table.position)
            inner = replace(inner, common_tables={**inner.common_tables, table.name: plan})
        return inner.query(node.query, around)

    # --- order -------------------------------------------------------------------------------------------------------

    def _sorted(self, node: sql.SqlSortedQuery, around: Scope | None) -> logical.Node:
        if isinstance(node.query, sql.SqlSelect):
            plan = self._select(node.query, around, node.order_by)
        else:
            plan = self.query(node.query, around)
            plan = self._ordered(plan, node.order_by, around)
        offset, limit = self._number(node.offset, "OFFSET"), self._number(node.limit, "LIMIT")
        if offset is None and limit is None:
            return plan
        if isinstance(plan, logical.Project) and isinstance(plan.input, logical.Sort) and node.order_by:
            # The columns that only ORDER BY needs are dropped above the sort: the limit belongs to the sort.
            return replace(plan, input=replace(plan.input, offset=offset or 0, fetch=limit))
        if isinstance(plan, logical.Sort) and node.order_by and plan.fetch is None and not plan.offset:
            return replace(plan, offset=offset or 0, fetch=limit)
        return logical.Sort(plan, (), offset or 0, limit)

    def _ordered(self, plan: logical.Node, items: Sequence[sql.SqlOrderItem], around: Scope | None) -> logical.Node:
        if not items:
            return plan
        scope = scope_of(plan, like=_inside(around))
        resolver = ExpressionResolver(self, scope, "ORDER BY")
        keys, extra = [], []
        for item in items:
            ordinal = ordinal_of(item.expression, len(plan.schema), "ORDER BY")
            key = ordering(resolver, item) if ordinal is None else None
            expression = key.expression if key is not None else InputRef(plan.schema.types[ordinal or 0], ordinal or 0)
            if not isinstance(expression, InputRef):
                extra.append(expression)
                expression = InputRef(expression.type, len(plan.schema) + len(extra) - 1)
            nulls_last = item.descending if item.nulls_first is None else not item.nulls_first
            keys.append(logical.SortKey(expression.index, item.descending, nulls_last))
        if not extra:
            return logical.Sort(plan, tuple(keys))
        own = references(plan.schema)
        names = (*plan.schema.names, *(f"$order{i}" for i in range(len(extra))))
        widened = logical.Project(plan, (*own, *extra), names)
        return logical.Project(logical.Sort(widened, tuple(keys)), own, plan.schema.names)

    def _number(self, node: sql.SqlExpression | None, clause: str) -> int | None:
        if node is None:
            return None
        value = ExpressionResolver(self, Scope(), clause).resolve(node)
        if isinstance(value, Literal) and isinstance(value.type, IntegerType) and value.value >= 0:
            return int(value.value)
        raise SqlError(f"{clause} needs a whole number that is not negative", node.position)

    # --- values and sets ---------------------------------------------------------------------------------------------

    def _values(self, node: sql.SqlValues, around: Scope | None) -> logical.Node:
        resolver = ExpressionResolver(self, _inside(around), "VALUES")
        rows = [resolver.all(row.items if isinstance(row, sql.SqlRowConstructor) else (row,)) for row in node.rows]
        width = len(rows[0])
        for row, written in zip(rows, node.rows, strict=True):
            if len(row) != width:
                raise SqlError(f"A row of VALUES has {len(row)} columns, the first one has {width}", written.position)
        types = []
        for column in range(width):
            values = [row[column] for row in rows]
            of = common(values, f"The values of column {column + 1} of VALUES", node.position)
            types.append(of.as_nullable(any(value.type.nullable for value in values)))
        cast = tuple(tuple(cast_to(value, of) for value, of in zip(row, types, strict=True)) for row in rows)
        names = tuple(f"EXPR${i}" for i in range(width))
        if any(isinstance(one, SubqueryExpression) for row in cast for value in row for one in walk(value)):
            return logical.Union(tuple(_row(row, names, resolver.scope.level) for row in cast))
        return logical.Values(logical.Schema(names, tuple(types)), cast)

    def _set_operation(self, node: sql.SqlSetOperation, around: Scope | None) -> logical.Node:
        branches = [self.query(branch, around) for branch in _branches(node)]
        width = len(branches[0].schema)
        for branch in branches[1:]:
            if len(branch.schema) != width:
                raise SqlError(
                    f"{node.operator} combines queries of {width} and of {len(branch.schema)} columns", node.position
                )
        branches = self._matched(branches, node)
        if node.operator == "UNION":
            plan: logical.Node = logical.Union(tuple(branches))
            return plan if node.all else distinct(plan)
        return logical.SetOperation(branches[0], branches[1], node.operator == "INTERSECT", node.all)

    def _matched(self, branches: list[logical.Node], node: sql.SqlSetOperation) -> list[logical.Node]:
        """Return the branches with their columns cast to common types. Time attributes stay if all agree on them."""
        columns = list(zip(*(references(branch.schema) for branch in branches), strict=True))
        wanted = []
        for position, column in enumerate(columns):
            first = column[0].type
            if all(one.type.as_nullable() == first.as_nullable() for one in column) and not isinstance(first, NullType):
                wanted.append(first)
            else:
                wanted.append(common(column, f"Columns {position + 1} of {node.operator}", node.position))
        matched = []
        for branch in branches:
            expressions: list[Expression] = []
            for reference, of in zip(references(branch.schema), wanted, strict=True):
                cast = needs_cast(reference.type, of)
                expressions.append(cast_to(reference, of) if cast else _as_type(reference, of))
            matched.append(project(branch, expressions, branches[0].schema.names))
        return matched


def _row(values: Sequence[Expression], names: tuple[str, ...], level: int) -> logical.Node:
    """Return a row of VALUES that contains subqueries."""
    from flott.table._plan.resolve.subqueries import with_subquery_columns

    plan, expressions = with_subquery_columns(one_row(), values, level)
    return logical.Project(plan, tuple(expressions), names)


def _as_type(reference: InputRef, of: LogicalType) -> InputRef:
    """Return a column without its time attribute where ``of`` has none."""
    return reference if plain(of) != of else InputRef(plain(reference.type), reference.index)


def _branches(node: sql.SqlSetOperation) -> list[sql.SqlQuery]:
    """Return the branches of a chain of equal UNIONs, flat; the two sides of anything else."""
    found: list[sql.SqlQuery] = [node.right]
    left = node.left
    while (
        node.operator == "UNION"
        and isinstance(left, sql.SqlSetOperation)
        and left.operator == "UNION"
        and left.all == node.all
    ):
        found.append(left.right)
        left = left.left
    return [left, *reversed(found)]


def _mentions(table: sql.SqlCommonTable) -> bool:
    from flott.table._plan.resolve.walks import walk_nodes

    return any(
        isinstance(node, sql.SqlTableReference) and node.name == (table.name,) for node in walk_nodes(table.query)
    )


def _inside(around: Scope | None) -> Scope:
    return Scope() if around is None else around.outer()


def ordinal_of(node: sql.SqlNode, count: int, clause: str) -> int | None:
    """Return the position (from 0) that a whole number in ORDER BY means; None if it is no number."""
    if not isinstance(node, sql.SqlNumberLiteral) or not node.text.isdecimal():
        return None
    number = int(node.text)
    if not 1 <= number <= count:
        raise SqlError(f"{clause} {number} is out of range: the SELECT has {count} columns", node.position)
    return number - 1


def distinct(plan: logical.Node) -> logical.Node:
    """Return the different rows of a plan."""
    own = references(plan.schema)
    bare = tuple(InputRef(plain(one.type), one.index) for one in own)
    plan = plan if bare == own else logical.Project(plan, bare, plan.schema.names)
    return logical.Aggregate(plan, tuple(range(len(plan.schema))), ())


def project(plan: logical.Node, expressions: Sequence[Expression], names: Sequence[str]) -> logical.Node:
    """Return a projection, or the plan itself if it has these columns already."""
    if tuple(expressions) == references(plan.schema) and tuple(names) == plan.schema.names:
        return plan
    return logical.Project(plan, tuple(expressions), tuple(names))


def renamed(plan: logical.Node, columns: Sequence[str], what: str, position: sql.Position | None) -> logical.Node:
    """Return a plan with other names of columns; as it is if none are given."""
    if not columns:
        return plan
    if len(columns) != len(plan.schema):
        raise SqlError(f"{what} lists {len(columns)} columns, its query has {len(plan.schema)}", position)
    return project(plan, references(plan.schema), columns)
