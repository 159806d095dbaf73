"""Wires clock, storage, runner, job master and display into executors: knows them all. Driver side."""

from __future__ import annotations

import getpass
import logging
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flott.common import _options as options
from flott.common._watermark_report import WatermarkReport
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError, FlottError, JobCancelledError, JobFailedError, ProgramError
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.stream_graph import StreamGraph
from flott.runtime.checkpoint.manifest import OperatorSnapshot
from flott.runtime.checkpoint.store import CheckpointStore, latest_job, open_checkpoint
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.console import listener_of
from flott.runtime.epoch.image import TaskSettings, make_image
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.epoch.redistribute import redistribute
from flott.runtime.epoch.runner import EpochRunner
from flott.runtime.jobmanager.job_master import JobMaster, Origin
from flott.runtime.jobmanager.listener import JobListener
from flott.runtime.jobmanager.time_report import explain
from flott.runtime.python_files import archives_of, make_importable
from flott.runtime.storage import LocalStorage

log = logging.getLogger("flott.job")

#: Listeners added to every job of this process, and a hook between the steps of the protocol: for tests and tools.
extra_listeners: list[JobListener] = []
step_hook: Callable[[str, int], None] | None = None


def make_executor(target: str) -> Executor:
    """The executor for a value of ``execution.target``."""
    return Executor(target)


class Executor:
    """Runs jobs with their job master in this process, and their epochs on Spark or in-process."""

    def __init__(self, target: str, clock: Clock | None = None):
        self._target = target
        self._clock: Clock = clock or SystemClock()

    def execute(self, graph: StreamGraph, configuration: Configuration) -> JobExecutionResult:
        """Run a job in the calling thread."""
        return self._prepare(graph, configuration).run()

    def submit(self, graph: StreamGraph, configuration: Configuration) -> JobClient:
        """Run a job in a thread of its own. Bad programs are refused here, not in the thread."""
        job = self._prepare(graph, configuration)
        return BackgroundJob(job)

    def _prepare(self, graph: StreamGraph, configuration: Configuration) -> RunningJob:
        options.validate(configuration)
        job_graph = chain(graph)
        place = _choose_place(configuration, job_graph)
        try:
            place.store.claim(job_graph.name)
            run_id = uuid.uuid4().hex[:8]
            image = make_image(job_graph, run_id, place.job_id, place.store.storage, _task_settings(configuration))
            runner = self._runner(configuration)
            runner.install(image)
            master = JobMaster(
                graph=job_graph,
                job_id=place.job_id,
                configuration=configuration,
                runner=runner,
                store=place.store,
                clock=self._clock,
                run_id=run_id,
                origin=place.origin,
                listeners=[listener_of(configuration, job_graph, self._clock), *extra_listeners],
            )
            if step_hook is not None:
                master.on_step = step_hook
        except BaseException:
            place.abandon()
            raise
        return RunningJob(master, place, runner, self._clock)

    def _runner(self, configuration: Configuration) -> EpochRunner:
        python_files = archives_of(options.read(configuration, options.PYTHON_FILES) or "")
        if self._target == "in-process":
            make_importable(python_files)
            return LocalRunner()
        from flott.runtime.spark.runner import SparkRunner
        from flott.runtime.spark.session import send_python_files, spark_context

        settings = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
        log_file = _log_folder(configuration) / f"spark-{os.getpid()}.log"
        context = spark_context(settings, log_file)
        send_python_files(context, python_files)
        return SparkRunner(context, log_file)


# --- where a job keeps its things ------------------------------------------------------------------------------------


@dataclass
class JobPlace:
    """A job's directory and where the job begins."""

    job_id: str
    store: CheckpointStore
    origin: Origin
    temporary: bool  #: nobody asked to keep anything

    def abandon(self) -> None:
        """The job never started."""
        with suppress(FlottError):  # whatever made the job fail to start may also be in the way here
            self.store.abandon()
        self.store.release()
        if self.temporary:
            shutil.rmtree(self.store.storage.root, ignore_errors=True)


def _choose_place(configuration: Configuration, graph: JobGraph) -> JobPlace:
    directory = options.read(configuration, options.CHECKPOINT_DIR)
    sync = options.read(configuration, options.STORAGE_SYNC)
    job_id = uuid.uuid4().hex
    origin = Origin()
    if path := options.read(configuration, options.RECOVERY_PATH):
        storage, manifest = open_checkpoint(_local(path), sync)
        origin = Origin(manifest, storage.root)
        _check_restored(manifest.operators, graph)
    if directory is None:
        _refuse_unshared(configuration)
        if options.read(configuration, options.RECOVER_FROM_LATEST):
            raise ConfigurationError(
                "execution.state-recovery.from-latest needs to know where: set execution.checkpointing.dir to the"
                " directory of the earlier run."
            )
        root = tempfile.mkdtemp(prefix="flott-job-")
        # Lost with this process anyway, so there is no point in waiting for the disk.
        return JobPlace(job_id, CheckpointStore(LocalStorage(root, sync=False)), origin, temporary=True)
    directory = _local(directory)
    if options.read(configuration, options.RECOVER_FROM_LATEST):
        found = latest_job(directory, graph.name, sync)
        if found is not None:
            store = CheckpointStore(found)
            completed = store.completed()
            if completed:
                _check_restored(completed[-1].operators, graph)
                origin = Origin()
            return JobPlace(Path(found.root).name, store, origin, temporary=False)
    root = str(Path(directory, job_id).resolve())
    return JobPlace(job_id, CheckpointStore(LocalStorage(root, sync)), origin, temporary=False)


def _local(path: str) -> str:
    """A local path from a path or a file: URI."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if "://" in path:
        raise ConfigurationError(
            f"{path} is not a local path. This version of Flott keeps checkpoints in file systems that are mounted on"
            " the driver and on all executors."
        )
    return path


def _refuse_unshared(configuration: Configuration) -> None:
    if options.needs_shared_storage(configuration):
        master = configuration.get_string("spark.master", "")
        raise ConfigurationError(
            f"With spark.master {master} state must be where all executors can reach it: set"
            " execution.checkpointing.dir to a directory on shared storage."
        )


def _check_restored(operators: Mapping[OperatorId, OperatorSnapshot], graph: JobGraph) -> None:
    """Every operator with state in the checkpoint must exist in the program and be able to take its state over."""
    for ident, snapshot in operators.items():
        if ident in graph.operators:
            redistribute(snapshot, graph.operators[ident])
        elif snapshot.has_state:
            name = f"{snapshot.name!r}" + (f" (uid {snapshot.uid!r})" if snapshot.uid else " (no uid)")
            raise ProgramError(
                f"The checkpoint holds state of operator {name}, which this program does not have. Give the operator"
                " that continues it the same uid(), or start without the checkpoint."
            )


def _task_settings(configuration: Configuration) -> TaskSettings:
    return TaskSettings(
        buffer_records=options.read(configuration, options.EXCHANGE_BUFFER_RECORDS),
        input_memory_bytes=options.read(configuration, options.EXCHANGE_MEMORY),
        job_parameters=options.read(configuration, options.GLOBAL_JOB_PARAMETERS) or {},
    )


def _log_folder(configuration: Configuration) -> Path:
    chosen = options.read(configuration, options.LOG_DIR)
    return Path(chosen) if chosen else Path(tempfile.gettempdir(), f"flott-{getpass.getuser()}", "logs")


# --- running jobs ----------------------------------------------------------------------------------------------------


@dataclass
class RunningJob:
    """A prepared job and what must be cleaned up after it."""

    master: JobMaster
    place: JobPlace
    runner: EpochRunner
    clock: Clock

    def run(self) -> JobExecutionResult:
        """Run to the end in this thread; raises unless the job finished."""
        started = self.clock.monotonic()
        try:
            status = self.master.run()
        finally:
            self.runner.close()
            self._clean_up(self.master.history.status)
        if status is JobStatus.FINISHED:
            runtime = int((self.clock.monotonic() - started) * 1000)
            entries = tuple(self.master.ledger.values())
            return JobExecutionResult(
                JobID(self.place.job_id), runtime, self.master.accumulators, entries, dict(self.master.metrics)
            )
        if status is JobStatus.CANCELED:
            raise JobCancelledError(f"Job {self.master.graph.name!r} was cancelled.")
        raise JobFailedError(f"Job {self.master.graph.name!r} failed.\n\n{self.master.failure}") from None

    def _clean_up(self, status: JobStatus) -> None:
        retention = options.read(self.master.configuration, options.CHECKPOINT_RETENTION)
        keep_cancelled = retention == "RETAIN_ON_CANCELLATION"
        gone = status is JobStatus.FINISHED or (status is JobStatus.CANCELED and not keep_cancelled)
        try:
            if gone or self.place.temporary:
                self.place.store.delete_everything()
            else:
                self.place.store.release()
        except FlottError as error:
            log.warning("The job's checkpoint directory could not be deleted: %s", error)


class BackgroundJob(JobClient):
    """A job in a thread of its own."""

    def __init__(self, job: RunningJob):
        self._job = job
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._thread = threading.Thread(target=self._run, name=f"flott-{job.place.job_id[:8]}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.set_result(self._job.run())
        except BaseException as error:
            self._result.set_exception(error)

    def get_job_id(self) -> JobID:
        return JobID(self._job.place.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self._job.master.history.status)

    def cancel(self) -> CompletableFuture[None]:
        ended: CompletableFuture[None] = CompletableFuture()
        self._result.when_done(lambda _: ended.set_result(None))
        self._job.master.cancel()
        return ended

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        raise ProgramError("Savepoints are not in this version of Flott; checkpoints are taken with every epoch.")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        raise ProgramError("Savepoints are not in this version of Flott; checkpoints are taken with every epoch.")

    def get_accumulators(self) -> CompletableFuture[dict[str, object]]:
        return CompletableFuture.completed(self._job.master.accumulators)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._result

    def explain_watermark(self) -> WatermarkReport:
        return explain(self._job.master.time_snapshot())
