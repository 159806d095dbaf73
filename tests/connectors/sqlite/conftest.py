"""A database file for each test."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flott.datastream.connectors.jdbc import JdbcConnectionOptions
from tests.connectors.databases import TestedDatabase


@pytest.fixture
def database(tmp_path: Path) -> TestedDatabase:
    path = tmp_path / "test.db"

    def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
            return connection.execute(statement, values).fetchall()

    return TestedDatabase(JdbcConnectionOptions(f"jdbc:sqlite:{path}"), run)
