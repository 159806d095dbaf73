"""The sessions of a gateway: each has catalogs, settings and operations of its own, and ends when it is not used.

Statements of one session run one after the other, in the order of their requests; a query that has started gives its
rows beside the statements behind it. Sessions do not wait for each other. Thread-safe.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from flott.common.types import Row
from flott.rest.gateway.operation import Executed, StatementOperation
from flott.rest.refusal import Refusal
from flott.runtime.clock import Clock
from flott.table._environment.statements import execute_text
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.parser import parse_statements
from flott.table._types.logical import STRING, row_type
from flott.table._types.record_types import distinct_names
from flott.table.result_kind import ResultKind
from flott.table.table_environment import TableEnvironment

#: Makes the environment of a session from the properties of its request.
EnvironmentFactory = Callable[[Mapping[str, str]], TableEnvironment]

#: Statements that run jobs or only read; they do not configure a session.
_NOT_CONFIGURING = (
    sql.SqlQueryStatement,
    sql.SqlInsert,
    sql.SqlStatementSet,
    sql.SqlExecute,
    sql.SqlExecutePlan,
    sql.SqlExplain,
    sql.SqlShow,
    sql.SqlDescribe,
)


class GatewaySession:
    """One client's session."""

    def __init__(
        self,
        name: str | None,
        environment: TableEnvironment,
        now_ms: int,
        admit: Callable[[], None],
        on_query: Callable[[str], None],
    ):
        self.handle = str(uuid.uuid4())
        self.name = name
        self.opened_ms = self.used_ms = now_ms
        self.environment = environment
        self._admit = admit
        self._on_query = on_query
        self._operations: dict[str, StatementOperation] = {}
        self._lock = threading.Lock()
        self._turn = threading.Event()  #: set when the last statement has run
        self._turn.set()
        self._closed = False

    @property
    def properties(self) -> dict[str, str]:
        """Return the settings of the session by key."""
        return dict(self.environment._session.configuration)

    @property
    def active(self) -> int:
        """Return the number of statements that run."""
        with self._lock:
            return sum(operation.is_active for operation in self._operations.values())

    def submit(self, statement: str, settings: Mapping[str, str] | None = None) -> StatementOperation:
        """Start a statement. ``settings`` hold for this statement only."""

        def execute(operation: StatementOperation) -> Executed:
            with self._settings(settings or {}):
                return self._executed(statement, operation)

        return self._start(execute)

    def configure(self, statement: str) -> None:
        """Run a statement that changes the session, and wait for it."""
        for parsed in parse_statements(statement):
            if isinstance(parsed, _NOT_CONFIGURING):
                raise SqlError(
                    "configure-session takes statements that change the session, such as CREATE, USE and SET. Send"
                    " others to /statements.",
                    parsed.position,
                    statement,
                )
        operation = self._start(lambda operation: self._executed(statement, operation))
        try:
            operation.await_ready()
        finally:
            self.close_operation(operation.handle)

    def operation(self, handle: str) -> StatementOperation:
        """Return an operation. Raise 404 if there is none."""
        with self._lock:
            found = self._operations.get(handle)
        if found is None:
            raise Refusal(404, f"Can not find the submitted operation {handle} in session {self.handle}.")
        return found

    def close_operation(self, handle: str) -> StatementOperation:
        """End an operation and forget it."""
        operation = self.operation(handle)
        operation.close()
        with self._lock:
            self._operations.pop(handle, None)
        return operation

    def close(self) -> None:
        """End all operations. Jobs of INSERT statements continue."""
        with self._lock:
            self._closed = True
            operations = list(self._operations.values())
            self._operations.clear()
        for operation in operations:
            operation.close()

    def _start(self, execute: Callable[[StatementOperation], Executed]) -> StatementOperation:
        self._admit()
        with self._lock:
            if self._closed:
                raise _unknown_session(self.handle)
            before, mine = self._turn, threading.Event()
            self._turn = mine
            operation = StatementOperation(execute, lambda: _wait(before), mine.set)
            self._operations[operation.handle] = operation
        operation.start()
        return operation

    def _executed(self, statement: str, operation: StatementOperation) -> Executed:
        self.environment._session.await_job = operation.await_job  # statements of a session run one after the other
        found = execute_text(self.environment._session, statement)
        job_id = None if found.job is None else str(found.job.get_job_id())
        if job_id is not None and not found.is_query:
            # The job of an INSERT is not waited for: its result is its id, as in Flink.
            rows = [Row(job_id)]
            return Executed(
                ResultKind.SUCCESS_WITH_CONTENT, row_type({"job id": STRING}), lambda: iter(rows), job_id=job_id
            )
        if job_id is not None:
            self._on_query(job_id)
        kind = ResultKind.SUCCESS if found.success_only else ResultKind.SUCCESS_WITH_CONTENT
        columns = row_type(dict(zip(distinct_names(found.schema.names), found.schema.types, strict=True)))
        return Executed(kind, columns, found.rows, found.close, job_id, found.is_query)

    @contextmanager
    def _settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        held = self.environment._session.settings
        before = {key: held.get(key) for key in settings}
        for key, value in settings.items():  # not update(): the settings are a view of a TableConfig
            held[key] = value
        try:
            yield
        finally:
            for key, former in before.items():
                if former is None:
                    held.pop(key, None)
                else:
                    held[key] = former


@dataclass
class Sessions:
    """All sessions of a gateway."""

    make_environment: EnvironmentFactory
    clock: Clock
    idle_timeout_ms: int  #: 0: a session does not expire
    max_sessions: int
    max_statements: int
    limit_key: str = "sql-gateway.session.max-num"  #: the option that ``max_sessions`` comes from
    #: Called with the job of each query that has started.
    on_query: Callable[[str], None] = field(default=lambda job_id: None)
    _sessions: dict[str, GatewaySession] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, name: str | None, properties: Mapping[str, str]) -> GatewaySession:
        """Start a session."""
        self.expire()
        if len(self._sessions) >= self.max_sessions:
            raise Refusal(
                503, f"There are {self.max_sessions} sessions already, the most allowed ({self.limit_key})."
            )
        environment = self.make_environment(properties)
        session = GatewaySession(name, environment, self.clock.now_ms(), self._admit_statement, self.on_query)
        with self._lock:
            self._sessions[session.handle] = session
        return session

    def session(self, handle: str) -> GatewaySession:
        """Return a session, which is used by that. Raise 404 if there is none, or if it has expired."""
        now = self.clock.now_ms()
        with self._lock:
            found = self._sessions.get(handle)
            if found is not None and not self._is_idle(found, now):
                found.used_ms = now
                return found
        raise _unknown_session(handle)

    def close(self, handle: str) -> None:
        """End a session and its operations."""
        session = self.session(handle)
        with self._lock:
            self._sessions.pop(handle, None)
        session.close()

    def opened(self) -> Sequence[GatewaySession]:
        """Return the sessions that have not expired."""
        now = self.clock.now_ms()
        with self._lock:
            return [session for session in self._sessions.values() if not self._is_idle(session, now)]

    def close_all(self) -> None:
        """End all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close()

    def expire(self) -> list[str]:
        """End the sessions that have not been used for the time-out, and return their handles."""
        now = self.clock.now_ms()
        with self._lock:
            idle = [session for session in self._sessions.values() if self._is_idle(session, now)]
            for session in idle:
                del self._sessions[session.handle]
        for session in idle:
            session.close()
        return [session.handle for session in idle]

    def _is_idle(self, session: GatewaySession, now_ms: int) -> bool:
        return self.idle_timeout_ms > 0 and now_ms - session.used_ms > self.idle_timeout_ms

    def _admit_statement(self) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
        if sum(session.active for session in sessions) >= self.max_statements:
            raise Refusal(
                503,
                f"{self.max_statements} statements run already, the most allowed (sql-gateway.worker.threads.max)."
                " Close operations that are not needed.",
            )


def _wait(event: threading.Event) -> None:
    event.wait()


def _unknown_session(handle: str) -> Refusal:
    return Refusal(404, f"Session '{handle}' does not exist. It may have been closed, or was not used for too long.")
