"""PyFlink from Kafka to Kafka, exactly once, with its Kafka connector out of Maven: the job of `flott_kafka`."""

from __future__ import annotations

import time
from pathlib import Path

import pyflink.version
from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

from bench import kafka, steady
from bench.runners import command
from bench.runners.pyflink import VARIANTS, show_packages_to_the_jvm

#: The connector of each version of Flink, the newest first.
CONNECTORS = {"2.": ("5.0.0-2.2", "4.0.1-2.0"), "1.20": ("3.4.0-1.20",), "1.19": ("3.3.0-1.19",)}
CHECKPOINT_MS = 2_000


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield kafka.counted(kafka.key_of(value), count)


def build(env: StreamExecutionEnvironment, workload: str, address: str, source: str, target: str) -> None:
    records = (
        KafkaSource.builder()
        .set_bootstrap_servers(address)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(address)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"bench-{target}")
        .set_property("transaction.timeout.ms", "600000")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(target)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )
    stream = env.from_source(records, WatermarkStrategy.no_watermarks(), "source")
    if workload == "kafka_pass":
        stream.map(kafka.passed, Types.STRING()).sink_to(sink)
    else:
        stream.key_by(kafka.key_of, Types.STRING()).process(RunningCount(), Types.STRING()).sink_to(sink)


def measure(request: command.Request) -> dict[str, object]:
    show_packages_to_the_jvm()
    version = pyflink.version.__version__
    variant = request.variant if request.variant in VARIANTS else "thread"
    with kafka.broker() as broker:
        jars = _connector(broker, version)

        def run(records: int) -> tuple[int, float]:
            source, target = broker.filled(records), broker.empty()
            configuration = Configuration()
            for key, value in VARIANTS[variant].items():
                configuration.set_string(key, value)
            configuration.set_string("pipeline.jars", jars)
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            env.set_parallelism(request.cores)
            env.enable_checkpointing(CHECKPOINT_MS)
            build(env, request.workload, broker.address, source, target)
            started = time.perf_counter()
            env.execute(request.workload)
            seconds = time.perf_counter() - started
            if records == command.CHECK_RECORDS:
                broker.check(request.workload, target, records)
            return records, seconds

        run(command.CHECK_RECORDS)
        pairs = steady.measure(run, request.records, request.seconds, request.repeats)
    return {
        **steady.summary(pairs),
        "detail": f"exactly once, {variant}, checkpoint every {CHECKPOINT_MS} ms, parallelism {request.cores}",
        "versions": {"flink": version},
    }


def _connector(broker: kafka.Broker, version: str) -> str:
    known = next((found for begin, found in CONNECTORS.items() if version.startswith(begin)), ())
    for connector in known:
        folder = broker.ask("connector", connector)
        if folder is not None:
            return ";".join(f"file://{jar}" for jar in sorted(Path(folder).glob("flink-sql-connector-kafka*.jar")))
    raise RuntimeError(f"no Kafka connector for Flink {version} in Maven: tried {', '.join(known) or 'none'}")


if __name__ == "__main__":
    command.main("pyflink", measure)
