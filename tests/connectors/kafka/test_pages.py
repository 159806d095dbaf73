"""The programs on the pages about the Kafka sink and about hybrid sources run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.pages import run_page
from tests.servers.kafka import KafkaServer


def test_the_program_of_the_sinks_page_runs(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.create_topic("orders-dead-letters")
    run_page(
        "kafka-sink.md", {"localhost:9092": broker.address, '"words"': f'"{topic}"', '"write-words"': f'"{topic}"'}
    )
    assert sorted(map(str, broker.values(topic))) == ["b'jam'", "b'tea'", "b'tea'"]


def test_the_program_of_the_page_about_hybrid_sources_runs(
    broker: KafkaServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["live"])
    (tmp_path / "history.txt").write_text("history\n")
    printed: list[str] = []

    def both() -> bool:
        printed.append(capfd.readouterr().out)
        return "live" in "".join(printed)

    run_page(
        "hybrid.md",
        {
            "localhost:9092": broker.address,
            '"/data/events/2023"': repr(str(tmp_path)),
            '("events")\n    .set_group': f'("{topic}")\n    .set_group',
        },
        until=both,
    )
    assert [line.rpartition("> ")[2] for line in "".join(printed).splitlines()] == ["history", "live"]
