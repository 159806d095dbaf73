"""The golden programs of ``tests/programs`` on real Spark: the same programs, the same output."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from tests.programs import runner
from tests.programs.runner import Setting

#: Killed and recovered on Spark too. The others differ in what their tasks do, which is the same in-process.
KILLED_PROGRAMS = ["event_time_timers", "keyed_sum_two_sinks", "windows"]
#: Keyed state of every kind, timers, windows, operator state, joins: what a savepoint or another parallelism moves.
#: Two of them in every run of the tests, the others in ``make test-long``.
MOVED_PROGRAMS = [
    "kinds_of_state",
    "windows",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("broadcast_rules", "joins", "keyed_sum_two_sinks")),
]


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_straight_through_gives_the_golden_output(name: str, tmp_path: Path, spark: SparkContext) -> None:
    runner.straight_through(name, tmp_path, target="spark")
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", KILLED_PROGRAMS)
def test_killed_at_random_steps_and_recovered_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    assert runner.killed_and_recovered(name, tmp_path, target="spark", kills=1) == 1
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", KILLED_PROGRAMS)
def test_resumed_with_another_parallelism_gives_the_golden_output(
    name: str, tmp_path: Path, spark: SparkContext
) -> None:
    assert runner.stopped_and_resumed(name, tmp_path, target="spark", stop_at=("completed", 3))
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("name", MOVED_PROGRAMS)
def test_on_rocksdb_the_output_is_the_same(name: str, tmp_path: Path, spark: SparkContext) -> None:
    runner.straight_through(name, tmp_path, target="spark", backend="rocksdb")
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [(Setting(2, "hashmap"), Setting(3, "rocksdb")), (Setting(3, "rocksdb"), Setting(1, "hashmap", claim=True))],
    ids=["hashmap-2-to-rocksdb-3", "rocksdb-3-to-hashmap-1-claimed"],
)
@pytest.mark.parametrize("name", MOVED_PROGRAMS)
def test_stopped_with_a_savepoint_and_restored_otherwise_gives_the_golden_output(
    name: str, first: Setting, second: Setting, tmp_path: Path, spark: SparkContext
) -> None:
    path = runner.stopped_with_savepoint_and_restored(name, tmp_path, target="spark", first=first, second=second)
    assert runner.output(tmp_path) == runner.golden(name)
    assert path.exists() != second.claim
    assert runner.remains(tmp_path) == []


def test_another_job_goes_on_from_a_savepoint_taken_beside_the_first(tmp_path: Path, spark: SparkContext) -> None:
    name = "keyed_sum_two_sinks"
    path = runner.savepoint_beside(name, tmp_path, target="spark", setting=Setting(2))
    assert runner.output(tmp_path) == runner.golden(name)
    runner.begun_with_savepoint(name, tmp_path, path, target="spark", setting=Setting(3))
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", MOVED_PROGRAMS)
def test_rescaled_while_it_runs_gives_the_golden_output(
    name: str, backend: str, tmp_path: Path, spark: SparkContext
) -> None:
    runner.rescaled(name, tmp_path, target="spark", backend=backend)
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []
