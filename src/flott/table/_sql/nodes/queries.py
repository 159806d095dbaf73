"""Nodes of queries and of what stands in FROM."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from flott.table._sql.nodes.base import SqlNode
from flott.table._sql.nodes.expressions import SqlExpression, SqlFunctionCall, SqlOrderItem, SqlWindowSpecification


@dataclass(frozen=True)
class SqlQuery(SqlNode):
    """Anything that gives rows: a SELECT, VALUES, a set operation, with or without WITH and ORDER BY."""


@dataclass(frozen=True)
class SqlRelation(SqlNode):
    """Anything that stands in FROM."""


@dataclass(frozen=True)
class SqlHintOption(SqlNode):
    """``'key' = 'value'`` has both; ``t1`` in BROADCAST(t1) has the key only."""

    key: str
    value: str | None = None


@dataclass(frozen=True)
class SqlHint(SqlNode):
    """``BROADCAST(t1, t2)``, ``OPTIONS('scan.parallelism' = '4')``. ``name`` is in upper case."""

    name: str
    options: tuple[SqlHintOption, ...] = ()


# --- queries --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlSelectItem(SqlNode):
    expression: SqlExpression
    alias: str | None = None


@dataclass(frozen=True)
class SqlGroupingSets(SqlNode):
    """``GROUPING SETS (...)``; a set of several columns is a SqlRowConstructor, the empty one an SqlEmptyGroup."""

    sets: tuple[GroupingItem, ...]


@dataclass(frozen=True)
class SqlRollup(SqlNode):
    items: tuple[SqlExpression, ...]


@dataclass(frozen=True)
class SqlCube(SqlNode):
    items: tuple[SqlExpression, ...]


@dataclass(frozen=True)
class SqlEmptyGroup(SqlNode):
    """``()``: all rows are one group."""


GroupingItem = SqlExpression | SqlGroupingSets | SqlRollup | SqlCube | SqlEmptyGroup


@dataclass(frozen=True)
class SqlGroupBy(SqlNode):
    items: tuple[GroupingItem, ...]
    distinct: bool = False


@dataclass(frozen=True)
class SqlNamedWindow(SqlNode):
    """``WINDOW w AS (...)``."""

    name: str
    specification: SqlWindowSpecification


@dataclass(frozen=True)
class SqlSelect(SqlQuery):
    """One SELECT. Without FROM ``source`` is None and gives one row without columns."""

    items: tuple[SqlSelectItem, ...]
    source: SqlRelation | None = None
    where: SqlExpression | None = None
    group_by: SqlGroupBy | None = None
    having: SqlExpression | None = None
    windows: tuple[SqlNamedWindow, ...] = ()
    qualify: SqlExpression | None = None
    distinct: bool = False
    hints: tuple[SqlHint, ...] = ()


@dataclass(frozen=True)
class SqlValues(SqlQuery):
    """``VALUES (1, 'a'), (2, 'b')``: a row of one column may be any expression, otherwise a SqlRowConstructor."""

    rows: tuple[SqlExpression, ...]


@dataclass(frozen=True)
class SqlTableQuery(SqlQuery):
    """``TABLE t``: all of a table."""

    name: tuple[str, ...]


@dataclass(frozen=True)
class SqlSetOperation(SqlQuery):
    """``operator`` is UNION, INTERSECT or EXCEPT (MINUS is read as EXCEPT)."""

    operator: str
    all: bool
    left: SqlQuery
    right: SqlQuery


@dataclass(frozen=True)
class SqlSortedQuery(SqlQuery):
    """ORDER BY, OFFSET and LIMIT or FETCH of a query. ``order_by`` may name what the query's SELECT does not give."""

    query: SqlQuery
    order_by: tuple[SqlOrderItem, ...] = ()
    offset: SqlExpression | None = None
    limit: SqlExpression | None = None


@dataclass(frozen=True)
class SqlCommonTable(SqlNode):
    """``name (columns) AS (query)`` of a WITH."""

    name: str
    columns: tuple[str, ...]
    query: SqlQuery


@dataclass(frozen=True)
class SqlWithQuery(SqlQuery):
    tables: tuple[SqlCommonTable, ...]
    query: SqlQuery
    recursive: bool = False


@dataclass(frozen=True)
class SqlTableAggregate(SqlQuery):
    """A table aggregate function applied to groups. Only the Table API makes it (``flat_aggregate``).

    Its columns are the keys in ``group_by``, then the columns of the function's result, renamed to ``columns``.
    """

    source: SqlRelation
    group_by: tuple[SqlSelectItem, ...]
    call: SqlFunctionCall
    columns: tuple[str, ...] = ()


# --- relations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlTableReference(SqlRelation):
    """A table, a view or a common table by name. Hints are such as OPTIONS and STATE_TTL."""

    name: tuple[str, ...]
    hints: tuple[SqlHint, ...] = ()


@dataclass(frozen=True)
class SqlTableInput(SqlRelation):
    """A Table object of the Table API, with its query; ``table`` is compared by identity."""

    table: Hashable


@dataclass(frozen=True)
class SqlQueryRelation(SqlRelation):
    """A query in parentheses."""

    query: SqlQuery


@dataclass(frozen=True)
class SqlFunctionRelation(SqlRelation):
    """``TABLE(f(...))`` or ``f(...)``: a window function such as TUMBLE, or a table function."""

    call: SqlFunctionCall


@dataclass(frozen=True)
class SqlUnnest(SqlRelation):
    """``UNNEST(x, ...)``."""

    operands: tuple[SqlExpression, ...]
    with_ordinality: bool = False


@dataclass(frozen=True)
class SqlLateral(SqlRelation):
    """``LATERAL``: the relation may use columns of those before it."""

    relation: SqlRelation


@dataclass(frozen=True)
class SqlSnapshot(SqlRelation):
    """``t FOR SYSTEM_TIME AS OF period``."""

    relation: SqlRelation
    period: SqlExpression


@dataclass(frozen=True)
class SqlSample(SqlRelation):
    """``t TABLESAMPLE SYSTEM (10) REPEATABLE (1)``; ``method`` is BERNOULLI or SYSTEM."""

    relation: SqlRelation
    method: str
    percentage: SqlExpression
    seed: int | None = None


@dataclass(frozen=True)
class SqlAliased(SqlRelation):
    """``relation AS alias (columns)``."""

    relation: SqlRelation
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlJoin(SqlRelation):
    """``kind`` is INNER, LEFT, RIGHT, FULL or CROSS (a comma is read as CROSS); one of condition and using is given."""

    kind: str
    left: SqlRelation
    right: SqlRelation
    condition: SqlExpression | None = None
    using: tuple[str, ...] = ()
    natural: bool = False


# --- MATCH_RECOGNIZE ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlPattern(SqlNode):
    """Any part of a row pattern."""


@dataclass(frozen=True)
class SqlPatternVariable(SqlPattern):
    name: str


@dataclass(frozen=True)
class SqlPatternAnchor(SqlPattern):
    """``^`` or ``$``."""

    symbol: str


@dataclass(frozen=True)
class SqlPatternSequence(SqlPattern):
    parts: tuple[SqlPattern, ...]


@dataclass(frozen=True)
class SqlPatternAlternation(SqlPattern):
    parts: tuple[SqlPattern, ...]


@dataclass(frozen=True)
class SqlPatternPermutation(SqlPattern):
    parts: tuple[SqlPattern, ...]


@dataclass(frozen=True)
class SqlPatternExclusion(SqlPattern):
    """``{- part -}``."""

    part: SqlPattern


@dataclass(frozen=True)
class SqlPatternRepetition(SqlPattern):
    """``part {least, most}``; ``most`` None is without bound; ``*`` is (0, None), ``+`` (1, None), ``?`` (0, 1)."""

    part: SqlPattern
    least: int
    most: int | None
    greedy: bool = True


@dataclass(frozen=True)
class SqlMeasure(SqlNode):
    expression: SqlExpression
    alias: str


@dataclass(frozen=True)
class SqlPatternDefinition(SqlNode):
    variable: str
    condition: SqlExpression


@dataclass(frozen=True)
class SqlPatternSubset(SqlNode):
    name: str
    variables: tuple[str, ...]


@dataclass(frozen=True)
class SqlMatchRecognize(SqlRelation):
    """A row pattern over a relation.

    ``rows`` is ONE ROW, ALL ROWS or empty; ``skip`` is NEXT ROW, PAST LAST ROW, FIRST, LAST (of ``skip_to``) or empty.
    """

    relation: SqlRelation
    pattern: SqlPattern
    definitions: tuple[SqlPatternDefinition, ...]
    partition_by: tuple[SqlExpression, ...] = ()
    order_by: tuple[SqlOrderItem, ...] = ()
    measures: tuple[SqlMeasure, ...] = ()
    rows: str = ""
    skip: str = ""
    skip_to: str | None = None
    within: SqlExpression | None = None
    subsets: tuple[SqlPatternSubset, ...] = ()
