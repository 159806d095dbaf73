"""What the JobManager remembers of a job beyond its latest view: numbers of the last minutes, epochs, events.

A job's process sends small views, a few times a second. The JobManager compares each with the former one and keeps
what a chart or a timeline needs in ring buffers. Their size does not depend on how long the job runs. A view has the
last twenty epochs, so of a job with more than about eighty epochs in a second some are missing. Times are parameters.
JobManager side; any thread may ask.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.jobmanager.views.job_view import NEVER, CheckpointView, EpochView, JobView, VertexView

#: Numbers are kept once in this time, for ten minutes.
STEP_MS = 5_000
POINTS = 120
EPOCHS = 300
EVENTS = 100
#: The maximum length of the text of an event, in characters.
MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class VertexPoint:
    """The numbers of one vertex at one moment."""

    records_in_per_second: float
    records_out_per_second: float
    busy: float  #: the mean of its subtasks, from 0 to 1


@dataclass(frozen=True, slots=True)
class JobPoint:
    """The numbers of a job at one moment. None: not known."""

    at_ms: int
    records_per_second: float
    watermark_lag_ms: int | None
    checkpoint_age_ms: int | None
    busy: float  #: of its busiest vertex
    vertices: Mapping[str, VertexPoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PastEpoch:
    """An epoch that has completed, failed, or runs."""

    epoch: int
    status: str  #: COMPLETED, FAILED or RUNNING
    start_ms: int
    end_ms: int = NEVER
    attempt: int = 0
    records_in: int = 0
    records_out: int = 0
    watermark: int = MIN_WATERMARK
    phases: Mapping[str, float] = field(default_factory=dict)
    state_bytes: int = 0
    written_bytes: int = 0
    parallelism: int = 0
    backlog: bool = False
    failure: str | None = None
    pipelined: bool = False  #: it is the checkpoint of continuous tasks


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job."""

    at_ms: int
    kind: str  #: status, failure, restart, restored, rescale, mode or savepoint
    text: str
    epoch: int | None = None


class JobHistory:
    """The recent past of one job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: deque[JobPoint] = deque(maxlen=POINTS)
        self._epochs: deque[PastEpoch] = deque(maxlen=EPOCHS)
        self._events: deque[JobEvent] = deque(maxlen=EVENTS)
        self._running: PastEpoch | None = None
        self._last_epoch = (NEVER, NEVER)  #: the time and the number of the newest epoch that completed
        self._known_failed: set[tuple[int, int]] = set()  #: failed epochs of the last view, by number and start
        self._known_events: set[JobEvent] = set()  #: those of the last view
        self.version = 0  #: grows with every view

    def note(self, view: JobView, now_ms: int) -> None:
        """Keep what is new in a view."""
        with self._lock:
            self.version += 1
            self._note_epochs(view)
            self._note_events(view)
            slot = now_ms - now_ms % STEP_MS
            ended = view.status.is_terminal_state()
            if not ended and (not self._points or self._points[-1].at_ms < slot):
                self._points.append(point_of(view, slot, now_ms))

    def points(self) -> tuple[JobPoint, ...]:
        """Return the numbers of the last minutes, oldest first."""
        with self._lock:
            return tuple(self._points)

    def epochs(self) -> tuple[PastEpoch, ...]:
        """Return the last epochs, oldest first, failed ones and the one that runs included."""
        with self._lock:
            running = () if self._running is None else (self._running,)
            return (*sorted(self._epochs, key=lambda epoch: (epoch.start_ms, epoch.end_ms)), *running)

    def events(self) -> tuple[JobEvent, ...]:
        """Return the last events, oldest first."""
        with self._lock:
            return tuple(sorted(self._events, key=lambda event: event.at_ms))

    def _note_epochs(self, view: JobView) -> None:
        for epoch in view.epochs:
            if (key := (epoch.completed_ms, epoch.epoch)) > self._last_epoch:
                self._last_epoch = key
                self._epochs.append(completed(epoch))
        failed = [failed_epoch(one) for one in view.checkpoints.history if is_epoch(one) and one.status == "FAILED"]
        self._epochs.extend(one for one in reversed(failed) if (one.epoch, one.start_ms) not in self._known_failed)
        self._known_failed = {(one.epoch, one.start_ms) for one in failed}
        at_work = [one for one in view.checkpoints.history if is_epoch(one) and one.status == "IN_PROGRESS"]
        self._running = _running(at_work[0]) if at_work else None

    def _note_events(self, view: JobView) -> None:
        found = dict.fromkeys(events_of(view))
        self._events.extend(event for event in found if event not in self._known_events)
        self._known_events = set(found)


class JobHistories:
    """The histories of all jobs that this JobManager has run."""

    def __init__(self) -> None:
        self._histories: dict[str, JobHistory] = {}

    def note(self, view: JobView, now_ms: int) -> None:
        """Keep what is new in a view."""
        self._histories.setdefault(view.job_id, JobHistory()).note(view, now_ms)

    def of(self, view: JobView) -> JobHistory:
        """Return the history of a job; of a job that an earlier JobManager ran, what its last view says."""
        found = self._histories.get(view.job_id)
        if found is None:
            found = JobHistory()
            found.note(view, view.end_ms if view.end_ms != NEVER else view.last_modified_ms)
        return found

    def forget(self, job_id: str) -> None:
        """Delete the history of a job."""
        self._histories.pop(job_id, None)


# --- a view as numbers and events ------------------------------------------------------------------------------------


def point_of(view: JobView, at_ms: int, now_ms: int) -> JobPoint:
    """Return the numbers of a view."""
    vertices = {vertex.id: vertex_point(vertex) for vertex in view.vertices}
    watermark, latest = watermark_of(view), view.checkpoints.latest_completed
    return JobPoint(
        at_ms,
        view.records_per_second,
        None if watermark is None else now_ms - watermark,
        None if latest is None else max(0, now_ms - latest.acknowledged_ms),
        max((point.busy for point in vertices.values()), default=0.0),
        vertices,
    )


def vertex_point(vertex: VertexView) -> VertexPoint:
    """Return the numbers of a vertex."""
    own = [subtask.own_metrics or {} for subtask in vertex.subtasks]
    count = len(vertex.subtasks)
    return VertexPoint(
        sum(metrics.get("numRecordsInPerSecond", 0.0) for metrics in own),
        sum(metrics.get("numRecordsOutPerSecond", 0.0) for metrics in own),
        sum(subtask.busy_ratio for subtask in vertex.subtasks) / count if count else 0.0,
    )


def watermark_of(view: JobView) -> int | None:
    """Return the watermark at the job's sinks after the last epoch. None: event time has not begun, or has ended."""
    found = int(view.metrics.get("currentLowWatermark", MIN_WATERMARK))
    return found if MIN_WATERMARK < found < MAX_WATERMARK else None


def is_epoch(checkpoint: CheckpointView) -> bool:
    """Return whether a checkpoint is an epoch and no savepoint."""
    return checkpoint.savepoint_format is None


def completed(view: EpochView) -> PastEpoch:
    """Return a completed epoch."""
    return PastEpoch(
        view.epoch,
        "COMPLETED",
        view.began_ms,
        view.ended_ms,
        view.attempt,
        view.records_in,
        view.records_out,
        view.watermark,
        view.phases,
        view.state_bytes,
        view.written_bytes,
        view.parallelism,
        view.backlog,
        pipelined=view.pipelined,
    )


def failed_epoch(view: CheckpointView) -> PastEpoch:
    """Return a failed epoch."""
    reason = (view.failure or "").partition("\n")[0]
    return PastEpoch(
        view.id, "FAILED", view.triggered_ms, view.acknowledged_ms, failure=reason[:MAX_TEXT], pipelined=view.pipelined
    )


def _running(view: CheckpointView) -> PastEpoch:
    return PastEpoch(view.id, "RUNNING", view.triggered_ms, pipelined=view.pipelined)


def events_of(view: JobView) -> Iterator[JobEvent]:
    """Return the events that a view knows of."""
    for status, at_ms in view.timestamps.items():
        if at_ms != NEVER and status is not JobStatus.INITIALIZING:
            yield JobEvent(at_ms, "restart" if status is JobStatus.RESTARTING else "status", status.name)
    for failure in view.failures:
        epoch = None if failure.card is None else failure.card.epoch
        yield JobEvent(failure.at_ms, "failure", failure.text.partition("\n")[0][:MAX_TEXT], epoch)
    for rescale in view.rescales:
        yield JobEvent(rescale.at_ms, "rescale", ", ".join(rescale.changes)[:MAX_TEXT], rescale.epoch)
    for change in view.mode_changes:
        now = "pipelined" if change.mode == "pipelined" else "in epochs"
        yield JobEvent(change.at_ms, "mode", f"{now}: {change.reason}", change.checkpoint)
    if (restored := view.checkpoints.restored) is not None:
        kind = "savepoint" if restored.is_savepoint else "checkpoint"
        yield JobEvent(restored.restored_ms, "restored", f"{kind} {restored.id}", restored.id)
    for one in view.checkpoints.history:
        if not is_epoch(one) and one.status != "IN_PROGRESS":
            text = one.path if one.status == "COMPLETED" else f"failed: {(one.failure or '').partition(chr(10))[0]}"
            yield JobEvent(one.acknowledged_ms, "savepoint", (text or "")[:MAX_TEXT], one.id)
