"""The floor of an epoch: a native two-stage Spark job, no Python worker, under the settings Flott's session has.

Each round builds the query again: Spark skips the first stage of a query object that has run before.
"""

from __future__ import annotations

import time

import pyspark
from pyspark.sql import SparkSession

from bench.runners import command
from bench.spark_session import open_session

ROUNDS = 60
WARM_UP = 150


def two_stage_job(spark: SparkSession, cores: int) -> None:
    spark.range(0, cores, 1, cores).repartition(cores).collect()


def measure(request: command.Request) -> dict[str, object]:
    started = time.perf_counter()
    spark = open_session(request.cores, request.scratch, request.settings)
    session_seconds = time.perf_counter() - started
    for _ in range(WARM_UP):
        two_stage_job(spark, request.cores)
    times = [_timed(spark, request.cores) for _ in range(max(ROUNDS, request.repeats))]
    stages = _stages(spark, request.cores)
    spark.stop()
    if stages != 2:
        raise RuntimeError(f"expected a job of 2 stages, Spark ran {stages}")
    return {
        "milliseconds": [round(seconds * 1_000, 2) for seconds in times],
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"spark.range().repartition({request.cores}).collect(), {len(times)} rounds",
        "versions": {"spark": pyspark.__version__},
    }


def _timed(spark: SparkSession, cores: int) -> float:
    started = time.perf_counter()
    two_stage_job(spark, cores)
    return time.perf_counter() - started


def _stages(spark: SparkSession, cores: int) -> int:
    """How many stages one round really ran."""
    context = spark.sparkContext
    context.setJobGroup("stages", "count the stages of one round")
    two_stage_job(spark, cores)
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("stages")]
    return sum(len(job.stageIds) for job in jobs if job)


if __name__ == "__main__":
    command.main("native", measure)
