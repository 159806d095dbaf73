"""SQS, against moto."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SerializationSchema, SimpleStringSchema
from flott.datastream.connectors.base import OnError, Sink, SliceRequest, Source
from flott.datastream.connectors.sqs import QueueMessage, QueueSerializationSchema, SqsSink, SqsSource
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors import aws
from flott.testing.connectors import SinkConformance
from flott.testing.connectors.sink_run import SinkRun
from tests.connectors.queues.queue_kit import QueueConformance
from tests.servers.moto import SECRET_KEY

pytestmark = pytest.mark.connectors

TEXT = SimpleStringSchema()


def create(amazon: dict[str, str], fifo: bool = False) -> str:
    attributes = {"FifoQueue": "true"} if fifo else {}
    name = uuid4().hex + (".fifo" if fifo else "")
    return str(aws.client("sqs", amazon, "sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


class OneGroup(QueueSerializationSchema):
    def serialize_message(self, element: Any) -> QueueMessage:
        return QueueMessage(element, topic=None)


def fill(amazon: dict[str, str], queue: str, values: Sequence[bytes]) -> None:
    sink = SqsSink(queue, OneGroup(), amazon)
    run = SinkRun(sink)
    run.commit(run.stage(1, values))


def content(amazon: dict[str, str], queue: str) -> list[str]:
    """Look at a queue without taking anything."""
    sqs, found = aws.client("sqs", amazon, "sqs"), {}
    while some := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=60).get("Messages"):
        found |= {message["MessageId"]: message for message in some}
    for message in found.values():
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    return [message["Body"] for message in found.values()]


class _Source(QueueConformance):
    fifo = False
    records, seeds = 16, 1  # each connection costs several requests
    ordered = False
    secrets = (SECRET_KEY,)

    @pytest.fixture(autouse=True)
    def _server(self, amazon: dict[str, str]) -> None:
        self.amazon = amazon

    def _source(self, values: Sequence[bytes], on_error: OnError) -> Source[Any]:
        queue = create(self.amazon, self.fifo)
        fill(self.amazon, queue, values)
        return SqsSource(queue, Number(), self.amazon, on_error=on_error)

    def source(self, count: int) -> Source[Any]:
        return self._source([str(number).encode() for number in range(count)], OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        return self._source([b"x" if n in bad else str(n).encode() for n in range(count)], on_error)


class Number(SimpleStringSchema):
    def deserialize(self, message: bytes) -> Any:
        return int(message)

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return [int(message) for message in messages]


class TestStandardSource(_Source):
    pass


class TestFifoSource(_Source):
    fifo, ordered = True, True


class _Sink(SinkConformance):
    fifo = False
    schema: SerializationSchema = TEXT
    secrets = (SECRET_KEY,)
    seeds = 1

    @pytest.fixture(autouse=True)
    def _server(self, amazon: dict[str, str]) -> None:
        self.amazon = amazon

    def sink(self) -> Sink[Any]:
        self.queue = create(self.amazon, self.fifo)
        return SqsSink(self.queue, self.schema, self.amazon)

    def visible(self) -> Sequence[Any]:
        return content(self.amazon, self.queue)


class TestStandardSink(_Sink):
    pass


class OwnGroups(QueueSerializationSchema):
    """A group for each record: while a message of a group is looked at, SQS hides the others of the group."""

    def serialize_message(self, element: Any) -> QueueMessage:
        return QueueMessage(element.encode(), topic=element.replace(" ", "-"))


class TestFifoSink(_Sink):
    fifo, schema = True, OwnGroups()


def test_messages_stay_hidden_while_the_job_lives_and_are_deleted_after_the_checkpoint(amazon: dict[str, str]) -> None:
    queue = create(amazon)
    fill(amazon, queue, [str(number).encode() for number in range(25)])
    enumerator = SqsSource(queue, TEXT, amazon, visibility_timeout_seconds=10).create_enumerator()
    enumerator.open()
    total = 0
    while total < 25:
        plan = enumerator.plan(SliceRequest(100, 1, 0))
        total = sum(part.records or 0 for part in plan.slices)
        time.sleep(0.02)
    hidden_for = time.monotonic() + 12  # longer than the time-out
    while time.monotonic() < hidden_for:
        assert content(amazon, queue) == []
        time.sleep(1)
    enumerator.advance(plan, {})
    enumerator.acknowledge()
    enumerator.close()
    assert content(amazon, queue) == []


def test_messages_that_were_not_processed_appear_again_at_once(amazon: dict[str, str]) -> None:
    queue = create(amazon)
    fill(amazon, queue, [b"1", b"2"])
    enumerator = SqsSource(queue, TEXT, amazon).create_enumerator()
    enumerator.open()
    while not enumerator.plan(SliceRequest(100, 1, 0)).slices:
        time.sleep(0.02)
    enumerator.close()
    assert sorted(content(amazon, queue)) == ["1", "2"]


def test_a_queue_that_is_missing_is_named(amazon: dict[str, str]) -> None:
    queue = create(amazon) + "x"
    with pytest.raises(ProgramError, match=r"SQS queue .*: not found"):
        SqsSource(queue, TEXT, amazon).create_enumerator().open()
    with pytest.raises(ProgramError, match="create it first"):
        SqsSink(queue, TEXT, amazon).validate()


def test_a_service_that_is_away_is_an_error_that_can_be_tried_again(amazon: dict[str, str]) -> None:
    sink = SqsSink("http://127.0.0.1:1/queue", TEXT, amazon | {"aws.endpoint": "http://127.0.0.1:1"})
    with pytest.raises(ConnectorError, match="SQS queue") as failed:
        sink.validate()
    assert SECRET_KEY not in str(failed.value) + repr(sink)
    with pytest.raises(ProgramError, match="visibility"):
        replace(SqsSource("x", TEXT, amazon), visibility_timeout_seconds=0)
