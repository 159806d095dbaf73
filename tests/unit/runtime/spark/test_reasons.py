"""What is told of a trace of Spark's. No JVM."""

from __future__ import annotations

from flott.runtime.spark.spark_errors import reason_in

NOT_STARTED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times, most recent failure:
Error from python worker:
  Traceback (most recent call last):
    File "pyspark/daemon.py", line 129, in manager
  OSError: AF_UNIX path too long
PYTHONPATH was:
  /spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout.
"""


def test_a_worker_that_could_not_be_started_is_told_by_what_it_said_itself() -> None:
    assert reason_in(NOT_STARTED) == "a Python worker could not be started: OSError: AF_UNIX path too long"


def test_otherwise_the_innermost_cause_is_told() -> None:
    trace = ": org.apache.spark.SparkException: Job aborted\nCaused by: java.io.IOException: No space left on device\n"
    assert reason_in(trace) == "No space left on device"
    assert reason_in("nothing at all") == "Spark gave no reason"
