"""MySQL and MariaDB by PyMySQL. Task and driver side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ClassVar

from flott._extras import require
from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation
from flott.common.types import Row
from flott.datastream.connectors.jdbc._address import Address, Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.errors import ProgramError
from flott.runtime.connectors.jdbc.column_types import column_type
from flott.runtime.connectors.jdbc.placeholders import with_percent_marks, without_doubled_marks
from flott.runtime.connectors.jdbc.rows import to_datetime, to_json
from flott.runtime.connectors.jdbc.session import DatabaseColumn, DatabaseTable, Session, Trouble, Values
from flott.runtime.connectors.jdbc.statements import Grammar

_FORMAT = 70_776  #: marks XA transactions as Flott's
_UNKNOWN_XID = 1397
_IGNORED = {
    "allowPublicKeyRetrieval", "autoReconnect", "cachePrepStmts", "characterEncoding", "rewriteBatchedStatements",
    "serverTimezone", "useCompression", "useServerPrepStmts", "useUnicode", "zeroDateTimeBehavior",
}  # fmt: skip

_DATA = {1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452, 1690, 3819, 4025}
_REFUSED = {1044, 1045, 1049, 1130, 1142, 1227, 1698}
_SCHEMA = {1054, 1146}
_FULL = {1021, 1114, 3675}
_BUSY = {1040, 1203, 1205, 1213, 1399, 1440}
_SLOW = {1969, 3024}
_LOST = {1053, 1077, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 2002, 2003, 2006, 2013, 2055, 4031}


def _utc(value: datetime) -> datetime:
    """Return a time without a zone, which MySQL takes for one in the zone of the session: UTC."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


class MySqlSession(Session):
    """A connection to MySQL or MariaDB."""

    dialect = Dialect.MYSQL
    grammar = Grammar("`", has_on_conflict=False)
    adapters: ClassVar = {
        Instant: lambda value: _utc(to_datetime(value)),
        datetime: _utc,
        Row: to_json,
        dict: to_json,
        list: to_json,
    }
    closes_after_prepare = True

    def __init__(self, options: JdbcConnectionOptions):
        self._pymysql = require("pymysql", extra="mysql")
        host, port = options.address.hosts[0]
        limit = options.statement_timeout_seconds
        self._connection = self._pymysql.connect(
            host=host,
            port=port,
            user=options.get_user_name(),
            password=options.get_password() or "",
            database=options.address.database,
            autocommit=True,
            charset="utf8mb4",
            connect_timeout=options.connect_timeout_seconds,
            # A lock that is waited for is reported by the server before the client gives up.
            read_timeout=limit + 5,
            write_timeout=limit + 5,
            init_command=(
                "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), time_zone = '+00:00',"
                f" innodb_lock_wait_timeout = {max(1, limit // 2)}"
            ),
            **_parameters(options.address),
        )

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(with_percent_marks(sql) if values else sql, tuple(values) or None)
            return list(cursor.fetchall())

    def run(self, sql: str, values: Values = ()) -> int:
        with self._connection.cursor() as cursor:
            return int(cursor.execute(with_percent_marks(sql) if values else sql, tuple(values) or None))

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        # The driver puts the rows of an INSERT … VALUES into few statements by itself.
        with self._connection.cursor() as cursor:
            cursor.executemany(with_percent_marks(sql), list(map(tuple, self.adapted(rows))))

    def stream(self, sql: str, values: Values, batch: int) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
        with self._connection.cursor(self._pymysql.cursors.SSCursor) as cursor:
            cursor.execute(with_percent_marks(sql) if values else sql, tuple(values) or None)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(batch):
                yield names, list(rows)

    # -- prepared transactions: XA

    def prepared_refusal(self) -> str | None:
        try:
            self.rows("XA RECOVER")
            return None
        except self._pymysql.err.MySQLError as error:
            return (
                f"The server refuses XA RECOVER, which finds prepared transactions ({error.args[-1]}). Grant the user"
                " XA_RECOVER_ADMIN, or commit by staging, which needs no grant."
            )

    def begin_prepared(self, gid: str) -> None:
        self.run(f"XA START {_xid(gid)}")

    def prepare(self, gid: str) -> None:
        self.run(f"XA END {_xid(gid)}")
        self.run(f"XA PREPARE {_xid(gid)}")

    def commit_prepared(self, gid: str) -> bool:
        return self._end_prepared("COMMIT", gid)

    def rollback_prepared(self, gid: str) -> bool:
        return self._end_prepared("ROLLBACK", gid)

    def _end_prepared(self, word: str, gid: str) -> bool:
        try:
            self.run(f"XA {word} {_xid(gid)}")
            return True
        except self._pymysql.err.MySQLError as error:
            if error.args[0] != _UNKNOWN_XID:
                raise
        if gid in self.prepared(gid):
            # The server has not noticed yet that the connection which prepared it is closed.
            raise self._pymysql.err.OperationalError(1399, f"the transaction {gid} belongs to another connection")
        return False

    def prepared(self, prefix: str) -> list[str]:
        found = [data.decode() if isinstance(data, bytes) else data for *_, data in self._recoverable()]
        return [gid for gid in found if gid.startswith(prefix)]

    def _recoverable(self) -> list[tuple[Any, ...]]:
        return [row for row in self.rows("XA RECOVER") if row[0] == _FORMAT]

    # -- the catalog

    def table(self, name: str) -> DatabaseTable | None:
        schema, _, plain = name.rpartition(".")
        where = "table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?"
        found = self.rows(
            "SELECT column_name, column_type, is_nullable, extra, character_set_name, collation_name"
            f" FROM information_schema.columns WHERE {where} ORDER BY ordinal_position",
            (schema, plain),
        )
        if not found:
            return None
        keys = self.rows(
            f"SELECT index_name, column_name FROM information_schema.statistics WHERE {where} AND non_unique = 0",
            (schema, plain),
        )
        indexes: dict[str, set[str]] = {}
        for index, column in keys:
            indexes.setdefault(index, set()).add(column)
        prefix = f"{self.grammar.quote(schema)}." if schema else ""
        return DatabaseTable(
            f"{prefix}{self.grammar.quote(plain)}",
            prefix,
            plain,
            tuple(_column(*facts) for facts in found),
            tuple(map(frozenset, indexes.values())),
        )

    def check_statement(self, sql: str, marks: int) -> None:
        self.run("PREPARE flott_check FROM ?", (without_doubled_marks(sql),))
        self.run("DEALLOCATE PREPARE flott_check")

    def column_type(self, declared: TypeInformation, in_key: bool) -> str | None:
        return column_type(Dialect.MYSQL, declared, in_key)

    # -- the rest

    def trouble(self, error: Exception) -> Trouble:
        return trouble_of(error)

    def close(self) -> None:
        with suppress(Exception):
            self._connection.close()


def trouble_of(error: Exception) -> Trouble:
    """Return what an exception of PyMySQL's means."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    for codes, trouble in (
        (_DATA, Trouble.DATA),
        (_REFUSED, Trouble.REFUSED),
        (_SCHEMA, Trouble.SCHEMA),
        (_FULL, Trouble.FULL),
        (_BUSY, Trouble.BUSY),
        (_SLOW, Trouble.SLOW),
        (_LOST, Trouble.LOST),
    ):
        if code in codes:
            return trouble
    if isinstance(error, OSError) or type(error).__name__ == "InterfaceError":
        return Trouble.LOST
    if isinstance(error, TypeError | ValueError) or type(error).__name__ in ("DataError", "IntegrityError"):
        return Trouble.DATA
    return Trouble.OTHER


def _column(
    name: str, kind: Any, nullable: str, extra: str, charset: str | None, collation: str | None
) -> DatabaseColumn:
    text = kind.decode() if isinstance(kind, bytes) else kind
    if charset and collation:
        text += f" CHARACTER SET {charset} COLLATE {collation}"
    return DatabaseColumn(name, text, nullable == "YES", "GENERATED" not in (extra or "").upper())


def _xid(gid: str) -> str:
    return f"'{gid}','',{_FORMAT}"


def _parameters(address: Address) -> dict[str, Any]:
    """Return the parameters of a URL for PyMySQL."""
    found = {name: value for name, value in address.parameters if name not in _IGNORED}
    result: dict[str, Any] = {}
    for name in ("connectTimeout", "socketTimeout"):
        found.pop(name, None)  # the builder's time-outs are what counts
    mode = found.pop("sslMode", "REQUIRED" if found.pop("useSSL", "false") == "true" else "").upper()
    if (authority := found.pop("sslCa", found.pop("serverSslCert", None))) is not None:
        result |= {"ssl_ca": authority, "ssl_verify_cert": True, "ssl_verify_identity": mode == "VERIFY_IDENTITY"}
    elif mode in ("VERIFY_CA", "VERIFY_IDENTITY", "VERIFY-CA", "VERIFY-FULL"):
        raise ProgramError(f"The URL of {address} has sslMode={mode} without sslCa, the file of the authority.")
    elif mode in ("REQUIRED", "TRUST"):
        result["ssl"] = {"check_hostname": False}
    if found:
        raise ProgramError(
            f"The URL of {address} has the parameter {min(found)!r}, which is unknown. Leave it out; known are sslMode"
            " and sslCa."
        )
    return result
