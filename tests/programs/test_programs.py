"""Every golden program gives the golden output, whatever happens to it on the way."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.programs import runner
from tests.programs.runner import Setting


def in_turn(variants: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return all programs with all variants: a third runs always, each variant with some programs; others are long."""
    return [
        pytest.param(name, *variant, marks=() if (program + number) % 3 == 0 else pytest.mark.long)
        for program, name in enumerate(runner.PROGRAMS)
        for number, variant in enumerate(variants)
    ]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_straight_through_gives_the_golden_output(name: str, parallelism: int, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, parallelism=parallelism)
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_straight_through_on_rocksdb_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, backend="rocksdb")
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_killed_at_random_steps_and_recovered_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    died = runner.killed_and_recovered(name, tmp_path)
    assert died > 0
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "parallelisms", "step"),
    in_turn([*product([(2, 3), (4, 1), (1, 4)], ["planned", "ran", "completed", "committed"])]),
)
def test_stopped_and_resumed_with_another_parallelism_gives_the_golden_output(
    name: str, parallelisms: tuple[int, int], step: str, tmp_path: Path
) -> None:
    assert runner.stopped_and_resumed(name, tmp_path, stop_at=(step, 3), parallelisms=parallelisms)
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "first", "second", "native"),
    in_turn(
        [
            (*settings, native)
            for settings in (
                (Setting(2, "hashmap"), Setting(3, "rocksdb")),
                (Setting(4, "rocksdb"), Setting(1, "hashmap")),
                (Setting(1, "hashmap"), Setting(4, "hashmap", claim=True)),
            )
            for native in (False, True)
        ]
    ),
)
def test_stopped_with_a_savepoint_and_restored_otherwise_gives_the_golden_output(
    name: str, first: Setting, second: Setting, native: bool, tmp_path: Path
) -> None:
    path = runner.stopped_with_savepoint_and_restored(name, tmp_path, first=first, second=second, native=native)
    assert runner.output(tmp_path) == runner.golden(name)
    assert path.exists() != second.claim
    if native and path.exists():
        shutil.rmtree(tmp_path / "checkpoints")  # where the files are that it refers to
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_a_savepoint_beside_changes_nothing_and_another_job_goes_on_from_it(name: str, tmp_path: Path) -> None:
    path = runner.savepoint_beside(name, tmp_path, setting=Setting(2))
    assert runner.output(tmp_path) == runner.golden(name)
    runner.begun_with_savepoint(name, tmp_path, path, setting=Setting(3))
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_rescaled_while_it_runs_gives_the_golden_output(name: str, backend: str, tmp_path: Path) -> None:
    runner.rescaled(name, tmp_path, backend=backend)
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []
