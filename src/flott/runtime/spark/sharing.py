"""One Spark application for many processes: the JobManager's, which started it, and one for each job. Driver side.

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

#: The variable that tells workers of one job from those of another.
JOB_VARIABLE = "FLOTT_JOB"
#: How long a worker waits until it ends all workers of its job: its own task must have been reported by then.
_GRACE_SECONDS = 1.0


class SharedApplication:
    """The application as the process has it that started it: this one runs no Python of its own in workers."""

    def __init__(self, settings: Mapping[str, str], log_file: Path):
        self._context = spark_context(settings, log_file)
        parameters = self._context._gateway.gateway_parameters  # type: ignore[union-attr]
        archives = tuple(self._context._python_includes or ())
        self.address = SparkAddress(parameters.port, parameters.auth_token, self._context.pythonExec, archives)
        self.executors = SparkExecutors(self._context)

    def is_alive(self) -> bool:
        """Whether its JVM still runs it."""
        process = getattr(self._context._gateway, "proc", None)
        if process is not None and process.poll() is not None:
            return False
        try:
            return not self._context._jsc.sc().isStopped()
        except (Py4JError, OSError):
            return False

    def end_workers(self, job_id: str) -> None:
        """End the Python workers of a job that has ended, on the executors Spark happens to use; from one thread."""
        with suppress(WorkerLostError):
            if not self.executors.read().executors:
                return  # where there is no executor there is no worker; the task that ends them would wait for one
        context = self._context
        context.environment[JOB_VARIABLE] = job_id  # so that the workers of the job are the ones that are asked
        with suppress(Py4JError):  # then they go with the application
            tasks = context.defaultParallelism
            context.setJobGroup(f"flott-end-{job_id}", "end the workers of a job")
            context.parallelize(range(tasks), tasks).mapPartitions(_end_later).collect()

    def stop(self) -> None:
        """End it and its JVM. Another one can be started afterwards."""
        end_application(self._context._gateway, self._context)


def attach(address: SparkAddress, job_id: str, when_lost: Callable[[], NoReturn]) -> SparkContext:
    """Use the application at an address, with Python workers of this job's own.

    ``when_lost`` is called by whoever finds that the application has ended, and does not return: its end is no failure
    of the job, and must not be taken for one.
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
        signal.signal(signal.SIGINT, before)  # PySpark's would cancel the Spark jobs of everybody
    except (Py4JError, OSError) as error:
        log.error("The Spark application of the JobManager does not answer: %s", error)
        when_lost()
    finally:
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):  # nothing that user code starts needs them
            os.environ.pop(name, None)
    context.environment[JOB_VARIABLE] = job_id
    own = context._python_includes or []
    context._python_includes = [*(name for name in address.archives if name not in own), *own]
    adopt(context)
    return context


def _watch_connections(gateway: Any, when_lost: Callable[[], NoReturn]) -> None:
    """A JVM to which no connection can be made has ended: it listens for as long as it lives."""
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
    """In a worker. Its parent forks all workers of the job, and takes them along."""
    if JOB_VARIABLE in os.environ:
        timer = threading.Timer(_GRACE_SECONDS, os.kill, (os.getppid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
    return ()
