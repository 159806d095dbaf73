"""A real Kafka for tests: one node (KRaft) on loopback, whose jars come by Maven. It starts in about five seconds.

Besides the plain listener it has, on demand, one with SASL (PLAIN and SCRAM-SHA-256), one with TLS, and one that
announces the port of a proxy, so that all traffic of a client passes the proxy.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers.process import NoServer, ServerProcess, free_port, maven
from tests.servers.sharing import shared

VERSION = "4.3.1"
JARS = (
    f"org.apache.kafka:kafka_2.13:{VERSION}",
    f"org.apache.kafka:kafka-tools:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1",
)
JAVA = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
USER, PASSWORD = "alice", "alices-password"
#: How long one call of a client may take here. It is a watchdog.
CALL_SECONDS = 60


@dataclass(frozen=True)
class KafkaRecord:
    """A record as a consumer sees it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaServer:
    """One broker, which can be killed and restarted, with what tests do to it."""

    def __init__(
        self,
        folder: Path,
        *,
        sasl: bool = False,
        tls: bool = False,
        proxied_port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ):
        if shutil.which("java") is None:
            raise NoServer("no Kafka: there is no java to run it with")
        self.folder = folder
        self.port, self._controller_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.sasl_address = f"localhost:{free_port()}" if sasl else ""
        self.tls_address = f"localhost:{free_port()}" if tls else ""
        self.certificate = folder / "certificate.pem"  #: what a client of the TLS listener trusts
        #: where a proxy in front of the broker forwards to, if there is a port of a proxy
        self.upstream = ("127.0.0.1", free_port()) if proxied_port is not None else None
        self._proxied_port = proxied_port
        self._jars = maven(f"kafka-{VERSION}", JARS)
        self._properties = folder / "server.properties"
        folder.mkdir(parents=True, exist_ok=True)
        if tls:
            self._make_certificate()
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings(settings).items()))
        self._format()
        command = self._java("kafka.Kafka", str(self._properties))
        self.process = ServerProcess("kafka", command, folder, self._answers)

    @classmethod
    def at(cls, facts: Mapping[str, str]) -> KafkaServer:
        """Return a server that another process runs. It cannot be stopped or killed."""
        server = cls.__new__(cls)
        server.address, server.sasl_address, server.tls_address = (facts[key] for key in ("plain", "sasl", "tls"))
        server.certificate = Path(facts["certificate"])
        return server

    @property
    def facts(self) -> dict[str, str]:
        """Return what another process needs to use the server."""
        return {
            "plain": self.address,
            "sasl": self.sasl_address,
            "tls": self.tls_address,
            "certificate": str(self.certificate),
        }

    # ---- its life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process.start()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.process.kill()

    def restart(self) -> None:
        """Kill it by SIGKILL and start it again with its data."""
        self.process.restart()

    def stop(self) -> None:
        """End it for good. A clean shutdown takes seconds, and its data is not needed any more."""
        self._close_clients()
        self.process.kill()

    def pause(self) -> None:
        """Let it answer nothing, without closing a connection."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()

    # ---- what tests do -----------------------------------------------------------------------------------------------

    def create_topic(self, name: str | None = None, partitions: int = 1, **config: str) -> str:
        """Create a topic and return its name: a new one, if none is given. In ``config`` ``_`` stands for a dot."""
        from confluent_kafka.admin import NewTopic

        topic = name or f"topic-{uuid4().hex[:12]}"
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self._done(self._admin.create_topics([NewTopic(topic, partitions, 1, config=dotted)]))
        self._await_leaders(topic, partitions)
        return topic

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until the broker does not list it any more."""
        self._done(self._admin.delete_topics([topic]))
        self._until(lambda: topic not in self._admin.list_topics(timeout=CALL_SECONDS).topics)

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        from confluent_kafka.admin import NewPartitions

        self._done(self._admin.create_partitions([NewPartitions(topic, total)]))
        self._await_leaders(topic, total)
        self.__dict__.pop("_producer", None)  # it would not know them for some minutes

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Remove the records before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        self._done(self._admin.delete_records([TopicPartition(topic, partition, before)]))

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        *,
        partition: int | None = None,
        keys: Sequence[bytes | str | None] | None = None,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Write records, to one partition or by key, and wait for them."""
        produce_all(self._producer, topic, values, partition, keys, timestamps, headers)
        assert self._producer.flush(CALL_SECONDS) == 0, "the broker did not take the records"

    def producer(self, transactional_id: str | None = None, **settings: str) -> Any:
        """Return a new producer; with a transactional id it has been initialised."""
        from confluent_kafka import Producer

        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        if transactional_id is None:
            return Producer({"bootstrap.servers": self.address, "linger.ms": 5, "enable.idempotence": True, **dotted})
        made = Producer({"bootstrap.servers": self.address, "transactional.id": transactional_id, **dotted})
        made.init_transactions(CALL_SECONDS)
        return made

    def read(self, topic: str, *, committed: bool = True) -> list[KafkaRecord]:
        """Return all records of a topic as of now, by partition and offset; aborted ones only if not ``committed``."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"reader-{uuid4().hex}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            found: list[KafkaRecord] = []
            ended: set[int] = set()
            deadline = time.monotonic() + CALL_SECONDS
            while len(ended) < len(partitions):
                assert time.monotonic() < deadline, f"{topic} was not read to its end: {len(found)} records"
                for message in consumer.consume(500, 0.05):
                    if message.error() is None:
                        found.append(as_record(message))
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition())
                    else:
                        raise RuntimeError(str(message.error()))
            return sorted(found, key=lambda record: (record.partition, record.offset))
        finally:
            consumer.close()

    def values(self, topic: str, *, committed: bool = True) -> list[bytes | None]:
        """Return the values of all records of a topic, by partition and offset."""
        return [record.value for record in self.read(topic, committed=committed)]

    def committed_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets that a group has committed, by partition."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        answer = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
        offsets = answer.result(CALL_SECONDS).topic_partitions
        return {found.partition: found.offset for found in offsets if found.topic == topic and found.offset >= 0}

    # ---- inside ------------------------------------------------------------------------------------------------------

    @cached_property
    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "reconnect.backoff.max.ms": 500})

    @cached_property
    def _producer(self) -> Any:
        return self.producer(reconnect_backoff_max_ms="500")

    def _close_clients(self) -> None:
        for name in ("_admin", "_producer"):
            self.__dict__.pop(name, None)

    def _done(self, futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(CALL_SECONDS)

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """Wait until every partition has a leader: a client that asks earlier is told that there is no such topic."""

        def is_there() -> bool:
            found = self._admin.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions
            return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

        self._until(is_there)

    def _until(self, holds: Any) -> None:
        deadline = time.monotonic() + CALL_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "the broker does not do what it was told"
            time.sleep(0.02)

    def _settings(self, more: Mapping[str, str] | None) -> dict[str, str]:
        listeners = {"PLAINTEXT": (f"127.0.0.1:{self.port}", "PLAINTEXT")}
        advertised = {"PLAINTEXT": self.address}
        if self.upstream is not None:
            listeners["PROXIED"] = (f"127.0.0.1:{self.upstream[1]}", "PLAINTEXT")
            advertised["PROXIED"] = f"127.0.0.1:{self._proxied_port}"
        if self.sasl_address:
            listeners["SASL"] = (self.sasl_address, "SASL_PLAINTEXT")
            advertised["SASL"] = self.sasl_address
        if self.tls_address:
            listeners["TLS"] = (self.tls_address, "SSL")
            advertised["TLS"] = self.tls_address
        listeners["CONTROLLER"] = (f"127.0.0.1:{self._controller_port}", "PLAINTEXT")
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(f"{name}://{address}" for name, (address, _) in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{address}" for name, address in advertised.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, (_, kind) in listeners.items()),
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # After SIGKILL the controller keeps the old registration for so long.
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
            # Records with old timestamps stay, unless a topic says otherwise.
            "log.retention.ms": "-1",
            # Deletions, compaction and time-outs of transactions are to happen while a test waits.
            "file.delete.delay.ms": "500",
            "log.cleaner.backoff.ms": "200",
            "log.retention.check.interval.ms": "500",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        }
        if self.sasl_address:
            module = "org.apache.kafka.common.security"
            settings |= {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "listener.name.sasl.plain.sasl.jaas.config": (
                    f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
                ),
                "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            }
        if self.tls_address:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / "server.pem")}
        return settings | dict(more or {})

    def _java(self, main: str, *arguments: str) -> list[str]:
        return ["java", *JAVA, "-cp", f"{self._jars}/*", main, *arguments]

    def _format(self) -> None:
        users = ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"] if self.sasl_address else []
        identity = "flottflottflottflottfw"
        command = self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._properties), *users)
        done = subprocess.run(command, capture_output=True, timeout=240)
        if done.returncode != 0:
            raise NoServer(f"no Kafka: its storage cannot be formatted: {done.stderr.decode(errors='replace')[-1000:]}")

    def _make_certificate(self) -> None:
        if shutil.which("openssl") is None:
            raise NoServer("no Kafka with TLS: there is no openssl to make a certificate with")
        key = self.folder / "key.pem"
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out"]
        command = ["openssl", "req", *made, str(self.certificate), *names]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        (self.folder / "server.pem").write_text(key.read_text() + self.certificate.read_text())

    def _answers(self) -> bool:
        """Return whether clients are served: the port is open before the broker has registered."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        from confluent_kafka import KafkaException

        try:
            return bool(self._admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False


def produce_all(
    producer: Any,
    topic: str,
    values: Iterable[bytes | str | None],
    partition: int | None = None,
    keys: Sequence[bytes | str | None] | None = None,
    timestamps: Sequence[int] | None = None,
    headers: Sequence[tuple[str, bytes | None]] | None = None,
) -> None:
    """Hand records to a producer."""
    options: dict[str, Any] = {} if partition is None else {"partition": partition}
    if headers is not None:
        options["headers"] = list(headers)
    for index, value in enumerate(values):
        if keys is not None:
            options["key"] = keys[index]
        if timestamps is not None:
            options["timestamp"] = timestamps[index]
        while True:
            try:
                producer.produce(topic, value, **options)
                break
            except BufferError:
                producer.poll(0.1)


def as_record(message: Any) -> KafkaRecord:
    """Return what a message of the client says."""
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        tuple(message.headers() or ()),
    )


@contextmanager
def kafka_server(folder: Path, **options: Any) -> Iterator[KafkaServer]:
    """Run a broker over a folder; the options are those of :class:`KafkaServer`."""
    server = KafkaServer(folder, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, str]]:
    """Run the broker that all test processes share, with all listeners."""
    with kafka_server(folder / "kafka", sasl=True, tls=True) as server:
        yield server.facts


@contextmanager
def shared_kafka() -> Iterator[KafkaServer]:
    """Give the broker that all test processes of a run share: use topics of your own, and do not stop it."""
    with shared("kafka", serve) as facts:
        server = KafkaServer.at(facts)
        try:
            yield server
        finally:
            server._close_clients()
