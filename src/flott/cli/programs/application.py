"""Runs a program with its own JobManager and Spark application, which end with it: Flink's application mode."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from flott.cli.invocation import Invocation
from flott.cli.options import set_jobmanager
from flott.cli.process import output_tail
from flott.cli.programs.environment import environment_of, passed_settings
from flott.cli.programs.interruption import Interruption
from flott.cli.programs.job_watch import JobWatch
from flott.cli.programs.session import conclude
from flott.client.exit_codes import ExitCode
from flott.client.rest_client import RestClient
from flott.common.configuration import Configuration
from flott.errors import ClusterError, FlottError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.folders import ClusterFolders, home
from flott.runtime.jobmanager.running_file import read_running

#: The Python command; -P: only the program itself has its folder on the path.
COMMAND_LINE = ("-P", "-m", "flott.cli")


def run_application(invocation: Invocation, command: Sequence[str], master: str) -> int:
    """Run the program with a JobManager in this process."""
    from flott import server

    invocation.properties["spark.master"] = master
    configuration = Configuration(invocation.configuration).set_string("spark.master", master)
    watches: list[JobWatch] = []
    with ExitStack() as closing:

        def follow(url: str) -> None:
            client = closing.enter_context(_client_at(url, configuration))
            watch = JobWatch(invocation.terminal, client, discovers=True)
            watches.append(watch)
            closing.enter_context(Interruption(invocation.terminal, client, watch, can_detach=False))

        def look_a_last_time() -> None:
            for watch in watches:
                watch.finish()

        with passed_settings(invocation, invocation.properties), _output_to_stderr(invocation.terminal.json):
            code = server.run_application(command, configuration, on_ready=follow, on_done=look_a_last_time)
    return conclude(invocation, watches[0], code) if watches else code


@contextmanager
def _output_to_stderr(aside: bool) -> Iterator[None]:
    """Redirect the output of the program's process to stderr, because stdout contains one document."""
    if not aside:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def start_application(invocation: Invocation, command: Sequence[str], master: str) -> int:
    """Start an application in a separate, lasting process, and wait until its first job exists."""
    folder = home() / "applications" / uuid.uuid4().hex[:12]
    logs = folder / "logs"
    ClusterFolders(folder, folder).prepare()
    properties = {"flott.cluster.dir": str(folder), "rest.port": "0", **invocation.properties}
    with open(logs / "application.out", "wb") as output:
        process = subprocess.Popen(
            [sys.executable, *COMMAND_LINE, "run", "--target", master, *_command_line(command)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **environment_of(invocation, properties)},
        )  # fmt: skip
    with invocation.terminal.busy("Starting the application"):
        job, url = _await_first_job(process, folder, invocation.configuration)
    if job is None:
        invocation.terminal.show({"jobs": [], "folder": str(folder)})
        invocation.terminal.note(f"The program has ended already; its output is in {logs}.")
        return ExitCode.OK
    document = {"jobs": [job], "pid": process.pid, "url": url, "folder": str(folder)}
    invocation.terminal.show(document, f"Job has been submitted with JobID {job['jid']}")
    invocation.terminal.note(f"It runs in process {process.pid}: `flott -m {url} list`; its output is in {logs}.")
    return ExitCode.OK


def _command_line(command: Sequence[str]) -> list[str]:
    """Return the command line of the application: our own options, then the program and its arguments."""
    return list(command) if command[0] == "-m" else ["--", *command]


def _client_at(url: str, configuration: Configuration) -> RestClient:
    found = Invocation()
    set_jobmanager(found, url)
    return RestClient(Configuration(configuration).add_all(Configuration.of(found.properties)))


def _await_first_job(
    process: subprocess.Popen[bytes], folder: Path, configuration: Configuration
) -> tuple[dict[str, Any] | None, str]:
    """Return the first job of an application and its address.

    Return no job if the application has ended successfully.
    """
    clock, never = SystemClock(), threading.Event()
    while (code := process.poll()) is None:
        running = read_running(folder)
        if running is not None and (job := _first_job(running.url, configuration)) is not None:
            return job, running.url
        clock.wait(never, 200)
    if code == 0:
        return None, ""
    raise ClusterError(f"The application ended with exit code {code}.{output_tail(folder / 'logs', 'application.out')}")


def _first_job(url: str, configuration: Configuration) -> dict[str, Any] | None:
    try:
        with _client_at(url, configuration) as client:
            jobs = client.get("/jobs/overview")["jobs"]
    except FlottError:  # it is starting or ending; the next poll shows which
        return None
    return {key: jobs[0][key] for key in ("jid", "name", "state")} if jobs else None
