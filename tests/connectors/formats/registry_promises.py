"""What a schema registry and the schemas on top of it promise, for a real registry and for the stub."""

from __future__ import annotations

import json
import pickle
from typing import Any
from uuid import uuid4

import httpx
import pytest

from flott.common.types import Row
from flott.datastream.formats.avro import AvroSchema
from flott.datastream.formats.confluent_avro import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from flott.datastream.formats.schema_registry import SchemaRegistry, SubjectNames
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.decoding import decode_batch


def record(*fields: dict[str, Any], name: str = "Order") -> AvroSchema:
    return AvroSchema.parse_string(
        json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": list(fields)})
    )


ID, NAME = {"name": "id", "type": "int"}, {"name": "name", "type": "string"}
FIRST = record(ID)
SECOND = record(ID, {**NAME, "default": "?"})
READER = record({"name": "number", "type": "long", "aliases": ["id"]}, {**NAME, "default": "none"})

writer_of = ConfluentRegistryAvroSerializationSchema.for_generic
reader_of = ConfluentRegistryAvroDeserializationSchema


class RegistryPromises:
    """Inherit from it, and say where the registry is."""

    @pytest.fixture
    def registry(self) -> SchemaRegistry:
        raise NotImplementedError

    @pytest.fixture
    def subject(self) -> str:
        return SubjectNames.topic(f"topic-{uuid4().hex}")

    def test_records_of_changing_schemas_are_read_as_of_one(self, registry: SchemaRegistry, subject: str) -> None:
        older = writer_of(subject, FIRST, registry).serialize_batch([{"id": 1}, {"id": 2}])
        newer = writer_of(subject, SECOND, registry).serialize({"id": 3, "name": "Ada"})
        assert older[0][:1] == b"\0"
        assert older[0][:5] == older[1][:5] != newer[:5]
        messages = [older[0], newer, older[1]]
        reader = reader_of.for_row(READER, registry)
        expected = [Row(number=1, name="none"), Row(number=3, name="Ada"), Row(number=2, name="none")]
        assert reader.deserialize_batch(messages) == expected
        assert pickle.loads(pickle.dumps(reader)).deserialize(newer) == expected[1]
        assert reader_of.for_generic(FIRST, registry).deserialize(newer) == {"id": 3}
        assert reader.get_produced_type() == READER.row_type()

    def test_a_schema_is_registered_once(self, registry: SchemaRegistry, subject: str) -> None:
        messages = {writer_of(subject, FIRST, registry).serialize({"id": 1}) for _ in range(3)}
        assert len(messages) == 1
        assert httpx.get(f"{registry.url}/subjects/{subject}/versions").json() == [1]

    def test_without_registering_the_schema_must_be_there(self, registry: SchemaRegistry, subject: str) -> None:
        strict = ConfluentRegistryAvroSerializationSchema.for_row(subject, FIRST, registry, auto_register=False)
        with pytest.raises(ProgramError, match="auto_register"):
            strict.serialize(Row(id=1))
        written = writer_of(subject, FIRST, registry).serialize({"id": 1})
        assert strict.serialize(Row(id=1)) == written
        with pytest.raises(TypeMismatchError):
            strict.serialize(Row(id="x"))

    def test_an_incompatible_schema_is_refused(self, registry: SchemaRegistry, subject: str) -> None:
        writer_of(subject, FIRST, registry).serialize({"id": 1})
        level = httpx.put(f"{registry.url}/config/{subject}", json={"compatibility": "BACKWARD"})
        assert level.status_code == 200
        with pytest.raises(ProgramError, match="refuses the schema"):
            writer_of(subject, record({"name": "id", "type": "string"}), registry).serialize({"id": "x"})

    def test_schemas_that_refer_to_others_are_read(self, registry: SchemaRegistry, subject: str) -> None:
        writer_of(f"{subject}-item", record(NAME, name="Item"), registry).serialize({"name": "x"})
        text = json.dumps(
            {"type": "record", "name": "Cart", "namespace": "shop", "fields": [{"name": "item", "type": "shop.Item"}]}
        )
        references = [{"name": "shop.Item", "subject": f"{subject}-item", "version": 1}]
        body = {"schema": text, "references": references}
        answer = httpx.post(f"{registry.url}/subjects/{subject}/versions", json=body)
        assert answer.status_code == 200, answer.text
        message = b"\0" + int(answer.json()["id"]).to_bytes(4) + b"\x06abc"
        whole = record({"name": "item", "type": json.loads(str(record(NAME, name="Item")))}, name="Cart")
        assert reader_of.for_row(whole, registry).deserialize(message) == Row(item=Row(name="abc"))

    def test_bad_messages_are_told_from_good_ones(self, registry: SchemaRegistry, subject: str) -> None:
        good = writer_of(subject, FIRST, registry).serialize({"id": 7})
        unknown = b"\0\x7f\xff\xff\xf0\x02"
        messages = [good, unknown, b"\x01" + good[1:], good[:5], good + b"x", b"", good]
        records, origins, bad = decode_batch(reader_of.for_generic(FIRST, registry), messages)
        assert (records, origins) == ([{"id": 7}] * 2, [0, 6])
        assert [index for index, _ in bad] == [1, 2, 3, 4, 5]
        assert all(isinstance(error, TypeMismatchError) for _, error in bad)
        assert "no schema with the id 2147483632" in str(bad[0][1])
        assert "zero byte" in str(bad[1][1])
