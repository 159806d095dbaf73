"""Messages of Debezium, Canal and Maxwell are rows with a kind."""

from __future__ import annotations

import contextlib
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.common.types import Row, RowKind
from flott.datastream.formats.changelog import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.decoding import decode_batch
from tests.connectors.formats.typed_values import rows

TYPE = Types.ROW_NAMED(
    ["id", "name", "weight"],
    [Types.LONG(), Types.STRING(), Types.BIG_DEC()],
)
OLD = {"id": 111, "name": "scooter", "weight": 5.18}
NEW = {"id": 111, "name": "scooter", "weight": 5.15}
I, UB, UA, D = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE  # noqa: E741


def row(kind: RowKind, weight: str | None, name: str | None = "scooter") -> Row:
    return Row.of_kind(kind, id=111, name=name, weight=None if weight is None else Decimal(weight))


def decoded(schema: Any, message: Any) -> list[Row]:
    data = json.dumps(message).encode()
    [found] = schema.deserialize_batch([data])
    assert found == schema.deserialize(data)
    return found


def test_debezium_writes_changes_with_the_row_before_and_after():
    schema = DebeziumJsonDeserializationSchema(TYPE)
    more = {"source": {"db": "inventory"}, "ts_ms": 1589362330904, "transaction": None}
    assert decoded(schema, {"before": None, "after": NEW, "op": "c", **more}) == [row(I, "5.15")]
    assert decoded(schema, {"before": None, "after": NEW, "op": "r", **more}) == [row(I, "5.15")]
    assert decoded(schema, {"before": OLD, "after": NEW, "op": "u", **more}) == [row(UB, "5.18"), row(UA, "5.15")]
    assert decoded(schema, {"before": OLD, "after": None, "op": "d", **more}) == [row(D, "5.18")]
    assert schema.deserialize(b"") == [], "the tombstone after a delete"
    included = DebeziumJsonDeserializationSchema(TYPE, schema_include=True)
    assert decoded(included, {"schema": {}, "payload": {"before": OLD, "op": "d"}}) == [row(D, "5.18")]
    assert decoded(included, {"schema": None, "payload": None}) == []


def test_canal_writes_several_rows_and_what_they_were():
    schema = CanalJsonDeserializationSchema(TYPE)
    texts = {"id": "111", "name": "scooter", "weight": "5.15"}  # Canal writes text
    more = {"database": "inventory", "table": "products", "isDdl": False, "es": 1, "pkNames": ["id"]}
    assert decoded(schema, {"data": [texts, texts], "type": "INSERT", **more}) == [row(I, "5.15")] * 2
    change = {"data": [texts], "old": [{"weight": "5.18"}], "type": "UPDATE", **more}
    assert decoded(schema, change) == [row(UB, "5.18"), row(UA, "5.15")]
    from_null = {"data": [texts], "old": [{"name": None}], "type": "UPDATE", **more}
    assert decoded(schema, from_null) == [row(UB, "5.15", None), row(UA, "5.15")]
    assert decoded(schema, {"data": [texts], "type": "DELETE", **more}) == [row(D, "5.15")]
    assert decoded(schema, {"data": None, "type": "CREATE", **more}) == []
    assert decoded(schema, {"data": None, "type": "ALTER", **more, "isDdl": True}) == []
    for options, count in (({"database_include": "inv.*"}, 2), ({"table_include": "prod"}, 0)):
        assert len(decoded(CanalJsonDeserializationSchema(TYPE, **options), change)) == count
    with pytest.raises(ProgramError, match="regular expression"):
        CanalJsonDeserializationSchema(TYPE, table_include="(")


def test_maxwell_writes_the_row_and_what_changed():
    schema = MaxwellJsonDeserializationSchema(TYPE)
    assert decoded(schema, {"data": NEW, "type": "insert"}) == [row(I, "5.15")]
    change = {"database": "x", "data": NEW, "old": {"weight": 5.18}, "type": "update"}
    assert decoded(schema, change) == [row(UB, "5.18"), row(UA, "5.15")]
    assert decoded(schema, {**change, "old": {"name": None}}) == [row(UB, "5.15", None), row(UA, "5.15")]
    assert decoded(schema, {"data": NEW, "type": "delete"}) == [row(D, "5.15")]


PAIRS = {
    "debezium": (DebeziumJsonSerializationSchema, DebeziumJsonDeserializationSchema),
    "canal": (CanalJsonSerializationSchema, CanalJsonDeserializationSchema),
    "maxwell": (MaxwellJsonSerializationSchema, MaxwellJsonDeserializationSchema),
}


@given(rows(), st.sampled_from(sorted(PAIRS)), st.lists(st.sampled_from(list(RowKind)), min_size=4, max_size=4))
def test_rows_of_any_type_survive_as_inserts_and_deletes(drawn: Any, name: str, kinds: list[RowKind]):
    declared, values = drawn
    changes = [Row.of_kind(kind, **value.as_dict()) for value, kind in zip(values, kinds, strict=False)]
    writer, reader = PAIRS[name][0](declared), PAIRS[name][1](declared)
    records, origins, bad = decode_batch(reader, writer.serialize_batch(changes))
    written = {I: I, UA: I, UB: D, D: D}
    assert records == [Row.of_kind(written[each.get_row_kind()], **each.as_dict()) for each in changes]
    assert origins == list(range(len(changes)))
    assert not bad
    assert pickle.loads(pickle.dumps(reader)) == reader
    assert pickle.loads(pickle.dumps(writer)) == writer


def test_messages_have_flinks_form():
    small = Types.ROW_NAMED(["id"], [Types.INT()])
    old, new = Row.of_kind(UB, id=1), Row.of_kind(UA, id=2)
    assert DebeziumJsonSerializationSchema(small).serialize_batch([old, new]) == [
        b'{"before":{"id":1},"after":null,"op":"d"}',
        b'{"before":null,"after":{"id":2},"op":"c"}',
    ]
    assert CanalJsonSerializationSchema(small).serialize(new) == b'{"data":[{"id":2}],"type":"INSERT"}'
    assert MaxwellJsonSerializationSchema(small).serialize(old) == b'{"data":{"id":1},"type":"delete"}'


@pytest.mark.parametrize(
    ("name", "message", "words"),
    [
        ("debezium", {"op": "x"}, "found the op 'x'"),
        ("debezium", {"op": "u", "before": None, "after": NEW}, "REPLICA IDENTITY FULL"),
        ("debezium", {"op": "d"}, "REPLICA IDENTITY FULL"),
        ("debezium", {"op": "c", "after": {"id": "x"}}, "at .id found 'x'"),
        ("debezium", 3, "JSON object"),
        ("canal", {"type": "STRANGE", "data": []}, "found the type 'STRANGE'"),
        ("canal", {"type": "UPDATE", "data": [NEW], "old": []}, "as many in 'old'"),
        ("canal", {"type": "INSERT"}, "list of rows"),
        ("maxwell", {"type": "table-create"}, "found the type 'table-create'"),
        ("maxwell", {"type": "update", "data": NEW}, "JSON object"),
    ],
)
def test_errors_say_what_was_found(name: str, message: Any, words: str):
    schema = PAIRS[name][1]
    with pytest.raises(TypeMismatchError) as caught:
        schema(TYPE).deserialize(json.dumps(message).encode())
    assert words in str(caught.value)
    assert schema(TYPE, ignores_parse_errors=True).deserialize(b"{") == []


@given(st.sampled_from(sorted(PAIRS)), st.binary(max_size=20) | st.recursive(
    st.none() | st.integers() | st.sampled_from(["c", "u", "d", "INSERT", "UPDATE", "insert", "update"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["op", "before", "after", "type", "data", "old", "id", "name"]), inner, max_size=4),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_malformed_messages_raise_one_error_only(name: str, message: bytes):
    with contextlib.suppress(TypeMismatchError):
        PAIRS[name][1](TYPE).deserialize(message)
    PAIRS[name][1](TYPE, ignores_parse_errors=True).deserialize(message)


def test_only_rows_have_changes():
    with pytest.raises(ProgramError, match="type of a row"):
        DebeziumJsonDeserializationSchema(Types.INT())  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError):
        MaxwellJsonSerializationSchema(TYPE).serialize_batch([None])
