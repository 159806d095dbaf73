"""A session as a user starts it: one JobManager in a process of its own, on Spark, for all tests that can share it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flott.client.rest_client import RestClient
from flott.common import Configuration
from tests.spark.driver_process import ROOT, DriverProcess
from tests.unit.runtime.jobmanager.jobs import counts, wait_for

PROGRAMS = Path(__file__).parent / "programs"
TALLY = PROGRAMS / "tally.py"
VISITS = PROGRAMS / "visits.py"

__all__ = [
    "PROGRAMS", "TALLY", "VISITS", "Jobs", "Session", "counts", "found_session", "run_cli", "start_session", "wait_for",
]  # fmt: skip

#: An epoch that nothing waits for, so that a job that runs beside others costs little.
SELDOM = {"flott.epoch.min-interval": "1s", "flott.progress": "off"}


@dataclass
class Session:
    """A JobManager that runs, and its clients."""

    process: DriverProcess
    folder: Path
    url: str
    rest: RestClient
    settings: Mapping[str, str]

    def cli(self, *arguments: str | Path, timeout: float = 300, code: int | None = 0) -> str:
        """What ``flott ...`` prints for this session."""
        done = run_cli(*arguments, environment=self.environment(), timeout=timeout)
        if code is not None:
            assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """With which every client finds it."""
        return {"FLOTT_PROPERTIES": json.dumps({**self.settings, "flott.cluster.dir": str(self.folder)})}

    def status(self, job_id: str) -> str:
        return str(self.rest.get(f"/jobs/{job_id}/status")["status"])

    def await_status(self, job_id: str, status: str, seconds: float = 300.0) -> None:
        """Wait for a status; any other end is a failure of the test."""

        def check() -> bool:
            found = self.status(job_id)
            if found != status and found in ("FINISHED", "FAILED", "CANCELED"):
                raise AssertionError(f"{found}: {json.dumps(self.rest.get(f'/jobs/{job_id}/exceptions'))[:2000]}")
            return found == status

        wait_for(check, seconds)

    def await_epochs(self, job_id: str, epochs: int, seconds: float = 300.0) -> None:
        """Wait until a job has completed checkpoints."""
        wait_for(lambda: self.rest.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"] >= epochs, seconds)

    def submit(
        self, *arguments: str | Path, settings: Mapping[str, str] | None = None, program: str | Path = TALLY
    ) -> str:
        """Run a program detached; its job's id."""
        options = [f"-D{key}={value}" for key, value in (settings or {}).items()]
        said = self.cli("--json", "run", "--detached", "--target", "session", *options, program, *arguments)
        [job] = json.loads(said)["jobs"]
        return str(job["jid"])


def run_cli(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """``flott ...`` in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return subprocess.run(
        [sys.executable, "-m", "flott.cli", *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
        env={**inherited, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "160", **(environment or {})},
    )  # fmt: skip


def start_session(folder: Path, **settings: Any) -> Session:
    """Start a JobManager and wait until it answers."""
    values = {
        "rest.port": "0",
        "spark.master": "local[2]",
        "flott.storage.sync": "false",
        **{key.replace("__", "."): str(value) for key, value in settings.items()},
    }
    properties = json.dumps({**values, "flott.cluster.dir": str(folder)})
    process = DriverProcess(["-m", "flott.server"], folder / "work", {"FLOTT_PROPERTIES": properties})
    return found_session(process, folder, values)


def found_session(process: DriverProcess, folder: Path, values: Mapping[str, str] | None = None) -> Session:
    """The JobManager of a process that has just been started, as soon as it answers."""
    announcement = folder / "cluster.json"
    deadline = time.monotonic() + 300
    try:
        while True:
            assert process._process.poll() is None, f"{process.stdout}\n{process.stderr}"
            assert time.monotonic() < deadline, f"no answer\n{process.stderr}"
            if announcement.exists():
                url = json.loads(announcement.read_text())["url"]
                address, _, port = url.rpartition("/")[2].rpartition(":")
                client = {**(values or {}), "rest.address": address, "rest.port": port}
                rest = RestClient(Configuration.of(client))
                break
            time.sleep(0.05)
        wait_for(lambda: _answers(rest), 300)
    except BaseException:
        process.kill_tree()
        raise
    return Session(process, folder, url, rest, client)


def _answers(rest: RestClient) -> bool:
    try:
        return bool(rest.get("/overview"))
    except Exception as error:
        if "stands by" in str(error) or "503" in str(error):
            return False
        raise


@pytest.fixture(scope="package")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The session all tests of this folder share; it ends with them, so that others have the machine to themselves."""
    made = start_session(tmp_path_factory.mktemp("session"))
    yield made
    made.rest.close()
    made.process._process.terminate()
    made.process.wait(300)
    made.process.expect_no_leftovers()


@dataclass(frozen=True)
class Jobs:
    """The ids of jobs in the shared session."""

    running: str  #: for as long as the tests take: look at it, but leave it alone
    finished: str
    failed: str
    canceled: str
    records: int = 2000  #: the finished one has read

    @property
    def all(self) -> tuple[str, ...]:
        return (self.running, self.finished, self.failed, self.canceled)


@pytest.fixture(scope="package")
def jobs(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """One job of each fate, for tests that only look."""
    folder = tmp_path_factory.mktemp("jobs")
    tally_failing = [folder / "failed", "--records", 1000, "--fail-at", 700]
    made = Jobs(
        running=session.submit(folder / "running", "--rate", "100", program=VISITS, settings=SELDOM),
        finished=session.submit(folder / "finished", "--records", "2000", program=VISITS),
        failed=session.submit(*map(str, tally_failing), settings={"restart-strategy.type": "none"}),
        canceled=session.submit(folder / "canceled", "--rate", "10"),
    )
    session.await_status(made.finished, "FINISHED")
    session.await_status(made.failed, "FAILED")
    session.await_epochs(made.canceled, 1)
    session.rest.patch(f"/jobs/{made.canceled}", mode="cancel")
    session.await_status(made.canceled, "CANCELED")
    session.await_epochs(made.running, 5)
    yield made
    session.rest.patch(f"/jobs/{made.running}", mode="cancel")
    session.await_status(made.running, "CANCELED")


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """Starts JobManagers of a test's own."""
    started: list[Session] = []

    def start(name: str = "own", **settings: Any) -> Session:
        made = start_session(tmp_path / name, **settings)
        started.append(made)
        return made

    yield start
    for made in started:
        made.rest.close()
        made.process.kill_tree()
