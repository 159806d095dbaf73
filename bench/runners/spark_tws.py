"""Spark Structured Streaming with Python state: transformWithState over RocksDB, on the Spark that carries Flott.

    keyed_sum    rate-micro-batch source, mapInArrow(make_record), groupBy.transformWithState
    stateless    rate-micro-batch source, one mapInArrow that runs the three user functions
    word_count   text file stream, mapInArrow(split_line), groupBy.transformWithState
Results go to the `noop` sink. The processor reads and writes a key's state once per batch, not once per record: the
best a user of this API can do. Variant `pandas` uses transformWithStateInPandas.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pandas
import pyarrow
import pyspark
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bench import steady
from bench.runners import command
from bench.spark_session import open_session
from bench.workloads import WORDS_PER_FILE, digest, expected, keep, make_record, split_line, spread

ROWS_PER_BATCH = {"keyed_sum": 100_000, "stateless": 500_000}
FILES_PER_BATCH = 4
POLL_SECONDS = 0.02
PAIR = StructType([StructField("key", LongType()), StructField("value", LongType())])
WORD = StructType([StructField("key", StringType())])
WORD_COUNT = StructType([StructField("key", StringType()), StructField("value", LongType())])
STATE = StructType([StructField("total", LongType())])
RESULT = {"keyed_sum": PAIR, "word_count": WORD_COUNT}
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


class Running(StatefulProcessor):
    """The running total per key: of the values, or of the rows when there is no value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", STATE)

    def close(self) -> None:
        pass

    def add(self, values: Iterable[int]) -> list[int]:
        total = self.total.get()[0] if self.total.exists() else 0
        totals = []
        for value in values:
            total += value
            totals.append(total)
        self.total.update((total,))
        return totals


class RunningRows(Running):
    def handleInputRows(self, key, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        for total in self.add(row[1] if len(row) > 1 else 1 for row in rows):
            yield Row(key=key[0], value=total)


class RunningFrames(Running):
    def handleInputRows(self, key, rows: Iterator[pandas.DataFrame], timerValues) -> Iterator[pandas.DataFrame]:
        for frame in rows:
            values = frame["value"].tolist() if "value" in frame else [1] * len(frame)
            yield pandas.DataFrame({"key": key[0], "value": self.add(values)})


def make_records(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        yield arrow_pairs([make_record(i) for i in batch["value"].to_pylist()])


def chain(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        records = map(make_record, batch["value"].to_pylist())
        yield arrow_pairs([out for record in records if keep(record) for out in spread(record)])


def words(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        found = [word for line in batch["value"].to_pylist() for word in split_line(line)]
        yield pyarrow.RecordBatch.from_pydict({"key": pyarrow.array(found, pyarrow.string())})


def arrow_pairs(records: list[tuple[int, int]]) -> pyarrow.RecordBatch:
    keys, values = zip(*records, strict=True) if records else ((), ())
    columns = {"key": pyarrow.array(keys, pyarrow.int64()), "value": pyarrow.array(values, pyarrow.int64())}
    return pyarrow.RecordBatch.from_pydict(columns)


def results(request: command.Request, source: DataFrame) -> DataFrame:
    """The workload over a streaming DataFrame with a column `value`: a number, or a line of text."""
    if request.workload == "stateless":
        return source.mapInArrow(chain, PAIR)
    keyed = source.mapInArrow(*((words, WORD) if request.workload == "word_count" else (make_records, PAIR)))
    grouped = keyed.groupBy("key")
    if request.variant == "pandas":
        return grouped.transformWithStateInPandas(RunningFrames(), RESULT[request.workload], "update", "none")
    return grouped.transformWithState(RunningRows(), RESULT[request.workload], "update", "none")


class Queries:
    """Runs one streaming query at a time, each with a checkpoint directory of its own."""

    def __init__(self, spark: SparkSession, request: command.Request) -> None:
        self.spark = spark
        self.request = request
        self.checkpoints = (str(request.scratch / f"checkpoint-{n}") for n in count())

    def run(self, records: int) -> tuple[int, float]:
        if self.request.workload == "word_count":
            return self._run_files(records)
        rows = ROWS_PER_BATCH[self.request.workload]
        batches = max(1, round(records / rows))
        writer = results(self.request, self._numbers(rows)).writeStream.format("noop").outputMode("update")
        started = time.perf_counter()
        query = writer.option("checkpointLocation", next(self.checkpoints)).start()
        while not processed(query, batches * rows):
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - started
        query.stop()
        return batches * rows, seconds

    def check(self) -> None:
        text = None
        if self.request.workload == "word_count":
            text, _ = self.request.text(command.CHECK_RECORDS)
            source = self._lines(text)
        else:
            source = self._numbers(command.CHECK_RECORDS)
        found: list[Row] = []

        def collect(batch: DataFrame, batch_id: int) -> None:
            if batch_id == 0:
                found.extend(batch.collect())

        stream = results(self.request, source).writeStream.outputMode("update")
        query = stream.foreachBatch(collect).option("checkpointLocation", next(self.checkpoints)).start()
        while not processed(query, 1):
            time.sleep(POLL_SECONDS)
        query.stop()
        wanted = expected(self.request.workload, command.CHECK_RECORDS, text)
        command.check(self.request.workload, digest(self.request.workload, found), wanted)

    def _run_files(self, records: int) -> tuple[int, float]:
        text, held = self.request.text(records)
        writer = results(self.request, self._lines(text)).writeStream.format("noop").outputMode("update")
        started = time.perf_counter()
        query = writer.option("checkpointLocation", next(self.checkpoints)).trigger(availableNow=True).start()
        query.awaitTermination()
        return held, time.perf_counter() - started

    def _numbers(self, rows: int) -> DataFrame:
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        return source.option("numPartitions", self.request.cores).load().select("value")

    def _lines(self, text: Path) -> DataFrame:
        return self.spark.readStream.option("maxFilesPerTrigger", FILES_PER_BATCH).text(str(text))


def processed(query, records: int) -> bool:
    if query.exception():
        raise RuntimeError(str(query.exception()))
    return sum(progress["numInputRows"] for progress in query.recentProgress) >= records


def measure(request: command.Request) -> dict[str, object]:
    started = time.perf_counter()
    spark = open_session(request.cores, request.scratch, {**SETTINGS, **request.settings})
    session_seconds = time.perf_counter() - started
    queries = Queries(spark, request)
    queries.check()
    # Sizes are whole batches: below that, both runs would be one batch, and a batch smaller than it is meant to be.
    floor = ROWS_PER_BATCH.get(request.workload, FILES_PER_BATCH * WORDS_PER_FILE)
    pairs = steady.measure(queries.run, max(floor, request.records), request.seconds, request.repeats, floor)
    spark.stop()
    api = "transformWithStateInPandas" if request.variant == "pandas" else "transformWithState"
    return {
        **steady.summary(pairs),
        "session_start_seconds": round(session_seconds, 2),
        "detail": "mapInArrow" if request.workload == "stateless" else f"{api}, RocksDB",
        "versions": {"spark": pyspark.__version__},
    }


if __name__ == "__main__":
    command.main("spark-tws", measure)
