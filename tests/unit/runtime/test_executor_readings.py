"""What Spark lists, as it is read: no JVM, only its words."""

from __future__ import annotations

from typing import Any

from flott.runtime.spark.application import JobTasks
from flott.runtime.spark.executors import executors_of, parse_bytes, tasks_by_job

JOB = "0f" * 16


def listed(**fields: Any) -> dict[str, Any]:
    """One executor as Spark's REST lists it."""
    return {
        "id": "1", "hostPort": "10.0.0.7:41809", "isActive": True, "memoryUsed": 5037, "totalCores": 4, "maxTasks": 2,
        "activeTasks": 0, "failedTasks": 1, "completedTasks": 9, "totalDuration": 4056, "totalGCTime": 16,
        "totalShuffleRead": 3, "totalShuffleWrite": 4, "maxMemory": 1000, "addTime": "2026-03-01T12:00:00.250GMT",
        "executorLogs": {"stdout": "http://a"},
        "memoryMetrics": {"usedOnHeapStorageMemory": 50, "totalOnHeapStorageMemory": 900}, **fields,
    }  # fmt: skip


def test_an_executor_is_read_with_the_tasks_that_run_now() -> None:
    (found,) = executors_of([listed()], {"1": 2}, heap_bytes=1 << 30, driver=None)
    assert (found.id, found.host, found.port, found.slots, found.cores) == ("1", "10.0.0.7", 41809, 2, 4)
    assert (found.running_tasks, found.completed_tasks, found.failed_tasks) == (2, 9, 1)
    assert found.started_ms == 1_772_366_400_250
    assert (found.heap_bytes, found.heap_used_bytes) == (1 << 30, 0), "Spark has not reported its heap yet"
    assert found.metrics["Status.JVM.GarbageCollector.All.Time"] == 16
    assert found.log_urls == {"stdout": "http://a"}


def test_an_executor_on_a_host_with_colons_and_with_peaks_reported() -> None:
    one = listed(hostPort="[2001:db8::1]:7", peakMemoryMetrics={"JVMHeapMemory": 77, "ProcessTreePythonRSSMemory": 0})
    (found,) = executors_of([one], {}, heap_bytes=100, driver=None)
    assert (found.host, found.port, found.heap_used_bytes) == ("[2001:db8::1]", 7, 77)
    assert found.heap_is_peak, "Spark reports no present size"
    assert "Status.Python.Memory.Used" not in found.metrics


def test_the_driver_counts_only_where_it_runs_tasks_and_its_heap_is_known() -> None:
    heap = {"Status.JVM.Memory.Heap.Used": 30, "Status.JVM.Memory.Heap.Max": 100}
    beside = executors_of([listed(id="driver", maxTasks=0), listed()], {}, heap_bytes=1, driver=None)
    assert [found.id for found in beside] == ["1"]
    (alone,) = executors_of([listed(id="driver")], {}, heap_bytes=1, driver=heap)
    assert (alone.id, alone.heap_bytes, alone.heap_used_bytes) == ("driver", 100, 30)
    assert not alone.heap_is_peak, "it is read in this JVM"


def test_tasks_are_counted_by_the_job_whose_group_they_are_in() -> None:
    jobs = [
        {"jobGroup": f"flott-{JOB}-9", "stageIds": [0, 1, 2]},
        {"jobGroup": f"flott-{JOB}-9", "stageIds": [3]},
        {"jobGroup": "flott-end-of-workers", "stageIds": [4]},
        {"stageIds": [5]},
    ]
    stages = [
        {"stageId": ident, "numTasks": 6, "numActiveTasks": 2, "numCompleteTasks": 1} for ident in (1, 3, 4, 5)
    ]
    assert tasks_by_job(jobs, stages) == {JOB: JobTasks(running=4, pending=6)}


def test_sizes_are_read_as_spark_writes_them() -> None:
    assert [parse_bytes(text) for text in ("1g", "512m", "2048k", "7", "3 GB", "odd")] == [
        1 << 30, 512 << 20, 2 << 20, 7 << 20, 3 << 30, 0,
    ]  # fmt: skip
