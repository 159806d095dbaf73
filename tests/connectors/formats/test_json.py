"""JSON messages are rows of a declared type, with Flink's forms of values."""

from __future__ import annotations

import contextlib
import datetime
import json
import pickle
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row
from flott.datastream.formats.changelog import DebeziumJsonDeserializationSchema, DebeziumJsonSerializationSchema
from flott.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flott.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flott.errors import ProgramError, TypeMismatchError
from tests.connectors.formats.typed_values import SCALARS, rows


def reader(declared: Any) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema.builder().type_info(declared).build()


def writer(declared: Any) -> JsonRowSerializationSchema:
    return JsonRowSerializationSchema.builder().with_type_info(declared).build()


ALL = Types.ROW_NAMED(list(SCALARS), [declared for declared, _ in SCALARS.values()])


@given(rows())
def test_rows_of_any_type_survive(drawn: tuple[Any, list[Row]]):
    declared, values = drawn
    messages = writer(declared).serialize_batch(values)
    assert reader(declared).deserialize_batch(messages) == values
    assert [reader(declared).deserialize(message) for message in messages] == values
    for message in messages:
        json.loads(message)


def test_values_have_flinks_forms():
    declared = Types.ROW_NAMED(
        ["decimal", "float", "date", "time", "timestamp", "instant", "bytes", "array", "map", "row", "missing"],
        [Types.BIG_DEC(), Types.DOUBLE(), Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT(),
         Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.INT()), Types.MAP(Types.INT(), Types.BOOLEAN()),
         Types.ROW_NAMED(["x"], [Types.STRING()]), Types.STRING()],
    )  # fmt: skip
    row = Row(
        decimal=Decimal("1.10"), float=float("nan"), date=datetime.date(2026, 1, 2), time=datetime.time(3, 4, 5),
        timestamp=datetime.datetime(2026, 1, 2, 3, 4, 5, 120_000), instant=Instant(0, 5_000_000), bytes=b"\x00\xff",
        array=[1, None], map={1: True}, row=Row(x="ä"), missing=None,
    )  # fmt: skip
    assert writer(declared).serialize(row).decode() == (
        '{"decimal":1.10,"float":"NaN","date":"2026-01-02","time":"03:04:05","timestamp":"2026-01-02T03:04:05.12",'
        '"instant":"1970-01-01T00:00:00.005Z","bytes":"AP8=","array":[1,null],"map":{"1":true},"row":{"x":"ä"},'
        '"missing":null}'
    )
    sql = JsonRowSerializationSchema.builder().with_timestamp_format("SQL").with_type_info(declared).build()
    assert b'"2026-01-02 03:04:05.12"' in sql.serialize(row)
    assert reader(declared).deserialize(sql.serialize(row)).timestamp == row.timestamp


@pytest.mark.parametrize(
    ("declared", "found", "value"),
    [
        (Types.INT(), '"7"', 7),
        (Types.INT(), "7.0", 7),
        (Types.LONG(), '" 7 "', 7),
        (Types.DOUBLE(), "1", 1.0),
        (Types.DOUBLE(), '"-Infinity"', float("-inf")),
        (Types.BIG_DEC(), "0.10", Decimal("0.10")),
        (Types.BIG_DEC(), '"1e2"', Decimal("1e2")),
        (Types.BIG_DEC(), "3", Decimal(3)),
        (Types.STRING(), "1.5", "1.5"),
        (Types.STRING(), '{"a":[1,"b"]}', '{"a":[1,"b"]}'),
        (Types.STRING(), "true", "true"),
        (Types.BOOLEAN(), '"TRUE"', True),
        (Types.SQL_TIMESTAMP(), '"2026-01-02 03:04:05"', datetime.datetime(2026, 1, 2, 3, 4, 5)),
        (Types.SQL_TIMESTAMP(), '"2026-01-02T03:04:05.123456789Z"', datetime.datetime(2026, 1, 2, 3, 4, 5, 123456)),
        (Types.LIST(Types.LONG()), '["1", 2]', [1, 2]),
    ],
)
def test_values_in_other_forms_are_converted(declared: Any, found: str, value: Any):
    assert reader(Types.ROW_NAMED(["x"], [declared])).deserialize(f' {{"x": {found}}} '.encode()) == Row(x=value)


@pytest.mark.parametrize(
    ("declared", "message", "words"),
    [
        (Types.INT(), '{"x": "seven"}', ["at .x", "'seven'", "Integer"]),
        (Types.INT(), '{"x": 1.5}', ["at .x", "1.5", "fraction"]),
        (Types.INT(), '{"x": 2147483648}', ["at .x", "2147483648"]),
        (Types.INT(), '{"x": true}', ["at .x", "True"]),
        (Types.BOOLEAN(), '{"x": "maybe"}', ["at .x", "maybe"]),
        (Types.SQL_DATE(), '{"x": "20260102"}', ["at .x", "2026-01-31"]),
        (Types.SQL_TIMESTAMP(), '{"x": "2026-01-02T03:04:05+02:00"}', ["at .x", "UTC"]),
        (Types.LIST(Types.INT()), '{"x": [1, "b"]}', ["at .x[1]", "'b'"]),
        (Types.LIST(Types.INT()), '{"x": {}}', ["at .x", "array"]),
        (Types.MAP(Types.STRING(), Types.INT()), '{"x": {"k": []}}', ["at .x['k']"]),
        (Types.ROW_NAMED(["y"], [Types.INT()]), '{"x": {"y": "z"}}', ["at .x.y", "'z'"]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), '{"x": "%%"}', ["at .x"]),
        (Types.INT(), "[]", ["object"]),
        (Types.INT(), "null", ["found None"]),
        (Types.INT(), "{", ["Expecting"]),
        (Types.DOUBLE(), '{"x": NaN}', ["NaN"]),
    ],
)
def test_errors_say_what_was_found_in_which_field(declared: Any, message: str, words: list[str]):
    schema = reader(Types.ROW_NAMED(["x"], [declared]))
    with pytest.raises(TypeMismatchError) as caught:
        schema.deserialize(message.encode())
    for word in words:
        assert word in str(caught.value)


@given(st.binary() | st.text().map(str.encode) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(SCALARS)) , inner, max_size=3),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_malformed_messages_raise_one_error_only(message: bytes):
    with contextlib.suppress(TypeMismatchError):
        reader(ALL).deserialize(message)
    lenient = JsonRowDeserializationSchema.builder().type_info(ALL).ignore_parse_errors().build()
    lenient.deserialize(message)


def test_deeply_nested_messages_are_unreadable():
    with pytest.raises(TypeMismatchError):
        reader(ALL).deserialize(b"[" * 100_000)


def test_ignored_errors_leave_out_messages_and_null_fields():
    declared = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
    schema = JsonRowDeserializationSchema.builder().type_info(declared).ignore_parse_errors().build()
    messages = [b'{"x": "no", "y": "a"}', b"nothing", b"[]", b"null", b'{"x": 1}']
    assert schema.deserialize_batch(messages) == [Row(x=None, y="a"), None, None, None, Row(x=1, y=None)]


def test_missing_fields_are_null_unless_they_must_be_there():
    declared = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
    found = reader(declared).deserialize_batch([b'{"y":"a"}', b'{"x":1,"y":"b"}'])
    assert found == [Row(x=None, y="a"), Row(x=1, y="b")]
    strict = JsonRowDeserializationSchema.builder().type_info(declared).fail_on_missing_field()
    with pytest.raises(TypeMismatchError, match=r"at \.x .*the field is missing"):
        strict.build().deserialize(b'{"y":"a"}')
    assert strict.build().deserialize(b'{"x":null,"y":"a"}') == Row(x=None, y="a")
    with pytest.raises(ProgramError, match="one of the two"):
        strict.ignore_parse_errors().build()


@dataclass
class Order:
    id: int
    price: float
    tags: list[str]
    note: str | None = None


def test_the_programs_own_classes_are_read_and_written():
    order = Order(1, 2.5, ["a"])
    assert writer(Order).serialize(order) == b'{"id":1,"price":2.5,"tags":["a"],"note":null}'
    assert reader(Order).deserialize_batch([b'{"id":1,"price":2.5,"tags":["a"],"other":0}'] * 2) == [order] * 2
    assert reader(Order).deserialize(writer(Order).serialize(order)) == order
    with pytest.raises(TypeMismatchError, match="price"):
        reader(Order).deserialize(b'{"id":1,"tags":["a"]}')


def test_schemas_are_compared_and_pickled_by_their_settings():
    schema, back = reader(ALL), writer(ALL)
    schema.deserialize_batch(back.serialize_batch([]))  # compiles
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert pickle.loads(pickle.dumps(back)) == back
    assert schema.get_produced_type() == ALL


def test_the_type_comes_from_a_json_schema():
    schema = JsonRowDeserializationSchema.builder().json_schema(
        """{"type": "object", "definitions": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
            "properties": {"id": {"type": "integer"}, "name": {"type": ["string", "null"]},
            "day": {"type": "string", "format": "date"}, "blob": {"type": "string", "contentEncoding": "base64"},
            "tags": {"type": "array", "items": {"type": "string"}}, "at": {"$ref": "#/definitions/place"},
            "pair": {"type": "array", "items": [{"type": "boolean"}, {"type": "string"}]},
            "maybe": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}}"""
    ).build()
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["id", "name", "day", "blob", "tags", "at", "pair", "maybe"],
        [Types.BIG_DEC(), Types.STRING(), Types.SQL_DATE(), Types.PRIMITIVE_ARRAY(Types.BYTE()),
         Types.OBJECT_ARRAY(Types.STRING()), Types.ROW_NAMED(["x"], [Types.BIG_DEC()]),
         Types.TUPLE([Types.BOOLEAN(), Types.STRING()]), Types.BOOLEAN()],
    )  # fmt: skip
    row = schema.deserialize(b'{"id": 1.50, "at": {"x": 2}, "pair": [true, "b"], "blob": "AA=="}')
    assert (row["id"], row.at.x, row.pair, row.blob) == (Decimal("1.50"), Decimal(2), (True, "b"), b"\0")


@pytest.mark.parametrize(
    "schema",
    ["{", "[]", '{"type": "thing"}', '{"type": "array"}', '{"anyOf": []}',
     '{"type": "object", "additionalProperties": true}',
     '{"$ref": "#"}', '{"$ref": "#/nowhere"}', '{"$ref": "http://x"}', '{"type": ["string", "boolean"]}', "{}",
     '{"type": "null"}', '{"type": "string"}', '{"type": "string", "contentEncoding": "base32"}'],
)  # fmt: skip
def test_an_unusable_json_schema_is_refused(schema: str):
    with pytest.raises(ProgramError):
        JsonRowDeserializationSchema.builder().json_schema(schema)


def test_records_that_json_cannot_hold_are_refused():
    declared = Types.ROW_NAMED(["x"], [Types.BIG_DEC()])
    for bad in (Row(x=Decimal("NaN")), None, Row(x="a"), 3):
        with pytest.raises(TypeMismatchError):
            writer(declared).serialize(bad)
    with pytest.raises(TypeMismatchError, match="UTF-8"):
        writer(Types.ROW_NAMED(["x"], [Types.STRING()])).serialize(Row(x="\ud800"))


def test_a_type_without_a_form_is_refused_when_the_program_is_built():
    class Strange(TypeInformation):
        pass

    declared = Types.ROW_NAMED(["x"], [Strange()])
    schemas: list[Any] = [
        JsonRowDeserializationSchema, JsonRowSerializationSchema, CsvRowDeserializationSchema,
        CsvRowSerializationSchema, DebeziumJsonDeserializationSchema, DebeziumJsonSerializationSchema,
    ]  # fmt: skip
    for schema in schemas:
        with pytest.raises(ProgramError, match="no form"):
            schema(declared)


def test_floats_of_32_bits_are_written_as_short_as_java_does():
    declared = Types.ROW_NAMED(["x"], [Types.FLOAT()])
    assert writer(declared).serialize(Row(x=110.1)) == b'{"x":110.1}'
    assert reader(declared).deserialize(b'{"x":110.1}') == Row(x=110.0999984741211)
