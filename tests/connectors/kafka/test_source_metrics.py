"""The lag of a Kafka source by partition, as REST and Prometheus show it; the programs of the page about Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.kafka import KafkaSource
from flott.reporters.exposition import Exposition, TextFormat
from flott.rest.shapes.metrics import subtask_metrics
from flott.runtime.jobmanager.views.job_view import JobView
from flott.testing.harness import Cancel, in_process
from tests.connectors.pages import run_page
from tests.servers.kafka import KafkaServer
from tests.unit.reporters.test_reporters import Cluster
from tests.unit.runtime.jobmanager.tracked_jobs import recorded


def test_lag_and_offsets_of_partitions_are_metrics(broker: KafkaServer, tmp_path: Path) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, map(str, range(30)), partition=0)
    broker.produce(topic, map(str, range(4)), partition=1)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.address)
        .set_topics(topic)
        .set_group_id(topic)
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    env = in_process(2, flott__epoch__max_records="10")
    env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").sink_to(DiscardSink())
    seen: list[JobView] = []
    masters: list[Any] = []

    def look(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 2):
            seen.extend(each.view() for each in masters[0].listeners if hasattr(each, "view"))
            raise Cancel

    recorded(env, tmp_path, on_step=look, on_start=masters.append)
    (vertex,) = [each for each in seen[0].vertices if "kafka" in each.name]
    shown = subtask_metrics(vertex, vertex.subtasks[0])
    scope = f"Source__kafka.KafkaSourceReader.topic.{topic}.partition"
    assert {name.removeprefix(scope): value for name, value in shown.items() if name.startswith(scope)} == {
        ".0.currentOffset": 5, ".0.pendingRecords": 24, ".0.committedOffset": 6,
        ".1.currentOffset": 3, ".1.pendingRecords": 0, ".1.committedOffset": 4,
    }  # fmt: skip
    cluster: Any = Cluster([seen[0]])
    text = Exposition().scrape(cluster, TextFormat.PROMETHEUS).decode()
    metric = f"operator_KafkaSourceReader_topic_{topic.replace('-', '_')}_partition_0_pendingRecords"
    (line,) = [line for line in text.splitlines() if metric in line and not line.startswith("#")]
    assert float(line.rpartition(" ")[2]) == 24


def test_the_programs_of_the_page_run(broker: KafkaServer, capfd: pytest.CaptureFixture[str]) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["tea", "jam"])
    run_page(
        "kafka.md",
        {
            "localhost:9092": broker.address,
            '"orders")\n    .set_group': f'"{topic}")\n    .set_group',
            "from flott.datastream import StreamExecutionEnvironment": "from flott.testing.harness import in_process",
            "StreamExecutionEnvironment.get_execution_environment()": "in_process(1)",
        },
    )
    assert [line.rpartition("> ")[2] for line in capfd.readouterr().out.split()] == ["TEA", "JAM"]
