"""``flott cluster``: start, stop and inspect session clusters of this machine, and inspect others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from flott.cli import process
from flott.cli.command import group
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.local_cluster import LocalCluster
from flott.cli.programs.environment import environment_of
from flott.cli.terminal import duration_text, pairs, table
from flott.client.exit_codes import ExitCode
from flott.common import _cluster_options as cluster_options
from flott.common._sizes import size_text
from flott.common.configuration import Configuration
from flott.errors import ClusterError, FlottError, UnreachableError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.folders import ClusterFolders, home
from flott.runtime.jobmanager.running_file import RunningCluster, read_running

#: The Python command; -P: a JobManager imports nothing from the folder in which it is started.
SERVER = ("-P", "-m", "flott.server")
_POLL_MS = 100


@group("cluster")
def cluster() -> None:
    """Start, stop and inspect session clusters.

    A session is a JobManager with its Spark application. `flott run` submits programs to it. Several can run on one
    machine, each with its own id: `flott --cluster ID cluster start --port 0`.
    """


# ------------------------------------------------------------------------------------------------------ start and stop


@cluster.command("start")
@click.option(
    "--master", metavar="MASTER", help="Spark's master: local[*], local-cluster[…], spark://…, yarn, k8s://…."
)
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the REST API; 0: a free one.")
@click.option("--foreground", is_flag=True, help="Run the JobManager in this process instead of a daemon.")
@click.option("--wait/--no-wait", default=True, help="Whether to wait until the JobManager answers (default: wait).")
@click.option("--timeout", type=click.IntRange(1), default=120, metavar="SECONDS", help="How long to wait.")
@pass_invocation
def start(
    invocation: Invocation, master: str | None, port: int | None, foreground: bool, wait: bool, timeout: int
) -> int:
    """Start a JobManager on this machine, unless it is already running."""
    if master is not None:
        invocation.properties["spark.master"] = master
    if port is not None:
        invocation.properties["rest.port"] = str(port)
    configuration = invocation.configuration
    found = LocalCluster.of(configuration)
    if found.running is not None:
        return _report_start(invocation, found.running, found.folder, already=True)
    if foreground:
        from flott.server import serve

        return int(serve(configuration) or ExitCode.OK)
    folders = ClusterFolders.of(configuration)
    folders.prepare()
    started = _start_daemon(invocation, folders.logs)
    if not wait:
        document = {"cluster": _cluster_id(configuration), "pid": started.pid, "folder": str(folders.own)}
        invocation.terminal.show(document, f"The JobManager starts as process {started.pid}.")
        return ExitCode.OK
    announcement = _await_start(invocation, started, folders, timeout)
    leader = invocation.client.url
    if leader != announcement.url.rstrip("/"):
        document = {
            "cluster": _cluster_id(configuration), "url": announcement.url, "pid": started.pid, "leader": leader,
        }  # fmt: skip
        invocation.terminal.show(document, f"The JobManager stands by (process {started.pid}): {leader} leads.")
        return ExitCode.OK
    return _report_start(invocation, announcement, folders.own, already=False)


@cluster.command("stop")
@click.option("--timeout", type=click.IntRange(1), default=60, metavar="SECONDS", help="How long to wait for its end.")
@pass_invocation
def stop(invocation: Invocation, timeout: int) -> int:
    """Stop a JobManager. Running jobs are kept and continue when it is started again."""
    configuration = invocation.configuration
    found = LocalCluster.of(configuration)
    elsewhere = configuration.contains(cluster_options.REST_ADDRESS) or "rest.port" in invocation.properties
    if found.running is None and not elsewhere:
        document = {"cluster": _cluster_id(configuration), "stopped": False}
        invocation.terminal.show(document)
        invocation.terminal.note(f"No JobManager runs in {found.folder}.")
        return ExitCode.OK
    by = _stop(invocation, found, timeout)
    document = {"cluster": _cluster_id(configuration), "stopped": True, "by": by}
    invocation.terminal.show(document, "The JobManager has stopped.")
    if by not in ("request", "SIGTERM"):
        invocation.terminal.warn(f"It did not end by itself and took {by}.")
    return ExitCode.OK


def _start_daemon(invocation: Invocation, logs: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **environment_of(invocation, invocation.properties)}
    with open(logs / "jobmanager.out", "wb") as output:
        return subprocess.Popen(
            [sys.executable, *SERVER], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env=environment, start_new_session=True,
        )  # fmt: skip


def _await_start(
    invocation: Invocation, started: subprocess.Popen[bytes], folders: ClusterFolders, timeout: int
) -> RunningCluster:
    """Return the address of the JobManager, or of the leader, once it answers."""

    def running() -> RunningCluster | None:
        found = read_running(folders.own)
        return found if found is not None and found.pid == started.pid else None

    def ready() -> bool:
        if (code := started.poll()) is not None:
            reason = f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"
            raise ClusterError(f"The JobManager {reason}.{_output(folders)}")
        return running() is not None and invocation.is_answered()

    with invocation.terminal.busy("Starting the JobManager"):
        done = _await(ready, timeout, SystemClock())
    found = running()
    if not done or found is None:
        raise UnreachableError(
            f"The JobManager (process {started.pid}) runs, but did not answer within {timeout} s.{_output(folders)}"
        )
    return found


def _stop(invocation: Invocation, found: LocalCluster, timeout: int) -> str:
    """Stop the JobManager by a request, or by signals. Return what ended it."""
    running = found.running
    clock = SystemClock()

    def gone() -> bool:
        return found.running is None if running is not None else not invocation.is_answered()

    with invocation.terminal.busy("Stopping the JobManager"):
        try:
            # A request reaches the leader, which with high availability may not be the JobManager to stop.
            if running is None or running.url == invocation.client.url:
                invocation.client.delete("/cluster")
                if _await(gone, timeout, clock):
                    return "request"
        except FlottError:
            if running is None:
                raise
        if running is None:
            raise ClusterError(f"The JobManager at {invocation.client.url} still answers after {timeout} s.")
        by = process.end(running.pid, running.started, lambda seconds: _await(gone, seconds, clock))
    if by == "nothing":
        raise ClusterError(f"The JobManager (process {running.pid}) cannot be ended: it may be another user's.")
    return by or "request"


def _report_start(invocation: Invocation, announcement: RunningCluster, folder: Path, already: bool) -> int:
    cluster_id = _cluster_id(invocation.configuration)
    document = {
        "cluster": cluster_id, "url": announcement.url, "pid": announcement.pid, "folder": str(folder),
        "already-running": already,
    }  # fmt: skip
    text = f"The cluster {cluster_id!r} {'runs already' if already else 'is ready'}: {announcement.url}"
    invocation.terminal.show(document, f"{text} (process {announcement.pid})")
    return ExitCode.OK


# ------------------------------------------------------------------------------------------------------------- looking


@cluster.command("status")
@pass_invocation
def status(invocation: Invocation) -> int:
    """Show a cluster: address, jobs, slots, memory and leader."""
    document = _status(invocation, SystemClock())
    jobs, slots, memory = document["jobs"], document["slots"], document["memory"]
    lines: list[tuple[str, object]] = [
        ("cluster", document["cluster"]),
        ("url", document["url"]),
        ("version", document["version"]),
        ("process", document["pid"]),
        ("up for", None if document["uptime-ms"] is None else duration_text(document["uptime-ms"])),
        ("jobs", ", ".join(f"{count} {name}" for name, count in jobs.items())),
        ("task managers", document["taskmanagers"]),
        ("slots", f"{slots['total'] - slots['free']} of {slots['total']} in use"),
        ("memory", _memory_text(memory)),
    ]
    if document["high-availability"] is not None:
        lines += [(name, value) for name, value in document["high-availability"].items()]
    lines.append(("folder", document["folder"]))
    invocation.terminal.show(document, pairs(lines))
    return ExitCode.OK


@cluster.command("list")
@pass_invocation
def list_clusters(invocation: Invocation) -> int:
    """List the clusters that were started on this machine."""
    found = list(_known())
    rows = [(entry["cluster"], entry["state"], entry["url"], entry["pid"], entry["folder"]) for entry in found]
    invocation.terminal.show(found, table(("cluster", "state", "url", "process", "folder"), rows, {"process"}))
    if not found:
        invocation.terminal.note("None: `flott cluster start` starts one.")
    return ExitCode.OK


def _status(invocation: Invocation, clock: Clock) -> dict[str, Any]:
    client = invocation.client
    overview = client.get("/overview")
    managers = client.get("/taskmanagers")["taskmanagers"]
    found = LocalCluster.of(invocation.configuration)
    here = found.running
    if here is not None and here.url.rstrip("/") != client.url:
        here = None
    return {
        "cluster": _cluster_id(invocation.configuration),
        "url": client.url,
        "version": overview.get("flott-version") or overview.get("flink-version"),
        "pid": None if here is None else here.pid,
        "uptime-ms": None if here is None else max(0, clock.now_ms() - here.started),
        "jobs": {name: overview.get(f"jobs-{name}", 0) for name in ("running", "finished", "cancelled", "failed")},
        "taskmanagers": overview["taskmanagers"],
        "slots": {"total": overview["slots-total"], "free": overview["slots-available"]},
        "memory": {
            "jobmanager": None if here is None else process.memory_bytes(here.pid),
            "taskmanagers": sum(manager.get("hardware", {}).get("physicalMemory", 0) for manager in managers),
            "taskmanagers-free": sum(manager.get("hardware", {}).get("freeMemory", 0) for manager in managers),
        },
        "high-availability": _leadership(invocation.configuration),
        "folder": str(found.folder) if here is not None else None,
    }


def _memory_text(memory: dict[str, int | None]) -> str:
    own = memory["jobmanager"]
    total, free = memory["taskmanagers"] or 0, memory["taskmanagers-free"] or 0
    executors = f"task managers {size_text(total - free)} of {size_text(total)}"
    return executors if own is None else f"JobManager {size_text(own)}, {executors}"


def _leadership(configuration: Configuration) -> dict[str, Any] | None:
    kind = configuration.get_string("high-availability.type", "none").lower()
    if kind == "none":
        return None
    from flott.runtime.jobmanager.leadership.election import make_election

    election = make_election(configuration)
    try:
        leader = election.leader()
    finally:
        election.resign()
    return {"type": kind, "leader": None if leader is None else leader.address}


def _known() -> Iterator[dict[str, Any]]:
    folder = home() / "clusters"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir():
            found = LocalCluster.at(path)
            here = found.running
            yield {
                "cluster": path.name,
                "state": "running" if here is not None else "stopped" if found.announcement is None else "died",
                "url": None if here is None else here.url,
                "pid": None if here is None else here.pid,
                "folder": str(path),
            }


def _cluster_id(configuration: Configuration) -> str:
    return configuration.get(cluster_options.CLUSTER_ID)


def _output(folders: ClusterFolders) -> str:
    return process.output_tail(folders.logs, "jobmanager.out", "jobmanager.log")


def _await(done: Callable[[], bool], seconds: float, clock: Clock) -> bool:
    """Return whether the condition becomes true within the time."""
    began = clock.monotonic()
    never = threading.Event()
    while not done():
        if clock.monotonic() - began > seconds:
            return False
        clock.wait(never, _POLL_MS)
    return True
