"""The table of the engine's metrics: each is defined here once, and nowhere else.

A new metric is one row here, and one call where the number is known: ``operator.measure(ROW, number)``. Tasks report
name and value. Trackers, reporters, REST and the page docs/reference/metrics.md iterate over this table.

Names are Flink's where Flink has the metric. Imports nothing of Flott.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Scope(Enum):
    """What a metric describes."""

    JOB_MANAGER = "JobManager"
    JOB = "job"
    TASK = "task"  #: a subtask of a vertex
    OPERATOR = "operator"  #: a subtask of an operator
    LATENCY = "latency"  #: the ways from a source to a subtask of an operator


class Kind(Enum):
    """How a number behaves over time."""

    COUNTER = "counter"  #: it only grows, and starts from zero when the job's process starts
    GAUGE = "gauge"
    METER = "meter"  #: the growth of a counter per second, over the last ten seconds


class Combine(Enum):
    """How several numbers become one."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    LAST = "last"

    def of(self, numbers: Iterable[int | float]) -> int | float:
        """Return the combination of one or more numbers."""
        found = list(numbers)
        match self:
            case Combine.SUM:
                return sum(found)
            case Combine.MIN:
                return min(found)
            case Combine.MAX:
                return max(found)
        return found[-1]


@dataclass(frozen=True)
class EngineMetric:
    """One row of the table."""

    name: str
    scope: Scope
    kind: Kind
    unit: str
    help: str
    epochs: Combine  #: how the numbers of successive epochs are combined
    subtasks: Combine | None  #: how the numbers of several operators or subtasks are combined; None: they are not
    wider: tuple[Scope, ...] = ()  #: scopes that have the metric too, as the combination over their parts
    rate_of: str | None = None  #: of a meter: the counter whose growth it is

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return all scopes that have the metric."""
        return (self.scope, *self.wider)


#: The table: the rows of every scope, by name.
ROWS: dict[Scope, dict[str, EngineMetric]] = {scope: {} for scope in Scope}


def metrics_of(scope: Scope) -> list[EngineMetric]:
    """Return the rows of a scope, without those that it has as a combination of narrower ones."""
    return [row for row in ROWS[scope].values() if row.scope is scope]


def widened_to(scope: Scope) -> list[EngineMetric]:
    """Return the rows that a scope has as a combination over its parts."""
    return [row for row in ROWS[scope].values() if row.scope is not scope]


def meters_of(scope: Scope) -> list[EngineMetric]:
    """Return the rows of a scope that are growth per second."""
    return [row for row in ROWS[scope].values() if row.rate_of is not None]


def find(scope: Scope, name: str) -> EngineMetric | None:
    """Return the row of a metric in a scope, or None if the engine has no such metric."""
    return ROWS[scope].get(name)


def describe(name: str) -> str | None:
    """Return the description of a metric, or None if the engine has no metric of this name.

    Those of latency have names that a program's own metrics may have, too: ``find`` returns them.
    """
    found = (rows[name].help for scope, rows in ROWS.items() if name in rows and scope is not Scope.LATENCY)
    return next(found, None)


def define(metric: EngineMetric) -> EngineMetric:
    """Add a row. A scope has at most one metric of a name."""
    for scope in metric.scopes:
        if metric.name in ROWS[scope]:
            raise ValueError(f"The scope {scope.value} has a metric {metric.name} already: choose another name.")
        ROWS[scope][metric.name] = metric
    return metric


def _counter(name: str, scope: Scope, unit: str, text: str, wider: tuple[Scope, ...] = ()) -> EngineMetric:
    return define(EngineMetric(name, scope, Kind.COUNTER, unit, text, Combine.SUM, Combine.SUM, wider))


def _gauge(
    name: str, scope: Scope, unit: str, text: str, subtasks: Combine | None = None, wider: tuple[Scope, ...] = ()
) -> EngineMetric:
    return define(EngineMetric(name, scope, Kind.GAUGE, unit, text, Combine.LAST, subtasks, wider))


def _meter(name: str, scope: Scope, unit: str, text: str, rate_of: str) -> EngineMetric:
    return define(EngineMetric(name, scope, Kind.METER, unit, text, Combine.LAST, Combine.SUM, rate_of=rate_of))


_RECORDS, _BYTES, _MS, _TIMESTAMP = "records", "bytes", "ms", "ms since 1970"
_IN, _OUT = "Records that came in.", "Records that went out."
_IN_RATE = "Records that came in, per second over the last ten."
_OUT_RATE = "Records that went out, per second over the last ten."

# --- the JobManager as a whole ---------------------------------------------------------------------------------------

_gauge("numRunningJobs", Scope.JOB_MANAGER, "jobs", "Jobs that have not ended.")
_gauge("numRegisteredTaskManagers", Scope.JOB_MANAGER, "executors", "Spark executors.")
_gauge("taskSlotsTotal", Scope.JOB_MANAGER, "slots", "Tasks that can run at the same time.")
_gauge("taskSlotsAvailable", Scope.JOB_MANAGER, "slots", "Tasks that could run in addition to the running ones.")

# --- a job -----------------------------------------------------------------------------------------------------------

_counter("numRestarts", Scope.JOB, "restarts", "Restarts of the job, including those of its process.")
_counter("fullRestarts", Scope.JOB, "restarts", "The same as numRestarts: a restart is always of the whole job.")
_counter("numModeChanges", Scope.JOB, "changes", "How often an adaptive job has changed between epochs and pipelined.")
_gauge("isPipelined", Scope.JOB, "", "1 while tasks run continuously, 0 while the job runs in epochs.")
_gauge(
    "uptime", Scope.JOB, _MS, "Milliseconds that the job has been running without interruption; -1 when it has ended."
)
_gauge("downtime", Scope.JOB, _MS, "Milliseconds since the job failed, while it recovers; 0 while it runs.")
_counter("runningTime", Scope.JOB, _MS, "Milliseconds that the job has been running.")
_counter("restartingTime", Scope.JOB, _MS, "Milliseconds that the job has been restarting.")
_counter(
    "numberOfCompletedCheckpoints",
    Scope.JOB,
    "checkpoints",
    "Checkpoints, which are epochs, and savepoints that completed.",
)
_counter("numberOfFailedCheckpoints", Scope.JOB, "checkpoints", "Checkpoints and savepoints that failed.")
_gauge("numberOfInProgressCheckpoints", Scope.JOB, "checkpoints", "Checkpoints and savepoints in progress.")
_counter("totalNumberOfCheckpoints", Scope.JOB, "checkpoints", "All checkpoints and savepoints, whatever their status.")
_gauge("lastCheckpointDuration", Scope.JOB, _MS, "Milliseconds from the plan of the last epoch to its checkpoint.")
_gauge("lastCheckpointSize", Scope.JOB, _BYTES, "Bytes that the last checkpoint added.")
_gauge("lastCheckpointFullSize", Scope.JOB, _BYTES, "Bytes of all state in the last checkpoint.")
_gauge(
    "lastCheckpointCompletedTimestamp",
    Scope.JOB,
    _TIMESTAMP,
    "When the last checkpoint completed, in milliseconds since 1970.",
)
_gauge("lastCheckpointRestoreTimestamp", Scope.JOB, _TIMESTAMP, "When the job was last restored from a checkpoint.")
_gauge("lastCompletedCheckpointId", Scope.JOB, "checkpoint", "The number of the last completed checkpoint.")
_gauge("lastCheckpointAge", Scope.JOB, _MS, "Milliseconds since the last checkpoint completed.")
_gauge("epochPlanTime", Scope.JOB, _MS, "Milliseconds the last epoch took to be planned.")
_gauge(
    "epochScheduleTime", Scope.JOB, _MS, "Milliseconds from handing the last epoch to Spark until its first task began."
)
_gauge("epochRunTime", Scope.JOB, _MS, "Milliseconds the tasks of the last epoch took.")
_gauge(
    "epochAlignTime",
    Scope.JOB,
    _MS,
    "Milliseconds until the barriers of the last checkpoint had come through to all subtasks, of a pipelined job.",
)
_gauge(
    "epochSyncTime",
    Scope.JOB,
    _MS,
    "Milliseconds after that until all subtasks had taken their state aside, of a pipelined job.",
)
_gauge(
    "epochFilesTime",
    Scope.JOB,
    _MS,
    "Milliseconds after that until the state files were durable, of a pipelined job, which processes meanwhile.",
)
_gauge(
    "epochAckTime", Scope.JOB, _MS, "Milliseconds from the last report of the epoch until its checkpoint was durable."
)
_gauge("epochCommitTime", Scope.JOB, _MS, "Milliseconds the sinks took to commit.")
_gauge("epochTime", Scope.JOB, _MS, "Milliseconds the last epoch took in total.")
_gauge("currentEpoch", Scope.JOB, "epoch", "The number of the last completed epoch.")
_gauge("currentLowWatermark", Scope.JOB, _TIMESTAMP, "The event time that the sinks have reached.")
_counter("numRecordsIn", Scope.JOB, _RECORDS, _IN)
_counter("numRecordsOut", Scope.JOB, _RECORDS, _OUT)
_meter("numRecordsInPerSecond", Scope.JOB, "records/s", _IN_RATE, "numRecordsIn")
_meter("numRecordsOutPerSecond", Scope.JOB, "records/s", _OUT_RATE, "numRecordsOut")

# --- a subtask of a vertex -------------------------------------------------------------------------------------------

TASK_RECORDS_IN = _counter("numRecordsIn", Scope.TASK, _RECORDS, _IN)
TASK_RECORDS_OUT = _counter("numRecordsOut", Scope.TASK, _RECORDS, _OUT)
TASK_BYTES_IN = _counter("numBytesIn", Scope.TASK, _BYTES, "Bytes of encoded records that came from other tasks.")
TASK_BYTES_OUT = _counter("numBytesOut", Scope.TASK, _BYTES, "Bytes of encoded records that went to other tasks.")
_meter("numRecordsInPerSecond", Scope.TASK, "records/s", _IN_RATE, "numRecordsIn")
_meter("numRecordsOutPerSecond", Scope.TASK, "records/s", _OUT_RATE, "numRecordsOut")
_meter("numBytesInPerSecond", Scope.TASK, "bytes/s", "Bytes that came in, per second over the last ten.", "numBytesIn")
_meter(
    "numBytesOutPerSecond", Scope.TASK, "bytes/s", "Bytes that went out, per second over the last ten.", "numBytesOut"
)
TASK_BUSY_RATE = _meter(
    "busyTimeMsPerSecond", Scope.TASK, "ms/s", "Milliseconds per second spent working.", "accumulateBusyTimeMs"
)
TASK_IDLE_RATE = _gauge(
    "idleTimeMsPerSecond",
    Scope.TASK,
    "ms/s",
    "Milliseconds per second spent waiting for input or the next epoch.",
    Combine.SUM,
)
TASK_BACK_PRESSURED_RATE = _meter(
    "backPressuredTimeMsPerSecond",
    Scope.TASK,
    "ms/s",
    "Milliseconds per second in which a receiver took no more output. 0 in epochs, which are as large as all tasks can"
    " take.",
    "accumulateBackPressuredTimeMs",
)
TASK_BUSY_MS = _counter("accumulateBusyTimeMs", Scope.TASK, _MS, "Milliseconds spent working.")
TASK_IDLE_MS = _counter("accumulateIdleTimeMs", Scope.TASK, _MS, "Milliseconds spent waiting.")
TASK_BACK_PRESSURED_MS = _counter(
    "accumulateBackPressuredTimeMs", Scope.TASK, _MS, "Milliseconds in which a receiver took no more output."
)
TASK_ALIGNMENT_NANOS = _gauge(
    "checkpointAlignmentTime",
    Scope.TASK,
    "ns",
    "Nanoseconds from the first barrier of the last checkpoint to the last one, of a pipelined job.",
    Combine.MAX,
)
TASK_START_DELAY_NANOS = _gauge(
    "checkpointStartDelayNanos",
    Scope.TASK,
    "ns",
    "Nanoseconds from the trigger of the last checkpoint to its first barrier, of a pipelined job.",
    Combine.MAX,
)
TASK_MOVES = _counter(
    "numMoves", Scope.TASK, "epochs", "Epochs that ran on another executor than the epoch before, where the state is."
)
TASK_WATERMARK = _gauge(
    "currentInputWatermark", Scope.TASK, _TIMESTAMP, "The event time that the input has reached.", Combine.MIN
)

# --- a subtask of an operator ----------------------------------------------------------------------------------------

RECORDS_IN = _counter("numRecordsIn", Scope.OPERATOR, _RECORDS, _IN)
RECORDS_OUT = _counter("numRecordsOut", Scope.OPERATOR, _RECORDS, _OUT)
_meter("numRecordsInPerSecond", Scope.OPERATOR, "records/s", _IN_RATE, "numRecordsIn")
_meter("numRecordsOutPerSecond", Scope.OPERATOR, "records/s", _OUT_RATE, "numRecordsOut")
LATE_RECORDS_DROPPED = _counter(
    "numLateRecordsDropped", Scope.OPERATOR, _RECORDS, "Records that came too late and were dropped."
)
LATE_RECORDS = _counter(
    "numLateRecords", Scope.OPERATOR, _RECORDS, "Records that came too late, dropped or sent to a side output."
)
WATERMARK_IN = _gauge(
    "currentInputWatermark", Scope.OPERATOR, _TIMESTAMP, "The event time that the input has reached.", Combine.MIN
)
WATERMARK_OUT = _gauge(
    "currentOutputWatermark", Scope.OPERATOR, _TIMESTAMP, "The event time of the output.", Combine.MIN
)
STATE_BYTES = _gauge(
    "stateBytes", Scope.OPERATOR, _BYTES, "Bytes of state in the last checkpoint.", Combine.SUM, (Scope.TASK,)
)
STATE_BYTES_WRITTEN = _counter(
    "stateBytesWritten",
    Scope.OPERATOR,
    _BYTES,
    "Bytes of changed state that epochs have saved.",
    (Scope.TASK, Scope.JOB),
)
STATE_ENTRIES = _gauge("stateEntries", Scope.OPERATOR, "entries", "Entries of state.", Combine.SUM)

# --- a subtask of a source: only sources that know these numbers have them -------------------------------------------

RECORDS_IN_ERRORS = _counter(
    "numRecordsInErrors", Scope.OPERATOR, _RECORDS, "Records that could not be decoded and were left out.", (Scope.JOB,)
)
WATERMARK_LAG = _gauge(
    "watermarkLag", Scope.OPERATOR, _MS, "Milliseconds that event time is behind the clock.", Combine.MAX
)
PENDING_RECORDS = _gauge(
    "pendingRecords",
    Scope.OPERATOR,
    _RECORDS,
    "Records that wait to be read, if the source knows.",
    Combine.SUM,
    (Scope.JOB,),
)
PENDING_BYTES = _gauge(
    "pendingBytes",
    Scope.OPERATOR,
    _BYTES,
    "Bytes that wait to be read, if the source knows.",
    Combine.SUM,
    (Scope.JOB,),
)

# --- the ways from a source to a subtask of an operator: the ages of latency markers ---------------------------------

_AGES = "of the last latency markers that came to the operator, in milliseconds."

LATENCY = _gauge("latency", Scope.LATENCY, _MS, f"The age {_AGES} It has the label `quantile`; not in REST.")
LATENCY_COUNT = _counter("latency_count", Scope.LATENCY, "markers", "Latency markers that came to the operator.")
_gauge("latency_min", Scope.LATENCY, _MS, f"The least age {_AGES}")
_gauge("latency_max", Scope.LATENCY, _MS, f"The greatest age {_AGES}")
_gauge("latency_mean", Scope.LATENCY, _MS, f"The mean age {_AGES}")
_gauge("latency_stddev", Scope.LATENCY, _MS, f"The standard deviation of the ages {_AGES}")
_gauge("latency_median", Scope.LATENCY, _MS, f"The median age {_AGES}")
_gauge("latency_p75", Scope.LATENCY, _MS, f"The 75th percentile of the ages {_AGES}")
_gauge("latency_p90", Scope.LATENCY, _MS, f"The 90th percentile of the ages {_AGES}")
_gauge("latency_p95", Scope.LATENCY, _MS, f"The 95th percentile of the ages {_AGES}")
_gauge("latency_p98", Scope.LATENCY, _MS, f"The 98th percentile of the ages {_AGES}")
_gauge("latency_p99", Scope.LATENCY, _MS, f"The 99th percentile of the ages {_AGES}")
_gauge("latency_p999", Scope.LATENCY, _MS, f"The 99.9th percentile of the ages {_AGES}")
