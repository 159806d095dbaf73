"""Reads the executors of a Spark application from its driver, and requests more. Driver side.

Spark keeps this for its web pages, and keeps it also if it serves none. It is fetched as JSON, as Spark's own REST
would give it: a few calls to the JVM, however many executors there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from flott.errors import WorkerLostError
from flott.runtime.spark.application import ExecutorReading, JobTasks, SparkReading

DRIVER = "driver"

#: How many executors Spark requests from YARN or Kubernetes by default.
INSTANCES = 2

#: The group of the Spark jobs that are epochs of one job: ``flott-<job id>-…``.
_GROUP = re.compile(r"flott-([0-9a-f]{32})(?:-|$)")

_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


class SparkExecutors:
    """Reads the executors of an application, and requests more."""

    def __init__(self, context: SparkContext):
        self._context = context
        self._json: Any = None  #: Spark's own JSON writer, in the JVM
        self._heap_bytes: int | None = None  #: of an executor, as configured

    def read(self, *, with_tasks: bool = False) -> SparkReading:
        """Return the present executors. Raises ``WorkerLostError`` if Spark does not answer.

        ``with_tasks``: the tasks of jobs are read also if slots are free.
        """
        try:
            return self._read(with_tasks)
        except (Py4JError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            # Also errors that py4j raises when its JVM ends, and those of a Spark version with other answers.
            raise WorkerLostError(f"Spark does not say what its executors do: {error}") from error

    def ids(self) -> frozenset[str]:
        """Return the ids of the present executors. It takes a millisecond, where ``read`` takes fifty.

        Raises ``WorkerLostError`` if Spark does not answer.
        """
        try:
            return frozenset(self._fetch(self._context._jsc.sc().taskScheduler().runningTasksByExecutors()))
        except (Py4JError, OSError, ValueError, TypeError, AttributeError) as error:
            raise WorkerLostError(f"Spark does not say which executors it has: {error}") from error

    def slots(self) -> int:
        """Return how many tasks the executors that have registered can run at the same time, also if they are at work.

        It is the number that Spark compares the width of a barrier stage with. ``spark.default.parallelism`` does not
        change it, as it does ``SparkContext.defaultParallelism``. Raises ``WorkerLostError`` if Spark does not answer.
        """
        try:
            context = self._context._jsc.sc()
            return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
        except (Py4JError, OSError, ValueError, TypeError, AttributeError) as error:
            raise WorkerLostError(f"Spark does not say how many tasks its executors can run: {error}") from error

    def most_slots(self, registered: int) -> int | None:
        """Return how many slots the application has when all its executors have registered; None: it is not known."""
        return most_slots(str(self._context.master), dict(self._context.getConf().getAll()), registered)

    def can_grow(self) -> bool:
        """Return whether a request for executors can add any, and Spark itself makes no such requests.

        A local master has none. A standalone cluster gives an application all it may have (``spark.cores.max``) without
        being asked. With dynamic allocation Spark asks by itself, by the number of tasks that wait.
        """
        conf = self._context.getConf()
        master = str(self._context.master)
        asks_itself = conf.get("spark.dynamicAllocation.enabled", "false") == "true"
        return not asks_itself and (master == "yarn" or master.startswith("k8s://"))

    def ordered(self) -> int:
        """Return how many executors the application requested at its start, in total; 0 if it may not grow."""
        return int(self._context.getConf().get("spark.executor.instances") or INSTANCES) if self.can_grow() else 0

    def request(self, executors: int) -> bool:
        """Request this many executors in total, and return whether the master accepted. No executor is removed."""
        try:
            jvm = self._context._jvm
            assert jvm is not None
            nowhere = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
            return bool(self._context._jsc.sc().requestTotalExecutors(executors, 0, nowhere))
        except (Py4JError, OSError):
            return False

    def _read(self, with_tasks: bool) -> SparkReading:
        java_context = self._context._jsc.sc()
        store = java_context.statusStore()
        listed = self._fetch(store.executorList(True))
        running = self._fetch(java_context.taskScheduler().runningTasksByExecutors())
        if self._heap_bytes is None:
            self._heap_bytes = parse_bytes(self._context.getConf().get("spark.executor.memory") or "1g")
        driver = self._driver_memory() if any(one["id"] == DRIVER and one["maxTasks"] for one in listed) else None
        executors = tuple(executors_of(listed, running, self._heap_bytes, driver))
        reading = SparkReading(executors)
        if with_tasks or not reading.free_slots:
            reading = SparkReading(executors, self._tasks(store))
        return reading

    def _tasks(self, store: Any) -> dict[str, JobTasks]:
        jvm = self._context._jvm
        assert jvm is not None
        at_work = jvm.java.util.ArrayList()
        at_work.add(jvm.org.apache.spark.JobExecutionStatus.RUNNING)
        return tasks_by_job(self._fetch(store.jobsList(at_work)), self._fetch(store.activeStages()))

    def _driver_memory(self) -> Mapping[str, int]:
        """Return the state of the heap of the driver's JVM, where local tasks run."""
        jvm = self._context._jvm
        assert jvm is not None
        factory = jvm.java.lang.management.ManagementFactory
        memory = factory.getMemoryMXBean()
        heap, others = self._fetch(memory.getHeapMemoryUsage()), self._fetch(memory.getNonHeapMemoryUsage())
        return {
            "Status.JVM.Memory.Heap.Used": heap["used"],
            "Status.JVM.Memory.Heap.Committed": heap["committed"],
            "Status.JVM.Memory.Heap.Max": heap["max"],
            "Status.JVM.Memory.NonHeap.Used": others["used"],
            "Status.JVM.Memory.NonHeap.Committed": others["committed"],
            "Status.JVM.Memory.NonHeap.Max": others["max"],
            "Status.JVM.Threads.Count": int(factory.getThreadMXBean().getThreadCount()),
        }

    def _fetch(self, found: Any) -> Any:
        if self._json is None:
            jvm = self._context._jvm
            assert jvm is not None
            self._json = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
        return json.loads(self._json.writeValueAsString(found))


def most_slots(master: str, conf: Mapping[str, str], registered: int) -> int | None:
    """Return how many slots an application gets, given how many it has already; None: it is not known. Pure.

    A local master has all from the start. Of others it is known what was ordered, which takes a while to arrive. A
    standalone cluster gives whatever it has, unless there is a limit.

    >>> most_slots("local[4]", {}, 4), most_slots("spark://there:7077", {}, 4)
    (4, None)
    >>> most_slots("yarn", {"spark.executor.instances": "3", "spark.executor.cores": "2"}, 0)
    6
    """
    cpus = int(conf.get("spark.task.cpus") or 1)
    if re.fullmatch(r"local(\[.*\])?", master):
        return registered
    if found := re.fullmatch(r"local-cluster\[(\d+),(\d+),\d+\]", master.replace(" ", "")):
        return max(registered, int(found[1]) * (int(found[2]) // cpus))
    if master == "yarn" or master.startswith("k8s://"):
        executors = int(conf.get("spark.executor.instances") or INSTANCES)
        return max(registered, executors * (int(conf.get("spark.executor.cores") or 1) // cpus))
    limit = conf.get("spark.cores.max")
    if limit is None:
        return None
    cores = int(conf.get("spark.executor.cores") or limit)  # of an executor: all its cores are on one worker
    return max(registered, int(limit) // cores * (cores // cpus))


def executors_of(
    listed: Iterable[Mapping[str, Any]],
    running: Mapping[str, int],
    heap_bytes: int,
    driver: Mapping[str, int] | None,
) -> Iterable[ExecutorReading]:
    """Return the listed executors that run tasks. ``running`` is more up to date than the list."""
    for one in listed:
        if not one["maxTasks"]:
            continue  # the driver of an application with executors
        host, _, port = one["hostPort"].rpartition(":") if ":" in one["hostPort"] else (one["hostPort"], "", "0")
        metrics = {"Status.JVM.Memory.Heap.Max": heap_bytes, **_metrics(one)}
        is_here = driver is not None and one["id"] == DRIVER
        if driver is not None and is_here:
            metrics.update(driver)
        heap = metrics["Status.JVM.Memory.Heap.Max"]
        yield ExecutorReading(
            id=one["id"],
            host=host,
            port=int(port),
            slots=one["maxTasks"],
            cores=one["totalCores"],
            running_tasks=running.get(one["id"], one["activeTasks"]),
            completed_tasks=one["completedTasks"],
            failed_tasks=one["failedTasks"],
            started_ms=_ms(one["addTime"]),
            heap_bytes=heap if heap > 0 else heap_bytes,
            heap_used_bytes=metrics.get("Status.JVM.Memory.Heap.Used", 0),
            heap_is_peak=not is_here,
            metrics=metrics,
            log_urls=dict(one.get("executorLogs") or {}),
        )


def tasks_by_job(jobs: Iterable[Mapping[str, Any]], stages: Iterable[Mapping[str, Any]]) -> dict[str, JobTasks]:
    """Return how many tasks of each job run, and how many wait for a slot."""
    owners = {
        stage: found[1]
        for job in jobs
        if (found := _GROUP.match(job.get("jobGroup") or "")) is not None
        for stage in job["stageIds"]
    }
    tasks: dict[str, JobTasks] = {}
    for stage in stages:
        if (owner := owners.get(stage["stageId"])) is not None:
            running = stage["numActiveTasks"]
            pending = max(0, stage["numTasks"] - stage["numCompleteTasks"] - running)
            tasks[owner] = tasks.get(owner, JobTasks()).plus(JobTasks(running, pending))
    return tasks


def _metrics(one: Mapping[str, Any]) -> dict[str, int]:
    """Return what Spark reports about an executor. The memory of its processes is the most so far, not the present."""
    storage = one.get("memoryMetrics") or {}
    peak = one.get("peakMemoryMetrics") or {}
    metrics = {
        "Status.JVM.GarbageCollector.All.Time": one["totalGCTime"],
        "Status.Shuffle.Read.Bytes": one["totalShuffleRead"],
        "Status.Shuffle.Write.Bytes": one["totalShuffleWrite"],
        "Status.Storage.Memory.Used": storage.get("usedOnHeapStorageMemory", one["memoryUsed"]),
        "Status.Storage.Memory.Max": storage.get("totalOnHeapStorageMemory", one["maxMemory"]),
        "Status.Tasks.Duration": one["totalDuration"],
    }
    names = {
        "JVMHeapMemory": "Status.JVM.Memory.Heap.Used",
        "JVMOffHeapMemory": "Status.JVM.Memory.NonHeap.Used",
        "ProcessTreePythonRSSMemory": "Status.Python.Memory.Used",
    }
    metrics.update({name: peak[key] for key, name in names.items() if peak.get(key)})
    return metrics


def _ms(text: str) -> int:
    """Parse a time as Spark writes it: ``2026-03-01T12:00:00.250GMT``."""
    with suppress(ValueError):
        return int(datetime.fromisoformat(text.removesuffix("GMT")).replace(tzinfo=UTC).timestamp() * 1000)
    return 0


def parse_bytes(text: str) -> int:
    """Parse a size as Spark writes it. Without a unit it is in mebibytes.

    >>> parse_bytes("1g"), parse_bytes("512"), parse_bytes("2048KB")
    (1073741824, 536870912, 2097152)
    """
    found = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", text.strip().lower())
    return int(found[1]) * _UNITS[found[2] or "m"] if found else 0
