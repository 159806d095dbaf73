"""What goes wrong: the server, its settings, the slot. Each is a sentence that says what to do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from flott.common.time import Duration
from flott.datastream.connectors.base import OnError, SliceRequest
from flott.datastream.connectors.cdc import StartupOptions
from flott.errors import BadRecordError, ConnectorError, ProgramError, StateError
from flott.runtime.connectors.cdc import postgres_slot
from tests.connectors.change_capture import Epochs
from tests.servers.postgres import PASSWORD, postgres_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors  # servers are started, stopped and stalled: that takes a minute

REQUEST = SliceRequest(max_records=100, parallelism=1, now_ms=0)


def opened(source):
    enumerator = source.create_enumerator()
    enumerator.open()
    return enumerator


def test_a_wrong_password_is_an_error_of_the_program_and_not_shown(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = database.builder("public.t").password("not-the-secret").build()
    assert "not-the-secret" not in repr(source)
    with pytest.raises(ProgramError, match="password authentication failed") as error:
        opened(source)
    assert "not-the-secret" not in str(error.value)


def test_an_unknown_database_is_an_error_of_the_program(database):
    with pytest.raises(ProgramError, match="does not exist"):
        opened(database.builder("public.t").database("nowhere").build())


def test_a_server_that_is_down_is_worth_another_try(database):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        source = database.builder("public.t").port(free.getsockname()[1]).build()
        with pytest.raises(ConnectorError, match="the connection failed"):
            opened(source)


@pytest.mark.parametrize(
    ("tables", "said"),
    [(("public.missing",), "matches no table"), (("public.t", "public.x.*"), "'public.x.*' matches no table")],
)
def test_a_table_that_does_not_exist_is_named(database, execute, tables, said):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(ProgramError, match=said):
        opened(database.builder(*tables).build())


def test_a_table_without_a_key_is_refused_because_its_updates_would_fail(database, execute):
    execute("CREATE TABLE t (id int)")
    with pytest.raises(ProgramError, match="REPLICA IDENTITY FULL"):
        opened(database.builder("public.t").build())
    execute("ALTER TABLE t REPLICA IDENTITY FULL")
    execute("INSERT INTO t VALUES (1), (1)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("DELETE FROM t")
    job.run()
    assert [str(row.get_row_kind()) for row in job.output] == ["+I", "+I", "-D", "-D"]


def test_a_role_without_rights_is_told_which_it_needs(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    execute(f"CREATE ROLE poor_{database.name} LOGIN PASSWORD 'poor'")
    builder = database.builder("public.t").username(f"poor_{database.name}").password("poor")
    with pytest.raises(ProgramError, match="GRANT SELECT"):
        opened(builder.build())
    execute(f"GRANT SELECT ON t TO poor_{database.name}")
    execute(f"CREATE PUBLICATION ready_{database.name} FOR TABLE t")
    with pytest.raises(ProgramError, match="REPLICATION"):
        opened(builder.publication_name(f"ready_{database.name}").build()).plan(REQUEST)


def test_a_publication_must_have_the_tables_whole(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    execute("CREATE PUBLICATION half FOR TABLE t (id)")
    with pytest.raises(ProgramError, match="column list"):
        opened(database.builder("public.t").publication_name("half").build()).plan(REQUEST)
    execute("CREATE PUBLICATION inserts FOR TABLE t WITH (publish = 'insert')")
    with pytest.raises(ProgramError, match="does not publish inserts, updates and deletes"):
        opened(database.builder("public.t").publication_name("inserts").build()).plan(REQUEST)
    execute("CREATE PUBLICATION everything FOR ALL TABLES")
    opened(database.builder("public.t").publication_name("everything").build()).plan(REQUEST)


def test_a_slot_that_is_gone_or_beyond_the_checkpoint_is_noticed(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("INSERT INTO t VALUES (1)")
    job.run()
    old = job.state
    execute("INSERT INTO t VALUES (2)")
    job.run()
    with pytest.raises(StateError, match="Restore the latest"):
        Epochs(job.source, state=old, acknowledges=lambda: False).run()
    execute(f"ALTER PUBLICATION {job.source.publication} RENAME TO renamed")
    with pytest.raises(StateError, match="publication"):
        job.step()
    execute(f"ALTER PUBLICATION renamed RENAME TO {job.source.publication}")
    job.source.drop_slot()
    with pytest.raises(StateError, match="does not exist any more"):
        Epochs(job.source, state=job.state, acknowledges=lambda: False).run()
    assert execute("SELECT count(*) FROM pg_publication") == [(0,)]


def test_the_state_of_another_server_is_refused(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    other = job.state.replace('"system": "', '"system": "7')
    with pytest.raises(StateError, match="another database server"):
        Epochs(job.source, state=other, acknowledges=lambda: False).run()


def test_committed_needs_a_slot(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(ProgramError, match="no such slot"):
        opened(database.builder("public.t").startup_options(StartupOptions.committed()).build()).plan(REQUEST)


def test_a_slot_that_another_reader_holds_is_an_error_after_a_while(database, execute, monkeypatch):
    monkeypatch.setattr(postgres_slot, "BUSY_PATIENCE_S", 0.3)
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("INSERT INTO t VALUES (1)")
    with _holding(database, job.source.slot), pytest.raises(ConnectorError, match="in use by another session"):
        job.step()
    job.run()
    assert [row.id for row in job.output] == [1]


class _holding:
    """Reads a slot by the replication protocol, as another consumer does."""

    def __init__(self, database, slot, **options):
        psycopg2 = pytest.importorskip("psycopg2")
        extras = pytest.importorskip("psycopg2.extras")
        dsn = database.server.dsn(database.name, **options)
        self._connection = psycopg2.connect(dsn, connection_factory=extras.LogicalReplicationConnection)
        self._cursor = self._connection.cursor()
        options = {"proto_version": "1", "publication_names": f"{slot}_publication"}
        self._cursor.start_replication(slot_name=slot, options=options, decode=False)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._connection.close()
        time.sleep(0.2)


def test_a_session_of_a_task_that_nobody_waits_for_is_ended(database, execute, monkeypatch):
    monkeypatch.setattr(postgres_slot, "BUSY_PATIENCE_S", 0.3)
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("INSERT INTO t VALUES (1)")
    with _holding(database, job.source.slot, application_name=f"flott-cdc-{job.source.slot}"):
        job.run(until=lambda: bool(job.output))
    assert [row.id for row in job.output] == [1]


def test_values_that_python_cannot_represent_follow_on_error(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, d date)")
    execute("INSERT INTO t VALUES (1, 'infinity'), (2, '2024-01-01')")
    with pytest.raises(BadRecordError, match=r"public\.t"):
        Epochs(database.builder("public.t").build()).run()
    job = Epochs(database.builder("public.t").on_error(OnError.skip()).build())
    job.run()
    execute("INSERT INTO t VALUES (3, 'infinity'), (4, '2024-01-01')")
    job.run()
    assert [row.id for row in job.output] == [2, 4]


def test_an_idle_source_lets_the_server_remove_its_log(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    execute("CREATE TABLE other (id serial, v text)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    before = job.epochs
    for _ in range(20):
        execute("INSERT INTO other (v) VALUES ('x')")
        job.step()
    assert job.epochs <= before + 1  # one may end the snapshot phase
    job.now_ms += 31_000
    execute("INSERT INTO other (v) VALUES ('x')")
    job.run()
    (confirmed,) = execute(
        "SELECT pg_current_wal_flush_lsn() - confirmed_flush_lsn < 2000 FROM pg_replication_slots WHERE slot_name = %s",
        job.source.slot,
    )[0]
    assert confirmed
    assert job.output == []


def test_a_truncated_table_fails_a_changelog_of_rows_unless_it_is_to_be_ignored(database, execute):
    from flott.datastream.connectors.postgres_cdc import ChangelogRowDeserializer

    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("TRUNCATE t")
    execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ProgramError, match="ignore_truncate"):
        job.run()
    job.die()
    job.source = database.builder("public.t").deserializer(ChangelogRowDeserializer(ignore_truncate=True)).build()
    job.run()
    assert [row.id for row in job.output] == [1]


class Proxy:
    """Forwards to a server until it is told to stall."""

    def __init__(self, port: int):
        self._target, self._listener = port, socket.create_server(("127.0.0.1", 0))
        self.port, self.stalled = self._listener.getsockname()[1], threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self.stalled.is_set():
                    continue
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                end.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


def test_a_connection_that_went_silent_is_cut_and_the_job_continues(database, execute, proxy):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    builder = database.builder("public.t").port(proxy.port).request_timeout(Duration.of_millis(300))
    job = Epochs(builder.connect_timeout(Duration.of_seconds(2)).build())
    job.run()
    proxy.stalled.set()
    with pytest.raises(ConnectorError):
        job.enumerator.plan(REQUEST)
    proxy.stalled.clear()
    execute("INSERT INTO t VALUES (1)")
    job.run()
    assert [row.id for row in job.output] == [1]


@pytest.mark.connectors
def test_a_server_without_logical_decoding_is_refused():
    try:
        with postgres_server({"wal_level": "replica"}) as server:
            from tests.connectors.postgres_cdc.conftest import Database

            database = Database(server)
            database.execute("CREATE TABLE t (id int PRIMARY KEY)")
            with pytest.raises(ProgramError, match="wal_level=logical"):
                opened(database.builder("public.t").build())
            job = Epochs(database.builder("public.t").startup_options(StartupOptions.snapshot()).build())
            job.run()
            assert job.finished
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.mark.connectors
def test_a_slot_whose_log_the_server_removed_is_lost():
    settings = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "wal_keep_size": "0", "min_wal_size": "32MB"}
    try:
        with postgres_server(settings) as server:
            from tests.connectors.postgres_cdc.conftest import Database

            database = Database(server)
            database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            job = Epochs(database.builder("public.t").build())
            job.run()
            for i in range(8):
                database.execute(f"INSERT INTO t SELECT g, repeat('x', 900) FROM generate_series({i}0000, {i}9999) g")
                database.execute("SELECT pg_switch_wal()")
                database.execute("CHECKPOINT")
            job.die()
            job.acknowledges = lambda: False
            with pytest.raises(StateError, match="max_slot_wal_keep_size"):
                job.run()
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.mark.connectors
def test_tls_is_used_and_a_wrong_certificate_refused(tmp_path):
    try:
        with postgres_server(tls=True) as server:
            from tests.connectors.postgres_cdc.conftest import Database

            database = Database(server)
            database.execute("CREATE TABLE t (id int PRIMARY KEY)")
            database.execute("INSERT INTO t VALUES (1)")
            builder = database.builder("public.t").property("sslmode", "verify-full")
            job = Epochs(builder.property("sslrootcert", str(server.certificate)).build())
            job.run()
            assert [row.id for row in job.output] == [1]
            wrong = tmp_path / "wrong.crt"
            wrong.write_text(server.certificate.read_text()[:300])
            with pytest.raises((ProgramError, ConnectorError)) as error:
                opened(builder.property("sslrootcert", str(wrong)).build())
            assert PASSWORD not in str(error.value)
    except NoServer as reason:
        pytest.skip(str(reason))
