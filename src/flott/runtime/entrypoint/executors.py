"""Executors: each wires one job in the calling process and runs its epochs on Spark or in-process. Driver side."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.graph.stream_graph import StreamGraph
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.console import listener_of
from flott.runtime.entrypoint.job_directory import JobDirectory, JobIdentity, choose_directory
from flott.runtime.entrypoint.running_job import BackgroundJob, RunningJob
from flott.runtime.entrypoint.task_settings import task_settings
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.epoch.runner import TaskRunner
from flott.runtime.job_files import JobEnvironment, own_environment
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.runner import PipelineRunner
from flott.runtime.pipelined.tls import ConnectionTls
from flott.runtime.storage import initialize_object_stores

#: Tests and tools add listeners to every job of this process here, and a hook between the steps of the protocol.
extra_listeners: list[JobListener] = []
step_hook: Callable[[str, int], None] | None = None


def make_executor(target: str) -> Executor:
    """Return the executor for a value of ``execution.target``."""
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
        """Run a job in a thread. A program that cannot run is refused in the calling thread."""
        return BackgroundJob(self.prepare(graph, configuration))

    def prepare(
        self,
        graph: StreamGraph,
        configuration: Configuration,
        *,
        identity: JobIdentity | None = None,
        listeners: Callable[[JobDirectory, JobGraph], Sequence[JobListener]] | None = None,
        environment: JobEnvironment | None = None,
    ) -> RunningJob:
        """Make a job that is ready to run. ``listeners`` replaces the display on this terminal."""
        options.validate(configuration)
        initialize_object_stores(configuration)
        job_graph = chain(graph)
        directory = choose_directory(configuration, job_graph, identity or JobIdentity())
        try:
            directory.store.claim(job_graph.name)
            run_id = uuid.uuid4().hex[:8]
            runner = self._runner(configuration, environment)
            master = JobMaster(
                deployment=Deployment(
                    graph,
                    job_graph,
                    runner,
                    run_id=run_id,
                    job_id=directory.job_id,
                    storage=directory.store.storage,
                    settings=task_settings(configuration),
                ),
                job_id=directory.job_id,
                configuration=configuration,
                store=directory.store,
                clock=self._clock,
                run_id=run_id,
                listeners=[
                    *(
                        listeners(directory, job_graph)
                        if listeners is not None
                        else [listener_of(configuration, job_graph, self._clock)]
                    ),
                    *extra_listeners,
                ],
                temporary=directory.temporary,
                began_with=directory.beginning,
                pipeline=self._pipeline(configuration, runner),
            )
            if step_hook is not None:
                master.on_step = step_hook
            directory.begin(job_graph.name)
        except BaseException:
            directory.abandon()
            raise
        return RunningJob(master, directory, runner, self._clock)

    def _pipeline(self, configuration: Configuration, runner: TaskRunner) -> PipelineRunner | None:
        """Return what executes tasks continuously, if the job may want it."""
        if options.read(configuration, options.EXECUTION_MODE) == "epochs":
            return None
        if self._target == "in-process":
            return LocalPipeline(self._clock)
        from flott.runtime.spark.runner import SparkRunner

        assert isinstance(runner, SparkRunner)
        return runner.pipeline(self._clock, ConnectionTls.of(configuration))

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
