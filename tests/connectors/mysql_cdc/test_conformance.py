"""The promises that every source makes, for both phases of this one."""

from __future__ import annotations

from typing import Any

import pytest

from flott.datastream.connectors.base import Source
from flott.datastream.connectors.mysql_cdc import StartupOptions
from flott.testing.connectors import SourceConformance
from tests.servers.mariadb import PASSWORD

pytestmark = pytest.mark.connectors


class _Captured(SourceConformance):
    """Every source has a table of its own."""

    seeds = 3
    secrets = (PASSWORD,)
    tables = 0

    @pytest.fixture(autouse=True)
    def _in(self, database: Any) -> None:
        self.database = database

    def number(self, record: Any) -> int:
        return int(record.id)

    def _new(self) -> str:
        self.tables += 1
        name = f"t{self.tables}"
        self.database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
        return name


class TestTheSnapshot(_Captured):
    """All records are rows."""

    ordered = False

    def source(self, count: int) -> Source[Any]:
        name = self._new()
        self.database.execute(f"INSERT INTO {name} SELECT seq FROM seq_0_to_{count - 1}")
        return self.database.builder(name).split_size(7).build()


class TestTheLog(_Captured):
    """All records are changes, in transactions of different sizes and in several files."""

    def source(self, count: int) -> Source[Any]:
        name = self._new()
        file, position = self.database.execute("SHOW MASTER STATUS")[0][:2]
        for first in range(0, count, 3):
            rows = ", ".join(f"({key})" for key in range(first, min(first + 3, count)))
            self.database.execute(f"INSERT INTO {name} VALUES {rows}")
            if first % 9 == 0:
                self.database.execute("FLUSH BINARY LOGS")
        return self.database.builder(name).startup_options(StartupOptions.specific_offset(file, position)).build()
