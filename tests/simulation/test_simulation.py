"""Some seeds of the simulation here, thousands with ``make simulation``; and that it would notice a defect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flott.runtime.checkpoint.registry import SharedRegistry
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.epoch import local_runner
from flott.runtime.jobmaster import compactor as compaction
from flott.runtime.jobmaster import retained
from flott.runtime.jobmaster.commits import SinkCommits
from flott.runtime.jobmaster.compactor import Compaction
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.file_sequence import StateFile
from tests.simulation.simulation import SeedFailed, digest, run_seed

ROOT = Path(__file__).parents[2]

#: How many seeds the test suite runs; ``python -m tests.simulation --seeds N`` runs as many as you like.
SEEDS = 140
AT_ONCE = 20
#: The first of them are also looked at for what happens in them.
LOOKED_AT = 40


@pytest.mark.parametrize("first", range(LOOKED_AT, SEEDS, AT_ONCE))
def test_whatever_happens_results_come_once_and_no_file_is_lost_or_left(first: int) -> None:
    run_seeds(range(first, first + AT_ONCE))


def run_seeds(seeds: range) -> None:
    for seed in seeds:
        run_seed(seed)


def test_a_seed_goes_the_same_way_in_every_process() -> None:
    def run(hash_seed: str) -> str:
        command = "from tests.simulation.simulation import *; print(*(digest(run_seed(n)) for n in range(900, 906)))"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [sys.executable, "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run("1") == run("2") == " ".join(digest(run_seed(seed)) for seed in range(900, 906)) + "\n"


def test_the_seeds_exercise_what_they_are_about() -> None:
    """Compactions are adopted, thrown away, refused and cut short by crashes; jobs are rescaled and brought back."""
    traces = [run_seed(seed).world.trace for seed in range(LOOKED_AT)]
    events = [line for trace in traces for line in trace]
    assert sum("  beside: flott-compaction" in line for line in events) > 200
    assert sum("delete state" in line and "-fold-" in line for line in events) > 100
    assert sum("  crash" in line for line in events) > 80
    assert sum("  refused" in line for line in events) > 30
    assert sum("rescale to" in line for line in events) > 30
    assert sum("beside: flott-savepoint" in line for line in events) > 20
    assert sum("successor" in line for line in events) > 8
    assert sum(line.endswith("is back") for line in events) > 10


# --- each of these breaks one promise --------------------------------------------------------------------------------


def released_too_early(registry: SharedRegistry, owner: str) -> tuple[str, ...]:
    """Whoever lets go of a file takes it away from all the others."""
    return tuple(sorted(registry.names_of(owner)))


def nothing_is_counted(self: SharedRegistry, name: str) -> bool:
    return False


def adopted_blindly(sequence: Any, run: Any, compacted: Any) -> Any:
    return (compacted, *sequence[len(run) :])



def break_release(patch: pytest.MonkeyPatch) -> None:
    """A registry that deletes too early."""
    patch.setattr(SharedRegistry, "release", released_too_early)
    patch.setattr(SharedRegistry, "is_referenced", nothing_is_counted)


def break_sweep(patch: pytest.MonkeyPatch) -> None:
    """A sweep that takes what no checkpoint refers to yet: the files of a compaction."""
    register = SharedRegistry.register

    def register_checkpoints(self: SharedRegistry, owner: str, names: Any) -> None:
        if "fold" not in owner:
            register(self, owner, names)

    patch.setattr(SharedRegistry, "register", register_checkpoints)
    patch.setattr(Compaction, "_is_being_written", nothing_is_counted)


def break_adoption(patch: pytest.MonkeyPatch) -> None:
    """A compacted file takes the place of other files than those it was made of."""
    patch.setattr(compaction, "with_compacted", adopted_blindly)


def break_letting_go(patch: pytest.MonkeyPatch) -> None:
    """What a compaction held is never let go of, and what it wrote in vain never deleted."""
    patch.setattr(Compaction, "_settle", lambda self, job: setattr(self, "_job", None))
    patch.setattr(retained, "orphans", lambda *facts: ())


def break_merging(patch: pytest.MonkeyPatch) -> None:
    """A merged file does not say what is gone: it comes back."""
    compact = local_runner.compact

    def forgetful(order: CompactionOrder, storage: Any) -> StateFile:
        return replace(compact(replace(order, whole=True), storage), is_base=order.whole)

    patch.setattr(local_runner, "compact", forgetful)


def break_commits(patch: pytest.MonkeyPatch) -> None:
    """After a crash between completion and commit nobody commits."""
    commit = SinkCommits.commit
    patch.setattr(
        SinkCommits, "commit", lambda self, permit, manifest: None if permit.replay else commit(self, permit, manifest)
    )


def break_plans(patch: pytest.MonkeyPatch) -> None:
    """The checkpoint is not whole when it counts as complete."""
    publish = CheckpointStore.publish

    def torn(self: CheckpointStore, manifest: Any) -> None:
        self.storage.write(f"chk-{manifest.checkpoint_id}/_metadata", b"")
        self.storage.delete(f"chk-{manifest.checkpoint_id}/_metadata")
        publish(self, manifest)

    patch.setattr(CheckpointStore, "publish", torn)


#: What breaks, and from which seed on that is soon noticed.
DEFECTS = [
    (break_release, 0),
    (break_sweep, 0),
    (break_adoption, 40),
    (break_letting_go, 0),
    (break_merging, 58),
    (break_commits, 0),
    (break_plans, 0),
]


@pytest.mark.parametrize(("breaks", "first"), DEFECTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_promise_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    with pytest.raises(SeedFailed, match=r"See it again with: python -m tests\.simulation \d+"):
        run_seeds(range(first, first + 100))
