"""Leaders that are deposed while they keep, end and forget jobs: dozens of seeds here, ``make simulation`` for more."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flott.runtime.jobmanager.whole_folders import WholeFolders
from flott.runtime.storage import DRAFT, PosixStorage
from flott.runtime.storage import posix_fence as fence
from tests.simulation.job_takeover import JobTakeover, run_job_takeover
from tests.simulation.simulation import SeedFailed

SEEDS = 100
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whoever_leads_no_job_is_lost_and_none_is_ended_or_forgotten_by_who_does_not(first: int) -> None:
    run_job_takeovers(range(first, first + AT_ONCE))


def run_job_takeovers(seeds: range) -> None:
    for seed in seeds:
        run_job_takeover(seed)


def test_a_takeover_of_jobs_goes_the_same_way_every_time() -> None:
    assert run_job_takeover(3).trace == run_job_takeover(3).trace


def test_the_seeds_depose_leaders_in_every_moment_that_matters() -> None:
    runs = [run_job_takeover(seed) for seed in range(100, 200)]
    events = [line for run in runs for line in run.trace]
    assert sum("takes over" in line for line in events) > 300
    assert sum("finds that it leads no more" in line for line in events) > 50
    assert sum("dies" in line for line in events) > 30
    assert sum("forgot" in line for line in events) > 50
    for step in ("rename its own to jobs/", "replace its own to jobs/", "rename jobs/", "replace jobs/", "mkdir its"):
        assert any(_woke_up_before(run, step) for run in runs), f"nobody was deposed before: {step}"


def _woke_up_before(run: JobTakeover, step: str) -> bool:
    """Whether a leader was about to take this step when another removed its leader folder."""
    for index, line in enumerate(run.trace):
        leader, _, what = line.partition(": ")
        folder = f"fence/{leader.removeprefix('leader ')}-"
        words = ["its own" if word.startswith(folder) else word for word in what.split(" ")]
        if " ".join(words).startswith(step):
            others = _until(run.trace[index + 1 :], leader)
            if any(f": rmdir {folder}" in later for later in others):
                return True
    return False


def _until(lines: list[str], leader: str) -> Iterator[str]:
    return itertools.takewhile(lambda line: not line.startswith(f"{leader}:"), lines)


# --- each of these breaks one promise --------------------------------------------------------------------------------


def break_keeping(patch: pytest.MonkeyPatch) -> None:
    """A draft beside the jobs, a check, and then the rename."""

    def publish(self: WholeFolders, draft: Path, name: str) -> None:
        assert self._fence is not None
        self._fence.check()
        draft.rename(self.root / name)

    patch.setattr(WholeFolders, "_place", lambda self, name: self.root / f"{DRAFT}{name}")
    patch.setattr(WholeFolders, "publish", publish)


def break_ending(patch: pytest.MonkeyPatch) -> None:
    """That a job has ended is written beside it, then comes a check, then the rename."""
    patch.setattr(PosixStorage, "_is_home", property(lambda self: False))


def break_forgetting(patch: pytest.MonkeyPatch) -> None:
    """Jobs are deleted where they are, file by file, after a check."""

    def remove(self: WholeFolders, name: str) -> None:
        assert self._fence is not None
        self._fence.check()
        shutil.rmtree(self.root / name, ignore_errors=True)

    patch.setattr(WholeFolders, "remove", remove)


def break_taking_out(patch: pytest.MonkeyPatch) -> None:
    """What is in a leader folder is deleted file by file: its owner may publish a job of which the half is gone."""

    def take_out(path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    patch.setattr(fence, "_take_out", take_out)


def break_takeover(patch: pytest.MonkeyPatch) -> None:
    """A leader that takes over leaves the leader folders of those before it alone."""
    patch.setattr(fence, "_remove", lambda folder: None)


DEFECTS = [break_keeping, break_ending, break_forgetting, break_taking_out, break_takeover]


@pytest.mark.parametrize("breaks", DEFECTS, ids=lambda value: value.__name__)
def test_a_broken_promise_about_jobs_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    with pytest.raises(SeedFailed, match=r"python -m tests\.simulation --job-takeover \d+"):
        run_job_takeovers(range(600))
