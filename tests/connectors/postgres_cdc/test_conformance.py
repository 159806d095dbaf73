"""The promises that every source makes, for both phases of this one."""

from __future__ import annotations

from typing import Any

import pytest

from flott.datastream.connectors.base import OnError, Source
from flott.datastream.connectors.postgres_cdc import StartupOptions
from flott.testing.connectors import SourceConformance
from tests.servers.postgres import PASSWORD


class _Captured(SourceConformance):
    """Every source has a table and a slot of its own."""

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
        self.database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, d date)")
        return name

    def _builder(self, name: str) -> Any:
        return self.database.builder(f"public.{name}").slot_name(f"slot_{self.database.name}_{name}")


class TestTheSnapshot(_Captured):
    """All records are rows, which were written after the slot began: the log has them too, and they count once."""

    ordered = False

    def source(self, count: int) -> Source[Any]:
        name = self._new()
        source = self._builder(name).split_size(7).build()
        enumerator = source.create_enumerator()
        enumerator.open()
        self.database.execute(f"CREATE PUBLICATION {source.publication} FOR TABLE {name}")
        self.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", source.slot)
        self.database.execute(f"INSERT INTO {name} SELECT i FROM generate_series(0, {count - 1}) i")
        return source


class TestTheLog(_Captured):
    """All records are changes, in transactions of different sizes."""

    def source(self, count: int) -> Source[Any]:
        return self._filled(count, frozenset(), OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any] | None:
        return self._filled(count, bad, on_error)

    def _filled(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        name = self._new()
        source = self._builder(name).startup_options(StartupOptions.committed()).on_error(on_error).build()
        self.database.execute(f"CREATE PUBLICATION {source.publication} FOR TABLE {name}")
        self.database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", source.slot)
        for first in range(0, count, 3):
            keys = range(first, min(first + 1 + first % 5, first + 3, count))
            rows = ", ".join(f"({key}, {self._date(key in bad)})" for key in keys)
            self.database.execute(f"INSERT INTO {name} VALUES {rows}")
            for key in range(keys.stop, min(first + 3, count)):
                self.database.execute(f"INSERT INTO {name} VALUES ({key}, {self._date(key in bad)})")
        return source

    @staticmethod
    def _date(bad: bool) -> str:
        return "'infinity'" if bad else "'2024-01-01'"
