"""Runs one SQL statement for every record. Task side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flott.common.types import Row
from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.jdbc._sink import JdbcSink
from flott.runtime.connectors.jdbc.connection import Connection, offender
from flott.runtime.connectors.jdbc.prepared import PreparedTransaction
from flott.runtime.connectors.jdbc.rows import rows_of
from flott.runtime.connectors.jdbc.session import Session, Values
from flott.runtime.connectors.jdbc.statements import COMMITS_TABLE
from flott.runtime.connectors.jdbc.table_layout import declared_fields


class StatementWriter(SinkWriter[Any]):
    """Collects records and runs the statement for a batch of them, in a transaction."""

    def __init__(self, sink: JdbcSink, context: WriterContext):
        self._sink = sink
        self._options = sink.execution_options
        self._connection = Connection(sink.connection_options)
        self._fields = tuple(declared_fields(sink.type_info))
        self._rows: list[Values] = []
        self._transaction = (
            PreparedTransaction(sink.connection_options, context, lambda session: COMMITS_TABLE)
            if sink.exactly_once
            else None
        )

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        records = self._sink.type_info.conform(list(values))
        if not records:
            return
        if type(records[0]) is Row:
            self._rows.extend([record._values for record in records])
        else:
            self._rows.extend(rows_of(records, self._fields) if self._fields else records)
        if len(self._rows) >= self._options.batch_size:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        what = f"write {len(rows)} records with {self._sink.sql!r}"

        def explain() -> str:
            return offender(self._sink.connection_options, self._sink.sql, rows)

        if self._transaction is not None:
            self._transaction.write(what, len(rows), lambda session: session.run_many(self._sink.sql, rows), explain)
            return

        def work(session: Session) -> None:
            with session.transaction():
                session.run_many(self._sink.sql, rows)

        self._connection.attempt(what, work, self._options.max_retries, explain)

    def prepare_commit(self) -> list[Json]:
        self._flush()
        return [] if self._transaction is None else self._transaction.prepare()

    def close(self) -> None:
        if self._transaction is not None:
            self._transaction.close()
        self._connection.release()
