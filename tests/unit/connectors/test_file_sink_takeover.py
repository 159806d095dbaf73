"""The file sink with two leaders: one that was deposed goes on, at any moment, beside its successor."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flott.datastream.connectors.base import CommitPermit
from flott.datastream.connectors.file_system import FileSink, RollingPolicy
from flott.errors import LeadershipLostError, StateError, StorageError
from flott.runtime.connectors.files.committer import FileCommitter
from flott.testing.sinks import commit_permit
from tests.simulation.baton import Baton, Runner
from tests.unit.connectors.test_file_sink import MINUTE, committer_of, hidden, sink_of, staged, visible

STEPS = (
    *((os, name) for name in ("rename", "replace", "unlink", "link", "rmdir", "mkdir", "listdir", "stat")),
    (builtins, "open"),
)


class Interleaving:
    """The deposed leader takes so many steps, then the next one so many; then the first goes on to its end."""

    def __init__(self, before: int, between: int):
        self.before, self.between = before, between
        self.steps = {"deposed": 0, "leader": 0}
        self.baton = Baton(self._choose)

    def _choose(self, left: list[Runner]) -> Runner | None:
        waiting = {runner.name: runner for runner in left}
        deposed_goes_on = self.steps["deposed"] < self.before or self.steps["leader"] >= self.between
        return waiting.get("deposed" if deposed_goes_on else "leader") or left[0]

    def step(self) -> None:
        current = self.baton.current
        if current is not None and not current.ended:
            self.steps[current.name] += 1
            self.baton.moment()

    @contextmanager
    def patched(self) -> Iterator[None]:
        originals = {(module, name): getattr(module, name) for module, name in STEPS}

        def stepped(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                self.step()
                return original(*arguments, **options)

            return call

        for (module, name), original in originals.items():
            setattr(module, name, stepped(original))
        try:
            yield
        finally:
            for (module, name), original in originals.items():
                setattr(module, name, original)


def commit(committer: Any, permit: CommitPermit, what: list[Any]) -> None:
    """As the engine does: again and again, unless there is no point in it."""
    for _ in range(5):
        try:
            committer.commit(permit, what)
            return
        except StorageError:
            pass
    raise AssertionError("it cannot be committed")


def run(base: Path, before: int, between: int, *, patient: bool, bulk: bool = False) -> tuple[dict[str, str], int]:
    """Four epochs; the first leader is deposed while it commits the fourth. What is visible, and how many steps it took
    by itself."""
    policy = RollingPolicy.default_rolling_policy(rollover_interval=MINUTE, inactivity_interval=99 * MINUTE)
    sink = sink_of(base, policy=None if bulk else policy, bulk=bulk)
    deposed, what = committer_of(sink), {}
    for epoch in (1, 2, 3):
        deposed.commit(commit_permit(epoch, 0, leader=1), staged(sink, [f"r{epoch}"], epoch=epoch))
    for epoch in (4, 5):
        what[epoch] = staged(sink, [f"r{epoch}"], epoch=epoch)
    interleaving = Interleaving(before, between)

    def go_on() -> None:
        with suppress(LeadershipLostError, StateError, StorageError):  # it finds out that it does not lead any more
            deposed.commit(commit_permit(4, 2 * MINUTE, leader=1), what[4])

    def take_over() -> None:
        leader = committer_of(sink)
        commit(leader, commit_permit(4, 0 if patient else 2 * MINUTE, replay=True, leader=2), what[4])
        commit(leader, commit_permit(5, 3 * MINUTE, final=True, leader=2), what[5])
        leader.close()

    interleaving.baton.add("deposed", go_on)
    interleaving.baton.add("leader", take_over)
    with interleaving.patched():
        interleaving.baton.run()
        interleaving.baton.current = None
    deposed.close()
    return visible(base), interleaving.steps["deposed"]


def published(files: dict[str, str]) -> list[str]:
    return sorted(line for content in files.values() for line in content.split())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("bulk", [False, True])
def test_a_deposed_leader_may_go_on_at_any_moment_of_a_commit(tmp_path: Path, bulk: bool, patient: bool) -> None:
    random = Random(7)
    _, steps = run(tmp_path / "alone", 10_000, 0, patient=patient, bulk=bulk)
    assert steps > (1 if bulk else 8)
    for before in range(steps + 1):
        for between in [0, 10_000, *random.sample(range(1, 40), 12)]:
            base = tmp_path / f"{before}-{between}"
            found, _ = run(base, before, between, patient=patient, bulk=bulk)
            assert published(found) == ["r1", "r2", "r3", "r4", "r5"], (before, between, found)
            assert [name for name in hidden(base) if "fence" not in name] == [], (before, between)


def test_without_the_fence_a_deposed_leader_doubles_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileCommitter, "_take_over", lambda self, permit: None)

    def is_wrong(before: int, between: int) -> bool:
        try:
            found, _ = run(tmp_path / f"{before}-{between}", before, between, patient=True)
        except AssertionError:
            return True
        return published(found) != ["r1", "r2", "r3", "r4", "r5"]

    assert any(is_wrong(before, between) for before in range(1, 6) for between in range(1, 16))


def test_a_finished_job_leaves_no_fence_behind(tmp_path: Path) -> None:
    sink: FileSink = sink_of(tmp_path)
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 0, leader=3, final=True), staged(sink, ["a"]))
    assert any("fence" in name for name in hidden(tmp_path))
    committer.close()
    assert hidden(tmp_path) == []
    assert list(visible(tmp_path).values()) == ["a\n"]


def test_a_leader_that_was_deposed_before_it_ever_committed_is_refused(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, policy=RollingPolicy.default_rolling_policy())
    what = staged(sink, ["a"])
    committer_of(sink).commit(commit_permit(1, 0, leader=5, replay=True), what)
    with pytest.raises(LeadershipLostError, match=r"A JobManager with token 5 has taken over .*; this one's is 4"):
        committer_of(sink).commit(commit_permit(1, 0, leader=4), what)
