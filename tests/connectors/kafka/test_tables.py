"""Tables over topics of a real broker: formats, keys, metadata, offsets, tombstones and guarantees."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from flott.errors import BadRecordError, ProgramError
from flott.table._catalog.catalog_table import MetadataColumn
from flott.table._connectors.table_source import ChangelogMode
from flott.table._types import logical as types
from flott.table._types.arrow import arrow_schema
from tests.servers.kafka import KafkaServer
from tests.unit.table.connectors.tables import changes_of, declared, rows_of, sink_of, source_of, write

COLUMNS = {"id": types.INT, "name": types.STRING, "at": types.TimestampType(3)}
ROWS = [{"id": number, "name": f"row {number}", "at": datetime(2026, 1, 31, 12, 0, number)} for number in range(20)]


def options(broker: KafkaServer, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": broker.address, "format": "json",
        "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset", **more,
    }  # fmt: skip


def batch(rows: list[dict[str, Any]], columns: dict[str, Any] = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(list(columns), list(columns.values())))


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("format", ["json", "csv", "avro"])
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_rows_are_written_and_read_again(broker: KafkaServer, format: str, guarantee: str) -> None:
    topic = broker.create_topic(partitions=2)
    more = {"sink.delivery-guarantee": guarantee, "sink.transactional-id-prefix": topic, "format": format}
    table = declared(COLUMNS, options(broker, topic, **more))
    write(sink_of(table), batch(ROWS))
    assert by_id(rows_of(source_of(table))) == ROWS
    assert by_id(rows_of(source_of(table).projected(("name", "id")), max_records=3, restart=True)) == [
        {"name": row["name"], "id": row["id"]} for row in ROWS
    ]


def test_keys_and_metadata_are_columns(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=1)
    more = {
        "key.format": "json", "key.fields": "k_id", "key.fields-prefix": "k_", "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
    }  # fmt: skip
    settings = {key: text for key, text in options(broker, topic, **more).items() if key != "format"}
    columns = {"k_id": types.INT, "name": types.STRING}
    metadata = [
        MetadataColumn("event_time", types.TimestampType(3), "timestamp"),
        MetadataColumn("headers", types.MapType(types.STRING, types.BYTES)),
        MetadataColumn("offset", types.BIGINT, virtual=True),
        MetadataColumn("partition", types.BIGINT, virtual=True),
        MetadataColumn("topic", types.STRING, virtual=True),
    ]
    table = declared(columns, settings, metadata=metadata)
    sink = sink_of(table)
    assert sink.names == ("k_id", "name", "event_time", "headers")
    moment = datetime(2026, 1, 31, 12, 0, 0, 5000)
    rows = [{"k_id": 1, "name": "a", "event_time": moment, "headers": [("h", b"\x01")]}]
    schema = arrow_schema(sink.names, sink.types)
    write(sink, pa.RecordBatch.from_pylist(rows, schema=schema))
    [record] = broker.read(topic)
    assert (record.key, record.value) == (b'{"id":1}', b'{"name":"a"}')
    expected = {**rows[0], "offset": 0, "partition": 0, "topic": topic}
    assert rows_of(source_of(table)) == [expected]
    assert rows_of(source_of(table).projected(("offset", "k_id"))) == [{"offset": 0, "k_id": 1}]


def test_the_last_message_of_a_key_counts(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=1)
    settings = {
        "connector": "upsert-kafka", "topic": topic, "properties.bootstrap.servers": broker.address,
        "key.format": "json", "value.format": "json", "scan.bounded.mode": "latest-offset",
    }  # fmt: skip
    table = declared({"id": types.INT, "name": types.STRING}, settings, key=("id",))
    sink = sink_of(table)
    assert (sink.accepts, sink.key) == (ChangelogMode.UPSERT, ("id",))
    rows = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "c"}, {"id": 2, "name": "b"}]
    columns = {"id": types.INT, "name": types.STRING}
    write(sink, batch(rows, columns), [0, 0, 2, 3])
    assert broker.read(topic)[-1].value is None
    source = source_of(table)
    assert source.changelog is ChangelogMode.UPSERT
    assert changes_of(source) == [
        (2, rows[0]),
        (2, rows[1]),
        (2, rows[2]),
        (3, {"id": 2, "name": None}),
    ]
    assert [kind for kind, _ in changes_of(source.projected(("name",)))] == [2, 2, 2, 3]


def test_changes_of_debezium_are_rows_with_kinds(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=1)
    table = declared({"id": types.INT}, options(broker, topic, format="debezium-json"))
    assert sink_of(table).accepts is ChangelogMode.ALL
    write(sink_of(table), batch([{"id": 1}, {"id": 1}], {"id": types.INT}), [0, 3])
    assert changes_of(source_of(table)) == [(0, {"id": 1}), (3, {"id": 1})]


def test_a_message_that_is_no_row_fails_with_its_place(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=1)
    raw = declared({"v": types.STRING}, options(broker, topic, format="raw"))
    write(sink_of(raw), batch([{"v": '{"id": 1}'}, {"v": "nonsense"}, {"v": '{"id": 3}'}], {"v": types.STRING}))
    with pytest.raises(BadRecordError, match=f"topic {topic}, partition 0, offset 1"):
        rows_of(source_of(declared({"id": types.INT}, options(broker, topic))))
    lenient = options(broker, topic, **{"json.ignore-parse-errors": "true"})
    assert rows_of(source_of(declared({"id": types.INT}, lenient))) == [{"id": 1}, {"id": 3}]


def test_a_table_begins_and_ends_where_its_options_say(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=1)
    write(sink_of(declared(COLUMNS, options(broker, topic))), batch(ROWS))
    more = {
        "scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:5",
        "scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:8",
    }  # fmt: skip
    assert rows_of(source_of(declared(COLUMNS, options(broker, topic, **more)))) == ROWS[5:8]
    late = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
    more = {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(late)}
    assert rows_of(source_of(declared(COLUMNS, options(broker, topic, **more)))) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scan.startup.mode": "earliest"}, "Did you mean 'earliest-offset'"),
        ({"scan.startup.mode": "group-offsets"}, "needs the option 'properties.group.id'"),
        ({"scan.startup.mode": "specific-offsets"}, "needs the option 'scan.startup.specific-offsets'"),
        ({"key.fields": "id"}, "set 'key.format'"),
        ({"key.format": "json", "key.fields": "idd"}, "Did you mean 'id'"),
        ({"sink.delivery-guarantee": "exactly-once"}, "needs the option 'sink.transactional-id-prefix'"),
        ({"topic-pattern": "x.*"}, "one of the options 'topic' and 'topic-pattern'"),
        ({"format": "parquet"}, "a format of files only"),
        ({"scan.startup.mod": "x"}, "Did you mean 'scan.startup.mode'"),
        ({"connector": "upsert-kafka"}, "has no option 'format'|needs"),
    ],
)
def test_wrong_options_are_named(changed: dict[str, str], message: str) -> None:
    settings = {
        "connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json",
        "scan.startup.mode": "earliest-offset",
    }  # fmt: skip
    table = declared(COLUMNS, {**settings, **changed})
    with pytest.raises(ProgramError, match=message):
        source_of(table), sink_of(table)


def test_secrets_are_not_shown() -> None:
    settings = {
        "connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:1", "format": "json",
        "scan.startup.mode": "earliest-offset", "properties.sasl.password": "hidden-word",
    }  # fmt: skip
    table = declared(COLUMNS, settings)
    assert "hidden-word" not in repr(source_of(table).build())
    assert "hidden-word" not in repr(sink_of(table).make())
