"""The Kafka sink with EXACTLY_ONCE when things fail: brokers, time-outs, former runs, deposed leaders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.kafka import FlinkKafkaProducer, KafkaDeadLetterSink, KafkaSink, Semantic
from flott.errors import ConnectorError, LeadershipLostError, StateError
from flott.runtime.connectors.kafka import committer as committer_module
from flott.runtime.connectors.kafka.end_txn import Transaction, TransactionClient
from flott.runtime.connectors.kafka.producer_settings import protocol_settings
from flott.testing.connectors import SinkRun
from flott.testing.connectors.sink_run import PREPARED
from flott.testing.sinks import commit_permit
from tests.connectors.kafka.test_sink import sink_builder
from tests.servers.kafka import PASSWORD, USER, KafkaServer, kafka_server
from tests.servers.process import NoServer

EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


def exact_sink(broker: KafkaServer, topic: str, **properties: str) -> KafkaSink:
    """Return a sink for texts; in names of properties ``_`` stands for a dot."""
    builder = sink_builder(broker, topic, EXACTLY_ONCE)
    for key, value in properties.items():
        builder.set_property(key.replace("_", "."), value)
    return builder.build()


def texts(broker: KafkaServer, topic: str) -> list[str]:
    """Return what a read-committed consumer sees, sorted."""
    return sorted(value.decode() for value in broker.values(topic) if value is not None)


def ongoing(sink: KafkaSink) -> list[Transaction]:
    """Return the open transactions of a sink's prefix."""
    client = TransactionClient(protocol_settings(sink))
    try:
        return client.ongoing(f"{sink.transactional_id_prefix}.*")
    finally:
        client.close()


# ---- lost transactions -----------------------------------------------------------------------------------------------


def test_a_transaction_that_timed_out_says_which_records_are_lost(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    patient = SinkRun(exact_sink(broker, topic))
    patient.commit(patient.stage(1, ["a", "b"]))
    patient.close()
    sink = exact_sink(broker, topic, transaction_timeout_ms="2000")
    run = SinkRun(sink)
    staged = None
    for _ in range(20):
        with suppress(ConnectorError):  # on a busy machine the records may not be delivered in this time
            staged = run.stage(2, ["c", "d", "e"])
            break
    assert staged is not None
    deadline = time.monotonic() + 120
    while ongoing(sink):
        assert time.monotonic() < deadline, "the broker did not abort the transaction"
        time.sleep(0.1)
    with pytest.raises(StateError) as lost:
        run.restart(staged)
    text = str(lost.value)
    for part in ("checkpoint 2", "3 records of subtask 0", f"3 of topic {topic}", "time-out of 2000 ms",
                 "transaction.timeout.ms", "transaction.max.timeout.ms", "checkpoint interval"):  # fmt: skip
        assert part in text
    run.close()
    assert texts(broker, topic) == ["a", "b"]


def test_an_older_checkpoint_can_be_restored(broker: KafkaServer) -> None:
    """The ids of its transactions have been used again, so that the broker refuses to commit it: it was visible."""
    topic = broker.create_topic(partitions=2)
    run = SinkRun(exact_sink(broker, topic))
    checkpoints = []
    for epoch in range(1, 9):
        checkpoints.append(run.stage(epoch, [f"{epoch}"]))
        run.commit(checkpoints[-1])
    assert checkpoints[0].committables[0]["transactional_id"] in {
        found["transactional_id"] for later in checkpoints[2:] for found in later.committables
    }, "ids are used again"
    for old in (checkpoints[0], checkpoints[4]):
        run.restart(old)
    assert texts(broker, topic) == sorted(map(str, range(1, 9)))
    broker.delete_records(topic, partition=0, before=-1)
    broker.delete_records(topic, partition=1, before=-1)
    run.restart(checkpoints[0])  # retention has deleted its records
    run.close()


def test_ids_are_few_however_many_epochs_there_are(broker: KafkaServer) -> None:
    run = SinkRun(exact_sink(broker, broker.create_topic()))
    ids = set()
    for epoch in range(1, 11):
        staged = run.stage(epoch, ["x", "y"], parallelism=2)
        ids |= {found["transactional_id"] for found in staged.committables}
        run.commit(staged)
    run.close()
    assert len(ids) <= 2 * 5, "two writers, each with the epochs e, e + 1, and what is made ahead"


def test_an_epoch_without_records_has_no_transaction(broker: KafkaServer) -> None:
    run = SinkRun(exact_sink(broker, broker.create_topic()))
    assert run.stage(1, [], parallelism=2).committables == []


def test_a_committable_of_another_version_is_refused(broker: KafkaServer) -> None:
    run = SinkRun(exact_sink(broker, broker.create_topic()))
    staged = run.stage(1, ["a"])
    staged.committables[0]["version"] = 2
    with pytest.raises(StateError, match="version 2, expected 1"):
        run.commit(staged)
    run.close()


# ---- lingering transactions ------------------------------------------------------------------------------------------


def test_a_new_job_ends_what_a_former_run_left_open(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    sink = exact_sink(broker, topic)
    former = SinkRun(sink)
    former.stage_and_die(1, ["lost"], PREPARED, "a")
    former.stage(1, ["lost, too"])
    other = exact_sink(broker, topic)
    longer = KafkaSink(other.properties, other.serializer, EXACTLY_ONCE, f"{sink.transactional_id_prefix}-longer")
    neighbour = SinkRun(longer)
    kept = neighbour.stage(1, ["neighbour"])
    assert len(ongoing(sink)) == 3
    run = SinkRun(sink)  # another job with the same prefix
    run.restart(None)
    assert [found.transactional_id.rsplit("-", 4)[0] for found in ongoing(sink)] == [longer.transactional_id_prefix]
    neighbour.commit(kept)
    run.commit(run.stage(1, ["a"]))
    assert texts(broker, topic) == ["a", "neighbour"]
    run.close()
    neighbour.close()


def test_dead_letter_sinks_of_two_jobs_do_not_disturb_each_other(broker: KafkaServer) -> None:
    from flott.datastream.connectors.base import BadRecord

    topic = broker.create_topic()
    one, two = (SinkRun(KafkaDeadLetterSink(broker.address, topic)) for _ in range(2))
    staged = one.stage(1, [BadRecord("here", "bad", b"one")])
    two.restart(None)
    one.commit(staged)
    two.commit(two.stage(1, [BadRecord("there", "bad", b"two")]))
    assert texts(broker, topic) == ["one", "two"]
    one.close()
    two.close()


def test_older_producers_of_two_jobs_do_not_disturb_each_other(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    with pytest.warns(DeprecationWarning, match="use KafkaSink"):
        sink = FlinkKafkaProducer(
            topic, SimpleStringSchema(), {"bootstrap.servers": broker.address}, semantic=Semantic.EXACTLY_ONCE
        )
    one, two = SinkRun(sink), SinkRun(sink)
    staged = one.stage(1, ["one"])
    two.restart(None)
    one.commit(staged)
    assert texts(broker, topic) == ["one"]
    one.close()
    two.close()


@pytest.mark.connectors
def test_what_a_dead_worker_left_is_ended_while_the_job_goes_on(broker: KafkaServer) -> None:
    """A task that Spark retries leaves the transaction of its first attempt; there is no restart of the job."""
    topic = broker.create_topic()
    sink = exact_sink(broker, topic)
    run = SinkRun(sink)
    run.restart(None)
    run.commit(run.stage(1, ["a"]))
    run.stage_and_die(2, ["b"], PREPARED, "first attempt")
    run.commit(run.stage(2, ["b"]))
    assert len(ongoing(sink)) == 1
    assert texts(broker, topic) == ["a"], "the transaction that is open hides what follows it"
    run.now_ms += committer_module.SWEEP_MS
    run.commit(run.stage(3, ["c"]))
    run.commit(run.stage(4, ["d"]))
    assert ongoing(sink) == []
    assert texts(broker, topic) == ["a", "b", "c", "d"]
    run.close()


def test_what_tasks_write_while_a_checkpoint_is_committed_is_not_ended(broker: KafkaServer) -> None:
    """In a pipelined job, the transaction of the next checkpoint is open when this one is committed."""
    topic = broker.create_topic()
    sink = exact_sink(broker, topic)
    run = SinkRun(sink)
    run.restart(None)
    staged = run.stage(1, ["1"])
    for epoch in range(2, 7):
        ahead = run.stage(epoch, [str(epoch)])
        run.commit(staged)
        run.now_ms += committer_module.SWEEP_MS
        staged = ahead
    run.commit(staged)
    assert texts(broker, topic) == ["1", "2", "3", "4", "5", "6"]
    run.close()


class _Deposed(frozenset[str]):
    def __contains__(self, attempt: object) -> bool:
        raise LeadershipLostError("another process leads")


def test_a_deposed_leader_ends_nothing_of_its_successor(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    sink = exact_sink(broker, topic)
    run = SinkRun(sink)
    first = run.stage(1, ["a"])
    run.commit(first)
    deposed = run.new_committer()
    assert deposed is not None
    staged = run.stage(2, ["b"])  # of the successor
    with pytest.raises(LeadershipLostError):
        deposed.discard(_Deposed())
    deposed.commit(commit_permit(1, now_ms=0, replay=True), first.committables)
    deposed.commit(commit_permit(1, now_ms=committer_module.SWEEP_MS, replay=True), first.committables)
    with pytest.raises(LeadershipLostError):
        deposed.commit(commit_permit(1, now_ms=committer_module.SWEEP_MS, replay=True), first.committables)
    run.commit(staged)
    assert texts(broker, topic) == ["a", "b"]
    deposed.close()
    run.close()


# ---- a broker that dies, logins --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of this module's own, with SASL and TLS, which is killed."""
    pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")
    try:
        with kafka_server(tmp_path_factory.mktemp("fragile"), sasl=True, tls=True) as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.mark.connectors
def test_a_broker_may_die_between_prepare_and_commit(fragile: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = fragile.create_topic(partitions=2)
    run = SinkRun(exact_sink(fragile, topic))
    run.restart(None)
    run.commit(run.stage(1, ["a", "b", "c"], parallelism=2))
    staged = run.stage(2, ["d", "e", "f"], parallelism=2)
    fragile.kill()
    committer = run.committer()
    assert committer is not None
    monkeypatch.setattr(committer._client, "_call_seconds", 1.0)  # type: ignore[attr-defined]
    with pytest.raises(ConnectorError, match="did not carry out a request about transactions"):
        run.commit(staged)
    fragile.process.start()
    monkeypatch.setattr(committer._client, "_call_seconds", 60.0)  # type: ignore[attr-defined]
    run.commit(staged)
    run.commit(run.stage(3, ["g"]))
    run.restart(staged)
    run.close()
    assert texts(fragile, topic) == list("abcdefg")


def test_a_broker_that_stalls_is_an_error_and_no_hang(fragile: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = fragile.create_topic()
    run = SinkRun(exact_sink(fragile, topic))
    run.commit(run.stage(1, ["a"]))
    hasty = exact_sink(fragile, topic, delivery_timeout_ms="1500")
    writer = SinkRun(hasty, job_id=run.job_id, operator_id=run.operator_id).writer(2, "stalled")
    writer.write(["b"], None)
    monkeypatch.setattr("flott.runtime.connectors.kafka.writer.GRACE_SECONDS", 1.0)
    fragile.pause()
    try:
        writer.write(["c"], None)
        with pytest.raises(ConnectorError, match="Kafka did not take a record of epoch 2"):
            writer.prepare_commit()
    finally:
        fragile.resume()
    writer.close()
    run.restart(None)
    run.commit(run.stage(2, ["b", "c"]))
    run.close()
    assert texts(fragile, topic) == ["a", "b", "c"]


def _with_login(fragile: KafkaServer, topic: str, way: str, password: str) -> KafkaSink:
    builder = sink_builder(fragile, topic, EXACTLY_ONCE).set_transactional_id_prefix(f"login-{uuid4().hex[:8]}")
    if way == "TLS":
        builder.set_bootstrap_servers(fragile.tls_address).set_property("security.protocol", "SSL")
        return builder.set_property("ssl.ca.location", str(fragile.certificate)).build()
    builder.set_bootstrap_servers(fragile.sasl_address).set_property("security.protocol", "SASL_PLAINTEXT")
    builder.set_property("sasl.mechanism", way)
    module = "plain.PlainLoginModule" if way == "PLAIN" else "scram.ScramLoginModule"
    login = f'org.apache.kafka.common.security.{module} required username="{USER}" password="{password}";'
    return builder.set_property("sasl.jaas.config", login).build()


@pytest.mark.connectors
@pytest.mark.parametrize("way", ["TLS", "PLAIN", "SCRAM-SHA-256"])
def test_transactions_are_committed_over_a_secured_connection(fragile: KafkaServer, way: str) -> None:
    topic = fragile.create_topic()
    sink = _with_login(fragile, topic, way, PASSWORD)
    sink.validate()
    run = SinkRun(sink)
    run.restart(None)
    run.commit(run.stage(1, ["a", "b"]))
    run.close()
    assert texts(fragile, topic) == ["a", "b"]


def test_wrong_credentials_are_refused_without_showing_them(
    fragile: KafkaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flott.runtime.connectors.kafka.sink_validation.ANSWER_SECONDS", 3.0)
    sink = _with_login(fragile, fragile.create_topic(), "PLAIN", "wrong-secret")
    with pytest.raises(Exception, match=r"login|credentials") as refused:
        sink.validate()
    run = SinkRun(sink)
    committer: Any = run.committer()
    committer._client._call_seconds = 2.0
    with pytest.raises(ConnectorError) as failed:
        committer.discard(frozenset())
    run.close()
    shown = f"{refused.value}{failed.value}{caplog.text}"
    assert "wrong-secret" not in shown
