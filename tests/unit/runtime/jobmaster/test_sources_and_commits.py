"""The driver side of sources and sinks, each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Duration, WatermarkStrategy
from flott.datastream.connectors.base import CommitPermit, Committer, Slice, SlicePlan, SplitEnumerator
from flott.errors import EpochFailure, ProgramError, StateError
from flott.graph.chain import chain
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.retention import Discard
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.epoch.report import EpochResult
from flott.runtime.jobmaster.commits import RETRY_DELAYS_MS, SinkCommits
from flott.runtime.jobmaster.sources import SourceCoordinator
from flott.runtime.operators.source import SplitReport
from flott.runtime.operators.watermarks import TimeProgress
from flott.runtime.storage.posix import PosixStorage
from flott.testing.harness import in_process
from flott.testing.sinks import Ledger, LedgerSink, commit_permit
from flott.testing.sources import ScriptedSource

TIMED = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(100))


def coordinator_of(source: Any, strategy: WatermarkStrategy = TIMED, parallelism: int = 2) -> SourceCoordinator:
    env = in_process(parallelism)
    env.from_source(source, strategy, "s").sink_to(LedgerSink(Ledger(uuid4().hex)))
    (vertex,) = chain(env.get_stream_graph(job_name="s")).sources
    return SourceCoordinator(vertex.head)


def report(reached: int, watermark: int, now: int, ended: bool = False) -> SplitReport:
    return SplitReport(reached, TimeProgress(watermark, False, now), 1, ended)


def test_a_source_that_has_finished_says_so_in_every_epoch_also_after_a_restore() -> None:
    source = ScriptedSource([1])
    coordinator = coordinator_of(source)
    coordinator.open(None)
    plan = coordinator.choose_slices(10, 0)
    assert plan.finished
    coordinator.complete(plan, {"0": report(1, 5, 0, ended=True)}, 0)
    restored = coordinator_of(source)
    restored.open(coordinator.snapshot())
    for each in (coordinator, restored):
        again = each.choose_slices(10, 1)
        assert again == SlicePlan(finished=True)
        assert [(a.slices, a.finished, a.held_watermark) for a in each.assign(again, 1)] == [((), True, None)] * 2


def test_splits_that_are_not_read_hold_their_reader_back_until_they_are_idle() -> None:
    coordinator = coordinator_of(ScriptedSource({"a": [1] * 9, "b": [1] * 9, "c": [1] * 9}))
    coordinator.open(None)
    plan = coordinator.choose_slices(3, now_ms=0)
    first = coordinator.assign(plan, 0)
    assert [[s.part.split for s in a.slices] for a in first] == [["a", "c"], ["b"]]
    coordinator.complete(plan, {"a": report(1, 10, 0), "b": report(1, 20, 0), "c": report(1, 5, 0)}, 0)
    only_a = SlicePlan((Slice("a", 1, 2, 1),))
    held = coordinator.assign(only_a, 50)
    assert [(a.held_watermark, a.idle_watermark) for a in held] == [(5, None), (20, None)]
    assert held[0].slices[0].progress.watermark == 10
    late = coordinator.assign(only_a, 100)
    assert [(a.held_watermark, a.idle_watermark) for a in late] == [(None, 5), (None, 20)]
    assert coordinator.idle_deadline_ms() == 100
    coordinator.complete(only_a, {"a": report(2, 30, 100)}, 100)
    assert coordinator.idle_deadline_ms() == 200
    assert {split for split, progress in coordinator.snapshot().splits.items() if progress.idle} == {"b", "c"}


def test_splits_return_to_their_reader_after_a_restore_and_are_dealt_out_anew_after_a_change_of_parallelism() -> None:
    source = ScriptedSource({name: [1] * 9 for name in "abcd"})
    coordinator = coordinator_of(source)
    coordinator.open(None)
    plan = coordinator.choose_slices(4, 0)
    before = [[s.part.split for s in a.slices] for a in coordinator.assign(plan, 0)]
    coordinator.complete(plan, {name: report(1, 1, 0) for name in "abcd"}, 0)
    uneven = SlicePlan(tuple(Slice(name, 1, 9, 9 if name == "a" else 1) for name in "abcd"))
    same, wider = coordinator_of(source), coordinator_of(source, parallelism=4)
    for each in (same, wider):
        each.open(coordinator.snapshot())
    assert [[s.part.split for s in a.slices] for a in same.assign(uneven, 1)] == before
    assert [[s.part.split for s in a.slices] for a in wider.assign(uneven, 1)] == [["a"], ["b"], ["c"], ["d"]]


def test_whatever_parallelism_was_tried_in_between_with_that_of_the_checkpoint_splits_have_their_readers() -> None:
    """A subtask's watermark comes from its splits and never goes back: those of a slower one would be late there."""
    source = ScriptedSource({name: [1] * 9 for name in "ab"})
    coordinators = {parallelism: coordinator_of(source, parallelism=parallelism) for parallelism in (1, 2, 3)}
    coordinator = coordinators[3]
    coordinator.open(None)
    plan = SlicePlan(tuple(Slice(name, 0, 1, 1 if name == "a" else 5) for name in "ab"))
    before = [[s.part.split for s in a.slices] for a in coordinator.assign(plan, 0)]
    assert before == [["b"], ["a"], []]
    coordinator.complete(plan, {"a": report(1, 50, 0), "b": report(1, 105, 0)}, 0)
    taken = coordinator.snapshot()
    for tried in ([1], [2], [1, 2], [2, 1]):
        again = coordinator_of(source, parallelism=tried[0])
        again.open(taken)  # as after an epoch that failed with that parallelism
        for parallelism in (*tried[1:], 3):
            again.rescale(coordinators[parallelism].operator)
        assert [[s.part.split for s in a.slices] for a in again.assign(plan, 1)] == before


class Broken(SplitEnumerator):
    def __init__(self, at: str):
        self.at = at

    def open(self) -> None:
        self._perhaps("open")

    def plan(self, request: Any) -> SlicePlan:
        self._perhaps("plan")
        return SlicePlan()

    def advance(self, plan: SlicePlan, reached: Any) -> None:
        self._perhaps("advance")

    def snapshot(self) -> Any:
        self._perhaps("snapshot")

    def _perhaps(self, method: str) -> None:
        if self.at == method:
            raise ConnectionError("no broker")


class BrokenSource(ScriptedSource):
    def __init__(self, at: str):
        super().__init__([])
        self.at = at

    def create_enumerator(self) -> SplitEnumerator:
        return Broken(self.at)


@pytest.mark.parametrize("at", ["open", "plan", "advance", "snapshot"])
def test_what_an_enumerator_raises_names_the_source_and_may_be_tried_again(at: str) -> None:
    coordinator = coordinator_of(BrokenSource(at))
    expected = ProgramError if at == "open" else EpochFailure

    def use() -> None:
        coordinator.open(None)
        plan = coordinator.choose_slices(1, 0)
        coordinator.complete(plan, {}, 0)
        coordinator.snapshot()

    with pytest.raises(expected, match=r"Source: s.*no broker"):
        use()


# --- commits ---------------------------------------------------------------------------------------------------------


class Flaky(Committer):
    def __init__(self, failures: int):
        self.failures = failures
        self.calls: list[Any] = []

    def open(self, job_id: str, operator_id: str) -> None:
        self.calls.append(("open", job_id))

    def commit(self, permit: CommitPermit, committables: Sequence[Any]) -> None:
        self.calls.append((permit.checkpoint_id, permit.replay, list(committables)))
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")


class FlakySink(LedgerSink):
    def __init__(self, committer: Flaky):
        super().__init__(Ledger(uuid4().hex))
        self._committer = committer

    def create_committer(self) -> Committer:
        return self._committer


def commits_of(committer: Flaky, cancelled_after: int = 10**6) -> tuple[SinkCommits, Any, list[int]]:
    env = in_process(1)
    env.from_collection([1]).sink_to(FlakySink(committer)).uid("flaky")
    graph = chain(env.get_stream_graph(job_name="s"))
    waits: list[int] = []

    def sleep(delay_ms: int) -> bool:
        waits.append(delay_ms)
        return len(waits) >= cancelled_after

    sink = next(ident for ident, operator in graph.operators.items() if operator.node.uid == "flaky")
    return SinkCommits(graph, "job", sleep), sink, waits


def manifest(committables: dict[Any, list[Any]]) -> Manifest:
    return Manifest("job", "name", 7, 0, 0, committables=committables)


def test_a_commit_is_tried_until_it_works_ever_less_often() -> None:
    committer = Flaky(8)
    commits, sink, waits = commits_of(committer)
    commits.commit(commit_permit(7, 0), manifest({sink: ["x"]}))
    assert committer.calls == [("open", "job"), *[(7, False, ["x"])] * 9]
    assert waits == [*RETRY_DELAYS_MS, *[RETRY_DELAYS_MS[-1]] * 3]


def test_a_checkpoint_without_output_is_committed_too_because_time_has_passed() -> None:
    committer = Flaky(0)
    commits, _, _ = commits_of(committer)
    commits.commit(commit_permit(7, 0, replay=True), manifest({}))
    assert committer.calls[1:] == [(7, True, [])]


def test_a_cancelled_job_stops_trying() -> None:
    commits, sink, waits = commits_of(Flaky(10**6), cancelled_after=3)
    with pytest.raises(EpochFailure, match="Cancelled"):
        commits.commit(commit_permit(7, 0), manifest({sink: ["x"]}))
    assert len(waits) == 3


def test_nothing_is_committed_without_the_permit_of_that_checkpoint() -> None:
    committer = Flaky(0)
    commits, sink, _ = commits_of(committer)
    with pytest.raises(TypeError, match="the checkpoint store issues one"):
        CommitPermit(7, 0)
    forged: Any = SimpleNamespace(checkpoint_id=7, now_ms=0, replay=False, final=False, leader=0)
    for wrong in (commit_permit(6, 0), forged, None):
        with pytest.raises(TypeError, match="checkpoint 7 takes its own permit"):
            commits.commit(wrong, manifest({sink: ["x"]}))
    assert committer.calls == [("open", "job")]


def test_a_permit_does_not_change() -> None:
    permit = commit_permit(7, 0)
    with pytest.raises(AttributeError, match="checkpoint_id cannot be set"):
        permit.checkpoint_id = 8  # type: ignore[misc]
    assert "checkpoint_id=7" in repr(permit)


def test_the_store_issues_permits_for_complete_checkpoints_only(tmp_path: Path) -> None:
    store = CheckpointStore(PosixStorage(str(tmp_path), sync=False))
    done = manifest({})
    with pytest.raises(StateError, match="Checkpoint 7 of job job is not complete"):
        store.permit_again(done, 5)
    permit = store.publish(done, 3)
    assert (permit.checkpoint_id, permit.now_ms, permit.replay, permit.leader) == (7, 3, False, 0)
    assert store.permit_again(done, 5).replay
    after_a_crash = CheckpointStore(PosixStorage(str(tmp_path), sync=False))
    assert after_a_crash.permit_again(after_a_crash.read(7), 5).replay
    after_a_crash.discard(Discard(checkpoints=(7,)))
    with pytest.raises(StateError, match="is not complete"):
        after_a_crash.permit_again(done, 5)


def test_nothing_is_delivered_of_an_epoch_without_results() -> None:
    commits, _, _ = commits_of(Flaky(0))
    commits.deliver(EpochResult())
