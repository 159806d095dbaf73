"""Finds the active Spark context, or starts one with the settings that the engine needs. Driver side."""

from __future__ import annotations

import atexit
import getpass
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from flott.errors import ConfigurationError
from flott.runtime.spark.files import package_archive
from flott.runtime.spark.spark_errors import why_not_started

#: Settings that epochs need, and why. The user's own settings take precedence, except for those in REQUIRED.
DEFAULTS = {
    "spark.app.name": "Flott",
    # TCP between the JVM and Python takes 40 ms per exchange, because of delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # Jobs of one application share its cores. Otherwise one would wait until the epoch of another had all it wants.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    # The progress bar would be drawn into the log file.
    "spark.ui.showConsoleProgress": "false",
    # Thousands of Spark jobs run in one application, so Spark must not remember all of them.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    # Shuffle files are deleted when their handle is collected. The default interval is half an hour.
    "spark.cleaner.periodicGC.interval": "2min",
    # Buffers are pickled records. Compressing them takes longer than writing them to a local disk.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # A task waits so long for its executor (task_placement.py) before it runs on another one. Spark's default is 3 s,
    # which is many epochs.
    "spark.locality.wait": "200ms",
    "spark.log.level": "WARN",
}

#: Correctness depends on these: if published shuffle output is lost, the whole epoch must fail.
REQUIRED = {
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}

#: Settings for masters on this machine.
LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The JVM only moves buffers, and its optimizing compiler costs more than it saves. Measured in a job's first ten
    # million records: 400 to 700 ns of JVM time per record with it, 150 ns without.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}

#: Settings for YARN. The temporary folder of a container has a long path, and a socket's may have 107 characters.
YARN_DEFAULTS = {"spark.python.unix.domain.socket.dir": "/tmp"}

#: How often Spark may run a task whose worker died before it fails the epoch.
TASK_ATTEMPTS = 4

#: Ids of the applications that have Flott's archive.
_applications_with_flott: set[str] = set()


def spark_context(settings: Mapping[str, str], log_file: Path) -> SparkContext:
    """Return the active Spark context, or a new one. ``settings`` are the configuration's ``spark.*`` keys."""
    found = SparkContext._active_spark_context
    context = found or _new_context(settings, log_file)
    try:
        _ship_flott(context)
    except Py4JError as error:  # a master that does not answer is given up some time after the context was created
        message = _why_not_started(error, log_file, str(context.master))
        if found is None:
            end_application(context._gateway, context)
        raise ConfigurationError(message) from None
    return context


def log_file_in(folder: str | None) -> Path:
    """Return the file for Spark's own output: in a given folder, or in Flott's below the temporary folder."""
    chosen = Path(folder) if folder else Path(tempfile.gettempdir(), f"flott-{getpass.getuser()}", "logs")
    return chosen / f"spark-{os.getpid()}.log"


def application_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new application: Flott's defaults for its master, overridden by the user's."""
    master = _with_task_attempts(settings.get("spark.master", "local[*]"))
    special = _defaults_of(master)
    attempts = {"spark.task.maxFailures": str(TASK_ATTEMPTS)}
    return {**DEFAULTS, **attempts, **special, **settings, **REQUIRED, "spark.master": master}


def _defaults_of(master: str) -> Mapping[str, str]:
    if is_local(master):
        return LOCAL_DEFAULTS
    if on_this_machine(master):
        return _local_cluster_defaults()
    return YARN_DEFAULTS if master == "yarn" else {}


def _local_cluster_defaults() -> dict[str, str]:
    """Return the settings of a ``local-cluster`` master, which numbers its applications for itself.

    Spark derives the working directories of executors from the second in which the application started. Two programs
    that start in the same second would share them, and their executors would overwrite each other's files.
    """
    return {"spark.deploy.appIdPattern": f"app-%s-%04d-{uuid4().hex[:8]}"}


def _new_context(settings: Mapping[str, str], log_file: Path) -> SparkContext:
    merged = application_settings(settings)
    # PySpark takes the interpreter of workers from the environment, not from the configuration.
    if python := merged.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python
    elif on_this_machine(merged["spark.master"]):
        # The driver's interpreter, whatever "python3" means on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False).setAll(list(merged.items()))
    context = _start(conf, log_file)
    accumulators = context._accumulatorServer.server_address
    if isinstance(accumulators, str):
        # PySpark leaves this socket behind when a program ends without stopping the context, as most programs do.
        atexit.register(Path(accumulators).unlink, missing_ok=True)
    return context


def _ship_flott(context: SparkContext) -> None:
    """Send Flott to executors on other machines, once for each context. They need not have it installed."""
    if is_local(str(context.master)) or context.applicationId in _applications_with_flott:
        return
    archive = package_archive()
    atexit.register(shutil.rmtree, archive.parent, ignore_errors=True)  # executors may ask for it until the end
    context.addPyFile(str(archive))
    _applications_with_flott.add(context.applicationId)


def adopt(context: SparkContext) -> None:
    """Note that an application, which another process has started, has Flott's archive."""
    _applications_with_flott.add(context.applicationId)


def is_local(master: str) -> bool:
    """Return whether tasks run in the driver's own process tree."""
    return master == "local" or master.startswith("local[")


def on_this_machine(master: str) -> bool:
    """Return whether executors see this machine's files and interpreter."""
    return is_local(master) or master.startswith("local-cluster")


def _with_task_attempts(master: str) -> str:
    """Return the master with retries: ``local[2]`` fails a job with its first lost worker, ``local[2,4]`` retries."""
    match = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{match[1] or '1'},{TASK_ATTEMPTS}]" if match else master


def _start(conf: SparkConf, log_file: Path) -> SparkContext:
    log_file.parent.mkdir(parents=True, exist_ok=True)
    gateway = None
    with open(log_file, "ab") as log:
        try:
            gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            return SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            message = _why_not_started(error, log_file, str(conf.get("spark.master")))  # the JVM's log has the reason
            end_application(gateway)
            raise ConfigurationError(message) from None


def _why_not_started(error: Exception, log_file: Path, master: str) -> str:
    log = log_file.read_text(errors="replace") if log_file.exists() else ""
    return why_not_started(str(error), log, log_file, master)


def end_application(gateway: Any, context: SparkContext | None = None) -> None:
    """End an application, even a partly started one, and its JVM. Another one can be started afterwards."""
    process = getattr(gateway, "proc", None)
    if context is not None:
        with suppress(Exception):  # it may be shutting down already
            context.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
    if process is not None:
        _end(process)
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()  # the JVM ends when its input is closed
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
