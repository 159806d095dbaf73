"""A real PostgreSQL server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flott.datastream.connectors.postgres_cdc import PostgresSource, PostgresSourceBuilder
from tests.servers.postgres import PASSWORD, USER, PostgresServer, postgres_server
from tests.servers.process import NoServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """The server that tests share: each has a database of its own, and none stops it."""
    pytest.importorskip("psycopg", reason="no client: pip install 'flott[postgres]'")
    try:
        with postgres_server() as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


class Database:
    """A database of one test."""

    def __init__(self, server: PostgresServer):
        self.server, self.name = server, server.new_database()
        self.connection = self.connect()

    def connect(self, **options: Any) -> Any:
        import psycopg

        return psycopg.connect(self.server.dsn(self.name), **{"autocommit": True, **options})

    def execute(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement.encode(), arguments or None)
        return cursor.fetchall() if cursor.description else []

    def builder(self, *tables: str) -> PostgresSourceBuilder:
        builder = PostgresSource.builder().hostname("127.0.0.1").port(self.server.port).database(self.name)
        return builder.username(USER).password(PASSWORD).table_list(*tables).slot_name(f"slot_{self.name}")

    def close(self) -> None:
        self.connection.close()
        self.server.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active",
            self.name,
        )
        self.server.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", self.name
        )


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    made = Database(server)
    yield made
    made.close()


@pytest.fixture
def execute(database: Database) -> Callable[..., list[tuple[Any, ...]]]:
    return database.execute
