"""Nodes of statements that define, change and drop the objects of a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field

from flott.table._sql.nodes.base import SqlNode, SqlTypeName
from flott.table._sql.nodes.expressions import SqlExpression
from flott.table._sql.nodes.queries import SqlQuery
from flott.table._sql.nodes.statements import Name, PartitionSpec, SqlOption, SqlStatement

# --- parts of a table -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlPhysicalColumn(SqlNode):
    name: str
    type: SqlTypeName
    comment: str | None = None


@dataclass(frozen=True)
class SqlMetadataColumn(SqlNode):
    """``name type METADATA [FROM 'key'] [VIRTUAL]``."""

    name: str
    type: SqlTypeName
    key: str | None = None
    virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class SqlComputedColumn(SqlNode):
    """``name AS expression``."""

    name: str
    expression: SqlExpression
    comment: str | None = None


@dataclass(frozen=True)
class SqlNamedColumn(SqlNode):
    """A name only, as CREATE TABLE (a, b) AS query and views have it."""

    name: str
    comment: str | None = None


ColumnDefinition = SqlPhysicalColumn | SqlMetadataColumn | SqlComputedColumn | SqlNamedColumn


@dataclass(frozen=True)
class SqlWatermark(SqlNode):
    """``WATERMARK FOR column AS expression``; the column may be a field of a row."""

    column: Name
    expression: SqlExpression


@dataclass(frozen=True)
class SqlKeyConstraint(SqlNode):
    """``kind`` is PRIMARY KEY or UNIQUE; ``enforced`` is None when the text does not say."""

    kind: str
    columns: tuple[str, ...]
    name: str | None = None
    enforced: bool | None = None


@dataclass(frozen=True)
class SqlDistribution(SqlNode):
    """``DISTRIBUTED BY HASH (a) INTO 4 BUCKETS``; ``kind`` is HASH, RANGE or None."""

    kind: str | None = None
    columns: tuple[str, ...] = ()
    buckets: int | None = None


@dataclass(frozen=True)
class SqlLikeOption(SqlNode):
    """``mode`` is INCLUDING, EXCLUDING or OVERWRITING.

    ``feature`` is ALL, CONSTRAINTS, DISTRIBUTION, GENERATED, METADATA, OPTIONS, PARTITIONS or WATERMARKS.
    """

    mode: str
    feature: str


@dataclass(frozen=True)
class SqlLikeClause(SqlNode):
    table: Name
    options: tuple[SqlLikeOption, ...] = ()


# --- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlCreateTable(SqlStatement):
    """CREATE [OR REPLACE] TABLE and REPLACE TABLE, with LIKE or AS. A key written at its column is a constraint here.

    ``replace`` is True for both REPLACE forms, ``create`` is False for REPLACE TABLE without CREATE.
    """

    name: Name
    columns: tuple[ColumnDefinition, ...] = ()
    watermarks: tuple[SqlWatermark, ...] = ()
    constraints: tuple[SqlKeyConstraint, ...] = ()
    comment: str | None = None
    distribution: SqlDistribution | None = None
    partitioned_by: tuple[str, ...] = ()
    options: tuple[SqlOption, ...] = ()
    like: SqlLikeClause | None = None
    query: SqlQuery | None = None
    temporary: bool = False
    if_not_exists: bool = False
    replace: bool = False
    create: bool = True


@dataclass(frozen=True)
class SqlCreateMaterializedTable(SqlStatement):
    """``refresh_mode`` is FULL, CONTINUOUS or None."""

    name: Name
    query: SqlQuery
    columns: tuple[ColumnDefinition, ...] = ()
    watermarks: tuple[SqlWatermark, ...] = ()
    constraints: tuple[SqlKeyConstraint, ...] = ()
    comment: str | None = None
    distribution: SqlDistribution | None = None
    partitioned_by: tuple[str, ...] = ()
    options: tuple[SqlOption, ...] = ()
    freshness: SqlExpression | None = None
    refresh_mode: str | None = None
    if_not_exists: bool = False
    or_alter: bool = False


@dataclass(frozen=True)
class SqlColumnPlace(SqlNode):
    """Where ALTER TABLE puts a column: FIRST with ``after`` None, or AFTER a column."""

    after: Name | None = None


@dataclass(frozen=True)
class SqlPlacedColumn(SqlNode):
    column: ColumnDefinition
    place: SqlColumnPlace | None = None


@dataclass(frozen=True)
class SqlAlterTable(SqlStatement):
    """The base of all ALTER TABLE. ``materialized`` says that the text has MATERIALIZED TABLE."""

    table: Name
    if_exists: bool = False
    materialized: bool = False


@dataclass(frozen=True)
class SqlRenameTable(SqlAlterTable):
    new_name: Name = ()


@dataclass(frozen=True)
class SqlSetTableOptions(SqlAlterTable):
    options: tuple[SqlOption, ...] = ()


@dataclass(frozen=True)
class SqlResetTableOptions(SqlAlterTable):
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlAddTableParts(SqlAlterTable):
    """``ADD (column, watermark, constraint, ...)``."""

    columns: tuple[SqlPlacedColumn, ...] = ()
    watermarks: tuple[SqlWatermark, ...] = ()
    constraints: tuple[SqlKeyConstraint, ...] = ()
    distribution: SqlDistribution | None = None


@dataclass(frozen=True)
class SqlModifyTableParts(SqlAlterTable):
    """``MODIFY (column, watermark, constraint, ...)``."""

    columns: tuple[SqlPlacedColumn, ...] = ()
    watermarks: tuple[SqlWatermark, ...] = ()
    constraints: tuple[SqlKeyConstraint, ...] = ()
    distribution: SqlDistribution | None = None


@dataclass(frozen=True)
class SqlRenameColumn(SqlAlterTable):
    column: Name = ()
    new_name: str = ""


@dataclass(frozen=True)
class SqlDropColumns(SqlAlterTable):
    columns: tuple[Name, ...] = ()


@dataclass(frozen=True)
class SqlDropPrimaryKey(SqlAlterTable):
    pass


@dataclass(frozen=True)
class SqlDropConstraint(SqlAlterTable):
    name: str = ""


@dataclass(frozen=True)
class SqlDropWatermark(SqlAlterTable):
    pass


@dataclass(frozen=True)
class SqlDropDistribution(SqlAlterTable):
    pass


@dataclass(frozen=True)
class SqlNewPartition(SqlNode):
    partition: PartitionSpec
    options: tuple[SqlOption, ...] = ()


@dataclass(frozen=True)
class SqlAddPartitions(SqlAlterTable):
    partitions: tuple[SqlNewPartition, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class SqlDropPartitions(SqlAlterTable):
    partitions: tuple[PartitionSpec, ...] = ()
    if_partition_exists: bool = False


@dataclass(frozen=True)
class SqlSuspendTable(SqlAlterTable):
    pass


@dataclass(frozen=True)
class SqlResumeTable(SqlAlterTable):
    options: tuple[SqlOption, ...] = ()


@dataclass(frozen=True)
class SqlRefreshTable(SqlAlterTable):
    partition: PartitionSpec = ()


@dataclass(frozen=True)
class SqlAlterTableQuery(SqlAlterTable):
    """``ALTER MATERIALIZED TABLE t AS query``."""

    query: SqlQuery | None = None


@dataclass(frozen=True)
class SqlCompactTable(SqlAlterTable):
    partition: PartitionSpec = ()


@dataclass(frozen=True)
class SqlDropTable(SqlStatement):
    name: Name
    if_exists: bool = False
    temporary: bool = False
    materialized: bool = False


@dataclass(frozen=True)
class SqlAnalyze(SqlStatement):
    """``ANALYZE TABLE t ... COMPUTE STATISTICS``; ``tables`` True is ANALYZE TABLES of the database ``name``.

    ``columns`` is None without FOR, empty with FOR ALL COLUMNS.
    """

    name: Name
    tables: bool = False
    partition: PartitionSpec = ()
    columns: tuple[Name, ...] | None = None


# --- views ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlCreateView(SqlStatement):
    """``text`` is the query as it is written; it takes no part in comparisons."""

    name: Name
    query: SqlQuery
    columns: tuple[SqlNamedColumn, ...] = ()
    comment: str | None = None
    temporary: bool = False
    if_not_exists: bool = False
    replace: bool = False
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class SqlRenameView(SqlStatement):
    name: Name
    new_name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class SqlAlterViewQuery(SqlStatement):
    name: Name
    query: SqlQuery
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class SqlDropView(SqlStatement):
    name: Name
    if_exists: bool = False
    temporary: bool = False


# --- functions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlResource(SqlNode):
    """``JAR 'path'``; ``kind`` is JAR, FILE or ARCHIVE."""

    kind: str
    path: str


@dataclass(frozen=True)
class SqlCreateFunction(SqlStatement):
    """``language`` is JAVA, SCALA, PYTHON, SQL or None. ``system`` is only with ``temporary``."""

    name: Name
    implementation: str
    language: str | None = None
    resources: tuple[SqlResource, ...] = ()
    options: tuple[SqlOption, ...] = ()
    temporary: bool = False
    system: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class SqlAlterFunction(SqlStatement):
    name: Name
    implementation: str
    language: str | None = None
    temporary: bool = False
    system: bool = False
    if_exists: bool = False


@dataclass(frozen=True)
class SqlDropFunction(SqlStatement):
    name: Name
    if_exists: bool = False
    temporary: bool = False
    system: bool = False


# --- databases, catalogs, models ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlCreateDatabase(SqlStatement):
    name: Name
    comment: str | None = None
    options: tuple[SqlOption, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class SqlAlterDatabase(SqlStatement):
    """Sets ``options`` or resets ``reset_keys``."""

    name: Name
    options: tuple[SqlOption, ...] = ()
    reset_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlDropDatabase(SqlStatement):
    """``cascade`` drops the objects in it too; without it a database that is not empty stays (RESTRICT)."""

    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class SqlCreateCatalog(SqlStatement):
    name: str
    comment: str | None = None
    options: tuple[SqlOption, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class SqlAlterCatalog(SqlStatement):
    """Sets ``options``, resets ``reset_keys`` or sets the comment."""

    name: str
    options: tuple[SqlOption, ...] = ()
    reset_keys: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True)
class SqlDropCatalog(SqlStatement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class SqlCreateModel(SqlStatement):
    name: Name
    inputs: tuple[ColumnDefinition, ...] = ()
    outputs: tuple[ColumnDefinition, ...] = ()
    comment: str | None = None
    options: tuple[SqlOption, ...] = ()
    query: SqlQuery | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class SqlAlterModel(SqlStatement):
    """Sets ``options``, resets ``reset_keys`` or renames."""

    name: Name
    options: tuple[SqlOption, ...] = ()
    reset_keys: tuple[str, ...] = ()
    new_name: Name | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class SqlDropModel(SqlStatement):
    name: Name
    if_exists: bool = False
    temporary: bool = False
