"""Between the end of a checkpoint and the next barrier there is the minimal pause, however short the interval is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.testing.harness import live
from flott.testing.sinks import Ledger
from flott.testing.sources import ScriptedSource
from tests.programs.slow_pipeline import SlowPipeline
from tests.unit.runtime.pipelined.test_changing_at_checkpoints import Hasty
from tests.unit.runtime.pipelined.test_pipelined_jobs import counting, expected_counts, pipelined

RECORDS, PAUSE_MS = 2_000, 60


@pytest.mark.parametrize("unaligned", ["false", "true"])
def test_checkpoints_of_a_pipelined_job_keep_the_minimal_pause(unaligned: str, tmp_path: Path) -> None:
    ledger, clock = Ledger(f"pause-{unaligned}"), Hasty()
    env = pipelined(
        2, "1 ms", flott__epoch__max_records="6", execution__checkpointing__min_pause=f"{PAUSE_MS} ms",
        execution__checkpointing__unaligned__enabled=unaligned,
    )  # fmt: skip
    counting(env, ScriptedSource(list(range(RECORDS))), ledger)
    steps: list[tuple[str, int]] = []
    life = live(
        env, tmp_path, clock=clock, pipeline=SlowPipeline(clock),
        on_step=lambda step, epoch: steps.append((step, clock.now_ms())),
    )  # fmt: skip
    assert life.status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected_counts(RECORDS)
    times = [(step, at) for step, at in steps if step in ("planned", "committed")]
    pauses = [after[1] - before[1] for before, after in pairwise(times) if before[0] == "committed"]
    assert len(pauses) > 5
    assert min(pauses[:-1]) >= PAUSE_MS, "the last one does not wait: the input has ended"
