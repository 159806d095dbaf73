"""Every golden program gives the golden output when it runs pipelined, whatever happens to it on the way.

In-process, the tasks of a pipelined job run one after the other, so its records come in the order of epochs. What may
differ is what depends on when event time advances, or on the order of two inputs:

- A watermark passes on within a round. With several channels a record may therefore be late that is not late in epochs.
  ``windows`` has such records, so it is compared with one channel.
- Broadcast records of a round are not processed before others. ``broadcast_rules`` refuses one payment less.
- Tables emit updates as records come. Of a changelog the sum of all changes is compared.
- A rule takes effect when it arrives. Which events of ``pattern_rules`` it meets depends on the parallelism, so this
  program is not compared; ``patterns`` is.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.programs import runner
from tests.programs.runner import Setting

#: (lines in the golden file only, lines in the output only)
EXPECTED_DIFFERENCES = {
    "broadcast_rules": ({"refused\t('eve', 1, 22)"}, {"alarms\teve spent 91 of 50 at 22"}),
}
ONE_CHANNEL = {"windows"}
#: Programs whose processes are killed in every run of the tests; the others take their turn in ``make test-long``.
ALWAYS_KILLED = {"keyed_sum_two_sinks", "windows"}
PROGRAMS = [name for name in runner.PROGRAMS if name != "pattern_rules"]
KILLED = [pytest.param(name, marks=() if name in ALWAYS_KILLED else pytest.mark.long) for name in PROGRAMS]
SEVERAL_CHANNELS = [name for name in PROGRAMS if name not in ONE_CHANNEL]


def assert_golden(name: str, folder: Path) -> None:
    expected, found = Counter(runner.golden(name)), Counter(runner.output(folder))
    if name == "tables":
        expected, found = _net(expected), _net(found)
    missing, added = EXPECTED_DIFFERENCES.get(name, (set(), set()))
    assert dict(expected - found) == dict.fromkeys(missing, 1)
    assert dict(found - expected) == dict.fromkeys(added, 1)
    assert runner.remains(folder) == []


def _net(lines: Counter[str]) -> Counter[str]:
    """Return what a changelog amounts to."""
    net: Counter[str] = Counter()
    for line, count in lines.items():
        sink, _, record = line.partition("\t")
        kind, _, row = record.partition(" ")
        if kind in ("+I", "+U", "-U", "-D"):
            net[f"{sink}\t{row}"] += count if kind.startswith("+") else -count
        else:
            net[line] += count
    return Counter({line: count for line, count in net.items() if count})


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pipelined_job_gives_the_golden_output(name: str, parallelism: int, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, parallelism=1 if name in ONE_CHANNEL else parallelism, mode="pipelined")
    assert_golden(name, tmp_path)


@pytest.mark.parametrize("name", SEVERAL_CHANNELS)
def test_a_pipelined_job_on_rocksdb_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, backend="rocksdb", mode="pipelined")
    assert_golden(name, tmp_path)


@pytest.mark.parametrize("name", KILLED)
def test_a_pipelined_job_killed_at_random_steps_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    parallelism = 1 if name in ONE_CHANNEL else 2
    assert runner.killed_and_recovered(name, tmp_path, parallelism=parallelism, modes=["pipelined"]) > 0
    assert_golden(name, tmp_path)


@pytest.mark.parametrize(("parallelisms", "step"), [((2, 3), "completed"), ((4, 1), "planned")])
@pytest.mark.parametrize("name", SEVERAL_CHANNELS)
def test_a_pipelined_job_resumed_with_another_parallelism_gives_the_golden_output(
    name: str, parallelisms: tuple[int, int], step: str, tmp_path: Path
) -> None:
    modes = ("pipelined", "pipelined")
    assert runner.stopped_and_resumed(name, tmp_path, stop_at=(step, 2), parallelisms=parallelisms, modes=modes)
    assert_golden(name, tmp_path)


@pytest.mark.parametrize("name", SEVERAL_CHANNELS)
def test_a_pipelined_job_rescaled_while_it_runs_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    runner.rescaled(name, tmp_path, parallelisms=(2, 4, 1), mode="pipelined")
    assert_golden(name, tmp_path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Setting(2, "hashmap", mode="pipelined"), Setting(3, "rocksdb", mode="pipelined")),
        (Setting(3, "rocksdb", mode="epochs"), Setting(2, "hashmap", mode="pipelined")),
        (Setting(1, "hashmap", mode="pipelined"), Setting(4, "hashmap", mode="epochs")),
    ],
    ids=["pipelined", "epochs-to-pipelined", "pipelined-to-epochs"],
)
@pytest.mark.parametrize("name", SEVERAL_CHANNELS)
def test_a_savepoint_of_one_mode_is_continued_in_the_other(
    name: str, first: Setting, second: Setting, tmp_path: Path
) -> None:
    runner.stopped_with_savepoint_and_restored(name, tmp_path, first=first, second=second, at=("ran", 2))
    if name not in EXPECTED_DIFFERENCES:  # there the difference depends on where the modes change
        assert_golden(name, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "kinds_of_state" else pytest.mark.long)
        for name in SEVERAL_CHANNELS
        if name not in EXPECTED_DIFFERENCES
    ],
)
def test_a_killed_job_that_changes_its_mode_every_time_gives_the_golden_output(name: str, tmp_path: Path) -> None:
    assert runner.killed_and_recovered(name, tmp_path, seed=1, kills=5, modes=["epochs", "pipelined"]) > 0
    assert_golden(name, tmp_path)
