"""A broker that is killed, restarted, or does not answer while a job reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import SliceRequest, SplitEnumerator
from flott.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from flott.errors import ConnectorError
from flott.runtime.connectors.kafka.partition_consumer import POOL
from flott.testing.connectors.source_run import enumerator_of
from flott.testing.harness import in_process
from flott.testing.sinks import Ledger, LedgerSink
from tests.servers.kafka import KafkaServer, kafka_server
from tests.servers.process import NoServer, free_port
from tests.servers.tcp_proxy import TcpProxy

pytestmark = pytest.mark.connectors  # it starts a broker of its own, several times


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaServer, TcpProxy]]:
    """A broker that can be killed, and a proxy through which all traffic of a client may go."""
    port = free_port()
    try:
        with kafka_server(tmp_path_factory.mktemp("fragile"), proxied_port=port) as server:
            assert server.upstream is not None
            proxy = TcpProxy(server.upstream, port)
            yield server, proxy
            proxy.close()
    except NoServer as reason:
        pytest.skip(str(reason))


def building(address: str, topic: str, **properties: str) -> KafkaSourceBuilder:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(address)
        .set_topics(topic)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_properties({key.replace("_", "."): value for key, value in properties.items()})
    )


def run_until(env: Any, holds: Callable[[], bool], seconds: float = 120) -> None:
    client = env.execute_async("live")
    deadline = time.monotonic() + seconds
    try:
        while not holds():
            assert time.monotonic() < deadline, "it did not happen"
            if client.get_job_status().result().is_terminal_state():
                client.get_job_execution_result().result()  # raises what it failed with
            time.sleep(0.05)
    finally:
        client.cancel().result()


def plan_again_and_again(enumerator: SplitEnumerator) -> None:
    for now_ms in range(0, 20_000, 100):
        enumerator.plan(SliceRequest(10, 1, now_ms))
        time.sleep(0.02)


def test_a_broker_may_be_killed_and_restarted_while_a_job_reads(proxied: tuple[KafkaServer, TcpProxy]) -> None:
    server, _ = proxied
    topic = server.create_topic(partitions=3)
    ledger = Ledger(f"killed-{uuid4().hex}")
    env = in_process(2, flott__epoch__max_records="500")
    source = building(server.address, topic).set_group_id("killed").build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").sink_to(LedgerSink(ledger))
    wanted = 0
    kills = 0

    def step() -> bool:
        nonlocal wanted, kills
        if kills < 3 and len(ledger.records) >= wanted // 2:
            if kills:
                server.restart()
            kills += 1
            server.produce(topic, map(str, range(wanted, wanted + 3000)))
            wanted += 3000
        return kills == 3 and len(ledger.records) >= wanted

    run_until(env, step)
    assert sorted(map(int, ledger.records)) == list(range(wanted)), "nothing is lost, nothing is doubled"


def test_a_network_that_stalls_is_waited_for(proxied: tuple[KafkaServer, TcpProxy]) -> None:
    server, proxy = proxied
    topic = server.create_topic(partitions=2)
    server.produce(topic, map(str, range(1000)))
    ledger = Ledger(f"stalled-{uuid4().hex}")
    env = in_process(2, flott__epoch__max_records="100")
    source = building(proxy.address, topic, socket_timeout_ms="3000").build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").sink_to(LedgerSink(ledger))
    stalled = False

    def step() -> bool:
        nonlocal stalled
        if not stalled and ledger.records:
            stalled = True
            proxy.stall()
            server.produce(topic, map(str, range(1000, 1500)))
            Thread(target=lambda: (time.sleep(4), proxy.resume()), daemon=True).start()
        return len(ledger.records) >= 1500

    run_until(env, step)
    assert sorted(map(int, ledger.records)) == list(range(1500))


def test_a_broker_that_does_not_answer_is_an_error_after_the_time_limit(proxied: tuple[KafkaServer, TcpProxy]) -> None:
    server, proxy = proxied
    topic = server.create_topic()
    server.produce(topic, ["a", "b"])
    source = building(proxy.address, topic, default_api_timeout_ms="1500").build()
    enumerator = enumerator_of(source, None)
    (part,) = enumerator.plan(SliceRequest(10, 1, 0)).slices
    proxy.stall()
    try:
        with pytest.raises(ConnectorError, match=rf"did not answer reading topic {topic}, partition 0, .*1500 ms"):
            list(source.create_reader().read(part))
        assert enumerator.plan(SliceRequest(10, 1, 0)).slices == (), "a plan does without the answer at first"
        with pytest.raises(ConnectorError, match="did not answer listing offsets"):
            plan_again_and_again(enumerator)
        with pytest.raises(ConnectorError, match=r"did not answer describing the topics.*default\.api\.timeout\.ms"):
            enumerator_of(source, None)
    finally:
        proxy.resume()
        POOL.close()
    assert list(source.create_reader().read(part)) == ["a", "b"]


def test_no_broker_at_the_address_is_an_error_that_names_it() -> None:
    source = building(f"127.0.0.1:{free_port()}", "orders", default_api_timeout_ms="1000").build()
    with pytest.raises(ConnectorError, match=r"Kafka at 127\.0\.0\.1:\d+ did not answer"):
        enumerator_of(source, None)
    pattern = KafkaSource.builder().set_bootstrap_servers(f"127.0.0.1:{free_port()}").set_topic_pattern("x.*")
    pattern.set_value_only_deserializer(SimpleStringSchema()).set_property("default.api.timeout.ms", "1000")
    with pytest.raises(ConnectorError, match="did not answer listing topics"):
        enumerator_of(pattern.build(), None)


def test_compaction_leaves_gaps_that_are_passed_over(proxied: tuple[KafkaServer, TcpProxy]) -> None:
    server, _ = proxied
    quick = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    topic = server.create_topic(**quick, max_compaction_lag_ms="100")
    for n in range(6):
        server.produce(topic, [f"a{n}", f"b{n}"], keys=["a", "b"])
        time.sleep(0.15)  # so that segments are closed
    deadline = time.monotonic() + 60
    while len(server.read(topic)) > 6:
        assert time.monotonic() < deadline, "the broker did not compact the topic"
        server.produce(topic, ["end"], keys=["z"])
    source = building(server.address, topic).set_bounded(KafkaOffsetsInitializer.latest()).build()
    before, after, values, stop = [b""], [b"x"], [""], 0
    while before != after:  # it may be compacted in between
        assert time.monotonic() < deadline, "the broker did not stop compacting"
        POOL.close()
        before = server.values(topic)
        (part,) = enumerator_of(source, None).plan(SliceRequest(1, 1, 0, everything=True)).slices
        values, stop = list(source.create_reader().read(part)), part.stop
        after = server.values(topic)
    assert [value.encode() for value in values] == before
    assert stop > len(values), "offsets are missing"
