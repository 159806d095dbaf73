"""Kinesis and Firehose, against moto."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import OnError, Sink, SliceRequest, Source
from flott.datastream.connectors.kinesis import (
    FlinkKinesisConsumer,
    KinesisFirehoseSink,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors import aws
from flott.runtime.connectors.kinesis.shards import Shard, readable, start_position
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.sink_run import SinkRun
from flott.testing.connectors.source_run import enumerator_of, read_slice, through_json
from tests.servers.moto import SECRET_KEY

TEXT = SimpleStringSchema()
server = pytest.mark.connectors


def create(amazon: dict[str, str], shards: int = 2, values: Sequence[bytes] = ()) -> str:
    kinesis, name = aws.client("kinesis", amazon, "kinesis"), uuid4().hex
    kinesis.create_stream(StreamName=name, ShardCount=shards)
    put(amazon, name, values)
    return name


def put(amazon: dict[str, str], stream: str, values: Sequence[bytes]) -> None:
    kinesis = aws.client("kinesis", amazon, "kinesis")
    for start in range(0, len(values), 500):
        some = values[start : start + 500]
        kinesis.put_records(StreamName=stream, Records=[{"Data": v, "PartitionKey": uuid4().hex} for v in some])


def consumer(amazon: dict[str, str], stream: str, **options: Any) -> FlinkKinesisConsumer:
    start = {"flink.stream.initpos": "TRIM_HORIZON", "flink.shard.getrecords.intervalmillis": "10"}
    return FlinkKinesisConsumer(stream, TEXT, amazon | start, **options)


def content(amazon: dict[str, str], stream: str) -> list[str]:
    kinesis, found = aws.client("kinesis", amazon, "kinesis"), []
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        found += [r["Data"].decode() for r in kinesis.get_records(ShardIterator=iterator, Limit=10000)["Records"]]
    return found


@server
class TestSource(SourceConformance):
    seeds = 1
    records = 24
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _server(self, amazon: dict[str, str]) -> None:
        self.amazon = amazon

    def source(self, count: int) -> Source[Any]:
        return consumer(self.amazon, create(self.amazon, 2, [str(n).encode() for n in range(count)]))

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        values = [b"\xff" if n in bad else str(n).encode() for n in range(count)]
        return consumer(self.amazon, create(self.amazon, 2, values), on_error=on_error)


@server
class TestSink(SinkConformance):
    seeds = 1
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _server(self, amazon: dict[str, str]) -> None:
        self.amazon = amazon

    def sink(self) -> Sink[Any]:
        self.stream = create(self.amazon)
        builder = KinesisStreamsSink.builder().set_stream_name(self.stream).set_serialization_schema(TEXT)
        return builder.set_kinesis_client_properties(self.amazon).set_max_batch_size(5).build()

    def visible(self) -> Sequence[Any]:
        return content(self.amazon, self.stream)


@server
class TestFirehoseSink(SinkConformance):
    seeds = 1
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _server(self, amazon: dict[str, str]) -> None:
        self.amazon = amazon

    def sink(self) -> Sink[Any]:
        self.bucket = uuid4().hex
        self._client("s3").create_bucket(Bucket=self.bucket)
        self._client("firehose").create_delivery_stream(
            DeliveryStreamName=self.bucket,
            ExtendedS3DestinationConfiguration={
                "RoleARN": "arn:aws:iam::123456789012:role/flott",
                "BucketARN": f"arn:aws:s3:::{self.bucket}",
            },
        )
        builder = KinesisFirehoseSink.builder().set_delivery_stream_name(self.bucket).set_serialization_schema(Line())
        return builder.set_firehose_client_properties(self.amazon).build()

    def _client(self, service: str) -> Any:
        return aws.client(service, self.amazon, "firehose")

    def visible(self) -> Sequence[Any]:
        s3, found = self._client("s3"), []
        for item in s3.list_objects_v2(Bucket=self.bucket).get("Contents", ()):
            found += s3.get_object(Bucket=self.bucket, Key=item["Key"])["Body"].read().decode().splitlines()
        return found


class Line(SimpleStringSchema):
    def serialize(self, element: Any) -> bytes:
        return f"{element}\n".encode()

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        return [self.serialize(element) for element in elements]


@server
def test_a_stream_that_is_missing_is_named(amazon: dict[str, str]) -> None:
    with pytest.raises(ProgramError, match="Kinesis streams nowhere: not found"):
        consumer(amazon, "nowhere").create_enumerator().open()
    builder = KinesisStreamsSink.builder().set_stream_name("nowhere").set_serialization_schema(TEXT)
    with pytest.raises(ProgramError, match="Kinesis stream nowhere: not found"):
        builder.set_kinesis_client_properties(amazon).build().validate()
    firehose = KinesisFirehoseSink.builder().set_delivery_stream_name("nowhere").set_serialization_schema(TEXT)
    with pytest.raises(ProgramError, match="Firehose delivery stream nowhere: not found"):
        firehose.set_firehose_client_properties(amazon).build().validate()


@server
def test_a_record_that_is_too_large_fails_the_epoch(amazon: dict[str, str]) -> None:
    builder = KinesisStreamsSink.builder().set_stream_name(create(amazon)).set_serialization_schema(TEXT)
    sink = builder.set_kinesis_client_properties(amazon).set_max_record_size_in_bytes(100).build()
    with pytest.raises(ConnectorError, match="100 are allowed"):
        SinkRun(sink).stage(1, ["x" * 200])


@server
def test_fixed_keys_keep_the_records_of_a_subtask_in_order(amazon: dict[str, str]) -> None:
    stream = create(amazon, 4)
    builder = KinesisStreamsSink.builder().set_stream_name(stream).set_serialization_schema(TEXT)
    builder.set_kinesis_client_properties(amazon).set_partition_key_generator(PartitionKeyGenerator.fixed())
    SinkRun(builder.build()).stage(1, [str(n) for n in range(50)])
    assert content(amazon, stream) == [str(n) for n in range(50)]


# --- without a server -------------------------------------------------------------------------------------------------


def test_what_was_refused_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aws, "RESEND_SECONDS", (0.0, 0.0))
    sent: list[list[int]] = []

    def send(entries: Sequence[int]) -> list[tuple[int, str]]:
        sent.append(list(entries))
        return [(entry, "slow down") for entry in entries if entry >= len(sent)]

    aws.send_all([0, 1, 2], send, "stream")
    assert sent == [[0, 1, 2], [1, 2], [2]]
    with pytest.raises(ConnectorError, match="stream: 1 of 1 records were refused: never"):
        aws.send_all([0], lambda entries: [(entry, "never") for entry in entries], "stream")


def test_shards_are_read_after_those_that_they_continue() -> None:
    shards = {
        shard.name: shard
        for shard in (
            Shard("s", "1", ("s/0",), ["trim"]),  # its parent has expired
            Shard("s", "2", ("s/1",), ["trim"]),
            Shard("s", "3", (), ["trim"]),
            Shard("s", "4", ("s/2", "s/3"), ["trim"]),
        )
    }

    def names(positions: dict[str, Any]) -> list[str]:
        return [shard.shard_id for shard in readable(shards, positions)]

    assert names({}) == ["1", "3"]
    assert names({"s/1": ["end"]}) == ["2", "3"]
    assert names({"s/1": ["end"], "s/2": ["end"]}) == ["3"]
    assert names({"s/1": ["end"], "s/2": ["end"], "s/3": ["end"]}) == ["4"]


class FakeKinesis:
    """One stream whose shards can be split, as Kinesis does it. (moto goes on writing to a shard that is closed.)"""

    def __init__(self) -> None:
        self.records: dict[str, list[bytes]] = {"0": []}
        self.parents: dict[str, str] = {}
        self.busy = 0  #: how many requests are refused first

    def split(self, shard: str) -> None:
        for child in (f"{shard}a", f"{shard}b"):
            self.records[child], self.parents[child] = [], shard

    def list_shards(self, StreamName: str) -> Any:
        return {"Shards": [self._facts(shard) for shard in self.records]}

    def _facts(self, shard: str) -> Any:
        closed = {"EndingSequenceNumber": "9"} if shard in self.parents.values() else {}
        parent = {"ParentShardId": self.parents[shard]} if shard in self.parents else {}
        return {"ShardId": shard, "SequenceNumberRange": {"StartingSequenceNumber": "0", **closed}, **parent}

    def get_shard_iterator(self, ShardId: str, StartingSequenceNumber: str = "-1", **rest: Any) -> Any:
        return {"ShardIterator": f"{ShardId}:{int(StartingSequenceNumber) + 1}"}

    def get_records(self, ShardIterator: str, Limit: int) -> Any:
        if self.busy:
            self.busy -= 1
            raise Refused("ProvisionedThroughputExceededException")
        shard, _, at = ShardIterator.partition(":")
        some = list(enumerate(self.records[shard]))[int(at) : int(at) + 3]
        behind = int(at) + len(some) < len(self.records[shard])
        ended = shard in self.parents.values() and not behind
        return {
            "Records": [
                {
                    "Data": v,
                    "SequenceNumber": str(n),
                    "PartitionKey": "k",
                    "ApproximateArrivalTimestamp": datetime.now(UTC),
                }
                for n, v in some
            ],
            "NextShardIterator": None if ended else f"{shard}:{int(at) + len(some)}",
            "MillisBehindLatest": int(behind),
        }


class Refused(Exception):
    def __init__(self, code: str):
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


def test_children_of_a_shard_are_read_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kinesis = FakeKinesis()
    monkeypatch.setattr(aws, "client", lambda *names: kinesis)
    kinesis.records["0"] = [f"before {n}".encode() for n in range(10)]
    kinesis.busy = 2
    source, found = consumer({}, "s"), []
    enumerator = enumerator_of(source, None)
    deadline = time.monotonic() + 60
    while len(found) < 30:
        assert time.monotonic() < deadline
        plan = enumerator.plan(SliceRequest(4, 2, 0))
        for part in plan.slices:
            found += [(part.split, value) for value in read_slice(source, part)[0]]
        enumerator.advance(plan, {part.split: part.stop for part in plan.slices})
        state = through_json(enumerator.snapshot())
        if len(kinesis.records) == 1 and found:
            kinesis.split("0")
            kinesis.records["0a"] = [f"left {n}".encode() for n in range(10)]
            kinesis.records["0b"] = [f"right {n}".encode() for n in range(10)]
        if len(found) % 3 == 0:
            enumerator.close()
            enumerator = enumerator_of(source, state)
        time.sleep(0.001)
    enumerator.close()
    assert [value for _, value in found[:10]] == [f"before {n}" for n in range(10)]
    for shard, word in (("s/0a", "left"), ("s/0b", "right")):
        assert [value for name, value in found if name == shard] == [f"{word} {n}" for n in range(10)]
    assert state["shards"]["s/0"] == ["end"]


def test_starting_positions() -> None:
    assert start_position("TRIM_HORIZON", None, 5) == ["trim"]
    assert start_position("LATEST", None, 5) == ["at", 5]
    assert start_position("AT_TIMESTAMP", "2026-01-01T00:00:00", 5) == ["at", 1767225600000]
    with pytest.raises(ProgramError, match="AT_TIMESTAMP"):
        FlinkKinesisConsumer("s", TEXT, {"flink.stream.initpos": "AT_TIMESTAMP"})
    with pytest.raises(ProgramError, match="one of LATEST"):
        FlinkKinesisConsumer("s", TEXT, {"flink.stream.initpos": "somewhere"})
