"""Twenty jobs in one session, under a load of requests: no job is disturbed, and the JobManager stays small."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.spark.cluster.conftest import PROGRAMS, Session, counts, wait_for

JOBS = 20
CLIENTS = 4
#: What the JobManager's memory may grow by, from the moment it has seen jobs and requests of all kinds.
GROWTH_MB = 30
#: Not to be counted among the twenty.
FAILING, KILLED = JOBS, JOBS + 1

QUESTIONS = (
    "/overview", "/jobs/overview", "/jobs", "/taskmanagers", "/config", "/jobs/{}", "/jobs/{}/checkpoints",
    "/jobs/{}/exceptions", "/jobs/{}/plan", "/jobs/{}/metrics?get=numRecordsIn", "/jobs/{}/log?tail=20",
    "/jobs/{}/status", "/jobs/{}/flott/epochs", "/jobs/{}/config", "/jobmanager/metrics", "/jobmanager/log",
)  # fmt: skip


@dataclass
class Load:
    """What a few clients have asked, and what they were answered."""

    asked: int = 0
    strange: list[str] = field(default_factory=list)
    slowest: float = 0.0


@contextmanager
def asking(url: str, jobs: list[str]) -> Iterator[Load]:
    """Clients that ask one question after the other, for as long as the block takes."""
    load, over, lock = Load(), threading.Event(), threading.Lock()

    def ask(number: int) -> None:
        with httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
            turn = number
            while not over.is_set():
                path = QUESTIONS[turn % len(QUESTIONS)].format(jobs[turn % len(jobs)])
                began = time.monotonic()
                status = http.get(path).status_code
                with lock:
                    load.asked += 1
                    load.slowest = max(load.slowest, time.monotonic() - began)
                    if status != 200:
                        load.strange.append(f"{path}: {status}")
                turn += CLIENTS
                over.wait(0.02)

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield load
    finally:
        over.set()
        for client in clients:
            client.join()


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def processes(session: Session, *words: str) -> dict[int, str]:
    return {pid: line for pid, line in session.process.processes().items() if any(word in line for word in words)}


def operation(http: httpx.Client, path: str) -> dict[str, Any]:
    def done() -> Any:
        reply = http.get(path).raise_for_status().json()
        return [reply["operation"]] if reply["status"]["id"] == "COMPLETED" else None

    [found] = wait_for(done, 300)
    return dict(found or {})


@pytest.mark.long
def test_twenty_jobs_come_and_go_under_load_and_nobody_is_disturbed(
    sessions: Callable[..., Session], tmp_path: Path
) -> None:
    session = sessions()
    output = tmp_path / "out"
    settings = {"flott.epoch.min-interval": "2s", "parallelism.default": "1", "restart-strategy.type": "none"}
    arguments = [str(output), str(JOBS + 2), "--fails", str(FAILING)]
    options = [f"-D{key}={value}" for key, value in settings.items()]
    session.cli("run", "-d", "--target", "session", *options, PROGRAMS / "crowd.py", *arguments, timeout=300)
    started = {int(number): job for number, job in json.loads((output / "jobs.json").read_text()).items()}
    assert len(set(started.values())) == JOBS + 2
    twenty = [started[number] for number in range(JOBS)]

    with asking(session.url, twenty) as load, httpx.Client(base_url=session.url, trust_env=False, timeout=60) as http:
        # All of them run, but the one that fails; and one is killed.
        for job in (*twenty, started[KILLED]):
            session.await_epochs(job, 1, 240)
        wait_for(lambda: session.status(started[FAILING]) == "FAILED", 300)
        os.kill(http.get(f"/jobs/{started[KILLED]}").json()["process"], signal.SIGKILL)
        listed = {job["jid"]: job["state"] for job in http.get("/jobs/overview").json()["jobs"]}
        assert set(listed) == set(started.values())
        assert {listed[job] for job in twenty} == {"RUNNING"}

        # Savepoints of all, at once; other parallelisms for some.
        order = {"target-directory": str(tmp_path / "savepoints")}
        triggers = {job: http.post(f"/jobs/{job}/savepoints", json=order).json()["request-id"] for job in twenty}
        paths = {operation(http, f"/jobs/{job}/savepoints/{trigger}")["location"] for job, trigger in triggers.items()}
        assert len(paths) == JOBS
        resized = {job: http.patch(f"/jobs/{job}/rescaling?parallelism=2").json()["request-id"] for job in twenty[:4]}
        for job, trigger in resized.items():
            assert "failure-cause" not in operation(http, f"/jobs/{job}/rescaling/{trigger}")
            assert {vertex["parallelism"] for vertex in http.get(f"/jobs/{job}").json()["vertices"]} == {2}
        session.await_status(started[KILLED], "RUNNING", 300)
        warm = resident_mb(session.process.pid)

        # Nobody was disturbed.
        for job in twenty:
            detail = http.get(f"/jobs/{job}/exceptions").json()["exceptionHistory"]["entries"]
            assert detail == [], detail
            [restarts] = http.get(f"/jobs/{job}/metrics?get=numRestarts").json()
            assert restarts["value"] == "0"
        before = load.asked

        # Half of them are stopped, the others cancelled.
        stopped, cancelled = twenty[::2], [*twenty[1::2], started[KILLED]]
        order = {"targetDirectory": str(tmp_path / "savepoints"), "drain": False}
        triggers = {job: http.post(f"/jobs/{job}/stop", json=order).json()["request-id"] for job in stopped}
        for job in cancelled:
            assert http.patch(f"/jobs/{job}?mode=cancel").status_code == 202
        for job, trigger in triggers.items():
            assert "location" in operation(http, f"/jobs/{job}/savepoints/{trigger}")
        for job in stopped:
            session.await_status(job, "FINISHED", 300)
        for job in cancelled:
            session.await_status(job, "CANCELED", 300)
        wait_for(lambda: load.asked - before > 2000, 300)
        grown = resident_mb(session.process.pid) - warm
    assert load.strange == []
    assert grown < GROWTH_MB, f"the JobManager grew by {grown:.0f} MB over {load.asked} requests"

    # What they wrote is exact, and they are gone.
    for number in (*range(JOBS), KILLED):
        assert counts(output / str(number)), f"job {number} has written nothing"
    wait_for(lambda: not processes(session, "job_runner"), 300)
    wait_for(lambda: not processes(session, "pyspark.worker"), 300)
    assert session.rest.get("/overview")["jobs-running"] == 0
