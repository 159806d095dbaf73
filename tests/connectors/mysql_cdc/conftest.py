"""A real MariaDB server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flott.datastream.connectors.mysql_cdc import MySqlSource, MySqlSourceBuilder
from tests.servers.mariadb import PASSWORD, USER, MariaDBServer, mariadb_server
from tests.servers.process import NoServer


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDBServer]:
    """The server that tests share: each has a database of its own, and none stops it."""
    pytest.importorskip("pymysqlreplication", reason="no client: pip install 'flott[mysql-cdc]'")
    try:
        with mariadb_server() as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


class Database:
    """A database of one test."""

    def __init__(self, server: MariaDBServer):
        self.server, self.name = server, server.new_database()
        self.connection = self.connect()

    def connect(self, **options: Any) -> Any:
        import pymysql

        return pymysql.connect(**self.server.arguments(self.name), **{"autocommit": True, **options})

    def execute(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, arguments or None)
            return list(cursor.fetchall())

    def builder(self, *tables: str) -> MySqlSourceBuilder:
        builder = MySqlSource.builder().hostname("127.0.0.1").port(self.server.port)
        return builder.username(USER).password(PASSWORD).table_list(*(f"{self.name}.{table}" for table in tables))


@pytest.fixture
def database(server: MariaDBServer) -> Iterator[Database]:
    made = Database(server)
    yield made
    made.connection.close()


@pytest.fixture
def execute(database: Database) -> Callable[..., list[tuple[Any, ...]]]:
    return database.execute
