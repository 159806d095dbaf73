"""Kill a job with ``kill -9`` and see every record exactly once: ``make demo-kafka`` runs this program.

It starts a Kafka broker on this machine (the first time, Maven fetches 54 MB), writes a shop's orders to one topic at a
steady rate, and starts the job: running revenue per country in keyed state, written to a second topic in Kafka
transactions. When a third of the results is there, the job's processes are killed. The same program is started again
and continues from its last checkpoint. At the end, a consumer with ``read_committed`` sees what a plain loop computes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flott.common import Configuration, WatermarkStrategy
from flott.common.serialization import SerializationSchema, SimpleStringSchema
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors import DeliveryGuarantee
from flott.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor

COUNTRIES = ["Norway", "Kenya", "Japan", "Brazil", "Canada", "Italy"]
ORDERS, REVENUE = "orders", "revenue"
RATE = 4_000
SECONDS = 15


# ---- the job ---------------------------------------------------------------------------------------------------------


class Revenue(KeyedProcessFunction[str, str, str]):
    """Adds up the orders of a country."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", tuple[int, int]))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Iterator[str]:
        country, cents = value.split(",")
        orders, total = self.total.value() or (0, 0)
        self.total.update((orders + 1, total + int(cents)))
        yield f"{country},{orders + 1},{total + int(cents)}"


class Country(SerializationSchema):
    """The key of a result, so that the results of a country stay in order."""

    def serialize(self, element: str) -> bytes:
        return element.split(",")[0].encode()


def run_job(servers: str, folder: str) -> None:
    """Run the job until it is killed. It continues from its last checkpoint, if there is one."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", folder)
    configuration.set_string("execution.state-recovery.from-latest", "true")
    configuration.set_string("flott.progress", "off")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2).enable_checkpointing(500)
    orders = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(ORDERS)
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    revenue = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("demo")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(REVENUE)
            .set_key_serialization_schema(Country())
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )
    stream = env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders")
    stream.key_by(lambda order: order.split(",")[0]).process(Revenue()).uid("revenue").sink_to(revenue).uid("results")
    env.execute("revenue")


# ---- what happens to it ----------------------------------------------------------------------------------------------


def order(index: int) -> str:
    """Return the order of an index."""
    chance = random.Random(index)
    return f"{chance.choice(COUNTRIES)},{chance.randrange(100, 20_000)}"


def write_orders(broker: Any, seconds: int) -> None:
    """Write orders at a steady rate. Those of a country go to one partition, so they have one order."""
    for second in range(10 * seconds):
        due = time.monotonic() + 0.1
        lines = [order(index) for index in range(second * RATE // 10, (second + 1) * RATE // 10)]
        broker.produce(ORDERS, lines, keys=[line.split(",")[0] for line in lines])
        time.sleep(max(0.0, due - time.monotonic()))


def start_job(broker: Any, folder: str) -> subprocess.Popen[bytes]:
    """Start the job in processes of its own."""
    command = [sys.executable, __file__, "job", json.dumps([broker.address, f"{folder}/checkpoints"])]
    return subprocess.Popen(command, start_new_session=True)


def await_results(broker: Any, job: subprocess.Popen[bytes], count: int) -> None:
    """Wait until a read-committed consumer sees so many results."""
    while (found := len(broker.values(REVENUE))) < count:
        if job.poll() is not None:
            raise SystemExit(f"The job ended with status {job.returncode}.")
        print(f"  {found:>7,} results are visible", flush=True)
        time.sleep(1.0)


def check(broker: Any, count: int) -> None:
    """Compare what a read-committed consumer sees with a plain loop over the same orders."""
    expected: dict[str, list[str]] = defaultdict(list)
    totals: Counter[str] = Counter()
    for country, cents in (order(index).split(",") for index in range(count)):
        totals[country] += int(cents)
        expected[country].append(f"{country},{len(expected[country]) + 1},{totals[country]}")
    found: dict[str, list[str]] = defaultdict(list)
    for record in broker.read(REVENUE):
        found[record.key.decode()].append(record.value.decode())
    if found != expected:
        raise SystemExit("The results are not those of a plain loop.")
    void = len(broker.values(REVENUE, committed=False)) - count
    print(f"All {count:,} results are exact and in order: every order was counted once, and every result written once.")
    if void:
        print(f"A consumer without read_committed would have seen {void:,} more, of transactions that were aborted.")


def main(seconds: int = SECONDS) -> None:
    from tests.servers.kafka import kafka_server

    count = seconds * RATE
    with tempfile.TemporaryDirectory() as folder:
        print("A Kafka broker is starting ...", flush=True)
        with kafka_server(Path(folder) / "broker") as broker:
            broker.create_topic(ORDERS, partitions=4)
            broker.create_topic(REVENUE, partitions=2)
            threading.Thread(target=write_orders, args=(broker, seconds), daemon=True).start()
            print(f"Orders arrive at {RATE:,} a second for {seconds} seconds; Spark is starting ...", flush=True)
            job = start_job(broker, folder)
            try:
                await_results(broker, job, count // 3)
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
                print("-- kill -9: driver, Spark and Python workers are gone, in the middle of an epoch", flush=True)
                job = start_job(broker, folder)
                print("-- the same program is started again", flush=True)
                await_results(broker, job, count)
                check(broker, count)
            finally:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "job":
        run_job(*json.loads(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
