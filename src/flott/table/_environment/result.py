"""What a statement gives: columns, rows as they come, and the job that computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flott.common.job_client import JobClient
from flott.common.types import Row
from flott.table._plan.logical import Schema
from flott.table._types.logical import STRING


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement.

    ``rows`` may be called once: it returns the rows as they are computed. A statement that only changes something has
    one row with the text OK.
    """

    schema: Schema
    rows: Callable[[], Iterator[Row]]
    success_only: bool = False  #: the statement gives no content: its only row says that it succeeded
    job: JobClient | None = None
    is_query: bool = False
    close: Callable[[], None] = field(default=lambda: None)


def success(job: JobClient | None = None) -> StatementResult:
    """Return the result of a statement that gives no content."""
    return StatementResult(Schema(("result",), (STRING,)), lambda: iter([Row("OK")]), success_only=True, job=job)


def table_of(columns: dict[str, Any], rows: Sequence[Sequence[Any]]) -> StatementResult:
    """Return the result of a statement whose rows are known. ``columns`` maps names to types."""
    made = [Row(*row) for row in rows]
    return StatementResult(Schema(tuple(columns), tuple(columns.values())), lambda: iter(made))


def names_of(title: str, names: Sequence[str]) -> StatementResult:
    """Return a result of one column of names."""
    return table_of({title: STRING}, [(name,) for name in names])
