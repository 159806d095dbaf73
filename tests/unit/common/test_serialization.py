"""Schemas really turn records into bytes and back."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.serialization import (
    ByteArraySchema,
    Encoder,
    RowFieldExtractorSchema,
    SimpleStringSchema,
)
from flott.common.serializer import TypeSerializer
from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError


@given(st.text())
def test_text_survives_the_simple_string_schema(text: str):
    schema = SimpleStringSchema()
    assert schema.deserialize(schema.serialize(text)) == text
    assert not schema.is_end_of_stream(text)


def test_schemas_know_their_type_and_survive_pickling():
    for schema in (SimpleStringSchema("latin-1"), ByteArraySchema(), RowFieldExtractorSchema(1)):
        assert pickle.loads(pickle.dumps(schema)) == schema
    assert SimpleStringSchema().get_produced_type() == Types.STRING()
    assert ByteArraySchema().get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_other_character_sets_are_used_and_unknown_ones_refused():
    assert SimpleStringSchema("latin-1").serialize("ä") == b"\xe4"
    with pytest.raises(ProgramError, match="nonsense"):
        SimpleStringSchema("nonsense")


@pytest.mark.parametrize(
    ("schema", "element"),
    [
        (SimpleStringSchema(), 3),
        (ByteArraySchema(), "text"),
        (RowFieldExtractorSchema(1), Row(b"x")),
        (RowFieldExtractorSchema(0), Row("x")),
    ],
)
def test_a_record_of_another_type_is_refused(schema: Any, element: Any):
    with pytest.raises(TypeMismatchError):
        schema.serialize(element)


def test_a_field_of_a_row_is_extracted():
    assert RowFieldExtractorSchema(1).serialize(Row(b"key", b"value")) == b"value"


def test_the_simple_string_encoder_writes_lines():
    encoder = Encoder.simple_string_encoder()
    assert b"".join(map(encoder.encode, ["a", 1])) == b"a\n1\n"


def test_serializers_of_one_class_with_equal_attributes_are_equal():
    class Utf8(TypeSerializer[str]):
        def serialize(self, element: str, stream: BytesIO) -> None:
            stream.write(element.encode())

        def deserialize(self, stream: BytesIO) -> str:
            return stream.read().decode()

    assert Utf8() == Utf8()
    assert hash(Utf8()) == hash(Utf8())
    assert repr(Utf8()) == "Utf8()"
