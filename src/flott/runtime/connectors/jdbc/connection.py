"""A borrowed session that is replaced when it is lost, and failures in Flott's words. Task and driver side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from flott.datastream.connectors.jdbc._address import Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.jdbc.rows import shown
from flott.runtime.connectors.jdbc.session import Session, Trouble, Values

R = TypeVar("R")

POOL: ClientPool[Session] = ClientPool("databases")

_RETRY_SECONDS = (0.1, 0.3, 1.0, 3.0)
_ADVICE = {
    Trouble.LOST: "Check that the server runs and can be reached.",
    Trouble.BUSY: "Another transaction holds a lock, or the server is overloaded; it is tried again with the restart.",
    Trouble.SLOW: "Raise with_statement_timeout_seconds() of the connection options, or make epochs smaller.",
    Trouble.REFUSED: "Check the user, its password, its grants and the name of the database.",
    Trouble.SCHEMA: "Create what is missing, or change the program.",
    Trouble.DATA: "Repair the record or the table.",
    Trouble.FULL: "Make room on the server.",
    Trouble.OTHER: "",
}


def open_session(options: JdbcConnectionOptions) -> Session:
    """Connect. Raises what the driver raises."""
    dialect = options.address.dialect
    if dialect is Dialect.POSTGRES:
        from flott.runtime.connectors.jdbc.postgres import PostgresSession

        return PostgresSession(options)
    if dialect is Dialect.MYSQL:
        from flott.runtime.connectors.jdbc.mysql import MySqlSession

        return MySqlSession(options)
    from flott.runtime.connectors.jdbc.sqlite import SqliteSession

    return SqliteSession(options)


def trouble_of(options: JdbcConnectionOptions, error: Exception) -> Trouble:
    """Return what an exception means, also where there was no session."""
    dialect = options.address.dialect
    if dialect is Dialect.POSTGRES:
        from flott._extras import require
        from flott.runtime.connectors.jdbc import postgres

        return postgres.trouble_of(require("psycopg", extra="postgres"), error)
    if dialect is Dialect.MYSQL:
        from flott.runtime.connectors.jdbc import mysql

        return mysql.trouble_of(error)
    from flott.runtime.connectors.jdbc import sqlite

    return sqlite.trouble_of(error)


def patient(options: JdbcConnectionOptions) -> JdbcConnectionOptions:
    """Return options for a committer: one of its statements moves what many statements of tasks have written."""
    return replace(options, statement_timeout_seconds=5 * options.statement_timeout_seconds)


class Connection:
    """A session of the pool, for one borrower at a time."""

    def __init__(self, options: JdbcConnectionOptions):
        self.options = options
        self._session: Session | None = None

    def session(self) -> Session:
        """Return the session, connecting if necessary. Raises what the driver raises."""
        if self._session is None:
            self._session = POOL.take(self.options, lambda: open_session(self.options))
        return self._session

    def attempt(
        self,
        what: str,
        work: Callable[[Session], R],
        retries: int = 0,
        explain: Callable[[], str] | None = None,
    ) -> R:
        """Do something, again with another connection after it was lost; raises ConnectorError in the end.

        A session of the pool may have been lost long ago without anybody noticing, so one retry is always made.
        ``explain`` is called if data was refused, and returns which.
        """
        attempts = 0
        while True:
            try:
                return work(self.session())
            except FlottError:
                self.drop()
                raise
            except Exception as error:
                self.drop()
                trouble = trouble_of(self.options, error)
                allowed = {Trouble.LOST: max(1, retries), Trouble.BUSY: retries}.get(trouble, 0)
                if attempts >= allowed:
                    known = explain() if explain is not None and trouble is Trouble.DATA else ""
                    raise failure(self.options, what, error, trouble, known) from None
                time.sleep(_RETRY_SECONDS[min(attempts, len(_RETRY_SECONDS) - 1)])
                attempts += 1
                self._renew()

    def _renew(self) -> None:
        """Connect again: the others of the pool may be lost as well."""
        with suppress(Exception):
            self._session = open_session(self.options)

    def drop(self) -> None:
        """Close the session: its state is unknown."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    def release(self) -> None:
        """Give the session back to the pool."""
        session, self._session = self._session, None
        if session is not None:
            POOL.give_back(self.options, session, Session.close)


def failure(
    options: JdbcConnectionOptions, what: str, error: Exception, trouble: Trouble, known: str = ""
) -> ConnectorError:
    """Return an error that says what was tried, what the database answered and what to do. It has no secrets."""
    advice = f" {_ADVICE[trouble]}" if _ADVICE[trouble] else ""
    return ConnectorError(f"{options.address}: cannot {what}, {trouble.value}: {_text(options, error)}.{known}{advice}")


def refusal(options: JdbcConnectionOptions, what: str, error: Exception, trouble: Trouble) -> ProgramError:
    """Return the same as an error of the program, found before anything runs."""
    return ProgramError(str(failure(options, what, error, trouble)))


def _text(options: JdbcConnectionOptions, error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {options.hide(text)}"


def offender(options: JdbcConnectionOptions, sql: str, rows: Sequence[Values], hidden: int = 0) -> str:
    """Return words about the first row that cannot be written, found by trying one after the other; or nothing.

    It is called after a batch was refused as a whole. Nothing of what is tried here remains. The first ``hidden``
    values of a row are not the user's.
    """
    try:
        session = open_session(options)
    except Exception:
        return ""
    try:
        session.begin()
        for row in rows:
            try:
                session.run_many(sql, [row])
            except Exception as error:
                if trouble_of(options, error) is Trouble.DATA:
                    return f" The row is {shown(tuple(row[hidden:]))}: {_text(options, error)}."
                return ""
        return ""
    except Exception:
        return ""
    finally:
        with suppress(Exception):
            session.rollback()
        with suppress(Exception):
            session.close()
