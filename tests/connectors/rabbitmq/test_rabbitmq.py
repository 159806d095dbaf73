"""RabbitMQ, against a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import Guarantee, OnError, Sink, SlicePlan, SliceRequest, Source, SplitEnumerator
from flott.datastream.connectors.rabbitmq import (
    QueueDeserializationSchema,
    QueueMessage,
    QueueSerializationSchema,
    RMQConnectionConfig,
    RMQSink,
    RMQSource,
)
from flott.errors import ConnectorError, ProgramError
from flott.runtime.clock import SystemClock
from flott.runtime.connectors.queues import receiver
from flott.runtime.connectors.rabbitmq.connection import connect
from flott.testing import Cancel, Ledger, LedgerSink, in_process, live
from flott.testing.connectors import SinkConformance
from flott.testing.connectors.sink_run import SinkRun
from tests.connectors.queues.queue_kit import QueueConformance
from tests.servers.process import NoServer
from tests.servers.rabbitmq import RabbitServer

pytestmark = pytest.mark.connectors

TEXT = SimpleStringSchema()
WATCHDOG_SECONDS = 120


def fill(config: RMQConnectionConfig, queue: str, values: Sequence[bytes], ids: bool = True) -> None:
    import pika

    connection = connect(config)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    for number, value in enumerate(values):
        ident = f"{queue}-{number}" if ids else None
        channel.basic_publish("", queue, value, pika.BasicProperties(delivery_mode=2, correlation_id=ident))
    connection.close()


def content(config: RMQConnectionConfig, queue: str) -> list[tuple[str | None, str]]:
    """Look at a queue without taking anything: correlation ids and values."""
    connection = connect(config)
    channel = connection.channel()
    count = channel.queue_declare(queue, durable=True).method.message_count
    found = []
    for _ in range(count):
        method, properties, body = channel.basic_get(queue)
        if method is not None:
            found.append((properties.correlation_id, body.decode()))
    connection.close()
    return found


def await_plan(
    enumerator: SplitEnumerator, enough: Callable[[SlicePlan], bool] = lambda plan: bool(plan.slices)
) -> Any:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while not enough(plan := enumerator.plan(SliceRequest(10_000, 2, 0))):
        assert time.monotonic() < deadline, "nothing arrived"
        time.sleep(0.01)
    return plan


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RabbitServer]:
    try:
        server = RabbitServer(tmp_path / "rabbitmq").start()
    except NoServer as reason:
        pytest.skip(str(reason))
    yield server
    server.stop()


class TestSourceWithIds(QueueConformance):
    secrets = ("guests-password",)

    @pytest.fixture(autouse=True)
    def _server(self, rabbit: RMQConnectionConfig) -> None:
        self.config = rabbit

    def source(self, count: int) -> Source[Any]:
        queue = uuid4().hex
        fill(self.config, queue, [str(number).encode() for number in range(count)])
        return RMQSource(self.config, queue, True, TEXT)

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        queue = uuid4().hex
        fill(self.config, queue, [b"\xff" if n in bad else str(n).encode() for n in range(count)])
        return RMQSource(self.config, queue, True, TEXT, on_error)


class _RabbitSink(SinkConformance):
    after_checkpoint = False

    @pytest.fixture(autouse=True)
    def _server(self, rabbit: RMQConnectionConfig) -> None:
        self.config = rabbit

    def sink(self) -> Sink[Any]:
        self.queue = uuid4().hex
        sink = RMQSink(self.config, self.queue, TEXT, after_checkpoint=self.after_checkpoint)
        sink.validate()
        return sink

    def visible(self) -> Sequence[Any]:
        return [value for _, value in content(self.config, self.queue)]


class TestSink(_RabbitSink):
    pass


class TestSinkAfterCheckpoint(_RabbitSink):
    after_checkpoint = True

    def test_a_repeated_commit_repeats_the_correlation_ids(self) -> None:
        """A consumer that knows the ids takes each record once, whatever was published twice."""
        run = SinkRun(self.sink())
        staged = run.stage(1, ["a", "b", "c"])
        assert self.visible() == []
        run.commit(staged)
        run.restart(staged)
        found = content(self.config, self.queue)
        assert len(found) == 6
        assert len(dict(found)) == 3
        source = RMQSource(self.config, self.queue, True, TEXT)
        enumerator = source.create_enumerator()
        enumerator.open()
        plan = await_plan(enumerator, lambda plan: sum(part.records or 0 for part in plan.slices) == 3)
        assert sorted(value for part in plan.slices for value in source.create_reader().read(part)) == ["a", "b", "c"]
        enumerator.close()
        run.close()


# --- a job ------------------------------------------------------------------------------------------------------------


def test_a_job_reads_one_queue_and_writes_another(rabbit: RMQConnectionConfig, tmp_path: Path) -> None:
    queue, output = uuid4().hex, uuid4().hex
    fill(rabbit, queue, [str(number).encode() for number in range(500)])
    env = in_process(2)
    stream = env.from_source(RMQSource(rabbit, queue, True, TEXT), WatermarkStrategy.no_watermarks(), "queue")
    stream.map(lambda text: f"seen {text}").sink_to(RMQSink(rabbit, output, TEXT, after_checkpoint=True))

    def stop(step: str, epoch: int) -> None:
        if step == "committed" and len(content(rabbit, output)) >= 500:
            raise Cancel

    job = live(env, tmp_path / "job", on_step=stop, clock=SystemClock())
    assert job.failure is None
    assert sorted(value for _, value in content(rabbit, output)) == sorted(f"seen {n}" for n in range(500))
    assert content(rabbit, queue) == [], "what was processed is acknowledged"


def test_a_broker_that_is_killed_loses_and_repeats_nothing(own_server: RabbitServer, tmp_path: Path) -> None:
    config = RMQConnectionConfig.Builder().set_uri(own_server.uri).build()
    fill(config, "orders", [str(number).encode() for number in range(300)])
    own_server.process.stop()  # a broker that is killed at once forgets the queue
    own_server.process.start()
    ledger = Ledger(uuid4().hex)
    env = in_process(2, flott__epoch__max_records="50")
    source = RMQSource(config, "orders", True, TEXT)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "queue").sink_to(LedgerSink(ledger))
    kills = [2, 4]

    def step(name: str, epoch: int) -> None:
        if name == "ran" and kills and epoch >= kills[0]:
            kills.pop(0)
            own_server.process.restart()
        if name == "committed" and len(ledger.records) >= 300:
            raise Cancel

    job = live(env, tmp_path / "job", on_step=step, clock=SystemClock())
    assert job.failure is None
    assert not kills
    assert sorted(map(int, ledger.records)) == list(range(300))


def test_a_message_that_is_not_acknowledged_stays_in_the_queue(rabbit: RMQConnectionConfig) -> None:
    queue = uuid4().hex
    fill(rabbit, queue, [b"1", b"2"], ids=False)
    source = RMQSource(rabbit, queue, False, TEXT)
    assert source.guarantee is Guarantee.AT_LEAST_ONCE
    enumerator = source.create_enumerator()
    enumerator.open()
    plan = await_plan(enumerator)
    enumerator.advance(plan, {})
    enumerator.close()
    assert [value for _, value in content(rabbit, queue)] == ["1", "2"]


# --- what can go wrong ------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_refused_before_anything_runs(rabbit: RMQConnectionConfig) -> None:
    wrong = replace(rabbit, password="not-the-password")
    with pytest.raises(ProgramError, match="refused user 'guest'") as refused:
        RMQSource(wrong, "queue", False, TEXT).create_enumerator().open()
    assert "not-the-password" not in str(refused.value)
    with pytest.raises(ProgramError, match="Check user name and password"):
        RMQSink(wrong, "queue", TEXT).validate()
    address = (
        RMQConnectionConfig.Builder().set_uri(f"amqp://guest:not-the-password@127.0.0.1:{rabbit.port}/%2F").build()
    )
    with pytest.raises(ProgramError) as refused:
        RMQSink(address, "queue", TEXT).validate()
    assert "not-the-password" not in str(refused.value) + repr(RMQSink(address, "queue", TEXT))


def test_a_virtual_host_that_does_not_exist_is_named(rabbit: RMQConnectionConfig) -> None:
    with pytest.raises(ProgramError, match="virtual host nowhere denied access"):
        RMQSink(replace(rabbit, virtual_host="nowhere"), "queue", TEXT).validate()


def test_a_broker_that_is_away_is_an_error_that_can_be_tried_again(rabbit: RMQConnectionConfig) -> None:
    away = replace(rabbit, port=1, connection_timeout=2000)
    with pytest.raises(ConnectorError, match=r"127\.0\.0\.1:1.*Check that the broker runs"):
        RMQSource(away, "queue", False, TEXT).create_enumerator().open()
    with pytest.raises(ConnectorError, match="publishing"):
        SinkRun(RMQSink(away, "queue", TEXT)).stage(1, ["a"])


def test_a_broker_that_hangs_is_noticed(own_server: RabbitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RMQConnectionConfig.Builder().set_uri(own_server.uri).set_requested_heartbeat(2).build()
    config = replace(config, connection_timeout=2000)
    monkeypatch.setattr(receiver, "PATIENCE_SECONDS", 1.0)
    source = RMQSource(config, "orders", False, TEXT)
    enumerator = source.create_enumerator()
    enumerator.open()
    own_server.process.pause()
    try:
        with pytest.raises(ConnectorError, match="RabbitMQ queue orders cannot be reached"):
            await_plan(enumerator)
    finally:
        own_server.process.resume()
        enumerator.close()


def test_a_queue_that_is_deleted_is_declared_again(rabbit: RMQConnectionConfig) -> None:
    queue = uuid4().hex
    fill(rabbit, queue, [b"1"])
    enumerator = RMQSource(rabbit, queue, True, TEXT).create_enumerator()
    enumerator.open()
    await_plan(enumerator)
    connection = connect(rabbit)
    connection.channel().queue_delete(queue)
    connection.close()
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while enumerator.pending(0).records:
        enumerator.plan(SliceRequest(10, 1, 0))
        assert time.monotonic() < deadline
    fill(rabbit, queue, [b"2", b"3"])
    await_plan(enumerator)
    enumerator.close()


def test_a_message_without_a_correlation_id_is_an_error(rabbit: RMQConnectionConfig) -> None:
    queue = uuid4().hex
    fill(rabbit, queue, [b"1"], ids=False)
    enumerator = RMQSource(rabbit, queue, True, TEXT).create_enumerator()
    enumerator.open()
    with pytest.raises(ProgramError, match="use_correlation_id=False"):
        await_plan(enumerator)
    enumerator.close()


def test_a_message_that_no_queue_takes_fails_the_epoch(rabbit: RMQConnectionConfig) -> None:
    connection = connect(rabbit)
    exchange = uuid4().hex
    connection.channel().exchange_declare(exchange, "topic")
    sink = RMQSink(rabbit, "nothing.bound", TEXT, exchange=exchange)
    sink.validate()
    with pytest.raises(ConnectorError, match=r"no queue is bound to routing key 'nothing\.bound'"):
        SinkRun(sink).stage(1, ["a"])
    with pytest.raises(ConnectorError, match="looking for exchange missing"):
        replace(sink, exchange="missing").validate()
    connection.close()


class ByKey(QueueSerializationSchema):
    def serialize_message(self, element: Any) -> QueueMessage:
        return QueueMessage(element[1].encode(), topic=element[0], headers={"kind": "test"})


class WithKey(QueueDeserializationSchema):
    def deserialize_message(self, message: QueueMessage) -> Any:
        assert message.headers is not None
        return message.topic, message.value.decode(), message.headers["kind"]

    def get_produced_type(self) -> Any:
        raise NotImplementedError


def test_routing_keys_and_headers_travel_with_messages(rabbit: RMQConnectionConfig) -> None:
    connection = connect(rabbit)
    channel, exchange, queue = connection.channel(), uuid4().hex, uuid4().hex
    channel.exchange_declare(exchange, "topic")
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange, "a.*")
    SinkRun(RMQSink(rabbit, "unused", ByKey(), exchange=exchange)).stage(1, [("a.1", "one"), ("a.2", "two")])
    source = RMQSource(rabbit, queue, True, WithKey())
    enumerator = source.create_enumerator()
    enumerator.open()
    plan = await_plan(enumerator, lambda plan: sum(part.records or 0 for part in plan.slices) == 2)
    assert list(source.create_reader().read(plan.slices[0])) == [("a.1", "one", "test"), ("a.2", "two", "test")]
    enumerator.close()
    connection.close()
