"""MariaDB: what a job says and does when the server, the network or the credentials fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flott.datastream.connectors.jdbc import CommitBy
from flott.errors import ConnectorError, ProgramError, StateError
from flott.runtime.connectors.jdbc.connection import POOL
from flott.testing.sinks import commit_permit
from tests.connectors.databases import TestedDatabase, checked, committer_of, context, row, staged, written
from tests.connectors.mariadb.conftest import database_of
from tests.servers.mariadb import MariaDBServer, mariadb_server
from tests.servers.process import NoServer, free_port
from tests.servers.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.connectors


@pytest.fixture
def own_server() -> Iterator[MariaDBServer]:
    """A server that the test may kill."""
    try:
        with mariadb_server() as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))
    finally:
        POOL.close()


def test_wrong_passwords_and_absent_servers_are_found_before_anything_runs(database: TestedDatabase) -> None:
    table = database.new_table()
    wrong = replace(database, options=replace(database.options, password="wrong-and-secret"))
    with pytest.raises(ProgramError, match=r"refuses the user or the database.*Access denied") as caught:
        checked(wrong.builder(table).build())
    assert "wrong-and-secret" not in str(caught.value)
    (_, port), *_ = database.options.address.hosts
    url = database.options.url.replace(f":{port}/", f":{free_port()}/")
    with pytest.raises(ProgramError, match=r"the connection is lost.*Check that the server runs"):
        checked(replace(database, options=replace(database.options, url=url)).builder(table).build())


@pytest.mark.parametrize("way", list(CommitBy))
def test_a_server_that_is_killed_between_prepare_and_commit_loses_nothing(
    own_server: MariaDBServer, way: CommitBy
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
    written(sink, [row(3)], epoch=2)
    assert len(database.content(table)) == 3
    committer.close()


def test_a_prepared_transaction_that_was_rolled_back_by_hand_stops_the_job(database: TestedDatabase) -> None:
    sink = checked(database.builder(database.new_table()).commit_by(CommitBy.PREPARED_TRANSACTION).build())
    (committable,) = staged(sink, [row(1), row(2)])
    database.run(f"XA ROLLBACK '{committable['transaction']}','',70776")
    with pytest.raises(StateError, match=r"epoch 1 \(2 records\) belongs to a completed checkpoint"):
        committer_of(sink).commit(commit_permit(1, 0), [committable])


def test_a_network_that_stalls_ends_in_an_error_instead_of_a_hang(database: TestedDatabase) -> None:
    table = database.new_table()
    (_, port), *_ = database.options.address.hosts
    with tcp_proxy(("127.0.0.1", port)) as proxy:
        url = database.options.url.replace(f":{port}/", f":{proxy.port}/")
        options = replace(database.options, url=url, connect_timeout_seconds=2, statement_timeout_seconds=1)
        sink = checked(replace(database, options=options).builder(table).build())
        committables = staged(sink, [row(1)])
        proxy.stall()
        committer = committer_of(sink)
        with pytest.raises(ConnectorError, match="the connection is lost"):
            committer.commit(commit_permit(1, 0), committables)
        proxy.resume()
        committer.commit(commit_permit(1, 0), committables)
        committer.close()
        POOL.close()
    assert database.content(table) == [(1, "name 1", 0.5)]


def test_tls() -> None:
    try:
        with mariadb_server(tls=True) as running:
            database = database_of(running)
            table = database.new_table()
            url = f"{database.options.url}?sslMode=VERIFY_CA&sslCa={running.certificate}"
            secure = replace(database, options=replace(database.options, url=url))
            written(checked(secure.builder(table).build()), [row(1)], epoch=1)
            assert database.content(table) == [(1, "name 1", 0.5)]
            assert staged(checked(secure.builder(table).build()), [], context(2)) == []
            POOL.close()
    except NoServer as reason:
        pytest.skip(str(reason))
