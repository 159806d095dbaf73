"""Formats of messages: rows to bytes and back, and the changes that tools capture."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flott.errors import ProgramError
from flott.table._connectors.format_registry import FORMATS, format_factory
from flott.table._connectors.options import TableOptions
from flott.table._types import logical as types
from flott.table._types.arrow import arrow_schema
from tests.unit.table.connectors.tables import declared, rows_of, sink_of, source_of, write

COLUMNS = {
    "id": types.BIGINT.as_nullable(False),
    "name": types.STRING,
    "at": types.TimestampType(3),
    "seen": types.LocalZonedTimestampType(6),
    "day": types.DATE,
    "noon": types.TIME,
    "price": types.DecimalType(10, 2),
    "score": types.FLOAT,
    "data": types.BYTES,
    "tags": types.ArrayType(types.STRING),
    "counts": types.MapType(types.STRING.as_nullable(False), types.INT),
    "r": types.row_type({"x": types.INT, "at": types.TimestampType(3)}),
}
ROWS = [
    {
        "id": 1, "name": "a\n\t\x01é", "at": datetime(2026, 1, 31, 12, 30, 0, 250000),
        "seen": datetime(2026, 1, 31, 11, 30, 0, 1, tzinfo=UTC), "day": date(2026, 1, 31), "noon": time(12, 0, 1),
        "price": Decimal("12.50"), "score": 0.5, "data": b"\x00\xff", "tags": ["a", None], "counts": [("k", 1)],
        "r": {"x": 1, "at": datetime(1970, 1, 1)},
    },
    {**dict.fromkeys(COLUMNS), "id": 2},
]  # fmt: skip


def made(name: str, columns: dict[str, Any] = COLUMNS, **options: str) -> Any:
    prefixed = {f"{name}.{key.replace('_', '-')}": text for key, text in options.items()}
    factory = format_factory("t", name, "format", files=False)
    return factory.make(tuple(columns), tuple(columns.values()), TableOptions("t", prefixed, f"{name}."))


def batch(rows: list[dict[str, Any]], columns: dict[str, Any] = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(list(columns), list(columns.values())))


@pytest.mark.parametrize("name", ["json", "avro", "debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_rows_become_messages_and_rows_again(name: str) -> None:
    format = made(name)
    messages = format.encoder().encode(batch(ROWS), None).to_pylist()
    decoded = format.decoder(tuple(COLUMNS), tuple(COLUMNS.values())).decode(messages)
    assert not decoded.bad
    assert decoded.columns.to_pylist() == ROWS
    some = format.decoder(("r", "id"), (COLUMNS["r"], COLUMNS["id"])).decode(messages)
    assert some.columns.to_pylist() == [{"r": row["r"], "id": row["id"]} for row in ROWS]


@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_an_update_is_written_as_delete_and_insert(name: str) -> None:
    columns = {"id": types.INT}
    format = made(name, columns)
    rows = batch([{"id": n} for n in range(4)], columns)
    messages = format.encoder().encode(rows, np.array([0, 1, 2, 3], dtype=np.int8)).to_pylist()
    decoded = format.decoder(("id",), (types.INT,)).decode(messages)
    assert decoded.kinds.tolist() == [0, 3, 0, 3]
    assert decoded.columns.to_pylist() == [{"id": n} for n in range(4)]


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (
            "debezium-json",
            [
                {"before": None, "after": {"id": 1, "n": 1}, "op": "r"},
                {"before": {"id": 1, "n": 1}, "after": {"id": 1, "n": 2}, "op": "u"},
                {"before": {"id": 1, "n": 2}, "after": None, "op": "d"},
            ],
        ),
        (
            "canal-json",
            [
                {"data": [{"id": "1", "n": "1"}], "type": "INSERT"},
                {"data": [{"id": "1", "n": "2"}], "old": [{"n": "1"}], "type": "UPDATE"},
                {"data": [{"id": "1", "n": "2"}], "type": "DELETE"},
            ],
        ),
        (
            "maxwell-json",
            [
                {"data": {"id": 1, "n": 1}, "type": "insert"},
                {"data": {"id": 1, "n": 2}, "old": {"n": 1}, "type": "update"},
                {"data": {"id": 1, "n": 2}, "type": "delete"},
            ],
        ),
        (
            "ogg-json",
            [
                {"after": {"id": 1, "n": 1}, "op_type": "I"},
                {"before": {"id": 1, "n": 1}, "after": {"id": 1, "n": 2}, "op_type": "U"},
                {"before": {"id": 1, "n": 2}, "op_type": "D"},
            ],
        ),
    ],
)
def test_captured_changes_have_kinds(name: str, messages: list[dict[str, Any]]) -> None:
    columns = {"id": types.INT, "n": types.INT}
    decoder = made(name, columns).decoder(tuple(columns), tuple(columns.values()))
    decoded = decoder.decode([*(json.dumps(message).encode() for message in messages), b"", b"nonsense"])
    assert decoded.kinds.tolist() == [0, 1, 2, 3]
    assert [row["n"] for row in decoded.columns.to_pylist()] == [1, 1, 2, 2]
    assert decoded.messages.tolist() == [0, 1, 1, 2]
    assert [index for index, _ in decoded.bad] == [4]


@pytest.mark.parametrize(
    ("of", "value", "message"),
    [
        (types.STRING, "ä", "ä".encode()),
        (types.BYTES, b"\x00", b"\x00"),
        (types.INT, -2, b"\xff\xff\xff\xfe"),
        (types.DOUBLE, 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        (types.BOOLEAN, True, b"\x01"),
    ],
)
def test_raw_is_the_value_itself(of: types.LogicalType, value: Any, message: bytes) -> None:
    format = made("raw", {"v": of})
    assert format.encoder().encode(batch([{"v": value}], {"v": of}), None).to_pylist() == [message]
    assert format.decoder(("v",), (of,)).decode([message]).columns.to_pylist() == [{"v": value}]
    if of is types.INT:
        assert format.decoder(("v",), (of,)).decode([b"abc"]).bad


def test_raw_has_one_column() -> None:
    with pytest.raises(ProgramError, match="one column"):
        made("raw", {"a": types.INT, "b": types.INT})


def test_messages_of_avro_that_are_none_are_bad() -> None:
    decoder = made("avro").decoder(("id",), (types.BIGINT,))
    assert [index for index, _ in decoder.decode([b""]).bad] == [0]


def test_null_fields_may_be_left_out_of_json() -> None:
    columns = {"a": types.INT, "b": types.DecimalType(10, 2)}
    format = made("json", columns, **{"encode.ignore-null-fields": "true"})
    rows = batch([{"a": None, "b": Decimal("100.00")}, {"a": None, "b": None}], columns)
    assert format.encoder().encode(rows, None).to_pylist() == [b'{"b":1E+2}', b"{}"]
    plain = made("json", columns, **{"encode.decimal-as-plain-number": "true"})
    assert plain.encoder().encode(rows, None).to_pylist()[0] == b'{"a":null,"b":100.00}'


@pytest.mark.parametrize("name", ["avro", "raw", "debezium-json"])
def test_files_have_these_formats_too(tmp_path: Path, name: str) -> None:
    columns = {"v": types.STRING}
    table = declared(columns, {"connector": "filesystem", "path": str(tmp_path), "format": name})
    rows = [{"v": f"row {number}"} for number in range(100)]
    write(sink_of(table), batch(rows, columns))
    assert rows_of(source_of(table)) == rows
    assert rows_of(source_of(table), max_records=7, restart=True) == rows


def test_avro_files_hold_all_types(tmp_path: Path) -> None:
    table = declared(COLUMNS, {"connector": "filesystem", "path": str(tmp_path), "format": "avro"})
    write(sink_of(table), batch(ROWS))
    assert rows_of(source_of(table)) == ROWS


def test_every_option_of_a_format_is_described() -> None:
    for factory in FORMATS.values():
        assert factory.description
        assert all(option.description for option in factory.options)


def test_protobuf_messages_are_rows() -> None:
    pytest.importorskip("google.protobuf", reason="no protobuf: pip install 'flott[protobuf]'")
    columns = {
        "name": types.STRING,
        "oneofs": types.ArrayType(types.STRING),
        "source_context": types.row_type({"file_name": types.STRING}),
        "fields": types.ArrayType(types.row_type({"number": types.INT, "packed": types.BOOLEAN})),
    }
    settings = {"message-class-name": "google.protobuf.type_pb2.Type"}
    format = made("protobuf", columns, **settings)
    rows = [
        {
            "name": "t", "oneofs": ["a", "b"], "source_context": {"file_name": "f"},
            "fields": [{"number": 1, "packed": True}],
        },
        {"name": "u", "oneofs": None, "source_context": None, "fields": None},
    ]  # fmt: skip
    messages = format.encoder().encode(batch(rows, columns), None).to_pylist()
    from google.protobuf.type_pb2 import Type

    assert Type.FromString(messages[0]).fields[0].number == 1
    decoded = format.decoder(tuple(columns), tuple(columns.values())).decode([*messages, b"\xff\xff"])
    assert decoded.columns.to_pylist()[0] == rows[0]
    assert decoded.columns.to_pylist()[1]["source_context"] is None
    assert [index for index, _ in decoded.bad] == [2]
    with pytest.raises(ProgramError, match="Did you mean 'name'"):
        made("protobuf", {"nam": types.STRING}, **settings)
    with pytest.raises(ProgramError, match="generated class"):
        made("protobuf", columns, **{"message-class-name": "nowhere.Type"})
