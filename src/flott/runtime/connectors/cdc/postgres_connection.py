"""Connects to PostgreSQL for change data capture, bounds the time of requests, and words errors. Both sides."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.postgres_cdc import PostgresSource
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool

#: Connections of this process, by source.
CONNECTIONS: ClientPool[Any] = ClientPool("PostgreSQL")

#: What a server says about a login that cannot succeed later either. libpq passes no code for these.
_REFUSED = (
    "password authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "certificate verify failed",
)
_UNKNOWN = ('role "', 'database "', "is not permitted to log in", "root certificate file")


def connect(source: PostgresSource, task: bool = False) -> Any:
    """Return a new connection. Values arrive in one form, whatever the settings of the server and the role. A task may
    take long between two parts of an answer, so the server does not bound its statements."""
    psycopg = require("psycopg", extra="postgres")
    settings = {
        "TimeZone": source.time_zone,
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "extra_float_digits": "1",
        "bytea_output": "hex",
        "statement_timeout": "0" if task else str(source.request_timeout_ms),
        "idle_in_transaction_session_timeout": "0",
    }
    facts: dict[str, Any] = {
        "host": source.hostname,
        "port": source.port,
        "dbname": source.database,
        "user": source.username,
        "password": source.password,
        "connect_timeout": max(2, source.connect_timeout_ms // 1000),
        "application_name": application_name(source),
        "client_encoding": "UTF8",
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }
    with wording(source, "the connection failed"):
        # Nothing is prepared: FETCH has other columns for each table, and a pooler may change the session.
        return psycopg.connect(**{**facts, **source.properties}, autocommit=True, prepare_threshold=None)


def application_name(source: PostgresSource) -> str:
    """Return the name under which the server lists the connections of this source."""
    return f"flott-cdc-{source.slot}"[:63]


@contextmanager
def borrowed(source: PostgresSource, task: bool = False) -> Iterator[Any]:
    """Lend a connection of this process. A server that was restarted has closed it: then a new one is made."""
    login = (source.hostname, source.port, source.database, source.username, source.password, source.properties)
    key = (*login, source.slot, source.time_zone, source.request_timeout_ms, task)
    connection = CONNECTIONS.take(key, lambda: connect(source, task))
    if connection.closed or not _answers(connection, source):
        with suppress(Exception):
            connection.close()
        connection = connect(source, task)
    try:
        yield connection
    except BaseException:
        with suppress(Exception):
            connection.close()
        raise
    CONNECTIONS.give_back(key, connection, lambda kept: kept.close())


@contextmanager
def session(source: PostgresSource, what: str, limit_ms: int) -> Iterator[Any]:
    """Lend a connection for a block on the driver, whose time is bounded and whose errors are worded."""
    with wording(source, what), borrowed(source) as connection, time_limit(connection, limit_ms):
        yield connection


def _answers(connection: Any, source: PostgresSource) -> bool:
    try:
        with time_limit(connection, source.request_timeout_ms):
            connection.execute("SELECT 1")
        return True
    except Exception:
        return False


@contextmanager
def time_limit(connection: Any, limit_ms: int) -> Iterator[None]:
    """Cut the connection if a block takes too long, so that a server that went silent is noticed."""
    cut = threading.Timer(limit_ms / 1000 + 1, _cut, (connection,))  # the server's own time-out comes first
    cut.daemon = True
    cut.start()
    try:
        yield
    finally:
        cut.cancel()


def _cut(connection: Any) -> None:
    with suppress(OSError, Exception), socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
        wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def wording(source: PostgresSource, what: str) -> Iterator[None]:
    """Turn errors of the client into Flott's."""
    psycopg = require("psycopg", extra="postgres")
    try:
        yield
    except FlottError:
        raise
    except psycopg.Error as error:
        raise worded(source, what, error) from None


def worded(source: PostgresSource, what: str, error: Any) -> FlottError:
    """Return the error that a user sees. Never contains the password."""
    psycopg = require("psycopg", extra="postgres")
    text = " ".join(without_secrets(str(error), source.password, *source.properties.secrets()).split())
    place = f"PostgreSQL at {source.hostname}:{source.port}, database {source.database!r}: {what}"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ProgramError(
            f"{place}: {text}. The role {source.username!r} needs LOGIN and REPLICATION (ALTER ROLE … REPLICATION),"
            " SELECT on the tables, and, to create the publication, CREATE on the database and to own the tables."
        )
    if isinstance(error, psycopg.errors.QueryCanceled):
        return ConnectorError(
            f"{place}: the server took longer than {source.request_timeout_ms} ms. Set request_timeout() of the"
            " builder, or look for open transactions in pg_stat_activity."
        )
    if error.sqlstate is None and (
        any(said in text for said in _REFUSED) or (" does not exist" in text and any(w in text for w in _UNKNOWN))
    ):
        return ProgramError(f"{place}: {text}. Check username(), password(), database() and the TLS properties.")
    return ConnectorError(f"{place}: {text}")
