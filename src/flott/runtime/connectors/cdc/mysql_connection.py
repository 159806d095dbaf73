"""Connects to MySQL and MariaDB for change data capture, and words errors. Both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.base import Json
from flott.datastream.connectors.cdc import StartupMode
from flott.datastream.connectors.mysql_cdc import MySqlSource
from flott.errors import ConnectorError, FlottError, ProgramError, StateError
from flott.runtime.connectors.client_pool import ClientPool

#: Connections of this process, by source.
CONNECTIONS: ClientPool[Any] = ClientPool("MySQL")

_ACCESS_DENIED = (1044, 1045, 1698, 2059)
_NO_PRIVILEGE = (1142, 1143, 1227)
_LOG_GONE = (1236,)
_SYNTAX = (1064,)

_POSITION_BITS = 40
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")


def settings_of(source: MySqlSource) -> dict[str, Any]:
    """Return the arguments of PyMySQL."""
    seconds = max(1, source.request_timeout_ms // 1000)
    verify = {
        name: value.lower() in ("true", "1", "yes")
        for name, value in source.properties.items()
        if name.startswith("ssl_verify")
    }
    return {
        "host": source.hostname,
        "port": source.port,
        "user": source.username,
        "password": source.password,
        "charset": "utf8mb4",
        "connect_timeout": max(1, source.connect_timeout_ms // 1000),
        "read_timeout": seconds,
        "write_timeout": seconds,
        **source.properties,
        **verify,
    }


@cache
def connection_class() -> Any:
    """Return PyMySQL's connection, with one TLS context for all connections that have the same settings. To make one
    takes 100 ms, because the certificates that the machine trusts are read, and the log needs a connection per epoch.
    """
    connections = require("pymysql.connections", extra="mysql-cdc")
    contexts: dict[tuple[tuple[str, Any], ...], Any] = {}

    class SharingContexts(connections.Connection):  # type: ignore[misc, name-defined]
        def _create_ssl_ctx(self, sslp: Any) -> Any:
            key = tuple(sorted(sslp.items())) if isinstance(sslp, dict) else ()
            if key not in contexts:
                contexts[key] = super()._create_ssl_ctx(sslp)
            return contexts[key]

    return SharingContexts


def connect(source: MySqlSource) -> Any:
    """Return a new connection. Times arrive in UTC."""
    with wording(source, "the connection failed"):
        return connection_class()(
            **settings_of(source), autocommit=True, init_command="SET SESSION time_zone = '+00:00', sql_mode = ''"
        )


@contextmanager
def session(source: MySqlSource, what: str) -> Iterator[Any]:
    """Lend a connection of this process for a block whose errors are worded."""
    key = (source.hostname, source.port, source.username, source.password, source.properties, source.request_timeout_ms)
    with wording(source, what):
        connection = CONNECTIONS.take(key, lambda: connect(source))
        try:
            connection.ping(reconnect=False)
        except Exception:  # the server was restarted, or has closed an idle connection
            with suppress(Exception):
                connection.close()
            connection = connect(source)
        try:
            yield connection
        except BaseException:
            with suppress(Exception):
                connection.close()
            raise
        CONNECTIONS.give_back(key, connection, lambda kept: kept.close())


def rows_of(connection: Any, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        return list(cursor.fetchall())


@contextmanager
def wording(source: MySqlSource, what: str) -> Iterator[None]:
    """Turn errors of the client into Flott's."""
    pymysql = require("pymysql", extra="mysql-cdc")
    try:
        yield
    except FlottError:
        raise
    except (pymysql.Error, OSError) as error:
        raise worded(source, what, error) from None


def worded(source: MySqlSource, what: str, error: Any) -> FlottError:
    """Return the error that a user sees. Never contains the password."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = " ".join(without_secrets(str(error), source.password, *source.properties.secrets()).split())
    place = f"MySQL at {source.hostname}:{source.port}: {what}"
    if code in _ACCESS_DENIED:
        return ProgramError(f"{place}: {text}. Check username(), password() and the TLS properties.")
    if code in _NO_PRIVILEGE:
        return ProgramError(
            f"{place}: {text}. The user {source.username!r} needs SELECT on the tables, REPLICATION SLAVE, REPLICATION"
            " CLIENT (BINLOG MONITOR on MariaDB), and RELOAD on MySQL."
        )
    if code in _LOG_GONE:
        return StateError(
            f"{place}: {text}. The server does not have this part of its binary log any more. Start the job without"
            " its checkpoints, so that it takes a new snapshot, and keep binary logs longer (binlog_expire_logs_seconds"
            " or expire_logs_days)."
        )
    return ConnectorError(f"{place}: {text}")


# ---------------------------------------------------------------------------------------------------------------------
# Positions
# ---------------------------------------------------------------------------------------------------------------------


def ordinal(file: str, position: int) -> int:
    """Return a position in the log as a number that grows with the log. Files are numbered.

    >>> ordinal("binlog.000002", 4) > ordinal("binlog.000001", 10**9)
    True
    """
    return (int(file.rpartition(".")[2]) << _POSITION_BITS) + position


@dataclass(frozen=True)
class SeenUpTo:
    """What rows contain that were read at a position: all transactions before it."""

    limit: int

    @staticmethod
    def parse(text: str) -> SeenUpTo:
        """Read the text that the reader of a chunk reported.

        >>> SeenUpTo.parse("binlog.000001:300").sees(ordinal("binlog.000001", 300))
        True
        """
        file, _, position = text.rpartition(":")
        return SeenUpTo(ordinal(file, int(position)))

    def sees(self, transaction: int) -> bool:
        return transaction <= self.limit


# ---------------------------------------------------------------------------------------------------------------------
# The server
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MySqlTable:
    """A table of the source."""

    database: str
    name: str
    key: str | None  #: the column of its primary key, if that is one integer: the snapshot is cut by it

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def quoted_name(self) -> str:
        return f"{quoted(self.database)}.{quoted(self.name)}"


def quoted(name: str) -> str:
    """Return an identifier for a statement."""
    return "`" + name.replace("`", "``") + "`"


def is_mariadb(connection: Any) -> bool:
    """Return which of the two families the server belongs to."""
    return "mariadb" in str(rows_of(connection, "SELECT VERSION()")[0][0]).lower()


def check_server(connection: Any, source: MySqlSource) -> None:
    """Raise ProgramError if the server does not log what is needed."""
    if source.startup.mode is StartupMode.SNAPSHOT:
        return
    found = dict(
        rows_of(
            connection,
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN"
            " ('log_bin', 'binlog_format', 'binlog_row_image', 'binlog_row_metadata')",
        )
    )
    expected = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
    wrong = {
        name: found.get(name, "(unknown)") for name, value in expected.items() if found.get(name, "").upper() != value
    }
    if wrong:
        shown = ", ".join(f"{name}={value}" for name, value in wrong.items())
        needed = ", ".join(f"{name}={expected[name]}" for name in wrong)
        raise ProgramError(
            f"The server at {source.hostname}:{source.port} has {shown}, but change data capture needs {needed}. Set it"
            " in the server's configuration. (binlog_row_metadata exists from MySQL 8.0.1 and MariaDB 10.5 on.)"
        )


def find_tables(connection: Any, source: MySqlSource) -> list[MySqlTable]:
    """Return the tables of the source. Raises ProgramError if a pattern matches none."""
    listed = rows_of(
        connection,
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME FROM information_schema.TABLES t WHERE t.TABLE_TYPE = 'BASE TABLE'"
        " AND t.TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') ORDER BY 1, 2",
    )
    found = [(database, table) for database, table in listed if source.captures(database, table)]
    for pattern in source.tables:
        if not any(re.fullmatch(pattern, f"{database}.{table}") for database, table in found):
            raise ProgramError(
                f"table_list: {pattern!r} matches no table"
                f"{' in the databases ' + ', '.join(source.databases) if source.databases else ''}. Names have the form"
                f" database.table; there are {', '.join(f'{d}.{t}' for d, t in listed[:10]) or 'none that is visible'}."
            )
    return [MySqlTable(database, table, _key(connection, database, table)) for database, table in found]


def _key(connection: Any, database: str, table: str) -> str | None:
    columns = rows_of(
        connection,
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " AND COLUMN_KEY = 'PRI'",
        database,
        table,
    )
    return columns[0][0] if len(columns) == 1 and columns[0][1] in _INTEGERS else None


def server_of(connection: Any) -> str:
    """Return what identifies the server: positions of another mean nothing here."""
    found = dict(rows_of(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_id')"))
    return str(found.get("server_uuid") or found.get("server_id"))


def log_end(connection: Any) -> tuple[str, int]:
    """Return the end of the binary log."""
    pymysql = require("pymysql", extra="mysql-cdc")
    try:
        found = rows_of(connection, "SHOW MASTER STATUS")
    except pymysql.err.MySQLError as error:
        if not error.args or error.args[0] not in _SYNTAX:
            raise
        found = rows_of(connection, "SHOW BINARY LOG STATUS")  # MySQL 8.4
    return str(found[0][0]), int(found[0][1])


def log_files(connection: Any) -> list[str]:
    """Return the files of the binary log, the oldest first."""
    return [str(row[0]) for row in rows_of(connection, "SHOW BINARY LOGS")]


def position_of(value: Json) -> tuple[str, int]:
    """Read a position from a plan or a checkpoint."""
    return str(value[0]), int(value[1])
