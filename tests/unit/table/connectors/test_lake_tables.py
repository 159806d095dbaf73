"""Delta and Iceberg tables: what is written is read again, rows are replaced by key, partitions are kept."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flott.errors import ProgramError
from flott.table._connectors.table_source import ChangelogMode
from flott.table._types import logical as types
from flott.table._types.arrow import arrow_schema
from tests.unit.table.connectors.tables import declared, rows_of, sink_of, source_of, write

COLUMNS = {
    "id": types.BIGINT, "name": types.STRING, "price": types.DecimalType(10, 2),
    "at": types.LocalZonedTimestampType(6), "country": types.STRING,
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"id": n, "name": f"n{n}", "price": Decimal("1.50"), "at": datetime(2026, 1, 31, tzinfo=UTC), "country": c}
    for n, c in enumerate(["de", "fr", "de"])
]


@pytest.fixture(params=["delta", "iceberg"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "delta":
        pytest.importorskip("deltalake", reason="no Delta library: pip install 'flott[delta]'")
        return {"connector": "delta", "table-path": str(tmp_path / "t")}
    pytest.importorskip("pyiceberg", reason="no Iceberg library: pip install 'flott[iceberg]'")
    pytest.importorskip("sqlalchemy", reason="no catalog in a file: pip install sqlalchemy")
    return {
        "connector": "iceberg", "catalog-type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse", "catalog-database": "shop", "catalog-table": "things",
    }  # fmt: skip


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(list(COLUMNS), list(COLUMNS.values())))


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def test_rows_are_appended_and_read_again(options: dict[str, str]) -> None:
    table = declared(COLUMNS, options, partitioned_by=("country",))
    write(sink_of(table), batch(ROWS))
    write(sink_of(table), batch([{**ROWS[0], "id": 9}]), epoch=2)
    assert by_id(rows_of(source_of(table))) == [*ROWS, {**ROWS[0], "id": 9}]
    some = rows_of(source_of(table).projected(("country", "id")))
    assert by_id(some)[1] == {"country": "fr", "id": 1}


def test_rows_are_replaced_and_deleted_by_key(options: dict[str, str]) -> None:
    table = declared(COLUMNS, options, key=("id",))
    assert sink_of(table).accepts is ChangelogMode.UPSERT
    write(sink_of(table), batch(ROWS))
    write(sink_of(table), batch([{**ROWS[0], "name": "new"}, ROWS[1]]), [2, 3], epoch=2)
    assert by_id(rows_of(source_of(table))) == [{**ROWS[0], "name": "new"}, ROWS[2]]


def test_wrong_options_are_named() -> None:
    table = declared(COLUMNS, {"connector": "delta", "table-path": "/t", "versionAsOf": "1", "timestampAsOf": "x"})
    with pytest.raises(ProgramError, match="set one of"):
        source_of(table)
    with pytest.raises(ProgramError, match="Did you mean 'warehouse'"):
        source_of(declared(COLUMNS, {"connector": "iceberg", "warehose": "x"}))
