"""datagen, print, blackhole, rows in memory and collect."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flott.datastream.connectors.base import WriterContext
from flott.errors import ProgramError
from flott.table._connectors.collect import CollectColumns
from flott.table._connectors.memory import MemorySource
from flott.table._connectors.table_source import ChangelogMode
from flott.table._types import logical as types
from flott.table._types.arrow import arrow_schema
from flott.table._types.record_types import TableRowTypeInfo
from tests.unit.table.connectors.tables import changes_of, declared, rows_of, sink_of, source_of, write

GENERATED = {
    "id": types.BIGINT,
    "n": types.INT,
    "tiny": types.TINYINT,
    "x": types.DOUBLE,
    "f": types.FLOAT,
    "d": types.DecimalType(38, 4),
    "price": types.DecimalType(6, 2),
    "s": types.STRING,
    "c": types.CharType(5),
    "b": types.VarBinaryType(7),
    "good": types.BOOLEAN,
    "at": types.TimestampType(3),
    "seen": types.LocalZonedTimestampType(6),
    "day": types.DATE,
    "noon": types.TIME,
    "tags": types.ArrayType(types.INT),
    "m": types.MapType(types.STRING, types.INT),
    "bag": types.MultisetType(types.INT),
    "r": types.row_type({"a": types.INT, "b": types.STRING}),
}
OPTIONS = {
    "connector": "datagen", "fields.id.kind": "sequence", "fields.id.start": "10", "fields.id.end": "509",
    "fields.n.min": "-3", "fields.n.max": "3", "fields.s.length": "11", "fields.s.var-len": "true",
    "fields.n.null-rate": "0.5", "fields.price.min": "0", "fields.price.max": "9.5", "fields.tags.element.max": "5",
    "fields.tags.element.min": "4", "fields.at.max-past": "10 s",
}  # fmt: skip


def test_rows_are_of_their_types_and_ranges() -> None:
    source = source_of(declared(GENERATED, OPTIONS))
    assert source.bounded
    assert source.estimated_rows == 500
    rows = rows_of(source)
    assert [row["id"] for row in sorted(rows, key=lambda row: row["id"])] == list(range(10, 510))
    assert {row["n"] for row in rows} == {None, -3, -2, -1, 0, 1, 2, 3}
    assert 150 < sum(row["n"] is None for row in rows) < 350
    assert {len(row["s"]) for row in rows} == set(range(1, 12))
    assert {len(row["c"]) for row in rows} == {5}
    assert {len(row["b"]) for row in rows} == {7}
    assert all(0 <= row["price"] <= Decimal("9.5") for row in rows)
    assert all(len(row["tags"]) == 3 and set(row["tags"]) <= {4, 5} for row in rows)
    assert len({row["at"] for row in rows}) > 100
    assert len({row["r"]["b"] for row in rows}) == 500


def test_a_row_does_not_depend_on_how_the_rows_are_cut() -> None:
    table = declared({key: of for key, of in GENERATED.items() if key not in ("at", "seen", "day")}, {
        key: text for key, text in OPTIONS.items() if "fields.at" not in key
    })  # fmt: skip
    whole = sorted(rows_of(source_of(table)), key=lambda row: row["id"])
    cut = rows_of(source_of(table), max_records=13, parallelism=3, restart=True)
    assert sorted(cut, key=lambda row: row["id"]) == whole
    assert [row["n"] for row in whole] == [
        row["n"] for row in sorted(rows_of(source_of(table).projected(("n", "id"))), key=lambda row: row["id"])
    ]


def test_the_number_of_rows_ends_the_table() -> None:
    options = {"connector": "datagen", "number-of-rows": "7", "rows-per-second": "1000000"}
    assert len(rows_of(source_of(declared({"n": types.INT}, options)))) == 7
    assert not source_of(declared({"n": types.INT}, {"connector": "datagen"})).bounded


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields.m.kind": "random"}, "does not have"),
        ({"fields.n.mim": "1"}, "Did you mean 'min'"),
        ({"fields.n.min": "x"}, "numbers"),
        ({"fields.n.min": "5", "fields.n.max": "4"}, "no range"),
        ({"fields.n.kind": "sequence"}, "fields.n.start"),
        ({"fields.n.kind": "walk"}, "'random' or 'sequence'"),
        ({"rows-per-secnd": "1"}, "Did you mean 'rows-per-second'"),
        ({"fields.n.null-rate": "2"}, "between 0 and 1"),
    ],
)
def test_wrong_settings_of_fields_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        source_of(declared({"n": types.INT}, {"connector": "datagen", **options}))


def test_print_writes_rows_as_java_does() -> None:
    columns = {
        "i": types.INT, "s": types.STRING, "x": types.DOUBLE, "d": types.DecimalType(10, 2),
        "t": types.TimestampType(3), "z": types.LocalZonedTimestampType(3), "day": types.DATE, "good": types.BOOLEAN,
        "tags": types.ArrayType(types.INT), "m": types.MapType(types.STRING, types.INT), "raw": types.BYTES,
        "r": types.row_type({"a": types.INT}),
    }  # fmt: skip
    table = declared(columns, {"connector": "print", "print-identifier": "out"})
    assert sink_of(table).accepts is ChangelogMode.ALL
    rows = [
        {
            "i": 1, "s": "a", "x": 1e10, "d": Decimal("1.50"), "t": datetime(2026, 1, 31, 12, 30),
            "z": datetime(2026, 1, 31, 12, 30, 0, 120000, tzinfo=UTC), "day": date(2026, 1, 31), "good": True,
            "tags": [1, None], "m": [("k", 1)], "raw": b"\x01\xff", "r": {"a": 2},
        },
        dict.fromkeys(columns),
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(list(columns), list(columns.values())))
    assert write(sink_of(table), batch, [1, 3]) == [
        "out> -U[1, a, 1.0E10, 1.50, 2026-01-31T12:30, 2026-01-31T12:30:00.120Z, 2026-01-31, true, [1, null], {k=1},"
        " [1, -1], +I[2]]",
        f"out> -D[{', '.join(['null'] * 12)}]",
    ]


def test_blackhole_takes_every_change() -> None:
    sink = sink_of(declared({"i": types.INT}, {"connector": "blackhole"}))
    assert sink.accepts is ChangelogMode.ALL
    assert write(sink, pa.record_batch({"i": pa.array([1], pa.int32())}), [3]) == []


def test_rows_in_memory_are_columns_with_kinds() -> None:
    data = pa.table({"s": ["a", None, "c"]})
    source = MemorySource(data, TableRowTypeInfo(["s"], [types.STRING]), bytes([0, 1, 2]))
    expected = [(0, {"s": "a"}), (1, {"s": None}), (2, {"s": "c"})]
    assert changes_of(source, max_records=2, restart=True) == expected
    assert changes_of(pickle.loads(pickle.dumps(source))) == expected


def test_collected_batches_come_to_the_driver() -> None:
    seen: list[object] = []
    sink = CollectColumns(seen.extend)
    travelled = pickle.loads(pickle.dumps(sink))
    writer = travelled.create_writer(WriterContext(0, 1, 1, "first", "job", "operator", now_ms=0))
    writer.write_columns(pa.record_batch({"i": [1]}), np.array([3], dtype=np.int8))
    sink.deliver(0, writer.values)
    [(columns, kinds)] = seen  # type: ignore[misc]
    assert columns.to_pylist() == [{"i": 1}]
    assert kinds.tolist() == [3]
    with pytest.raises(ProgramError, match="another process"):
        travelled.deliver(0, [])
