"""The Dispatcher: takes jobs in, keeps them, runs each in a process of its own, remembers how they ended.

    submit -> kept (durable) -> process started -> ... -> ended -> archived (durable) -> process cleans up and goes
                  ▲                                │
                  └── the process died: started again, from the job's last checkpoint, so often as configured

One job's process never waits for another's. Views are replaced as a whole, so questions need no lock.
"""

from __future__ import annotations

import logging
import math
import shutil
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common._ids import JobId
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import (
    ClusterError,
    ConfigurationError,
    FlottError,
    JobEndedError,
    JobNotFoundError,
    JobRestartingError,
    SubmissionError,
    UnreachableError,
)
from flott.runtime.clock import Clock
from flott.runtime.entrypoint.running_job import clean_up_after
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.job_store import EndedJob, JobArchive, JobStore
from flott.runtime.jobmanager.processes.channel import Assignment
from flott.runtime.jobmanager.processes.job_process import JobProcess
from flott.runtime.jobmanager.submission import CLUSTER_PREFIXES, JobSubmission
from flott.runtime.jobmanager.views.job_past import JobPast, without_process
from flott.runtime.jobmanager.views.job_view import FailureView, JobResultView, JobView
from flott.runtime.orders import CancelJob, Order, SuspendJob
from flott.runtime.spark.address import SparkAddress
from flott.runtime.storage.posix_fence import FOLDER as FENCE
from flott.runtime.storage.posix_fence import PosixFence

log = logging.getLogger("flott.cluster")

R = TypeVar("R")

_HOUR_SECONDS = 3600.0
#: The seconds before a job's process is started again: they double with every death of the last hour.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
#: How often it is looked what is due.
_TICK_SECONDS = 0.25
#: How long processes have to stop where they are when the JobManager ends.
_SUSPEND_SECONDS = 20.0
#: How long the process of a job that has ended may clean up before it is killed, and the JobManager does the rest.
_CLEAN_UP_SECONDS = 300.0


@dataclass
class _Job:
    """A job that has not ended. Changed under the dispatcher's lock; the view is replaced."""

    submission: JobSubmission
    configuration: Mapping[str, str]
    told: JobView  #: what the process said last
    past: JobPast
    process: JobProcess | None = None
    deaths: list[float] = field(default_factory=list)  #: of its processes, in the last hour
    start_at: float = math.inf  #: when it gets its next process, if it has none
    kill_at: float = math.inf  #: when its process is killed, if it is there
    excuse: str | None = None  #: why its process is killed, if that is not the job's own fault
    cancelled: bool = False
    ending: JobStatus | None = None  #: what it is being put away as; it gets no process any more
    view: JobView = field(init=False)  #: what others see

    def __post_init__(self) -> None:
        self.show()

    def show(self, told: JobView | None = None, past: JobPast | None = None) -> None:
        """Something is different from now on."""
        self.told, self.past = told or self.told, past or self.past
        self.view = self.past.shown(self.told)


class Dispatcher:
    """All jobs of a JobManager."""

    def __init__(
        self,
        configuration: Configuration,
        folders: ClusterFolders,
        clock: Clock,
        token: int,
        spark: Callable[[], SparkAddress | None],
        on_gone: Callable[[str], None] = lambda job_id: None,
    ):
        self._configuration = configuration
        self._folders = folders
        self._clock = clock
        self._token = token
        self._spark = spark
        self._on_gone = on_gone
        self._fence = PosixFence(str(folders.shared / FENCE), token) if token else None
        if self._fence is not None:
            self._fence.claim()  # before anything is read: it does not change behind this one's back any more
        self._store = JobStore(folders.jobs, self._fence)
        self._archive = JobArchive(
            folders.jobs,
            options.read(configuration, cluster_options.JOBS_KEPT),
            options.read(configuration, cluster_options.JOBS_KEPT_FOR),
            self._fence,
        )
        self._restarts = options.read(configuration, cluster_options.JOB_PROCESS_RESTARTS)
        self._jobs: dict[str, _Job] = {}
        self._leaving: dict[JobProcess, float] = {}  #: processes of jobs that have ended, and when their time is up
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._work = ThreadPoolExecutor(max_workers=8, thread_name_prefix="dispatcher")

    # --- questions ---------------------------------------------------------------------------------------------------

    def jobs(self) -> Sequence[JobView]:
        """All jobs, the newest first."""
        running = self.running()
        known = {view.job_id for view in running}
        views = [*running, *(job.view for job in self._archive.jobs() if job.view.job_id not in known)]
        return sorted(views, key=lambda view: (-view.start_ms, view.job_id))

    def running(self) -> Sequence[JobView]:
        """Those that have not ended."""
        return [job.view for job in list(self._jobs.values())]

    def job(self, job_id: str) -> JobView:
        """One of them."""
        if (running := self._jobs.get(job_id)) is not None:
            return running.view
        if (ended := self._archive.get(job_id)) is not None:
            return ended.view
        raise JobNotFoundError(f"There is no job {job_id}.")

    def result(self, job_id: str) -> JobResultView | None:
        """How a job ended; None while it runs."""
        if job_id in self._jobs:
            return None
        if (ended := self._archive.get(job_id)) is not None:
            return ended.result
        raise JobNotFoundError(f"There is no job {job_id}.")

    # --- orders ------------------------------------------------------------------------------------------------------

    def submit(self, submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        """Keep a job and start it; done when it is kept."""
        try:
            return self._work.submit(self._take_in, submission, dict(files))
        except RuntimeError:  # of a pool that was shut down
            return _failed(_ending())

    def order(self, job_id: str, order: Order[R]) -> Future[R]:
        """Hand an order to a job's process; its answer."""
        if isinstance(order, CancelJob):
            return self._cancel_job(job_id)
        try:
            process = self._running(job_id).process
        except ClusterError as error:
            return _failed(error)
        if process is None:
            return _failed(JobRestartingError(f"Job {job_id} has no process at the moment: it is being started again."))
        return process.order(order)

    def _cancel_job(self, job_id: str) -> Future[Any]:
        """Ask a job to end; one that was cancelled already is asked in vain, and that is fine."""
        try:
            job = self._running(job_id)
        except ClusterError as error:
            ended = self._archive.get(job_id)
            return _done(None) if ended is not None and ended.view.status is JobStatus.CANCELED else _failed(error)
        with self._lock:
            if job.ending is JobStatus.FAILED:
                return _failed(JobEndedError(f"Job {job_id} ({job.view.name!r}) has failed: its end is being written."))
            job.cancelled = True
            process = job.process
            if process is None:
                job.show(past=job.past.cancelled(self._clock.now_ms()))
                job.start_at = 0.0  # it has nothing to do any more but to clean up after itself
        return self._cancel(job, process) if process is not None else _done(None)

    def _cancel(self, job: _Job, process: JobProcess) -> Future[None]:
        """Tell a process to end its job; it is killed if it does not."""
        timeout_ms = options.read(Configuration.of(job.configuration), cluster_options.CANCELLATION_TIMEOUT)
        if timeout_ms:
            job.kill_at = min(job.kill_at, self._clock.monotonic() + timeout_ms / 1000)
        answer: Future[None] = Future()

        def asked(reply: Future[None]) -> None:
            if self._jobs.get(process.job_id) is job:  # a process that has died will not be followed by another
                if reply.exception() is None:
                    with self._lock:
                        job.show(past=job.past.cancelled(self._clock.now_ms()))
                answer.set_result(None)
                return
            _copy(self._cancel_job(process.job_id), answer)

        process.order(CancelJob()).add_done_callback(asked)
        return answer

    def _running(self, job_id: str) -> _Job:
        if (job := self._jobs.get(job_id)) is not None:
            return job
        view = self.job(job_id)
        raise JobEndedError(f"Job {job_id} ({view.name!r}) has ended: it is {view.status.name}.")

    # --- the life of a job -------------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Go on with all jobs an earlier JobManager has left; how many."""
        for ended in self._archive.untidy():
            self._work.submit(self._tidy_up, ended)
        found = 0
        for submission in self._store.jobs():
            log.info("Job %s (%r) is recovered.", submission.job_id, submission.name)
            self._begin(submission)
            found += 1
        threading.Thread(target=self._keep_time, name="dispatcher-clock", daemon=True).start()
        return found

    def _keep_time(self) -> None:
        """Do what is due, until the JobManager ends."""
        while not self._closing.wait(_TICK_SECONDS):
            due: list[Callable[[], None]] = [partial(self._look_after, *item) for item in list(self._jobs.items())]
            for chore in (*due, self._end_lingering, self.forget_old):
                try:
                    chore()
                except Exception:  # whatever it is: no other job may wait for ever because of it
                    log.exception("Something that was due could not be done, which is tried again.")

    def _look_after(self, job_id: str, job: _Job) -> None:
        now, process = self._clock.monotonic(), job.process
        if process is None and now >= job.start_at:
            self._start(job_id)
        elif process is not None and now >= job.kill_at:
            log.error("Job %s (%r) was cancelled and has not ended in time: it is killed.", job_id, job.view.name)
            job.kill_at = math.inf
            process.kill()

    def _end_lingering(self) -> None:
        now = self._clock.monotonic()
        for process, until in list(self._leaving.items()):
            if now >= until:
                log.error("Job %s has ended, but its process does not: it is killed.", process.job_id)
                self._leaving.pop(process, None)
                process.kill()

    def _take_in(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        if self._closing.is_set():
            raise _ending()
        if submission.job_id in self._jobs or self._archive.has(submission.job_id):
            raise SubmissionError(f"There is a job {submission.job_id} already.")
        options.validate(Configuration.of(submission.configuration))
        self._refuse_unshared(submission)
        submission = replace(submission, submitted_ms=self._clock.now_ms())
        self._store.keep(submission, files)
        log.info("Job %s (%r) was submitted.", submission.job_id, submission.name)
        self._begin(submission)

    def _begin(self, submission: JobSubmission) -> None:
        now = self._clock.now_ms()
        configuration = self._merged(submission)
        past = JobPast(submission.submitted_ms or now, {JobStatus.INITIALIZING: now})
        view = JobView(
            submission.job_id,
            submission.name,
            JobStatus.INITIALIZING,
            start_ms=past.start_ms,
            timestamps=past.timestamps,
            last_modified_ms=now,
            batch=submission.batch,
            configuration=configuration,
        )
        with self._lock:
            self._jobs[submission.job_id] = _Job(submission, configuration, view, past)
        self._start(submission.job_id)

    def _start(self, job_id: str) -> None:
        """Give a job a process, unless it has one."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.process is not None or job.ending is not None or self._closing.is_set():
                return
            assignment = Assignment(
                submission=job.submission,
                configuration=job.configuration,
                files=self._store.files_of(job_id),
                log_folder=self._log_folder(job_id),
                token=self._token,
                spark=self._spark(),
                echo=options.read(self._configuration, cluster_options.JOB_OUTPUT) == "terminal",
            )
            try:
                process = job.process = JobProcess(assignment, self)
                job.start_at = job.kill_at = math.inf
            except (OSError, RuntimeError) as error:  # no process, or no thread to follow it
                process, reason = None, f"The process of the job could not be started: {error}."
        if process is None:
            self._go_on(job, reason)
        elif job.cancelled:
            self._cancel(job, process)

    def _log_folder(self, job_id: str) -> Path:
        return self._folders.logs / "jobs" / job_id

    def _merged(self, submission: JobSubmission) -> dict[str, str]:
        """The cluster's configuration, without what is the JobManager's own, and over it the job's."""
        cluster = self._configuration.to_dict()
        merged = {key: text for key, text in cluster.items() if not key.startswith(CLUSTER_PREFIXES)}
        foreign = (*CLUSTER_PREFIXES, "spark.")  # the Spark application runs already, as the JobManager's options say
        merged.update({key: text for key, text in submission.configuration.items() if not key.startswith(foreign)})
        merged.pop(options.TARGET.key, None)
        if not Configuration.of(merged).contains(options.CHECKPOINT_DIR):
            merged[options.CHECKPOINT_DIR.key] = str(self._folders.checkpoints)
        merged[options.LOG_DIR.key] = str(self._folders.logs)
        return merged

    def _refuse_unshared(self, submission: JobSubmission) -> None:
        """Executors on other machines do not see the cluster's folder; with high availability it is shared storage."""
        given = (Configuration.of(submission.configuration), self._configuration)
        if any(configuration.contains(options.CHECKPOINT_DIR) for configuration in given):
            return
        on_spark = options.read(self._configuration, options.TARGET) != "in-process"
        merged = Configuration.of(self._merged(submission))
        if on_spark and options.needs_shared_storage(merged) and self._folders.shared == self._folders.own:
            raise ConfigurationError(
                f"With spark.master {merged.get_string('spark.master', '')} state must be where all executors can reach"
                " it: set execution.checkpointing.dir to a directory on shared storage."
            )

    # --- what processes say ------------------------------------------------------------------------------------------

    def on_view(self, process: JobProcess, view: JobView) -> None:
        if view.status.is_globally_terminal_state():
            return  # nobody is told of an end that is not durable
        with self._lock:
            job = self._jobs.get(process.job_id)
            if job is not None and job.process is process:
                job.show(view)

    def on_ended(self, process: JobProcess, view: JobView, result: JobResultView) -> bool:
        if view.status is JobStatus.SUSPENDED:
            self.on_view(process, view)
            return True
        job = self._jobs.get(process.job_id)
        if job is not None:
            view = job.past.shown(view)
        log.info("Job %s (%r) ended: %s.", view.job_id, view.name, view.status.name)
        runtime_ms = max(result.net_runtime_ms, view.end_ms - view.start_ms)  # of all its processes
        if self._archive_job(view, replace(result, net_runtime_ms=runtime_ms)) is None:
            return False
        self._leaving[process] = self._clock.monotonic() + _CLEAN_UP_SECONDS
        return True

    def on_exit(self, process: JobProcess, code: int, ended: bool) -> None:
        self._on_gone(process.job_id)
        self._leaving.pop(process, None)
        with self._lock:
            job = self._jobs.get(process.job_id)
            if job is not None and job.process is process:
                job.process = None
            elif job is not None:
                return  # it was followed by another one
        if job is not None:
            self._go_on(job, f"The process of the job {_in_words(code)}.")
        elif (archived := self._archive.get(process.job_id)) is not None:
            if code == 0:
                self._archive.tidied(process.job_id)
            else:
                self._tidy_up(archived)

    def _go_on(self, job: _Job, reason: str) -> None:
        """A job has no process any more, or could not get one: it gets another after a while, or has to end."""
        if self._closing.is_set():
            return
        now, job_id = self._clock.monotonic(), job.submission.job_id
        with self._lock:
            excuse, job.excuse = job.excuse, None
            job.deaths = [at for at in job.deaths if now - at < _HOUR_SECONDS] + ([] if excuse else [now])
            deaths = len(job.deaths)
            # One that was suspended has another leader, or this one only seems to have lost it: it is no end.
            suspended = job.view.status is JobStatus.SUSPENDED
            if not suspended and job.cancelled:
                job.ending = JobStatus.CANCELED
            elif not suspended and deaths > self._restarts:
                job.ending = JobStatus.FAILED
        log.warning("Job %s (%r)%s: %s", job_id, job.view.name, " was suspended" if suspended else "", excuse or reason)
        if job.ending is JobStatus.CANCELED:
            self._put_away(job, JobStatus.CANCELED)
        elif job.ending is JobStatus.FAILED:
            self._put_away(job, JobStatus.FAILED, f"{reason} It was death number {deaths} within an hour.")
        elif excuse:
            self._wait_for_process(job, excuse, 0.0)
        else:
            self._wait_for_process(job, reason, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(deaths - 1, 10)))

    def _wait_for_process(self, job: _Job, reason: str, seconds: float) -> None:
        failure = FailureView("JobProcessDied", reason, self._clock.now_ms())
        with self._lock:
            job.show(without_process(job.told, failure.at_ms), job.past.died(job.view, failure))
            job.start_at = 0.0 if job.cancelled else self._clock.monotonic() + seconds

    def _put_away(self, job: _Job, status: JobStatus, reason: str = "") -> None:
        """A job ends that has no process to say so."""
        now = self._clock.now_ms()
        failure = FailureView("JobProcessDied", reason, now) if reason else None
        leaving = JobStatus.CANCELLING if status is JobStatus.CANCELED else JobStatus.FAILING
        view = replace(
            job.view,
            status=status,
            end_ms=now,
            timestamps={**job.view.timestamps, leaving: job.view.timestamps.get(leaving, now), status: now},
            last_modified_ms=now,
            failures=((failure,) if failure else ()) + job.view.failures[:15],
        )
        result = JobResultView(view.job_id, status, max(0, now - view.start_ms), failure=failure)
        if (ended := self._archive_job(view, result)) is not None:
            log.info("Job %s (%r) ended: %s.", view.job_id, view.name, view.status.name)
            self._tidy_up(ended)

    def _archive_job(self, view: JobView, result: JobResultView) -> EndedJob | None:
        """Make the end of a job durable, however long the disk takes to have room again; None: the JobManager ends."""
        while True:
            try:
                ended = self._archive.put(view, result)
                break
            except OSError as error:
                log.error("The end of job %s cannot be written, which is tried again: %s", view.job_id, error)
            except FlottError as error:
                log.error("The end of job %s is not written: %s", view.job_id, error)
            if self._closing.wait(1.0):
                return None
        with self._lock:
            self._jobs.pop(view.job_id, None)
        self.forget_old()
        return ended

    def _tidy_up(self, ended: EndedJob) -> None:
        """Delete what the process of a job would have, had it lived long enough."""
        view = ended.view
        try:
            if view.checkpoint_directory:
                configuration = Configuration.of(view.configuration)
                clean_up_after(
                    JobId(view.job_id), view.name, view.checkpoint_directory, configuration, view.status, self._token
                )
        except (FlottError, OSError) as error:
            log.warning("The checkpoints of job %s (%r) are left behind: %s", view.job_id, view.name, error)
        else:
            self._archive.tidied(view.job_id)

    def forget_old(self) -> None:
        """Let go of ended jobs beyond the configured number and age, and of their logs."""
        for job_id in self._archive.forget_old(self._clock.now_ms()):
            shutil.rmtree(self._log_folder(job_id), ignore_errors=True)

    # --- the end -----------------------------------------------------------------------------------------------------

    def restart_processes(self) -> None:
        """All jobs go on from their last checkpoints in new processes: what they ran on is gone."""
        with self._lock:
            lost = [(job, job.process) for job in self._jobs.values() if job.process is not None]
            for job, _ in lost:
                job.excuse = "The Spark application has ended."
        for _, process in lost:
            process.kill()

    def close(self, *, at_once: bool = False) -> None:
        """Stop all jobs where they stand; they are kept. ``at_once``: somebody else may be running them already."""
        self._closing.set()
        with self._lock:  # nobody is starting one any more
            processes = [job.process for job in self._jobs.values() if job.process is not None]
        for process in processes:
            if at_once:
                process.kill()
            else:
                process.order(SuspendJob())
        deadline = self._clock.monotonic() + _SUSPEND_SECONDS
        for process in processes:
            if not process.wait(max(0.1, deadline - self._clock.monotonic())):
                process.kill()
                process.wait(5.0)
        self._work.shutdown(wait=False, cancel_futures=True)
        if self._fence is not None:
            self._fence.release()


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _ending() -> ClusterError:
    return UnreachableError("The JobManager is ending and takes no more orders: the next one will.")


def _copy(source: Future[None], target: Future[None]) -> None:
    error = source.exception()
    target.set_result(None) if error is None else target.set_exception(error)


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
