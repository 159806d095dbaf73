"""What goes wrong: the server, its settings, its log. Each is a sentence that says what to do."""

from __future__ import annotations

import socket
import time

import pytest

from flott.datastream.connectors.base import SliceRequest
from flott.datastream.connectors.mysql_cdc import ChangelogRowDeserializer, StartupOptions
from flott.errors import ConnectorError, ProgramError, StateError
from tests.connectors.change_capture import Epochs
from tests.connectors.mysql_cdc.conftest import Database
from tests.servers.mariadb import PASSWORD, mariadb_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors

REQUEST = SliceRequest(max_records=100, parallelism=1, now_ms=0)


def opened(source):
    enumerator = source.create_enumerator()
    enumerator.open()
    return enumerator


def test_a_wrong_password_is_an_error_of_the_program_and_not_shown(database):
    source = database.builder("t").password("not-the-secret").build()
    assert "not-the-secret" not in repr(source)
    with pytest.raises(ProgramError, match="Access denied") as error:
        opened(source)
    assert "not-the-secret" not in str(error.value)


def test_a_server_that_is_down_is_worth_another_try(database):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectorError, match="the connection failed"):
            opened(database.builder("t").port(free.getsockname()[1]).build())


def test_a_table_that_does_not_exist_is_named(database):
    with pytest.raises(ProgramError, match="matches no table"):
        opened(database.builder("missing").build())


def test_a_user_without_rights_is_told_which_it_needs(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    execute(f"CREATE USER 'poor{database.name}'@'127.0.0.1' IDENTIFIED BY 'poor'")
    execute(f"GRANT SELECT ON {database.name}.* TO 'poor{database.name}'@'127.0.0.1'")
    source = database.builder("t").username(f"poor{database.name}").password("poor").build()
    with pytest.raises(ProgramError, match="REPLICATION SLAVE"):
        opened(source).plan(REQUEST)


def test_a_log_that_was_purged_is_noticed(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("t").build())
    job.run()
    execute("INSERT INTO t VALUES (1)")
    execute("FLUSH BINARY LOGS")
    execute("FLUSH BINARY LOGS")
    last = execute("SHOW MASTER STATUS")[0][0]
    deadline = time.monotonic() + 60
    while execute("SHOW BINARY LOGS")[0][0] != last and time.monotonic() < deadline:
        execute(f"PURGE BINARY LOGS TO '{last}'")  # it keeps files that it may need for its own recovery, for a while
        time.sleep(0.1)
    job.die()
    with pytest.raises(StateError, match="does not have binlog"):
        job.run()


def test_the_state_of_another_server_is_refused(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("t").build())
    job.run()
    with pytest.raises(StateError, match="another server"):
        Epochs(job.source, state=job.state.replace('"server": "', '"server": "9')).run()


def test_a_change_that_was_logged_as_a_statement_fails_the_job(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("t").build())
    job.run()
    other = database.connect()
    with other.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("INSERT INTO t VALUES (1)")
    other.close()
    with pytest.raises(ConnectorError, match="a statement where rows are expected"):
        job.run()


def test_a_truncated_table_fails_a_changelog_of_rows_unless_it_is_to_be_ignored(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("t").build())
    job.run()
    execute(f"TRUNCATE TABLE `{database.name}`.`t`")
    execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ProgramError, match="ignore_truncate"):
        job.run()
    job.die()
    job.source = database.builder("t").deserializer(ChangelogRowDeserializer(ignore_truncate=True)).build()
    job.run()
    assert [row.id for row in job.output] == [1]


def test_a_server_that_does_not_log_rows_is_refused():
    try:
        with mariadb_server({"binlog-row-metadata": "MINIMAL", "binlog-row-image": "MINIMAL"}) as server:
            database = Database(server)
            database.execute("CREATE TABLE t (id int PRIMARY KEY)")
            with pytest.raises(ProgramError, match="binlog_row_image=FULL, binlog_row_metadata=FULL"):
                opened(database.builder("t").build())
            job = Epochs(database.builder("t").startup_options(StartupOptions.snapshot()).build())
            job.run()
            assert job.finished
    except NoServer as reason:
        pytest.skip(str(reason))


def test_tls_is_used_for_tables_and_log():
    try:
        with mariadb_server(tls=True) as server:
            database = Database(server)
            database.execute("CREATE TABLE t (id int PRIMARY KEY)")
            database.execute("INSERT INTO t VALUES (1)")
            builder = database.builder("t").property("ssl_ca", str(server.certificate))
            job = Epochs(builder.property("ssl_verify_cert", "true").build())
            job.run()
            database.execute("INSERT INTO t VALUES (2)")
            job.run()
            assert [row.id for row in job.output] == [1, 2]
            assert PASSWORD not in repr(job.source)
    except NoServer as reason:
        pytest.skip(str(reason))
