"""A real PostgreSQL for the tests of this folder, and an empty database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flott.datastream.connectors.jdbc import JdbcConnectionOptions
from flott.runtime.connectors.jdbc.connection import POOL
from tests.connectors.databases import TestedDatabase
from tests.servers.postgres import PASSWORD, USER, PostgresServer, shared_postgres
from tests.servers.process import NoServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """The server that tests share."""
    pytest.importorskip("psycopg", reason="no client: pip install 'flott[postgres]'")
    try:
        with shared_postgres() as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture
def database(server: PostgresServer) -> Iterator[TestedDatabase]:
    yield database_of(server)
    POOL.close()  # the connections to this database are of no use to other tests


def database_of(server: PostgresServer) -> TestedDatabase:
    """Create a database in a server."""
    name = server.new_database()

    def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return server.execute(statement, *values, database=name)

    return TestedDatabase(JdbcConnectionOptions(server.url(name), USER, PASSWORD), run, PASSWORD)
