"""PyFlink's JDBC sink: one SQL statement, run for every record. A specification.

What writes and commits is in ``flott.runtime.connectors.jdbc``; its imports stand inside the methods, so that the API
does not load the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import RecordTypeInfo
from flott.datastream.connectors.base import Committer, Guarantee, Sink, SinkWriter, WriterContext
from flott.datastream.connectors.jdbc._address import Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions, JdbcExecutionOptions
from flott.errors import ProgramError


@dataclass(frozen=True)
class JdbcSink(Sink[Any]):
    """Runs a SQL statement for every record, in batches. Its ``?`` stand for the fields of the record, in order.

    With :meth:`sink` a batch may be written again after a failure: at least once. A statement that does no harm when it
    is repeated, such as an upsert, makes that good enough. With :meth:`exactly_once_sink` the statements of an epoch
    are one transaction, which is prepared in the task and committed with the checkpoint.

    >>> from flott.common import Types
    >>> address = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/tmp/shop.db").build()
    >>> types = Types.ROW([Types.INT(), Types.STRING()])
    >>> sink = JdbcSink.sink("INSERT INTO t (id, name) VALUES (?, ?)", types, address)
    >>> sink.guarantee
    <Guarantee.AT_LEAST_ONCE: 'at-least-once'>
    """

    sql: str
    type_info: TypeInformation
    connection_options: JdbcConnectionOptions
    execution_options: JdbcExecutionOptions = field(default_factory=JdbcExecutionOptions)
    exactly_once: bool = False

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that writes every record at least once, as in PyFlink."""
        return _checked(sql, type_info, jdbc_connection_options, jdbc_execution_options, exactly_once=False)

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that writes every record exactly once, by prepared (XA) transactions."""
        return _checked(sql, type_info, jdbc_connection_options, jdbc_execution_options, exactly_once=True)

    @property
    def waits_for_commits(self) -> bool:
        return self.exactly_once

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE if self.exactly_once else Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.jdbc.validation import check_statement_sink

        check_statement_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.jdbc.statement_writer import StatementWriter

        return StatementWriter(self, context)

    def create_committer(self) -> Committer | None:
        if not self.exactly_once:
            return None
        from flott.runtime.connectors.jdbc.prepared import PreparedCommitter

        return PreparedCommitter(self.connection_options)


def _checked(
    sql: str,
    type_info: TypeInformation,
    connection_options: JdbcConnectionOptions,
    execution_options: JdbcExecutionOptions | None,
    *,
    exactly_once: bool,
) -> JdbcSink:
    if not isinstance(type_info, RowTypeInfo | TupleTypeInfo | RecordTypeInfo):
        raise ProgramError(
            f"A JdbcSink needs the type of its records as Types.ROW([...]), Types.TUPLE([...]) or a record class,"
            f" found {type_info!r}."
        )
    if exactly_once and connection_options.address.dialect is Dialect.SQLITE:
        raise ProgramError(
            "SQLite has no prepared transactions, so JdbcSink.exactly_once_sink() cannot write to it. Use"
            " JdbcTableSink, which writes exactly once by a staging table, or JdbcSink.sink() with a statement that may"
            " be repeated."
        )
    return JdbcSink(sql, type_info, connection_options, execution_options or JdbcExecutionOptions(), exactly_once)
