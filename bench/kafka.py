"""The workloads with Kafka: what is in the topics, the user functions, the broker. Used by runners and by the plan.

    kafka_pass    source -> one Python function -> sink
    kafka_count   source -> key by 10,000 keys -> running count in keyed state -> sink

Flott's sink is EXACTLY_ONCE, and so is PyFlink's; the bare loop writes without transactions. The broker runs on the
same machine and takes its share of the cores from every runner alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

WORKLOADS = ("kafka_pass", "kafka_count")
PARTITIONS = 4
KEYS = 10_000
VALUE_BYTES = 100
#: The interpreter that has confluent-kafka, for runners that have one of their own.
PYTHON_VARIABLE = "FLOTT_BENCH_PYTHON"
CONNECTOR = "org.apache.flink:flink-sql-connector-kafka"


def line(index: int) -> str:
    """Return the record of an index: a key, and text up to 100 bytes."""
    return f"{(index * 7919) % KEYS:05d},{index:09d},".ljust(VALUE_BYTES, "x")


def passed(value: str) -> str:
    """Return what `kafka_pass` makes of a record: a new text, so that no engine can pass on the old one."""
    return "y" + value[1:]


def key_of(value: str) -> str:
    """Return the key of a record."""
    return value[:5]


def counted(key: str, count: int) -> str:
    """Return what `kafka_count` writes for a record."""
    return f"{key},{count}"


def expected(workload: str, records: int) -> list[str]:
    """Return the sorted output of a plain loop."""
    if workload == "kafka_pass":
        return sorted(passed(line(index)) for index in range(records))
    counts: dict[str, int] = {}
    output = []
    for key in (key_of(line(index)) for index in range(records)):
        counts[key] = counts.get(key, 0) + 1
        output.append(counted(key, counts[key]))
    return sorted(output)


@dataclass
class Broker:
    """A broker in a process of its own, which fills and reads topics on request."""

    process: subprocess.Popen[str]
    address: str

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Return the answer to a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([verb, *arguments]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def filled(self, records: int) -> str:
        """Return the topic that holds so many records."""
        return str(self.ask("filled", records))

    def empty(self) -> str:
        """Return a new topic."""
        return str(self.ask("empty"))

    def check(self, workload: str, topic: str, records: int) -> None:
        """Refuse an engine whose output is not that of a plain loop."""
        if self.ask("values", topic) != expected(workload, records):
            raise AssertionError(f"{workload}: results differ from the reference on a small input")


@contextmanager
def broker() -> Iterator[Broker]:
    """Run a broker until the block ends."""
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    process = subprocess.Popen(
        [python, "-m", "bench.kafka_broker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline() or '{"missing": "no broker"}')
        if "missing" in said:
            raise RuntimeError(said["missing"])
        yield Broker(process, said["address"])
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
