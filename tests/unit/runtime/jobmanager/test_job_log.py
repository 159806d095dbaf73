"""A job's log holds what its functions say, what becomes of it, and what its process logs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration
from flott.common.job_status import JobStatus
from flott.errors import JobFailedError
from flott.runtime.entrypoint import executors
from flott.runtime.jobmanager.processes.job_log import (
    JobLog,
    StructuredLog,
    configure_jobmanager_logging,
    log_process_to,
    open_job_log,
)
from flott.runtime.logs.capture import TaskCapture
from flott.runtime.logs.entry import LogFilter
from flott.runtime.logs.line import LogLimits, LogLine, TaskLog
from flott.runtime.logs.log_files import job_folder, list_logs, read_log
from flott.runtime.logs.rotation import RotatingFile, Rotation
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process
from tests.unit.runtime.jobmanager.jobs import await_status, counting, running, submit

JOB = "ab" * 16


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """As it was, afterwards."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in ("py4j", "httpx", "httpcore", "kazoo")}
    yield root
    root.setLevel(level)
    root.handlers[:] = handlers
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def job_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobLog]:
    """The log of every job of this process."""
    found = open_job_log(job_folder(tmp_path, JOB), JOB)
    monkeypatch.setattr(executors, "extra_listeners", [found.listener])
    yield found
    found.close()


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_what_a_function_prints_stands_between_the_events_of_the_job(job_log: JobLog, tmp_path: Path) -> None:
    env = in_process(parallelism=2)
    env.from_collection([7]).map(lambda value: print("got", value)).name("Say").print()
    env.execute("talk")
    folder = job_folder(tmp_path, JOB)
    found = entries(folder / "job.log")
    said = next(entry for entry in found if entry["message"] == "got 7")
    assert {key: said[key] for key in ("job", "level", "logger", "operator", "stream", "host", "task_manager")} == {
        "job": JOB, "level": "INFO", "logger": "stdout", "operator": "Say", "stream": "stdout", "host": "localhost",
        "task_manager": "in-process",
    }  # fmt: skip
    assert said["subtask"] in (0, 1)
    assert said["parallelism"] == 2
    messages = [entry["message"] for entry in found]
    assert messages.index("The job is RUNNING.") < messages.index("got 7") < messages.index("The job is FINISHED.")
    (line,) = read_log(folder, "job.log", wanted=LogFilter(operator="Say")).lines
    assert line.endswith(f"INFO    [Say ({said['subtask'] + 1}/2)] got 7")
    assert [file.name for file in list_logs(folder)] == ["job.log"]


def test_a_failure_is_told_with_its_card_and_what_was_said_before_it(job_log: JobLog, tmp_path: Path) -> None:
    def fail(value: int) -> int:
        print("about to fail")
        raise ValueError("no such luck")

    env = in_process(parallelism=1, restart_strategy__type="none")
    env.from_collection([7]).map(fail).name("Fail").print()
    with pytest.raises(JobFailedError):
        env.execute("fail")
    found = entries(job_folder(tmp_path, JOB) / "job.log")
    messages = [entry["message"] for entry in found]
    failure = next(entry for entry in found if entry["level"] == "ERROR")
    assert "ValueError: no such luck" in failure["message"]
    assert messages.index("about to fail") < messages.index(failure["message"])
    assert any(message.startswith("The job is FAILED") for message in messages)


def test_what_the_process_logs_comes_with_the_job_and_with_tracebacks(
    job_log: JobLog, tmp_path: Path, root_logger: logging.Logger
) -> None:
    log_process_to(job_log.handler, Configuration())
    logging.getLogger("shop").info("hello %s", "world")
    logging.getLogger("py4j.clientserver").info("chatter")
    try:
        raise KeyError("k")
    except KeyError:
        logging.getLogger("shop").exception("oh")
    job_log.handler.handle(logging.LogRecord("shop", logging.ERROR, "", 0, "%d", ("x",), None))
    hello, oh, unfit = entries(job_folder(tmp_path, JOB) / "job.log")
    assert (hello["message"], hello["job"], hello["logger"], hello["thread"]) == (
        "hello world", JOB, "shop", "MainThread",
    )  # fmt: skip
    assert oh["message"].startswith("oh\nTraceback")
    assert "do not fit" in unfit["message"]
    job_log.close()
    assert job_log.handler not in root_logger.handlers
    logging.getLogger("shop").error("too late")
    assert len(entries(job_folder(tmp_path, JOB) / "job.log")) == 3


def test_what_a_task_of_this_very_process_logs_is_not_written_twice(
    job_log: JobLog, tmp_path: Path, root_logger: logging.Logger
) -> None:
    log_process_to(job_log.handler, Configuration())

    def speak(value: int) -> int:
        logging.getLogger("shop").info("sold")
        return value

    env = in_process(parallelism=1)
    env.from_collection([7]).map(speak).name("Say").print()
    env.execute("talk")
    sold = [entry for entry in entries(job_folder(tmp_path, JOB) / "job.log") if entry["message"] == "sold"]
    assert [(entry["operator"], entry["logger"]) for entry in sold] == [("Say", "shop")]


def _tell(value: int) -> int:
    if value == 7:
        print("seven")
        logging.getLogger("shop").info("sold seven")
    return value


def test_the_job_of_a_jobmanager_has_its_lines_in_the_folder_of_its_logs(tmp_path: Path) -> None:
    with running(tmp_path / "cluster") as manager:
        job_id = submit(manager, counting(tmp_path / "out", records=20, change=_tell), "count")
        await_status(manager, job_id, JobStatus.FINISHED)
        found = read_log(job_folder(manager.log_folder, job_id), "job.log")
    said = [(entry.message, entry.operator, entry.job) for entry in found.entries if entry.operator is not None]
    assert said == [("seven", "Map", job_id), ("sold seven", "Map", job_id)]
    assert [entry.message for entry in found.entries if entry.message.startswith("The job is")][-1] == (
        "The job is FINISHED."
    )


def test_the_jobmanager_has_a_log_of_its_own_at_the_level_that_is_set(
    tmp_path: Path, root_logger: logging.Logger
) -> None:
    configuration = Configuration()
    configuration.set_string("env.log.level", "ERROR")
    handler = configure_jobmanager_logging(tmp_path, configuration)
    logging.getLogger("flott.cluster").warning("not this")
    logging.getLogger("flott.cluster").error("this")
    (only,) = entries(tmp_path / "jobmanager.log")
    assert only["message"] == "this"
    assert "job" not in only
    handler.close()


def test_files_rotate_as_configured(tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string("env.log.max", "3")
    configuration.set_string("flott.log.max-file-size", "64kb")
    log = open_job_log(tmp_path, JOB, configuration)
    lines = tuple(LogLine(0, "INFO", "stdout", f"{number:05} {'x' * 1000}") for number in range(500))
    log.listener.on_logs([TaskLog(1, 0, "a", "1", 7, lines)])
    log.close()
    files = list_logs(tmp_path)
    assert [file.name for file in files] == ["job.log", "job.log.1", "job.log.2"]
    assert all(file.size <= 65536 for file in files)
    last = read_log(tmp_path, "job.log", tail=2)
    assert [entry.message[:5] for entry in last.entries] == ["00498", "00499"]


def test_lines_that_could_not_be_written_are_told_as_soon_as_it_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = StructuredLog(tmp_path / "job.log", Rotation(), ManualClock(), JOB)

    def full(self: RotatingFile, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RotatingFile, "_write", full)
        for _ in range(3):
            log.handle(logging.LogRecord("x", logging.INFO, "", 0, "lost", (), None))
    log.handle(logging.LogRecord("x", logging.INFO, "", 0, "kept", (), None))
    log.close()
    assert [entry["message"] for entry in entries(tmp_path / "job.log")] == [
        "3 lines could not be written before this one.",
        "kept",
    ]


def test_lines_of_many_tasks_come_in_the_order_of_time(tmp_path: Path) -> None:
    log = open_job_log(tmp_path, JOB)

    def said(executor: str, *times: int) -> TaskLog:
        return TaskLog(1, 0, "a", executor, 7, tuple(LogLine(at, "INFO", "stdout", str(at)) for at in times))

    log.listener.on_logs([said("1", 5, 30), said("2", 1, 20)])
    log.close()
    assert [entry["message"] for entry in entries(tmp_path / "job.log")] == ["1", "5", "20", "30"]


def test_what_the_process_itself_prints_is_in_the_log_by_lines_and_only_once_if_a_task_said_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back afterwards
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    journal = open_job_log(tmp_path, "ab" * 16)
    journal.take_over_streams(echo=True)
    print("one")
    sys.stdout.write("two, be")
    sys.stdout.write("gun\nthree, not over")
    print("four", file=sys.stderr)
    capture = TaskCapture(LogLimits())
    with capture:
        print("said by a task")
    journal.close()
    written = [json.loads(line) for line in (tmp_path / "job.log").read_text().splitlines()]
    assert [(entry["stream"], entry["message"]) for entry in written] == [
        ("stdout", "one"),
        ("stdout", "two, begun"),
        ("stderr", "four"),
    ]
    assert [line.message for line in capture.lines()] == ["said by a task"]
    monkeypatch.undo()
    assert "three, not over" in capsys.readouterr().out, "it is seen as well"
