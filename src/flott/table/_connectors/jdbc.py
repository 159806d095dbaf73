"""jdbc: tables of PostgreSQL, MySQL, MariaDB and SQLite: read once, looked up by key, appended to or changed by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import Sink, SinkWriter, Source, SourceReader, WriterContext
from flott.datastream.connectors.jdbc._address import Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions, JdbcExecutionOptions
from flott.datastream.connectors.jdbc._source import JdbcSource
from flott.datastream.connectors.jdbc._table_sink import JdbcTableSink
from flott.errors import ProgramError
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.table_source import (
    ChangelogMode,
    ConnectorTable,
    LookupSource,
    TableConnector,
    TableSink,
    TableSource,
)
from flott.table._types.logical import LogicalType

_URL = (
    key("url").string_type().no_default_value()
    .with_description("The database: jdbc:postgresql://host:5432/database, jdbc:mysql://…, jdbc:sqlite:/path.")
)  # fmt: skip
_TABLE = key("table-name").string_type().no_default_value().with_description("The table in the database.")
_USER = key("username").string_type().no_default_value().with_description("Who connects.")
_PASSWORD = key("password").string_type().no_default_value().with_description("The password. It is never shown.")
_DRIVER = (
    key("driver").string_type().no_default_value()
    .with_description("Accepted and ignored: the URL says which driver is used.")
)  # fmt: skip
_CONNECT = (
    key("connection.max-retry-timeout").duration_type().default_value(60_000).at_least(1000)
    .with_description("How long a statement may take.")
)  # fmt: skip
_COLUMN = (
    key("scan.partition.column").string_type().no_default_value()
    .with_description("A column of numbers, dates or times by whose ranges the table is read in parallel.")
)  # fmt: skip
_PARTITIONS = key("scan.partition.num").int_type().no_default_value().at_least(1).with_description("How many ranges.")
_LOWER = (
    key("scan.partition.lower-bound").long_type().no_default_value()
    .with_description("Where the values of the partition column begin. It excludes nothing.")
)  # fmt: skip
_UPPER = (
    key("scan.partition.upper-bound").long_type().no_default_value()
    .with_description("Where they end. It excludes nothing.")
)  # fmt: skip
_FETCH = (
    key("scan.fetch-size").int_type().default_value(0).at_least(0)
    .with_description("How many rows are fetched at a time; 0: 5000.")
)  # fmt: skip
_AUTO_COMMIT = (
    key("scan.auto-commit").boolean_type().default_value(True).with_description("Accepted and ignored.")
)  # fmt: skip
_CACHE = (
    key("lookup.cache").string_type().default_value("NONE")
    .with_description("Whether rows that were looked up are kept: NONE or PARTIAL.")
)  # fmt: skip
_CACHE_ROWS = (
    key("lookup.partial-cache.max-rows").long_type().no_default_value().with_fallback_keys("lookup.cache.max-rows")
    .with_description("How many keys are kept; the oldest go first.")
)  # fmt: skip
_CACHE_AGE = (
    key("lookup.partial-cache.expire-after-write").duration_type().no_default_value()
    .with_fallback_keys("lookup.cache.ttl")
    .with_description("How long a key is kept.")
)  # fmt: skip
_CACHE_ACCESS = (
    key("lookup.partial-cache.expire-after-access").duration_type().no_default_value()
    .with_description("How long a key is kept that is not asked for.")
)  # fmt: skip
_CACHE_MISSING = (
    key("lookup.partial-cache.cache-missing-key").boolean_type().default_value(True)
    .with_fallback_keys("lookup.cache.caching-missing-key")
    .with_description("Whether it is kept that a key has no row.")
)  # fmt: skip
_LOOKUP_RETRIES = (
    key("lookup.max-retries").int_type().default_value(3).at_least(0)
    .with_description("How often a lookup is tried again after a lost connection.")
)  # fmt: skip
_FLUSH_ROWS = (
    key("sink.buffer-flush.max-rows").int_type().default_value(20_000).at_least(0)
    .with_description("How many rows are in a statement at most.")
)  # fmt: skip
_FLUSH_INTERVAL = (
    key("sink.buffer-flush.interval").duration_type().default_value(1000)
    .with_description("Accepted and ignored: rows are written when their epoch ends at the latest.")
)  # fmt: skip
_SINK_RETRIES = (
    key("sink.max-retries").int_type().default_value(3).at_least(0)
    .with_description("How often rows are written again after a lost connection.")
)  # fmt: skip
_PARALLELISM = (
    key("sink.parallelism").int_type().no_default_value().at_least(1).with_description("How many subtasks write.")
)  # fmt: skip

OPTIONS = (
    _URL, _TABLE, _USER, _PASSWORD, _DRIVER, _CONNECT, _COLUMN, _PARTITIONS, _LOWER, _UPPER, _FETCH, _AUTO_COMMIT,
    _CACHE, _CACHE_ROWS, _CACHE_AGE, _CACHE_ACCESS, _CACHE_MISSING, _LOOKUP_RETRIES, _FLUSH_ROWS, _FLUSH_INTERVAL,
    _SINK_RETRIES, _PARALLELISM,
)  # fmt: skip

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True)
class TableJdbcSource(JdbcSource):
    """Reads a table as columns."""

    names: tuple[str, ...] = ()
    types: tuple[LogicalType, ...] = ()

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.columns.jdbc_columns import TableJdbcReader

        return TableJdbcReader(self)


@dataclass(frozen=True)
class TableJdbcSink(JdbcTableSink):
    """Writes columns into a table."""

    takes_columns: ClassVar[bool] = True

    def validate_records(self, record_type: TypeInformation | None) -> None:
        super().validate_records(None)  # the columns are named, and their types are those of the database

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.columns.named_rows import NamedRowsWriter

        return NamedRowsWriter(self.columns, super().create_writer(context))


@dataclass(frozen=True)
class JdbcLookup:
    """How rows are looked up: what a task opens."""

    connection_options: JdbcConnectionOptions
    table: str
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    keys: tuple[str, ...]
    cached: bool = False
    cache_rows: int | None = None
    cache_ms: int | None = None
    idle_ms: int | None = None
    cache_missing: bool = True
    retries: int = field(default=3)

    def __call__(self) -> Callable[[Any], Any]:
        """Open a client; return what looks up the rows of keys."""
        from flott.runtime.connectors.columns.jdbc_columns import JdbcLookupClient

        return JdbcLookupClient(self).lookup


def quoted_name(dialect: Dialect, name: str) -> str:
    """Return the name of a column for a statement.

    PostgreSQL takes a name without quotes in lower case, so one with capitals is left without, as Flink leaves it.

    >>> quoted_name(Dialect.POSTGRES, "Id"), quoted_name(Dialect.MYSQL, "order"), quoted_name(Dialect.SQLITE, "My id")
    ('Id', '`order`', '"My id"')
    """
    if dialect is Dialect.MYSQL:
        return "`" + name.replace("`", "``") + "`"
    capitals = dialect is Dialect.POSTGRES and name != name.lower() and _PLAIN_NAME.fullmatch(name.lower())
    return name if capitals else '"' + name.replace('"', '""') + '"'


def _connection(options: TableOptions) -> JdbcConnectionOptions:
    return JdbcConnectionOptions(
        options.required(_URL),
        options.get(_USER),
        options.get(_PASSWORD),
        statement_timeout_seconds=options.get(_CONNECT) // 1000,
    )


def _select(connection: JdbcConnectionOptions, table: str, names: Sequence[str]) -> str:
    columns = ", ".join(quoted_name(connection.address.dialect, name) for name in names)
    return f"SELECT {columns or '1'} FROM {table}"


def _source(table: ConnectorTable) -> TableSource:
    options = TableOptions(str(table.identifier), table.options)
    connection = _connection(options)
    column, partitions = options.get(_COLUMN), options.get(_PARTITIONS)
    lower, upper = options.get(_LOWER), options.get(_UPPER)
    given = [column, partitions, lower, upper]
    if any(each is not None for each in given) and any(each is None for each in given):
        raise ProgramError(
            f"Table {options.table}: 'scan.partition.column', '.num', '.lower-bound' and '.upper-bound' are set"
            " together, or none of them."
        )
    if column is not None and column not in table.names:
        raise ProgramError(f"Table {options.table}: 'scan.partition.column' names no column, found '{column}'.")

    def make(source: TableSource) -> Source[Any]:
        # The partition column is read too: the conditions of ranges stand outside the query.
        read = source.names if column is None or column in source.names else (*source.names, column)
        return TableJdbcSource(
            connection,
            _select(connection, options.required(_TABLE), read),
            None if column is None else quoted_name(connection.address.dialect, column),
            partitions or 1,
            None if lower is None else (lower, upper),
            None,
            options.get(_FETCH) or 5000,
            source.names,
            source.types,
        )

    return TableSource(table.names, table.types, make)


def _lookup(table: ConnectorTable) -> LookupSource:
    options = TableOptions(str(table.identifier), table.options)
    connection = _connection(options)
    legacy = "lookup.cache.max-rows" in table.options or "lookup.cache.ttl" in table.options
    cached = options.chosen(_CACHE, ("NONE", "PARTIAL")) == "PARTIAL" or legacy

    def make(keys: tuple[str, ...]) -> Callable[[], Callable[[Any], Any]]:
        return JdbcLookup(
            connection,
            options.required(_TABLE),
            table.names,
            table.types,
            keys,
            cached,
            options.get(_CACHE_ROWS),
            options.get(_CACHE_AGE),
            options.get(_CACHE_ACCESS),
            options.get(_CACHE_MISSING),
            options.get(_LOOKUP_RETRIES),
        )

    return LookupSource(table.names, table.types, make)


def _sink(table: ConnectorTable) -> TableSink:
    options = TableOptions(str(table.identifier), table.options)
    primary_key = table.table.schema.primary_key
    execution = JdbcExecutionOptions(options.get(_FLUSH_ROWS) or 20_000, 0, options.get(_SINK_RETRIES))
    sink = TableJdbcSink(_connection(options), options.required(_TABLE), table.names, primary_key, execution)

    def make() -> Sink[Any]:
        return sink

    return TableSink(
        table.names,
        table.types,
        make,
        accepts=ChangelogMode.UPSERT if primary_key else ChangelogMode.INSERT_ONLY,
        key=primary_key,
        parallelism=options.get(_PARALLELISM),
    )


CONNECTOR = TableConnector("jdbc", _source, _sink, _lookup, described(OPTIONS), (_URL.key, _TABLE.key))
