"""The executors that a real Spark reports, and what functions say in its workers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.logs.line import LogLine, TaskLog
from flott.runtime.spark.application import JobTasks, SparkReading
from flott.runtime.spark.executors import SparkExecutors
from flott.runtime.spark.preferred_executors import PreferredExecutors, executor_location
from tests.spark.conftest import MakeEnvironment


def test_in_local_mode_the_driver_is_the_executor(spark: SparkContext) -> None:
    executors = SparkExecutors(spark)
    (found,) = executors.read().executors
    assert (found.id, found.host, found.slots, found.cores) == ("driver", "127.0.0.1", 2, 2)
    assert 0 < found.heap_used_bytes < found.heap_bytes
    assert found.started_ms > 1_700_000_000_000
    assert found.metrics["Status.JVM.Threads.Count"] > 1
    assert not executors.can_grow()
    assert not executors.request(5), "a local master cannot, and says so"


def test_busy_slots_are_seen_while_tasks_run_and_whose_they_are(spark: SparkContext, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    job_id = "5e" * 16

    def wait(value: int) -> int:
        while not gate.exists():
            time.sleep(0.02)
        return value

    def work() -> None:
        spark.setJobGroup(f"flott-{job_id}-1", "busy")
        spark.parallelize(range(5), 5).map(wait).collect()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        busy = JobTasks(running=2, pending=3)
        assert _until(SparkExecutors(spark), lambda found: found.tasks.get(job_id) == busy).free_slots == 0
    finally:
        gate.touch()
        thread.join()
    assert _until(SparkExecutors(spark), lambda found: found.free_slots == 2).tasks == {}


def _until(executors: SparkExecutors, holds: Any) -> SparkReading:
    deadline = time.monotonic() + 60
    while not holds(reading := executors.read()):
        assert time.monotonic() < deadline, reading
        time.sleep(0.05)
    return reading


class Journal(JobListener):
    """Keeps what tasks said."""

    def __init__(self) -> None:
        self.logs: list[TaskLog] = []

    def on_logs(self, logs: Sequence[TaskLog]) -> None:
        self.logs += logs


def test_what_functions_say_in_workers_comes_with_operator_subtask_and_executor(
    environment: MakeEnvironment, monkeypatch: Any
) -> None:
    journal = Journal()
    monkeypatch.setattr(executors, "extra_listeners", [journal])

    def speak(value: int) -> int:
        print("printed", value)
        logging.getLogger("shop").info("logged %d", value)
        thread = threading.Thread(target=print, args=("from a thread", value))
        thread.start()
        thread.join()
        return value

    env = environment()
    env.from_collection([1, 2]).rebalance().map(speak).name("Speak").print()
    env.execute("speak")
    lines: list[LogLine] = [line for log in journal.logs for line in log.lines]
    assert sorted((line.message, line.level, line.stream) for line in lines) == [
        ("from a thread 1", "INFO", "stdout"),
        ("from a thread 2", "INFO", "stdout"),
        ("logged 1", "INFO", None),
        ("logged 2", "INFO", None),
        ("printed 1", "INFO", "stdout"),
        ("printed 2", "INFO", "stdout"),
    ]
    assert {line.operator for line in lines if not line.message.startswith("from")} == {"Speak"}
    assert {line.subtask for line in lines} == {0, 1}
    assert {log.executor for log in journal.logs} == {"driver"}


def test_partitions_prefer_the_executors_of_an_anchor_and_rows_pass_it_unchanged(spark: SparkContext) -> None:
    preferred = PreferredExecutors(spark)
    locations = [executor_location("ann", "1"), executor_location("bob", "2"), executor_location("ann", "1")]
    rows = spark.parallelize([(n, f"row {n}") for n in range(10)], 2).partitionBy(3, lambda n: n)
    found: Any = preferred.prefer(preferred.anchor(locations), rows)
    assert found.glom().collect() == rows.glom().collect()
    inner = found._jrdd.rdd()
    assert [inner.preferredLocations(part).mkString() for part in inner.partitions()] == locations
