"""Writes the structured logs: of a job, in its process, and of the JobManager. Reading them is ``runtime.logs``.

    <log folder>/jobmanager.log           what the JobManager logs
    <log folder>/jobs/<job id>/job.log    what the job's process logs, what becomes of the job, what its functions say
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmaster.listener import JobFailure, JobListener, RestoredFrom, SavepointNews, SavepointStage
from flott.runtime.jobmaster.rescaling import ParallelismChange
from flott.runtime.logs.capture import HEARD, is_said_by_a_task
from flott.runtime.logs.entry import LogEntry, stamp
from flott.runtime.logs.line import TaskLog
from flott.runtime.logs.log_files import JOB_LOG
from flott.runtime.logs.rotation import RotatingFile, Rotation

JOBMANAGER_LOG = "jobmanager.log"

#: A longer message is cut.
MAX_MESSAGE = 64 * 1024

#: Loggers of libraries that report every request as if it were news.
_TALKATIVE = ("py4j", "httpx", "httpcore", "kazoo")

#: Of entries about the life of the job.
JOB_LOGGER = "flott.job"


def rotation_of(configuration: Configuration) -> Rotation:
    """Return the configured rotation of log files."""
    return Rotation(
        options.read(configuration, cluster_options.LOG_FILE_SIZE),
        options.read(configuration, cluster_options.LOG_FILES),
    )


class StructuredLog(logging.Handler):
    """A log of JSON lines in files that rotate; takes records of the logging module, and entries."""

    def __init__(self, path: Path, rotation: Rotation, clock: Clock, job_id: str | None = None):
        super().__init__()
        self.path = path
        self._clock = clock
        self.job_id = job_id
        self._file = RotatingFile(path, rotation, self._apology)
        self._texts = logging.Formatter()

    def write(self, entries: Sequence[LogEntry]) -> None:
        """Add entries."""
        self._file.append([entry.encoded() for entry in entries])

    def _apology(self, lost: int) -> bytes:
        message = f"{lost:,} lines could not be written before this one."
        return LogEntry(stamp(self._clock.now_ms()), "WARNING", "flott.logs", message, self.job_id).encoded()

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, HEARD, False):
            return  # made by a task of this process: it comes with its operator, when the epoch is done
        try:
            message = self._texts.format(record)  # with the traceback, if there is one
        except Exception:
            message = f"{record.msg!r} with arguments that do not fit: {record.args!r}"
        self.write(
            [
                LogEntry(
                    stamp(record.created * 1000),
                    record.levelname,
                    record.name,
                    message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…",
                    self.job_id,
                    thread=record.threadName,
                )
            ]
        )

    def close(self) -> None:
        self._file.close()
        super().close()


class PrintedLines(io.TextIOBase):
    """A standard stream of a job's process: what sinks and other user code on the driver print, line by line."""

    def __init__(self, name: str, log: StructuredLog, echo: TextIO | None):
        self._name = name
        self._log = log
        self._echo = echo
        self._begun = ""  #: a line that is not over yet
        self._lock = threading.Lock()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._echo is not None:
            self._echo.write(text)
            self._echo.flush()
        if not is_said_by_a_task():
            with self._lock:
                *lines, self._begun = (self._begun + text).split("\n")
                if len(self._begun) > MAX_MESSAGE:
                    lines, self._begun = [*lines, self._begun], ""
            level = "INFO" if self._name == "stdout" else "WARNING"
            now = stamp(SystemClock().now_ms())
            self._log.write(
                [
                    LogEntry(now, level, self._name, line[:MAX_MESSAGE], self._log.job_id, stream=self._name)
                    for line in lines
                ]
            )
        return len(text)


class JobLog:
    """The log of one job: ``handler`` for what its process logs, ``listener`` for what becomes of it."""

    def __init__(self, path: Path, rotation: Rotation, job_id: str, clock: Clock):
        self.handler = StructuredLog(path, rotation, clock, job_id)
        self.listener: JobListener = JobLogListener(self.handler, clock)

    def take_over_streams(self, echo: bool) -> None:
        """Have what this process prints, but no task, in the log; with ``echo`` it is printed as well."""
        for name in ("stdout", "stderr"):
            setattr(sys, name, PrintedLines(name, self.handler, getattr(sys, name) if echo else None))

    def close(self) -> None:
        """Close the log."""
        logging.getLogger().removeHandler(self.handler)
        self.handler.close()


def open_job_log(folder: Path, job_id: str, configuration: Configuration | None = None) -> JobLog:
    """Open the log of a job in the folder of its logs; an existing log is continued."""
    rotation = rotation_of(configuration or Configuration())
    return JobLog(folder / JOB_LOG, rotation, job_id, SystemClock())


def configure_jobmanager_logging(folder: Path, configuration: Configuration | None = None) -> StructuredLog:
    """Log what this process logs to ``jobmanager.log``."""
    configuration = configuration or Configuration()
    handler = StructuredLog(folder / JOBMANAGER_LOG, rotation_of(configuration), SystemClock())
    log_process_to(handler, configuration)
    return handler


def log_process_to(handler: logging.Handler, configuration: Configuration) -> None:
    """Let a handler have what this process logs, from the configured level on."""
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(options.read(configuration, cluster_options.LOG_LEVEL))
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


class JobLogListener(JobListener):
    """Writes down what becomes of a job, and what its tasks say."""

    def __init__(self, log: StructuredLog, clock: Clock):
        self._log = log
        self._clock = clock

    def on_logs(self, logs: Sequence[TaskLog]) -> None:
        entries = [entry for said in logs for entry in entries_of(said, self._log.job_id)]
        entries.sort(key=lambda entry: entry.time)
        self._log.write(entries)

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        level = "ERROR" if status is JobStatus.FAILED else "INFO"
        because = f": {reason}" if reason and status is JobStatus.FAILED else "."
        self._say(level, f"The job is {status.name}{because}")

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        self._say("INFO", f"Another parallelism from epoch {epoch} on: {', '.join(map(str, changes))}.")

    def on_epoch_failed(self, epoch: int, failure: JobFailure, tolerated: bool) -> None:
        if tolerated:
            self._say("WARNING", f"Epoch {epoch} failed, which is tolerated: {failure.text}", failure)

    def on_failure(self, failure: JobFailure) -> None:
        self._say("ERROR", failure.text, failure)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self._say("WARNING", f"The job restarts in {delay_ms} ms, after {failures} failures in all.")

    def on_savepoint(self, news: SavepointNews) -> None:
        match news.stage:
            case SavepointStage.IN_PROGRESS:
                self._say("INFO", f"A savepoint of checkpoint {news.checkpoint_id} was begun.")
            case SavepointStage.COMPLETED:
                self._say("INFO", f"The savepoint of checkpoint {news.checkpoint_id} is complete: {news.path}")
            case SavepointStage.FAILED:
                self._say("WARNING", f"The savepoint of checkpoint {news.checkpoint_id} failed: {news.failure}")

    def on_restored(self, restored: RestoredFrom) -> None:
        kind = "savepoint" if restored.is_savepoint else "checkpoint"
        self._say("INFO", f"The job continues from {kind} {restored.checkpoint_id} ({restored.path}).")

    def _say(self, level: str, message: str, failure: JobFailure | None = None) -> None:
        where = failure or JobFailure("", "")
        entry = LogEntry(
            stamp(self._clock.now_ms()), level, JOB_LOGGER, message[:MAX_MESSAGE], self._log.job_id,
            task=where.vertex, operator=where.operator, subtask=where.subtask, parallelism=where.parallelism,
            host=where.host, task_manager=where.executor,
        )  # fmt: skip
        self._log.write([entry])


def entries_of(said: TaskLog, job_id: str | None) -> list[LogEntry]:
    """Return the output of a task as entries."""
    return [
        LogEntry(
            stamp(line.time_ms), line.level, line.logger, line.message, job_id,
            task=line.task or None, operator=line.operator, subtask=line.subtask, parallelism=line.parallelism,
            host=said.host, task_manager=said.executor, stream=line.stream, epoch=said.epoch,
        )
        for line in said.lines
    ]  # fmt: skip
