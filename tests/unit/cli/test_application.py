"""``flott run`` with a JobManager of its own, before the terminal and behind it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from flott.cli.programs import application
from flott.common.configuration import Configuration
from tests.unit.cli.conftest import Ran
from tests.unit.cli.fake_jobmanager import JOB, FakeJobManager

Cli = Callable[..., Ran]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def program(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "prog.py"
    path.write_text("")
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, jobmanager: FakeJobManager) -> list[tuple[list[str], Configuration]]:
    """``flott.server`` with a JobManager made of answers, whose job fails as soon as it was looked at."""
    calls: list[tuple[list[str], Configuration]] = []
    looked = threading.Event()

    def run_application(
        command: Sequence[str],
        configuration: Configuration,
        *,
        on_ready: Callable[[str], None],
        on_done: Callable[[], None],
    ) -> int:
        calls.append((list(command), configuration))
        on_ready(jobmanager.url)
        jobmanager.add_job()
        answer = jobmanager.answers[f"GET /jobs/{JOB}"]
        jobmanager.answers[f"GET /jobs/{JOB}"] = lambda query, body: looked.set() or answer(query, body)  # type: ignore[func-returns-value]
        assert looked.wait(120)
        jobmanager.end(JOB, "FAILED")
        on_done()
        return 5

    stand_in = ModuleType("flott.server")
    stand_in.run_application = run_application  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flott.server", stand_in)
    monkeypatch.setattr("flott.server", stand_in, raising=False)
    return calls


@pytest.mark.usefixtures("program")
def test_the_jobs_of_an_application_are_found_and_followed(
    cli: Cli, server: list[tuple[list[str], Configuration]]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    ran = cli("run", "-t", "local[2]", "-p", "3", "prog.py", "--x")
    assert ran.code == 5
    assert ran.out == f"Job has been submitted with JobID {JOB}\n"
    assert "demo failed in 5.0 s" in ran.err
    ((command, configuration),) = server
    assert command == ["prog.py", "--x"]
    assert configuration.to_dict() == {"spark.master": "local[2]", "parallelism.default": "3"}
    assert signal.getsignal(signal.SIGINT) is before
    assert "FLOTT_PROPERTIES" not in os.environ


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setattr(application, "COMMAND_LINE", ("-m", "tests.unit.cli.fake_application"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.usefixtures("behind")
def test_a_detached_application_is_waited_for_until_its_job_is_there(cli: Cli, home: Path) -> None:
    ran = cli("run", "-d", "-t", "local", "--json", "prog.py", "-d")
    assert ran.code == 0, ran.err
    os.kill(ran.document["pid"], signal.SIGKILL)
    os.waitpid(ran.document["pid"], 0)
    assert ran.document["jobs"] == [{"jid": JOB, "name": "demo", "state": "RUNNING"}]
    folder = Path(ran.document["folder"])
    assert folder.parent == home / "applications"
    expected = str(["run", "--target", "local[*]", "--", "prog.py", "-d"])
    assert (folder / "logs" / "application.out").read_text().splitlines()[0] == expected


@pytest.mark.usefixtures("behind")
def test_a_detached_application_that_fails_at_once_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_APPLICATION", "7")
    ran = cli("run", "-d", "-t", "local", "prog.py")
    assert ran.code == 1
    assert "The application ended with exit code 7. The end of " in ran.err
    assert "The program has a mistake in line 3." in ran.err
