"""The bare loop with Kafka: consume(500), the user function, produce; one process per core, without transactions."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench import kafka, steady
from bench.runners import command

BATCH = 500


def measure(request: command.Request) -> dict[str, object]:
    with kafka.broker() as broker:

        def run(records: int) -> tuple[int, float]:
            source, target = broker.filled(records), broker.empty()
            seconds = _all_cores(request, broker.address, source, target, records)
            if records == command.CHECK_RECORDS:
                broker.check("kafka_pass" if request.workload == "kafka_pass" else "kafka_count", target, records)
            return records, seconds

        run(command.CHECK_RECORDS)
        pairs = steady.measure(run, request.records, request.seconds, request.repeats)
    return {**steady.summary(pairs), "detail": f"bare consume-produce loop, {request.cores} processes, at least once"}


def _all_cores(request: command.Request, address: str, source: str, target: str, records: int) -> float:
    answers: Queue = multiprocessing.Queue()
    barrier = multiprocessing.Barrier(request.cores)
    shares = [range(core, kafka.PARTITIONS, request.cores) for core in range(request.cores)]
    processes = [
        multiprocessing.Process(
            target=_one_core, args=(request.workload, address, source, target, share, records, barrier, answers)
        )
        for share in shares
    ]
    for process in processes:
        process.start()
    seconds = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return max(seconds)


def _one_core(
    workload: str, address: str, source: str, target: str, partitions: range, records: int, barrier: Barrier,
    answers: Queue,
) -> None:  # fmt: skip
    consumer = Consumer({"bootstrap.servers": address, "group.id": uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(source, number, 0) for number in partitions])
    producer = Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 1_000_000})
    left = sum(len(range(partition, records, kafka.PARTITIONS)) for partition in partitions)
    counts: dict[str, int] = {}
    barrier.wait()
    started = time.perf_counter()
    while left:
        for message in consumer.consume(BATCH, 1.0):
            if message.error() is not None:
                raise KafkaException(message.error())
            value = message.value().decode()
            if workload == "kafka_pass":
                result = kafka.passed(value)
            else:
                key = kafka.key_of(value)
                count = counts[key] = counts.get(key, 0) + 1
                result = kafka.counted(key, count)
            while True:
                try:
                    producer.produce(target, result.encode())
                    break
                except BufferError:
                    producer.poll(0.05)
            left -= 1
        producer.poll(0)
    producer.flush()
    answers.put(time.perf_counter() - started)
    consumer.close()


if __name__ == "__main__":
    command.main("limit", measure)
