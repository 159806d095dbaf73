"""``flott cluster`` with a server that stands in for a JobManager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from flott.cli import process
from flott.cli.commands import cluster
from flott.client.rest_client import RestClient
from flott.common.configuration import Configuration
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.running_file import RunningCluster, read_running, write_running
from tests.unit.cli.conftest import Ran
from tests.unit.cli.fake_jobmanager import FakeJobManager

Cli = Callable[..., Ran]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the cluster; whatever was started there is ended."""
    monkeypatch.setattr(cluster, "SERVER", ("-m", "tests.unit.cli.fake_server"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = home / "clusters" / "default"
    yield folder
    running = read_running(folder)
    if running is not None and process.is_same(running.pid, running.started):
        os.kill(running.pid, signal.SIGKILL)


def test_a_cluster_is_started_once_seen_and_stopped(cli: Cli, folder: Path) -> None:
    started = cli("cluster", "start", "--master", "local[2]", "--port", "0", "--json", "-D", "pipeline.name=x")
    assert started.code == 0, started.err
    running = read_running(folder)
    assert running is not None
    assert started.document == {
        "cluster": "default", "url": running.url, "pid": running.pid, "folder": str(folder),
        "already-running": False,
    }  # fmt: skip
    settings = json.loads((folder / "logs" / "jobmanager.out").read_text().partition(" ")[2].splitlines()[0])
    assert settings == {"spark.master": "local[2]", "rest.port": "0", "pipeline.name": "x"}
    assert os.getsid(running.pid) == running.pid, "a daemon outlives the terminal"

    again = cli("cluster", "start")
    assert (again.code, again.out) == (
        0, f"The cluster 'default' runs already: {running.url} (process {running.pid})\n",
    )  # fmt: skip
    assert cli("cluster", "list", "--json").document == [
        {"cluster": "default", "state": "running", "url": running.url, "pid": running.pid, "folder": str(folder)}
    ]
    status = cli("cluster", "status", "--json").document
    assert (status["pid"], status["jobs"], status["slots"]) == (
        running.pid, {"running": 1, "finished": 2, "cancelled": 0, "failed": 3}, {"total": 4, "free": 1},
    )  # fmt: skip
    assert status["memory"]["jobmanager"] > 1_000_000
    assert "3 of 4 in use" in cli("cluster", "status").out

    assert cli("cluster", "stop", "--json").document == {"cluster": "default", "stopped": True, "by": "request"}
    assert process.started_ms(running.pid) is None
    assert cli("cluster", "list", "--json").document[0]["state"] == "stopped"
    assert cli("cluster", "stop", "--json").document == {"cluster": "default", "stopped": False}


def test_a_server_that_ends_at_once_is_told_with_the_end_of_its_log(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SERVER", "fails")
    ran = cli("cluster", "start")
    assert (ran.code, ran.out) == (1, "")
    assert "The JobManager ended with exit code 1." in ran.err
    assert "  The port is taken." in ran.err


def test_a_server_that_never_answers_is_told_after_the_timeout(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SERVER", "silent")
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen
    monkeypatch.setattr(cluster.subprocess, "Popen", lambda *a, **k: started.append(start(*a, **k)) or started[0])  # type: ignore[func-returns-value]
    ran = cli("cluster", "start", "--timeout", "1")
    started[0].kill()
    started[0].wait()
    assert ran.code == 3
    assert "runs, but did not answer within 1 s" in ran.err


def test_a_server_that_refuses_to_stop_gets_signals(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SERVER", "polite")  # knows no DELETE /cluster
    assert cli("cluster", "start").code == 0
    stopped = cli("cluster", "stop", "--timeout", "1", "--json")
    assert stopped.document["by"] == "SIGTERM"


def test_a_server_deaf_to_all_but_the_last_signal_gets_that(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SERVER", "deaf")
    monkeypatch.setattr(process, "PATIENCE_SECONDS", {signal.SIGTERM: 0.2, signal.SIGKILL: 5.0})
    assert cli("cluster", "start").code == 0
    assert cli("cluster", "stop", "--json").document["by"] == "SIGKILL"
    assert cli("cluster", "list", "--json").document[0]["state"] == "died"


def test_a_server_may_stand_by_for_another_one(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, jobmanager: FakeJobManager
) -> None:
    monkeypatch.setattr(RestClient, "_find", lambda self: jobmanager.url)  # the leader
    started = cli("cluster", "start", "--json")
    running = read_running(folder)
    assert running is not None
    assert started.document == {
        "cluster": "default", "url": running.url, "pid": running.pid, "leader": jobmanager.url,
    }  # fmt: skip


def test_a_cluster_may_run_in_the_foreground(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Configuration] = []
    stand_in = ModuleType("flott.server")
    stand_in.serve = lambda configuration: served.append(configuration) or 0  # type: ignore[attr-defined,func-returns-value]
    monkeypatch.setitem(sys.modules, "flott.server", stand_in)
    assert cli("cluster", "start", "--foreground", "--port", "5", "--master", "local").code == 0
    assert [configuration.to_dict() for configuration in served] == [{"rest.port": "5", "spark.master": "local"}]


def test_a_cluster_elsewhere_can_be_seen(cli: Cli, jobmanager: FakeJobManager) -> None:
    document = cli("-m", jobmanager.address, "cluster", "status", "--json").document
    assert (document["url"], document["pid"], document["folder"]) == (jobmanager.url, None, None)


# ---- processes -------------------------------------------------------------------------------------------------------


def test_a_process_id_that_was_given_again_is_another_process(cli: Cli, home: Path) -> None:
    folder = home / "clusters" / "default"
    folder.mkdir(parents=True)
    began = process.started_ms(os.getpid())
    assert began is not None
    write_running(folder, RunningCluster(os.getpid(), "http://localhost:1", began - 60_000))
    assert not process.is_same(os.getpid(), began - 60_000)
    assert process.is_same(os.getpid(), SystemClock().now_ms())
    assert cli("cluster", "stop").code == 0  # and this process is still here
    assert cli("cluster", "list", "--json").document[0]["state"] == "died"


def test_a_process_that_has_ended_is_none_even_if_nobody_has_buried_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.started_ms(child.pid) is None
    child.wait()
    assert process.started_ms(child.pid) is None
