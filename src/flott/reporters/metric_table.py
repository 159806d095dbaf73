"""Views -> samples: every number that is known, under the names and labels that Flink's reporters give it. Pure.

Prometheus joins the parts of a name by ``_``, OpenTelemetry by dots:

    flink_jobmanager_numRunningJobs                   the JobManager as a whole
    flink_jobmanager_job_numRestarts                  a job
    flink_taskmanager_Status_JVM_Memory_Heap_Used     an executor
    flink_taskmanager_job_task_numRecordsIn           a subtask of a vertex
    flink_taskmanager_job_task_operator_numRecordsIn  a subtask of an operator, the user's metrics among them

A job that has ended has no metrics any more, as in Flink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.views.job_view import JobView, SubtaskView, TaskManagerView
from flott.runtime.jobmanager.views.metric_names import metric_scope


class Kind(Enum):
    """What may become of a number."""

    COUNTER = "counter"  #: grows, and begins anew with the job's process
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """The numbers of one thing at one time: all that have the same labels."""

    scope: tuple[str, ...]  #: of their names: ("jobmanager", "job")
    labels: Mapping[str, str]
    numbers: Mapping[str, int | float]


@dataclass(frozen=True)
class MetricSample:
    """One number of a row."""

    scope: tuple[str, ...]
    metric: str
    labels: Mapping[str, str]
    value: int | float
    kind: Kind
    help: str


CLUSTER = ("jobmanager",)
JOB = ("jobmanager", "job")
EXECUTOR = ("taskmanager",)
TASK = ("taskmanager", "job", "task")
OPERATOR = ("taskmanager", "job", "task", "operator")

_TRAFFIC = frozenset({"numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut"})
#: The engine's numbers that only ever grow. Those of users may do anything, whatever their name: a counter has ``dec``.
_COUNTERS: Mapping[tuple[str, ...], frozenset[str]] = {
    JOB: frozenset({
        "numRecordsIn", "numRecordsOut", "numRestarts", "fullRestarts", "numberOfCompletedCheckpoints",
        "numberOfFailedCheckpoints", "totalNumberOfCheckpoints", "runningTime", "restartingTime",
    }),
    TASK: _TRAFFIC | {"accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs"},
    OPERATOR: frozenset({"numRecordsIn", "numRecordsOut", "numLateRecordsDropped", "numLateRecords"}),
}  # fmt: skip

_HELP = {
    "numRunningJobs": "Jobs that have not ended.",
    "numRegisteredTaskManagers": "Spark executors.",
    "taskSlotsTotal": "Tasks that can run at the same time.",
    "taskSlotsAvailable": "Those that could be run besides the ones at work.",
    "numRestarts": "Restarts of the job, those by which its process began anew among them.",
    "fullRestarts": "The same as numRestarts: a restart is always of the whole job.",
    "uptime": "Milliseconds since the job has been running without interruption; -1 when it has ended.",
    "downtime": "Milliseconds since the job failed, while it recovers; 0 while it runs.",
    "runningTime": "Milliseconds that the job has been running.",
    "restartingTime": "Milliseconds that the job has been restarting.",
    "numberOfCompletedCheckpoints": "Checkpoints, which are epochs, and savepoints that completed.",
    "numberOfFailedCheckpoints": "Checkpoints and savepoints that failed.",
    "numberOfInProgressCheckpoints": "Checkpoints and savepoints under way.",
    "totalNumberOfCheckpoints": "All of these.",
    "lastCheckpointDuration": "Milliseconds from the plan of the last epoch to its checkpoint.",
    "lastCheckpointSize": "Bytes that the last checkpoint added.",
    "lastCheckpointFullSize": "Bytes of all state in the last checkpoint.",
    "lastCheckpointCompletedTimestamp": "When the last checkpoint completed, in milliseconds since 1970.",
    "lastCheckpointRestoreTimestamp": "When the job last went on from a checkpoint.",
    "lastCheckpointAge": "Milliseconds since the last checkpoint completed.",
    "epochPlanTime": "Milliseconds the last epoch took to be planned.",
    "epochScheduleTime": "Milliseconds from handing the last epoch to Spark until its first task began.",
    "epochRunTime": "Milliseconds the tasks of the last epoch took.",
    "epochAckTime": "Milliseconds from the last report of the epoch until its checkpoint was durable.",
    "epochCommitTime": "Milliseconds the sinks took to commit.",
    "epochTime": "Milliseconds the last epoch took in all.",
    "currentEpoch": "The number of the last completed epoch.",
    "currentLowWatermark": "How far event time has come at the sinks.",
    "pendingRecords": "Records that wait to be read, where the source knows.",
    "pendingBytes": "Bytes that wait to be read, where the source knows.",
    "numRecordsIn": "Records that came in.",
    "numRecordsOut": "Records that went out.",
    "numBytesIn": "Bytes that came from other tasks.",
    "numBytesOut": "Bytes that went to other tasks.",
    "numRecordsInPerSecond": "Records that came in, per second over the last ten.",
    "numRecordsOutPerSecond": "Records that went out, per second over the last ten.",
    "numBytesInPerSecond": "Bytes that came in, per second over the last ten.",
    "numBytesOutPerSecond": "Bytes that went out, per second over the last ten.",
    "busyTimeMsPerSecond": "Milliseconds of a second spent at work.",
    "idleTimeMsPerSecond": "Milliseconds of a second spent waiting, for input or for the next epoch.",
    "backPressuredTimeMsPerSecond": "Always 0: an epoch is as large as all its tasks can take.",
    "accumulateBusyTimeMs": "Milliseconds spent at work.",
    "accumulateIdleTimeMs": "Milliseconds spent waiting.",
    "accumulateBackPressuredTimeMs": "Always 0.",
    "currentInputWatermark": "How far event time has come at the input.",
    "currentOutputWatermark": "How far event time has come at the output.",
    "watermarkLag": "Milliseconds that event time is behind the clock.",
    "numLateRecordsDropped": "Records that came too late and were dropped.",
    "numLateRecords": "Records that came too late, dropped or sent to a side output.",
    "stateBytes": "Bytes of state in the last checkpoint.",
    "stateEntries": "Entries of state.",
}


def rows_of(gateway: ClusterGateway) -> list[MetricRow]:
    """All there is."""
    jobs, task_managers = gateway.jobs(), gateway.task_managers()
    rows = [cluster_row(jobs, task_managers)]
    rows += map(task_manager_row, task_managers)
    for job in jobs:
        rows += job_rows(job)
    return rows


def samples_of(gateway: ClusterGateway) -> list[MetricSample]:
    """All there is, number by number."""
    return [
        MetricSample(row.scope, metric, row.labels, value, kind_of(row.scope, metric), help_of(metric))
        for row in rows_of(gateway)
        for metric, value in row.numbers.items()
    ]


def kind_of(scope: tuple[str, ...], metric: str) -> Kind:
    """What may become of a metric."""
    return Kind.COUNTER if metric in _COUNTERS.get(scope, ()) else Kind.GAUGE


def help_of(metric: str) -> str:
    """What a metric is, for people."""
    return _HELP.get(metric) or f"{_text(metric)}, of the program or of Spark."


def cluster_row(jobs: Sequence[JobView], task_managers: Sequence[TaskManagerView]) -> MetricRow:
    """Of the JobManager as a whole."""
    numbers = {
        "numRunningJobs": sum(not job.status.is_terminal_state() for job in jobs),
        "numRegisteredTaskManagers": len(task_managers),
        "taskSlotsTotal": sum(each.slots for each in task_managers),
        "taskSlotsAvailable": sum(each.free_slots for each in task_managers),
    }
    return MetricRow(CLUSTER, {}, numbers)


def task_manager_row(view: TaskManagerView) -> MetricRow:
    """Of an executor."""
    return MetricRow(EXECUTOR, {"host": _text(view.host), "tm_id": _text(view.id)}, view.metrics)


def job_rows(job: JobView) -> Iterator[MetricRow]:
    """Of a job, its subtasks and their operators; of one that has ended none."""
    if job.status.is_terminal_state() or job.status is JobStatus.INITIALIZING:
        return
    labels = {"job_id": job.job_id, "job_name": _text(job.name)}
    yield MetricRow(JOB, labels, job.metrics)
    for vertex in job.vertices:
        operators = [
            (op.metric_scope or metric_scope(op.name), {"operator_id": op.id, "operator_name": _text(op.name)})
            for op in vertex.operators
        ]
        of_vertex = {**labels, "task_id": vertex.id, "task_name": _text(vertex.name)}
        for subtask in vertex.subtasks:
            own = {**of_vertex, **_subtask_labels(subtask)}
            yield MetricRow(TASK, own, task_metrics(subtask))
            for scope, of_operator in operators:
                if found := subtask.metrics.get(scope):
                    yield MetricRow(OPERATOR, {**own, **of_operator}, found)


def _subtask_labels(subtask: SubtaskView) -> dict[str, str]:
    return {
        "host": _text(subtask.host),
        "tm_id": _text(subtask.task_manager),
        "task_attempt_num": str(subtask.attempt),
        "subtask_index": str(subtask.index),
    }


def task_metrics(subtask: SubtaskView) -> dict[str, int | float]:
    """The metrics of a subtask as a whole, by Flink's names."""
    traffic = subtask.traffic
    return {
        "numRecordsIn": traffic.records_in,
        "numRecordsOut": traffic.records_out,
        "numBytesIn": traffic.bytes_in,
        "numBytesOut": traffic.bytes_out,
        "numRecordsInPerSecond": subtask.records_in_per_second,
        "numRecordsOutPerSecond": subtask.records_out_per_second,
        "numBytesInPerSecond": subtask.bytes_in_per_second,
        "numBytesOutPerSecond": subtask.bytes_out_per_second,
        "busyTimeMsPerSecond": subtask.busy_ratio * 1000,
        "idleTimeMsPerSecond": subtask.idle_ratio * 1000,
        "backPressuredTimeMsPerSecond": 0,
        "accumulateBusyTimeMs": traffic.busy_ms,
        "accumulateIdleTimeMs": traffic.idle_ms,
        "accumulateBackPressuredTimeMs": 0,
        "currentInputWatermark": subtask.watermark,
        "stateBytes": subtask.state_bytes,
    }


def _text(text: str) -> str:
    """A name that can be sent: a user may have given one that no encoding knows."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def one_each(samples: Iterable[tuple[str, MetricSample]]) -> dict[str, list[MetricSample]]:
    """Samples by the name they are sent under; where two became the same, the first is told."""
    families: dict[str, list[MetricSample]] = {}
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for name, sample in samples:
        key = (name, tuple(sorted(sample.labels.items())))
        if key not in seen:
            seen.add(key)
            families.setdefault(name, []).append(sample)
    return families
