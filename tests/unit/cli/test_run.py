"""``flott run`` against a JobManager made of answers: where it runs, what it shows, how it ends, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flott.cli.commands.run import Target
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.running_file import RunningCluster, write_running
from tests.unit.cli.conftest import Ran
from tests.unit.cli.fake_jobmanager import JOB, FakeJobManager
from tests.unit.cli.terminal_process import TerminalProcess, environment

#: Hands a job over and waits for it, as env.execute() would.
PROGRAM = f"""
import json, os, sys, threading
from flott.client.remote_executor import tell_watchers
from flott.client.rest_client import RestClient
from flott.common import _settings
from flott.errors import JobCancelledError, JobFailedError

configuration = _settings.load().configuration
print("arguments", sys.argv[1:], "name", __name__)
print("settings", json.dumps(configuration.to_dict(), sort_keys=True))
client = RestClient(configuration)
tell_watchers("{JOB}", "demo")
if configuration.get_string("execution.attached", "true") == "true":
    while (state := client.get("/jobs/{JOB}")["state"]) == "RUNNING":
        threading.Event().wait(0.02)
    if state != "FINISHED":
        raise {{"CANCELED": JobCancelledError, "FAILED": JobFailedError}}[state](f"The job was {{state}}.")
    print("finished")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def session(jobmanager: FakeJobManager, program: Path) -> FakeJobManager:
    jobmanager.add_job()
    return jobmanager


def flott(tmp_path: Path, *arguments: str, **variables: str) -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "flott.cli", *arguments], capture_output=True, text=True, cwd=tmp_path,
        env=environment(tmp_path / "home", **variables), timeout=60,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def settings_of(ran: Ran) -> dict[str, str]:
    line = next(line for line in ran.out.splitlines() if line.startswith("settings "))
    found: dict[str, str] = json.loads(line.removeprefix("settings "))
    return found


def test_a_detached_program_hands_its_job_over_and_ends(tmp_path: Path, session: FakeJobManager) -> None:
    ran = flott(tmp_path, "run", "-m", session.address, "-d", "-p", "3", "-n", "mine", "prog.py", "-d", "--json", "x")
    assert ran.code == 0, ran.err
    assert f"Job has been submitted with JobID {JOB}\n" in ran.out
    assert "arguments ['-d', '--json', 'x'] name __main__" in ran.out
    assert "finished" not in ran.out
    assert ran.err.startswith(f"Running on the session at {session.url}.\n")
    assert settings_of(ran).items() >= {
        "execution.target": "remote",
        "execution.attached": "false",
        "parallelism.default": "3",
        "pipeline.name": "mine",
        "rest.address": "127.0.0.1",
    }.items()


def test_flags_become_options(tmp_path: Path, session: FakeJobManager) -> None:
    ran = flott(
        tmp_path, "-m", session.url, "run", "-d", "-s", "/savepoints/1", "--allow-non-restored-state", "--claim-mode",
        "claim", "-pyfs", "a.py,b.zip", "-D", "flott.epoch.max-records=5", "-py", "prog.py", "--input", "x",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "arguments ['--input', 'x']" in ran.out
    assert settings_of(ran).items() >= {
        "execution.state-recovery.path": "/savepoints/1",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "execution.state-recovery.claim-mode": "CLAIM",
        "python.files": "a.py,b.zip",
        "flott.epoch.max-records": "5",
    }.items()


def test_a_module_runs_as_python_would_run_it(tmp_path: Path, session: FakeJobManager) -> None:
    ran = flott(tmp_path, "run", "--jobmanager", session.address, "-d", "-m", "prog", "-d", "-m", "x")
    assert ran.code == 0, ran.err
    assert "arguments ['-d', '-m', 'x'] name __main__" in ran.out


def test_with_json_the_output_of_the_program_is_not_on_stdout(tmp_path: Path, session: FakeJobManager) -> None:
    session.end(JOB, "FINISHED")
    ran = flott(tmp_path, "--json", "-m", session.address, "run", "prog.py")
    assert ran.code == 0, ran.err
    assert ran.document["exit-code"] == 0
    assert [(job["jid"], job["state"], job["epoch"]) for job in ran.document["jobs"]] == [(JOB, "FINISHED", 7)]
    assert "arguments []" in ran.err


@pytest.mark.parametrize(("state", "code"), [("FINISHED", 0), ("FAILED", 5)])  # cancelled: see Ctrl-C
def test_the_exit_code_says_how_the_job_ended(tmp_path: Path, session: FakeJobManager, state: str, code: int) -> None:
    session.end(JOB, state)
    ran = flott(tmp_path, "-m", session.address, "run", "prog.py")
    assert ran.code == code
    assert f"demo {state.lower()} in 5.0 s" in ran.err
    assert "Traceback" not in ran.err
    if state != "FINISHED":
        assert f"The job was {state}." in ran.err


def test_a_program_that_fails_shows_its_own_lines_and_not_ours(tmp_path: Path, session: FakeJobManager) -> None:
    (tmp_path / "broken.py").write_text("def f():\n    return 1 / 0\n\nf()\n")
    ran = flott(tmp_path, "-m", session.address, "run", "broken.py")
    assert ran.code == 1
    assert "line 2, in f" in ran.err
    assert ran.err.strip().endswith("ZeroDivisionError: division by zero")
    assert "flott/cli" not in ran.err


def test_a_program_may_choose_its_exit_code(tmp_path: Path, session: FakeJobManager) -> None:
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(42)")
    assert flott(tmp_path, "-m", session.address, "run", "leaves.py").code == 42


# ---- where it runs ---------------------------------------------------------------------------------------------------


def test_a_session_that_runs_here_is_found(tmp_path: Path, session: FakeJobManager) -> None:
    folder = tmp_path / "home" / "clusters" / "default"
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text(json.dumps({"pid": 1, "url": session.url, "started": 1}))
    ran = flott(tmp_path, "run", "-d", "prog.py")
    assert ran.code == 0, ran.err
    assert f"Running on the session at {session.url}, which runs on this machine" in ran.err
    assert settings_of(ran)["execution.target"] == "remote"


def test_a_session_that_is_configured_and_does_not_answer_is_an_error(tmp_path: Path, program: Path) -> None:
    ran = flott(tmp_path, "run", "prog.py", FLOTT_REST_PORT="1")
    assert (ran.code, ran.out) == (3, "")
    assert "No JobManager answers at http://localhost:1" in ran.err


def announce_session(tmp_path: Path, url: str, pid: int) -> None:
    folder = tmp_path / "home" / "clusters" / "default"
    folder.mkdir(parents=True)
    write_running(folder, RunningCluster(pid, url, SystemClock().now_ms()))


def test_a_session_that_runs_here_and_cannot_be_asked_is_an_error_and_not_passed_over(
    cli: Callable[..., Ran], tmp_path: Path, program: Path, application: list[tuple[list[str], str]]
) -> None:
    announce_session(tmp_path, "http://localhost:1", os.getpid())
    ran = cli("run", "prog.py")
    assert (ran.code, application) == (3, [])
    assert f"(process {os.getpid()}) does not answer at http://localhost:1" in ran.err


def test_a_session_that_refuses_to_answer_is_an_error_and_not_passed_over(
    cli: Callable[..., Ran], tmp_path: Path, session: FakeJobManager, application: list[tuple[list[str], str]]
) -> None:
    announce_session(tmp_path, session.url, pid=2**22 + 1)  # of another machine, or container
    del session.answers["GET /overview"]
    ran = cli("run", "prog.py")
    assert (ran.code, application) == (1, [])
    assert "Nothing is known of /overview" in ran.err


def test_a_session_that_has_died_is_not_waited_for(
    cli: Callable[..., Ran], tmp_path: Path, program: Path, application: list[tuple[list[str], str]]
) -> None:
    announce_session(tmp_path, "http://localhost:1", pid=2**22 + 1)
    ran = cli("run", "prog.py")
    assert application == [(["prog.py"], "local[*]")]
    assert "the session at http://localhost:1 has died; `flott cluster start` starts one" in ran.err


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """What would be run as an application."""
    from flott.cli.commands import run

    calls: list[tuple[list[str], str]] = []

    def record(invocation: object, command: list[str], master: str) -> int:
        calls.append((list(command), master))
        return 5

    monkeypatch.setattr(run, "run_application", record)
    return calls


@pytest.mark.parametrize(
    ("arguments", "variables", "master"),
    [
        ([], {}, "local[*]"),
        (["--target", "local[3]"], {}, "local[3]"),
        (["-t", "local-cluster[2,1,1024]"], {}, "local-cluster[2,1,1024]"),
        (["-t", "spark://host:7077"], {"FLOTT_REST_PORT": "1"}, "spark://host:7077"),
        (["-D", "spark.master=yarn"], {"FLOTT_REST_PORT": "1"}, "yarn"),
    ],
)
def test_without_a_session_a_program_gets_a_jobmanager_of_its_own(
    cli: Callable[..., Ran], program: Path, application: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], variables: dict[str, str], master: str,
) -> None:  # fmt: skip
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    ran = cli("run", *arguments, "prog.py", "--x")
    assert ran.code == 5
    assert application == [(["prog.py", "--x"], master)]
    assert "with a JobManager of its own" in ran.err


@pytest.mark.parametrize("target", ["mesos://x", "local[", "", "spark://"])
def test_a_target_nobody_knows_is_refused(cli: Callable[..., Ran], program: Path, target: str) -> None:
    ran = cli("run", "--target", target, "prog.py")
    assert ran.code == 2
    assert "expected session, local, local[N]" in ran.err


def test_a_program_must_be_named_and_be_there(cli: Callable[..., Ran], program: Path) -> None:
    assert "Name the program to run" in cli("run").err
    assert "There is no program at nowhere.py" in cli("run", "nowhere.py").err
    assert "not both" in cli("run", "-pym", "a", "-py", "prog.py").err
    assert "No such option" in cli("run", "--nonsense", "prog.py").err


def test_targets_of_flinks_configuration_are_understood() -> None:
    assert Target().convert("remote", None, None) == "session"


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


def on_terminal(tmp_path: Path, session: FakeJobManager) -> TerminalProcess:
    arguments = ["-m", session.address, "run", "prog.py"]
    terminal = TerminalProcess(arguments, tmp_path, environment(tmp_path / "home"))
    terminal.expect(f"Job has been submitted with JobID {JOB}")
    terminal.expect("epoch 7 .* 12 .* checkpoint 2.0 s ago")
    return terminal


def test_ctrl_c_asks_and_the_job_may_go_on(tmp_path: Path, session: FakeJobManager) -> None:
    terminal = on_terminal(tmp_path, session)
    terminal.type("\x03")
    terminal.expect(r"\(d\)etach")
    terminal.type("g\n")
    terminal.expect("epoch 7")
    session.end(JOB, "FINISHED")
    terminal.expect("finished")
    assert terminal.wait() == 0
    assert session.requests == []


def test_ctrl_c_can_cancel_the_job(tmp_path: Path, session: FakeJobManager) -> None:
    terminal = on_terminal(tmp_path, session)
    terminal.type("\x03")
    terminal.expect(r"\(g\)o on watching\?")
    terminal.type("what?\nc\n")
    terminal.expect("Cancelling job")
    assert terminal.wait() == 6
    assert session.requests == [(f"PATCH /jobs/{JOB}?mode=cancel", None)]


def test_ctrl_c_can_stop_the_job_with_a_savepoint(tmp_path: Path, session: FakeJobManager) -> None:
    terminal = on_terminal(tmp_path, session)
    terminal.type("\x03")
    terminal.expect(r"\(g\)o on watching\?")
    terminal.type("s\n")
    terminal.expect("Savepoint completed. Path: /savepoints/savepoint-1")
    assert terminal.wait() == 0
    assert [target for target, _ in session.requests] == [f"POST /jobs/{JOB}/stop"]


def test_ctrl_c_can_leave_the_job_to_itself(tmp_path: Path, session: FakeJobManager) -> None:
    terminal = on_terminal(tmp_path, session)
    terminal.type("\x03")
    terminal.expect(r"\(g\)o on watching\?")
    terminal.type("d\n")
    terminal.expect(f"The job {JOB} continues")
    assert terminal.wait() == 0
    assert session.requests == []
    assert "Traceback" not in terminal.shown


def test_a_second_ctrl_c_leaves_the_job_to_itself(tmp_path: Path, session: FakeJobManager) -> None:
    terminal = on_terminal(tmp_path, session)
    terminal.type("\x03")
    terminal.expect(r"\(g\)o on watching\?")
    terminal.type("\x03")
    terminal.expect(f"The job {JOB} continues")
    assert terminal.wait() == 130
    assert session.requests == []


def test_an_order_that_is_refused_is_told_and_the_job_goes_on(tmp_path: Path, session: FakeJobManager) -> None:
    del session.answers[f"PATCH /jobs/{JOB}"]
    terminal = on_terminal(tmp_path, session)
    terminal.type("\x03")
    terminal.expect(r"\(g\)o on watching\?")
    terminal.type("c\n")
    terminal.expect("Nothing is known of .* The job continues")
    session.end(JOB, "FINISHED")
    assert terminal.wait() == 0


def test_without_a_terminal_an_interrupt_leaves_the_job_to_itself(tmp_path: Path, session: FakeJobManager) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "flott.cli", "-m", session.address, "run", "prog.py"], cwd=tmp_path, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path / "home"),
    )  # fmt: skip
    assert process.stdout is not None
    while "submitted" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"The job {JOB} continues: `flott cancel {JOB}` ends it." in err
    assert "Traceback" not in err
    assert session.requests == []
