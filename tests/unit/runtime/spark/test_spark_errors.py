"""Reasons of failures, from traces and logs as Spark writes them. No JVM."""

from __future__ import annotations

from pathlib import Path

from flott.runtime.spark.spark_errors import described, reason_in, said_in, why_not_started

LOG_FILE = Path("/logs/spark-1.log")

YARN = """Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Exception in thread "main" org.apache.spark.SparkException: When running with master 'yarn' either HADOOP_CONF_DIR or \
YARN_CONF_DIR must be set in the environment.
\tat org.apache.spark.deploy.SparkSubmitArguments.error(SparkSubmitArguments.scala:658)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""

KUBERNETES = """26/11/16 10:01:15 ERROR SparkContext: Error initializing SparkContext.
org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:607)
Caused by: java.io.IOException: Connection refused: /192.0.2.7:6443
\t... 32 more
Caused by: java.net.ConnectException: Connection refused
\tat java.base/java.lang.Thread.run(Thread.java:840)
26/11/16 10:01:19 WARN MetricsSystem: Stopping a MetricsSystem that is not running
"""

STANDALONE = """26/11/16 10:02:15 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 192.0.2.7:7077
org.apache.spark.SparkException: Exception thrown in awaitResult:
Caused by: java.io.IOException: Failed to connect to /192.0.2.7:7077
26/11/16 10:02:35 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are \
unresponsive! Giving up.
26/11/16 10:02:36 WARN StandaloneAppClient$ClientEndpoint: Drop UnregisterApplication(null)
"""


def test_what_spark_wrote_last_of_all_that_matters_is_the_reason() -> None:
    assert said_in(YARN) == (
        "When running with master 'yarn' either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment."
    )
    assert said_in(KUBERNETES) == "Connection refused: /192.0.2.7:6443", "the inner cause does not say to whom"
    plain = "org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat org.apache.spark.SparkContext.f()\n"
    assert said_in(KUBERNETES + plain) == "Could not parse Master URL: 'x'"
    assert said_in(STANDALONE) == "All masters are unresponsive! Giving up."
    assert said_in(KUBERNETES + STANDALONE) == "All masters are unresponsive! Giving up."
    assert said_in("nothing in particular\n") is None


def test_the_message_names_the_master_and_the_log() -> None:
    assert why_not_started("Py4JJavaError", STANDALONE, LOG_FILE, "spark://192.0.2.7:7077") == (
        "Spark could not be started with the master spark://192.0.2.7:7077: All masters are unresponsive! Giving up."
        " Its log is /logs/spark-1.log."
    )
    assert "local[2]: b / c / d. Its" in why_not_started("gone", "a\nb\nc\nd\n", LOG_FILE, "local[2]")
    assert "local[2]: gone. Its" in why_not_started("gone", "", LOG_FILE, "local[2]")


def test_a_missing_java_is_told_as_such() -> None:
    said = ("JAVA_HOME is not set\n", "spark-class: line 71: /opt/bin/java: No such file or directory\nbad subscript\n")
    for log in said:
        assert why_not_started("exited", log, LOG_FILE, "local[2]").startswith("Spark needs Java 17 or 21")
    assert why_not_started("No such file: spark-submit", "", LOG_FILE, "local[2]").startswith("Spark needs Java")


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


def test_a_jvm_that_has_gone_is_named() -> None:
    found = described(ConnectionRefusedError(111, "Connection refused"), LOG_FILE)
    assert found == f"Spark's JVM does not answer any more: [Errno 111] Connection refused (Spark's log: {LOG_FILE})"
