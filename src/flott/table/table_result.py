"""What running a statement gives: its kind, its schema, its rows, and the job that makes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flott.common.types import Row
from flott.table._tableau import print_rows
from flott.table._types.logical import RowType
from flott.table.result_kind import ResultKind

if TYPE_CHECKING:
    from flott.common.job_client import JobClient
    from flott.table.catalog import ResolvedSchema
    from flott.table.table_schema import TableSchema

__all__ = ["CloseableIterator", "TableResult"]


class CloseableIterator:
    """The rows of a result. Closing it cancels the job that makes them."""

    def __init__(self, rows: Iterator[Row], close: Callable[[], None] | None = None) -> None:
        self._rows = rows
        self._close = close

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    def next(self) -> Row:
        """Return the next row."""
        return next(self._rows)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop making rows."""
        if self._close is not None:
            self._close()
            self._close = None


class TableResult:
    """The result of a statement.

    ``rows`` is called once, when the program asks for them. With ``changelog`` the printed table shows each row's kind.
    """

    def __init__(
        self,
        kind: ResultKind,
        schema: RowType,
        rows: Callable[[], Iterator[Row]],
        *,
        job_client: JobClient | None = None,
        wait: Callable[[int | None], None] | None = None,
        close: Callable[[], None] | None = None,
        changelog: bool = False,
    ) -> None:
        self._kind = kind
        self._schema = schema
        self._rows = rows
        self._job_client = job_client
        self._wait = wait
        self._close = close
        self._changelog = changelog

    def get_job_client(self) -> JobClient | None:
        """Return the job, if the statement started one."""
        return self._job_client

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the result is there: of a query its first row, of an INSERT its end."""
        if self._wait is not None:
            self._wait(timeout_ms)

    def get_table_schema(self) -> TableSchema:
        """Return names and types of the columns."""
        from flott.table.table_schema import schema_of_row

        return schema_of_row(self._schema)

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return names and types of the columns."""
        from flott.table.catalog import ResolvedSchema

        return ResolvedSchema.of_row(self._schema)

    def get_result_kind(self) -> ResultKind:
        """Return whether there are rows."""
        return self._kind

    def collect(self) -> CloseableIterator:
        """Return the rows. A result can be read once."""
        return CloseableIterator(self._rows(), self._close)

    def print(self) -> None:
        """Write the rows to standard output as a table, as they come."""
        with self.collect() as rows:
            print_rows(rows, self._schema, sys.stdout, changelog=self._changelog)
