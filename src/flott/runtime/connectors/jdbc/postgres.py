"""PostgreSQL by psycopg 3. Task and driver side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from flott._extras import require
from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation
from flott.common.types import Row
from flott.datastream.connectors.jdbc._address import Address, Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.errors import ProgramError
from flott.runtime.connectors.jdbc.column_types import column_type
from flott.runtime.connectors.jdbc.placeholders import with_numbered_marks, with_percent_marks
from flott.runtime.connectors.jdbc.rows import to_datetime, to_json
from flott.runtime.connectors.jdbc.session import DatabaseColumn, DatabaseTable, Session, Trouble, Values
from flott.runtime.connectors.jdbc.statements import Grammar
from flott.runtime.connectors.jdbc.watchdog import WATCHDOG

#: What JDBC calls otherwise than libpq, and what only concerns JDBC.
_RENAMED = {"ApplicationName": "application_name"}
_IGNORED = {"reWriteBatchedInserts", "prepareThreshold", "stringtype", "loginTimeout", "socketTimeout", "tcpKeepAlive"}

#: So long may a network be without a sign of the server, whatever the statement.
_UNREACHABLE_SECONDS = 30
#: The server's own limit comes first, so that its answer says what has happened.
_GRACE_SECONDS = 5


class PostgresSession(Session):
    """A connection to PostgreSQL."""

    dialect = Dialect.POSTGRES
    grammar = Grammar('"', has_on_conflict=True)
    adapters: ClassVar = {Instant: to_datetime, Row: to_json, dict: to_json}

    def __init__(self, options: JdbcConnectionOptions):
        self._psycopg = require("psycopg", extra="postgres")
        self._limit_seconds = options.statement_timeout_seconds + min(_GRACE_SECONDS, options.statement_timeout_seconds)
        self._loading: set[str] = set()  # temporary tables of this connection
        parameters, schema = _parameters(options.address)
        hosts = options.address.hosts
        self._connection = self._psycopg.connect(
            **{
                "host": ",".join(host for host, _ in hosts),
                "port": ",".join(str(port) for _, port in hosts),
                "dbname": options.address.database,
                "user": options.get_user_name(),
                "password": options.get_password(),
                "connect_timeout": options.connect_timeout_seconds,
                "application_name": "flott",
                "keepalives_idle": 15,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": _UNREACHABLE_SECONDS * 1000,
                **parameters,
            },
            autocommit=True,
        )
        limit_ms = options.statement_timeout_seconds * 1000
        settings = f"SET statement_timeout = {limit_ms}; SET lock_timeout = {max(1000, limit_ms // 2)}"
        if schema is not None:
            settings += f"; SET search_path TO {self.grammar.quote(schema)}"
        self.run(settings)

    def _limit(self) -> Any:
        return WATCHDOG.limit(self._connection.fileno(), self._limit_seconds)

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self._limit(), self._connection.cursor() as cursor:
            cursor.execute(with_percent_marks(sql) if values else sql, values or None)
            return list(cursor.fetchall())

    def run(self, sql: str, values: Values = ()) -> int:
        with self._limit(), self._connection.cursor() as cursor:
            cursor.execute(with_percent_marks(sql) if values else sql, values or None)
            return int(cursor.rowcount)

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        with self._limit(), self._connection.cursor() as cursor:
            cursor.executemany(with_percent_marks(sql), self.adapted(rows))

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        # Text, not binary: the binary form cuts integers that are too large for their column without an error.
        statement = f"COPY {table} ({self.grammar.listed(columns)}) FROM STDIN"
        with self._limit(), self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            write = copy.write_row
            for row in self.adapted(rows):
                write(row)

    def upsert(self, table: DatabaseTable, columns: Sequence[str], key: Sequence[str], rows: Sequence[Values]) -> None:
        """Copy the rows into a temporary table and merge them from there: twice as fast as statements with values."""
        loading = f"flott_load_{abs(hash((table.name, *columns)))}"
        if loading not in self._loading:
            listed = self.grammar.listed(columns)
            self.run(
                f"CREATE TEMPORARY TABLE IF NOT EXISTS {loading} ON COMMIT DELETE ROWS AS"
                f" SELECT {listed} FROM {table.name} WITH NO DATA"
            )
        self.load(loading, columns, rows)
        self.run(self.grammar.move(table.name, loading, columns, key))
        self._loading.add(loading)

    def stream(self, sql: str, values: Values, batch: int) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
        with self.transaction():
            self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            with self._connection.cursor(name="flott_read") as cursor:
                with self._limit():
                    cursor.execute(with_percent_marks(sql) if values else sql, values or None)
                names = [column.name for column in cursor.description]
                while True:
                    with self._limit():
                        rows = cursor.fetchmany(batch)
                    if not rows:
                        return
                    yield names, rows

    # -- prepared transactions

    def prepared_refusal(self) -> str | None:
        if int(self.rows("SHOW max_prepared_transactions")[0][0]) > 0:
            return None
        return (
            "The server allows no prepared transactions: max_prepared_transactions is 0. Set it to at least twice the"
            " parallelism in postgresql.conf and restart the server, or commit by staging, which needs no setting."
        )

    def begin_prepared(self, gid: str) -> None:
        self.begin()

    def prepare(self, gid: str) -> None:
        self.run(f"PREPARE TRANSACTION '{gid}'")

    def commit_prepared(self, gid: str) -> bool:
        return self._end_prepared("COMMIT", gid)

    def rollback_prepared(self, gid: str) -> bool:
        return self._end_prepared("ROLLBACK", gid)

    def _end_prepared(self, word: str, gid: str) -> bool:
        try:
            self.run(f"{word} PREPARED '{gid}'")
            return True
        except self._psycopg.errors.UndefinedObject:
            return False

    def prepared(self, prefix: str) -> list[str]:
        query = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, ?)"
        return [gid for (gid,) in self.rows(query, (prefix,))]

    # -- the catalog

    def table(self, name: str) -> DatabaseTable | None:
        quoted = ".".join(map(self.grammar.quote, name.split(".")))
        for spelling in (quoted, name):
            with suppress(self._psycopg.errors.SyntaxError, self._psycopg.errors.InvalidName):
                if (oid := self.rows("SELECT to_regclass(?)::oid::bigint", (spelling,))[0][0]) is not None:
                    return self._describe(oid)
        return None

    def _describe(self, oid: int) -> DatabaseTable:
        schema, plain = self.rows(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ?",
            (oid,),
        )[0]
        columns = self.rows(
            "SELECT attname, format_type(atttypid, atttypmod), NOT attnotnull,"
            " attgenerated = '' AND attidentity <> 'a' FROM pg_attribute"
            " WHERE attrelid = ? AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (oid,),
        )
        keys = self.rows(
            "SELECT array_agg(a.attname::text) FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int[])"
            " WITH ORDINALITY AS k(attnum, position)"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
            " WHERE i.indrelid = ? AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL"
            " AND k.position <= i.indnkeyatts GROUP BY i.indexrelid",
            (oid,),
        )
        prefix = f"{self.grammar.quote(schema)}."
        return DatabaseTable(
            f"{prefix}{self.grammar.quote(plain)}",
            prefix,
            plain,
            tuple(DatabaseColumn(*column) for column in columns),
            tuple(frozenset(names) for (names,) in keys),
        )

    def check_statement(self, sql: str, marks: int) -> None:
        with self._limit():
            checked = self._connection.pgconn.prepare(b"", with_numbered_marks(sql).encode())
        if checked.error_message:
            raise self._psycopg.errors.error_from_result(checked)

    def column_type(self, declared: TypeInformation, in_key: bool) -> str | None:
        return column_type(Dialect.POSTGRES, declared, in_key)

    # -- the rest

    def trouble(self, error: Exception) -> Trouble:
        return trouble_of(self._psycopg, error)

    def close(self) -> None:
        self._connection.close()


def trouble_of(psycopg: Any, error: Exception) -> Trouble:
    """Return what an exception of psycopg's means. It has no SQLSTATE if it did not come from the server."""
    state = getattr(error, "sqlstate", None) or ""
    if state[:2] in ("22", "23"):
        return Trouble.DATA
    if state[:2] == "28" or state == "3D000":
        return Trouble.REFUSED
    if state in ("42P01", "42703", "3F000"):
        return Trouble.SCHEMA
    if state in ("53100", "53200"):
        return Trouble.FULL
    if state == "57014":
        return Trouble.SLOW
    if state in ("40001", "40P01", "55P03", "53300"):
        return Trouble.BUSY
    if state[:2] in ("08", "57"):
        return Trouble.LOST
    if not state and isinstance(error, psycopg.DataError | TypeError | ValueError):
        return Trouble.DATA  # a value that psycopg cannot send
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError):
        text = str(error)
        if "authentication failed" in text or "no password supplied" in text or "pg_hba.conf" in text:
            return Trouble.REFUSED
        if "does not exist" in text:
            return Trouble.REFUSED
        return Trouble.LOST
    return Trouble.OTHER


def _parameters(address: Address) -> tuple[dict[str, str], str | None]:
    """Return the parameters of a URL for libpq, and the schema to begin with."""
    parameters = {_RENAMED.get(name, name): value for name, value in address.parameters if name not in _IGNORED}
    schema = parameters.pop("currentSchema", None)
    seconds = parameters.pop("connectTimeout", None)
    if seconds is not None:
        parameters["connect_timeout"] = seconds
    if parameters.pop("ssl", "false") == "true":
        parameters.setdefault("sslmode", "verify-full")
    known = {option.keyword.decode() for option in require("psycopg", extra="postgres").pq.Conninfo.get_defaults()}
    if unknown := sorted(set(parameters) - known):
        raise ProgramError(
            f"The URL of {address} has the parameter {unknown[0]!r}, which libpq does not know. Leave it out, or use"
            " one of libpq, such as sslmode or sslrootcert."
        )
    return parameters, schema
