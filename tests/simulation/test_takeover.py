"""Leaders that are deposed and come to again: dozens of seeds here, thousands with ``make simulation``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmaster import commits
from flott.runtime.storage import PosixStorage
from flott.runtime.storage import posix_fence as fence
from flott.runtime.storage.posix_fence import PosixFence
from tests.simulation.simulation import SeedFailed
from tests.simulation.takeover import run_takeover

SEEDS = 20
AT_ONCE = 10


@pytest.mark.parametrize("first", range(15, 15 + SEEDS, AT_ONCE))
def test_whoever_leads_results_come_once_and_no_file_is_lost_or_left(first: int) -> None:
    run_takeovers(range(first, first + AT_ONCE))


def run_takeovers(seeds: range) -> None:
    for seed in seeds:
        run_takeover(seed)


def test_a_takeover_goes_the_same_way_every_time() -> None:
    assert run_takeover(3).trace == run_takeover(3).trace


def test_the_seeds_exercise_what_they_are_about() -> None:
    runs = [run_takeover(seed) for seed in range(15)]
    events = [line for run in runs for line in run.trace]
    assert sum("takes over" in line for line in events) > 30
    assert sum(line.endswith("ends: SUSPENDED") for line in events) > 10
    assert sum("dies" in line for line in events) > 3
    assert sum("asked for a savepoint" in line for line in events) > 10
    # Somebody was deposed in each of these moments, and found out at the next step.
    assert any(_resumed(run.trace, "rename its leader folder to chk-") for run in runs), "before it published"
    assert any(_resumed(run.trace, "commit ") for run in runs), "in mid-commit"
    assert any(_resumed(run.trace, "rename state/") for run in runs), "before it deleted a file"


def _resumed(trace: list[str], step: str) -> bool:
    """Whether somebody else took over while a leader was about to take this step."""
    for index, line in enumerate(trace):
        leader, _, rest = line.partition(": ")
        if rest.startswith(step):
            later = _until(trace[index + 1 :], leader)
            if any("fence: rmdir done" in line for line in later):
                return True
    return False


def _until(lines: list[str], leader: str) -> Iterator[str]:
    for line in lines:
        if line.startswith(f"{leader}:"):
            return
        yield line


# --- each of these breaks one promise --------------------------------------------------------------------------------


def break_takeover(patch: pytest.MonkeyPatch) -> None:
    """A leader that takes over leaves the leader folders of those before it alone."""

    def claim(self: PosixFence) -> None:
        Path(self.path).mkdir(parents=True)

    patch.setattr(PosixFence, "claim", claim)


def break_publishing(patch: pytest.MonkeyPatch) -> None:
    """A check, and then the deed: somebody may take over in between."""
    patch.setattr(PosixStorage, "_is_home", property(lambda self: False))
    patch.setattr(CheckpointStore, "_delete_drafts", lambda self: None)


def break_deleting(patch: pytest.MonkeyPatch) -> None:
    """Files are deleted where they are, after a check."""

    def remove(self: PosixStorage, path: Path) -> None:
        if self.fence is not None:
            self.fence.check()
        path.unlink(missing_ok=True)
        self.takeover.changed(path, path)  # type: ignore[attr-defined]

    patch.setattr(PosixStorage, "_remove", remove)


def break_refusal(patch: pytest.MonkeyPatch) -> None:
    """A leader that comes too late takes over from the one after it."""
    patch.setattr(fence, "_token_of", lambda name: 0)


def break_discarding(patch: pytest.MonkeyPatch) -> None:
    """What is not of a live attempt goes, whoever staged it."""
    patch.setattr(commits, "LiveAttempts", lambda attempts, fence: frozenset(attempts))


#: What breaks, and from which seed on that is soon noticed.
DEFECTS = [(break_takeover, 0), (break_publishing, 0), (break_deleting, 0), (break_refusal, 15), (break_discarding, 55)]


@pytest.mark.parametrize(("breaks", "first"), DEFECTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_promise_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    with pytest.raises(SeedFailed, match=r"python -m tests\.simulation --takeover \d+"):
        run_takeovers(range(first, first + 150))
