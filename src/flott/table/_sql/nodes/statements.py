"""Nodes of statements. Those that define, change and drop objects of a catalog are in ``definitions.py``.

Here are queries, INSERT, UPDATE, DELETE and statement sets; EXPLAIN and plans; settings and modules; SHOW and DESCRIBE.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.table._sql.nodes.base import SqlNode
from flott.table._sql.nodes.expressions import SqlExpression
from flott.table._sql.nodes.queries import SqlHint, SqlQuery

Name = tuple[str, ...]
"""A name of one to three parts: catalog, database, object."""


@dataclass(frozen=True)
class SqlStatement(SqlNode):
    """One statement."""


@dataclass(frozen=True)
class SqlOption(SqlNode):
    """``'key' = 'value'`` of WITH and SET."""

    key: str
    value: str


@dataclass(frozen=True)
class SqlPartitionValue(SqlNode):
    """``column = literal`` of PARTITION; without a value None."""

    column: str
    value: SqlExpression | None = None


PartitionSpec = tuple[SqlPartitionValue, ...]


# --- data -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlQueryStatement(SqlStatement):
    query: SqlQuery


@dataclass(frozen=True)
class SqlInsert(SqlStatement):
    """``INSERT INTO|OVERWRITE t PARTITION (...) (columns) query ON CONFLICT DO ...``.

    ``on_conflict`` is ERROR, NOTHING, DEDUPLICATE or None.
    """

    table: Name
    query: SqlQuery
    overwrite: bool = False
    columns: tuple[Name, ...] = ()
    partition: PartitionSpec = ()
    hints: tuple[SqlHint, ...] = ()
    on_conflict: str | None = None
    upsert: bool = False


@dataclass(frozen=True)
class SqlStatementSet(SqlStatement):
    """``EXECUTE STATEMENT SET BEGIN ... END``: several INSERTs as one job."""

    statements: tuple[SqlStatement, ...]


@dataclass(frozen=True)
class SqlBeginStatementSet(SqlStatement):
    """``BEGIN STATEMENT SET``: the statements follow one by one."""


@dataclass(frozen=True)
class SqlEndStatementSet(SqlStatement):
    """``END``: run the statements since BEGIN STATEMENT SET."""


@dataclass(frozen=True)
class SqlAssignment(SqlNode):
    column: Name
    value: SqlExpression


@dataclass(frozen=True)
class SqlUpdate(SqlStatement):
    table: Name
    assignments: tuple[SqlAssignment, ...]
    where: SqlExpression | None = None
    alias: str | None = None


@dataclass(frozen=True)
class SqlDelete(SqlStatement):
    table: Name
    where: SqlExpression | None = None
    alias: str | None = None


@dataclass(frozen=True)
class SqlTruncate(SqlStatement):
    table: Name


@dataclass(frozen=True)
class SqlCallProcedure(SqlStatement):
    name: Name
    arguments: tuple[SqlExpression, ...] = ()


# --- plans ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlExplain(SqlStatement):
    """``details`` are ESTIMATED_COST, CHANGELOG_MODE, JSON_EXECUTION_PLAN, PLAN_ADVICE."""

    statement: SqlStatement
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlExecute(SqlStatement):
    """``EXECUTE statement``: as the statement by itself."""

    statement: SqlStatement


@dataclass(frozen=True)
class SqlCompilePlan(SqlStatement):
    """``COMPILE [AND EXECUTE] PLAN 'path' [IF NOT EXISTS] FOR statement``."""

    path: str
    statement: SqlStatement
    if_not_exists: bool = False
    execute: bool = False


@dataclass(frozen=True)
class SqlExecutePlan(SqlStatement):
    path: str


# --- session --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlSet(SqlStatement):
    """``SET 'key' = 'value'``; without a key it lists all settings."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class SqlReset(SqlStatement):
    """``RESET 'key'``; without a key all settings."""

    key: str | None = None


@dataclass(frozen=True)
class SqlUseCatalog(SqlStatement):
    name: str


@dataclass(frozen=True)
class SqlUseDatabase(SqlStatement):
    name: Name


@dataclass(frozen=True)
class SqlUseModules(SqlStatement):
    names: tuple[str, ...]


@dataclass(frozen=True)
class SqlLoadModule(SqlStatement):
    name: str
    options: tuple[SqlOption, ...] = ()


@dataclass(frozen=True)
class SqlUnloadModule(SqlStatement):
    name: str


@dataclass(frozen=True)
class SqlAddJar(SqlStatement):
    path: str


@dataclass(frozen=True)
class SqlRemoveJar(SqlStatement):
    path: str


@dataclass(frozen=True)
class SqlStopJob(SqlStatement):
    job_id: str
    with_savepoint: bool = False
    with_drain: bool = False


# --- show and describe ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlShow(SqlStatement):
    """``SHOW kind [FROM scope] [[NOT] LIKE pattern]``.

    ``kind`` is CATALOGS, DATABASES, TABLES, VIEWS, MATERIALIZED TABLES, FUNCTIONS, USER FUNCTIONS, PROCEDURES, MODELS,
    COLUMNS, PARTITIONS, MODULES, FULL MODULES, JARS or JOBS. ``scope`` is a catalog or database, the table of COLUMNS
    and PARTITIONS. ``like`` is the pattern, ``ignore_case`` says that the text has ILIKE.
    """

    kind: str
    scope: Name = ()
    like: str | None = None
    negated: bool = False
    ignore_case: bool = False
    partition: PartitionSpec = ()


@dataclass(frozen=True)
class SqlShowCurrent(SqlStatement):
    """``kind`` is CATALOG or DATABASE."""

    kind: str


@dataclass(frozen=True)
class SqlShowCreate(SqlStatement):
    """``kind`` is TABLE, VIEW, MATERIALIZED TABLE, CATALOG or MODEL."""

    kind: str
    name: Name


@dataclass(frozen=True)
class SqlDescribe(SqlStatement):
    """``kind`` is TABLE (tables and views), CATALOG, DATABASE, FUNCTION or MODEL."""

    kind: str
    name: Name
    extended: bool = False


@dataclass(frozen=True)
class SqlDescribeJob(SqlStatement):
    job_id: str
