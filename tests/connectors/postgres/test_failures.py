"""PostgreSQL: what a job says and does when the server, the network or the credentials fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from flott.common import Types
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.jdbc import CommitBy, JdbcConnectionOptions, JdbcSink, JdbcSource
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.errors import ConnectorError, ProgramError, StateError
from flott.runtime.clock import SystemClock
from flott.runtime.connectors.jdbc.connection import POOL
from flott.runtime.connectors.jdbc.prepared import SWEEP_EVERY
from flott.testing.harness import Incarnation, in_process, live
from flott.testing.sinks import commit_permit
from tests.connectors.databases import (
    RECORDS,
    TestedDatabase,
    checked,
    committer_of,
    context,
    row,
    staged,
    written,
)
from tests.connectors.postgres.conftest import database_of
from tests.servers.postgres import PASSWORD, USER, PostgresServer, postgres_server
from tests.servers.process import NoServer, free_port
from tests.servers.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.connectors


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    try:
        with postgres_server() as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))
    finally:
        POOL.close()


def at_port(options: JdbcConnectionOptions, port: int, **changes: int) -> JdbcConnectionOptions:
    """The same database, reached by another port."""
    (_, found), *_ = options.address.hosts
    return replace(options, url=options.url.replace(f":{found}/", f":{port}/"), **changes)


def test_wrong_passwords_and_absent_servers_are_found_before_anything_runs(database: TestedDatabase) -> None:
    table = database.new_table()
    wrong = replace(database, options=replace(database.options, password="wrong-and-secret"))
    with pytest.raises(ProgramError, match=r"refuses the user or the database.*password authentication") as caught:
        checked(wrong.builder(table).build())
    assert "wrong-and-secret" not in str(caught.value)
    absent = replace(database, options=at_port(database.options, free_port()))
    with pytest.raises(ProgramError, match=r"the connection is lost.*Check that the server runs"):
        checked(absent.builder(table).build())
    with pytest.raises(ProgramError, match="does not exist"):
        checked(
            replace(database, options=replace(database.options, url=database.options.url + "x")).builder(table).build()
        )
    source = JdbcSource.builder().set_connection_options(wrong.options).set_table(table).build()
    with pytest.raises(ProgramError, match="password authentication"):
        source.create_enumerator().open()


def test_secrets_are_in_no_text(database: TestedDatabase) -> None:
    url = f"{database.options.url}?user={USER}&password={PASSWORD}"
    options = JdbcConnectionOptions(url)
    table = database.new_table()
    sink = checked(replace(database, options=options).builder(table).build())
    written(sink, [row(1)])
    assert database.content(table) == [(1, "name 1", 0.5)]
    statement = JdbcSink.sink(f"INSERT INTO {table} VALUES (?, ?, ?)", RECORDS, options)
    source = JdbcSource.builder().set_connection_options(options).set_table(table).build()
    for each in (options, sink, statement, source, sink.create_committer(), source.create_enumerator()):
        assert PASSWORD not in repr(each)
        assert PASSWORD not in str(each)


def test_without_prepared_transactions_the_sentence_says_what_to_set() -> None:
    try:
        with postgres_server({"max_prepared_transactions": "0"}) as running:
            database = database_of(running)
            builder = database.builder(database.new_table()).commit_by(CommitBy.PREPARED_TRANSACTION)
            with pytest.raises(ProgramError, match=r"max_prepared_transactions is 0. Set it to at least twice"):
                checked(builder.build())
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("way", list(CommitBy))
def test_a_server_that_is_killed_between_prepare_and_commit_loses_nothing(
    own_server: PostgresServer, way: CommitBy
) -> None:
    database = database_of(own_server)
    table = database.new_table()
    sink = checked(database.builder(table).commit_by(way).build())
    committables = staged(sink, [row(1), row(2)])
    committer = committer_of(sink)
    own_server.kill()
    with pytest.raises(ConnectorError, match="the connection is lost"):
        committer.commit(commit_permit(1, 0), committables)
    own_server.start()
    committer.commit(commit_permit(1, 0), committables)
    committer.commit(commit_permit(1, 0, replay=True), committables)
    assert database.content(table) == [(1, "name 1", 0.5), (2, "name 2", 1.0)]
    written(sink, [row(3)], epoch=2)  # with connections of the pool that are lost
    assert len(database.content(table)) == 3
    committer.close()


def test_a_prepared_transaction_that_was_rolled_back_by_hand_stops_the_job(database: TestedDatabase) -> None:
    sink = checked(database.builder(database.new_table()).commit_by(CommitBy.PREPARED_TRANSACTION).build())
    (committable,) = staged(sink, [row(1), row(2)])
    database.run(f"ROLLBACK PREPARED '{committable['transaction']}'")
    with pytest.raises(StateError, match=r"epoch 1 \(2 records\) belongs to a completed checkpoint"):
        committer_of(sink).commit(commit_permit(1, 0), [committable])


def test_two_transactions_that_write_one_key_end_with_advice(database: TestedDatabase) -> None:
    table = database.new_table(key="id")
    options = replace(database.options, statement_timeout_seconds=2)
    builder = replace(database, options=options).builder(table).upsert("id").commit_by(CommitBy.PREPARED_TRANSACTION)
    sink = checked(builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build())
    staged(sink, [row(1)], context(subtask=0))
    with pytest.raises(ConnectorError, match=r"use key_by\(\) on it before the sink, or commit by staging"):
        staged(sink, [row(1)], context(subtask=1))
    committer_of(sink).discard(frozenset())
    assert database.run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()") == []
    written(sink, [row(1)], epoch=2)
    assert len(database.content(table)) == 1


def test_a_network_that_stalls_ends_in_an_error_instead_of_a_hang(database: TestedDatabase) -> None:
    table = database.new_table()
    with tcp_proxy(database.options.address.hosts[0]) as proxy:
        options = at_port(database.options, proxy.port, connect_timeout_seconds=2, statement_timeout_seconds=1)
        sink = checked(replace(database, options=options).builder(table).build())
        committables = staged(sink, [row(1)])
        committer = committer_of(sink)
        committer.commit(commit_permit(1, 0), committables)
        second = staged(sink, [row(2)], context(epoch=2))
        proxy.stall()
        with pytest.raises(ConnectorError, match="the connection is lost"):
            committer.commit(commit_permit(2, 0), second)
        with pytest.raises(ConnectorError, match="the connection is lost"):
            staged(sink, [row(3)], context(epoch=3))
        proxy.resume()
        committer.commit(commit_permit(2, 0), second)
        committer.close()
        POOL.close()
    assert database.content(table) == [(1, "name 1", 0.5), (2, "name 2", 1.0)]


def test_tls_and_scram() -> None:
    try:
        with postgres_server(tls=True) as running:
            database = database_of(running)  # the test's own connections use TLS by themselves
            table = database.new_table()
            url = f"{database.options.url}?sslmode=verify-full&sslrootcert={running.certificate}"
            secure = replace(database, options=replace(database.options, url=url))
            written(checked(secure.builder(table).build()), [row(1)])
            assert database.content(table) == [(1, "name 1", 0.5)]
            plain = replace(database, options=replace(database.options, url=f"{database.options.url}?sslmode=disable"))
            with pytest.raises(ProgramError, match="no encryption"):
                checked(plain.builder(table).build())
            POOL.close()
    except NoServer as reason:
        pytest.skip(str(reason))


def test_a_job_survives_a_server_that_restarts(own_server: PostgresServer, tmp_path: Path) -> None:
    database = database_of(own_server)
    table = database.new_table()
    sink = database.builder(table).build()
    env = in_process(2, flott__epoch__max_records="10")
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda number: (number, f"name {number}", number / 2), output_type=RECORDS).sink_to(sink).uid("sink")

    def on_step(step: str, epoch: int) -> None:
        if epoch in (2, 4, 6) and step == ("ran", "acknowledged", "completed")[epoch // 2 - 1]:
            own_server.restart()

    job = live(env, tmp_path / "job", on_step=on_step, clock=SystemClock())
    assert job.failure is None, job.failure
    assert sorted(found[0] for found in database.run(f"SELECT id FROM {table}")) == list(range(100))


def _job(database: TestedDatabase, folder: Path, table: str, interrupt: Callable[[], object]) -> Incarnation:
    """Run a job whose table or login changes after its second epoch."""
    env = in_process(1, flott__epoch__max_records="10", restart_strategy__type="none")
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")
    rows = numbers.map(lambda number: (number, f"name {number}", number / 2), output_type=RECORDS)
    rows.sink_to(database.builder(table).build()).uid("sink")

    def on_step(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 2):
            interrupt()

    return live(env, folder, on_step=on_step, clock=SystemClock())


def test_a_password_that_expires_while_the_job_runs_is_an_error_that_says_so(
    database: TestedDatabase, tmp_path: Path
) -> None:
    role = f"short_lived_{uuid4().hex[:8]}"
    database.run(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'valid-for-now'")
    logged_in = replace(database, options=replace(database.options, user_name=role, password="valid-for-now"))
    table = database.new_table()

    def expire() -> None:
        database.run(f"ALTER ROLE {role} VALID UNTIL '2001-01-01'")
        database.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)

    failure = str(_job(logged_in, tmp_path / "job", table, expire).failure)
    assert "password authentication failed" in failure
    assert "valid-for-now" not in failure
    assert len(database.content(table)) == 20, "what was committed stays, and nothing else is there"


def test_a_job_waits_for_a_column_that_was_dropped_and_says_so(database: TestedDatabase, tmp_path: Path) -> None:
    table = database.new_table()
    warnings: list[str] = []

    class Repair(logging.Handler):
        """Gives the table its column back when the job has said that it cannot commit."""

        def emit(self, record: logging.LogRecord) -> None:
            if "could not commit checkpoint" in record.getMessage():
                warnings.append(record.getMessage())
                database.run(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS amount DOUBLE PRECISION")

    handler = Repair(logging.WARNING)
    logging.getLogger("flott.job").addHandler(handler)
    try:
        job = _job(database, tmp_path / "job", table, lambda: database.run(f"ALTER TABLE {table} DROP COLUMN amount"))
    finally:
        logging.getLogger("flott.job").removeHandler(handler)
    assert job.failure is None, job.failure
    assert "amount" in warnings[0]
    assert "the job waits" in warnings[0]
    assert sorted(found[0] for found in database.run(f"SELECT id FROM {table}")) == list(range(100))
    assert database.run(f"SELECT count(amount) FROM {table}") == [(80,)]


def test_values_keep_their_types(database: TestedDatabase) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    table = database.new_table(
        "a SMALLINT, b NUMERIC, c TIMESTAMPTZ, d DATE, e BYTEA, f JSONB, g INTEGER[], h BOOLEAN, i TEXT"
    )
    moment = datetime(2026, 5, 4, 3, 2, 1, 7, tzinfo=UTC)
    value = (
        7,
        Decimal("1.50"),
        moment,
        date(2026, 5, 4),
        b"\0\1\xff",
        {"k": [1, None]},
        [1, 2],
        True,
        "tab\tnew\nline\\N",
    )
    sink = checked(database.builder(table).build(), None)
    committables = staged(sink, [value, (None,) * 9], context(record_type=None))
    committer_of(sink).commit(commit_permit(1, 0), committables)
    assert database.run(f"SELECT * FROM {table} ORDER BY a") == [value, (None,) * 9]
    with pytest.raises(ConnectorError, match=r"out of range.*The row is \(70000, "):
        staged(sink, [(1, *value[1:]), (70000, *value[1:])], context(epoch=2, record_type=None))


def test_column_types_of_a_created_table(database: TestedDatabase) -> None:
    record_type = Types.ROW_NAMED(
        ["id", "text", "flag", "number", "moment"],
        [Types.LONG(), Types.STRING(), Types.BOOLEAN(), Types.BIG_DEC(), Types.INSTANT()],
    )
    checked(database.builder("made").upsert("id").create_table_if_missing().build(), record_type)
    found = database.run(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_name = 'made' ORDER BY ordinal_position"
    )
    assert found == [
        ("id", "bigint"),
        ("text", "text"),
        ("flag", "boolean"),
        ("number", "numeric"),
        ("moment", "timestamp with time zone"),
    ]


def test_a_server_without_room_fails_the_epoch_and_delays_the_commit(database: TestedDatabase) -> None:
    """Lets a trigger answer as a server does whose disk is full."""
    table = database.new_table()
    sink = checked(database.builder(table).build())
    committables = staged(sink, [row(1)])
    database.run(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
    )
    database.run(f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} EXECUTE FUNCTION full_disk()")
    direct = checked(database.builder(table).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build())
    with pytest.raises(ConnectorError, match=r"no room: .*No space left.*Make room on the server"):
        staged(direct, [row(2)])
    committer = committer_of(sink)
    with pytest.raises(ConnectorError, match=r"no room"):  # not StateError: the job tries again
        committer.commit(commit_permit(1, 0), committables)
    database.run(f"DROP TRIGGER full_disk ON {table}")
    committer.commit(commit_permit(1, 0), committables)
    committer.close()
    assert database.content(table) == [(1, "name 1", 0.5)]


def test_a_statement_that_takes_too_long_says_which_setting_to_change(database: TestedDatabase) -> None:
    table = database.new_table()
    options = replace(database.options, statement_timeout_seconds=1)
    sql = f"INSERT INTO {table} SELECT ?, ?, ? FROM pg_sleep(20)"
    sink = JdbcSink.sink(sql, RECORDS, options)
    with pytest.raises(ConnectorError, match=r"longer than it may.*Raise with_statement_timeout_seconds"):
        staged(sink, [row(1)])


def test_a_transaction_prepared_after_the_cleaning_is_undone_later(database: TestedDatabase) -> None:
    sink = checked(database.builder(database.new_table()).commit_by(CommitBy.PREPARED_TRANSACTION).build())
    committer = committer_of(sink)
    committer.discard(frozenset())
    (zombie,) = staged(sink, [row(0)], context(epoch=1, attempt="zombie"))
    for epoch in range(2, 2 + SWEEP_EVERY):
        committer.commit(commit_permit(epoch, 0), staged(sink, [row(epoch)], context(epoch=epoch)))
    committer.close()
    left = database.run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
    assert (zombie["transaction"],) not in left
    assert left == []
