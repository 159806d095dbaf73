"""Passes requests below ``/flott/sql`` on to the process of the SQL sessions, and starts it when one is opened.

JobManager side. The request has been admitted before; neither its token nor its cookie is passed on. Nothing of the
Table API is imported here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import httpx

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.rest.refusal import Refusal
from flott.runtime.jobmanager.sql_process import INSTALL, EndedProcess, missing_packages

LOG = logging.getLogger("flott.rest")

#: Where the paths of the gateway begin.
ROOT = "/flott/sql"
#: Requests that are passed on at once, and those that wait for that.
THREADS = 8
MAX_WAITING = 64
#: How long the process may take to answer, in seconds. The first answer includes its start.
ANSWER_SECONDS = 60.0
#: The maximum size of an answer in bytes; a page has at most 5000 rows.
MAX_ANSWER = 64 * 1024 * 1024

LOST = "The process of the SQL sessions has ended, and this session with it: open another one."


class RunningSql(Protocol):
    """A process of SQL sessions, as ``SqlProcess`` is one."""

    @property
    def path(self) -> str:
        """Return the path of its socket."""

    @property
    def pid(self) -> int:
        """Return the process id."""

    @property
    def is_alive(self) -> bool:
        """Return whether it can be asked."""

    def end(self) -> None:
        """End it with all of its sessions."""


#: Starts a process; it calls the function when it has ended, with the jobs of queries that it may have left.
StartSql = Callable[[Callable[[EndedProcess, Sequence[str]], None]], RunningSql]


@dataclass(frozen=True)
class PassedReply:
    """What the process answered."""

    status: int
    content: bytes


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str] | None
    body: Any
    timeout_s: float

    def send(self, http: httpx.Client) -> PassedReply:
        content = None if self.body is None else json.dumps(self.body).encode("utf-8", "surrogatepass")
        limits = httpx.Timeout(self.timeout_s, connect=10.0)
        with http.stream(self.method, self.path, params=self.query, content=content, timeout=limits) as response:
            parts, size = [], 0
            for part in response.iter_raw():
                size += len(part)
                if size > MAX_ANSWER:
                    raise Refusal(
                        500, f"A page of the result has more than {MAX_ANSWER >> 20} MiB: select fewer columns."
                    )
                parts.append(part)
            return PassedReply(response.status_code, b"".join(parts))


@dataclass(frozen=True)
class _Connection:
    """A process, and the client that asks it."""

    process: RunningSql
    http: httpx.Client


class SqlMount:
    """The SQL sessions of a JobManager. Any thread may ask."""

    def __init__(
        self,
        configuration: Configuration,
        start: StartSql,
        cancel: Callable[[str], None],
        missing: Callable[[], Sequence[str]] = missing_packages,
    ):
        self.max_sessions = configuration.get(options.SQL_MAX_SESSIONS)
        self.idle_timeout_ms = configuration.get(options.GATEWAY_IDLE_TIMEOUT)
        self._submit_enabled = configuration.get(options.WEB_SUBMIT)
        self._start = start
        self._cancel = cancel
        self._missing = tuple(missing())
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="sql")
        self._waiting = threading.BoundedSemaphore(THREADS + MAX_WAITING)
        self._lock = threading.Lock()
        self._connected: _Connection | None = None
        self._closed = False
        self._number = 0  #: of processes that were started
        self.last_end: str | None = None  #: why the last process ended, unless that was expected

    @property
    def refusal(self) -> str | None:
        """Return why no statements are taken here; None: they are."""
        if not self._submit_enabled:
            return "This JobManager takes no programs through REST: web.submit.enable is false."
        if self.max_sessions == 0:
            return f"This JobManager has no SQL sessions: {options.SQL_MAX_SESSIONS.key} is 0."
        if self._missing:
            return f"SQL needs {' and '.join(self._missing)} beside the JobManager."
        return None

    @property
    def install(self) -> str | None:
        """Return the command that installs what is missing."""
        return INSTALL if self._missing else None

    @property
    def running(self) -> RunningSql | None:
        """Return the process, if there is one."""
        with self._lock:
            connected = self._connected
            return connected.process if connected is not None and connected.process.is_alive else None

    async def forward(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        starts: bool = False,
        timeout_s: float = ANSWER_SECONDS,
    ) -> PassedReply:
        """Return the answer of the process. ``starts``: the request opens a session, so the process is started."""
        if (refused := self.refusal) is not None:
            raise Refusal(403, refused)
        if not self._waiting.acquire(blocking=False):
            raise Refusal(503, f"{MAX_WAITING} requests for SQL sessions wait already: try again later.")
        try:
            asked = _Request(method, path, dict(query or {}) or None, body, timeout_s)
            future = self._threads.submit(self._answer, asked, starts)
        except RuntimeError:
            self._waiting.release()
            raise Refusal(503, "The JobManager is ending.") from None
        future.add_done_callback(lambda _: self._waiting.release())
        return await asyncio.wrap_future(future)

    async def end_process(self) -> None:
        """End the process with all sessions, if there is one."""
        if (running := self.running) is not None:
            await asyncio.to_thread(running.end)

    def close(self) -> None:
        """End the process, and take no requests any more."""
        with self._lock:
            self._closed = True
            connected = self._connected
        self._threads.shutdown(wait=False, cancel_futures=True)
        if connected is not None:
            connected.process.end()
            connected.http.close()

    def _answer(self, asked: _Request, starts: bool) -> PassedReply:
        for attempt in (1, 2):
            connection = self._connection(starts)
            if connection is None:
                raise Refusal(404, LOST if self._number else _none(asked.path))
            try:
                return asked.send(connection.http)
            except httpx.TimeoutException:
                raise Refusal(
                    503, f"The process of the SQL sessions has not answered for {asked.timeout_s:g} s. It may be busy."
                ) from None
            except (httpx.TransportError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and not connection.http.is_closed:
                    raise
                # It had no session and has just ended, or it died: a session is opened in the next one. Another
                # request may have started that already and closed the client of this one.
                gone = _ended_soon(connection.process)
                if not starts or attempt == 2:
                    LOG.warning("The process of the SQL sessions did not answer: %s", error)
                    raise Refusal(404 if gone else 503, LOST) from None
        raise AssertionError("the last attempt returns or raises")

    def _connection(self, starts: bool) -> _Connection | None:
        with self._lock:
            if self._closed:
                raise Refusal(503, "The JobManager is ending.")
            if self._connected is not None and self._connected.process.is_alive:
                return self._connected
            if not starts:
                return None
            if self._connected is not None:
                self._connected.http.close()
            self._number += 1
            process = self._start(partial(self._process_ended, self._number))
            transport = httpx.HTTPTransport(uds=process.path)
            http = httpx.Client(transport=transport, base_url="http://localhost", trust_env=False)
            self._connected = _Connection(process, http)
            self.last_end = None
            return self._connected

    def _process_ended(self, number: int, ended: EndedProcess, queries: Sequence[str]) -> None:
        if ended.expected:
            return
        if number == self._number:  # there is no later one yet
            self.last_end = f"The process of the SQL sessions ended unexpectedly (exit code {ended.code})."
        for job_id in queries:  # none reads their rows any more, and they would wait for that
            try:
                self._cancel(job_id)
            except Exception as error:  # most have ended, and their jobs may be forgotten
                LOG.info("Job %s of a lost SQL session was not cancelled: %s", job_id, error)


def _ended_soon(process: RunningSql) -> bool:
    """Return whether a process is gone, which its end may tell a moment later than its closed socket."""
    pause = threading.Event()
    for _ in range(50):
        if not process.is_alive:
            return True
        pause.wait(0.1)
    return False


def _none(path: str) -> str:
    return f"There are no SQL sessions, so there is no {path}: open one."
