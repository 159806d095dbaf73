"""The Spark application that runs the tasks of all jobs, with a stand-in for Spark: it is never left behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from flott.common import Configuration
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.task_resources import SparkApplication
from flott.runtime.spark.application import SparkReading
from tests.unit.runtime.jobmanager.jobs import wait_for


class Application:
    """Stands for Spark's."""

    made: ClassVar[list[Application]] = []
    on_start: ClassVar[Callable[[], object]] = lambda: None

    def __init__(self, settings: dict[str, str], log_file: Path):
        self.address = f"address {len(self.made)}"
        self.executors = SimpleNamespace(read=lambda: SparkReading(()), can_grow=lambda: False, ordered=lambda: 0)
        self.stopped = False
        self.made.append(self)
        type(self).on_start()

    def is_alive(self) -> bool:
        return not self.stopped

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkApplication:
    monkeypatch.setattr(Application, "made", [])
    monkeypatch.setattr(Application, "on_start", lambda: None)
    session = SimpleNamespace(log_file_in=lambda folder: Path(folder, "spark.log"))
    monkeypatch.setitem(sys.modules, "flott.runtime.spark.session", session)
    monkeypatch.setitem(sys.modules, "flott.runtime.spark.sharing", SimpleNamespace(SharedApplication=Application))
    return SparkApplication(Configuration.of({"flott.log.max-file-size": "64kb"}), tmp_path, SystemClock())


def test_what_spark_prints_is_bounded(application: SparkApplication, tmp_path: Path):
    application.bound_output()  # there is none yet
    application.start()
    (tmp_path / "spark.log").write_bytes(b"x" * 60_000)
    application.bound_output()
    assert (tmp_path / "spark.log").stat().st_size == 60_000
    (tmp_path / "spark.log").write_bytes(b"x" * 70_000)
    application.bound_output()
    assert [(tmp_path / name).stat().st_size for name in ("spark.log", "spark.log.1")] == [0, 65_536]
    application.close()


def test_an_application_that_has_died_is_followed_by_another(application: SparkApplication):
    application.start()
    Application.made[0].stopped = True
    assert not application.is_alive()
    application.restart()
    assert application.is_alive()
    assert application.address == "address 1"
    application.close()
    assert all(made.stopped for made in Application.made)


def test_an_application_that_is_being_started_when_the_jobmanager_ends_is_ended_too(
    application: SparkApplication, monkeypatch: pytest.MonkeyPatch
):
    application.start()
    starting, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(Application, "on_start", lambda: (starting.set(), go_on.wait(120)))
    restarting = threading.Thread(target=application.restart)
    restarting.start()
    assert starting.wait(120)
    closing = threading.Thread(target=application.close)
    closing.start()
    wait_for(lambda: application.closed)
    go_on.set()
    for thread in (restarting, closing):
        thread.join(120)
    assert [made.stopped for made in Application.made] == [True, True]
    assert not [thread for thread in threading.enumerate() if thread.name == "resource-manager"]


def test_no_application_is_started_for_a_jobmanager_that_has_ended(application: SparkApplication):
    application.start()
    application.close()
    application.restart()
    assert len(Application.made) == 1
