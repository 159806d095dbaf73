"""Every golden program gives the golden output when it runs pipelined, whatever happens to it on the way.

In-process, the tasks of a pipelined job run one after the other, so its records come in the order of epochs. What may
differ is what depends on when event time advances, or on the order of two inputs:

- A watermark passes on within a round. With several channels a record may therefore be late that is not late in epochs.
  ``windows`` has such records.
- Broadcast records of a round are not processed before others. ``broadcast_rules`` refuses one payment less, or others
  if it changes its mode on the way.
- Tables emit updates as records come.
- A rule takes effect when it arrives. Which events of ``pattern_rules`` it meets depends on the parallelism.

With unaligned checkpoints, tasks work so slowly that records wait between them (``SlowPipeline``), so a task takes its
channels in another order. Where the result depends on it, what ``order_free`` says of every output is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from flott.runtime.managed_state.files.channel_file import QueueEnd
from tests.programs import order_free, runner
from tests.programs.runner import UNALIGNED, Setting
from tests.programs.slow_pipeline import SlowPipeline

PIPELINED, EPOCHS = "pipelined", "epochs"
#: (lines in the golden file only, lines in the output only), if the job runs pipelined from its beginning to its end
EXPECTED_DIFFERENCES = {
    "broadcast_rules": ({"refused\t('eve', 1, 22)"}, {"alarms\teve spent 91 of 50 at 22"}),
}
#: Whose result depends on the order of several channels, and on that of two inputs that come through one.
BY_CHANNELS = {"windows", "joins", "patterns", "event_time_timers", "keyed_sum_two_sinks"}
BY_INPUTS = {"broadcast_rules", "connected_streams"}
#: Programs that end soon, in few checkpoints: their barriers wait behind broadcast records, or they have few records.
SHORT = {"partitioners", "broadcast_rules", "pattern_rules"}
#: With one, three or four subtasks some of its edges are forward, and those cannot take back what was overtaken.
ONLY_AT = {"diamond_and_union": {1: 2, 2: 2, 3: 5, 4: 5}}


def variants(*lists: Sequence[Any], of: int = 3) -> list[Any]:
    """Return all programs with all variants. One of so many runs always, each variant with some programs."""
    return [
        pytest.param(name, *variant, marks=() if (program + number) % of == 0 else pytest.mark.long)
        for program, name in enumerate(runner.PROGRAMS)
        for number, variant in enumerate(product(*lists))
    ]


def settings(name: str, *described: tuple[int, str, str]) -> list[Setting]:
    """Return settings by parallelism, backend and mode, as a program allows them."""
    narrowed = ONLY_AT.get(name, {}) if any(mode == UNALIGNED for _, _, mode in described) else {}
    return [Setting(narrowed.get(wide, wide), backend, mode=mode) for wide, backend, mode in described]


def assert_output(name: str, folder: Path, modes: Sequence[str], parallelism: int) -> None:
    """Assert that the output is the golden one, or what it must be in another order. ``parallelism``: the highest."""
    found = runner.output(folder)
    if name in ("pattern_rules", "tables") or _has_other_order(name, modes, parallelism):
        order_free.assert_order_free(name, found)
    else:
        missing, added = EXPECTED_DIFFERENCES.get(name, (set(), set()))
        expected = Counter(runner.golden(name))
        assert dict(expected - Counter(found)) == dict.fromkeys(missing, 1)
        assert dict(Counter(found) - expected) == dict.fromkeys(added, 1)
    assert runner.remains(folder) == []


def _has_other_order(name: str, modes: Sequence[str], parallelism: int) -> bool:
    if UNALIGNED in modes and (name in BY_INPUTS or (name in BY_CHANNELS and parallelism > 1)):
        return True
    return (name == "windows" and parallelism > 1) or (name == "broadcast_rules" and EPOCHS in modes)


@pytest.fixture
def saved_buffers() -> Iterator[Counter[QueueEnd]]:
    """Return which buffers became part of checkpoints in this process."""
    SlowPipeline.saved.clear()
    yield SlowPipeline.saved
    runner.use_pipeline(PIPELINED)


def _killed(name: str, folder: Path, **options: Any) -> int:
    return runner.killed_and_recovered(name, folder, within=5 if name in SHORT else 14, **options)


# --- one mode ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_a_pipelined_job_gives_the_golden_output(name: str, parallelism: int, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, parallelism=parallelism, mode=PIPELINED)
    assert_output(name, tmp_path, [PIPELINED], parallelism)


@pytest.mark.parametrize(("name", "parallelism"), variants([2, 1]))
def test_a_pipelined_job_on_rocksdb_gives_the_golden_output(name: str, parallelism: int, tmp_path: Path) -> None:
    runner.straight_through(name, tmp_path, parallelism=parallelism, backend="rocksdb", mode=PIPELINED)
    assert_output(name, tmp_path, [PIPELINED], parallelism)


@pytest.mark.parametrize(("name", "parallelism", "backend"), variants([2, 1], ["hashmap", "rocksdb"]))
def test_a_job_with_unaligned_checkpoints_gives_the_golden_output(
    name: str, parallelism: int, backend: str, saved_buffers: Counter[QueueEnd], tmp_path: Path
) -> None:
    runner.straight_through(name, tmp_path, parallelism=parallelism, backend=backend, mode=UNALIGNED)
    assert_output(name, tmp_path, [UNALIGNED], parallelism)
    assert saved_buffers or parallelism == 1 or name == "pattern_rules"  # where edges are forward, or broadcast


@pytest.mark.parametrize(
    ("name", "mode", "backend", "parallelism"),
    variants([PIPELINED, UNALIGNED], ["hashmap", "rocksdb"], [2, 1], of=10),
)
def test_a_pipelined_job_killed_at_random_steps_gives_the_golden_output(
    name: str, mode: str, backend: str, parallelism: int, tmp_path: Path
) -> None:
    assert _killed(name, tmp_path, parallelism=parallelism, backend=backend, modes=[mode])
    assert_output(name, tmp_path, [mode], parallelism)


@pytest.mark.parametrize(
    ("name", "mode", "backend", "parallelisms", "step"),
    variants([PIPELINED, UNALIGNED], ["hashmap", "rocksdb"], [(2, 3), (4, 1)], ["planned", "completed"], of=4),
)
def test_a_pipelined_job_resumed_with_another_parallelism_gives_the_golden_output(
    name: str, mode: str, backend: str, parallelisms: tuple[int, int], step: str,
    saved_buffers: Counter[QueueEnd], tmp_path: Path,
) -> None:  # fmt: skip
    first, second = settings(name, *((wide, backend, mode) for wide in parallelisms))
    assert runner.stopped_and_resumed(
        name, tmp_path, stop_at=(step, 2), parallelisms=(first.parallelism, second.parallelism), modes=(mode, mode),
        backend=backend,
    )  # fmt: skip
    assert_output(name, tmp_path, [mode], 4)


#: With unaligned checkpoints, short programs end with the second one, where they would have another parallelism.
RESCALED = [
    param
    for param in variants([PIPELINED, UNALIGNED], ["hashmap", "rocksdb"])
    if not (param.values[0] in SHORT and param.values[1] == UNALIGNED)
]


@pytest.mark.parametrize(("name", "mode", "backend"), RESCALED)
def test_a_pipelined_job_rescaled_while_it_runs_gives_the_golden_output(
    name: str, mode: str, backend: str, saved_buffers: Counter[QueueEnd], tmp_path: Path
) -> None:
    described = [(n, backend, mode) for n in (2, 4, 1)]
    wide = [setting.parallelism for setting in settings(name, *described)]
    runner.rescaled(name, tmp_path, parallelisms=wide, backend=backend, mode=mode)
    assert_output(name, tmp_path, [mode], 4)


# --- several modes -----------------------------------------------------------------------------------------------

ROUTES = [
    [(2, "hashmap", EPOCHS), (3, "rocksdb", PIPELINED), (2, "hashmap", EPOCHS)],
    [(3, "rocksdb", PIPELINED), (2, "hashmap", EPOCHS), (1, "rocksdb", PIPELINED)],
    [(2, "hashmap", UNALIGNED), (2, "rocksdb", EPOCHS), (1, "rocksdb", UNALIGNED)],
    [(2, "rocksdb", UNALIGNED), (3, "rocksdb", PIPELINED), (4, "hashmap", EPOCHS)],
    [(2, "hashmap", PIPELINED), (4, "hashmap", UNALIGNED), (2, "rocksdb", EPOCHS)],
]
ROUTE_NAMES = ["-".join(mode for _, _, mode in route) for route in ROUTES]


def routes(of: int = 3) -> list[Any]:
    """Return all programs on all routes."""
    return [
        pytest.param(name, route, id=f"{name}-{by_name}", marks=() if (p + r) % of == 0 else pytest.mark.long)
        for p, name in enumerate(runner.PROGRAMS)
        for r, (route, by_name) in enumerate(zip(ROUTES, ROUTE_NAMES, strict=True))
    ]


@pytest.mark.parametrize(("name", "route"), routes())
def test_a_job_that_changes_its_mode_at_checkpoints_gives_the_golden_output(
    name: str, route: list[tuple[int, str, str]], saved_buffers: Counter[QueueEnd], tmp_path: Path
) -> None:
    each = 1 if name in SHORT else 2
    assert runner.changed_at_checkpoints(name, tmp_path, settings(name, *route), each=each) == 2
    assert_output(name, tmp_path, [mode for _, _, mode in route], 4)


@pytest.mark.parametrize(("name", "route"), routes())
def test_a_job_that_changes_its_mode_by_savepoints_gives_the_golden_output(
    name: str, route: list[tuple[int, str, str]], saved_buffers: Counter[QueueEnd], tmp_path: Path
) -> None:
    step = "planned" if name in SHORT else "completed"
    taken = runner.changed_by_savepoints(name, tmp_path, settings(name, *route), step=step)
    assert taken == 2 or name == "partitioners", "the savepoints were not in the middle"
    assert_output(name, tmp_path, [mode for _, _, mode in route], 4)


@pytest.mark.parametrize(
    ("name", "modes", "backend"),
    variants([(EPOCHS, PIPELINED), (UNALIGNED, EPOCHS, PIPELINED)], ["hashmap", "rocksdb"], of=10),
)
def test_a_killed_job_that_changes_its_mode_every_time_gives_the_golden_output(
    name: str, modes: tuple[str, ...], backend: str, tmp_path: Path
) -> None:
    assert _killed(name, tmp_path, seed=1, kills=5, backend=backend, modes=modes)
    assert_output(name, tmp_path, modes, 2)
