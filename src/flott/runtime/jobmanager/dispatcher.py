"""The Dispatcher: keeps the jobs that were submitted, runs each in a process of its own, archives how they ended.

``job_life_cycle`` decides what an event means for a job. This class is the shell around it: it collects the events from
clients, processes and the clock, applies them under one lock, and performs the actions. Only processes are started
under the lock, so that a job never has two; everything that may take long is done without it. Views are replaced as a
whole, so a question needs no lock.
"""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common._ids import JobId
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import ClusterError, FlottError, JobEndedError, JobNotFoundError, SubmissionError, UnreachableError
from flott.runtime.clock import Clock
from flott.runtime.entrypoint.running_job import clean_up_after
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.inspection.questions import InspectionSubject
from flott.runtime.jobmanager.job_life_cycle import (
    Action,
    AnswerOrder,
    CancelAccepted,
    DeleteLeftovers,
    DispatcherEvent,
    EndReported,
    EndWritten,
    JobAccepted,
    JobArchived,
    JobManagerEnding,
    KillProcess,
    LeftToSuccessor,
    LogWarning,
    ManagedJob,
    MarkTidy,
    OrderReceived,
    ProcessExited,
    ProcessNotStarted,
    ProcessStarted,
    RefuseOrder,
    RestartRules,
    SendOrder,
    SparkLost,
    StartProcess,
    TimePassed,
    ViewReceived,
    WriteEnd,
    on_event,
)
from flott.runtime.jobmanager.job_settings import check_shared_storage, job_settings, restart_rules
from flott.runtime.jobmanager.job_store import EndedJob, JobArchive, JobStore, KeptJobs, read_submission
from flott.runtime.jobmanager.object_job_store import ObjectJobStore
from flott.runtime.jobmanager.processes.channel import Assignment
from flott.runtime.jobmanager.processes.job_process import JobProcess, JobProcessListener
from flott.runtime.jobmanager.submission import JobSubmission, submission_from
from flott.runtime.jobmanager.views.job_history import JobHistories, JobHistory
from flott.runtime.jobmanager.views.job_past import JobPast
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.orders import CancelJob, Order
from flott.runtime.spark.application import SparkAddress
from flott.runtime.storage import Fence
from flott.runtime.storage.object_head import ObjectFence
from flott.runtime.storage.object_store import ObjectStorage
from flott.runtime.storage.posix_fence import FOLDER as FENCE
from flott.runtime.storage.posix_fence import PosixFence

log = logging.getLogger("flott.cluster")

R = TypeVar("R")

#: Processes have so many seconds to stop where they are when the JobManager ends.
_SUSPEND_SECONDS = 20.0


@dataclass(eq=False)
class _Entry:
    """A job that this JobManager runs. Changed under the Dispatcher's lock; ``job`` is replaced as a whole."""

    submission: JobSubmission
    settings: Mapping[str, str]
    job: ManagedJob
    process: JobProcess | None = None  #: the last one that was started


@dataclass(frozen=True)
class _Todo:
    """Actions, and the process that they are about: by the time they are performed the job may have another one."""

    entry: _Entry
    process: JobProcess | None
    actions: tuple[Action, ...]


class Dispatcher:
    """All jobs of a JobManager.

    ``start_process``, ``rules`` and ``tick_seconds`` (how often deadlines are checked) are parameters for tests.
    """

    def __init__(
        self,
        configuration: Configuration,
        folders: ClusterFolders,
        clock: Clock,
        token: int,
        spark: Callable[[], SparkAddress | None],
        on_gone: Callable[[str], None] = lambda job_id: None,
        *,
        start_process: Callable[[Assignment, JobProcessListener], JobProcess] = JobProcess,
        rules: RestartRules | None = None,
        tick_seconds: float = 0.25,
    ):
        self._configuration = configuration
        self._folders = folders
        self._clock = clock
        self._token = token
        self._spark = spark
        self._on_gone = on_gone
        self._start_process = start_process
        self._rules = rules or RestartRules()
        self._tick_seconds = tick_seconds
        self._fence: Fence | None = None
        self._store, self.archive = self._open_store()
        self._jobs: dict[str, _Entry] = {}
        self._histories = JobHistories()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._work = ThreadPoolExecutor(max_workers=8, thread_name_prefix="dispatcher")

    def _open_store(self) -> tuple[KeptJobs, JobArchive]:
        """Return the jobs of the cluster. The fence is claimed first: from then on no earlier leader changes them."""
        folders, configuration = self._folders, self._configuration
        limits = (
            options.read(configuration, cluster_options.JOBS_KEPT),
            options.read(configuration, cluster_options.JOBS_KEPT_FOR),
        )
        if folders.objects is not None:
            settings = options.object_store_settings(configuration)
            self._fence = ObjectFence(folders.objects, self._token, settings)
            self._fence.claim()
            store = ObjectJobStore(ObjectStorage(folders.objects, settings, self._fence), folders.fetched)
            return store, JobArchive(store, *limits)
        fence = self._fence = PosixFence(str(folders.shared / FENCE), self._token) if self._token else None
        if fence is not None:
            fence.claim()
        return JobStore(folders.jobs, fence), JobArchive(folders.jobs, *limits, fence)

    # --- questions ---------------------------------------------------------------------------------------------------

    def jobs(self) -> Sequence[JobView]:
        """Return all jobs, the newest first."""
        running = self.running()
        known = {view.job_id for view in running}
        views = [*running, *(job.view for job in self.archive.jobs() if job.view.job_id not in known)]
        return sorted(views, key=lambda view: (-view.start_ms, view.job_id))

    def running(self) -> Sequence[JobView]:
        """Return the jobs that have not ended."""
        return [entry.job.view for entry in list(self._jobs.values()) if not entry.job.has_ended]

    def job(self, job_id: str) -> JobView:
        """Return one job; raise ``JobNotFoundError`` if there is none."""
        if (entry := self._running(job_id)) is not None:
            return entry.job.view
        if (ended := self.archive.get(job_id)) is not None:
            return ended.view
        raise JobNotFoundError(f"There is no job {job_id}.")

    def result(self, job_id: str) -> JobResultView | None:
        """Return how a job ended; None while it runs."""
        if self._running(job_id) is not None:
            return None
        if (ended := self.archive.get(job_id)) is not None:
            return ended.result
        raise JobNotFoundError(f"There is no job {job_id}.")

    def history(self, job_id: str) -> JobHistory:
        """Return the recent past of a job; raise ``JobNotFoundError`` if there is none."""
        return self._histories.of(self.job(job_id))

    def subject(self, job_id: str) -> InspectionSubject:
        """Return what an inspector needs to know of a job; raise ``JobNotFoundError`` if there is none."""
        view, entry = self.job(job_id), self._running(job_id)
        settings = entry.settings if entry is not None else view.configuration
        submission, files, contents = entry.submission if entry is not None else None, None, None
        with suppress(OSError, FlottError):  # the program of an ended job may not be kept
            submission = submission or read_submission(self._folders.jobs / job_id)
            files, contents = self._store.files_of(job_id), self._store.contents_of(job_id)
        return InspectionSubject(job_id, view.checkpoint_directory, settings, submission, files, contents)

    def process_of(self, job_id: str) -> JobProcess | None:
        """Return the process of a job, if it has one."""
        entry = self._running(job_id)
        return entry.process if entry is not None and entry.job.has_process else None

    def _running(self, job_id: str) -> _Entry | None:
        entry = self._jobs.get(job_id)
        return entry if entry is not None and not entry.job.has_ended else None

    # --- orders ------------------------------------------------------------------------------------------------------

    def submit(self, submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        """Keep a job and start it; done when it is kept."""
        try:
            return self._work.submit(self._take_in, submission, dict(files))
        except RuntimeError:  # the pool was shut down
            return _failed(_ending())

    def submit_again(self, job_id: str, savepoint: str, allow_non_restored_state: bool) -> str:
        """Submit the program of a job that has ended as a new job, which starts from a savepoint; its id.

        While the job runs that is refused: two jobs would read the same input, and write to the same sinks.
        """
        subject = self.subject(job_id)
        if self._running(job_id) is not None:
            raise SubmissionError(f"Job {job_id} is running: cancel it, or stop it with a savepoint, and restore then.")
        if subject.submission is None or subject.files is None:
            raise SubmissionError(f"The program of job {job_id} is not kept any more: submit it again.")
        with tempfile.TemporaryDirectory(prefix="restored-", dir=self._folders.own) as folder:
            if subject.contents is not None:
                subject.contents.fetch(subject.submission.files, subject.files)
            files = {file.name: Path(folder, file.name) for file in subject.submission.files}
            for name, copy in files.items():  # they are moved to the new job
                shutil.copyfile(subject.files / name, copy)
            again = submission_from(subject.submission, savepoint, allow_non_restored_state)
            self.submit(again, files).result()
        return again.job_id

    def order(self, job_id: str, order: Order[R]) -> Future[R]:
        """Give an order to a job; its answer."""
        with self._lock:
            entry = self._running(job_id)
            todo = self._advance(entry, self._at(OrderReceived, order=order)) if entry is not None else None
        return self._to_ended_job(job_id, order) if todo is None else self._answer(todo)

    def _to_ended_job(self, job_id: str, order: Order[R]) -> Future[Any]:
        try:
            view = self.job(job_id)
        except ClusterError as error:
            return _failed(error)
        if isinstance(order, CancelJob) and view.status is JobStatus.CANCELED:
            return _done(None)  # it was cancelled before
        return _failed(JobEndedError(f"Job {job_id} ({view.name!r}) has ended: it is {view.status.name}."))

    def _answer(self, todo: _Todo) -> Future[Any]:
        """Return the answer to the order whose actions these are."""
        for action in todo.actions:
            match action:
                case AnswerOrder():
                    return _done(None)
                case RefuseOrder(error):
                    return _failed(error)
                case SendOrder(order):
                    assert todo.process is not None
                    return self._send(todo.entry, todo.process, order)
        raise AssertionError(f"No action answers the order: {todo.actions}")

    def _send(self, entry: _Entry, process: JobProcess, order: Order[Any]) -> Future[Any]:
        if not isinstance(order, CancelJob):
            return process.order(order)
        answer: Future[None] = Future()

        def asked(reply: Future[None]) -> None:
            with self._lock:
                entry_runs = not entry.job.has_ended
                if entry_runs and reply.exception() is None:
                    self._advance(entry, self._at(CancelAccepted))
            if entry_runs:  # a process that has died is not followed by another one
                answer.set_result(None)
            else:
                _copy(self._to_ended_job(entry.job.job_id, order), answer)

        process.order(order).add_done_callback(asked)
        return answer

    # --- the life of a job -------------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Continue all jobs that an earlier JobManager has left; return how many."""
        for ended in self.archive.untidy():
            self._work.submit(self._delete_leftovers, ended)
        found = 0
        for submission in self._store.jobs():
            log.info("Job %s (%r) is recovered.", submission.job_id, submission.name)
            self._begin(submission)
            found += 1
        threading.Thread(target=self._keep_time, name="dispatcher-clock", daemon=True).start()
        return found

    def _keep_time(self) -> None:
        while not self._closing.wait(self._tick_seconds):
            self.tick()

    def tick(self) -> None:
        """Do what is due now. A failure with one job does not keep the others waiting."""
        for entry in list(self._jobs.values()):
            try:
                self._happened(entry, self._at(TimePassed))
            except Exception:
                log.exception("A deadline of job %s could not be handled, which is tried again.", entry.job.job_id)
        try:
            self.forget_old()
        except Exception:
            log.exception("Old jobs could not be deleted, which is tried again.")

    def _take_in(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        if self._closing.is_set():
            raise _ending()
        if submission.job_id in self._jobs or self.archive.has(submission.job_id):
            raise SubmissionError(f"There is a job {submission.job_id} already.")
        options.validate(Configuration.of(submission.configuration))
        check_shared_storage(self._configuration, submission, self._folders)
        submission = replace(submission, submitted_ms=self._clock.now_ms())
        self._store.keep(submission, files)
        log.info("Job %s (%r) was submitted.", submission.job_id, submission.name)
        self._begin(submission)

    def _begin(self, submission: JobSubmission) -> None:
        now = self._clock.now_ms()
        settings = job_settings(self._configuration, submission, self._folders)
        past = JobPast(submission.submitted_ms or now, {JobStatus.INITIALIZING: now})
        view = JobView(
            submission.job_id,
            submission.name,
            JobStatus.INITIALIZING,
            start_ms=past.start_ms,
            timestamps=past.timestamps,
            last_modified_ms=now,
            batch=submission.batch,
            configuration=settings,
        )
        rules = restart_rules(self._rules, self._configuration, settings)
        entry = _Entry(submission, settings, ManagedJob(submission.job_id, view, past, rules))
        with self._lock:
            if self._closing.is_set():  # it was kept in the last moment: the next JobManager starts it
                entry.job = replace(entry.job, phase=LeftToSuccessor(has_process=False))
            self._jobs[submission.job_id] = entry
            todo = self._advance(entry, self._at(JobAccepted))
        self._perform(todo)

    # --- events and actions ------------------------------------------------------------------------------------------

    def _at(self, kind: Callable[..., DispatcherEvent], **facts: Any) -> DispatcherEvent:
        return kind(self._clock.monotonic(), self._clock.now_ms(), **facts)

    def _happened(self, entry: _Entry, event: DispatcherEvent) -> bool:
        """Apply an event to a job and perform what follows; return False if the end of the job could not be written."""
        with self._lock:
            todo = self._advance(entry, event)
        return self._perform(todo)

    def _advance(self, entry: _Entry, event: DispatcherEvent) -> _Todo:
        """Apply an event, and start the process that it asks for; return the other actions. The lock is held."""
        entry.job, actions = on_event(entry.job, event)
        rest: list[Action] = []
        for action in actions:
            if isinstance(action, StartProcess):
                rest += self._advance(entry, self._start(entry, action.process)).actions
            else:
                rest.append(action)
        if isinstance(entry.job.phase, JobArchived):
            self._jobs.pop(entry.job.job_id, None)
        return _Todo(entry, entry.process, tuple(rest))

    def _start(self, entry: _Entry, number: int) -> DispatcherEvent:
        job_id = entry.job.job_id
        assignment = Assignment(
            submission=entry.submission,
            configuration=entry.settings,
            files=self._store.files_of(job_id),
            log_folder=self._folders.logs_of_job(job_id),
            token=self._token,
            spark=self._spark(),
            echo=options.read(self._configuration, cluster_options.JOB_OUTPUT) == "terminal",
            contents=self._store.contents_of(job_id),
        )
        try:
            entry.process = self._start_process(assignment, _ProcessEvents(self, entry, number))
        except (OSError, RuntimeError) as error:  # there is no process, or no thread to follow it
            return self._at(ProcessNotStarted, reason=f"The process of the job could not be started: {error}.")
        return self._at(ProcessStarted)

    def _perform(self, todo: _Todo) -> bool:
        durable = True
        for action in todo.actions:
            match action:
                case LogWarning(text, is_error):
                    log.log(logging.ERROR if is_error else logging.WARNING, "%s", text)
                case KillProcess() if todo.process is not None:
                    todo.process.kill()
                case SendOrder(order) if todo.process is not None:
                    self._send(todo.entry, todo.process, order)
                case WriteEnd(view, result):
                    durable = self._write_end(todo.entry, view, result)
                case MarkTidy():
                    if self.archive.get(todo.entry.job.job_id) is not None:
                        self.archive.tidied(todo.entry.job.job_id)
                case DeleteLeftovers():
                    if (ended := self.archive.get(todo.entry.job.job_id)) is not None:
                        self._delete_leftovers(ended)
        return durable

    def _write_end(self, entry: _Entry, view: JobView, result: JobResultView) -> bool:
        """Make the end of a job durable, however long the disk has no room; return False if the JobManager ends."""
        while True:
            try:
                self.archive.put(view, result)
                break
            except OSError as error:
                log.error("The end of job %s cannot be written, which is tried again: %s", view.job_id, error)
            except FlottError as error:
                log.error("The end of job %s is not written: %s", view.job_id, error)
            if self._closing.wait(1.0):
                return False
        log.info("Job %s (%r) ended: %s.", view.job_id, view.name, view.status.name)
        self._happened(entry, self._at(EndWritten))
        self.forget_old()
        return True

    def _delete_leftovers(self, ended: EndedJob) -> None:
        """Delete what the process of a job would have deleted if it had lived longer."""
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
            self.archive.tidied(view.job_id)

    def forget_old(self) -> None:
        """Delete ended jobs beyond the configured number and age, and their logs."""
        for job_id in self.archive.forget_old(self._clock.now_ms()):
            shutil.rmtree(self._folders.logs_of_job(job_id), ignore_errors=True)
            self._histories.forget(job_id)

    # --- what processes report ---------------------------------------------------------------------------------------

    def view_received(self, entry: _Entry, number: int, view: JobView) -> None:
        """Take in how a process says that its job stands."""
        self._happened(entry, self._at(ViewReceived, process=number, view=view))
        self._histories.note(entry.job.view, self._clock.now_ms())

    def end_reported(self, entry: _Entry, number: int, view: JobView, result: JobResultView) -> bool:
        """Take in how a process says that its job ended; return whether that is durable."""
        durable = self._happened(entry, self._at(EndReported, process=number, view=view, result=result))
        if (ended := self.archive.get(view.job_id)) is not None:
            self._histories.note(ended.view, self._clock.now_ms())
        return durable

    def process_exited(self, entry: _Entry, number: int, code: int) -> None:
        """Take in that a process has ended."""
        self._on_gone(entry.job.job_id)
        reason = f"The process of the job {_in_words(code)}."
        self._happened(entry, self._at(ProcessExited, process=number, code=code, reason=reason))
        if not entry.job.has_ended:
            self._histories.note(entry.job.view, self._clock.now_ms())

    # --- the end -----------------------------------------------------------------------------------------------------

    def restart_processes(self) -> None:
        """Continue all jobs from their last checkpoints in new processes, because the Spark application has ended."""
        with self._lock:
            lost = [self._advance(entry, self._at(SparkLost)) for entry in list(self._jobs.values())]
        for todo in lost:
            self._perform(todo)

    def close(self, *, at_once: bool = False) -> None:
        """Stop all jobs where they are; they are kept. ``at_once``: another JobManager may run them already."""
        self._closing.set()
        with self._lock:  # from now on no process is started
            left = [entry for entry in self._jobs.values() if not entry.job.has_ended]
            stopping = [self._advance(entry, self._at(JobManagerEnding, at_once=at_once)) for entry in left]
        for todo in stopping:
            self._perform(todo)
        deadline = self._clock.monotonic() + _SUSPEND_SECONDS
        for todo in stopping:
            if todo.process is not None and not todo.process.wait(max(0.1, deadline - self._clock.monotonic())):
                todo.process.kill()
                todo.process.wait(5.0)
        self._work.shutdown(wait=False, cancel_futures=True)
        if self._fence is not None and not (at_once and isinstance(self._fence, ObjectFence)):
            self._fence.release()  # an object store that does not answer may be why this process leads no more


@dataclass(frozen=True)
class _ProcessEvents:
    """Passes what one process of a job reports on to the Dispatcher, with the number of the process."""

    dispatcher: Dispatcher
    entry: _Entry
    number: int

    def on_view(self, process: JobProcess, view: JobView) -> None:
        self.dispatcher.view_received(self.entry, self.number, view)

    def on_ended(self, process: JobProcess, view: JobView, result: JobResultView) -> bool:
        return self.dispatcher.end_reported(self.entry, self.number, view, result)

    def on_exit(self, process: JobProcess, code: int, ended: bool) -> None:
        self.dispatcher.process_exited(self.entry, self.number, code)


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _ending() -> ClusterError:
    return UnreachableError("The JobManager is ending and takes no more orders: the next one will.")


def _copy(source: Future[Any], target: Future[None]) -> None:
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
