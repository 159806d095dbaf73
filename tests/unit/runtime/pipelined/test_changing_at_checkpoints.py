"""A job that gets another parallelism or mode continues from a checkpoint behind which nothing was read: no loss.

Sources read on behind a barrier. An order that comes between a barrier and the end of its checkpoint must therefore
wait for the next one.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.jobmaster.execution_mode import JobMode
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.orders import RescaleJob
from flott.testing.clock import ManualClock
from flott.testing.harness import live
from flott.testing.sinks import Ledger
from flott.testing.sources import ScriptedSource
from tests.programs.slow_pipeline import SlowPipeline
from tests.unit.runtime.pipelined.test_pipelined_jobs import counting, expected_counts, pipelined

RECORDS = 600


class Hasty(ManualClock):
    """A clock that runs on whenever it is looked at, so that checkpoints become due."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


@pytest.mark.parametrize("step", ["planned", "ran", "completed", "committed"])
def test_a_job_that_is_rescaled_in_the_middle_of_a_checkpoint_loses_nothing(step: str, tmp_path: Path) -> None:
    ledger, clock = Ledger(f"rescaled-{step}"), Hasty()
    env = pipelined(2, "5 ms", flott__epoch__max_records="6")
    counting(env, ScriptedSource(list(range(RECORDS))), ledger)
    masters: list[JobMaster] = []
    answers: list[Any] = []

    def on_step(name: str, epoch: int) -> None:
        if (name, epoch) in ((step, 2), (step, 5)):
            answers.append(masters[0].submit(RescaleJob(3 if epoch == 2 else 1)))

    pipeline = SlowPipeline(clock)  # sources read on while the others have not reached the barrier
    life = live(env, tmp_path, clock=clock, pipeline=pipeline, on_step=on_step, on_start=masters.append)
    assert life.status is JobStatus.FINISHED, life.failure
    assert Counter(ledger.records) == expected_counts(RECORDS)
    assert [answer.result() for answer in answers] == [None, None]
    assert {epoch.parallelism for epoch in life.history.epochs} == {2, 3, 1}


def test_an_adaptive_job_that_changes_its_mode_in_the_middle_of_a_checkpoint_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, clock = Ledger("mode"), Hasty()
    env = pipelined(2, "5 ms", flott__epoch__max_records="6", execution__mode="adaptive")
    counting(env, ScriptedSource(list(range(RECORDS))), ledger)
    wants_change, modes = False, list[str]()

    def change(mode: JobMode) -> str:
        nonlocal wants_change
        wants_change = False
        mode.is_pipelined = not mode.is_pipelined
        modes.append(mode.present)
        return "the test wants it"

    def on_step(name: str, epoch: int) -> None:
        nonlocal wants_change
        if name == "planned" and epoch % 3 == 0:
            wants_change = True

    monkeypatch.setattr(JobMode, "is_leaving", lambda mode, now_ms, backlog: wants_change)
    monkeypatch.setattr(JobMode, "change", change)
    life = live(env, tmp_path, clock=clock, pipeline=SlowPipeline(clock), on_step=on_step)
    assert life.status is JobStatus.FINISHED, life.failure
    assert Counter(ledger.records) == expected_counts(RECORDS)
    assert modes[:4] == ["pipelined", "epochs", "pipelined", "epochs"]
