"""Spark's executors in the form of Flink's task managers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import whole
from flott.runtime.jobmanager.views.job_view import JobView, TaskManagerView

_MEBIBYTE = 1024 * 1024
_COLLECTORS = "Status.JVM.GarbageCollector."


class ResourceProfile(TypedDict):
    """Memory is in MiB."""

    cpuCores: float
    taskHeapMemory: int
    taskOffHeapMemory: int
    managedMemory: int
    networkMemory: int
    extendedResources: dict[str, float]


class Hardware(TypedDict):
    """Memory is in bytes."""

    cpuCores: int
    physicalMemory: int
    freeMemory: int
    managedMemory: int


class MemoryConfiguration(TypedDict):
    """Memory is in bytes. None: Spark has no such part."""

    frameworkHeap: int | None
    taskHeap: int | None
    frameworkOffHeap: int | None
    taskOffHeap: int | None
    networkMemory: int | None
    managedMemory: int | None
    jvmMetaspace: int | None
    jvmOverhead: int | None
    totalFlinkMemory: int | None
    totalProcessMemory: int | None


class TaskManagerLine(TypedDict):
    id: str
    path: str
    dataPort: int
    jmxPort: int
    timeSinceLastHeartbeat: int  #: contrary to its name, the timestamp of the last heartbeat
    slotsNumber: int
    freeSlots: int
    assignedTasks: int
    totalResource: ResourceProfile
    freeResource: ResourceProfile
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration
    memoryIsPeak: bool  #: what is not free is the most that was used so far. Flott's own
    startTime: int


class TaskManagers(TypedDict):
    taskmanagers: list[TaskManagerLine]


class AllocatedSlot(TypedDict):
    jobId: str
    resource: ResourceProfile
    assignedTasks: int


class GarbageCollector(TypedDict):
    name: str
    count: int
    time: int


class TaskManagerMemory(TypedDict):
    heapUsed: int
    heapCommitted: int
    heapMax: int
    nonHeapUsed: int
    nonHeapCommitted: int
    nonHeapMax: int
    directCount: int
    directUsed: int
    directMax: int
    mappedCount: int
    mappedUsed: int
    mappedMax: int
    nettyShuffleMemorySegmentsAvailable: int
    nettyShuffleMemorySegmentsUsed: int
    nettyShuffleMemorySegmentsTotal: int
    nettyShuffleMemoryAvailable: int
    nettyShuffleMemoryUsed: int
    nettyShuffleMemoryTotal: int
    garbageCollectors: list[GarbageCollector]


class SparkFigures(TypedDict):
    """What Spark reports beyond what Flink knows. Sizes are in bytes. None: Spark has not reported it."""

    pythonMemoryPeak: int | None  #: of all worker processes together, the most so far
    storageUsed: int | None
    storageMax: int | None
    shuffleRead: int | None
    shuffleWritten: int | None
    logUrls: dict[str, str]  #: of Spark's own pages, by the name of the log


class TaskManagerDetail(TaskManagerLine):
    allocatedSlots: list[AllocatedSlot]
    metrics: TaskManagerMemory
    completedTasks: int
    failedTasks: int
    spark: SparkFigures  #: Flott's own


def task_managers_reply(task_managers: Sequence[TaskManagerView]) -> TaskManagers:
    """Return all task managers."""
    return {"taskmanagers": [task_manager_line(one) for one in task_managers]}


def task_manager_line(one: TaskManagerView) -> TaskManagerLine:
    """Return one task manager of a list."""
    return {
        "id": one.id,
        "path": f"spark://{one.host}:{one.port}/{one.id}",
        "dataPort": one.port,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": one.heartbeat_ms,
        "slotsNumber": one.slots,
        "freeSlots": one.free_slots,
        "assignedTasks": one.running_tasks,
        "totalResource": _resources(one, one.slots),
        "freeResource": _resources(one, one.free_slots),
        "hardware": {
            "cpuCores": one.cores,
            "physicalMemory": one.memory_bytes,
            "freeMemory": one.free_bytes,
            "managedMemory": one.managed_bytes,
        },
        "memoryConfiguration": {
            "frameworkHeap": None,
            "taskHeap": one.memory_bytes,
            "frameworkOffHeap": None,
            "taskOffHeap": None,
            "networkMemory": None,
            "managedMemory": one.managed_bytes,
            "jvmMetaspace": None,
            "jvmOverhead": None,
            "totalFlinkMemory": one.memory_bytes + one.managed_bytes,
            "totalProcessMemory": None,
        },
        "memoryIsPeak": one.memory_is_peak,
        "startTime": one.started_ms,
    }


def task_manager_detail(one: TaskManagerView, jobs: Sequence[JobView]) -> TaskManagerDetail:
    """Return one task manager with the slots that these jobs use."""
    return {
        **task_manager_line(one),
        "allocatedSlots": _allocated(one, jobs),
        "metrics": _memory(one.metrics),
        "completedTasks": one.completed_tasks,
        "failedTasks": one.failed_tasks,
        "spark": _spark_figures(one),
    }


def _resources(one: TaskManagerView, slots: int) -> ResourceProfile:
    """Return the resources of a number of slots."""
    share = slots / one.slots if one.slots else 0.0
    return {
        "cpuCores": one.cores * share,
        "taskHeapMemory": int(one.memory_bytes * share) // _MEBIBYTE,
        "taskOffHeapMemory": 0,
        "managedMemory": int(one.managed_bytes * share) // _MEBIBYTE,
        "networkMemory": 0,
        "extendedResources": {},
    }


def _allocated(one: TaskManagerView, jobs: Sequence[JobView]) -> list[AllocatedSlot]:
    """Return the used slots. A slot holds the subtasks with the same number, one of every vertex of a job."""
    tasks: dict[tuple[str, int], int] = {}
    for job in jobs:
        if job.status.is_terminal_state():
            continue
        for vertex in job.vertices:
            for subtask in vertex.subtasks:
                if subtask.task_manager == one.id:
                    slot = (job.job_id, subtask.index)
                    tasks[slot] = tasks.get(slot, 0) + 1
    resource = _resources(one, 1)
    return [{"jobId": job, "resource": resource, "assignedTasks": count} for (job, _), count in tasks.items()]


def _spark_figures(one: TaskManagerView) -> SparkFigures:
    def value(name: str) -> int | None:
        found = one.metrics.get(f"Status.{name}")
        return None if found is None else whole(found)

    return {
        "pythonMemoryPeak": value("Python.Memory.Used"),
        "storageUsed": value("Storage.Memory.Used"),
        "storageMax": value("Storage.Memory.Max"),
        "shuffleRead": value("Shuffle.Read.Bytes"),
        "shuffleWritten": value("Shuffle.Write.Bytes"),
        "logUrls": dict(one.log_urls),
    }


def _memory(metrics: Mapping[str, int | float]) -> TaskManagerMemory:
    def value(name: str) -> int:
        return whole(metrics.get(f"Status.{name}", 0))

    return {
        "heapUsed": value("JVM.Memory.Heap.Used"),
        "heapCommitted": value("JVM.Memory.Heap.Committed"),
        "heapMax": value("JVM.Memory.Heap.Max"),
        "nonHeapUsed": value("JVM.Memory.NonHeap.Used"),
        "nonHeapCommitted": value("JVM.Memory.NonHeap.Committed"),
        "nonHeapMax": value("JVM.Memory.NonHeap.Max"),
        "directCount": value("JVM.Memory.Direct.Count"),
        "directUsed": value("JVM.Memory.Direct.MemoryUsed"),
        "directMax": value("JVM.Memory.Direct.TotalCapacity"),
        "mappedCount": value("JVM.Memory.Mapped.Count"),
        "mappedUsed": value("JVM.Memory.Mapped.MemoryUsed"),
        "mappedMax": value("JVM.Memory.Mapped.TotalCapacity"),
        "nettyShuffleMemorySegmentsAvailable": value("Shuffle.Netty.AvailableMemorySegments"),
        "nettyShuffleMemorySegmentsUsed": value("Shuffle.Netty.UsedMemorySegments"),
        "nettyShuffleMemorySegmentsTotal": value("Shuffle.Netty.TotalMemorySegments"),
        "nettyShuffleMemoryAvailable": value("Shuffle.Netty.AvailableMemory"),
        "nettyShuffleMemoryUsed": value("Shuffle.Netty.UsedMemory"),
        "nettyShuffleMemoryTotal": value("Shuffle.Netty.TotalMemory"),
        "garbageCollectors": _collectors(metrics),
    }


def _collectors(metrics: Mapping[str, int | float]) -> list[GarbageCollector]:
    names = dict.fromkeys(
        name.removeprefix(_COLLECTORS).rpartition(".")[0] for name in metrics if name.startswith(_COLLECTORS)
    )
    return [
        {
            "name": name,
            "count": whole(metrics.get(f"{_COLLECTORS}{name}.Count", 0)),
            "time": whole(metrics.get(f"{_COLLECTORS}{name}.Time", 0)),
        }
        for name in names
        if name
    ]
