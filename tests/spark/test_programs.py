"""The golden programs of ``tests/programs`` on real Spark: the same programs, the same output."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from tests.programs import runner

#: Killed and recovered on Spark too. The others differ in what their tasks do, which is the same in-process.
KILLED_PROGRAMS = ["event_time_timers", "keyed_sum_two_sinks", "windows"]


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_straight_through_gives_the_golden_output(name: str, tmp_path: Path, spark: SparkContext) -> None:
    runner.straight_through(name, tmp_path, target="spark")
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", KILLED_PROGRAMS)
def test_killed_at_random_steps_and_recovered_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    assert runner.killed_and_recovered(name, tmp_path, target="spark", kills=2) == 2
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", KILLED_PROGRAMS)
def test_resumed_with_another_parallelism_gives_the_golden_output(
    name: str, tmp_path: Path, spark: SparkContext
) -> None:
    assert runner.stopped_and_resumed(name, tmp_path, target="spark", stop_at=("completed", 3))
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []
