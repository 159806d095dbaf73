"""Avro messages of a schema registry, against a stub; faults that a real one shows on no demand."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from flott.datastream.formats.schema_registry import SchemaRegistry, SubjectNames
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.decoding import decode_batch
from flott.runtime.connectors.formats import registry as registry_module
from tests.connectors.formats.registry_promises import FIRST, RegistryPromises, reader_of, writer_of
from tests.connectors.formats.registry_stub import RegistryStub, registry_stub
from tests.servers.process import free_port


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryStub]:
    monkeypatch.setattr(registry_module, "_FIRST_PAUSE_SECONDS", 0.001)
    with registry_stub() as stub:
        yield stub


class TestRegistryStub(RegistryPromises):
    @pytest.fixture
    def registry(self, stub: RegistryStub) -> SchemaRegistry:
        return SchemaRegistry(stub.url)


def test_a_schema_is_asked_for_once_in_a_process(stub: RegistryStub):
    message = writer_of("s", FIRST, stub.url).serialize({"id": 1})
    for _ in range(3):
        assert reader_of.for_generic(FIRST, stub.url).deserialize_batch([message] * 5) == [{"id": 1}] * 5
        writer_of("s", FIRST, stub.url).serialize({"id": 1})
    assert stub.requests == ["POST /subjects/s/versions", "GET /schemas/ids/1"]


def test_a_busy_registry_is_asked_again(stub: RegistryStub):
    stub.faults = [503, 429, 500]
    assert writer_of("s", FIRST, stub.url).serialize({"id": 1}) == b"\0\0\0\0\x01\x02"


def test_an_outage_is_no_bad_record(stub: RegistryStub):
    message = writer_of("s", FIRST, stub.url).serialize({"id": 1})
    unreachable = SchemaRegistry(f"http://127.0.0.1:{free_port()}", attempts=2, timeout_ms=500)
    with pytest.raises(ConnectorError, match="does not answer, 2 times"):
        decode_batch(reader_of.for_generic(FIRST, unreachable), [message])
    stub.faults = [500] * 4
    with pytest.raises(ConnectorError, match="status 500"):
        decode_batch(reader_of.for_generic(FIRST, stub.url), [b"\0\0\0\0\x07\x02"])


def test_logins_work_and_are_never_shown(stub: RegistryStub):
    stub.login = "flott:geheim"
    right = SchemaRegistry(stub.url, username="flott", password="geheim")
    writer = writer_of("s", FIRST, right)
    assert writer.serialize({"id": 1})[:5] == b"\0\0\0\0\x01"
    assert pickle.loads(pickle.dumps(writer)) == writer
    wrong = SchemaRegistry(stub.url, username="flott", password="verkehrt")
    with pytest.raises(ConnectorError, match="refuses access") as caught:
        writer_of("s", FIRST, wrong).serialize({"id": 1})
    for text in (repr(right), repr(writer), str(caught.value), repr(wrong)):
        assert "geheim" not in text
        assert "verkehrt" not in text


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_something_else_than_a_registry_is_named(stub: RegistryStub, body: bytes):
    stub.body = body
    with pytest.raises(ConnectorError, match="Is it a schema registry"):
        writer_of("s", FIRST, stub.url).serialize({"id": 1})


def test_subjects_have_confluents_names():
    assert SubjectNames.topic("orders", is_key=True) == "orders-key"
    assert SubjectNames.record(FIRST) == "shop.Order"
    assert SubjectNames.topic_record("orders", FIRST) == "orders-shop.Order"
    with pytest.raises(ProgramError, match="has a name"):
        SubjectNames.record('"string"')
    with pytest.raises(ProgramError, match="subject"):
        writer_of("", FIRST, "http://registry")
    for bad in ({"url": "registry:8081"}, {"url": "http://r", "attempts": 0}, {"url": "http://r", "timeout_ms": 0}):
        with pytest.raises(ProgramError):
            SchemaRegistry(**bad)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="certificates"):
        writer_of("s", FIRST, SchemaRegistry("https://r", ca_file="/nowhere")).serialize({"id": 1})
