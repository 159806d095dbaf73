"""Wires clock, storage, runner, job master and display into executors: knows them all. Driver side."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common._savepoint_format import SavepointFormatType
from flott.common._watermark_report import WatermarkReport
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError, FlottError, JobCancelledError, JobFailedError, SavepointError
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.graph.stream_graph import StreamGraph
from flott.runtime.checkpoint.pins import read_pins
from flott.runtime.checkpoint.restoring import (
    ClaimMode,
    Snapshot,
    begin_with,
    open_snapshot,
    read_claim,
    settle_claim,
    withdraw_claim,
)
from flott.runtime.checkpoint.retention import outlive
from flott.runtime.checkpoint.store import CheckpointStore, latest_job
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.console import listener_of
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.epoch.runner import TaskRunner
from flott.runtime.job_files import JobEnvironment, own_environment
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import JobListener, RestoredFrom
from flott.runtime.jobmaster.rescaling import RescaleRequest
from flott.runtime.jobmaster.restored_state import restorable
from flott.runtime.jobmaster.savepoints import After, SavepointRequest
from flott.runtime.jobmaster.time_report import explain
from flott.runtime.logs.line import LogLimits
from flott.runtime.managed_state.backends.backend import BackendSettings
from flott.runtime.storage import PosixStorage, local_path, open_storage
from flott.runtime.storage.locations import join, last_part_of, resolved

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
        return self.prepare(graph, configuration).run()

    def submit(self, graph: StreamGraph, configuration: Configuration) -> JobClient:
        """Run a job in a thread of its own. Bad programs are refused here, not in the thread."""
        job = self.prepare(graph, configuration)
        return BackgroundJob(job)

    def prepare(
        self,
        graph: StreamGraph,
        configuration: Configuration,
        *,
        identity: JobIdentity | None = None,
        listeners: Callable[[JobPlace, JobGraph], Sequence[JobListener]] | None = None,
        environment: JobEnvironment | None = None,
    ) -> RunningJob:
        """Everything but running it. ``listeners`` are asked for in place of a display on this terminal."""
        options.validate(configuration)
        job_graph = chain(graph)
        place = _choose_place(configuration, job_graph, identity or JobIdentity())
        try:
            place.store.claim(job_graph.name)
            run_id = uuid.uuid4().hex[:8]
            runner = self._runner(configuration, environment)
            master = JobMaster(
                deployment=Deployment(
                    graph,
                    job_graph,
                    runner,
                    run_id=run_id,
                    job_id=place.job_id,
                    storage=place.store.storage,
                    settings=task_settings(configuration),
                ),
                job_id=place.job_id,
                configuration=configuration,
                store=place.store,
                clock=self._clock,
                run_id=run_id,
                listeners=[
                    *(
                        listeners(place, job_graph)
                        if listeners is not None
                        else [listener_of(configuration, job_graph, self._clock)]
                    ),
                    *extra_listeners,
                ],
                began_with=place.beginning,
            )
            if step_hook is not None:
                master.on_step = step_hook
            place.begin(job_graph.name)
        except BaseException:
            place.abandon()
            raise
        return RunningJob(master, place, runner, self._clock)

    def _runner(self, configuration: Configuration, environment: JobEnvironment | None) -> TaskRunner:
        if self._target == "in-process":
            if environment is None:
                own_environment(configuration, with_program=False)
            return LocalRunner()
        from flott.runtime.spark.files import ship
        from flott.runtime.spark.runner import SparkRunner
        from flott.runtime.spark.session import log_file_in, on_this_machine, spark_context

        settings = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
        log_file = log_file_in(options.read(configuration, options.LOG_DIR))
        context = spark_context(settings, log_file)
        by_path = on_this_machine(str(context.master))
        if environment is None:
            environment = own_environment(configuration, with_program=not by_path)
        return SparkRunner(context, log_file, ship(context, environment, by_path=by_path))


# --- where a job keeps its things ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobIdentity:
    """Who a job is, where a JobManager says so. With it, a job goes on from what its directory holds."""

    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: int = 0  #: of the leader that runs it: a later leader's is higher


@dataclass
class JobPlace:
    """A job's directory and where the job begins."""

    job_id: str
    store: CheckpointStore
    temporary: bool = False  #: nobody asked to keep anything
    snapshot: Snapshot | None = None  #: what a new job begins with
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM

    @property
    def beginning(self) -> RestoredFrom | None:
        """The same for those who watch."""
        if self.snapshot is None:
            return None
        manifest = self.snapshot.manifest
        return RestoredFrom(manifest.checkpoint_id, self.snapshot.folder, manifest.savepoint is not None)

    def begin(self, job_name: str) -> None:
        """Make what the job is to begin with its own."""
        # By now the directory is this process's own: nobody else completes a first checkpoint any more.
        if self.snapshot is not None and not self.store.checkpoint_ids():
            begin_with(self.snapshot, self.store, job_name, self.claim_mode)

    def abandon(self) -> None:
        """The job never started."""
        with suppress(FlottError):  # whatever made the job fail to start may also be in the way here
            if self.snapshot is not None and self.store.is_claimed:  # so what is in the directory is of this attempt
                withdraw_claim(self.store.storage)
                self.store.delete_everything()
            else:
                self.store.abandon()
        self.store.release()
        if self.temporary:
            shutil.rmtree(self.store.storage.root, ignore_errors=True)

    def close(self, keep: bool) -> None:
        """The job has ended: keep its checkpoints, or delete them and what it has taken over."""
        try:
            if not keep:
                self._settle_claim()
                self.store.delete_everything()
            self.store.release()
        except FlottError as error:
            log.warning("The job's checkpoint directory could not be deleted: %s", error)

    def _settle_claim(self) -> None:
        storage = self.store.storage
        claim = read_claim(storage)
        if claim is not None and not claim.is_needed((), read_pins(storage)):
            settle_claim(claim, storage)


def _choose_place(configuration: Configuration, graph: JobGraph, identity: JobIdentity) -> JobPlace:
    directory = options.read(configuration, options.CHECKPOINT_DIR)
    sync = options.read(configuration, options.STORAGE_SYNC)
    job_id, token = identity.job_id, identity.token
    if directory is None:
        _refuse_unshared(configuration)
        if options.read(configuration, options.RECOVER_FROM_LATEST):
            raise ConfigurationError(
                "execution.state-recovery.from-latest needs to know where: set execution.checkpointing.dir to the"
                " directory of the earlier run."
            )
        beginning = _beginning(configuration, graph)
        root = tempfile.mkdtemp(prefix="flott-job-")
        # Lost with this process anyway, so there is no point in waiting for the disk.
        return JobPlace(job_id, CheckpointStore(PosixStorage(root, sync=False)), True, *beginning)
    directory = resolved(directory)
    if options.read(configuration, options.RECOVER_FROM_LATEST):
        found = latest_job(directory, graph.name, sync)
        if found is not None:
            store = CheckpointStore(found, token=token)
            if completed := store.completed():
                ignore = options.read(configuration, options.IGNORE_UNCLAIMED_STATE)
                restorable(completed[-1], graph, found, ignore_unclaimed=ignore)
                # What the job was started from once may be gone by now: it does not need it any more.
                return JobPlace(last_part_of(found.root), store)
            return JobPlace(last_part_of(found.root), store, False, *_beginning(configuration, graph))
    store = CheckpointStore(open_storage(join(directory, job_id), sync=sync), token=token)
    if store.storage.exists(".") and store.checkpoint_ids():
        return JobPlace(job_id, store)  # it has run before, under another JobManager or in a process that died
    return JobPlace(job_id, store, False, *_beginning(configuration, graph))


def _beginning(configuration: Configuration, graph: JobGraph) -> tuple[Snapshot | None, ClaimMode]:
    """The savepoint or checkpoint that a new job begins with, and what becomes of that."""
    mode = options.read(configuration, options.RECOVERY_CLAIM_MODE)
    if mode == "LEGACY":
        raise ConfigurationError(
            "execution.state-recovery.claim-mode LEGACY left it open whose files they are, and Flink has given it up."
            " Set NO_CLAIM to leave the savepoint alone, or CLAIM to let the job delete it when it is not needed."
        )
    path = options.read(configuration, options.RECOVERY_PATH)
    if not path:
        return None, ClaimMode(mode)
    sync = options.read(configuration, options.STORAGE_SYNC)
    snapshot = open_snapshot(path, sync)
    ignore = options.read(configuration, options.IGNORE_UNCLAIMED_STATE)
    manifest = restorable(snapshot.manifest, graph, open_storage(snapshot.root, sync=sync), ignore_unclaimed=ignore)
    return replace(snapshot, manifest=manifest), ClaimMode(mode)


def _refuse_unshared(configuration: Configuration) -> None:
    if options.needs_shared_storage(configuration):
        master = configuration.get_string("spark.master", "")
        raise ConfigurationError(
            f"With spark.master {master} state must be where all executors can reach it: set"
            " execution.checkpointing.dir to a directory on shared storage."
        )


def task_settings(configuration: Configuration) -> TaskSettings:
    """What tasks need to know of the configuration."""
    return TaskSettings(
        buffer_records=options.read(configuration, options.EXCHANGE_BUFFER_RECORDS),
        input_memory_bytes=options.read(configuration, options.EXCHANGE_MEMORY),
        job_parameters=options.read(configuration, options.GLOBAL_JOB_PARAMETERS) or {},
        backend=_backend_settings(configuration),
        logs=LogLimits(
            options.read(configuration, cluster_options.LOG_TASK_LINES),
            options.read(configuration, cluster_options.LOG_TASK_SIZE),
            options.read(configuration, cluster_options.LOG_LEVEL),
        ),
    )


def _backend_settings(configuration: Configuration) -> BackendSettings:
    local_dir = options.read(configuration, options.LOCAL_DIR)
    return BackendSettings(
        options.read(configuration, options.STATE_BACKEND),
        options.read(configuration, options.MANAGED_MEMORY) // options.slots_per_executor(configuration),
        local_path(local_dir.split(",")[0]) if local_dir else None,
    )


# --- running jobs ----------------------------------------------------------------------------------------------------


@dataclass
class RunningJob:
    """A prepared job and what must be cleaned up after it."""

    master: JobMaster
    place: JobPlace
    runner: TaskRunner
    clock: Clock
    #: Called when the job has ended and before anything of it is deleted: whoever must not forget its end, may not.
    on_end: Callable[[JobStatus], None] = lambda status: None

    def run(self) -> JobExecutionResult:
        """Run to the end in this thread; raises unless the job finished."""
        started = self.clock.monotonic()
        status = self.run_to_end()
        if status is JobStatus.FINISHED:
            runtime = int((self.clock.monotonic() - started) * 1000)
            entries = tuple(self.master.ledger.values())
            return JobExecutionResult(
                JobID(self.place.job_id), runtime, self.master.accumulators, entries, dict(self.master.metrics)
            )
        if status is JobStatus.CANCELED:
            raise JobCancelledError(f"Job {self.master.graph.name!r} was cancelled.")
        raise JobFailedError(f"Job {self.master.graph.name!r} failed.\n\n{self.master.failure}") from None

    def run_to_end(self) -> JobStatus:
        """Run to the end in this thread, and clean up; how it ended."""
        try:
            return self.master.run()
        finally:
            try:
                self.runner.close()
            finally:
                self.on_end(self.master.history.status)
                self._clean_up(self.master.history.status)

    def _clean_up(self, status: JobStatus) -> None:
        retention = options.read(self.master.configuration, options.CHECKPOINT_RETENTION)
        keep = outlive(status, retention) and not self.place.temporary
        self.place.close(keep or self.master.savepoints.checkpoint_is_needed)
        if status is not JobStatus.SUSPENDED:  # whoever goes on with the job, perhaps on this machine, needs it
            _backend_settings(self.master.configuration).delete_local_state(self.place.job_id)


def clean_up_after(
    job_id: str, name: str, directory: str, configuration: Configuration, status: JobStatus, token: int
) -> None:
    """Do what the process of a job did not live to do: delete the checkpoints that nobody wants any more."""
    storage = open_storage(directory, sync=options.read(configuration, options.STORAGE_SYNC))
    if not outlive(status, options.read(configuration, options.CHECKPOINT_RETENTION)) and storage.exists("."):
        place = JobPlace(job_id, CheckpointStore(storage, token=token))
        place.store.claim(name)
        place.close(keep=False)
    _backend_settings(configuration).delete_local_state(job_id)


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

    def join(self) -> None:
        """Wait until the job has ended and everybody who asked something of it was answered."""
        self._thread.join()

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
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        after = After.DRAIN if advance_to_end_of_event_time else After.STOP
        return self._end_with_savepoint(after, savepoint_directory, format_type)

    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        return self._end_with_savepoint(After.CANCEL, savepoint_directory, format_type)

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        return self._take_savepoint(After.GO_ON, savepoint_directory, format_type)

    def _take_savepoint(
        self, after: After, directory: str | None, format_type: SavepointFormatType
    ) -> CompletableFuture[str]:
        job = self._job
        directory = directory or options.read(job.master.configuration, options.SAVEPOINT_DIR)
        if directory is None:
            return CompletableFuture.failed(
                ConfigurationError(
                    "Nobody has said where the savepoint is to be: name a directory, or set"
                    " execution.checkpointing.savepoint-dir."
                )
            )
        if format_type is SavepointFormatType.NATIVE and job.place.temporary:
            return CompletableFuture.failed(
                SavepointError(
                    "A native savepoint refers to the job's own files, but this job keeps them in a temporary directory"
                    " that goes with it. Set execution.checkpointing.dir, or take a canonical savepoint."
                )
            )
        return job.master.take_savepoint(SavepointRequest(after, resolved(directory), format_type))

    def _end_with_savepoint(
        self, after: After, directory: str | None, format_type: SavepointFormatType
    ) -> CompletableFuture[str]:
        """The savepoint's path once the job has ended, too; at once if there is no savepoint and the job goes on."""
        answer: CompletableFuture[str] = CompletableFuture()

        def taken(path: CompletableFuture[str]) -> None:
            if (failure := path.exception()) is not None:
                answer.set_exception(failure)
            else:
                self._result.when_done(lambda _: answer.set_result(path.result()))

        self._take_savepoint(after, directory, format_type).when_done(taken)
        return answer

    def get_accumulators(self) -> CompletableFuture[dict[str, object]]:
        return CompletableFuture.completed(self._job.master.accumulators)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._result

    def rescale(self, parallelism: int, operator: str | None = None) -> CompletableFuture[None]:
        return self._job.master.rescale(RescaleRequest(parallelism, operator))

    def get_checkpoint_directory(self) -> str:
        return self._job.place.store.storage.root

    def explain_watermark(self) -> WatermarkReport:
        return explain(self._job.master.time_snapshot())
