"""Every golden program gives the golden output, whatever happens to it on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import runner


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_straight_through_gives_the_golden_output(name: str, parallelism: int, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, parallelism=parallelism)
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_killed_at_random_steps_and_recovered_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    died = runner.killed_and_recovered(name, tmp_path)
    assert died > 0
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("step", ["planned", "ran", "completed", "committed"])
@pytest.mark.parametrize("parallelisms", [(2, 3), (4, 1), (1, 4)])
@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_stopped_and_resumed_with_another_parallelism_gives_the_golden_output(
    name: str, parallelisms: tuple[int, int], step: str, tmp_path: Path
) -> None:
    assert runner.stopped_and_resumed(name, tmp_path, stop_at=(step, 3), parallelisms=parallelisms)
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []
