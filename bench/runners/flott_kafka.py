"""Flott on local Spark from Kafka to Kafka, exactly once."""

from __future__ import annotations

import time

import flott
from bench import kafka, steady
from bench.runners import command
from flott.common import Configuration, WatermarkStrategy
from flott.common.serialization import SimpleStringSchema
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors import DeliveryGuarantee
from flott.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield kafka.counted(kafka.key_of(value), count)


def build(env: StreamExecutionEnvironment, workload: str, address: str, source: str, target: str) -> None:
    """The whole job; `pyflink_kafka` has the same with PyFlink's imports."""
    records = (
        KafkaSource.builder()
        .set_bootstrap_servers(address)
        .set_topics(source)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(address)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"bench-{target}")
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
        stream.map(kafka.passed).sink_to(sink)
    else:
        stream.key_by(kafka.key_of).process(RunningCount()).sink_to(sink)


def measure(request: command.Request) -> dict[str, object]:
    with kafka.broker() as broker:

        def run(records: int) -> tuple[int, float]:
            source, target = broker.filled(records), broker.empty()
            configuration = Configuration()
            configuration.set_string("flott.progress", "off")
            for key, value in request.settings.items():
                configuration.set_string(key, value)
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            env.set_parallelism(request.cores)
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
        "detail": f"exactly once, default settings, parallelism {request.cores}",
        "versions": {"flott": getattr(flott, "__version__", "")},
    }


if __name__ == "__main__":
    command.main("flott", measure)
