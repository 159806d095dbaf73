"""The recorder of a job: hears what the job tells, and shows how it stands to whoever asks. Driver side.

The job's thread only puts down what it tells, which costs next to nothing. It is added up when somebody asks for the
view, by the thread that asks, while the job waits for its tasks.
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
    RestoredFrom,
    SavepointNews,
)
from flott.runtime.jobmaster.rescaling import ParallelismChange

log = logging.getLogger("flott.job")

#: So many unread events are added up by the job's own thread: nobody seems to be asking.
MAX_UNREAD = 64
#: While nothing happens there is a new version every second until rates have fallen to nothing, and then every so many:
#: the ages and lags that somebody is to be woken for must grow, above all when the job is stuck.
QUIET_SECONDS = 5
#: More than one event ever has.
_TICKS = 1 << 32


class TrackingListener(JobListener):
    """Keeps what is known of one run of a job. Told by the job's threads, asked by any."""

    def __init__(
        self,
        job_id: str,
        graph: JobGraph,
        configuration: Configuration,
        clock: Clock,
        checkpoint_directory: str = "",
    ):
        self._clock = clock
        self._record = JobTracker(job_id, graph, configuration, checkpoint_directory, self._now())
        self._unread: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  #: of the record
        self._telling = threading.Lock()  #: never held for long
        self._events = 0
        self._latest = clock.monotonic()  #: when the last event came
        self._ended = False

    def view(self) -> JobView:
        """How the job stands now."""
        with self._lock:
            self._read()
            return self._record.view(self._now())

    @property
    def version(self) -> int:
        """Grows whenever the view would be another, also because time has passed: to send it only then."""
        quiet = 0 if self._ended else max(0, int(self._clock.monotonic() - self._latest))
        falling = int(WINDOW_SECONDS) + 2
        return self._events * _TICKS + min(quiet, falling) + max(0, quiet - falling) // QUIET_SECONDS

    def _now(self) -> Moment:
        return Moment(self._clock.now_ms(), self._clock.monotonic())

    def _tell(self, event: Callable[..., None], *facts: object) -> None:
        with self._telling:
            now = self._now()
            self._unread.append(partial(event, now, *facts))
            self._events += 1
            self._latest = now.seconds
        if len(self._unread) > MAX_UNREAD:
            with self._lock:
                self._read()

    def _read(self) -> None:
        while self._unread:
            try:
                self._unread.popleft()()
            except Exception:  # a job is not to end because somebody watches it
                log.exception("The job's recorder could not take something in.")

    # --- what the job tells ------------------------------------------------------------------------------------------

    def on_graph(self, graph: JobGraph) -> None:
        self._tell(self._record.graph, graph)

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        self._ended = status.is_terminal_state()
        self._tell(self._record.status, status)

    def on_start(self, epoch: int, progress: Callable[[], TaskProgress | None]) -> None:
        self._tell(self._record.epoch_began, epoch)

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self._tell(self._record.epoch, statistics)

    def on_epoch_failed(self, epoch: int, failure: JobFailure, tolerated: bool) -> None:
        self._tell(self._record.epoch_failed, epoch, failure, tolerated)

    def on_failure(self, failure: JobFailure) -> None:
        self._tell(self._record.failed, failure)

    def on_savepoint(self, news: SavepointNews) -> None:
        self._tell(self._record.savepoint, news)

    def on_restored(self, restored: RestoredFrom) -> None:
        self._tell(self._record.restored, restored)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self._tell(self._record.restarting)

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        """Told by ``on_graph`` already."""
