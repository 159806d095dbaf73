"""The MongoDB sink against FerretDB, which speaks MongoDB's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import Guarantee, OnError, Sink, WriterContext
from flott.datastream.connectors.mongodb import MongoSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.mongodb import MongoStore, judged
from flott.testing.connectors import SinkConformance
from tests.connectors.pages import run_page
from tests.servers.ferretdb import FerretServer, ferretdb_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors

FAST = RetryPolicy(max_attempts=2, initial_delay_ms=1)
_names = count()


@pytest.fixture(scope="module")
def mongo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FerretServer]:
    try:
        with ferretdb_server(tmp_path_factory.mktemp("ferretdb")) as server:
            yield server
    except NoServer as error:
        pytest.skip(str(error))


def sink_for(server: FerretServer, **settings: Any) -> MongoSink:
    settings = {"key_fields": ("id",), "retries": FAST, "timeout_ms": 5000, **settings}
    return MongoSink(server.uri, "test", f"c{next(_names)}", **settings)


def documents(server: FerretServer, sink: MongoSink) -> dict[Any, Any]:
    return {one.pop("_id"): one for one in server.client["test"][sink.collection].find()}


def write(sink: MongoSink, values: list[Any], now_ms: int = 1000, attempt: str = "a") -> None:
    writer = sink.create_writer(WriterContext(0, 1, now_ms, attempt, "job", "op", now_ms))
    try:
        writer.write(values, None)
        writer.prepare_commit()
    finally:
        writer.close()


def test_documents_are_written_replaced_and_deleted_by_key(mongo: FerretServer):
    sink = sink_for(mongo)
    write(sink, [Row(id=number, name=f"n{number}") for number in range(10)])
    write(sink, [Row(id=1, name="changed"), Row.of_kind(RowKind.DELETE, id=2, name="n2")], now_ms=2000)
    found = documents(mongo, sink)
    assert len(found) == 9
    assert found[1] == {"id": 1, "name": "changed"}
    assert sink.guarantee is Guarantee.IDEMPOTENT


def test_values_keep_their_kinds_and_keys_may_have_several_fields(mongo: FerretServer):
    sink = sink_for(mongo, key_fields=("a", "b"))
    record = {
        "a": 1,
        "b": "x",
        "at": datetime(2024, 2, 29),
        "day": date(2024, 2, 29),
        "list": [Row(y=1)],
        "raw": b"\x00",
    }
    write(sink, [record])
    (found,) = mongo.client["test"][sink.collection].find()
    assert found["_id"] == {"a": 1, "b": "x"}
    assert (found["at"], found["day"], found["list"]) == (datetime(2024, 2, 29), datetime(2024, 2, 29), [{"y": 1}])


def test_with_a_version_a_late_writer_changes_nothing_and_a_repeated_epoch_may_write(mongo: FerretServer):
    sink = sink_for(mongo, version_field="_version")
    write(sink, [{"id": 1, "by": "first"}])
    write(sink, [{"id": 1, "by": "repeated"}], attempt="b")
    assert documents(mongo, sink)[1]["by"] == "repeated"
    write(sink, [{"id": 1, "by": "later"}, {"id": 2, "by": "later"}], now_ms=2000)
    write(sink, [{"id": 1, "by": "zombie"}, Row.of_kind(RowKind.DELETE, id=2), {"id": 3, "by": "zombie"}])
    assert {ident: one["by"] for ident, one in documents(mongo, sink).items()} == {1: "later", 2: "later", 3: "zombie"}


def test_a_document_that_cannot_be_stored_is_named(mongo: FerretServer):
    sink = sink_for(mongo)
    records = [{"id": 1}, {"id": 2, "thing": object()}, {"id": 3}]
    with pytest.raises(ConnectorError, match="rejected document 2: it cannot be encoded"):
        write(sink, records)
    write(sink_for_same(sink, on_rejected=OnError.skip()), records)
    assert sorted(documents(mongo, sink)) == [1, 3]


def sink_for_same(sink: MongoSink, **settings: Any) -> MongoSink:
    from dataclasses import replace

    return replace(sink, **settings)


@pytest.mark.parametrize(
    ("error", "versioned", "verdict"),
    [
        ({"code": 11000, "errmsg": "E11000 duplicate key", "keyPattern": {"_id": 1}}, True, "SUPERSEDED"),
        ({"code": 11000, "errmsg": "E11000 duplicate key", "keyPattern": {"_id": 1}}, False, "RETRY"),
        ({"code": 11000, "errmsg": "E11000 … index: mail_1 dup key", "keyPattern": {"mail": 1}}, True, "REJECTED"),
        ({"code": 11000, "errmsg": "E11000 … index: mail_1 dup key"}, False, "REJECTED"),
        ({"code": 189, "errmsg": "primary stepped down"}, False, "RETRY"),
        ({"code": 121, "errmsg": "Document failed validation"}, False, "REJECTED"),
    ],
)
def test_the_error_of_each_change_is_understood(error: Any, versioned: bool, verdict: str):
    assert judged(error, versioned).verdict.name == verdict


def test_a_server_that_does_not_count_is_asked_again_for_the_others():
    store = MongoStore(MongoSink("mongodb://x", "d", "c", ("id",)), WriterContext(0, 1, 1, "a", "j", "o", 0))
    failure = {"index": 1, "code": 121, "errmsg": "no"}
    counted = store._answers({"n": 2, "writeErrors": [failure]}, range(3))
    assert [one.verdict.name for one in counted] == ["DONE", "REJECTED", "DONE"]
    uncounted = store._answers({"writeErrors": [failure]}, range(3))
    assert [one.verdict.name for one in uncounted] == ["RETRY", "REJECTED", "RETRY"]


def test_documents_without_a_key_are_not_doubled_by_a_repeated_epoch(mongo: FerretServer):
    sink = sink_for(mongo, key_fields=())
    for attempt in "ab":
        write(sink, [{"n": number} for number in range(5)], attempt=attempt)
    assert sorted(one["n"] for one in documents(mongo, sink).values()) == list(range(5))
    assert sink.guarantee is Guarantee.AT_LEAST_ONCE


def test_a_server_that_is_away_or_stalled_is_an_error_without_the_password(mongo: FerretServer):
    away = MongoSink("mongodb://user:hidden@127.0.0.1:1/", "test", "c", ("id",), retries=FAST, timeout_ms=200)
    away.validate()
    with pytest.raises(ConnectorError, match="did not accept 1 changes in 2 attempts") as error:
        write(away, [{"id": 1}])
    assert "hidden" not in f"{error.value} {away!r}"
    sink = sink_for(mongo, timeout_ms=300)
    write(sink, [{"id": 0}])
    mongo.process.pause()
    try:
        with pytest.raises(ConnectorError, match="did not accept 1 changes"):
            write(sink, [{"id": 1}])
    finally:
        mongo.process.resume()
    with pytest.raises(ProgramError, match="begins with mongodb://"):
        MongoSink.builder().set_uri("http://user:hidden@x")
    with pytest.raises(ProgramError, match="needs set_collection"):
        MongoSink.builder().set_uri("mongodb://x").set_database("d").build()


def test_a_restart_of_the_server_loses_nothing(mongo: FerretServer):
    sink = sink_for(mongo, retries=RetryPolicy(max_attempts=50, initial_delay_ms=100, max_delay_ms=200))
    write(sink, [{"id": 1}])
    mongo.process.kill()
    mongo.process.launch()
    write(sink, [{"id": 2}], now_ms=2000)
    assert sorted(documents(mongo, sink)) == [1, 2]


def test_the_program_of_the_page_runs(mongo: FerretServer):
    run_page("mongodb.md", {"localhost:27017": f"127.0.0.1:{mongo.port}"})
    found = {one["_id"]: one["article"] for one in mongo.client["shop"]["orders"].find()}
    assert found == {1: "tea", 2: "jam"}


class TestMongoConformance(SinkConformance):
    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, mongo: FerretServer) -> None:
        self.mongo = mongo

    def sink(self) -> Sink[Any]:
        self.last = sink_for(self.mongo, version_field="_version")
        return self.last

    def visible(self) -> Sequence[Any]:
        found = documents(self.mongo, self.last).values()
        return [{name: value for name, value in one.items() if name != "_version"} for one in found]

    def record(self, number: int) -> Any:
        return {"id": number, "name": f"record {number}"}


def test_decimals_are_decimal128(tmp_path: Path):
    pytest.importorskip("bson")
    sink = MongoSink("mongodb://127.0.0.1:1", "d", "c", ("id",))
    (action,) = MongoStore(sink, WriterContext(0, 1, 1, "a", "j", "o", 0)).actions(
        [{"id": 1, "price": Decimal("1.10")}]
    )
    assert str(action.body["price"]) == "1.10"
    assert type(action.body["price"]).__name__ == "Decimal128"
