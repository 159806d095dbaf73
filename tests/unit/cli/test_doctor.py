"""``flott doctor``: each check with what it may find."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from flott.cli import diagnosis
from flott.cli.diagnosis import Diagnosis, Verdict
from flott.common.configuration import Configuration
from flott.errors import UnreachableError
from flott.runtime.clock import SystemClock
from tests.unit.cli.conftest import Ran
from tests.unit.cli.fake_jobmanager import FakeJobManager

Cli = Callable[..., Ran]
OK, WARN, WRONG = Verdict.OK, Verdict.WARN, Verdict.WRONG


class SlowClock:
    """Every look at it takes 30 ms; its day is another one."""

    def __init__(self, now_ms: int = 1_900_000_000_000):
        self._now_ms, self._seconds = now_ms, 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        self._seconds += 0.03
        return self._seconds

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        return False


def java(folder: Path, version: str) -> dict[str, str]:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("17.0.9", OK), ("21", OK), ("25.0.1", OK), ("1.8.0_392", WRONG), ("11.0.2", WRONG), ("19.0.1", WRONG)],
)
def test_java_17_and_21_and_later_will_do(tmp_path: Path, version: str, verdict: Verdict) -> None:
    found = diagnosis.java(java(tmp_path, version))
    assert found.verdict is verdict
    assert version in found.found
    assert bool(found.fix) is (verdict is WRONG)


def test_no_java_and_a_java_home_without_one_are_wrong(tmp_path: Path) -> None:
    assert "JAVA_HOME is not set" in diagnosis.java({"PATH": str(tmp_path)}).found
    missing = diagnosis.java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": "/usr/bin"})
    assert missing.verdict is WRONG
    assert "cannot be started" in missing.found


def verdicts(found: list[Diagnosis]) -> dict[str, Verdict]:
    return {entry.check: entry.verdict for entry in found}


def test_a_missing_extra_matters_if_the_configuration_needs_it() -> None:
    def version_of(package: str) -> str | None:
        return {"pyspark": "4.3.0"}.get(package, None if package in ("kazoo", "rocksdict", "uvicorn") else "1.0")

    plain = verdicts(list(diagnosis.packages(Configuration(), version_of)))
    assert plain["packages"] is OK
    assert plain["extra rocksdb"] is OK
    assert plain["extra cluster"] is WARN
    needed = Configuration.of({"state.backend.type": "rocksdb", "high-availability.type": "zookeeper"})
    found = verdicts(list(diagnosis.packages(needed, version_of)))
    assert (found["extra rocksdb"], found["extra zookeeper"]) == (WRONG, WRONG)


def test_a_core_package_that_is_missing_or_another_spark_is_wrong() -> None:
    found = verdicts(list(diagnosis.packages(Configuration(), {"pyspark": "3.5.1"}.get)))
    assert (found["packages"], found["pyspark"]) == (WRONG, WRONG)
    assert diagnosis.python((3, 10, 4)).verdict is WRONG


def test_a_folder_is_tried_out_even_before_it_is_there(tmp_path: Path) -> None:
    found = diagnosis.folder("cluster folder", tmp_path / "a" / "b", SystemClock())
    assert found.verdict is not WRONG
    assert "a durable write takes" in found.found
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_wrong() -> None:
    found = diagnosis.folder("cluster folder", Path("/proc/flott"), SystemClock())
    assert found.verdict is WRONG
    assert found.fix.startswith("chown or chmod /proc")


def test_a_folder_whose_clock_is_another_one_is_a_warning(tmp_path: Path) -> None:
    found = diagnosis.folder("checkpoints", tmp_path, SlowClock(now_ms=1))
    assert found.verdict is WARN
    assert "its clock differs" in found.found


def test_memory_is_what_the_container_may_use(tmp_path: Path) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    assert diagnosis.memory(meminfo, limit) == Diagnosis("memory", OK, "7.6 GB available")
    limit.write_text("536870912\n")
    assert diagnosis.memory(meminfo, limit).verdict is WARN
    limit.write_text("max\n")
    assert diagnosis.memory(meminfo, limit).verdict is OK


def test_few_open_files_are_a_warning() -> None:
    assert diagnosis.limits((1024, 4096)).verdict is WARN
    assert diagnosis.limits((65536, 65536)).verdict is OK


def test_a_clock_of_long_ago_is_wrong() -> None:
    assert diagnosis.machine_clock(SlowClock(now_ms=1)).verdict is WRONG


def test_a_port_that_somebody_has_is_a_warning(home: Path, jobmanager: FakeJobManager) -> None:
    taken = int(jobmanager.address.rpartition(":")[2])
    settings = {"rest.port": taken, "rest.bind-address": "127.0.0.1"}
    assert diagnosis.port(Configuration.of(settings)).verdict is WARN
    assert diagnosis.port(Configuration.of({"rest.port": 0})).verdict is OK


def test_a_session_matters_if_one_is_meant() -> None:
    def silent() -> object:
        raise UnreachableError("No JobManager answers.")

    assert diagnosis.session(lambda: "http://x:1", named=True) == Diagnosis("session", OK, "http://x:1 answers")
    assert diagnosis.session(silent, named=False).verdict is OK
    assert diagnosis.session(silent, named=True).verdict is WRONG


def test_a_job_on_spark_that_fails_is_shown_with_its_last_lines() -> None:
    assert diagnosis.spark(SystemClock(), "pass").verdict is OK
    failed = diagnosis.spark(SystemClock(), "raise ValueError('no Java here')")
    assert failed.verdict is WRONG
    assert "ValueError: no Java here" in failed.found


def test_the_report_tells_all_and_fails_if_something_is_wrong(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in java(tmp_path / "jdk", "17.0.1").items():
        monkeypatch.setenv(name, text)
    ran = cli("doctor", "--json")
    assert ran.code == 0, ran.out
    checks = [finding["check"] for finding in ran.document["findings"]]
    assert {"configuration", "python", "packages", "java", "cluster folder", "memory", "ulimit", "session"} <= {*checks}
    (tmp_path / "flott.yaml").write_text("rest.prt: 1\nrest.port: x\n")
    ran = cli("doctor")
    assert ran.code == 1
    assert ran.out.count("wrong ") == 2
    assert "flott.yaml:1: Unknown option 'rest.prt'" in ran.out
    assert f"({sys.executable})" in ran.out


def test_a_wrong_environment_does_not_keep_the_doctor_from_looking(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOTT_REST_PROT", "1")
    ran = cli("doctor", "--json")
    assert (ran.code, ran.document["verdict"]) == (1, "wrong")
    assert len(ran.document["findings"]) > 8


def test_a_token_that_cannot_be_sent_does_not_keep_the_doctor_from_looking(cli: Cli) -> None:
    ran = cli("doctor", "--json", "-D", "flott.rest.token=two words", "-D", "rest.port=1")
    found = {finding["check"]: finding for finding in ran.document["findings"]}
    assert (ran.code, found["session"]["verdict"]) == (1, "wrong")
    assert "one line of ASCII" in found["session"]["found"]


def test_another_server_where_the_session_should_be_is_found(cli: Cli, jobmanager: FakeJobManager) -> None:
    jobmanager.answers["GET /overview"] = {"hello": 1}
    session = cli("doctor", "--json", "-m", jobmanager.address).document["findings"][-1]
    assert (session["check"], session["verdict"]) == ("session", "wrong")
    assert "that is no JobManager" in session["found"]
