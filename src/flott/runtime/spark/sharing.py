"""Shares one Spark application between processes: the JobManager, which started it, and each job. Driver side.

A process of a job talks to the same JVM through the gateway PySpark has for programs that spark-submit starts. What it
may not share are Python workers: modules of two jobs may have the same name and differ. Spark keeps workers apart by
the environment they were started with, so a job's environment names the job.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from flott.errors import WorkerLostError
from flott.runtime.spark.application import SparkAddress
from flott.runtime.spark.executors import SparkExecutors
from flott.runtime.spark.session import adopt, end_application, spark_context

log = logging.getLogger("flott.spark")

#: The environment variable that distinguishes the workers of one job from those of another.
JOB_VARIABLE = "FLOTT_JOB"
#: How long a worker waits before it ends all workers of its job. Its own task must have been reported by then.
_GRACE_SECONDS = 1.0


class SharedApplication:
    """The application, in the process that started it. This process runs no Python workers of its own."""

    def __init__(self, settings: Mapping[str, str], log_file: Path):
        self._context = spark_context(settings, log_file)
        parameters = self._context._gateway.gateway_parameters  # type: ignore[union-attr]
        archives = tuple(self._context._python_includes or ())
        self.address = SparkAddress(parameters.port, parameters.auth_token, self._context.pythonExec, archives)
        self.executors = SparkExecutors(self._context)

    def is_alive(self) -> bool:
        """Return whether its JVM still runs it."""
        process = getattr(self._context._gateway, "proc", None)
        if process is not None and process.poll() is not None:
            return False
        try:
            return not self._context._jsc.sc().isStopped()
        except (Py4JError, OSError):
            return False

    def end_workers(self, job_id: str) -> None:
        """End the Python workers of a job that has ended, on executors that Spark chooses. Called from one thread."""
        with suppress(WorkerLostError):
            if not self.executors.read().executors:
                return  # without executors there are no workers, and the task that ends them would wait for an executor
        context = self._context
        context.environment[JOB_VARIABLE] = job_id  # the task then runs in the workers of this job
        with suppress(Py4JError, OSError):  # then they end with the application
            tasks = context.defaultParallelism
            context.setJobGroup(f"flott-end-{job_id}", "end the workers of a job")
            context.parallelize(range(tasks), tasks).mapPartitions(_end_later).collect()

    def stop(self) -> None:
        """End the application and its JVM. Another one can be started afterwards."""
        end_application(self._context._gateway, self._context)


def attach(address: SparkAddress, job_id: str, when_lost: Callable[[], NoReturn]) -> SparkContext:
    """Use the application at an address, with Python workers of this job's own.

    ``when_lost`` is called by the thread that finds that the application has ended. It does not return, because the end
    of the application must not be reported as a failure of the job.
    """
    os.environ.update(
        PYSPARK_GATEWAY_PORT=str(address.port), PYSPARK_GATEWAY_SECRET=address.secret, PYSPARK_PYTHON=address.python
    )
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        _watch_connections(gateway, when_lost)
        jvm = gateway.jvm
        running = jvm.org.apache.spark.SparkContext.getOrCreate()
        java_context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
        conf = SparkConf(_jconf=java_context.getConf())
        before = signal.getsignal(signal.SIGINT)
        context = SparkContext(gateway=gateway, jsc=java_context, conf=conf)
        signal.signal(signal.SIGINT, before)  # PySpark's handler would cancel the Spark jobs of all processes
    except (Py4JError, OSError) as error:
        log.error("The Spark application of the JobManager does not answer: %s", error)
        when_lost()
    finally:
        # Processes that user code starts must not inherit them.
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
            os.environ.pop(name, None)
    context.environment[JOB_VARIABLE] = job_id
    own = context._python_includes or []
    context._python_includes = [*(name for name in address.archives if name not in own), *own]
    adopt(context)
    return context


def _watch_connections(gateway: Any, when_lost: Callable[[], NoReturn]) -> None:
    """Call ``when_lost`` when no connection to the JVM can be made: a JVM that runs accepts connections."""
    client = gateway._gateway_client
    connect = client._create_new_connection

    def connect_or_end() -> Any:
        try:
            return connect()
        except OSError as error:
            log.error("No connection to Spark can be made: %s", error)
            when_lost()

    client._create_new_connection = connect_or_end


def _end_later(rows: Iterable[Any]) -> Iterable[Any]:
    """End this worker's parent soon, and with it all workers of the job, which it has forked. Runs in a worker."""
    if JOB_VARIABLE in os.environ:
        timer = threading.Timer(_GRACE_SECONDS, os.kill, (os.getppid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
    return ()
