"""Writes records into a table, or stages them. Task side.

TableWriter
├── DirectTableWriter     each batch is a transaction: at least once; idempotent with a key
├── StagingTableWriter    each batch goes into the staging table
└── PreparedTableWriter   the epoch is one transaction, which is prepared
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.jdbc._table_sink import JdbcTableSink
from flott.errors import ConnectorError
from flott.runtime.connectors.jdbc.connection import Connection, offender
from flott.runtime.connectors.jdbc.identity import stage_number, writer_name
from flott.runtime.connectors.jdbc.prepared import PreparedTransaction
from flott.runtime.connectors.jdbc.rows import changes_of, check_inserts_only, rows_of
from flott.runtime.connectors.jdbc.session import Session, Values
from flott.runtime.connectors.jdbc.statements import DELETE_KIND, KIND, SEQUENCE, STAGE, UPSERT_KIND
from flott.runtime.connectors.jdbc.table_layout import WrittenTable, layout_of


class TableWriter(SinkWriter[Any]):
    """Collects rows and writes them in batches. With a key only the last change of each row is kept in a batch."""

    def __init__(self, sink: JdbcTableSink, context: WriterContext):
        self._sink = sink
        self._context = context
        self._connection = Connection(sink.connection_options)
        self._batch_size = sink.execution_options.batch_size
        self._retries = sink.execution_options.max_retries
        self._layout: WrittenTable | None = None
        self._rows: list[Values] = []  # to append
        self._upserts: dict[Any, Values] = {}
        self._deletes: dict[Any, Values] = {}
        self._key_of: Any = None

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if not values:
            return
        layout = self.layout()
        rows = rows_of(values, layout.fields)
        if layout.key:
            self._change(*changes_of(values, rows))
        else:
            check_inserts_only(values)
            self._rows.extend(rows)
        if len(self._rows) + len(self._upserts) + len(self._deletes) >= self._batch_size:
            self._flush()

    def layout(self) -> WrittenTable:
        if self._layout is None:
            self._layout = self._connection.attempt(
                f"look at table {self._sink.table}",
                lambda session: layout_of(session, self._sink, self._context.record_type),
            )
            if self._layout.key:
                self._key_of = itemgetter(*self._layout.key_positions)
        return self._layout

    def _change(self, rows: Sequence[Values], deletions: list[bool] | None) -> None:
        if deletions is None and not self._deletes:
            self._upserts.update(zip(map(self._key_of, rows), rows, strict=True))
            return
        for row, deleted in zip(rows, deletions or [False] * len(rows), strict=True):
            key = self._key_of(row)
            into, other = (self._deletes, self._upserts) if deleted else (self._upserts, self._deletes)
            other.pop(key, None)
            into[key] = row

    def _flush(self) -> None:
        rows, deletes = self._rows or list(self._upserts.values()), list(self._deletes.values())
        if rows or deletes:
            self._write_batch(self.layout(), rows, deletes)
        self._rows, self._upserts, self._deletes = [], {}, {}

    @abstractmethod
    def _write_batch(self, layout: WrittenTable, rows: Sequence[Values], deletes: Sequence[Values]) -> None:
        """Write rows, none of which has the key of another."""

    def _what(self, rows: Sequence[Values], deletes: Sequence[Values]) -> str:
        return f"write {len(rows) + len(deletes)} rows to table {self._sink.table}"

    def _explain(self, layout: WrittenTable, rows: Sequence[Values]) -> str:
        """Return which row the database refuses."""
        statement = layout.grammar.insert(layout.table.name, layout.columns, layout.key)
        return offender(self._sink.connection_options, statement, rows)

    def close(self) -> None:
        self._connection.release()


class DirectTableWriter(TableWriter):
    """Writes into the table itself."""

    def _write_batch(self, layout: WrittenTable, rows: Sequence[Values], deletes: Sequence[Values]) -> None:
        def work(session: Session) -> None:
            with session.transaction():
                if rows and layout.key:
                    session.upsert(layout.table, layout.columns, layout.key, rows)
                elif rows:
                    session.load(layout.table.name, layout.columns, rows)
                if deletes:
                    keys = [[row[position] for position in layout.key_positions] for row in deletes]
                    session.run_many(session.grammar.delete(layout.table.name, layout.key), keys)

        self._connection.attempt(self._what(rows, deletes), work, self._retries, lambda: self._explain(layout, rows))

    def prepare_commit(self) -> list[Json]:
        self._flush()
        return []


class StagingTableWriter(TableWriter):
    """Writes into the staging table, in which nothing counts until the committer moves it."""

    def __init__(self, sink: JdbcTableSink, context: WriterContext):
        super().__init__(sink, context)
        self._stage = stage_number(context)
        self._writer = writer_name(context.job_id, context.operator_id)
        self._staged = 0
        self._staged_deletes = 0

    def _write_batch(self, layout: WrittenTable, rows: Sequence[Values], deletes: Sequence[Values]) -> None:
        stage, first = self._stage, self._staged
        staged = [(stage, number, UPSERT_KIND, *row) for number, row in enumerate(rows, first)]
        if deletes:
            keys = set(layout.key_positions)
            only_keys = [[value if i in keys else None for i, value in enumerate(row)] for row in deletes]
            staged += [(stage, n, DELETE_KIND, *row) for n, row in enumerate(only_keys, first + len(rows))]
        columns = (STAGE, SEQUENCE, KIND, *layout.columns)
        tries = 0

        def work(session: Session) -> None:
            nonlocal tries
            tries += 1
            with session.transaction():
                if first == 0:
                    self._register(session, layout)
                else:
                    self._check_registered(session, layout)
                if tries > 1:  # the first try may have succeeded, and only its answer was lost
                    session.run(f"DELETE FROM {layout.staging} WHERE {STAGE} = ? AND {SEQUENCE} >= ?", (stage, first))
                session.load(layout.staging, columns, staged)

        self._connection.attempt(
            self._what(rows, deletes), work, self._retries, lambda: self._explain_staged(layout, columns, staged)
        )
        self._staged += len(staged)
        self._staged_deletes += len(deletes)

    def _register(self, session: Session, layout: WrittenTable) -> None:
        columns = ("stage", "writer", "attempt", "epoch", "staging", "staged_ms")
        context = self._context
        facts = (self._stage, self._writer, context.attempt_id, context.epoch, layout.staging, context.now_ms)
        session.run(f"DELETE FROM {layout.stages_table} WHERE stage = ?", (self._stage,))
        session.run(session.grammar.insert(layout.stages_table, columns), facts)

    def _check_registered(self, session: Session, layout: WrittenTable) -> None:
        query = f"SELECT stage FROM {layout.stages_table} WHERE stage = ?{session.grammar.for_update}"
        if not session.rows(query, (self._stage,)):
            raise ConnectorError(
                f"What epoch {self._context.epoch} has staged in {layout.staging} was discarded: the job has gone on"
                " without this attempt."
            )

    def _explain_staged(self, layout: WrittenTable, columns: Sequence[str], staged: Sequence[Values]) -> str:
        statement = layout.grammar.insert(layout.staging, columns)
        return offender(self._sink.connection_options, statement, staged, hidden=3)

    def prepare_commit(self) -> list[Json]:
        self._flush()
        if not self._staged:
            return []
        layout = self.layout()
        return [
            {
                "version": 1,
                "stage": self._stage,
                "writer": self._writer,
                "epoch": self._context.epoch,
                "rows": self._staged,
                "deletes": self._staged_deletes,
                "table": layout.table.name,
                "columns": list(layout.columns),
                "key": list(layout.key),
                "staging": layout.staging,
                "stages_table": layout.stages_table,
                "commits_table": layout.commits_table,
                "time_ms": self._context.now_ms,
            }
        ]


class PreparedTableWriter(TableWriter):
    """Writes into the table in a transaction that spans the epoch."""

    def __init__(self, sink: JdbcTableSink, context: WriterContext):
        super().__init__(sink, context)
        self._transaction = PreparedTransaction(
            sink.connection_options, context, lambda session: self.layout().commits_table
        )

    def _write_batch(self, layout: WrittenTable, rows: Sequence[Values], deletes: Sequence[Values]) -> None:
        def work(session: Session) -> None:
            if rows and layout.key:
                # Not Session.upsert(): a transaction that has used a temporary table cannot be prepared.
                session.run_many(session.grammar.insert(layout.table.name, layout.columns, layout.key), rows)
            elif rows:
                session.load(layout.table.name, layout.columns, rows)
            if deletes:
                keys = [[row[position] for position in layout.key_positions] for row in deletes]
                session.run_many(session.grammar.delete(layout.table.name, layout.key), keys)

        records = len(rows) + len(deletes)
        self._transaction.write(self._what(rows, deletes), records, work, lambda: self._explain(layout, rows))

    def prepare_commit(self) -> list[Json]:
        self._flush()
        return self._transaction.prepare()

    def close(self) -> None:
        self._transaction.close()
        super().close()
