"""Protobuf messages are rows, or messages of a generated class."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.datastream.formats.protobuf import ProtobufDeserializationSchema, ProtobufSerializationSchema
from flott.errors import ProgramError, StorageError, TypeMismatchError
from flott.runtime.connectors.formats.protobuf import message_class_of
from tests.connectors.formats.typed_values import FLOATS, TEXT, whole

Field = descriptor_pb2.FieldDescriptorProto
SCALARS: dict[str, tuple[int, Any, st.SearchStrategy[Any]]] = {
    "b": (Field.TYPE_BOOL, Types.BOOLEAN(), st.booleans()),
    "s": (Field.TYPE_STRING, Types.STRING(), TEXT),
    "raw": (Field.TYPE_BYTES, Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=5)),
    "f": (Field.TYPE_FLOAT, Types.FLOAT(), FLOATS),
    "d": (Field.TYPE_DOUBLE, Types.DOUBLE(), st.floats(allow_nan=False)),
    "i": (Field.TYPE_INT32, Types.INT(), whole(32)),
    "si": (Field.TYPE_SINT32, Types.INT(), whole(32)),
    "l": (Field.TYPE_INT64, Types.LONG(), whole(64)),
    "fl": (Field.TYPE_SFIXED64, Types.LONG(), whole(64)),
    "u": (Field.TYPE_UINT32, Types.LONG(), st.integers(0, 2**32 - 1)),
    "ul": (Field.TYPE_UINT64, Types.BIG_INT(), st.integers(0, 2**64 - 1)),
}


def descriptors() -> bytes:
    """Build the descriptors of a file with everything that a message can have."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.enum_type.add(name="Color", value=[{"name": "RED", "number": 0}, {"name": "BLUE", "number": 5}])
    item = file.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    for number, (name, (kind, _, _)) in enumerate(SCALARS.items(), 1):
        order.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    order.field.add(name="color", number=20, type=Field.TYPE_ENUM, type_name=".shop.Color", label=Field.LABEL_OPTIONAL)
    order.field.add(name="item", number=21, type=Field.TYPE_MESSAGE, type_name=".shop.Item", label=Field.LABEL_OPTIONAL)
    order.field.add(
        name="items", number=22, type=Field.TYPE_MESSAGE, type_name=".shop.Item", label=Field.LABEL_REPEATED
    )
    order.field.add(name="numbers", number=23, type=Field.TYPE_INT32, label=Field.LABEL_REPEATED)
    entry = order.nested_type.add(name="StockEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    entry.field.add(
        name="value", number=2, type=Field.TYPE_MESSAGE, type_name=".shop.Item", label=Field.LABEL_OPTIONAL
    )
    order.field.add(
        name="stock", number=24, type=Field.TYPE_MESSAGE, type_name=".shop.Order.StockEntry", label=Field.LABEL_REPEATED
    )
    order.field.add(
        name="maybe", number=25, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL, proto3_optional=True, oneof_index=0
    )
    order.oneof_decl.add(name="_maybe")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


SET = descriptors()
NAMES = [*SCALARS, "color", "item", "items", "numbers", "stock", "maybe"]
ITEMS = TEXT.map(lambda name: Row(name=name))
ORDERS = st.tuples(
    *[values for _, _, values in SCALARS.values()], st.sampled_from(["RED", "BLUE"]), st.none() | ITEMS,
    st.lists(ITEMS, max_size=2), st.lists(whole(32), max_size=2), st.dictionaries(TEXT, ITEMS, max_size=2),
    st.none() | whole(32),
).map(lambda values: Row(**dict(zip(NAMES, values, strict=True))))  # fmt: skip

reader = ProtobufDeserializationSchema.for_descriptor_set(SET, "shop.Order")
writer = ProtobufSerializationSchema.for_descriptor_set(SET, "shop.Order")


@given(st.lists(ORDERS, max_size=3))
def test_rows_of_every_kind_of_field_survive(orders: list[Row]):
    messages = writer.serialize_batch(orders)
    assert reader.deserialize_batch(messages) == orders
    assert [reader.deserialize(message) for message in messages] == orders


def test_the_type_is_that_of_the_message():
    item = Types.ROW_NAMED(["name"], [Types.STRING()])
    assert reader.get_produced_type() == Types.ROW_NAMED(
        NAMES,
        [*[declared for _, declared, _ in SCALARS.values()], Types.STRING(), item, Types.LIST(item),
         Types.LIST(Types.INT()), Types.MAP(Types.STRING(), item), Types.INT()],
    )  # fmt: skip


def test_the_bytes_are_those_of_protobuf_itself():
    kind = message_class_of(SET, "shop.Order")
    theirs = kind(i=7, color=5, item={"name": "x"}, numbers=[1], stock={"k": {"name": "y"}}).SerializeToString()
    row = reader.deserialize(theirs)
    assert (row.i, row.color, row.item, row.numbers, row.stock, row.maybe, row.s) == (
        7, "BLUE", Row(name="x"), [1], {"k": Row(name="y")}, None, ""
    )  # fmt: skip
    assert kind.FromString(writer.serialize(row)) == kind.FromString(theirs)
    assert reader.deserialize(kind(color=77).SerializeToString()).color == "77"
    filled = ProtobufDeserializationSchema.for_descriptor_set(SET, "shop.Order", read_default_values=True)
    assert (filled.deserialize(b"").maybe, reader.deserialize(b"").maybe) == (0, None)


def test_generated_classes_are_read_as_rows_or_as_themselves():
    moment = timestamp_pb2.Timestamp(seconds=5, nanos=6)
    rows = ProtobufDeserializationSchema.for_message(timestamp_pb2.Timestamp)
    assert rows.deserialize(moment.SerializeToString()) == Row(seconds=5, nanos=6)
    messages = ProtobufDeserializationSchema.for_message(timestamp_pb2.Timestamp, as_rows=False)
    found = pickle.loads(pickle.dumps(messages)).deserialize_batch([moment.SerializeToString()])
    assert found == [moment]
    assert pickle.loads(pickle.dumps(found)) == found
    back = ProtobufSerializationSchema.for_message(timestamp_pb2.Timestamp, as_rows=False)
    assert back.serialize(moment) == moment.SerializeToString()
    with pytest.raises(TypeMismatchError):
        back.serialize("text")
    with pytest.raises(ProgramError, match="contains itself"):
        ProtobufDeserializationSchema.for_message(struct_pb2.Struct).get_produced_type()


def test_schemas_are_pickled_without_the_generated_class():
    assert pickle.loads(pickle.dumps(reader)) == reader
    assert pickle.loads(pickle.dumps(reader)).deserialize(b"").s == ""
    assert repr(reader) == "ProtobufDeserializationSchema('shop.Order')"


def test_messages_of_a_registry_have_a_frame():
    framed = ProtobufSerializationSchema.for_descriptor_set(SET, "shop.Item", schema_id=258)
    message = framed.serialize(Row(name="x"))
    assert message == b"\0\0\0\x01\x02\0\n\x01x"
    unframed = ProtobufDeserializationSchema.for_descriptor_set(SET, "shop.Item", framed=True)
    assert unframed.deserialize(message) == Row(name="x")
    assert unframed.deserialize(b"\0\0\0\x01\x02\x04\x02\x06\n\x01x") == Row(name="x"), "the indices 1, 3"
    for bad in (b"", b"\x01\0\0\0\x01\0", b"\0\0\0\0\x01", b"\0\0\0\0\x01\x04\x02", b"\0\0\0\0\x01\x01"):
        with pytest.raises(TypeMismatchError):
            unframed.deserialize(bad)
    with pytest.raises(ProgramError, match="4 bytes"):
        ProtobufSerializationSchema.for_descriptor_set(SET, "shop.Item", schema_id=-1)


@given(st.binary(max_size=40))
def test_malformed_messages_raise_one_error_only(message: bytes):
    with contextlib.suppress(TypeMismatchError):
        reader.deserialize(message)
    lenient = ProtobufDeserializationSchema.for_descriptor_set(SET, "shop.Order", ignores_parse_errors=True)
    lenient.deserialize_batch([message])


def test_wrong_descriptors_and_records_are_refused(tmp_path: Path):
    file = tmp_path / "shop.desc"
    file.write_bytes(SET)
    assert ProtobufDeserializationSchema.for_descriptor_set(file, "shop.Order") == reader
    with pytest.raises(StorageError):
        ProtobufDeserializationSchema.for_descriptor_set(str(tmp_path / "none"), "shop.Order")
    with pytest.raises(ProgramError, match="no message 'Order'"):
        ProtobufDeserializationSchema.for_descriptor_set(SET, "Order")
    with pytest.raises(ProgramError):
        ProtobufDeserializationSchema.for_descriptor_set(b"\xff\xff", "shop.Order")
    with pytest.raises(ProgramError, match="message class"):
        ProtobufDeserializationSchema.for_message(int)
    for bad in (None, Row(name=3), 3):
        with pytest.raises(TypeMismatchError):
            ProtobufSerializationSchema.for_descriptor_set(SET, "shop.Item").serialize(bad)
    with pytest.raises(TypeMismatchError, match="PURPLE"):
        writer.serialize(Row(**{**dict.fromkeys(NAMES), "color": "PURPLE"}))
