"""Spark Structured Streaming without Python: the workloads in event time as SQL expressions, run by the JVM.

The numbers of a rate-micro-batch source become events by arithmetic on columns, so no user function of Python's runs:
this is what Spark does where a program can be put into its expressions. Windows by ``window`` and ``session_window``,
the interval join as a join of two streams; state in RocksDB, results to the ``noop`` sink, append mode.
"""

from __future__ import annotations

import time
from itertools import count

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from bench import events, steady
from bench.runners import command
from bench.runners.spark_tws import POLL_SECONDS, SETTINGS, processed
from bench.spark_session import open_session
from bench.workloads import KEYS

ROWS_PER_BATCH = 1_000_000
#: Sessions are merged, and the two sides of a join matched, batch by batch: small batches are what they can do.
ROWS_PER_SMALL_BATCH = 200_000


def events_of(source: DataFrame, workload: str, per_ms: int) -> DataFrame:
    """Numbers as events, ``per_ms`` of them in a millisecond."""
    number = f.col("value")
    key = (number * 7919) % KEYS
    if workload == "session":
        block = f.floor(number / (per_ms * 1_000)) % 10
        key = (number * 7919) % events.BUSY_KEYS + block * events.BUSY_KEYS
    stamp: Column = f.timestamp_millis(f.floor(number / per_ms).cast("long"))
    return source.select(key.alias("key"), number.bitwiseAND(1023).alias("amount"), stamp.alias("time"))


def results(workload: str, left: DataFrame, right: DataFrame | None) -> DataFrame:
    """The workload over events."""
    stamped = left.withWatermark("time", "0 seconds")
    match workload:
        case "tumbling":
            windows = f.window("time", f"{events.WINDOW_MS} milliseconds")
        case "sliding":
            windows = f.window("time", f"{events.SLIDING_MS} milliseconds", f"{events.SLIDE_MS} milliseconds")
        case "session":
            windows = f.session_window("time", f"{events.GAP_MS} milliseconds")
        case _:
            assert right is not None
            return _near(stamped, right.withWatermark("time", "0 seconds"))
    return stamped.groupBy(windows, "key").agg(f.sum("amount").alias("total")).select("total")


def _near(left: DataFrame, right: DataFrame) -> DataFrame:
    reach = f.expr(f"INTERVAL {events.REACH_MS} milliseconds")
    one, other = left.alias("l"), right.alias("r")
    condition = (
        (f.col("l.key") == f.col("r.key"))
        & (f.col("r.time") >= f.col("l.time") - reach)
        & (f.col("r.time") <= f.col("l.time") + reach)
    )
    return one.join(other, condition).select(f.col("l.key"), (f.col("l.amount") + f.col("r.amount")).alias("amount"))


class Queries:
    """Runs one streaming query at a time, each with a checkpoint directory of its own."""

    def __init__(self, spark: SparkSession, request: command.Request) -> None:
        self.spark = spark
        self.request = request
        self.checkpoints = (str(request.scratch / f"checkpoint-{n}") for n in count())
        small = request.workload in ("session", "interval")
        self.rows = ROWS_PER_SMALL_BATCH if small else ROWS_PER_BATCH

    def run(self, records: int) -> tuple[int, float]:
        batches = max(1, round(records / self.rows))
        writer = self._results(self.rows, events.DENSE * self.request.cores).writeStream.format("noop")
        started = time.perf_counter()
        query = writer.option("checkpointLocation", next(self.checkpoints)).outputMode("append").start()
        while not processed(query, batches * self.rows):
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - started
        query.stop()
        return batches * self.rows, seconds

    def check(self) -> None:
        """Compare what comes out of one bounded batch with the reference; a stream would keep its last windows."""
        timeline = events.Timeline.of(self.request.workload, events.CHECK_RECORDS, 1, events.CHECK_DENSITY)
        sides = [self.spark.range(n.start, n.stop).toDF("value") for n in timeline.streams]
        starts = [numbers.start for numbers in timeline.streams]
        made = [
            events_of(side.select((f.col("value") - start).alias("value")), timeline.workload, 1)
            for side, start in zip(sides, starts, strict=True)
        ]
        if timeline.workload == "interval":
            found = results("interval", *made).count()
            wanted: object = sum(_plain_pairs(timeline).values())
        else:
            found = events.digest(row[0] for row in results(timeline.workload, made[0], None).collect())
            wanted = events.expected(timeline)
        command.check(timeline.workload, found, wanted)

    def _results(self, rows: int, per_ms: int) -> DataFrame:
        if self.request.workload != "interval":
            return results(self.request.workload, self._events(rows, per_ms), None)
        half = rows // 2
        return results("interval", self._events(half, per_ms // 2), self._events(half, per_ms // 2))

    def _events(self, rows: int, per_ms: int) -> DataFrame:
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        numbers = source.option("numPartitions", self.request.cores).load().select("value")
        return events_of(numbers, self.request.workload, per_ms)


def _plain_pairs(timeline: events.Timeline):
    """Both sides begin at number 0 here, so keys and times are those of the left side, and only the count compares."""
    make = timeline.maker()
    left = [make(i) for i in timeline.streams[0]]
    return events.digest(events.pairs(left, left))


def measure(request: command.Request) -> dict[str, object]:
    started = time.perf_counter()
    spark = open_session(request.cores, request.scratch, {**SETTINGS, **request.settings})
    session_seconds = time.perf_counter() - started
    queries = Queries(spark, request)
    queries.check()
    pairs = steady.measure(queries.run, queries.rows, request.seconds, request.repeats, queries.rows)
    spark.stop()
    return {
        **steady.summary(pairs),
        "session_start_seconds": round(session_seconds, 2),
        "detail": "SQL expressions in the JVM, RocksDB; no Python",
        "versions": {"spark": pyspark.__version__},
    }


if __name__ == "__main__":
    command.main("spark-sql", measure)
