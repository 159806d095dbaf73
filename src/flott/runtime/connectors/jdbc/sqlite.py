"""SQLite, by Python's own module. Task and driver side.

Writers of several tasks take turns: each writes in short transactions and waits for its turn for as long as a statement
may take.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation
from flott.common.types import Row
from flott.datastream.connectors.jdbc._address import Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.runtime.connectors.jdbc.column_types import column_type
from flott.runtime.connectors.jdbc.placeholders import without_doubled_marks
from flott.runtime.connectors.jdbc.rows import to_datetime, to_json
from flott.runtime.connectors.jdbc.session import DatabaseColumn, DatabaseTable, Session, Trouble, Values
from flott.runtime.connectors.jdbc.statements import Grammar


class SqliteSession(Session):
    """A connection to a database file."""

    dialect = Dialect.SQLITE
    grammar = Grammar('"', has_on_conflict=True, for_update="")
    adapters: ClassVar = {
        Instant: lambda value: to_datetime(value).isoformat(" "),
        datetime: lambda value: value.isoformat(" "),
        date: date.isoformat,
        time: time.isoformat,
        Decimal: str,
        UUID: str,
        Row: to_json,
        dict: to_json,
        list: to_json,
        tuple: to_json,
    }

    def __init__(self, options: JdbcConnectionOptions):
        self._connection = sqlite3.connect(
            options.address.database,
            timeout=options.statement_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        self._connection.execute("SELECT name FROM sqlite_master LIMIT 1")  # finds a file that is no database

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(without_doubled_marks(sql), values).fetchall()

    def run(self, sql: str, values: Values = ()) -> int:
        return self._connection.execute(without_doubled_marks(sql), values).rowcount

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        self._connection.executemany(without_doubled_marks(sql), self.adapted(rows))

    def stream(self, sql: str, values: Values, batch: int) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
        cursor = self._connection.execute(without_doubled_marks(sql), values)
        try:
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(batch):
                yield names, rows
        finally:
            cursor.close()

    def begin(self) -> None:
        # At once for writing: a transaction that reads first may find at its first change that it is too late.
        self.run("BEGIN IMMEDIATE")

    # -- the catalog

    def table(self, name: str) -> DatabaseTable | None:
        schema, _, plain = name.rpartition(".")
        prefix = f"{self.grammar.quote(schema)}." if schema else ""
        found = self.rows(f"PRAGMA {prefix}table_xinfo({self.grammar.quote(plain)})")
        if not found:
            return None
        keys = [frozenset(column[1] for column in found if column[5])]
        for index in self.rows(f"PRAGMA {prefix}index_list({self.grammar.quote(plain)})"):
            if index[2] and not index[4]:
                members = self.rows(f"PRAGMA {prefix}index_info({self.grammar.quote(index[1])})")
                keys.append(frozenset(member[2] for member in members))
        return DatabaseTable(
            f"{prefix}{self.grammar.quote(plain)}",
            prefix,
            plain,
            tuple(DatabaseColumn(column[1], column[2], not column[3], column[6] == 0) for column in found),
            tuple(key for key in keys if key and None not in key),
        )

    def check_statement(self, sql: str, marks: int) -> None:
        self._connection.execute(f"EXPLAIN {without_doubled_marks(sql)}", [None] * marks).close()

    def column_type(self, declared: TypeInformation, in_key: bool) -> str | None:
        return column_type(Dialect.SQLITE, declared, in_key)

    # -- the rest

    def trouble(self, error: Exception) -> Trouble:
        return trouble_of(error)

    def close(self) -> None:
        self._connection.close()


def trouble_of(error: Exception) -> Trouble:
    """Return what an exception of sqlite3 means."""
    text = str(error)
    if isinstance(error, sqlite3.IntegrityError | sqlite3.InterfaceError | sqlite3.DataError | OverflowError):
        return Trouble.DATA
    if isinstance(error, sqlite3.ProgrammingError) and "type" in text and "not supported" in text:
        return Trouble.DATA
    if "locked" in text or "busy" in text:
        return Trouble.BUSY
    if "no such table" in text or "no such column" in text or "has no column" in text:
        return Trouble.SCHEMA
    if "full" in text:
        return Trouble.FULL
    if "unable to open" in text or "not a database" in text or "readonly" in text:
        return Trouble.REFUSED
    return Trouble.OTHER
