"""Kafka to Kafka in Spark's worker processes: exactly once, also when a worker is killed while it reads or writes."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tests.connectors.kafka.conftest import broker  # noqa: F401
from tests.connectors.kafka.survival_job import Account, Key
from tests.servers.kafka import KafkaServer
from tests.spark.conftest import MakeEnvironment

RECORDS = 6000
KEYS = 7


class KillsItsWorker:
    """A map function that kills the process it runs in, once, at a record."""

    def __init__(self, mark: Path, beginning: str):
        self.mark, self.beginning = str(mark), beginning

    def __call__(self, line: str) -> str:
        if line.startswith(self.beginning):
            with suppress(FileExistsError):
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return line


def plain_loop(lines: list[str]) -> dict[str, list[str]]:
    """What the job gives, key by key."""
    totals: dict[str, int] = defaultdict(int)
    results: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        key, number = line.split(",")
        totals[key] += int(number)
        results[key].append(f"{key},{len(results[key]) + 1},{totals[key]}")
    return results


#: A pipelined job restarts where an epoch is retried by Spark alone.
PIPELINED = {
    "execution.mode": "pipelined",
    "execution.checkpointing.interval": "200 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 3,
    "restart-strategy.fixed-delay.delay": "100 ms",
}


@pytest.mark.parametrize(
    ("place", "options"),
    [
        pytest.param("no", {}, id="in epochs"),
        pytest.param("reading", {}, id="in epochs, reading"),
        pytest.param("writing", {}, id="in epochs, writing"),
        pytest.param("reading", PIPELINED, id="pipelined, reading", marks=pytest.mark.long),
        pytest.param("writing", PIPELINED, id="pipelined, writing"),
    ],
)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    broker: KafkaServer,  # noqa: F811
    environment: MakeEnvironment,
    tmp_path: Path,
    place: str,
    options: dict[str, object],
) -> None:
    lines = [f"k{number % KEYS},{number}" for number in range(RECORDS)]
    source, target = broker.create_topic(partitions=3), broker.create_topic(partitions=2)
    for partition in range(3):  # all records of a key in one partition, so that their order is known
        own = [line for line in lines if int(line[1]) % 3 == partition]
        broker.produce(source, own, partition=partition)
    struck = tmp_path / "struck"
    reading = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.address)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    writing = (
        KafkaSink.builder()
        .set_bootstrap_servers(broker.address)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(target)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(target)
            .set_key_serialization_schema(Key())
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )
    env = environment({"flott.epoch.max-records": 1500, **options})
    stream = env.from_source(reading, WatermarkStrategy.no_watermarks(), "numbers")
    if place == "reading":
        stream = stream.map(KillsItsWorker(struck, "k1,3")).uid("killer")
    results = stream.key_by(lambda line: line.split(",")[0]).process(Account()).uid("accounts")
    if place == "writing":
        results = results.map(KillsItsWorker(struck, "k1,300,"))
    results.sink_to(writing).uid("results")
    env.execute("Kafka to Kafka")

    assert struck.exists() is (place != "no")
    found: dict[str, list[str]] = defaultdict(list)
    for record in broker.read(target):
        assert record.value is not None
        line = record.value.decode()
        found[line.split(",")[0]].append(line)
    assert found == plain_loop(lines)
