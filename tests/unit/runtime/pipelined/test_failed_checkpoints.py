"""A checkpoint that fails is given up, the tasks run on, and the next one has all since the last completed one."""

from __future__ import annotations

import errno
import io
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pytest

from flott.common import Configuration, Duration, JobStatus, Time, Types, WatermarkStrategy
from flott.common._accumulators import IntCounter
from flott.common._ids import EpochId
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    MapFunction,
    RuntimeContext,
)
from flott.datastream.state import ListStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.graph.chain import chain
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.runtime.jobmaster.listener import JobFailure, JobListener
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.orders import RescaleJob, StopWithSavepoint, TakeCheckpoint
from flott.runtime.pipelined.file_writing import FilesAside, ImmediateWriter, Then
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.storage import PosixStorage, Storage
from flott.testing.clock import ManualClock
from flott.testing.harness import Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource, Wait
from tests.unit.runtime.pipelined.test_pipelined_jobs import Counted, expected_counts

OPTIONS = {
    "execution__mode": "pipelined",
    "execution__checkpointing__interval": "1 ms",
    "execution__checkpointing__tolerable_failed_checkpoints": "1000",
    "restart_strategy__type": "none",
    "flott__epoch__max_records": "10",
}
NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()


class Hasty(ManualClock):
    """A clock that runs on whenever it is looked at, so that checkpoints become due."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


class Passed(MapFunction[Any, Any], CheckpointedFunction):
    """Counts what passes in operator state, an accumulator and a metric."""

    passed = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.accumulator = IntCounter()
        runtime_context.add_accumulator("passed", self.accumulator)
        self.counter = runtime_context.get_metrics_group().counter("passed")

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("passed", Types.LONG()))
        self.passed = sum(self.saved.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update([self.passed])

    def map(self, value: Any) -> Any:
        self.passed += 1
        self.accumulator.add(1)
        self.counter.inc()
        return value


@dataclass
class Failures(JobListener):
    """The checkpoints that have failed."""

    failed: list[tuple[EpochId, JobFailure, bool]] = field(default_factory=list)

    def on_epoch_failed(self, epoch: EpochId, failure: JobFailure, tolerated: bool) -> None:
        self.failed.append((epoch, failure, tolerated))


@dataclass(frozen=True)
class FullDisk(PosixStorage):
    """Storage on a disk that has no room for state files for a while."""

    is_full: Callable[[str], bool] = lambda name: False

    def _new(self, path: Path) -> BinaryIO:
        file = super()._new(path)
        by_task = path.parent.name == "state" and "-fold-" not in path.name
        if not by_task or not self.is_full(path.name):
            return file
        descriptor = os.dup(file.fileno())
        file.close()
        return io.BufferedWriter(_Full(descriptor, "wb"))


class _Full(io.FileIO):
    def write(self, data: Any, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass
class Job:
    """A job with keyed state, operator state, a transactional sink and a sink on the driver, and one run of it."""

    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    script: Any = None
    parallelism: int = 2
    ledger: Ledger = field(default_factory=lambda: Ledger(uuid4().hex))
    delivered: list[Any] = field(default_factory=list)
    failures: Failures = field(default_factory=Failures)
    new_sink: Callable[[Ledger], LedgerSink] = LedgerSink

    def program(self) -> StreamExecutionEnvironment:
        env = in_process(self.parallelism, **{**OPTIONS, **self.options})
        source = ScriptedSource(self.script if self.script is not None else list(range(200)))
        numbers = env.from_source(source, NO_WATERMARKS, "numbers").uid("numbers")
        counted = numbers.key_by(lambda n: n % 3).process(Counted()).uid("counted")
        passed = counted.map(Passed()).uid("passed")
        passed.sink_to(self.new_sink(self.ledger)).uid("out")
        passed.sink_to(CallableSink(self.delivered.append)).uid("delivered")
        return env

    def run(self, storage: Storage, clock: Clock | None = None, **named: Any) -> Incarnation:
        listeners = [self.failures, *named.pop("listeners", ())]
        return live(
            self.program(), self.folder, clock=clock or Hasty(), storage=storage, listeners=listeners, **named
        )

    def check(self, numbers: int = 200) -> None:
        assert Counter(self.ledger.records) == expected_counts(numbers)
        assert Counter(self.delivered) == expected_counts(numbers)


def whole(folder: Path) -> None:
    """Assert that every checkpoint has all its files, and that there are no others."""
    kept = set[str]()
    for manifest in CheckpointStore(PosixStorage(str(folder))).completed():
        kept |= manifest.files
        for operator in manifest.operators.values():
            for subtask in operator.subtasks:
                for file in subtask.files:
                    assert (folder / file.name).stat().st_size == file.size
    assert {f"state/{path.name}" for path in (folder / "state").iterdir()} == kept


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compacts", [False, True])
def test_the_disk_is_full_for_a_while_and_the_tasks_run_on(compacts: bool, tmp_path: Path) -> None:
    tried = list[str]()

    def is_full(name: str) -> bool:
        tried.append(name)
        return 20 <= len(tried) < 30

    job = Job(tmp_path)
    starts = list[str]()

    class Pipeline(LocalPipeline):
        def start(self, image: Any, start: Any, on_news: Any) -> None:
            starts.append(start.run)
            super().start(image, start, on_news)

    clock = Hasty()
    rules = CompactionRules(fan_in=2, rewrite_min_deltas=2) if compacts else None
    life = job.run(
        FullDisk(str(tmp_path), sync=False, is_full=is_full), clock, pipeline=Pipeline(clock), compaction_rules=rules
    )
    assert life.status is JobStatus.FINISHED, life.failure
    job.check()
    whole(tmp_path)
    assert len(starts) == 1
    assert life.history.restarts == []
    failed = [epoch for epoch, _, tolerated in job.failures.failed if tolerated]
    assert len(failed) >= 3
    assert len(failed) == len(job.failures.failed)
    assert all("No space left on device" in failure.text for _, failure, _ in job.failures.failed)
    # Their numbers are not used again, and the next one that succeeds has what they would have had.
    completed = [statistics.epoch for statistics in life.history.epochs]
    assert set(completed).isdisjoint(failed)
    assert sorted([*completed, *failed]) == list(range(1, len(completed) + len(failed) + 1))
    again = Job(tmp_path, ledger=job.ledger)  # what it has written can be read
    assert again.run(PosixStorage(str(tmp_path), sync=False)).status is JobStatus.FINISHED


@pytest.mark.parametrize("number", range(1, 30, 4))
def test_each_write_of_the_tasks_fails_once(number: int, tmp_path: Path) -> None:
    tried = list[str]()

    def is_full(name: str) -> bool:
        tried.append(name)
        return len(tried) == number

    job = Job(tmp_path)
    life = job.run(FullDisk(str(tmp_path), sync=False, is_full=is_full))
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(job.failures.failed) == (number <= len(tried))
    job.check()
    whole(tmp_path)


def test_nothing_is_counted_twice_or_lost(tmp_path: Path) -> None:
    """Metrics, accumulators, late records and totals of records are those of a run in which nothing fails."""

    def totals(folder: Path, fails: bool) -> Any:
        tried = list[str]()

        def is_full(name: str) -> bool:
            tried.append(name)
            return fails and len(tried) % 5 == 2

        job = Job(folder)
        env = job.program()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(
            lambda n, _: n if n % 10 else 0
        )
        late = env.from_source(ScriptedSource(list(range(1, 200))), strategy, "late").set_parallelism(1)
        late.key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(5))).reduce(
            lambda a, b: a + b
        ).sink_to(CallableSink(job.delivered.append))
        storage = FullDisk(str(folder), sync=False, is_full=is_full)
        life = live(env, folder, clock=Hasty(), storage=storage, listeners=[job.failures])
        assert life.status is JobStatus.FINISHED, life.failure
        assert bool(job.failures.failed) is fails
        ledger = {it.operator: (it.records_in, it.late, it.dropped) for it in life.master.ledger.values()}
        sources = sum(statistics.records_in for statistics in life.history.epochs)
        edges = Counter[int]()
        for statistics in life.history.epochs:
            for subtask in statistics.subtasks:
                edges.update({edge: records for edge, (records, _) in subtask.edges.items()})
        return life.master.metrics, life.master.accumulators, ledger, sources, edges, sorted(job.delivered, key=repr)

    undisturbed = totals(tmp_path / "undisturbed", False)
    assert undisturbed[1] == {"passed": 200}
    assert undisturbed[3] == 399
    assert any(dropped for _, _, dropped in undisturbed[2].values())
    assert totals(tmp_path / "failing", True) == undisturbed


# --- time-outs -------------------------------------------------------------------------------------------------------


class Held(ImmediateWriter):
    """Writes when it is released."""

    def __init__(self, is_held: Callable[[], bool]):
        super().__init__()
        self._is_held = is_held
        self._waiting: list[tuple[FilesAside, Storage, Then]] = []

    def write(self, files: FilesAside, storage: Storage, then: Then) -> None:
        self._waiting.append((files, storage, then))
        self.finish()

    def finish(self) -> None:
        while self._waiting and not self._is_held():
            super().write(*self._waiting.pop(0))


class HeldPipeline(LocalPipeline):
    """Files are written when it is released, while tasks work."""

    def __init__(self, clock: Clock, is_held: Callable[[], bool]):
        super().__init__(clock, lambda: Held(is_held))

    def events(self) -> list[Any]:
        for slot in self.slots:
            slot.finish_writing()
        return super().events()


def test_a_checkpoint_that_takes_too_long_is_given_up_and_its_reports_come_late(tmp_path: Path) -> None:
    job = Job(tmp_path, {"execution__checkpointing__timeout": "200 ms"}, [*range(100), Wait(2000), *range(100, 200)])
    clock = Hasty()
    life = job.run(
        PosixStorage(str(tmp_path), sync=False), clock,
        pipeline=HeldPipeline(clock, lambda: clock.monotonic() * 1000 % 1000 > 300),
    )  # fmt: skip
    assert life.status is JobStatus.FINISHED, life.failure
    assert life.history.restarts == []
    assert job.failures.failed
    assert all("took longer than 200 ms" in failure.text for _, failure, _ in job.failures.failed)
    job.check()
    whole(tmp_path)


# --- when the job fails over -----------------------------------------------------------------------------------------


def test_the_job_fails_over_when_more_fail_in_a_row_than_are_tolerated(tmp_path: Path) -> None:
    job = Job(
        tmp_path,
        {
            "execution__checkpointing__tolerable_failed_checkpoints": "2",
            "restart_strategy__type": "fixed-delay",
            "restart_strategy__fixed_delay__attempts": "1",
        },
    )

    def is_full(name: str) -> bool:
        return 2 <= len({epoch for epoch, _, _ in job.failures.failed} | {0}) + 1 <= 4 and "-p1-" in name

    life = job.run(FullDisk(str(tmp_path), sync=False, is_full=is_full))
    assert life.status is JobStatus.FINISHED, life.failure
    assert [tolerated for _, _, tolerated in job.failures.failed] == [True, True, False]
    assert len(life.history.restarts) == 1
    job.check()
    whole(tmp_path)


def test_without_tolerance_the_first_failure_restarts_the_tasks(tmp_path: Path) -> None:
    options = {"execution__checkpointing__tolerable_failed_checkpoints": "0", "restart_strategy__type": "none"}
    job = Job(tmp_path, options)
    life = job.run(FullDisk(str(tmp_path), sync=False, is_full=lambda name: True))
    assert life.status is JobStatus.FAILED
    assert [tolerated for _, _, tolerated in job.failures.failed] == [False]


def test_the_last_checkpoint_of_a_job_restarts_the_tasks_because_they_have_ended(tmp_path: Path) -> None:
    tried = list[str]()

    def is_full(name: str) -> bool:
        tried.append(name)
        return len(tried) == 1

    job = Job(tmp_path, {"execution__checkpointing__interval": "1 h"}, list(range(9)))
    life = job.run(FullDisk(str(tmp_path), sync=False, is_full=is_full))
    assert life.status is JobStatus.FINISHED, life.failure
    assert [tolerated for _, _, tolerated in job.failures.failed] == [True]
    assert len(tried) > 4  # all of it was done again
    job.check(9)
    whole(tmp_path)


class _OneEpochSink(LedgerSink):
    """A sink whose committer takes the output of one epoch at a time."""

    def create_committer(self) -> Any:
        committer = super().create_committer()
        assert committer is not None
        commit = committer.commit

        def checked(permit: Any, committables: Any) -> None:
            assert len({token.rpartition(":")[2] for token in committables}) <= 1
            commit(permit, committables)

        class OneEpoch(type(committer)):  # type: ignore[misc]
            takes_several_epochs = False

        committer.__class__ = OneEpoch
        committer.commit = checked  # type: ignore[method-assign]
        return committer


@pytest.mark.parametrize("takes_several", [True, False])
def test_a_sink_that_cannot_commit_several_epochs_at_once_makes_the_tasks_restart(
    takes_several: bool, tmp_path: Path
) -> None:
    tried = list[str]()

    def is_full(name: str) -> bool:
        tried.append(name)
        return len(tried) % 9 == 4

    job = Job(tmp_path, new_sink=LedgerSink if takes_several else _OneEpochSink)
    runs = set[str]()

    class Pipeline(LocalPipeline):
        def start(self, image: Any, start: Any, on_news: Any) -> None:
            runs.add(start.run)
            super().start(image, start, on_news)

    clock = Hasty()
    life = job.run(FullDisk(str(tmp_path), sync=False, is_full=is_full), clock, pipeline=Pipeline(clock))
    assert life.status is JobStatus.FINISHED, life.failure
    assert job.failures.failed
    # The last checkpoint may have failed, too.
    assert len(runs) <= 3 if takes_several else len(runs) > len(job.failures.failed)
    job.check()
    whole(tmp_path)


# --- orders ----------------------------------------------------------------------------------------------------------


def failing_from(job: Job, first: int, last: int) -> Callable[[str], bool]:
    """Return a disk that is full until so many checkpoints have failed."""
    return lambda name: first <= int(name.split("-")[2]) and len(job.failures.failed) <= last - first


@pytest.mark.parametrize("order", ["checkpoint", "savepoint", "drain", "rescale"])
def test_orders_wait_for_the_next_checkpoint_that_succeeds(order: str, tmp_path: Path) -> None:
    job = Job(tmp_path / "job", script=[*range(100), Wait(500), *range(100, 200)])
    answers, masters = list[Any](), list[Any]()
    orders: dict[str, Any] = {
        "checkpoint": TakeCheckpoint(),
        "savepoint": StopWithSavepoint(False, str(tmp_path / "saved")),
        "drain": StopWithSavepoint(True, str(tmp_path / "saved")),
        "rescale": RescaleJob(3),
    }

    def on_step(step: str, epoch: int) -> None:
        if step == "planned" and epoch == 4:
            answers.append(masters[0].submit(orders[order]))

    # A drained source cannot go on, so a failure of that checkpoint is another case.
    is_full = failing_from(job, 4, 5) if order != "drain" else lambda name: False
    storage = FullDisk(str(tmp_path / "job"), sync=False, is_full=is_full)
    life = job.run(storage, on_step=on_step, on_start=masters.append)
    assert life.status is JobStatus.FINISHED, life.failure
    if order != "drain":
        assert [epoch for epoch, _, _ in job.failures.failed] == [4, 5]
    if order == "checkpoint":
        assert answers[0].result() == 6
    elif order != "rescale":
        assert Path(answers[0].result(), "_metadata").exists()
        assert Counter(job.ledger.records) <= expected_counts(200)
        return
    job.check()
    whole(tmp_path / "job")


# --- what is reported ------------------------------------------------------------------------------------------------


def test_failed_checkpoints_are_in_the_history_with_their_failure(tmp_path: Path) -> None:
    job = Job(tmp_path)
    storage = FullDisk(str(tmp_path), sync=False, is_full=failing_from(job, 2, 3))
    graph = chain(job.program().get_stream_graph(clear_transformations=True))
    clock = Hasty()
    tracking = TrackingListener("job", graph, Configuration(), clock)
    life = job.run(storage, clock, listeners=[tracking])
    assert life.status is JobStatus.FINISHED, life.failure
    view = tracking.view()
    assert (view.checkpoints.failed, view.metrics["numberOfFailedCheckpoints"]) == (2, 2)
    history = {found.id: found for found in view.checkpoints.history}
    assert view.checkpoints.latest_failed is not None
    assert view.checkpoints.latest_failed.id == 3
    assert "No space left on device" in (view.checkpoints.latest_failed.failure or "")
    assert view.restarts == 0
    assert all(found.status == ("FAILED" if ident in (2, 3) else "COMPLETED") for ident, found in history.items())
