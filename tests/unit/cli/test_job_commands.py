"""What commands print, line by line: scripts that read Flink's client read these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flott.cli.invocation import Invocation
from flott.cli.root import flott as root
from flott.runtime.logs.entry import LogEntry
from flott.runtime.orders import CancelJob, RescaleJob, StopWithSavepoint, TakeSavepoint
from tests.unit.cli.cluster import CommandLine, command_line
from tests.unit.rest.fake_cluster import FINISHED, RESTARTING, RUNNING, UNKNOWN

JOB_LINE = re.compile(r"\d\d\.\d\d\.\d{4} \d\d:\d\d:\d\d : [0-9a-f]{32} : .+ \([A-Z]+\)")


@pytest.fixture
def flott(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    monkeypatch.setenv("FLOTT_HOME", str(tmp_path / "home"))
    with command_line(tmp_path) as line:
        yield line


def ids(lines: list[str]) -> list[str]:
    return [line.split(" : ")[1] for line in lines if JOB_LINE.fullmatch(line)]


# --- list ------------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_as_flinks_client_lists_them(flott: CommandLine) -> None:
    lines = flott.lines("list")
    assert lines[0] == "------------------ Running/Restarting Jobs -------------------"
    assert lines[-2:] == ["-" * 62, "No scheduled jobs."]
    assert ids(lines) == [RUNNING, RESTARTING]
    assert lines[1].endswith(f" : {RUNNING} : orders-window (RUNNING)")


def test_all_jobs_have_those_that_ended_under_a_title_of_their_own(flott: CommandLine) -> None:
    lines = flott.lines("list", "-a")
    title = "---------------------- Terminated Jobs -----------------------"
    assert len(ids(lines[: lines.index(title)])) == 2
    assert len(ids(lines[lines.index(title) :])) == 3


def test_one_kind_of_jobs_can_be_chosen(flott: CommandLine) -> None:
    assert flott.lines("list", "-s") == ["No scheduled jobs."]
    assert "No scheduled jobs." not in flott.lines("list", "-r")


def test_a_list_as_json_is_what_rest_says(flott: CommandLine) -> None:
    found = json.loads(flott("list", "--json").stdout)
    assert [job["jid"] for job in found["jobs"]] == [RUNNING, RESTARTING]


# --- cancel, stop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [RUNNING, RUNNING[:6], "orders-window", RUNNING.upper()])
def test_a_job_is_named_by_id_or_its_beginning_or_its_name(flott: CommandLine, name: str) -> None:
    assert flott.lines("cancel", name) == [f"Cancelled job {RUNNING}."]
    assert flott.cluster.orders == [(RUNNING, CancelJob())]


def test_a_job_nobody_knows_has_an_exit_code_of_its_own(flott: CommandLine) -> None:
    for name in (UNKNOWN, "nobody"):
        result = flott("cancel", name)
        assert (result.exit_code, result.stdout) == (4, "")


def test_a_job_that_has_ended_cannot_be_cancelled(flott: CommandLine) -> None:
    result = flott("cancel", FINISHED)
    assert result.exit_code == 1
    assert "flott: " in result.stderr


def test_stopping_waits_for_the_savepoint_and_tells_its_path(flott: CommandLine) -> None:
    assert flott.lines("stop", "-p", "/s", "--drain", RUNNING) == ["Savepoint completed. Path: /s/savepoint-aaaaaa"]
    assert flott.cluster.orders == [(RUNNING, StopWithSavepoint(drain=True, target="/s"))]


def test_cancelling_with_a_savepoint_tells_where_it_is(flott: CommandLine) -> None:
    lines = flott.lines("cancel", "-s", "/s", RUNNING)
    assert lines == [f"Cancelled job {RUNNING}. Savepoint stored in /s/savepoint-aaaaaa."]
    flott.lines("cancel", "-s", RUNNING)
    assert [order[1].target for order in flott.cluster.orders] == ["/s", None]
    assert flott("cancel").exit_code == 2


# --- savepoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("savepoint", RUNNING, "/s"), ("savepoint", "create", RUNNING, "/s")])
def test_a_savepoint_is_taken_in_flinks_spelling_too(flott: CommandLine, words: tuple[str, ...]) -> None:
    assert flott.lines(*words) == ["Savepoint completed. Path: /s/savepoint-aaaaaa"]
    assert flott.cluster.orders == [(RUNNING, TakeSavepoint("/s"))]


def test_a_detached_savepoint_tells_how_to_ask_for_it(flott: CommandLine) -> None:
    (line,) = flott.lines("savepoint", "-detached", RUNNING)
    assert re.fullmatch(r"Successfully trigger manual savepoint, triggerId: [0-9a-f]{32}", line)


@pytest.mark.parametrize("words", [("--dispose", "/s/one"), ("-d", "/s/one"), ("dispose", "/s/one")])
def test_a_savepoint_is_disposed_of(flott: CommandLine, words: tuple[str, ...]) -> None:
    assert flott.lines("savepoint", *words) == ["Savepoint '/s/one' disposed."]
    assert flott.cluster.orders == [("dispose", "/s/one")]


def test_a_savepoint_that_fails_says_why(flott: CommandLine) -> None:
    result = flott("savepoint", FINISHED)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "flott: " in result.stderr


def test_a_checkpoint_can_be_asked_for(flott: CommandLine) -> None:
    (line,) = flott.lines("checkpoint", RUNNING)
    assert re.fullmatch(rf"Checkpoint\(CONFIGURED\) \d+ for job {RUNNING} completed\.", line)


# --- rescale, watermark, logs ----------------------------------------------------------------------------------------


def test_a_job_is_rescaled_and_so_is_one_operator(flott: CommandLine) -> None:
    flott.lines("rescale", RUNNING, "4")
    flott.lines("rescale", RUNNING, "2", "--operator", "out")
    assert flott.cluster.orders == [(RUNNING, RescaleJob(4)), (RUNNING, RescaleJob(2, "out"))]


def test_who_holds_event_time_back_is_told(flott: CommandLine) -> None:
    text = "\n".join(flott.lines("explain-watermark", RUNNING))
    assert "holds event time back" in text
    assert "Use with_idleness." in text
    assert "text" not in json.loads(flott("explain-watermark", RUNNING, "--json").stdout)


def write_log(cluster: Any, job: str, lines: list[tuple[str, str]]) -> None:
    folder = cluster.log_folder / "jobs" / job
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "job.log", "ab") as file:
        for level, message in lines:
            file.write(LogEntry("2023-11-14T22:13:20.000Z", level, "flott.job", message, job).encoded() + b"\n")


def test_the_log_of_a_job_is_shown_whole_from_its_end_or_by_level(flott: CommandLine) -> None:
    write_log(flott.cluster, RUNNING, [("INFO", "one"), ("WARNING", "two"), ("INFO", "three")])
    assert [line.rsplit(" ", 1)[-1] for line in flott.lines("logs", RUNNING)] == ["one", "two", "three"]
    assert [line.rsplit(" ", 1)[-1] for line in flott.lines("logs", RUNNING, "--tail", "1")] == ["three"]
    assert [line.rsplit(" ", 1)[-1] for line in flott.lines("logs", RUNNING, "--level", "warning")] == ["two"]


def test_following_a_job_that_has_ended_ends_with_its_last_line(flott: CommandLine) -> None:
    write_log(flott.cluster, FINISHED, [("INFO", "one"), ("INFO", "two")])
    assert [line.rsplit(" ", 1)[-1] for line in flott.lines("logs", "-f", "--tail", "1", FINISHED)] == ["two"]


class Growing:
    """A log that grows each time somebody looks, and a job that ends."""

    def __init__(self) -> None:
        self.pieces = ["one\n", "two\n", "", "three\n", ""]
        self.looks = 0

    def get(self, path: str) -> dict[str, str]:
        return {"status": "FINISHED" if len(self.pieces) <= 2 else "RUNNING"}

    def text_with_header(self, path: str, header: str, **query: Any) -> tuple[str, str]:
        assert query.get("offset") == (str(self.looks) if self.looks else None)
        piece = self.pieces.pop(0)
        self.looks += bool(piece)
        return piece, str(self.looks)


def test_following_shows_everything_that_is_said_until_the_job_has_ended() -> None:
    invocation = Invocation()
    invocation.__dict__["client"] = Growing()
    result = CliRunner().invoke(root, ["logs", "-f", RUNNING], obj=invocation)
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\nthree\n")


def test_the_log_of_the_jobmanager_is_shown(flott: CommandLine) -> None:
    flott.cluster.log_folder.mkdir(exist_ok=True)
    (flott.cluster.log_folder / "jobmanager.log").write_text("started\nready\n")
    assert flott.lines("logs", "jobmanager", "--tail", "1") == ["ready"]
    assert flott("logs", "jobmanager", "-f").exit_code == 2


# --- status, top, checkpoints ----------------------------------------------------------------------------------------


def test_the_status_of_a_job_shows_its_vertices_and_what_went_wrong(flott: CommandLine) -> None:
    text = "\n".join(flott.lines("status", RUNNING))
    assert "orders-window" in text
    assert re.search(r"sum -> Sink: print +2 +running +████······  40%", text)
    assert "ValueError: x is not a number" in text
    assert "checkpoint 7, " in " ".join(text.split())


def test_the_status_says_what_subtasks_wait_for(flott: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    job = flott.cluster.job(RUNNING)
    first, *others = job.vertices
    stuck = tuple(replace(one, waits_for="the pipelined job needs 2 cores") for one in first.subtasks)
    waiting = replace(job, vertices=(replace(first, subtasks=stuck), *others))
    monkeypatch.setattr(flott.cluster, "job", lambda ident: waiting)
    text = " ".join("\n".join(flott.lines("status", RUNNING)).split())
    assert f"waiting {first.name} (1/{first.parallelism}): the pipelined job needs 2 cores" in text
    found = json.loads(flott("status", RUNNING, "--json").stdout)
    assert len(found["vertices"][0]["waits"]) == len(stuck)


def test_the_status_as_json_has_the_same(flott: CommandLine) -> None:
    found = json.loads(flott("status", RUNNING, "--json").stdout)
    assert (found["state"], found["epoch"], found["vertices"][1]["busy"]) == ("RUNNING", 7, 0.4)
    assert found["last-failure"]["text"].startswith("ValueError")


def test_top_writes_plainly_where_there_is_no_terminal_and_ends_when_told(flott: CommandLine) -> None:
    text = "\n".join(flott.lines("top", RUNNING, "-n", "2", "-i", "0.1"))
    assert text.count("Source: numbers") == 2
    assert len(flott.lines("top", "--json", "-n", "2", "-i", "0.1")) == 2
    assert len(flott.lines("top", FINISHED)) > 3, "it has ended: there is nothing to wait for"


def test_checkpoints_are_a_table_with_a_failed_one_and_its_reason(flott: CommandLine) -> None:
    lines = flott.lines("checkpoints", RUNNING)
    assert lines[0] == "6 completed, 1 failed, 0 in progress"
    row = next(line for line in lines if line.startswith(" 7"))
    assert re.split(r"  +", row.strip())[4:8] == ["0.1 s", "1.0 KB", "4.0 KB", "50"]
    assert any("the disk is full" in line for line in lines)
    assert json.loads(flott("checkpoints", RUNNING, "--json").stdout)["counts"]["failed"] == 1


def test_state_of_a_job_whose_files_are_elsewhere_is_refused_with_the_place(flott: CommandLine) -> None:
    result = flott("state", "ls", RUNNING)
    assert (result.exit_code, "are in /c, which is not on this machine" in result.stderr) == (1, True)


def test_options_may_stand_behind_a_job_whose_plan_is_shown(flott: CommandLine, tmp_path: Path) -> None:
    for words in ((RUNNING, "--json"), ("--json", RUNNING)):
        assert len(json.loads(flott("info", *words).stdout)["nodes"]) == 2
    picture = tmp_path / "plan.svg"
    assert flott("info", RUNNING, "--svg", picture).exit_code == 0
    assert picture.exists()
    refused = flott("info", RUNNING, "--svg", tmp_path / "no" / "plan.svg")
    assert (refused.exit_code, "report it" in refused.stderr) == (1, False)
    assert "No such file or directory" in refused.stderr
    assert "Name a program, or one job" in flott("info", RUNNING, FINISHED).stderr
    assert "Name a program, or one job" in flott("info").stderr


def test_the_plan_of_a_job_is_printed_between_flinks_lines(flott: CommandLine) -> None:
    lines = flott.lines("info", RUNNING)
    assert (lines[0], lines[-1]) == ("----------------------- Execution Plan -----------------------", "-" * 62)
    assert len(json.loads("\n".join(lines[1:-1]))["nodes"]) == 2
