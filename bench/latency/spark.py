"""Spark Structured Streaming: `python -m bench.latency.spark --timetable {...} --variant tws|rtm`.

`transformWithState` in Python over RocksDB with changelog checkpoints; the source is a Python data source. With `tws` a
batch follows the other at once (the smallest trigger), and each is a checkpoint. With `rtm` the same query is started
in Real-Time Mode: if Spark refuses it, the reason goes to standard error. Ages are taken in the task that has the
results, before the batch is committed, which favours Spark.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from bench.latency.samples import Taker
from bench.latency.timetable import SPLITS, Timetable, arguments, now_us
from bench.runners.spark_tws import SETTINGS
from bench.spark_session import open_session

RECORD = "key long, due long"
RESULT = "key long, count long, due long"
STATE = "count long"
POLL_S = 0.05
REAL_TIME_BATCH = "5 seconds"
MORE = {
    # The list of what is known to work is passed by: Spark is to say what it cannot do, not what it does not promise.
    "rtm": {
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    },
}


class PacedSource(DataSource):
    """Gives so many records a second."""

    @classmethod
    def name(cls) -> str:
        return "paced"

    def schema(self) -> str:
        return RECORD

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return PacedReader(Timetable(**_decoded(self.options["timetable"])))


class PacedReader(DataSourceStreamReader):
    """Offers the fill, then the records that are due, in equal parts."""

    def __init__(self, table: Timetable):
        self.table = table
        self.began = 0

    def initialOffset(self) -> dict:
        return {"position": 0, "began": 0}

    def latestOffset(self, start: dict, limit: Any) -> dict:
        now = now_us()
        if start["position"] < self.table.fill:
            return {"position": self.table.fill, "began": 0}
        self.began = start["began"] or self.began or now + int(self.table.settle_s * 1e6)
        due = self.table.due_by(now, self.began)
        return {"position": due, "began": self.began} if due > start["position"] else start

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        first, last = start["position"], end["position"]
        cuts = [first + (last - first) * split // SPLITS for split in range(SPLITS + 1)]
        return [InputPartition((cuts[n], cuts[n + 1], end["began"])) for n in range(SPLITS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        start, stop, began = partition.value
        keys = [self.table.key(number) for number in range(start, stop)]
        dues = [self.table.due_us(number, began) for number in range(start, stop)]
        columns = {"key": pyarrow.array(keys, pyarrow.int64()), "due": pyarrow.array(dues, pyarrow.int64())}
        yield pyarrow.RecordBatch.from_pydict(columns)

    def commit(self, end: dict) -> None:
        """Nothing is kept for a batch that is complete."""


class RunningCount(StatefulProcessor):
    """Counts the records of a key; its state is visited once a batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count = self.count.get()[0] if self.count.exists() else 0
        for row in rows:
            count += 1
            yield Row(key=key[0], count=count, due=row[1])
        self.count.update((count,))

    def close(self) -> None:
        """Nothing is open."""


def counts(records: DataFrame, table: Timetable) -> DataFrame:
    """Return the counts. A last step in the same tasks takes their ages."""

    def take(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        context = TaskContext.get()
        taker = Taker(context.partitionId() if context else 0, table.every)
        for batch in batches:
            taker.take(zip(*(column.to_pylist() for column in batch.columns), strict=True))
            yield batch
        taker.write(table.folder)

    grouped = records.groupBy("key").transformWithState(RunningCount(), RESULT, "update", "none")
    return grouped.mapInArrow(take, RESULT)


def run(spark: SparkSession, table: Timetable, variant: str, scratch: Path) -> None:
    """Run the query until all records are through, or the source gives up."""
    spark.dataSource.register(PacedSource)
    records = spark.readStream.format("paced").option("timetable", table.as_json()).load()
    writer = counts(records, table).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
    trigger = {"realTime": REAL_TIME_BATCH} if variant == "rtm" else {"processingTime": "0 seconds"}
    query = writer.trigger(**trigger).start()
    try:
        while not _is_over(query, table):
            time.sleep(POLL_S)
    finally:
        query.stop()


def _is_over(query: Any, table: Timetable) -> bool:
    if failure := query.exception():
        raise RuntimeError(str(failure))
    if not query.lastProgress:
        return False
    end = _decoded(query.lastProgress["sources"][0]["endOffset"] or "{}")
    gave_up = end.get("began") and now_us() > end["began"] + int(table.longest_s * 1e6)
    return end.get("position") == table.records or bool(gave_up)


def _decoded(text: Any) -> dict:
    return json.loads(text) if isinstance(text, str) else text


def main() -> int:
    """Run one query to its end."""
    table, variant = arguments()
    with tempfile.TemporaryDirectory(prefix="flott-bench-") as scratch:
        spark = open_session(SPLITS, Path(scratch), SETTINGS | MORE.get(variant, {}))
        try:
            run(spark, table, variant, Path(scratch))
        finally:
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
