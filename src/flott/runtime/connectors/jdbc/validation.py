"""Checks sinks against their database at submission, and creates the tables that they need. Driver side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.datastream.connectors.jdbc._sink import JdbcSink
from flott.datastream.connectors.jdbc._table_sink import CommitBy, JdbcTableSink
from flott.errors import FlottError, ProgramError
from flott.runtime.connectors.jdbc.connection import open_session, refusal, trouble_of
from flott.runtime.connectors.jdbc.placeholders import count_marks
from flott.runtime.connectors.jdbc.session import Session
from flott.runtime.connectors.jdbc.statements import COMMITS_TABLE, commits_table, stages_table
from flott.runtime.connectors.jdbc.table_layout import declared_fields, layout_of

R = TypeVar("R")


def checking(options: JdbcConnectionOptions, what: str, work: Callable[[Session], R]) -> R:
    """Do something with a new session; whatever fails is an error of the program."""
    try:
        with closing(open_session(options)) as session:
            return work(session)
    except FlottError:
        raise
    except Exception as error:
        raise refusal(options, what, error, trouble_of(options, error)) from None


def check_statement_sink(sink: JdbcSink) -> None:
    """Check the statement, and for exactly once the server; create the table of markers."""
    fields = len(sink.type_info.get_field_types())  # type: ignore[attr-defined]
    marks = count_marks(sink.sql)
    if marks != fields:
        raise ProgramError(
            f"The statement {sink.sql!r} has {marks} placeholders (?), but its records have {fields} fields:"
            f" {sink.type_info!r}."
        )

    def check(session: Session) -> None:
        session.check_statement(sink.sql, marks)
        if sink.exactly_once:
            _check_prepared(sink.connection_options, session)
            create_if_missing(session, COMMITS_TABLE, commits_table(COMMITS_TABLE))

    checking(sink.connection_options, f"use the statement {sink.sql!r}", check)


def check_table_sink(sink: JdbcTableSink, record_type: TypeInformation | None) -> None:
    """Check the table against the records; create what is missing and may be created."""

    def check(session: Session) -> None:
        if sink.create_table and session.table(sink.table) is None:
            _create_table(session, sink, record_type)
        layout = layout_of(session, sink, record_type)
        if not sink.exactly_once:
            return
        create_if_missing(session, layout.commits_table, commits_table(layout.commits_table))
        if sink.commit_by is CommitBy.PREPARED_TRANSACTION:
            _check_prepared(sink.connection_options, session)
            return
        create_if_missing(session, layout.stages_table, stages_table(layout.stages_table))
        create_if_missing(session, layout.staging, layout.staging_statement)

    checking(sink.connection_options, f"use table {sink.table}", check)


def _check_prepared(options: JdbcConnectionOptions, session: Session) -> None:
    if (reason := session.prepared_refusal()) is not None:
        raise ProgramError(f"{options.address}: {reason}")


def create_if_missing(session: Session, name: str, statement: str) -> None:
    """Create a table. Another job may do so in the same moment, and PostgreSQL then refuses the second one."""
    try:
        session.rows(f"SELECT 1 FROM {name} WHERE 1 = 0")
        return
    except Exception:
        pass
    try:
        session.run(statement)
    except Exception:
        session.rows(f"SELECT 1 FROM {name} WHERE 1 = 0")


def _create_table(session: Session, sink: JdbcTableSink, record_type: TypeInformation | None) -> None:
    declared = declared_fields(record_type)
    names = sink.columns or tuple(declared)
    if not names or any(name not in declared for name in names):
        raise ProgramError(
            f"Table {sink.table} is missing and cannot be created, because the records have no declared type that says"
            f" what {list(names) or 'its columns'} are. Declare it with output_type=Types.ROW_NAMED([...], [...]) or a"
            " dataclass, or create the table."
        )
    grammar = session.grammar
    parts = []
    for name in names:
        kind = session.column_type(declared[name], name in sink.key)
        if kind is None:
            raise ProgramError(
                f"Table {sink.table} is missing and cannot be created: there is no column type for field {name!r} of"
                f" type {declared[name]!r}. Create the table."
            )
        parts.append(f"{grammar.quote(name)} {kind}{' NOT NULL' if name in sink.key else ''}")
    if sink.key:
        parts.append(f"PRIMARY KEY ({grammar.listed(sink.key)})")
    quoted = ".".join(map(grammar.quote, sink.table.split(".")))
    session.run(f"CREATE TABLE IF NOT EXISTS {quoted} ({', '.join(parts)})")
