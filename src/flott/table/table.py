"""Tables of the Table API. Each method makes a new query around the one before; nothing runs until ``execute``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError
from flott.table._names import as_expression, chosen, expanded, rewritten, select_items
from flott.table._row_functions import called_with_columns, called_with_rows
from flott.table._session import TableSession
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_expression
from flott.table._types.logical import RowType
from flott.table.expression import Expression
from flott.table.expressions import col
from flott.table.table_descriptor import TableDescriptor
from flott.table.window import GroupWindow, OverWindow

if TYPE_CHECKING:
    from flott.table.catalog import ResolvedSchema
    from flott.table.explain_detail import ExplainDetail
    from flott.table.table_pipeline import TablePipeline
    from flott.table.table_result import TableResult
    from flott.table.table_schema import TableSchema

__all__ = ["GroupWindowedTable", "GroupedTable", "OverWindowedTable", "Table", "WindowGroupedTable"]

_ALL = (ast.SqlSelectItem(ast.SqlStar()),)


def table_name(path: str) -> tuple[str, ...]:
    """Return the parts of a table's name such as ``catalog.database.table``."""
    found = parse_expression(path)
    if not isinstance(found, ast.SqlColumnReference):
        raise ProgramError(f"Found {path!r}, expected the name of a table")
    return found.parts


class Table:
    """A query whose columns programs name and combine. Environments and other tables make it."""

    def __init__(self, query: ast.SqlQuery, t_env: TableSession) -> None:
        self.query = query
        self._t_env = t_env
        self._row_type: RowType | None = None

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def relation(self) -> ast.SqlRelation:
        """Return the table as what stands in FROM."""
        if isinstance(self.query, ast.SqlTableQuery):
            return ast.SqlTableReference(self.query.name)
        return ast.SqlQueryRelation(self.query)

    @property
    def row_type(self) -> RowType:
        """Return names and types of the columns."""
        if self._row_type is None:
            self._row_type = self._t_env.schema_of_query(self.query)
        return self._row_type

    def _names(self) -> Sequence[str]:
        return self.row_type.names

    def __getattr__(self, name: str) -> Expression[Any]:
        if name.startswith("_") or name not in self.row_type.names:
            raise AttributeError(f"{type(self).__name__!r} has no method and no column {name!r}")
        return col(name)

    def __str__(self) -> str:
        from flott.table._sql.print_queries import print_query

        return print_query(self.query)

    def _with(self, query: ast.SqlQuery) -> Table:
        return Table(query, self._t_env)

    def _select(self, items: tuple[ast.SqlSelectItem, ...], **clauses: Any) -> Table:
        return self._with(ast.SqlSelect(items, self.relation, **clauses))

    # --- columns ----------------------------------------------------------------------------------------------------

    def select(self, *fields: Expression[Any]) -> Table:
        """Return a table of these columns. Aggregates without ``group_by`` give one row."""
        return self._select(select_items(fields, self._names))

    def alias(self, field: str, *fields: str) -> Table:
        """Return the table with its first columns renamed."""
        new = (field, *fields)
        old = self._names()
        if len(new) > len(old):
            raise ProgramError(f"Found {len(new)} names, expected at most one for each of the {len(old)} columns")
        pairs = zip(old, (*new, *old[len(new) :]), strict=True)
        return self._select(tuple(ast.SqlSelectItem(ast.SqlColumnReference((a,)), b) for a, b in pairs))

    def add_columns(self, *fields: Expression[Any]) -> Table:
        """Return the table with more columns."""
        return self._select((*_ALL, *select_items(fields, self._names, len(self._names()))))

    def add_or_replace_columns(self, *fields: Expression[Any]) -> Table:
        """Return the table with more columns; one of the same name is replaced."""
        new = {item.alias or _own_name(item.expression): item for item in select_items(fields, self._names)}
        items = [new.pop(name, ast.SqlSelectItem(ast.SqlColumnReference((name,)))) for name in self._names()]
        return self._select((*items, *new.values()))

    def rename_columns(self, *fields: Expression[Any]) -> Table:
        """Return the table with columns renamed: ``rename_columns(col('a').alias('b'))``."""
        new = {}
        for item in select_items(fields, self._names):
            if item.alias is None or not isinstance(item.expression, ast.SqlColumnReference):
                raise ProgramError("rename_columns() expects columns with their new names: col('a').alias('b')")
            new[chosen(item.expression, self._names())[0]] = item.alias
        return self._select(
            tuple(ast.SqlSelectItem(ast.SqlColumnReference((name,)), new.get(name)) for name in self._names())
        )

    def drop_columns(self, *fields: Expression[Any]) -> Table:
        """Return the table without these columns."""
        dropped = {name for field in fields for name in chosen(as_expression(field).node, self._names())}
        kept = [name for name in self._names() if name not in dropped]
        if not kept:
            raise ProgramError("drop_columns() leaves no column, expected at least one")
        return self._select(tuple(ast.SqlSelectItem(ast.SqlColumnReference((name,))) for name in kept))

    # --- rows -------------------------------------------------------------------------------------------------------

    def filter(self, predicate: Expression[bool]) -> Table:
        """Return the rows for which a condition holds."""
        return self._select(_ALL, where=as_expression(predicate).node)

    def where(self, predicate: Expression[bool]) -> Table:
        """Return the rows for which a condition holds."""
        return self.filter(predicate)

    def distinct(self) -> Table:
        """Return the rows without duplicates."""
        return self._select(_ALL, distinct=True)

    def order_by(self, *fields: Expression[Any]) -> Table:
        """Return the rows in an order: ``order_by(col('a').desc)``."""
        items = tuple(field.order or ast.SqlOrderItem(field.node) for field in map(as_expression, fields))
        return self._with(ast.SqlSortedQuery(self._select(_ALL).query, items))

    def offset(self, offset: int) -> Table:
        """Return the rows without the first ones of an order."""
        return self._limited(offset=ast.SqlNumberLiteral(str(offset)))

    def fetch(self, fetch: int) -> Table:
        """Return the first rows of an order."""
        return self._limited(limit=ast.SqlNumberLiteral(str(fetch)))

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Return so many rows after the first ones."""
        return self.offset(offset).fetch(fetch)

    def _limited(self, **bounds: Any) -> Table:
        query = self.query
        if isinstance(query, ast.SqlSortedQuery) and query.limit is None and not (query.offset and "offset" in bounds):
            return self._with(replace(query, **bounds))
        return self._with(ast.SqlSortedQuery(self._select(_ALL).query, **bounds))

    # --- several tables ---------------------------------------------------------------------------------------------

    def join(self, right: Table, join_predicate: Expression[bool] | None = None) -> Table:
        """Return the pairs of rows for which a condition holds; without one all pairs."""
        if join_predicate is None:
            return self._joined("CROSS", right, None)
        return self._joined("INNER", right, join_predicate)

    def left_outer_join(self, right: Table, join_predicate: Expression[bool] | None = None) -> Table:
        """Return the pairs for which a condition holds, and rows of this table without a partner."""
        always: Expression[bool] = Expression(ast.SqlBooleanLiteral(True))
        return self._joined("LEFT", right, always if join_predicate is None else join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression[bool]) -> Table:
        """Return the pairs for which a condition holds, and rows of the other table without a partner."""
        return self._joined("RIGHT", right, join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression[bool]) -> Table:
        """Return the pairs for which a condition holds, and rows of both tables without a partner."""
        return self._joined("FULL", right, join_predicate)

    def _joined(self, kind: str, right: Table, predicate: Expression[bool] | None) -> Table:
        both = sorted(set(self._names()) & set(right._names()))
        if both:
            raise ProgramError(f"Both tables have a column {both[0]!r}, expected different names; use alias()")
        condition = None if predicate is None else as_expression(predicate).node
        return self._with(ast.SqlSelect(_ALL, ast.SqlJoin(kind, self.relation, right.relation, condition)))

    def join_lateral(self, table_function_call: Any, join_predicate: Expression[bool] | None = None) -> Table:
        """Return each row with the rows that a table function gives for it."""
        return self._lateral("INNER", table_function_call, join_predicate)

    def left_outer_join_lateral(
        self, table_function_call: Any, join_predicate: Expression[bool] | None = None
    ) -> Table:
        """Return each row with the rows that a table function gives for it, or with NULLs if it gives none."""
        return self._lateral("LEFT", table_function_call, join_predicate)

    def _lateral(self, kind: str, function: Any, predicate: Expression[bool] | None) -> Table:
        call = called_with_columns(function, self.row_type)
        condition = ast.SqlBooleanLiteral(True) if predicate is None else as_expression(predicate).node
        source = ast.SqlJoin(kind, self.relation, _lateral_relation(call, self._names), condition)
        return self._with(ast.SqlSelect(_ALL, source))

    def union(self, right: Table) -> Table:
        """Return the rows of both tables without duplicates."""
        return self._combined("UNION", right, every=False)

    def union_all(self, right: Table) -> Table:
        """Return the rows of both tables."""
        return self._combined("UNION", right, every=True)

    def intersect(self, right: Table) -> Table:
        """Return the rows that are in both tables, without duplicates."""
        return self._combined("INTERSECT", right, every=False)

    def intersect_all(self, right: Table) -> Table:
        """Return the rows that are in both tables, as often as in both."""
        return self._combined("INTERSECT", right, every=True)

    def minus(self, right: Table) -> Table:
        """Return the rows that are not in the other table, without duplicates."""
        return self._combined("EXCEPT", right, every=False)

    def minus_all(self, right: Table) -> Table:
        """Return the rows as often as they are more often here than in the other table."""
        return self._combined("EXCEPT", right, every=True)

    def _combined(self, operator: str, right: Table, *, every: bool) -> Table:
        return self._with(ast.SqlSetOperation(operator, every, self.query, right.query))

    # --- groups and windows -----------------------------------------------------------------------------------------

    def group_by(self, *fields: Expression[Any]) -> GroupedTable:
        """Return the table grouped by keys."""
        return GroupedTable(self, tuple(map(as_expression, fields)), self._t_env)

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Return the table with a group window, by which ``group_by`` groups."""
        return GroupWindowedTable(self, window, self._t_env)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Return the table with over windows, to which aggregates of ``select`` refer."""
        return OverWindowedTable(self, over_windows, self._t_env)

    # --- Python functions -------------------------------------------------------------------------------------------

    def map(self, func: Any) -> Table:
        """Return the rows that a scalar function gives; a function that is not called yet gets whole rows."""
        call = called_with_rows(func, self.row_type)
        item = ast.SqlSelectItem(_result_of(call, self._names))
        return _renamed(self._select((item,)), _result_names(call))

    def flat_map(self, func: Any) -> Table:
        """Return all rows that a table function gives."""
        call = called_with_rows(func, self.row_type)
        relation = _lateral_relation(call, self._names, alias="T$")
        source = ast.SqlJoin("CROSS", self.relation, relation)
        return self._with(ast.SqlSelect((ast.SqlSelectItem(ast.SqlStar(("T$",))),), source))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Return the result of an aggregate function over all rows."""
        return self.group_by().aggregate(func)

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Return the rows of a table aggregate function over all rows."""
        return self.group_by().flat_aggregate(func)

    def to_changelog(self, *arguments: Expression[Any]) -> Table:
        """Refuse to turn changes into rows; ``StreamTableEnvironment.to_changelog_stream`` gives them as a stream."""
        raise ProgramError("Flott has no TO_CHANGELOG; use StreamTableEnvironment.to_changelog_stream()")

    def from_changelog(self, *arguments: Expression[Any]) -> Table:
        """Refuse to turn rows into changes; ``StreamTableEnvironment.from_changelog_stream`` reads them."""
        raise ProgramError("Flott has no FROM_CHANGELOG; use StreamTableEnvironment.from_changelog_stream()")

    # --- running ----------------------------------------------------------------------------------------------------

    def execute(self) -> TableResult:
        """Run the query; the result has its rows."""
        return self._t_env.execute_statement(ast.SqlQueryStatement(self.query))

    def _insert(self, target: str | TableDescriptor, overwrite: bool) -> ast.SqlInsert:
        name = self._t_env.declare_anonymous(target) if isinstance(target, TableDescriptor) else table_name(target)
        return ast.SqlInsert(name, self.query, overwrite)

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Write the rows into a table. The result's ``wait`` waits for the end."""
        return self._t_env.execute_statement(self._insert(table_path_or_descriptor, overwrite))

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """Return what writes the rows into a table, to run it or to add it to a statement set."""
        from flott.table.table_pipeline import TablePipeline

        return TablePipeline(self._insert(table_path_or_descriptor, overwrite), self._t_env)

    def to_pandas(self) -> Any:
        """Run the query and return its rows as a data frame."""
        from flott.table._pandas import data_frame

        with self.execute().collect() as rows:
            return data_frame(rows, self.row_type)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plan."""
        return self._t_env.explain_statement(ast.SqlQueryStatement(self.query), extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan."""
        sys.stdout.write(f"{self.explain(*extra_details)}\n")

    def get_schema(self) -> TableSchema:
        """Return names and types of the columns."""
        from flott.table.table_schema import schema_of_row

        return schema_of_row(self.row_type)

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return names and types of the columns."""
        from flott.table.catalog import ResolvedSchema

        return ResolvedSchema.of_row(self.row_type)

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        sys.stdout.write(f"{self.get_resolved_schema()}\n")


class GroupedTable:
    """A table grouped by keys."""

    def __init__(self, table: Table, keys: tuple[Expression[Any], ...], t_env: TableSession) -> None:
        self._table = table
        self._keys = keys
        self._t_env = t_env

    def _group_by(self) -> ast.SqlGroupBy | None:
        return ast.SqlGroupBy(tuple(key.node for key in self._keys)) if self._keys else None

    def select(self, *fields: Expression[Any]) -> Table:
        """Return one row for each group, of keys and aggregates."""
        items = select_items(fields, self._table._names)
        return self._table._select(items, group_by=self._group_by())

    def aggregate(self, func: Any) -> AggregatedTable:
        """Return the keys and the result of an aggregate function."""
        call = called_with_columns(func, self._table.row_type)
        keys = select_items(self._keys, self._table._names)
        items = (*keys, ast.SqlSelectItem(_result_of(call, self._table._names)))
        inner = self._table._select(items, group_by=self._group_by())
        names = tuple(item.alias or _own_name(item.expression) for item in keys)
        return AggregatedTable(_renamed(inner, _all_names(names, call)))

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Return the keys and the rows of a table aggregate function."""
        call = called_with_columns(func, self._table.row_type)
        keys = select_items(self._keys, self._table._names)
        query = ast.SqlTableAggregate(
            self._table.relation, keys, _expanded_call(call.node, self._table._names), call.aliases
        )
        return FlatAggregateTable(self._table._with(query))


class AggregatedTable:
    """The result of an aggregate function, of which ``select`` chooses columns."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def select(self, *fields: Expression[Any]) -> Table:
        """Return columns of the keys and of the result."""
        return self._table.select(*fields)


class FlatAggregateTable:
    """The rows of a table aggregate function, of which ``select`` chooses columns."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def select(self, *fields: Expression[Any]) -> Table:
        """Return columns of the keys and of the rows."""
        return self._table.select(*fields)


class GroupWindowedTable:
    """A table with a group window, which ``group_by`` must name."""

    def __init__(self, table: Table, window: GroupWindow, t_env: TableSession) -> None:
        self._table = table
        self._window = window
        self._t_env = t_env

    def group_by(self, *fields: Expression[Any]) -> WindowGroupedTable:
        """Return the table grouped by the window and by keys: ``group_by(col('w'), col('a'))``."""
        window = ast.SqlColumnReference((self._window.name,))
        keys = tuple(field for field in map(as_expression, fields) if field.node != window)
        if len(keys) == len(fields):
            raise ProgramError(f"group_by() lacks the window, expected col({self._window.name!r}) among its keys")
        return WindowGroupedTable(self._table, self._window, keys, self._t_env)


_WINDOW_COLUMNS = {"$START": "window_start", "$END": "window_end", "$ROWTIME": "window_time"}


class WindowGroupedTable:
    """A table grouped by a window and keys."""

    def __init__(
        self, table: Table, window: GroupWindow, keys: tuple[Expression[Any], ...], t_env: TableSession
    ) -> None:
        self._table = table
        self._window = window
        self._keys = keys
        self._t_env = t_env

    def select(self, *fields: Expression[Any]) -> Table:
        """Return one row for each window and key; ``col('w').start`` is the start of the window."""
        return self._select(select_items(fields, self._table._names))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Return the keys, the window and the result of an aggregate function."""
        call = called_with_columns(func, self._table.row_type)
        keys = select_items(self._keys, self._table._names)
        bounds = (
            ast.SqlSelectItem(ast.SqlColumnReference(("window_start",)), f"{self._window.name}$start"),
            ast.SqlSelectItem(ast.SqlColumnReference(("window_end",)), f"{self._window.name}$end"),
        )
        items = (*keys, *bounds, ast.SqlSelectItem(_result_of(call, self._table._names)))
        names = tuple(item.alias or _own_name(item.expression) for item in (*keys, *bounds))
        inner = _renamed(self._select(items), _all_names(names, call))
        return WindowAggregatedTable(inner, self._window)

    def _select(self, items: tuple[ast.SqlSelectItem, ...]) -> Table:
        used: set[str] = {"window_start", "window_end"}
        items = rewritten(items, lambda node: self._column_of(node, used))
        keys = tuple(key.node for key in self._keys)
        bounds = tuple(ast.SqlColumnReference((name,)) for name in sorted(used, reverse=True))
        source = self._window.relation(self._table.relation, keys)
        return self._table._with(ast.SqlSelect(items, source, group_by=ast.SqlGroupBy((*bounds, *keys))))

    def _column_of(self, node: Any, used: set[str]) -> Any:
        window = ast.SqlColumnReference((self._window.name,))
        if not isinstance(node, ast.SqlFunctionCall) or node.arguments != (window,):
            return node
        if node.name == ("$PROCTIME",):
            return ast.SqlFunctionCall(("PROCTIME",))
        name = _WINDOW_COLUMNS.get(node.name[0])
        if name is None:
            return node
        used.add(name)
        return ast.SqlColumnReference((name,))


class WindowAggregatedTable(AggregatedTable):
    """The result of an aggregate function over windows."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        super().__init__(table)
        self._window = window

    def select(self, *fields: Expression[Any]) -> Table:
        """Return columns of the keys, of the window and of the result."""
        items = rewritten(select_items(fields, self._table._names), self._column_of)
        return self._table._select(items)

    def _column_of(self, node: Any) -> Any:
        if isinstance(node, ast.SqlFunctionCall) and node.name[0] in ("$START", "$END"):
            return ast.SqlColumnReference((f"{self._window.name}{node.name[0].lower()}",))
        return node


class OverWindowedTable:
    """A table with over windows."""

    def __init__(self, table: Table, windows: tuple[OverWindow, ...], t_env: TableSession) -> None:
        self._table = table
        self._windows = windows
        self._t_env = t_env

    def select(self, *fields: Expression[Any]) -> Table:
        """Return each row with aggregates over windows: ``col('a').sum.over(col('w'))``."""
        windows = tuple(ast.SqlNamedWindow(window.name, window.specification) for window in self._windows)
        return self._table._select(select_items(fields, self._table._names), windows=windows)


def _own_name(node: ast.SqlExpression) -> str:
    if isinstance(node, ast.SqlColumnReference):
        return node.parts[-1]
    raise ProgramError(f"{Expression(node)} has no name, expected one: .alias('a')")


def _renamed(table: Table, names: tuple[str, ...]) -> Table:
    if not names:
        return table
    return table._with(ast.SqlSelect(_ALL, ast.SqlAliased(table.relation, "T$", names)))


def _expanded_call(node: ast.SqlExpression, names: Any) -> ast.SqlFunctionCall:
    if not isinstance(node, ast.SqlFunctionCall):
        raise ProgramError(f"Found {Expression(node)}, expected the call of a function")
    return replace(node, arguments=tuple(part for argument in node.arguments for part in expanded(argument, names)))


def _result_of(call: Expression[Any], names: Any) -> ast.SqlExpression:
    """Return the result of an aggregate function, its fields as columns if it is a row."""
    node = _expanded_call(call.node, names)
    result = getattr(node.function, "result_type", None)
    return ast.SqlFlatten(node) if isinstance(result, RowType) else node


def _result_names(call: Expression[Any]) -> tuple[str, ...]:
    """Return the names of the columns of a result: those of the program, or of the fields of a row."""
    result = getattr(getattr(call.node, "function", None), "result_type", None)
    return call.aliases or (result.names if isinstance(result, RowType) else ())


def _all_names(keys: tuple[str, ...], call: Expression[Any]) -> tuple[str, ...]:
    names = _result_names(call)
    return (*keys, *names) if names else ()


def _lateral_relation(call: Expression[Any], names: Any, alias: str = "") -> ast.SqlRelation:
    function = ast.SqlFunctionRelation(_expanded_call(call.node, names))
    relation: ast.SqlRelation = ast.SqlLateral(function)
    if call.aliases or alias:
        relation = ast.SqlAliased(relation, alias or "T$", call.aliases)
    return relation
