"""One connection to a database, in words that are the same for all dialects. Task and driver side.

Statements are in autocommit mode unless they stand in ``transaction()``. Values are ``?`` in all statements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.jdbc._address import Dialect
from flott.runtime.connectors.jdbc.rows import adapted
from flott.runtime.connectors.jdbc.statements import Grammar

Values = Sequence[Any]


class Trouble(Enum):
    """What an exception of a driver means for the job."""

    LOST = "the connection is lost"  #: trying again with another connection may help
    SLOW = "the statement takes longer than it may"
    BUSY = "another transaction is in the way"  #: trying again may help
    REFUSED = "the server refuses the user or the database"
    SCHEMA = "a table or column is missing"
    DATA = "a row cannot be stored"  #: a constraint is violated, or a value does not fit
    FULL = "the server has no room"
    OTHER = "the statement failed"


@dataclass(frozen=True)
class DatabaseColumn:
    """A column as the catalog describes it."""

    name: str
    kind: str  #: the type, as it is written in a CREATE TABLE of the same database
    nullable: bool
    writable: bool = True  #: False if the database computes it


@dataclass(frozen=True)
class DatabaseTable:
    """A table as the catalog describes it. Names are quoted."""

    name: str  #: with its schema, to be used in statements
    prefix: str  #: the quoted schema and a dot, or nothing: for further tables beside this one
    plain_name: str  #: unquoted, without its schema
    columns: tuple[DatabaseColumn, ...]
    unique_keys: tuple[frozenset[str], ...]  #: the columns of each unique index


class Session(ABC):
    """A connection. After an exception it must be closed, unless the exception was expected."""

    @cached_property
    def memory(self) -> dict[Any, Any]:
        """What was learned from the catalog, for as long as the connection lasts."""
        return {}

    dialect: ClassVar[Dialect]
    grammar: ClassVar[Grammar]
    adapters: ClassVar[Mapping[type, Callable[[Any], Any]]]

    @abstractmethod
    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run a query and return all of its rows."""

    @abstractmethod
    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement and return how many rows it has changed."""

    @abstractmethod
    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement for each row, in as few round trips as the driver can."""

    def load(self, table: str, columns: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert many rows. The table is quoted, the columns are not."""
        self.run_many(self.grammar.insert(table, columns), rows)

    def upsert(self, table: DatabaseTable, columns: Sequence[str], key: Sequence[str], rows: Sequence[Values]) -> None:
        """Insert or update many rows, of which no two have the same key. Called in a transaction."""
        self.run_many(self.grammar.insert(table.name, columns, key), rows)

    @abstractmethod
    def stream(self, sql: str, values: Values, batch: int) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
        """Run a query and yield its rows, some at a time, with the names of the columns."""

    # -- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction. After an exception it is rolled back."""
        self.begin()
        try:
            yield
        except BaseException:
            try:
                self.rollback()
            except Exception:
                self.close()  # which rolls back as well
            raise
        self.commit()

    def begin(self) -> None:
        self.run("BEGIN")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        self.run("ROLLBACK")

    # -- prepared transactions

    def prepared_refusal(self) -> str | None:
        """Return why transactions cannot be prepared here, with what to do about it; None if they can."""
        return f"{self.dialect.value} has no prepared transactions."

    def begin_prepared(self, gid: str) -> None:
        """Begin a transaction that will be prepared."""
        raise NotImplementedError

    def prepare(self, gid: str) -> None:
        """Make the transaction durable without committing it."""
        raise NotImplementedError

    def commit_prepared(self, gid: str) -> bool:
        """Commit a prepared transaction of any session. False if there is none of this name."""
        raise NotImplementedError

    def rollback_prepared(self, gid: str) -> bool:
        """Undo a prepared transaction. False if there is none of this name."""
        raise NotImplementedError

    def prepared(self, prefix: str) -> list[str]:
        """Return the names of prepared transactions that begin so."""
        raise NotImplementedError

    #: Whether the connection is of no use after ``prepare``: others can commit only when it is closed.
    closes_after_prepare: ClassVar[bool] = False

    # -- the catalog

    @abstractmethod
    def table(self, name: str) -> DatabaseTable | None:
        """Return what the catalog says about a table; None if there is none."""

    @abstractmethod
    def check_statement(self, sql: str, marks: int) -> None:
        """Let the server look at a statement without running it; raises what the driver raises."""

    @abstractmethod
    def column_type(self, declared: TypeInformation, in_key: bool) -> str | None:
        """Return the type of a column for values of a declared type; None if there is none."""

    # -- the rest

    @abstractmethod
    def trouble(self, error: Exception) -> Trouble:
        """Return what an exception of the driver means."""

    @abstractmethod
    def close(self) -> None:
        """End the connection. An open transaction is rolled back."""

    def adapted(self, rows: Sequence[Values]) -> Sequence[Values]:
        """Return rows with values that the driver takes."""
        return adapted(rows, self.adapters)
