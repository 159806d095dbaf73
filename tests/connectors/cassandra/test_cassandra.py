"""The Cassandra sink against a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import Guarantee, OnError, Sink, WriterContext
from flott.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraSink,
    CassandraTableSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from flott.errors import ConnectorError, ProgramError
from flott.testing.connectors import SinkConformance
from flott.testing.harness import in_process
from flott.testing.sinks import commit_permit
from tests.connectors.pages import run_page
from tests.servers.cassandra import CassandraServer, cassandra_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors

FAST = RetryPolicy(max_attempts=3, initial_delay_ms=10)
_names = count()


class Cassandra:
    """A server with a keyspace, and what tests ask of it."""

    def __init__(self, server: CassandraServer):
        self.server = server
        self._cluster, self.session = server.connect()
        strategy = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.session.execute(f"CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {strategy}")

    def table(self, columns: str = "id int PRIMARY KEY, name text, price double") -> str:
        name = f"shop.t{next(_names)}"
        self.session.execute(f"CREATE TABLE {name} ({columns})")
        return name

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.session.execute(f"SELECT * FROM {table}"))

    @property
    def cluster(self) -> ClusterBuilder:
        return ClusterBuilder(("127.0.0.1",), self.server.port, timeout_ms=10_000)

    def sink(self, **settings: Any) -> CassandraTableSink:
        return CassandraTableSink(self.cluster, **{"retries": FAST, **settings})


@pytest.fixture(scope="module")
def cassandra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cassandra]:
    try:
        with cassandra_server(tmp_path_factory.mktemp("cassandra")) as server:
            yield Cassandra(server)
    except NoServer as error:
        pytest.skip(str(error))


def write(sink: CassandraTableSink, values: list[Any], now_ms: int = 1_000_000, attempt: str = "a") -> list[Any]:
    writer = sink.create_writer(WriterContext(0, 1, now_ms, attempt, "job", "op", now_ms))
    try:
        writer.write(values, None)
        return writer.prepare_commit()
    finally:
        writer.close()


def test_a_query_is_executed_for_every_record(cassandra: Cassandra):
    table = cassandra.table()
    sink = cassandra.sink(query=f"INSERT INTO {table} (id, name, price) VALUES (?, ?, ?)")
    sink.validate()
    write(sink, [(number, f"n{number}", 0.5) for number in range(2500)])
    write(sink, [Row(1, "changed", None)], now_ms=2_000_000)
    found = list(cassandra.session.execute(f"SELECT id, name, price FROM {table}"))
    assert len(found) == 2500
    assert {row.id: (row.name, row.price) for row in found}[1] == ("changed", None)
    assert sink.guarantee is Guarantee.IDEMPOTENT


def test_rows_are_inserted_by_their_names_and_deleted_by_their_kind_in_their_order(cassandra: Cassandra):
    table = cassandra.table()
    sink = cassandra.sink(table=table, key_fields=("id",), concurrent_requests=256)
    changes: list[Any] = [Row(id=1, name=f"version {number}", price=1.0) for number in range(300)]
    changes += [Row(id=2, name="b", price=None), Row.of_kind(RowKind.DELETE, id=2, name="b", price=None)]
    changes += [Row(id=3, name="c", price=None), Row.of_kind(RowKind.UPDATE_BEFORE, id=3, name="c", price=None)]
    write(sink, changes)
    assert cassandra.rows(table) == [(1, "version 299", 1.0), (3, "c", None)]


def test_a_late_writer_of_an_older_epoch_changes_nothing(cassandra: Cassandra):
    table = cassandra.table()
    sink = cassandra.sink(table=table, key_fields=("id",))
    write(sink, [{"id": 1, "name": "first"}, {"id": 2, "name": "first"}])
    write(sink, [{"id": 1, "name": "later"}, Row.of_kind(RowKind.DELETE, id=2)], now_ms=2_000_000)
    write(sink, [{"id": 1, "name": "zombie"}, {"id": 2, "name": "zombie"}], attempt="z")
    assert cassandra.rows(table) == [(1, "later", None)]


def test_options_of_the_mapper(cassandra: Cassandra):
    table = cassandra.table()
    options = MapperOptions.simple_mapper_options().ttl(1000).consistency_level(ConsistencyLevel.ONE).tracing(True)
    sink = cassandra.sink(table=table, key_fields=("id",), options=options.save_null_fields(False))
    write(sink, [{"id": 1, "name": "a", "price": 2.0}])
    write(sink, [{"id": 1, "name": None, "price": 3.0}], now_ms=2_000_000)
    row = cassandra.session.execute(f"SELECT name, price, ttl(price) AS ttl FROM {table}").one()
    assert (row.name, row.price) == ("a", 3.0)
    assert 0 < row.ttl <= 1000
    only_new = replace(sink, options=MapperOptions().if_not_exists(True))
    write(only_new, [{"id": 1, "name": "again"}, {"id": 9, "name": "new"}], now_ms=3_000_000)
    assert [name for _, name, _ in cassandra.rows(table)] == ["a", "new"]
    fixed = replace(sink, options=MapperOptions().timestamp(1))
    write(fixed, [{"id": 1, "name": "older than all"}], now_ms=4_000_000)
    assert cassandra.rows(table)[0][1] == "a"


def test_a_write_ahead_log_writes_after_the_checkpoint_and_once(cassandra: Cassandra):
    table = cassandra.table()
    sink = cassandra.sink(query=f"INSERT INTO {table} (id, name, price) VALUES (?, ?, ?)", after_checkpoint=True)
    committables = write(sink, [(1, "a", 1.5), (2, None, None)])
    assert cassandra.rows(table) == []
    committer = sink.create_committer()
    assert committer is not None
    for replay in (False, True):
        committer.commit(commit_permit(1, 0, replay=replay), committables)
    assert cassandra.rows(table) == [(1, "a", 1.5), (2, None, None)]


def test_a_row_that_does_not_fit_is_named_or_skipped(cassandra: Cassandra):
    table = cassandra.table()
    sink = cassandra.sink(table=table, key_fields=("id",))
    records = [{"id": 1, "name": "a"}, {"id": "two", "name": "b"}, {"id": 3, "name": "c"}]
    with pytest.raises(ConnectorError, match=r"rejected the row \('two', 'b'\) of .*: its values do not fit"):
        write(sink, records)
    write(replace(sink, on_rejected=OnError.skip()), records)
    assert [row[0] for row in cassandra.rows(table)] == [1, 3]
    with pytest.raises(ConnectorError, match="refused the statement"):
        write(sink, [{"id": 1, "no such column": 1}])


def test_wrong_tables_hosts_and_programs_are_named(cassandra: Cassandra):
    with pytest.raises(ProgramError, match="does not accept the statement or table"):
        cassandra.sink(table="shop.nowhere", key_fields=("id",)).validate()
    away = CassandraTableSink(ClusterBuilder(("127.0.0.1",), 1, timeout_ms=500), "INSERT", retries=FAST)
    away.validate()
    with pytest.raises(ConnectorError, match="did not accept 1 changes in 3 attempts"):
        write(away, [(1,)])
    env = in_process(1)
    builder = CassandraSink.add_sink(env.from_collection([(1,)]))
    with pytest.raises(ProgramError, match="needs set_host"):
        builder.build()
    with pytest.raises(ProgramError, match="either set_query"):
        builder.set_host("127.0.0.1").build()
    with pytest.raises(ProgramError, match="needs the names of the key"):
        builder.set_table("t").build()
    counting = replace(cassandra.sink(), query="UPDATE t SET n = n + ? WHERE id = ?")
    assert counting.guarantee is Guarantee.AT_LEAST_ONCE
    assert "hidden" not in repr(ClusterBuilder(("a",), username="u", password="hidden"))


def test_the_builder_adds_a_sink_to_a_stream(cassandra: Cassandra):
    table = cassandra.table()
    env = in_process(1)
    stream = env.from_collection([(number, f"n{number}") for number in range(10)])
    (
        CassandraSink.add_sink(stream)
        .set_query(f"INSERT INTO {table} (id, name) VALUES (?, ?)")
        .set_cluster_builder(cassandra.cluster)
        .set_default_key_space("shop")
        .enable_write_ahead_log(CassandraCommitter.default_checkpoint_committer(cassandra.cluster))
        .set_mapper_options(MapperOptions())
        .set_failure_handler(CassandraFailureHandler.no_op())
        .set_max_concurrent_requests(10)
        .enable_ignore_null_fields()
        .build()
        .name("to Cassandra")
        .uid("sink")
        .set_parallelism(1)
        .disable_chaining()
    )
    env.execute("numbers")
    assert len(cassandra.rows(table)) == 10


class TestCassandraConformance(SinkConformance):
    seeds = 2
    after_checkpoint = False

    @pytest.fixture(autouse=True)
    def _server(self, cassandra: Cassandra) -> None:
        self.cassandra = cassandra

    def sink(self) -> Sink[Any]:
        self.last = self.cassandra.table("id int PRIMARY KEY, name text")
        return self.cassandra.sink(table=self.last, key_fields=("id",), after_checkpoint=self.after_checkpoint)

    def visible(self) -> Sequence[Any]:
        return [{"id": row[0], "name": row[1]} for row in self.cassandra.rows(self.last)]

    def record(self, number: int) -> Any:
        return {"id": number, "name": f"record {number}"}


class TestCassandraWriteAheadConformance(TestCassandraConformance):
    seeds = 1
    after_checkpoint = True


def test_a_stalled_node_is_an_error_after_the_time_out_and_a_restart_loses_nothing(cassandra: Cassandra):
    table = cassandra.table("id int PRIMARY KEY")
    quick = ClusterBuilder(("127.0.0.1",), cassandra.server.port, timeout_ms=2000)
    sink = CassandraTableSink(quick, table=table, key_fields=("id",), retries=replace(FAST, max_attempts=1))
    write(sink, [{"id": 1}])
    cassandra.server.process.pause()
    try:
        with pytest.raises(ConnectorError, match="did not accept 1 changes in 1 attempts"):
            write(sink, [{"id": 2}])
    finally:
        cassandra.server.process.resume()
    write(replace(sink, retries=RetryPolicy(max_attempts=30, initial_delay_ms=500)), [{"id": 3}])
    assert (1,) in cassandra.rows(table)
    assert (3,) in cassandra.rows(table)


def test_the_program_of_the_page_runs(cassandra: Cassandra):
    cassandra.session.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, article text)")
    run_page("cassandra.md", {'set_host("localhost", 9042)': f'set_host("127.0.0.1", {cassandra.server.port})'})
    assert cassandra.rows("shop.orders") == [(1, "tea"), (2, "jam")]


def test_a_wrong_password_is_named_before_the_job_runs_and_never_shown(tmp_path: Path):
    try:
        with cassandra_server(tmp_path, "PasswordAuthenticator") as server:
            right = ClusterBuilder(("127.0.0.1",), server.port, "cassandra", "cassandra", timeout_ms=10_000)
            _until_the_user_exists(CassandraTableSink(right, table="system.local", key_fields=("key",)))
            wrong = CassandraTableSink(replace(right, password="hidden-password"), table="system.local", retries=FAST)
            with pytest.raises(ProgramError, match="does not accept the user or the password") as refused:
                wrong.validate()
            with pytest.raises(ConnectorError, match="does not accept the user or the password") as later:
                write(wrong, [{"key": "local"}])
            assert "hidden-password" not in f"{refused.value} {later.value} {wrong!r}"
    except NoServer as error:
        pytest.skip(str(error))


def _until_the_user_exists(sink: CassandraTableSink) -> None:
    """Wait: Cassandra creates its first user a while after it has started."""
    pause = threading.Event()
    for _ in range(100):
        try:
            return sink.validate()
        except ProgramError:
            pause.wait(0.5)
    raise AssertionError("the user was not created")
