"""Spark's transformWithState with much state in RocksDB: the processor of `spark_tws`, batches as large as epochs.

One query is filled and then measured: the rate is that of whole batches after the fill, by Spark's own account of how
long each took. A key is visited once a batch, not once a record, which favours Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow
import pyspark
from pyspark.sql import DataFrame, Row, SparkSession

from bench import state
from bench.runners import command
from bench.runners.spark_tws import PAIR, POLL_SECONDS, SETTINGS, RunningRows, arrow_pairs, processed
from bench.spark_session import open_session
from bench.workloads import digest

WARM_UP_BATCHES = 1
MODE = "update"


def totals(numbers: DataFrame, stream: state.Stream) -> DataFrame:
    """The running sums over a streaming DataFrame of numbers."""
    make = stream.maker()

    def records(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield arrow_pairs([make(i) for i in batch["value"].to_pylist()])

    return numbers.mapInArrow(records, PAIR).groupBy("key").transformWithState(RunningRows(), PAIR, MODE, "none")


class Queries:
    """Runs one streaming query at a time, each with a checkpoint directory of its own."""

    def __init__(self, spark: SparkSession, request: command.Request) -> None:
        self.spark = spark
        self.request = request
        self.checkpoints = (str(request.scratch / f"checkpoint-{n}") for n in count())

    def run(self, stream: state.Stream) -> list[dict]:
        """Spark's account of every batch of the stream."""
        writer = totals(self._numbers(stream), stream).writeStream.format("noop").outputMode(MODE)
        query = writer.option("checkpointLocation", next(self.checkpoints)).start()
        while not processed(query, stream.records):
            time.sleep(POLL_SECONDS)
        progress = [found for found in query.recentProgress if found["numInputRows"]]
        query.stop()
        return progress[: stream.records // stream.epoch_records]

    def check(self) -> None:
        stream = state.check_stream(1)
        found: list[Row] = []

        def collect(batch: DataFrame, batch_id: int) -> None:
            if batch_id < stream.records // stream.epoch_records:
                found.extend(batch.collect())

        writer = totals(self._numbers(stream), stream).writeStream.outputMode(MODE).foreachBatch(collect)
        query = writer.option("checkpointLocation", next(self.checkpoints)).start()
        while not processed(query, stream.records):
            time.sleep(POLL_SECONDS)
        query.stop()
        command.check(self.request.workload, digest("keyed_sum", found), state.expected(stream))

    def _numbers(self, stream: state.Stream) -> DataFrame:
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", stream.epoch_records)
        return source.option("numPartitions", self.request.cores).load().select("value")


def measure(request: command.Request) -> dict[str, object]:
    started = time.perf_counter()
    spark = open_session(request.cores, request.scratch, {**SETTINGS, **request.settings})
    session_seconds = time.perf_counter() - started
    queries = Queries(spark, request)
    queries.check()
    # The numbers of one batch follow those of the batch before: one range, whatever the number of partitions.
    stream = state.Stream.of(request.workload, WARM_UP_BATCHES + request.repeats, 1, request.shrink)
    batches = [found["durationMs"]["triggerExecution"] / 1_000 for found in queries.run(stream)]
    spark.stop()
    return {
        "rates": [round(stream.epoch_records / seconds, 1) for seconds in batches[-request.repeats :]],
        "keys": stream.keys,
        "touched": stream.touched,
        "records": [stream.epoch_records],
        "fill_seconds": round(sum(batches[: stream.fill_epochs]), 1),
        "job_start_seconds": 0.0,
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"transformWithState, RocksDB, batches of {stream.epoch_records:,}",
        "versions": {"spark": pyspark.__version__},
    }


if __name__ == "__main__":
    command.main("spark-tws", measure)
