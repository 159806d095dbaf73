"""Every command of ``flott`` against a JobManager that runs: what it prints, its JSON, its exit code."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster.conftest import SELDOM, TALLY, VISITS, Jobs, Session, counts, run_cli, wait_for
from tests.spark.driver_process import ROOT
from tests.unit.cli.terminal_process import TerminalProcess


@pytest.fixture(scope="module")
def busy(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A job that commands may change: it counts, and its epochs are retained."""
    folder = tmp_path_factory.mktemp("busy")
    settings = {**SELDOM, "execution.checkpointing.num-retained": "50", "parallelism.default": "2"}
    job = session.submit(folder / "out", "--rate", "200", "--name", "busy", settings=settings)
    session.await_epochs(job, 3)
    yield job
    if session.status(job) == "RUNNING":
        session.rest.patch(f"/jobs/{job}", mode="cancel")


def document(session: Session, *arguments: str | Path, code: int = 0) -> Any:
    return json.loads(session.cli("--json", *arguments, code=code))


def error_of(session: Session, *arguments: str | Path) -> tuple[int, str]:
    """The exit code and the message, which is in the JSON document on stderr as well."""
    plain = run_cli(*arguments, environment=session.environment())
    said = run_cli("--json", *arguments, environment=session.environment())
    error = json.loads(said.stderr)
    assert (plain.returncode, plain.stdout) == (said.returncode, said.stdout) == (error["exit-code"], "")
    assert error["error"]["message"].splitlines()[0] in plain.stderr
    assert "Traceback" not in plain.stderr + said.stderr
    return plain.returncode, error["error"]["message"]


# ---------------------------------------------------------------------------------------------------- looking at jobs


def test_jobs_are_listed_with_their_states(session: Session, jobs: Jobs) -> None:
    running = session.cli("list")
    assert f"{jobs.running} : visits (RUNNING)" in running
    assert jobs.failed not in running
    everything = session.cli("list", "--all")
    assert f"{jobs.failed} : tally (FAILED)" in everything
    assert f"{jobs.canceled} : tally (CANCELED)" in everything
    listed = {job["jid"]: job["state"] for job in document(session, "list", "-a")["jobs"]}
    assert [listed[job] for job in jobs.all] == ["RUNNING", "FINISHED", "FAILED", "CANCELED"]


def test_the_plan_of_a_job_and_of_a_program_is_shown(session: Session, jobs: Jobs, tmp_path: Path) -> None:
    plan = document(session, "info", jobs.running)
    assert [node["description"].removesuffix("<br/>") for node in plan["nodes"]][:2] == ["Source: visits", "Greet"]
    assert "Execution Plan" in session.cli("info", "--plan", VISITS, tmp_path / "out")
    session.cli("info", "--svg", tmp_path / "plan.svg", VISITS, tmp_path / "out")
    assert "Greet" in (tmp_path / "plan.svg").read_text()
    assert not (tmp_path / "out").exists()


def test_the_status_of_a_job_is_shown_once_and_again(session: Session, jobs: Jobs) -> None:
    shown = session.cli("status", jobs.running)
    assert "RUNNING" in shown
    assert "Greet" in shown
    found = document(session, "status", jobs.running)
    assert (found["state"], found["restarts"], len(found["vertices"])) == ("RUNNING", 0, 3)
    assert found["records-in"] > 0
    assert "number 700 is not to my liking" in session.cli("status", jobs.failed)
    lines = session.cli("--json", "top", jobs.running, "-n", "2", "-i", "0.2").splitlines()
    looks = [json.loads(line) for line in lines]
    assert [look["state"] for look in looks] == ["RUNNING", "RUNNING"]
    assert looks[0]["records-in"] <= looks[1]["records-in"]
    assert jobs.running[:8] in session.cli("top", "-n", "1")


def test_logs_are_shown_filtered_and_followed_to_the_end(session: Session, jobs: Jobs) -> None:
    shown = session.cli("logs", jobs.finished, "--operator", "greet", "--subtask", "0").splitlines()
    assert shown
    assert all("[Greet (1/2)]" in line for line in shown)
    warnings = session.cli("logs", jobs.finished, "--level", "warning").splitlines()
    assert warnings
    assert all("WARNING" in line for line in warnings)
    assert len(session.cli("logs", jobs.finished, "-n", "3").splitlines()) == 3
    assert "not to my liking" in session.cli("logs", jobs.failed, "--follow")  # it has ended, so following ends
    lines = [json.loads(line) for line in session.cli("--json", "logs", jobs.finished, "-n", "2").splitlines()]
    assert len(lines) == 2
    assert "This JobManager leads" in session.cli("logs", "jobmanager")
    assert session.cli("logs", "taskmanager")


def test_event_time_is_explained(session: Session, jobs: Jobs) -> None:
    assert "Event time of 'visits'" in session.cli("explain-watermark", jobs.running)
    assert document(session, "explain-watermark", jobs.running)["watermark"] > 0
    assert error_of(session, "explain-watermark", jobs.finished)[0] == 1


def test_the_cluster_the_configuration_and_the_machine_are_described(session: Session, jobs: Jobs) -> None:
    assert session.url in session.cli("cluster", "status")
    found = document(session, "cluster", "status")
    assert (found["slots"]["total"], found["pid"]) == (2, session.process.pid)
    [port] = document(session, "config", "rest.port")
    assert port["value"] == session.url.rpartition(":")[2]
    assert "rest.port" in session.cli("config", "--changed")
    findings = {one["check"]: one["verdict"] for one in document(session, "doctor")["findings"]}
    assert findings["session"] == "ok"
    assert findings["java"] == "ok"


@pytest.mark.parametrize(
    "command",
    [["status"], ["cancel"], ["stop"], ["savepoint"], ["checkpoints"], ["checkpoint"], ["logs"], ["explain-watermark"],
     ["rescale", "{}", "2"], ["info"], ["top", "-n", "1"]],
    ids=lambda command: command[0],
)  # fmt: skip
def test_a_job_that_is_not_there_is_exit_code_4(session: Session, command: list[str]) -> None:
    unknown = "f" * 32
    words = [word.format(unknown) for word in command] if "{}" in command else [*command, unknown]
    code, message = error_of(session, *words)
    assert code == 4
    assert unknown in message


def test_nobody_at_the_address_is_exit_code_3_and_bad_words_are_2(session: Session) -> None:
    assert error_of(session, "list", "-m", "localhost:1")[0] == 3
    done = run_cli("list", "--no-such-option", environment=session.environment())
    assert done.returncode == 2
    code, message = error_of(session, "run", "-Drest.prot=1", TALLY)
    assert code == 2
    assert "rest.port" in message


# ----------------------------------------------------------------------------------------------- snapshots and state


def test_savepoints_are_taken_looked_into_compared_exported_and_disposed_of(
    session: Session, busy: str, tmp_path: Path
) -> None:
    first = document(session, "savepoint", "create", busy, tmp_path / "sp")["savepoint"]
    shown = session.cli("savepoint", "busy", tmp_path / "sp", "--type", "native")  # by name, as Flink's client says it
    [second] = re.findall(r"Path: (\S+)", shown)
    assert json.loads(session.cli("--json", "checkpoints", busy))["latest"]["savepoint"]["external_path"] == second
    for place in (first, second, busy):
        states = document(session, "state", "ls", place)
        assert "tally" in json.dumps(states)
        assert "Tally(key=3, count=" in session.cli("state", "get", place, "count", "tally", "3")
        assert len(document(session, "state", "scan", place, "count", "tally")["entries"]) == 5
    assert document(session, "state", "diff", first, second)
    assert error_of(session, "state", "get", first, "count", "nothing", "3")[0] == 1
    copy = document(session, "savepoint", "export", second, tmp_path / "exported")["savepoint"]
    for path in (first, second):
        session.cli("savepoint", "dispose", path)
        assert not Path(path.removeprefix("file:")).exists()
    assert error_of(session, "savepoint", "dispose", first)[0] == 1
    assert len(document(session, "state", "scan", copy, "count", "tally")["entries"]) == 5
    shutil.rmtree(tmp_path / "exported")


def test_a_checkpoint_is_taken_when_asked_for(session: Session, busy: str) -> None:
    first = document(session, "checkpoint", busy)["checkpoint"]
    assert document(session, "checkpoint", busy)["checkpoint"] > first
    assert "completed" in session.cli("checkpoints", busy)


def test_an_epoch_that_ran_on_spark_is_replayed_and_comes_out_the_same(session: Session, busy: str) -> None:
    epochs = document(session, "replay", busy)["epochs"]
    assert sum(bool(one.get("complete")) for one in epochs) >= 1, epochs
    shown = session.cli("replay", busy, "--epoch", "latest", "--operator", "count", "-n", "3")
    assert "identical" in shown.lower() or "same" in shown.lower(), shown
    replayed = document(session, "replay", busy, "--epoch", "latest")
    assert replayed["identical"] is True, replayed


def test_a_job_is_rescaled_while_it_runs(session: Session, busy: str) -> None:
    session.cli("rescale", busy, "1")
    assert {vertex["parallelism"] for vertex in session.rest.get(f"/jobs/{busy}")["vertices"]} == {1}
    document(session, "rescale", busy, "2", "--operator", "count")
    assert {vertex["parallelism"] for vertex in session.rest.get(f"/jobs/{busy}")["vertices"]} == {1, 2}
    assert session.rest.get(f"/jobs/{busy}/metrics", get="numRestarts") == [{"id": "numRestarts", "value": "0"}]


# ------------------------------------------------------------------------------------------------- running and ending


def test_a_job_is_stopped_and_goes_on_from_its_savepoint_elsewhere(session: Session, tmp_path: Path) -> None:
    first = session.submit(tmp_path / "out", "--rate", "500")
    session.await_epochs(first, 2)
    savepoint = document(session, "stop", first, "-p", tmp_path / "sp")["savepoint"]
    assert session.status(first) == "FINISHED"
    so_far = sum(counts(tmp_path / "out").values())
    second = session.submit(tmp_path / "out", "--rate", "500", settings={"execution.state-recovery.path": savepoint})
    session.await_epochs(second, 2)
    restored = session.rest.get(f"/jobs/{second}/checkpoints")["latest"]["restored"]
    assert (restored["is_savepoint"], restored["external_path"]) == (True, savepoint)
    session.cli("cancel", second)
    session.await_status(second, "CANCELED")
    assert sum(counts(tmp_path / "out").values()) > so_far  # and counted on, without a gap or a repetition


def test_attached_runs_end_with_the_job(session: Session, tmp_path: Path) -> None:
    run = ["run", "--target", "session"]
    done = run_cli(*run, TALLY, tmp_path / "well", "--records", "1000", environment=session.environment())
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"Job has been submitted with JobID [0-9a-f]{32}\nthe program is done\n", done.stdout)
    assert counts(tmp_path / "well") == dict.fromkeys(range(5), 200)
    failing = [*run, "-Drestart-strategy.type=none", TALLY, tmp_path / "badly", "--records", "1000", "--fail-at", "7"]
    done = run_cli(*failing, environment=session.environment())
    assert done.returncode == 5
    assert "number 7 is not to my liking" in done.stderr
    assert done.stderr.count("Traceback") <= 2  # the user's own, and no more than the card shows


class OnTerminal(TerminalProcess):
    """A command on a terminal, for a session."""

    def __init__(self, session: Session, folder: Path, *arguments: str | Path):
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
        screen = {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": "200"}
        super().__init__([str(word) for word in arguments], folder, {**kept, **session.environment(), **screen})


def test_ctrl_c_detaches_from_a_job_or_cancels_it(session: Session, tmp_path: Path) -> None:
    run = ("run", "--target", "session", TALLY, tmp_path / "out", "--rate", "50", "--name", "watched")
    screen = OnTerminal(session, tmp_path, *run)
    screen.expect("watched")

    def first() -> Any:
        return next((job for job in session.rest.get("/jobs/overview")["jobs"] if job["name"] == "watched"), None)

    job = wait_for(first, 300)["jid"]
    session.await_epochs(job, 1)
    screen.type("\x03")
    screen.expect(r"\(d\)etach")
    screen.type("d\n")
    screen.expect(f"The job {job} continues")
    assert screen.wait() == 0
    assert session.status(job) == "RUNNING"
    top = OnTerminal(session, tmp_path, "top", "watched", "-i", "0.3")
    top.expect("Source: numbers")
    top.type("q")
    assert top.wait() == 0
    assert session.status(job) == "RUNNING"
    session.cli("cancel", "watched")
    session.await_status(job, "CANCELED")
    screen = OnTerminal(session, tmp_path, *run)
    again = wait_for(lambda: (found := first()) and found["jid"] != job and found["jid"], 300)
    session.await_epochs(again, 1)
    screen.type("\x03")
    screen.expect(r"\(c\)ancel")
    screen.type("c\n")
    assert screen.wait() == 6
    assert session.status(again) == "CANCELED"
