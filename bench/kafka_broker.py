"""A Kafka broker for the runners, with topics that it fills and reads: requests on standard input, answers on standard
output, one JSON value a line. It ends with its input."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import kafka
from tests.servers.kafka import KafkaServer, kafka_server
from tests.servers.process import NoServer, maven


def main() -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="flott-bench-kafka-") as folder, kafka_server(Path(folder)) as server:
            print(json.dumps({"address": server.address}), flush=True)
            topics: dict[int, str] = {}
            for request in sys.stdin:
                print(json.dumps(answer(server, topics, *json.loads(request))), flush=True)
    except NoServer as reason:
        print(json.dumps({"missing": str(reason)}), flush=True)


def answer(server: KafkaServer, topics: dict[int, str], verb: str, *arguments: Any) -> Any:
    """Carry out a request."""
    if verb == "empty":
        return server.create_topic(partitions=kafka.PARTITIONS)
    if verb == "values":
        return sorted(value.decode() for value in server.values(arguments[0]) if value is not None)
    if verb == "connector":
        try:
            return str(maven(f"flink-kafka-{arguments[0]}", [f"{kafka.CONNECTOR}:{arguments[0]}"]))
        except NoServer:
            return None
    (records,) = arguments
    if records not in topics:
        topics[records] = server.create_topic(partitions=kafka.PARTITIONS)
        for partition in range(kafka.PARTITIONS):
            lines = (kafka.line(index) for index in range(partition, records, kafka.PARTITIONS))
            server.produce(topics[records], lines, partition=partition)
    return topics[records]


if __name__ == "__main__":
    main()
