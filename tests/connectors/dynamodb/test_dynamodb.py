"""The DynamoDB sink against moto's server, which answers as DynamoDB does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import Guarantee, OnError, Sink, WriterContext
from flott.datastream.connectors.dynamodb import DynamoDbSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.dynamodb import DynamoDbStore
from flott.testing.connectors import SinkConformance
from tests.connectors.pages import run_page

pytestmark = pytest.mark.connectors

FAST = RetryPolicy(max_attempts=3, initial_delay_ms=1, max_delay_ms=2)
_names = count()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = pytest.importorskip("moto.server", reason="the package moto[server] is not installed").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint_url": endpoint,
        "region_name": "eu-central-1",
        "aws_access_key_id": "key",
        "aws_secret_access_key": "hidden-secret",
    }


def client(endpoint: str) -> Any:
    import boto3

    return boto3.client("dynamodb", **options(endpoint))


def table(endpoint: str, *keys: str, name: str | None = None) -> str:
    name = name or f"table-{next(_names)}"
    client(endpoint).create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=False)],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "N"} for key in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


def items(endpoint: str, name: str) -> list[dict[str, Any]]:
    import boto3

    return boto3.resource("dynamodb", **options(endpoint)).Table(name).scan(ConsistentRead=True)["Items"]


def sink_for(endpoint: str, *keys: str, **settings: Any) -> DynamoDbSink:
    keys = keys or ("id",)
    builder = DynamoDbSink.builder().set_table_name(table(endpoint, *keys)).set_key_fields(*keys)
    return replace(builder.set_client_options(options(endpoint)).set_retries(FAST).build(), **settings)


def write(sink: DynamoDbSink, values: list[Any], now_ms: int = 1000, attempt: str = "a") -> None:
    writer = sink.create_writer(WriterContext(0, 1, now_ms, attempt, "job", "op", now_ms))
    try:
        writer.write(values, None)
        writer.prepare_commit()
    finally:
        writer.close()


def test_items_are_put_replaced_and_deleted_by_key_in_batches(endpoint: str):
    sink = sink_for(endpoint)
    sink.validate()
    write(sink, [Row(id=number, name=f"n{number}", price=0.1) for number in range(60)])
    write(sink, [Row(id=1, name="changed", price=1.0), Row.of_kind(RowKind.DELETE, id=2, name="", price=0.0)])
    found = {int(one["id"]): one for one in items(endpoint, sink.table_name)}
    assert len(found) == 59
    assert found[1]["name"] == "changed"
    assert str(found[3]["price"]) == "0.1"
    assert sink.guarantee is Guarantee.IDEMPOTENT


def test_a_key_may_have_two_parts_and_a_converter_may_make_the_item(endpoint: str):
    sink = sink_for(
        endpoint, "a", "b", item_converter=lambda pair: {"a": pair[0], "b": pair[1], "at": datetime(2024, 1, 2)}
    )
    write(sink, [(1, 1), (1, 2), (1, 1)])
    found = sorted((int(one["a"]), int(one["b"]), one["at"]) for one in items(endpoint, sink.table_name))
    assert found == [(1, 1, "2024-01-02T00:00:00"), (1, 2, "2024-01-02T00:00:00")]


def test_with_a_version_a_late_writer_changes_nothing_and_a_repeated_epoch_may_write(endpoint: str):
    sink = sink_for(endpoint, version_attribute="_version")
    write(sink, [{"id": 1, "by": "first"}])
    write(sink, [{"id": 1, "by": "repeated"}], attempt="b")
    write(sink, [{"id": 1, "by": "later"}, {"id": 2, "by": "later"}], now_ms=2000)
    write(sink, [{"id": 1, "by": "zombie"}, Row.of_kind(RowKind.DELETE, id=2), {"id": 3, "by": "zombie"}])
    found = {int(one["id"]): one["by"] for one in items(endpoint, sink.table_name)}
    assert found == {1: "later", 2: "later", 3: "zombie"}


def test_an_item_that_is_refused_is_named_and_the_others_are_written(endpoint: str):
    sink = sink_for(endpoint)
    records = [{"id": 1}, {"id": 2, "text": "x" * 500_000}, {"id": 3}]
    with pytest.raises(ConnectorError, match=r"rejected the item with key \(2,\): .*size"):
        write(sink, records)
    write(replace(sink, on_rejected=OnError.skip()), records)
    assert sorted(int(one["id"]) for one in items(endpoint, sink.table_name)) == [1, 3]


def test_only_what_was_not_processed_is_sent_again(endpoint: str):
    sink = sink_for(endpoint)
    store = DynamoDbStore(sink, WriterContext(0, 1, 1, "a", "job", "op", 0))
    actions = list(store.actions([{"id": 1, "n": 1}, Row.of_kind(RowKind.DELETE, id=2), {"id": 3, "n": 3}]))

    class Busy:
        def batch_write_item(self, RequestItems: dict[str, list[Any]]) -> Any:
            (name,) = RequestItems
            return {"UnprocessedItems": {name: RequestItems[name][1:]}}

    assert [one.verdict.name for one in store._send_batch(Busy(), actions, 0)] == ["DONE", "RETRY", "RETRY"]


def test_a_missing_table_another_key_and_a_server_that_is_away_are_named(endpoint: str):
    sink = sink_for(endpoint)
    with pytest.raises(ProgramError, match="There is no DynamoDB table nowhere"):
        replace(sink, table_name="nowhere").validate()
    with pytest.raises(ProgramError, match=r"is \['id'\], but set_key_fields\(\) says \['other'\]"):
        replace(sink, key_fields=("other",)).validate()
    with pytest.raises(ConnectorError, match="refused a request"):
        write(replace(sink, table_name="nowhere"), [{"id": 1}])
    away = replace(sink, client_options=sink.client_options | {"endpoint_url": "http://127.0.0.1:1"})
    away.validate()
    with pytest.raises(ConnectorError, match="did not accept 1 changes in 3 attempts") as error:
        write(away, [{"id": 1}])
    assert "hidden-secret" not in f"{error.value} {away!r}"
    with pytest.raises(ProgramError, match="needs set_key_fields"):
        DynamoDbSink.builder().set_table_name("t").build()
    with pytest.raises(Exception, match="The key consists of the fields"):
        write(sink, [{"name": "no key"}])


def test_the_program_of_the_page_runs(endpoint: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    table(endpoint, "id", name="orders")
    run_page("dynamodb.md", {"http://localhost:8000": endpoint})
    assert sorted(one["article"] for one in items(endpoint, "orders")) == ["jam", "tea"]


class TestDynamoDbConformance(SinkConformance):
    secrets = ("hidden-secret",)
    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def sink(self) -> Sink[Any]:
        self.last = sink_for(self.endpoint)
        return self.last

    def visible(self) -> Sequence[Any]:
        return [{"id": int(one["id"]), "name": one["name"]} for one in items(self.endpoint, self.last.table_name)]

    def record(self, number: int) -> Any:
        return {"id": number, "name": f"record {number}"}
