"""The process of a JobManager: leadership, jobs, REST and reporters put together. JobManager side.

    python -m flott.server                the JobManager of a session, as flott cluster start starts it
    run_application(program, ...)         a JobManager for one program, that ends with it

A standby answers requests with 503 and names the leader. When it becomes the leader it continues all jobs. When it
loses the leadership it ends all its jobs at once, and is a standby again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from flott.client.exit_codes import ExitCode
from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common import _settings
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError, FlottError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.job_manager import JobManager
from flott.runtime.jobmanager.leadership.election import Election, make_election
from flott.runtime.jobmanager.processes.job_log import configure_jobmanager_logging, rotation_of
from flott.runtime.jobmanager.programs import PROPERTIES_VARIABLE, ProgramStore
from flott.runtime.jobmanager.running_file import FolderLock, RunningCluster, remove_running, write_running
from flott.runtime.jobmanager.sql_process import OUTPUT_FILE, EndedProcess, SqlProcess
from flott.runtime.orders import CancelJob

if TYPE_CHECKING:
    from flott.rest.sql_mount import SqlMount

log = logging.getLogger("flott.cluster")

#: How often the main thread looks whether something has ended.
_LOOK_SECONDS = 0.2
#: How long a program has to end when its jobs were cancelled.
_FAREWELL_SECONDS = 10.0


class ClusterProcess:
    """A JobManager and its REST API, in this process."""

    def __init__(self, configuration: Configuration):
        _require_extras()
        from flott.rest.http_server import RestServer
        from flott.rest.leader_gate import LeaderGate

        self.configuration = configuration
        self.folders = ClusterFolders.of(configuration)
        self.folders.prepare()
        self._lock = FolderLock(self.folders.own)
        self._clock = SystemClock()
        self._election: Election = make_election(configuration)
        self._stop = threading.Event()
        self._gate = LeaderGate(self._who_leads)
        self._rest = RestServer(self._gate, configuration)
        self.job_manager: JobManager | None = None
        self.leading = threading.Event()  #: set while it leads and answers
        self.url = ""

    def start(self) -> None:
        """Answer requests, as a standby for the time being."""
        port = self._rest.start()
        address = options.read(self.configuration, cluster_options.REST_ADDRESS)
        self.configuration = Configuration(self.configuration).set(cluster_options.REST_PORT, port)
        self.url = f"{self._rest.scheme}://{address}:{port}"
        announcement = RunningCluster(os.getpid(), self.url, self._clock.now_ms())
        write_running(self.folders.own, announcement)
        log.info("REST answers at %s.", self.url)

    def stop(self) -> None:
        """Have ``run`` return, from any thread or a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Lead whenever it is this process's turn, until it is told to stop."""
        try:
            while not self._stop.is_set():
                leader = self._election.await_leadership(self.url, self._stop)
                if leader is not None:
                    self._lead(leader.token)
        finally:
            self._election.resign()
            self._rest.stop()
            remove_running(self.folders.own, os.getpid())
            self._lock.release()

    def _lead(self, token: int) -> None:
        from flott.rest.app import create_app

        lost = self._election.lost  # each leadership has its own
        manager = JobManager(self.configuration, token=token)
        with ExitStack() as closing:
            closing.callback(lambda: manager.close(at_once=lost.is_set()))
            recovered = manager.start()
            programs = ProgramStore(self.folders.programs, self.configuration)
            closing.callback(programs.close)
            for reporter in _reporters(self.configuration, manager):
                reporter.start()
                closing.callback(reporter.stop)
            closing.callback(self._gate.close)
            sql = _sql_mount(self.configuration, self.folders, manager, programs)
            self._gate.open(create_app(manager, programs, sql=sql))
            closing.callback(sql.close)  # while REST still answers: it cancels the jobs of its queries
            self.job_manager = manager
            self.leading.set()
            closing.callback(self.leading.clear)
            log.info("This JobManager leads (token %d); %d jobs were recovered.", token, recovered)
            while not (self._stop.is_set() or lost.is_set()):
                if manager.ended.wait(_LOOK_SECONDS):
                    self._stop.set()
            if lost.is_set():
                log.error("The leadership was lost: all jobs are ended here at once, and continue elsewhere.")

    def _who_leads(self) -> str | None:
        leader = self._election.leader()
        return leader.address if leader is not None else None


def serve(configuration: Configuration) -> int:
    """Run a JobManager until a signal or a request ends it; the exit code."""
    process = ClusterProcess(configuration)
    configure_jobmanager_logging(process.folders.logs, configuration)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.stop())
    process.start()
    process.run()
    log.info("The JobManager has ended.")
    return 0


def run_application(
    program: Sequence[str],
    configuration: Configuration,
    *,
    on_ready: Callable[[str], None] = lambda url: None,
    on_done: Callable[[], None] = lambda: None,
) -> int:
    """Run a program with a JobManager and a Spark application of its own; its exit code.

    ``program`` is what ``python -m flott.client.program`` takes. It ends when the program and all its jobs have ended;
    told to end before that, it cancels them. ``on_ready`` is called with the address of REST, ``on_done`` when all is
    over, while REST still answers.
    """
    with ExitStack() as closing:
        failed: list[BaseException] = []
        if not configuration.contains(cluster_options.CLUSTER_DIR):
            folder = tempfile.mkdtemp(prefix="flott-application-")
            closing.callback(_remove_unless, failed, folder)
            configuration = Configuration(configuration).set(cluster_options.CLUSTER_DIR, folder)
        if not configuration.contains(cluster_options.REST_PORT):
            configuration = Configuration(configuration).set(cluster_options.REST_PORT, 0)
        configuration = Configuration(configuration).set(cluster_options.JOB_OUTPUT, "terminal")
        closing.enter_context(_ended_by_sigterm())
        cluster = ClusterProcess(configuration)
        log_handler = configure_jobmanager_logging(cluster.folders.logs, configuration)
        closing.callback(logging.getLogger().removeHandler, log_handler)
        cluster.start()
        leading = threading.Thread(target=_run_quietly, args=(cluster, failed), name="cluster")
        leading.start()
        closing.callback(leading.join)
        closing.callback(cluster.stop)
        while not cluster.leading.wait(_LOOK_SECONDS):
            if failed:
                raise failed[0]
        on_ready(cluster.url)
        closing.callback(on_done)
        return _run_program(program, cluster)


def _remove_unless(failed: Sequence[BaseException], folder: str) -> None:
    """Remove the folder of an application, unless it did not start: then the log in the folder says why."""
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """End the application in good order at the first SIGTERM, as at Ctrl-C, and at once at the second."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_quietly(cluster: ClusterProcess, failed: list[BaseException]) -> None:
    try:
        cluster.run()
    except BaseException as error:
        failed.append(error)


def _run_program(program: Sequence[str], cluster: ClusterProcess) -> int:
    properties = {**cluster.configuration.to_dict(), options.TARGET.key: "remote"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "flott.client.program", *program],
        env={**os.environ, PROPERTIES_VARIABLE: json.dumps(properties)},
        start_new_session=True,  # a terminal's Ctrl-C is the JobManager's to answer
    )
    try:
        code = process.wait()
        _await_jobs(cluster)
    except BaseException:
        _cancel_jobs(cluster)  # which is how the program learns of it
        with suppress(subprocess.TimeoutExpired):
            process.wait(_FAREWELL_SECONDS)
        process.kill()
        raise
    return code or _worst_end(cluster)


def _running(cluster: ClusterProcess) -> list[str]:
    manager = cluster.job_manager
    views = manager.jobs() if manager is not None else ()
    return [view.job_id for view in views if not view.status.is_globally_terminal_state()]


def _await_jobs(cluster: ClusterProcess) -> None:
    """Wait for the jobs that the program has left running: the application ends when they have ended."""
    pause = threading.Event()
    while _running(cluster):
        pause.wait(_LOOK_SECONDS)


def _cancel_jobs(cluster: ClusterProcess) -> None:
    manager = cluster.job_manager
    for job_id in _running(cluster):
        assert manager is not None
        manager.order(job_id, CancelJob())
    _await_jobs(cluster)


def _worst_end(cluster: ClusterProcess) -> int:
    """Return the exit code of a program that succeeded, by how its jobs ended."""
    manager = cluster.job_manager
    ends = {view.status for view in manager.jobs()} if manager is not None else set()
    if JobStatus.FAILED in ends:
        return ExitCode.JOB_FAILED
    return ExitCode.JOB_CANCELLED if JobStatus.CANCELED in ends else ExitCode.OK


def _sql_mount(
    configuration: Configuration, folders: ClusterFolders, manager: JobManager, programs: ProgramStore
) -> SqlMount:
    """Return the SQL sessions of a JobManager. They submit jobs as uploaded programs do."""
    from flott.rest.sql_mount import SqlMount

    keys = (
        cluster_options.SQL_MAX_SESSIONS,
        cluster_options.GATEWAY_IDLE_TIMEOUT,
        cluster_options.GATEWAY_MAX_STATEMENTS,
    )
    limits = {option.key: configuration.to_dict()[option.key] for option in keys if configuration.contains(option)}

    def start(on_end: Callable[[EndedProcess, Sequence[str]], None]) -> SqlProcess:
        output = folders.logs / OUTPUT_FILE
        return SqlProcess(lambda: {**programs.connection(), **limits}, output, rotation_of(configuration), on_end)

    return SqlMount(configuration, start, lambda job_id: manager.order(job_id, CancelJob()).result(30))


def _reporters(configuration: Configuration, manager: JobManager) -> list[Any]:
    from flott.reporters import make_reporters

    return list(make_reporters(configuration, manager))


def _require_extras() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"A JobManager needs the package {error.name!r}, which is not installed: pip install 'flott[cluster]'."
        ) from error


def main() -> int:
    """Run the process of ``flott cluster start``; its settings come by file, environment and FLOTT_PROPERTIES."""
    try:
        configuration = _settings.load().configuration
        options.validate(configuration)
        return serve(configuration)
    except FlottError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main())
