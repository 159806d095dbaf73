"""The messages between the JobManager and the process of a job, and the pipe that carries them. Both processes."""

from __future__ import annotations

import io
import numbers
import pickle
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from flott.errors import ClusterError, FlottError
from flott.runtime.jobmanager.object_job_store import JobContents
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.orders import Order
from flott.runtime.spark.application import SparkAddress

# --- to the job's process --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assignment:
    """The first message to a job's process: what to run, and where."""

    submission: JobSubmission
    configuration: Mapping[str, str]  #: the cluster's, and over it the job's
    files: Path  #: those that came with the job
    log_folder: Path
    token: int  #: the fencing token of the leader
    spark: SparkAddress | None  #: None: epochs run in the job's own process
    echo: bool = False  #: what the process prints is also seen where the JobManager was started
    contents: JobContents | None = None  #: where to fetch the files from, if they are not in their folder yet


@dataclass(frozen=True)
class Request:
    """An order, numbered so that its answer can be told from others."""

    number: int
    order: Order[Any]


@dataclass(frozen=True)
class Acknowledged:
    """The end of the job is durable: the process may clean up and go."""


# --- from it ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Viewed:
    """How the job stands."""

    view: JobView


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    number: int
    value: Any = None
    failure: FlottError | None = None

    @staticmethod
    def failed(number: int, error: BaseException) -> Reply:
        """Return an answer that says what went wrong, in a form that can be sent."""
        if isinstance(error, FlottError) and type(error).__module__ == FlottError.__module__:
            return Reply(number, failure=type(error)(str(error)))
        return Reply(number, failure=ClusterError(f"{type(error).__name__}: {error}"))


@dataclass(frozen=True)
class Ended:
    """The job has ended. The process waits until that is acknowledged."""

    view: JobView
    result: JobResultView


class Line:
    """One end of the pipe; several threads may send."""

    def __init__(self, connection: Connection):
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: object) -> bool:
        """Send a message; return whether the other side is still there."""
        data = _plain_pickle(message)
        with self._lock:
            try:
                self._connection.send_bytes(data)
            except OSError:
                return False
            return True

    def has_news(self, timeout: float) -> bool:
        """Return whether a message arrives within so many seconds, or the other side has closed the pipe."""
        try:
            return self._connection.poll(timeout)
        except OSError:
            return True

    def receive(self) -> Any:
        """Return the next message; raise EOFError when the other side is gone."""
        try:
            return self._connection.recv()
        except OSError as error:
            raise EOFError from error

    def close(self) -> None:
        """Close this end of the pipe."""
        self._connection.close()


#: What both processes can import.
_KNOWN = frozenset({*sys.stdlib_module_names, "flott"})


class _PlainPickler(pickle.Pickler):
    """Writes what the other process can read without a user's modules: their objects become numbers or texts."""

    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None) or type(value).__module__
        if module.partition(".")[0] in _KNOWN:
            return NotImplemented
        if isinstance(value, numbers.Integral):
            return int, (int(value),)
        if isinstance(value, numbers.Real):
            return float, (float(value),)
        return str, (str(value),)


def _plain_pickle(message: object) -> bytes:
    buffer = io.BytesIO()
    _PlainPickler(buffer, protocol=5).dump(message)
    return buffer.getvalue()
