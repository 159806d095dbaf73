"""The process of one job: runs its JobMaster and does what the JobManager says. Job process.

    python -m flott.runtime.jobmanager.processes.job_runner FD

It lives and dies with the JobManager: when the pipe ends, so does the process, at once. That is a crash like any other,
and the next leader continues from the last checkpoint.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import EpochFailure, FlottError, JobEndedError, LeadershipLostError
from flott.graph.job_graph import JobGraph
from flott.runtime.clock import SystemClock
from flott.runtime.entrypoint.executors import Executor
from flott.runtime.entrypoint.job_directory import JobDirectory, JobIdentity
from flott.runtime.entrypoint.running_job import BackgroundJob, RunningJob
from flott.runtime.job_files import place_files
from flott.runtime.jobmanager.ended_job_file import encode_ledger
from flott.runtime.jobmanager.folders import results_folder
from flott.runtime.jobmanager.processes.channel import (
    Acknowledged,
    Assignment,
    Ended,
    Line,
    Reply,
    Request,
    Viewed,
)
from flott.runtime.jobmanager.processes.graph_pickle import unpickle_graph
from flott.runtime.jobmanager.processes.job_log import JobLog, log_process_to, open_job_log
from flott.runtime.jobmanager.processes.result_spool import ResultSpool, open_spool
from flott.runtime.jobmanager.views.job_view import NEVER, FailureView, JobResultView, JobView, bounded
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.orders import CancelJob, Order, SuspendJob

log = logging.getLogger("flott.job")

#: How often the JobManager is told how the job stands, if it stands differently.
VIEW_INTERVAL_SECONDS = 0.25
#: How long a process whose Spark is gone waits to be ended by the JobManager before it ends by itself.
PATIENCE_SECONDS = 120.0


class JobRunner:
    """One job in this process. ``prepare`` and ``recorder`` are parameters for tests."""

    def __init__(
        self,
        line: Line,
        assignment: Assignment,
        *,
        prepare: Callable[[Configuration, JobLog], RunningJob] | None = None,
        recorder: TrackingListener | None = None,
    ):
        self._line = line
        self._prepared = prepare or self._prepare
        self._assignment = assignment
        self._clock = SystemClock()
        self._started = self._clock.monotonic()
        self._recorder = recorder
        self._client: BackgroundJob | None = None
        self._job: RunningJob | None = None
        self.ready = threading.Event()  #: orders can be carried out, or nothing is left to do
        self._told_to_stop: CancelJob | SuspendJob | None = None  #: before there was a job to tell
        self._beginning = threading.Lock()
        self._acknowledged = threading.Event()
        self._telling = threading.Lock()  #: no older view follows a newer one, or the end
        self._told_version = -1  #: the version of the last view
        self._over = threading.Event()
        self._spool: ResultSpool | None = None

    def run(self) -> None:
        """Run the job from its assignment to its end."""
        for target in (self._take_orders, self._send_views):
            threading.Thread(target=target, name=target.__name__.strip("_"), daemon=True).start()
        configuration = Configuration.of(self._assignment.configuration)
        journal = open_job_log(self._assignment.log_folder, self._assignment.submission.job_id, configuration)
        log_process_to(journal.handler, configuration)
        journal.take_over_streams(echo=self._assignment.echo)
        try:
            job = self._prepared(configuration, journal)
        except LeadershipLostError as error:
            log.warning("The job continues elsewhere: %s", error)
            self._end(self._broken_off(JobStatus.SUSPENDED), JobStatus.SUSPENDED, None)
        except EpochFailure as error:  # the storage may be back when it is tried again
            log.error("The job cannot be started at present: %s", error)
            self._tell(Viewed(replace(self._broken_off(JobStatus.INITIALIZING, error), end_ms=NEVER)))
            _die()
        except (Exception, SystemExit) as error:
            log.error("The job cannot be started: %s", error)
            self._end(self._broken_off(JobStatus.FAILED, error), JobStatus.FAILED, error)
        else:
            job.on_end = self._on_end
            with self._beginning:
                self._job = job
            if self._told_to_stop is not None:
                self._stop(self._told_to_stop)
            self._client = BackgroundJob(job)
            self.ready.set()
            self._client.join()
        finally:
            self._over.set()
            self.ready.set()
            journal.close()

    def _prepare(self, configuration: Configuration, journal: JobLog) -> RunningJob:
        assignment = self._assignment
        submission = assignment.submission
        contents = assignment.contents
        if contents is not None:
            contents.fetch(submission.files, assignment.files)
        marks = assignment.files.parent if contents is None else contents.mark
        self._spool = open_spool(results_folder(assignment.log_folder), marks=marks)
        environment = place_files(assignment.files, submission.files)
        graph = unpickle_graph(submission.graph)
        if assignment.spark is not None:
            from flott.runtime.spark.sharing import attach

            attach(assignment.spark, submission.job_id, _await_the_end)

        def listeners(directory: JobDirectory, job_graph: JobGraph) -> Sequence[JobListener]:
            self._recorder = TrackingListener(
                submission.job_id,
                job_graph,
                configuration,
                self._clock,
                checkpoint_directory=directory.store.storage.root,
            )
            return [self._recorder, journal.listener]

        target = "spark" if assignment.spark is not None else "in-process"
        identity = JobIdentity(submission.job_id, assignment.token)
        return Executor(target, self._clock).prepare(
            graph, configuration, identity=identity, listeners=listeners, environment=environment
        )

    # --- orders ------------------------------------------------------------------------------------------------------

    def _take_orders(self) -> None:
        while True:
            try:
                message = self._line.receive()
            except EOFError:
                _die()  # the JobManager is gone
            match message:
                case Acknowledged():
                    self._acknowledged.set()
                case Request(number, CancelJob() | SuspendJob() as order):
                    self._line.send(self._told(number))  # first: to stop may take long
                    try:
                        self._stop(order)
                    except Exception:  # this thread must continue: it learns that the end is durable
                        log.exception("The job could not be told to end; it is killed if it does not.")
                case Request(number, order):
                    # Each order has a thread, because it may have to wait until the job is ready.
                    threading.Thread(target=self._carry_out, args=(number, order), daemon=True).start()

    def _carry_out(self, number: int, order: Order[Any]) -> None:
        self.ready.wait()
        try:
            answer = self._begin(order)
        except Exception as error:
            self._line.send(Reply.failed(number, error))
            return

        def tell(done: CompletableFuture[Any]) -> None:
            self._send_view()  # before the answer, so that the client sees the effect of its order
            try:
                self._line.send(Reply(number, done.result()))
            except Exception as error:  # it failed, or its result cannot be sent: the client is answered in either case
                self._line.send(Reply.failed(number, error))

        answer.when_done(tell)

    def _begin(self, order: Order[Any]) -> CompletableFuture[Any]:
        client = self._client
        if client is None:
            raise JobEndedError(f"Job {self._assignment.submission.job_id} has ended: it never began.")
        return client.submit(order)

    def _told(self, number: int) -> Reply:
        """Return the answer to an order that ends the job: it fails if the job has ended."""
        if self._job is None or not self._job.master.history.status.is_terminal_state():
            return Reply(number)
        return Reply.failed(number, JobEndedError(f"Job {self._assignment.submission.job_id} has ended."))

    def _stop(self, order: CancelJob | SuspendJob) -> None:
        """End the job, at once or as soon as it is prepared. A job that continues elsewhere is not started here."""
        with self._beginning:
            job = self._job
            self._told_to_stop = order
        if job is None:
            if isinstance(order, SuspendJob):
                _die()
            return
        if self._spool is not None:
            self._spool.close()
        job.master.submit(order)

    # --- what the JobManager is told ---------------------------------------------------------------------------------

    def _tell(self, message: object) -> None:
        if not self._line.send(message):
            _die()

    def _send_views(self) -> None:
        while not self._over.wait(VIEW_INTERVAL_SECONDS):
            self._send_view()

    def _send_view(self) -> None:
        with self._telling:
            recorder = self._recorder
            if recorder is not None and recorder.version != self._told_version and not self._over.is_set():
                self._told_version = recorder.version
                try:
                    self._tell(Viewed(self._view(recorder)))
                except Exception:  # the next view may succeed, and the answer to an order must not wait for it
                    log.exception("How the job stands cannot be said.")

    def _view(self, recorder: TrackingListener) -> JobView:
        return replace(recorder.view(), process=os.getpid())

    def _on_end(self, status: JobStatus) -> None:
        """Report the end of the job, which may come from user code that ends the thread (``sys.exit``)."""
        assert self._recorder is not None
        assert self._job is not None
        torn_by = sys.exc_info()[1]
        if status.is_terminal_state() or torn_by is None:
            self._end(self._view(self._recorder), status, self._job.master.failure)
        else:
            self._end(self._broken_off(JobStatus.FAILED, torn_by), JobStatus.FAILED, torn_by)

    def _broken_off(self, status: JobStatus, error: BaseException | None = None) -> JobView:
        """Return the view of a job that has no job master."""
        now = self._clock.now_ms()
        submission = self._assignment.submission
        view = self._recorder.view() if self._recorder is not None else JobView(
            submission.job_id, submission.name, JobStatus.INITIALIZING, submission.submitted_ms or now,
            batch=submission.batch, configuration=dict(self._assignment.configuration),
        )  # fmt: skip
        passed = {JobStatus.FAILING: now} if status is JobStatus.FAILED else {}
        return replace(
            view,
            status=status,
            end_ms=now,
            last_modified_ms=now,
            timestamps={**view.timestamps, **passed, status: now},
            failures=((failure_of(error, now),) if error is not None else ()) + view.failures,
            process=os.getpid(),
        )

    def _end(self, view: JobView, status: JobStatus, failure: BaseException | None) -> None:
        """Tell the end, and wait until it is durable: only then may anything of the job be deleted."""
        master = self._job.master if self._job is not None else None
        result = JobResultView(
            view.job_id,
            status,
            net_runtime_ms=int((self._clock.monotonic() - self._started) * 1000),
            accumulators=_accumulators(master) if master is not None else {},
            failure=failure_of(failure, self._clock.now_ms()) if failure is not None else None,
            ledger=encode_ledger(tuple(master.ledger.values())) if master is not None else b"",
            metrics=dict(master.metrics) if master is not None else {},
        )
        with self._telling:
            self._over.set()
            self._tell(Ended(view, result))
        self._acknowledged.wait()


def _await_the_end() -> NoReturn:
    """Wait to be ended by the JobManager, which starts Spark again and then this job in a new process."""
    log.error("The Spark application has ended. The job continues from its last checkpoint when it is back.")
    threading.Event().wait(PATIENCE_SECONDS)
    _die()


def _die() -> NoReturn:
    """End the process at once, from any thread. The leader sees a crash like any other."""
    logging.shutdown()
    os._exit(1)


def failure_of(error: BaseException, now_ms: int) -> FailureView:
    """Return a failure of the job as a whole for people: an error of Flott is shown without a stack trace."""
    text = str(error) if isinstance(error, FlottError) else "".join(traceback.format_exception(error))
    return FailureView(type(error).__name__, bounded(text), now_ms)


def _accumulators(master: JobMaster) -> dict[str, bytes]:
    try:
        values = master.accumulators
    except Exception:  # of classes that only the workers have
        return {}
    return {name: data for name, value in values.items() if (data := _pickled(value)) is not None}


def _pickled(value: object) -> bytes | None:
    """Return the pickled value; None if it cannot be pickled, which must not prevent the end of the job."""
    with suppress(Exception):
        return pickle.dumps(value, protocol=5)
    return None


def main() -> None:
    """Run the process of a job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # what user code starts must not keep the pipe open
    line = Line(Connection(descriptor))
    try:
        assignment = line.receive()
    except EOFError:
        return
    assert isinstance(assignment, Assignment)
    JobRunner(line, assignment).run()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)  # nothing that a program has left running keeps the process


if __name__ == "__main__":
    main()
