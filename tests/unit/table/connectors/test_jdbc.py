"""Tables of databases, with SQLite: read in ranges, looked up, appended to and changed by key."""

from __future__ import annotations

import pickle
import sqlite3
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flott.errors import ProgramError
from flott.table._connectors.registry import can_look_up, lookup_source
from flott.table._connectors.table_source import ChangelogMode
from flott.table._types import logical as types
from flott.table._types.arrow import arrow_schema
from tests.unit.table.connectors.tables import declared, rows_of, sink_of, source_of, write

COLUMNS = {
    "id": types.INT, "name": types.STRING, "price": types.DecimalType(10, 2), "at": types.TimestampType(3),
    "seen": types.LocalZonedTimestampType(3), "day": types.DATE, "noon": types.TIME, "good": types.BOOLEAN,
    "order": types.DOUBLE,
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "name": "Ada", "price": Decimal("1.50"), "at": datetime(2026, 1, 31, 12, 30),
        "seen": datetime(2026, 1, 31, 12, 30, tzinfo=UTC), "day": date(2026, 1, 31), "noon": time(12, 0),
        "good": True, "order": 0.5,
    },
    {**dict.fromkeys(COLUMNS), "id": 2},
]  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            'CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, price TEXT, at TEXT, seen TEXT, day TEXT,'
            ' noon TEXT, good BOOLEAN, "order" REAL)'
        )
    return str(path)


def options(database: str, **more: str) -> dict[str, str]:
    return {"connector": "jdbc", "url": f"jdbc:sqlite:{database}", "table-name": "things", **more}


def batch(rows: list[dict[str, Any]], columns: dict[str, Any] = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(list(columns), list(columns.values())))


def test_rows_are_appended_and_read_again(database: str) -> None:
    table = declared(COLUMNS, options(database))
    assert sink_of(table).accepts is ChangelogMode.INSERT_ONLY
    write(sink_of(table), batch(ROWS))
    assert rows_of(source_of(table)) == ROWS
    assert rows_of(source_of(table).projected(("order", "id"))) == [
        {"order": row["order"], "id": row["id"]} for row in ROWS
    ]


def test_rows_are_changed_by_key(database: str) -> None:
    columns = {"id": types.INT, "name": types.STRING}
    table = declared(columns, options(database), key=("id",))
    sink = sink_of(table)
    assert (sink.accepts, sink.key) == (ChangelogMode.UPSERT, ("id",))
    write(sink, batch([{"id": n, "name": f"old {n}"} for n in range(3)], columns))
    changes = [{"id": 0, "name": "new"}, {"id": 1, "name": "old 1"}, {"id": 5, "name": "more"}]
    write(sink, batch(changes, columns), [2, 3, 0], epoch=2)
    assert rows_of(source_of(table)) == [
        {"id": 0, "name": "new"},
        {"id": 2, "name": "old 2"},
        {"id": 5, "name": "more"},
    ]


def test_ranges_of_a_column_are_read_in_parallel(database: str) -> None:
    columns = {"id": types.INT, "name": types.STRING}
    write(sink_of(declared(columns, options(database))), batch([{"id": n, "name": "x"} for n in range(50)], columns))
    more = {
        "scan.partition.column": "id", "scan.partition.num": "4", "scan.partition.lower-bound": "10",
        "scan.partition.upper-bound": "30",
    }  # fmt: skip
    table = declared(columns, options(database, **more))
    found = rows_of(source_of(table).projected(("id",)), parallelism=2, restart=True)
    assert sorted(row["id"] for row in found) == list(range(50))
    assert len(rows_of(source_of(table).projected(("name",)), parallelism=2)) == 50


@pytest.mark.parametrize("cache", [{}, {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "10"}])
def test_rows_are_looked_up_by_key(database: str, cache: dict[str, str]) -> None:
    columns = {"id": types.INT, "name": types.STRING}
    table = declared(columns, options(database, **cache))
    assert can_look_up(table.options)
    rows = [{"id": n, "name": f"name {n % 2}"} for n in range(4)]
    write(sink_of(table), batch(rows, columns))
    open_client = pickle.loads(pickle.dumps(lookup_source(table).make(("id",))))
    lookup = open_client()
    keys = pa.record_batch({"id": pa.array([2, None, 99, 2], pa.int32())})
    assert lookup(keys).to_pylist() == [rows[2]]
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE things SET name = 'changed' WHERE id = 2")
    assert lookup(keys).to_pylist() == [rows[2] if cache else {"id": 2, "name": "changed"}]
    by_both = lookup_source(table).make(("name", "id"))()
    two = pa.record_batch({"name": ["name 1", "name 1"], "id": pa.array([3, 2], pa.int32())})
    assert by_both(two).to_pylist() == [rows[3]]
    several = lookup_source(table).make(("name",))()(pa.record_batch({"name": ["name 1"]}))
    assert several.to_pylist() == [rows[1], rows[3]]


def test_partitions_are_declared_completely(database: str) -> None:
    with pytest.raises(ProgramError, match="together"):
        source_of(declared(COLUMNS, options(database, **{"scan.partition.column": "id"})))


def test_the_password_is_not_shown(database: str) -> None:
    table = declared(COLUMNS, options(database, username="u", password="hidden-word"))
    assert "hidden-word" not in repr(source_of(table).build()) + repr(sink_of(table).make())
    with pytest.raises(ProgramError) as caught:
        source_of(declared(COLUMNS, options(database, password="hidden-word", tabel="x")))
    assert "hidden-word" not in str(caught.value)
