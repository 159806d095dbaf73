"""A JobManager made of data: a few jobs as they would be seen, and a list of the orders that were given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flott.common._late_records import LateSample, LedgerEntry
from flott.common._watermark_report import Hold, HoldCause, TimePlace, WatermarkReport
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import JobEndedError, JobNotFoundError
from flott.runtime.jobmanager.inspection.inspector import encoded, reply_to
from flott.runtime.jobmanager.inspection.inspectors import Inspectors
from flott.runtime.jobmanager.inspection.questions import InspectionSubject, Question
from flott.runtime.jobmanager.inspection.state_answers import StateAnswers
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_history import JobHistories, JobHistory
from flott.runtime.jobmanager.views.job_view import (
    ChainedOperatorView,
    CheckpointsView,
    CheckpointTask,
    CheckpointView,
    EpochView,
    FailureCardView,
    FailureView,
    InputView,
    JobResultView,
    JobView,
    RescaleView,
    RestoredView,
    Spread,
    SubtaskView,
    TaskManagerView,
    TaskState,
    Traffic,
    VertexView,
)
from flott.runtime.orders import (
    CancelJob,
    CancelWithSavepoint,
    ExplainWatermark,
    Order,
    StopWithSavepoint,
    TakeCheckpoint,
    TakeSavepoint,
)

NOW = 1_700_000_060_000
START = NOW - 60_000

RUNNING = "a" * 31 + "1"
FINISHED = "b" * 31 + "2"
FAILED = "c" * 31 + "3"
CANCELED = "d" * 31 + "4"
RESTARTING = "e" * 31 + "5"
UNKNOWN = "0123456789abcdef0123456789abcdef"

SOURCE = "10" * 16
WINDOW = "20" * 16

TASK_MANAGER = "127.0.0.1:36765-849895"


def subtask(index: int, state: TaskState, ended: bool = False) -> SubtaskView:
    """A subtask that has read and written something."""
    return SubtaskView(
        index=index,
        state=state,
        host="127.0.0.1",
        task_manager=TASK_MANAGER,
        worker=4000 + index,
        start_ms=START,
        end_ms=NOW if ended else -1,
        timestamps={TaskState.CREATED: START - 20, TaskState.SCHEDULED: START - 10, TaskState.RUNNING: START},
        traffic=Traffic(100 + index, 90 + index, 1000, 900, 400.0, 600.0),
        busy_ratio=0.4,
        idle_ratio=0.6,
        watermark=NOW - 5_000,
        state_bytes=2048,
        own_metrics={
            "numRecordsIn": 100 + index,
            "numRecordsOut": 90 + index,
            "numBytesIn": 1000,
            "numBytesOut": 900,
            "numRecordsInPerSecond": 10.5,
            "numRecordsOutPerSecond": 9.0,
            "numBytesInPerSecond": 0.0,
            "numBytesOutPerSecond": 0.0,
            "busyTimeMsPerSecond": 400.0,
            "idleTimeMsPerSecond": 600.0,
            "backPressuredTimeMsPerSecond": 0,
            "accumulateBusyTimeMs": 400.0,
            "accumulateIdleTimeMs": 600.0,
            "accumulateBackPressuredTimeMs": 0,
            "currentInputWatermark": NOW - 5_000,
            "stateBytes": 2048,
        },
        metrics={"numbers": {"numRecordsIn": 100 + index, "numRecordsOut": 90, "numLateRecordsDropped": 1}},
    )


def vertices(state: TaskState, ended: bool = False) -> tuple[VertexView, ...]:
    """A source and a window behind a shuffle, two subtasks each."""
    source = ChainedOperatorView("11" * 16, "numbers", "numbers-uid", "Data Source", "Source: numbers", 2, "made.py:3")
    window = ChainedOperatorView("21" * 16, "sum", None, "Operator", "sum", 2, "program.py:5")
    sink = ChainedOperatorView("22" * 16, "print", "out", "Data Sink", "Sink: print", 2, "program.py:6")
    both = tuple(subtask(index, state, ended) for index in range(2))
    end = NOW if ended else -1
    return (
        VertexView(
            SOURCE,
            "Source: numbers",
            2,
            128,
            state,
            (source,),
            (),
            both,
            start_ms=START,
            end_ms=end,
            has_event_time=True,
        ),
        VertexView(
            WINDOW,
            "sum -> Sink: print",
            2,
            128,
            state,
            (window, sink),
            (InputView(SOURCE, "HASH", 0, 201, 2000, 21.0, 210.0),),
            both,
            start_ms=START,
            end_ms=end,
            has_event_time=True,
        ),
    )


def checkpoints() -> CheckpointsView:
    """Two epochs, a savepoint and a failed one."""
    tasks = tuple(CheckpointTask(vertex, index, 1024, 256, 40) for vertex in (SOURCE, WINDOW) for index in range(2))
    phases = {"plan": 2.0, "schedule": 5.0, "run": 80.0, "ack": 10.0, "commit": 3.0}
    completed = CheckpointView(
        7, "COMPLETED", NOW - 2000, NOW - 1900, 4096, 1024, 50, "/c/chk-7", tasks=tasks, phases=phases
    )
    savepoint = CheckpointView(
        6,
        "COMPLETED",
        NOW - 4000,
        NOW - 3500,
        4096,
        4096,
        50,
        "/s/savepoint-1",
        savepoint_format="CANONICAL",
        tasks=tasks,
    )
    failed = CheckpointView(5, "FAILED", NOW - 6000, NOW - 5000, failure="the disk is full")
    return CheckpointsView(
        completed=6,
        failed=1,
        restored_count=1,
        history=(completed, savepoint, failed),
        latest_completed=completed,
        latest_savepoint=savepoint,
        latest_failed=failed,
        restored=RestoredView(1, START, True, "/s/savepoint-0"),
        durations=Spread(90, 500, 150.0, 100, 200, 300, 400, 500, 6),
        state_bytes=Spread(1024, 4096, 2048.0, 2048, 4096, 4096, 4096, 4096, 6),
        written_bytes=Spread(256, 4096, 1024.0, 1024, 4096, 4096, 4096, 4096, 6),
        records=Spread(1, 50, 25.0, 25, 50, 50, 50, 50, 6),
        savepoints=(savepoint,),
    )


CARD = FailureCardView(
    blame="user code",
    error="ValueError: x is not a number",
    traceback="File program.py, line 5",
    epoch=5,
    attempt=0,
    subtask=0,
    vertex="sum -> Sink: print",
    parallelism=2,
    operator="sum",
    uid="the sum; rm -rf",
    user_line="program.py:5",
    activity="processing a record",
    key="'x'",
    record="('x', 1)",
    timestamp=17,
    origin=("orders-0@10", "orders-0@12"),
)


def running_job(job_id: str = RUNNING) -> JobView:
    """A job in the middle of its life."""
    return JobView(
        job_id=job_id,
        name="orders-window",
        status=JobStatus.RUNNING,
        start_ms=START,
        timestamps={JobStatus.INITIALIZING: START - 40, JobStatus.CREATED: START - 30, JobStatus.RUNNING: START},
        last_modified_ms=NOW - 100,
        vertices=vertices(TaskState.RUNNING),
        checkpoints=checkpoints(),
        failures=(
            FailureView("ValueError", CARD.error, NOW - 30_000, "sum (1/2)", "127.0.0.1", TASK_MANAGER, CARD),
        ),
        configuration={"parallelism.default": "2", "flott.rest.token": "do not show"},
        job_parameters={"input": "orders"},
        accumulators={"count": ("LongCounter", "12")},
        metrics={"numRestarts": 1, "uptime": 60_000, "numberOfCompletedCheckpoints": 6, "lastCheckpointDuration": 100},
        epochs=(EpochView(7, 0, NOW - 1900, 50, 45, NOW - 5_000, {"run": 80.0}, 4096, 2, False),),
        restarts=1,
        records_per_second=21.0,
        checkpoint_directory="/c",
        restart_strategy="fixed delay (3 attempts, 1 s)",
        process=4711,
        rescales=(RescaleView(6, NOW - 4000, ("sum: 1 -> 2",)),),
        ledger={"21" * 16: LedgerEntry("sum", 100, 1, 2, (LateSample("<script>alert(1)</script>", NOW - 9000, NOW),))},
    )


def ended_job(job_id: str, status: JobStatus, state: TaskState) -> JobView:
    """The same after its end."""
    running = running_job(job_id)
    return replace(
        running,
        name=f"{status.name.lower()}-job",
        status=status,
        end_ms=NOW,
        timestamps={**running.timestamps, status: NOW},
        vertices=vertices(state, ended=True),
        process=0,
    )


def task_manager() -> TaskManagerView:
    """An executor."""
    return TaskManagerView(
        id=TASK_MANAGER,
        host="127.0.0.1",
        port=36765,
        slots=4,
        free_slots=2,
        cores=4,
        memory_bytes=1 << 30,
        free_bytes=1 << 29,
        managed_bytes=1 << 28,
        heartbeat_ms=NOW - 200,
        started_ms=START,
        running_tasks=2,
        completed_tasks=40,
        metrics={"Status.JVM.Memory.Heap.Used": 1 << 29, "Status.JVM.Memory.Heap.Max": 1 << 30},
    )


class InspectorHere:
    """An inspector in this process."""

    def __init__(self, subject: InspectionSubject):
        self._states = StateAnswers(subject.checkpoint_directory, time.monotonic)

    def ask(self, question: Question, timeout_s: float) -> bytes:
        return encoded(reply_to(self._states, question))  # type: ignore[arg-type]

    def close(self) -> None:
        """Nothing is to be ended."""


@dataclass
class FakeCluster:
    """Answers from data; remembers orders. An order is done at once unless ``held``; then ``release`` ends it."""

    folder: Path
    configuration: Configuration = field(default_factory=Configuration)
    started_ms: int = START
    held: bool = False
    orders: list[tuple[Any, ...]] = field(default_factory=list)
    promises: list[Future[Any]] = field(default_factory=list)
    submissions: dict[str, JobSubmission] = field(default_factory=dict)
    uploads: dict[str, dict[str, bytes]] = field(default_factory=dict)
    known: dict[str, JobView] = field(default_factory=dict)
    executors: list[TaskManagerView] = field(default_factory=lambda: [task_manager()])
    histories: JobHistories = field(default_factory=JobHistories)
    questions: list[Question] = field(default_factory=list)
    checkpoint_directory: str = ""
    inspectors: Inspectors = field(default_factory=lambda: Inspectors(InspectorHere))

    def __post_init__(self) -> None:
        jobs = (
            running_job(),
            ended_job(FINISHED, JobStatus.FINISHED, TaskState.FINISHED),
            ended_job(FAILED, JobStatus.FAILED, TaskState.FAILED),
            ended_job(CANCELED, JobStatus.CANCELED, TaskState.CANCELED),
            replace(running_job(RESTARTING), name="restarting-job", status=JobStatus.RESTARTING),
        )
        self.known.update({job.job_id: job for job in jobs})
        self.log_folder.mkdir(parents=True, exist_ok=True)

    @property
    def log_folder(self) -> Path:
        return self.folder / "logs"

    def jobs(self) -> Sequence[JobView]:
        return tuple(self.known.values())

    def job(self, job_id: str) -> JobView:
        if job_id not in self.known:
            raise JobNotFoundError(f"Job {job_id} not found")
        return self.known[job_id]

    def result(self, job_id: str) -> JobResultView | None:
        job = self.job(job_id)
        if not job.status.is_globally_terminal_state():
            return None
        failure = job.failures[0] if job.status is JobStatus.FAILED else None
        return JobResultView(job_id, job.status, NOW - START, failure=failure)

    def history(self, job_id: str) -> JobHistory:
        return self.histories.of(self.job(job_id))

    def inspect(self, job_id: str, question: Question) -> Future[dict[str, Any]]:
        self.job(job_id)
        self.questions.append(question)
        return self.inspectors.ask(InspectionSubject(job_id, self.checkpoint_directory), question)

    def submit(self, submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        self.submissions[submission.job_id] = submission
        self.uploads[submission.job_id] = {name: path.read_bytes() for name, path in files.items()}
        return self._ordered(None, "submit", submission.job_id)

    def order(self, job_id: str, order: Order[Any]) -> Future[Any]:
        self._running(job_id, or_in=(JobStatus.CANCELED,) if isinstance(order, CancelJob) else ())
        return self._ordered(self.outcome(job_id, order), job_id, order)

    def outcome(self, job_id: str, order: Order[Any]) -> Any:
        """Return the result of an order that succeeds."""
        match order:
            case TakeSavepoint() | CancelWithSavepoint() | StopWithSavepoint():
                return f"{order.target or '/savepoints'}/savepoint-{job_id[:6]}"
            case TakeCheckpoint():
                return 8
            case ExplainWatermark():
                hold = Hold(
                    HoldCause.SILENT, "numbers", NOW - 5_000, NOW - 4_000, "Split 0 is silent.", "Use with_idleness.",
                    "0",
                )  # fmt: skip
                source = TimePlace("numbers", NOW - 5_000, holds=True, since_ms=NOW - 4_000)
                place = TimePlace("print", NOW - 5_000, inputs=(source,))
                return WatermarkReport("orders-window", NOW, 7, (place,), (hold,))
        return None

    def disposed_savepoints(self) -> Sequence[str]:
        return [order[1] for order in self.orders if order[0] == "dispose"]

    def dispose_savepoint(self, path: str) -> Future[None]:
        return self._ordered(None, "dispose", path)

    def export_savepoint(self, path: str, directory: str) -> Future[str]:
        return self._ordered(f"{directory}/copy", "export", path, directory)

    def restore(self, job_id: str, savepoint: str, *, allow_non_restored_state: bool) -> Future[str]:
        return self._ordered("f" * 32, "restore", job_id, savepoint, allow_non_restored_state)

    def task_managers(self) -> Sequence[TaskManagerView]:
        return tuple(self.executors)

    def shut_down(self) -> None:
        self.orders.append(("shut down",))

    def release(self, failure: Exception | None = None) -> None:
        """Let the held orders end, with this failure if there is one."""
        for promise in self.promises:
            if failure is None:
                promise.set_result(promise.value)  # type: ignore[attr-defined]
            else:
                promise.set_exception(failure)
        self.promises.clear()

    def _running(self, job_id: str, or_in: tuple[JobStatus, ...] = ()) -> None:
        status = self.job(job_id).status
        if status.is_globally_terminal_state() and status not in or_in:
            raise JobEndedError(f"Job {job_id} has already reached another terminal state ({status.name}).")

    def _ordered(self, value: Any, *order: Any) -> Future[Any]:
        self.orders.append(order)
        promise: Future[Any] = Future()
        if self.held:
            promise.value = value  # type: ignore[attr-defined]
            self.promises.append(promise)
        else:
            promise.set_result(value)
        return promise
