"""The listener that tracks a job for views. Driver side.

The job's thread only queues events, which costs next to nothing. The thread that asks for a view adds them up, while
the job waits for its tasks.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.graph.job_graph import JobGraph
from flott.runtime.clock import Clock
from flott.runtime.epoch.runner import TaskProgress
from flott.runtime.jobmanager.views.job_tracker import JobTracker
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.jobmanager.views.rates import WINDOW_SECONDS
from flott.runtime.jobmanager.views.task_tracker import Moment
from flott.runtime.jobmaster.listener import (
    EpochStatistics,
    JobFailure,
    JobListener,
    ModeChange,
    RestoredFrom,
    SavepointNews,
)
from flott.runtime.jobmaster.rescaling import ParallelismChange
from flott.runtime.pipelined.control import SubtaskLoad, TaskWait

log = logging.getLogger("flott.job")

#: If more events than this are queued, no thread asks for views, and the job's own thread adds the events up.
MAX_UNREAD = 64
#: While nothing happens there is a new version every second until rates have become zero, and then every so many
#: seconds: ages and lags, which alerts watch, must grow when the job is stuck.
QUIET_SECONDS = 5
#: More versions than follow one event.
_TICKS = 1 << 32


class TrackingListener(JobListener):
    """Tracks one run of a job. The job's threads call its ``on_`` methods, any thread may ask for the view."""

    def __init__(
        self,
        job_id: str,
        graph: JobGraph,
        configuration: Configuration,
        clock: Clock,
        checkpoint_directory: str = "",
    ):
        self._clock = clock
        self._tracker = JobTracker(job_id, graph, configuration, checkpoint_directory, self._now())
        self._queue: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  #: of the tracker
        self._queue_lock = threading.Lock()  #: of the queue; held for a moment only
        self._events = 0
        self._latest = clock.monotonic()  #: the time of the last event
        self._ended = False

    def view(self) -> JobView:
        """Return the present state of the job."""
        with self._lock:
            self._process_queue()
            return self._tracker.view(self._now())

    @property
    def version(self) -> int:
        """Return a number that grows whenever the view changes, even if only time has passed. Views are sent then."""
        quiet = 0 if self._ended else max(0, int(self._clock.monotonic() - self._latest))
        falling = int(WINDOW_SECONDS) + 2
        return self._events * _TICKS + min(quiet, falling) + max(0, quiet - falling) // QUIET_SECONDS

    def _now(self) -> Moment:
        return Moment(self._clock.now_ms(), self._clock.monotonic())

    def _enqueue(self, event: Callable[..., None], *facts: object) -> None:
        with self._queue_lock:
            now = self._now()
            self._queue.append(partial(event, now, *facts))
            self._events += 1
            self._latest = now.seconds
        if len(self._queue) > MAX_UNREAD:
            with self._lock:
                self._process_queue()

    def _process_queue(self) -> None:
        while self._queue:
            try:
                self._queue.popleft()()
            except Exception:  # a failing tracker must not end the job
                log.exception("The job's tracker could not process an event.")

    # --- what the job reports ----------------------------------------------------------------------------------------

    def on_graph(self, graph: JobGraph) -> None:
        self._enqueue(self._tracker.graph, graph)

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        self._ended = status.is_terminal_state()
        self._enqueue(self._tracker.status, status)

    def on_start(self, epoch: int, progress: Callable[[], TaskProgress | None]) -> None:
        self._enqueue(self._tracker.epoch_began, epoch)

    def on_interval(self, epoch: int) -> None:
        self._enqueue(self._tracker.interval_began, epoch)

    def on_checkpoint(self, epoch: int) -> None:
        self._enqueue(self._tracker.checkpoint_began, epoch)

    def on_waits(self, waits: Sequence[TaskWait]) -> None:
        self._enqueue(self._tracker.waiting, tuple(waits))

    def on_loads(self, loads: Sequence[SubtaskLoad]) -> None:
        self._enqueue(self._tracker.loaded, tuple(loads))

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self._enqueue(self._tracker.epoch, statistics)

    def on_epoch_failed(self, epoch: int, failure: JobFailure, tolerated: bool) -> None:
        self._enqueue(self._tracker.epoch_failed, epoch, failure, tolerated)

    def on_failure(self, failure: JobFailure) -> None:
        self._enqueue(self._tracker.failed, failure)

    def on_savepoint(self, news: SavepointNews) -> None:
        self._enqueue(self._tracker.savepoint, news)

    def on_restored(self, restored: RestoredFrom) -> None:
        self._enqueue(self._tracker.restored, restored)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self._enqueue(self._tracker.restarting)

    def on_mode(self, change: ModeChange) -> None:
        self._enqueue(self._tracker.mode_changed, change)

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        self._enqueue(self._tracker.rescaled, epoch, tuple(changes))
