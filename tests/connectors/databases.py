"""Tests that all databases share: those of the conformance kit, and those of what is special about databases.

A module of tests inherits from these classes and has a fixture ``database``, an empty database of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

import pytest

from flott.common import Row, Types
from flott.common.types import RowKind
from flott.datastream.connectors.base import DeliveryGuarantee, Sink, Source, WriterContext
from flott.datastream.connectors.jdbc import (
    CommitBy,
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
    JdbcSource,
    JdbcTableSink,
)
from flott.errors import ConnectorError, ProgramError, StateError
from flott.testing.connectors import SinkConformance, SinkRun, SourceConformance, run_source
from flott.testing.sinks import commit_permit

RECORDS = Types.ROW_NAMED(["id", "name", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
COLUMNS = "id BIGINT NOT NULL, name VARCHAR(100), amount DOUBLE PRECISION"


@dataclass
class TestedDatabase:
    """An empty database, reached in two ways: by Flott's options, and by statements of the test."""

    __test__: ClassVar[bool] = False

    options: JdbcConnectionOptions
    run: Callable[..., list[tuple[Any, ...]]]
    password: str = ""
    tables: list[str] = field(default_factory=list)

    def new_table(self, columns: str = COLUMNS, key: str = "") -> str:
        """Create a table and return its name."""
        name = f"target_{len(self.tables)}"
        self.run(f"CREATE TABLE {name} ({columns}{f', PRIMARY KEY ({key})' if key else ''})")
        self.tables.append(name)
        return name

    def content(self, table: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table, sorted."""
        return sorted(self.run(f"SELECT * FROM {table}"), key=repr)

    def builder(self, table: str) -> JdbcTableSink.Builder:
        return JdbcTableSink.builder().set_connection_options(self.options).set_table(table)


def row(number: int, name: str | None = None, kind: RowKind = RowKind.INSERT) -> Row:
    made = Row(id=number, name=f"name {number}" if name is None else name, amount=number / 2)
    made.set_row_kind(kind)
    return made


def checked(sink: JdbcTableSink, record_type: Any = RECORDS) -> JdbcTableSink:
    """Validate a sink as a job does."""
    sink.validate()
    sink.validate_records(record_type)
    return sink


def context(epoch: int = 1, subtask: int = 0, attempt: str = "a", record_type: Any = RECORDS) -> WriterContext:
    return WriterContext(subtask, 2, epoch, f"{attempt}-{epoch}-{subtask}", "job", "operator", 1000, record_type)


def staged(sink: Sink[Any], values: Sequence[Any], where: WriterContext | None = None) -> list[Any]:
    """Write an epoch, and return its committables."""
    writer = sink.create_writer(where or context())
    try:
        writer.write(list(values), None)
        return writer.prepare_commit()
    finally:
        writer.close()


def committer_of(sink: Sink[Any]) -> Any:
    committer = sink.create_committer()
    assert committer is not None
    committer.open("job", "operator")
    return committer


def written(sink: Sink[Any], values: Sequence[Any], epoch: int = 1) -> None:
    """Write an epoch and commit it."""
    committables = staged(sink, values, context(epoch))
    if sink.create_committer() is not None:
        committer = committer_of(sink)
        committer.commit(commit_permit(epoch, now_ms=2000), committables)
        committer.close()


# ---------------------------------------------------------------------------------------------------------------------
# The conformance kit
# ---------------------------------------------------------------------------------------------------------------------


class _TableConformance(SinkConformance):
    record_type = RECORDS
    seeds = 3
    database: TestedDatabase
    table: str

    @pytest.fixture(autouse=True)
    def _use(self, database: TestedDatabase) -> None:
        self.database = database

    def record(self, number: int) -> Any:
        return row(number)

    def visible(self) -> Sequence[Any]:
        return [Row(id=id_, name=name, amount=amount) for id_, name, amount in self.database.content(self.table)]


class AppendByStaging(_TableConformance):
    def sink(self) -> Sink[Any]:
        self.table = self.database.new_table()
        return checked(self.database.builder(self.table).build())


class AppendByPreparedTransactions(_TableConformance):
    def sink(self) -> Sink[Any]:
        self.table = self.database.new_table()
        return checked(self.database.builder(self.table).commit_by(CommitBy.PREPARED_TRANSACTION).build())


class UpsertIdempotent(_TableConformance):
    def sink(self) -> Sink[Any]:
        self.table = self.database.new_table(key="id")
        return checked(self.database.builder(self.table).upsert("id").build())


class UpsertByStaging(_TableConformance):
    def sink(self) -> Sink[Any]:
        self.table = self.database.new_table(key="id")
        builder = self.database.builder(self.table).upsert("id")
        return checked(builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build())


class UpsertByPreparedTransactions(_TableConformance):
    def sink(self) -> Sink[Any]:
        self.table = self.database.new_table(key="id")
        builder = self.database.builder(self.table).upsert("id").commit_by(CommitBy.PREPARED_TRANSACTION)
        return checked(builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build())

    def _fail(self, run: SinkRun, rng: Random, epoch: int) -> None:
        """Let an attempt fail, and discard it at once, as a restart does: what it has prepared locks its keys."""
        super()._fail(run, rng, epoch)
        committer = run.new_committer()
        assert committer is not None
        committer.discard(frozenset())
        committer.close()


class StatementAtLeastOnce(_TableConformance):
    exactly_once: ClassVar[bool] = False

    def sink(self) -> Sink[Any]:
        self.table = self.database.new_table()
        make = JdbcSink.exactly_once_sink if self.exactly_once else JdbcSink.sink
        sql = f"INSERT INTO {self.table} (id, name, amount) VALUES (?, ?, ?)"
        sink = make(sql, RECORDS, self.database.options)
        sink.validate()
        return sink


class StatementExactlyOnce(StatementAtLeastOnce):
    exactly_once = True


class PartitionedSource(SourceConformance):
    seeds = 3
    ordered = False
    database: TestedDatabase

    @pytest.fixture(autouse=True)
    def _use(self, database: TestedDatabase) -> None:
        self.database = database

    def source(self, count: int) -> Source[Any]:
        table = self.database.new_table(key="id")
        values = ", ".join(f"({number}, 'name {number}', {number / 2})" for number in range(count))
        self.database.run(f"INSERT INTO {table} (id, name, amount) VALUES {values}")
        builder = JdbcSource.builder().set_connection_options(self.database.options).set_table(table)
        return builder.set_partitions("id", 7).set_type_info(RECORDS).build()

    def number(self, record: Any) -> int:
        assert record.name == f"name {record.id}"
        return int(record.id)


# ---------------------------------------------------------------------------------------------------------------------
# Databases
# ---------------------------------------------------------------------------------------------------------------------


class TableSinkTests:
    """What a table sink does, in any database."""

    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_the_last_change_of_a_key_counts(self, database: TestedDatabase, exactly_once: bool) -> None:
        table = database.new_table(key="id")
        builder = database.builder(table).upsert("id")
        if exactly_once:
            builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        # Batches of two, so that changes of one key are in one batch and in several.
        sink = checked(builder.set_execution_options(JdbcExecutionOptions(batch_size=2)).build())
        written(sink, [row(1), row(2), row(3), row(4)], epoch=1)
        changes = [
            row(1, kind=RowKind.UPDATE_BEFORE),
            row(1, "changed", RowKind.UPDATE_AFTER),
            row(2, kind=RowKind.DELETE),
            row(3, kind=RowKind.DELETE),
            row(3, "again"),
            row(5),
            row(5, kind=RowKind.DELETE),
        ]
        written(sink, changes, epoch=2)
        assert database.content(table) == [(1, "changed", 0.5), (3, "again", 1.5), (4, "name 4", 2.0)]

    def test_all_changes_in_one_batch(self, database: TestedDatabase) -> None:
        table = database.new_table(key="id")
        sink = checked(database.builder(table).upsert("id").build())
        written(sink, [row(1), row(1, "b"), row(2), row(2, kind=RowKind.DELETE), row(3, kind=RowKind.DELETE), row(3)])
        assert database.content(table) == [(1, "b", 0.5), (3, "name 3", 1.5)]

    def test_dicts_tuples_and_dataclasses_are_rows_too(self, database: TestedDatabase) -> None:
        table = database.new_table()
        sink = checked(database.builder(table).build(), None)
        where = context(record_type=None)
        committables = staged(sink, [{"amount": 0.5, "id": 1, "name": "a"}, (2, "b", None), [3, None, 1.0]], where)
        committer_of(sink).commit(commit_permit(1, 0), committables)
        assert database.content(table) == [(1, "a", 0.5), (2, "b", None), (3, None, 1.0)]

    def test_a_table_that_lacks_a_column_is_refused_at_submission(self, database: TestedDatabase) -> None:
        table = database.new_table("id BIGINT NOT NULL, name VARCHAR(100)")
        with pytest.raises(ProgramError, match=f"(?i)table {table} lacks column 'amount'.*'id', 'name'"):
            checked(database.builder(table).build())

    def test_a_missing_table_is_refused_at_submission_or_created(self, database: TestedDatabase) -> None:
        with pytest.raises(ProgramError, match="There is no table 'nowhere'"):
            checked(database.builder("nowhere").build())
        sink = checked(database.builder("nowhere").upsert("id").create_table_if_missing().build())
        written(sink, [row(1), row(1, "again")])
        assert database.content("nowhere") == [(1, "again", 0.5)]

    def test_a_key_without_a_unique_index_is_refused_at_submission(self, database: TestedDatabase) -> None:
        table = database.new_table()
        with pytest.raises(ProgramError, match="needs a primary key or a unique index"):
            checked(database.builder(table).upsert("id").build())

    def test_a_sink_that_appends_takes_nothing_back(self, database: TestedDatabase) -> None:
        sink = checked(database.builder(database.new_table()).build())
        with pytest.raises(ProgramError, match=r"of kind DELETE. Call upsert"):
            staged(sink, [row(1, kind=RowKind.DELETE)])

    def test_a_refused_row_is_named(self, database: TestedDatabase) -> None:
        table = database.new_table("id BIGINT NOT NULL, name VARCHAR(100) NOT NULL, amount DOUBLE PRECISION")
        bad = Row(id=41, name=None, amount=0.5)
        for guarantee in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
            sink = checked(database.builder(table).set_delivery_guarantee(guarantee).build())
            with pytest.raises(ConnectorError, match=r"The row is \(41, None, 0.5\)") as caught:
                staged(sink, [row(40), bad, row(42)])
            assert database.password not in str(caught.value) or not database.password
        assert database.content(table) == []

    def test_a_commit_that_the_table_refuses_says_where_the_rows_are(self, database: TestedDatabase) -> None:
        table = database.new_table(key="id")
        database.run(f"INSERT INTO {table} (id, name, amount) VALUES (7, 'there', 1)")
        sink = checked(database.builder(table).build())
        committables = staged(sink, [row(6), row(7)])
        committer = committer_of(sink)
        with pytest.raises(StateError, match=r"cannot move staged rows into .*flott_staged_"):
            committer.commit(commit_permit(1, 0), committables)
        assert database.content(table) == [(7, "there", 1.0)]
        database.run(f"DELETE FROM {table}")
        committer.commit(commit_permit(1, 0, replay=True), committables)
        assert database.content(table) == [(6, "name 6", 3.0), (7, "name 7", 3.5)]

    def test_staged_rows_that_are_gone_stop_the_job(self, database: TestedDatabase) -> None:
        sink = checked(database.builder(database.new_table()).build())
        committables = staged(sink, [row(1), row(2)])
        database.run(f"DELETE FROM {committables[0]['staging']}")
        with pytest.raises(StateError, match=r"Of the 2 rows that epoch 1 has staged .* there are 0"):
            committer_of(sink).commit(commit_permit(1, 0), committables)

    def test_an_attempt_whose_stage_was_discarded_cannot_go_on(self, database: TestedDatabase) -> None:
        table = database.new_table()
        sink = checked(database.builder(table).set_execution_options(JdbcExecutionOptions(batch_size=2)).build())
        zombie = sink.create_writer(context(attempt="zombie"))
        zombie.write([row(1), row(2)], None)
        committer_of(sink).discard(frozenset({"other"}))
        with pytest.raises(ConnectorError, match="the job has gone on without this attempt"):
            zombie.write([row(3), row(4)], None)
        zombie.close()
        assert database.run("SELECT stage FROM flott_stages") == []

    def test_a_committed_epoch_leaves_only_its_marker(self, database: TestedDatabase) -> None:
        table = database.new_table()
        sink = checked(database.builder(table).build())
        committables = staged(sink, [row(1), row(2)])
        committer = committer_of(sink)
        committer.commit(commit_permit(1, 0), committables)
        assert database.run(f"SELECT COUNT(*) FROM {committables[0]['staging']}") == [(0,)]
        assert database.run("SELECT COUNT(*) FROM flott_stages") == [(0,)]
        assert database.run("SELECT COUNT(*) FROM flott_commits") == [(1,)]
        committer.close()

    def test_a_statement_that_does_not_fit_is_refused_at_submission(self, database: TestedDatabase) -> None:
        table = database.new_table()
        with pytest.raises(ProgramError, match=r"has 2 placeholders .* 3 fields"):
            JdbcSink.sink(f"INSERT INTO {table} (id, name) VALUES (?, ?)", RECORDS, database.options).validate()
        with pytest.raises(ProgramError, match="a table or column is missing"):
            JdbcSink.sink(f"INSERT INTO {table} (id, n, amount) VALUES (?, ?, ?)", RECORDS, database.options).validate()


class SourceTests:
    """What a bounded source does, in any database."""

    def test_ranges_cover_every_row_once(self, database: TestedDatabase) -> None:
        table = database.new_table("id BIGINT, day DATE")
        rows = "(NULL, '2026-01-01'), (-5, '2026-01-02'), (3, NULL), (1000, '2026-03-01')"
        database.run(f"INSERT INTO {table} VALUES {rows}")
        for column, count in (("id", 3), ("day", 4), ("id", 1)):
            builder = JdbcSource.builder().set_connection_options(database.options).set_table(table)
            source = builder.set_partitions(column, count).build()
            assert len(read_all(source)) == 4
        bounded = builder.set_partitions("id", 2, 0, 10).build()
        assert sorted(map(repr, read_all(bounded))) == sorted(map(repr, read_all(source)))

    def test_an_empty_table_ends_at_once(self, database: TestedDatabase) -> None:
        builder = JdbcSource.builder().set_connection_options(database.options).set_table(database.new_table())
        assert read_all(builder.set_partitions("id", 3).build()) == []
        assert read_all(builder.set_partitions("id", 1).build()) == []

    def test_a_query_is_checked_at_submission(self, database: TestedDatabase) -> None:
        builder = JdbcSource.builder().set_connection_options(database.options)
        source = builder.set_query("SELECT a FROM nowhere").build()
        with pytest.raises(ProgramError, match="nowhere"):
            source.create_enumerator().open()


def read_all(source: JdbcSource) -> list[Any]:
    return list(run_source(source, Random(1)).records)
