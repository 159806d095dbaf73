"""Avro messages are rows or dicts of a schema, also of one that has changed since they were written."""

from __future__ import annotations

import contextlib
import datetime
import json
import pickle
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.datastream.formats.avro import (
    AvroDeserializationSchema,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    AvroSerializationSchema,
    GenericRecordAvroTypeInfo,
)
from flott.errors import ProgramError, StorageError, TypeMismatchError
from tests.connectors.formats.typed_values import SCALARS, nullable

AVRO = ("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "SQL_DATE", "SQL_TIME",
        "SQL_TIMESTAMP", "BYTES", "DECIMAL")  # fmt: skip
VALUES = {**SCALARS, "DECIMAL": (Types.BIG_DEC(), st.decimals(-(10**19), 10**19, places=18, allow_nan=False))}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> AvroSchema:
    return AvroSchema.parse_string(json.dumps({"type": "record", "name": name, "fields": list(fields), **more}))


@st.composite
def avro_typed(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    kind = draw(st.sampled_from(["scalar"] * 3 + (["list", "map", "row"] if depth else [])))
    if kind == "scalar":
        return VALUES[draw(st.sampled_from(AVRO))]
    if kind == "row":
        return draw(avro_row_types(depth - 1))
    declared, values = draw(avro_typed(depth - 1))
    if kind == "list":
        return Types.OBJECT_ARRAY(declared), st.lists(nullable(values), max_size=3)
    return Types.MAP(Types.STRING(), declared), st.dictionaries(st.text(max_size=3), nullable(values), max_size=3)


@st.composite
def avro_row_types(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Row]]:
    fields = [draw(avro_typed(depth)) for _ in range(draw(st.integers(1, 4)))]
    names = ["a", "b", "c", "d"][: len(fields)]
    rows = st.tuples(*[nullable(values) for _, values in fields])
    return Types.ROW_NAMED(names, [each for each, _ in fields]), rows.map(
        lambda values: Row(**dict(zip(names, values, strict=True)))
    )


@given(st.data())
def test_rows_of_any_type_survive(data: Any):
    declared, values = data.draw(avro_row_types())
    rows = data.draw(st.lists(values, max_size=3))
    schema = AvroSchema.of_type(declared)
    writer = AvroRowSerializationSchema(avro_schema_string=str(schema))
    reader = AvroRowDeserializationSchema(avro_schema_string=str(schema))
    messages = writer.serialize_batch(rows)
    assert reader.deserialize_batch(messages) == rows
    assert [reader.deserialize(message) for message in messages] == rows


LOGICAL = record(
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "code", "type": {"type": "fixed", "name": "F", "size": 2}},
    {"name": "again", "type": ["null", "F"]},
    {"name": "any", "type": ["null", "string", "long"]},
    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "inner", "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}},
    {"name": "inners", "type": {"type": "array", "items": "I"}},
    namespace="n.s",
)


def test_logical_types_have_flinks_types_and_values():
    row = Row(
        day=datetime.date(2026, 1, 2), clock=datetime.time(3, 4, 5, 6000),
        millis=datetime.datetime(2026, 1, 2, 3, 4, 5, 6000), local=datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
        money=Decimal("12.30"), kind="B", code=b"xy", again=None, any=7, id="f2b11e8a-db8c-48d3-91b4-cf031c8b38b9",
        inner=Row(x=1), inners=[Row(x=2)],
    )  # fmt: skip
    schema = AvroRowDeserializationSchema(avro_schema_string=str(LOGICAL))
    message = AvroRowSerializationSchema(avro_schema_string=str(LOGICAL)).serialize(row)
    assert schema.deserialize(message) == row
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["day", "clock", "millis", "local", "money", "kind", "code", "again", "any", "id", "inner", "inners"],
        [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.SQL_TIMESTAMP(), Types.BIG_DEC(),
         Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.BYTE()),
         Types.PICKLED_BYTE_ARRAY(), Types.STRING(), Types.ROW_NAMED(["x"], [Types.INT()]),
         Types.OBJECT_ARRAY(Types.ROW_NAMED(["x"], [Types.INT()]))],
    )  # fmt: skip
    # The bytes are those of the Avro library alone, with the timestamp in UTC whatever this machine's time zone is.
    plain = row.as_dict(True)
    plain["millis"] = plain["millis"].replace(tzinfo=datetime.UTC)
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(str(LOGICAL))), plain)
    assert message == stream.getvalue()


def test_generic_records_are_dicts():
    generic = AvroDeserializationSchema.for_generic(LOGICAL)
    assert generic.get_produced_type() == GenericRecordAvroTypeInfo(LOGICAL)
    small = record({"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}})
    given = {"at": datetime.datetime(2026, 1, 2)}
    message = AvroSerializationSchema.for_generic(small).serialize(given)
    assert given == {"at": datetime.datetime(2026, 1, 2)}, "the program's record is not changed"
    assert AvroDeserializationSchema.for_generic(small).deserialize(message) == given
    assert GenericRecordAvroTypeInfo(small).conform([Row(at=1), {"at": 2}]) == [{"at": 1}, {"at": 2}]
    with pytest.raises(TypeMismatchError):
        GenericRecordAvroTypeInfo(small).conform([3])
    assert pickle.loads(pickle.dumps(GenericRecordAvroTypeInfo(small))) == GenericRecordAvroTypeInfo(small)


def test_a_record_inside_itself_is_a_dict():
    tree = record({"name": "value", "type": "int"}, {"name": "left", "type": ["null", "R"], "default": None})
    row = Row(value=1, left={"value": 2, "left": None})
    message = AvroRowSerializationSchema(avro_schema_string=str(tree)).serialize(row)
    assert AvroRowDeserializationSchema(avro_schema_string=str(tree)).deserialize(message) == row


# ---- evolution -------------------------------------------------------------------------------------------------------

PROMOTIONS = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"],
              "bytes": ["string"]}  # fmt: skip
SAMPLES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**23), 2**23), "long": st.integers(-(2**23), 2**23), "float": st.just(0.5),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5), "bytes": st.just(b"abc"),
}  # fmt: skip


@given(st.data())
def test_a_changed_schema_reads_what_an_older_one_wrote(data: Any):
    """Fields are added, removed, renamed by an alias, promoted and reordered."""
    written, read, values, expected = [], [], {}, {}
    for index in range(data.draw(st.integers(1, 5))):
        name = f"f{index}"
        kind = data.draw(st.sampled_from(sorted(SAMPLES)))
        value = data.draw(SAMPLES[kind])
        change = data.draw(st.sampled_from(["same", "removed", "renamed", "promoted", "added"]))
        if change == "added":
            read.append({"name": name, "type": kind, "default": "x" if kind in ("string", "bytes") else 7})
            expected[name] = {"string": "x", "bytes": b"x"}.get(kind, 7)
            continue
        written.append({"name": name, "type": kind})
        values[name] = value
        if change == "removed":
            continue
        target = data.draw(st.sampled_from(PROMOTIONS[kind])) if change == "promoted" else kind
        new = f"{name}_new" if change == "renamed" else name
        read.append({"name": new, "type": target, **({"aliases": [name]} if change == "renamed" else {})})
        if kind != target and {kind, target} == {"string", "bytes"}:
            value = value.encode() if target == "bytes" else value.decode()
        expected[new] = value
    read = data.draw(st.permutations(read))
    older, newer = record(*written), record(*read)
    message = AvroSerializationSchema.for_generic(older).serialize(values)
    found = AvroDeserializationSchema(newer, older, as_rows=True).deserialize(message)
    assert found.as_dict() == expected
    assert list(found._fields) == [field["name"] for field in read]


def test_defaults_of_new_fields_are_values():
    older = record({"name": "a", "type": "int"})
    newer = record(
        {"name": "a", "type": "int"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
         "default": "\u000f"},
        {"name": "code", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "\u00ffx"},
        {"name": "at", "type": [{"type": "long", "logicalType": "timestamp-millis"}, "null"], "default": 1000},
        {"name": "list", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "none", "type": ["null", "string"], "default": None},
    )  # fmt: skip
    message = AvroSerializationSchema.for_generic(older).serialize({"a": 1})
    assert AvroDeserializationSchema(newer, older, as_rows=True).deserialize(message) == Row(
        a=1, day=datetime.date(1970, 1, 2), money=Decimal("1.5"), code=b"\xffx",
        at=datetime.datetime(1970, 1, 1, 0, 0, 1), list=[], none=None,
    )  # fmt: skip


def test_records_do_not_share_the_default_of_a_field():
    newer = record(
        {"name": "a", "type": "int"},
        {"name": "list", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "map", "type": {"type": "map", "values": "int"}, "default": {}},
    )
    older = record({"name": "a", "type": "int"})
    message = AvroSerializationSchema.for_generic(older).serialize({"a": 1})
    for as_rows in (True, False):
        reader = AvroDeserializationSchema(newer, older, as_rows=as_rows)
        first, second = reader.deserialize_batch([message, message])
        first["list"].append(7)
        first["map"]["k"] = 7
        assert (second["list"], second["map"]) == ([], {})
        assert reader.deserialize(message)["list"] == []


def test_a_schema_that_cannot_read_the_other_says_so():
    older, newer = record({"name": "a", "type": "string"}), record({"name": "a", "type": "int"})
    message = AvroSerializationSchema.for_generic(older).serialize({"a": "x"})
    with pytest.raises(TypeMismatchError, match="Avro"):
        AvroDeserializationSchema(newer, older).deserialize(message)


# ---- what is wrong ---------------------------------------------------------------------------------------------------


@given(st.binary(max_size=60))
def test_malformed_messages_raise_one_error_only(message: bytes):
    with contextlib.suppress(TypeMismatchError):
        AvroRowDeserializationSchema(avro_schema_string=str(LOGICAL)).deserialize(message)


@pytest.mark.parametrize(("message", "words"), [(b"", "ends before"), (b"\x02\x02", "1 bytes follow")])
def test_a_message_of_another_length_is_unreadable(message: bytes, words: str):
    schema = record({"name": "a", "type": "int"})
    with pytest.raises(TypeMismatchError, match=words):
        AvroRowDeserializationSchema(avro_schema_string=str(schema)).deserialize(message)


def test_records_that_do_not_fit_are_refused():
    schema = record({"name": "a", "type": "int"}, {"name": "b", "type": "string"})
    writer = AvroRowSerializationSchema(avro_schema_string=str(schema))
    for bad in (Row(a=2**31, b="x"), Row(a="1", b="x"), Row(a=1, c="x"), Row(1), 3):
        with pytest.raises(TypeMismatchError):
            writer.serialize(bad)
    with pytest.raises(TypeMismatchError, match="does not fit the Avro schema"):
        AvroSerializationSchema.for_generic(schema).serialize({"a": "1", "b": "x"})
    with pytest.raises(TypeMismatchError, match="row or a dict"):
        AvroSerializationSchema.for_generic(schema).serialize("text")


def test_a_wrong_schema_is_refused_when_the_program_is_built(tmp_path: Path):
    for text in ("{", "3", '{"type": "record"}', '{"type": "strange"}'):
        with pytest.raises(ProgramError, match="Avro schema"):
            AvroSchema.parse_string(text)
    with pytest.raises(ProgramError, match="Java class"):
        AvroRowDeserializationSchema("org.example.Order")
    with pytest.raises(ProgramError, match="avro_schema_string"):
        AvroRowSerializationSchema()
    with pytest.raises(ProgramError, match="no form"):
        AvroSchema.of_type(Types.ROW_NAMED(["m"], [Types.MAP(Types.INT(), Types.INT())]))
    file = tmp_path / "r.avsc"
    file.write_text(str(LOGICAL))
    assert AvroSchema.parse_file(str(file)) == LOGICAL
    with pytest.raises(StorageError):
        AvroSchema.parse_file(str(tmp_path / "none"))


def test_schemas_are_pickled_by_their_settings():
    reader = AvroRowDeserializationSchema(avro_schema_string=str(LOGICAL))
    writer = AvroRowSerializationSchema(avro_schema_string=str(LOGICAL))
    with contextlib.suppress(TypeMismatchError):
        reader.deserialize(b"")
    writer.serialize_batch([])
    assert pickle.loads(pickle.dumps(reader)) == reader
    assert pickle.loads(pickle.dumps(writer)) == writer
