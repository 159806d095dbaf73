"""One fan-out to all listeners of a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.jobmaster.listener import JobListener, Listeners
from flott.testing.harness import in_process, live

CALLS = [name for name, _ in inspect.getmembers(JobListener, inspect.isfunction) if name.startswith("on_")]


class Noting(JobListener):
    """Notes every call, and fails afterwards if it is told to."""

    def __init__(self, fails: bool = False):
        self.calls: list[str] = []
        for name in CALLS:
            setattr(self, name, self._note(name, fails))

    def _note(self, name: str, fails: bool) -> Callable[..., None]:
        def note(*arguments: Any) -> None:
            self.calls.append(name)
            if fails:
                raise RuntimeError("a display that is broken")

        return note


@pytest.mark.parametrize("name", CALLS)
def test_every_call_reaches_all_listeners_although_one_fails(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert name in vars(Listeners), "a new call must be forwarded, too"
    broken, well = Noting(fails=True), Noting()
    parameters = list(inspect.signature(getattr(JobListener, name)).parameters)[1:]
    getattr(Listeners([broken, well]), name)(*(None for _ in parameters))
    assert broken.calls == well.calls == [name]
    assert "A listener of the job failed: Noting." in caplog.text


def test_a_job_finishes_although_a_listener_fails_every_time(tmp_path: Path) -> None:
    broken = Noting(fails=True)
    env = in_process(1)
    env.from_collection([1, 2]).print()
    assert live(env, tmp_path, listeners=[broken]).status is JobStatus.FINISHED
    assert {"on_graph", "on_status", "on_start", "on_epoch"} <= set(broken.calls)
