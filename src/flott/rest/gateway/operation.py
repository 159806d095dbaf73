"""One statement of a session: its status, and its result page by page. Thread-safe.

    INITIALIZED → PENDING (waits for the statements before it) → RUNNING → FINISHED (its result can be fetched) or ERROR
    any of them → CANCELED → CLOSED

A thread runs the statement and then moves its rows to the pages, until there are no more or the operation is closed.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from flott.common.job_client import JobClient
from flott.common.types import Row
from flott.rest.gateway.pages import Page, RowPages
from flott.rest.refusal import Refusal, refusal_of
from flott.table._types.logical import RowType
from flott.table.result_kind import ResultKind

LOG = logging.getLogger("flott.rest.gateway")


class Status(Enum):
    """The status of an operation, with Flink's names."""

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"
    ERROR = "ERROR"

    @property
    def is_ready(self) -> bool:
        """Return whether the statement has run, well or not."""
        return self not in (Status.INITIALIZED, Status.PENDING, Status.RUNNING)


@dataclass(frozen=True)
class Executed:
    """What a statement gave."""

    kind: ResultKind
    schema: RowType
    rows: Callable[[], Iterator[Row]]
    close: Callable[[], None] = field(default=lambda: None)  #: ends the job that makes the rows
    job_id: str | None = None
    is_query: bool = False


@dataclass(frozen=True)
class Fetched:
    """A page of an operation's result; without ``executed`` the result is not ready."""

    executed: Executed | None
    page: Page


class StatementOperation:
    """Runs a statement in a thread of its own."""

    def __init__(
        self,
        execute: Callable[[StatementOperation], Executed],
        await_turn: Callable[[], None],
        pass_turn: Callable[[], None],
    ):
        self.handle = str(uuid.uuid4())
        self._execute = execute
        self._await_turn = await_turn
        self._pass_turn = pass_turn
        self._pages = RowPages()
        self._lock = threading.Lock()
        self._status = Status.INITIALIZED
        self._executed: Executed | None = None
        self._failure: BaseException | None = None
        self._awaited: JobClient | None = None  #: the job that the statement waits for
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"statement-{self.handle[:8]}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def status(self) -> Status:
        """Return the current status."""
        return self._status

    @property
    def is_active(self) -> bool:
        """Return whether the operation still occupies its thread."""
        return self._thread.is_alive()

    def await_ready(self) -> None:
        """Wait until the statement has run; raise its error if it failed."""
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def await_job(self, job: JobClient) -> None:
        """Wait for the end of the job that this statement has started. It ends with the statement."""
        with self._lock:
            self._awaited = job
            is_ended = self._status in (Status.CANCELED, Status.CLOSED)
        if is_ended:
            job.cancel()
        try:
            job.get_job_execution_result().result()
        finally:
            with self._lock:
                self._awaited = None

    def fetch(self, token: int) -> Fetched:
        """Return the page of a token. Raise the error of a statement that failed."""
        with self._lock:
            status, executed, failure = self._status, self._executed, self._failure
        if failure is not None:
            raise failure
        if status in (Status.CANCELED, Status.CLOSED):
            raise Refusal(409, f"The operation {self.handle} is {status.value}: it has no result any more.")
        if executed is None:
            return Fetched(None, Page((), token))
        return Fetched(executed, self._pages.page(token))

    def cancel(self) -> Status:
        """End the statement, unless it failed or all of its rows are there. Return the status behind that."""
        with self._lock:
            if self._status in (Status.ERROR, Status.CANCELED, Status.CLOSED):
                return self._status
            if self._status is Status.FINISHED and self._pages.ended:
                return self._status
            self._status = Status.CANCELED
            awaited = self._awaited
        self._release()
        if awaited is not None:
            awaited.cancel()
        return Status.CANCELED

    def close(self) -> Status:
        """End the statement and drop its result."""
        with self._lock:
            self._status, awaited = Status.CLOSED, self._awaited
        self._release()
        if awaited is not None:
            awaited.cancel()
        return Status.CLOSED

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, at most for a time in seconds."""
        self._thread.join(timeout)

    def _release(self) -> None:
        self._ready.set()
        self._pages.close()
        if self._executed is not None:
            self._close_result(self._executed)

    def _close_result(self, executed: Executed) -> None:
        try:
            executed.close()
        except Exception:  # the client gets the status; why a job could not be cancelled is for the log
            LOG.exception("The job of statement %s could not be ended", self.handle)

    def _run(self) -> None:
        self._move_to(Status.PENDING)
        try:
            executed = self._run_statement()
        finally:
            self._pass_turn()
        if executed is not None:
            self._move_rows(executed)

    def _run_statement(self) -> Executed | None:
        """Return the result; None if the statement failed or was cancelled."""
        self._await_turn()
        if not self._move_to(Status.RUNNING):
            return None
        try:
            executed = self._execute(self)
        except Exception as error:
            if refusal_of(error) is None:
                LOG.warning("Statement %s failed", self.handle, exc_info=error)
            with self._lock:
                if not self._status.is_ready:
                    self._status, self._failure = Status.ERROR, error
            self._ready.set()
            return None
        with self._lock:
            cancelled = self._status.is_ready
            if not cancelled:
                self._status, self._executed = Status.FINISHED, executed
        self._ready.set()
        if cancelled:  # it could not be ended while it was started
            self._close_result(executed)
            return None
        return executed

    def _move_rows(self, executed: Executed) -> None:
        failure: BaseException | None = None
        try:
            for row in executed.rows():
                if not self._pages.put(row):
                    return
        except Exception as error:
            failure = error
        self._pages.end(failure)

    def _move_to(self, status: Status) -> bool:
        """Change the status, unless the operation was cancelled. Return whether it was not."""
        with self._lock:
            if self._status.is_ready:
                return False
            self._status = status
            return True
