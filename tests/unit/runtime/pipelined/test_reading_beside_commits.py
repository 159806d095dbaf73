"""Sources are read on while a checkpoint is published and its output committed, and no other checkpoint begins."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flott.common import WatermarkStrategy
from flott.common._ids import EpochId
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.errors import StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.clock import SystemClock
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.jobmaster.side_work import Inline, SideWork, Threaded
from flott.runtime.orders import RescaleJob
from flott.runtime.pipelined.control import (
    CheckpointCommitted,
    Command,
    EndRound,
    InjectBarrier,
    ReadRound,
    SlotEvent,
    SlotLost,
)
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Incarnation, in_process, live
from tests.unit.runtime.jobmanager.jobs import wait_for
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_open_slices import TickingSource
from tests.unit.runtime.pipelined.test_slot_processes import (
    KEYS,
    RECORDS,
    FolderCommitter,
    FolderSink,
    FolderWriter,
    Numbered,
    committed,
    expected,
)

#: A test ends this way if what it waits for does not happen.
LIMIT_SECONDS = 120
#: So many rounds are read meanwhile. The records of all but the last one have been read for certain.
ROUNDS = 12


class Watched(ProcessPipeline):
    """Notes the commands to the first slot, and says when rounds were read behind a barrier."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Command] = []
        self.more_rounds = threading.Event()
        self.slot_lost = threading.Event()

    def send(self, slot: int, command: Command) -> None:
        super().send(slot, command)
        if slot == 0:
            self.sent.append(command)
            if len(self.rounds_behind_barrier()) >= ROUNDS:
                self.more_rounds.set()

    def rounds_behind_barrier(self) -> list[Command]:
        """Return the rounds since the last barrier."""
        barriers = [at for at, one in enumerate(self.sent) if isinstance(one, InjectBarrier)]
        return [one for one in self.sent[barriers[-1] :] if isinstance(one, ReadRound)] if barriers else []

    def events(self) -> list[SlotEvent]:
        happened = super().events()
        if any(isinstance(event, SlotLost) for event in happened):
            self.slot_lost.set()
        return happened

    def assert_one_checkpoint_at_a_time(self) -> None:
        """The barrier of a checkpoint follows the commit of the one before."""
        told = [one for one in self.sent if isinstance(one, InjectBarrier | CheckpointCommitted)]
        open_now = None
        for one in told:
            if isinstance(one, InjectBarrier):
                assert open_now is None, f"{one} before the commit of {open_now}"
                open_now = one.checkpoint
            else:
                assert open_now == one.checkpoint
                open_now = None


@dataclass(frozen=True)
class SlowStorage(PosixStorage):
    """Does something else first when it is to publish the first checkpoint."""

    meanwhile: list[Callable[[], None]] = field(default_factory=list, compare=False)

    def publish(self, name: str, data: bytes) -> None:
        if self.meanwhile and name == paths.metadata(EpochId(1)):
            self.meanwhile.pop()()
        super().publish(name, data)


class SlowSink(FolderSink):
    """Does something else before its first commit. Its writers note when they get records, by interval."""

    def __init__(self, folder: str, meanwhile: Callable[[], None] | None = None):
        super().__init__(folder)
        self.meanwhile = meanwhile

    def __reduce__(self) -> Any:
        return SlowSink, (self.folder,)  # to tasks it is another sink

    def create_writer(self, context: Any) -> FolderWriter:
        writer = NotedWriter(self.folder, f"{context.epoch}-{context.subtask}-{context.attempt_id}")
        writer.epoch = context.epoch
        return writer

    def create_committer(self) -> Committer:
        committer = SlowCommitter(self.folder)
        committer.meanwhile = self.meanwhile
        return committer


class NotedWriter(FolderWriter):
    epoch = 0

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        super().write(values, timestamps)
        if values:
            with open(Path(self.folder, f"wrote-{self.epoch}"), "a") as noted:
                noted.write(".")


class SlowCommitter(FolderCommitter):
    meanwhile: Callable[[], None] | None = None

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
        super().commit(permit, committables)


class Job:
    """A job in slots of its own, whose first checkpoint is published or committed slowly."""

    def __init__(self, folder: Path, slow: str = "publish"):
        self.folder, self.slow = folder, slow
        self.out = folder / "out"
        self.out.mkdir()
        self.pipeline = Watched()
        self.meanwhile: Callable[[], None] = lambda: None
        self.barriers_meanwhile = -1
        self.master: JobMaster | None = None

    def program(self, sink: FolderSink) -> StreamExecutionEnvironment:
        env = in_process(
            2, execution__mode="pipelined", execution__checkpointing__interval="20 ms", flott__epoch__max_records="100",
            restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="1 ms",
            restart_strategy__fixed_delay__attempts="1000",
        )  # fmt: skip
        numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
        numbered = numbers.key_by(lambda n: n % KEYS).process(Numbered(self.folder / "mark", None, None))
        numbered.uid("numbered").sink_to(sink)
        return env

    def run(
        self, beside: SideWork | None = None, program: StreamExecutionEnvironment | None = None, **settings: Any
    ) -> Incarnation:
        def slowly() -> None:
            before = self.barriers()
            self.meanwhile()
            self.barriers_meanwhile = self.barriers() - before

        is_commit = self.slow == "commit"
        storage = SlowStorage(str(self.folder / "job"), sync=False, meanwhile=[] if is_commit else [slowly])
        return live(
            program or self.program(SlowSink(str(self.out), slowly if is_commit else None)), self.folder / "job",
            clock=SystemClock(), pipeline=self.pipeline, storage=storage, beside=beside or Threaded(),
            on_start=lambda master: setattr(self, "master", master), **settings,
        )  # fmt: skip

    def barriers(self) -> int:
        return sum(isinstance(one, InjectBarrier) for one in self.pipeline.sent)


@pytest.mark.parametrize("slow", ["publish", "commit"])
def test_records_reach_the_sink_while_a_checkpoint_is_published_or_committed(slow: str, tmp_path: Path) -> None:
    job = Job(tmp_path, slow)

    def read_on() -> None:
        assert job.pipeline.more_rounds.wait(LIMIT_SECONDS), "sources stand"
        wait_for((job.out / "wrote-2").exists)

    job.meanwhile = read_on
    life = job.run()
    assert life.status is JobStatus.FINISHED, life.failure
    assert job.barriers_meanwhile == 0
    job.pipeline.assert_one_checkpoint_at_a_time()
    assert life.history.restarts == []
    assert committed(job.out) == expected()


def test_a_slot_that_is_lost_meanwhile_restarts_the_tasks_from_the_checkpoint_that_was_published(
    tmp_path: Path,
) -> None:
    job = Job(tmp_path)

    def lose() -> None:
        assert job.pipeline.more_rounds.wait(LIMIT_SECONDS)
        os.kill(job.pipeline.processes[1], signal.SIGKILL)
        assert job.pipeline.slot_lost.wait(LIMIT_SECONDS)

    job.meanwhile = lose
    life = job.run()
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(life.history.restarts) == 1
    assert "slot" in life.history.restarts[0][0]
    assert [one.epoch for one in life.history.epochs][:2] == [1, 2]
    assert committed(job.out) == expected()


def test_a_checkpoint_that_cannot_be_published_restarts_the_tasks_from_the_one_before(tmp_path: Path) -> None:
    job = Job(tmp_path)

    def fail() -> None:
        assert job.pipeline.more_rounds.wait(LIMIT_SECONDS)
        raise StorageError("no space")

    job.meanwhile = fail
    life = job.run()
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(life.history.restarts) == 1
    assert committed(job.out) == expected()


def test_a_cancelled_job_ends_when_the_commit_has_ended(tmp_path: Path) -> None:
    job = Job(tmp_path, "commit")
    at_end: list[str] = []

    def cancel() -> None:
        assert job.master is not None
        assert job.pipeline.more_rounds.wait(LIMIT_SECONDS)
        job.master.cancel()
        at_end.append(job.master.history.status.name)

    job.meanwhile = cancel
    life = job.run()
    assert life.status is JobStatus.CANCELED
    assert at_end == ["RUNNING"]
    assert any(job.out.glob("committed-1-*"))


@pytest.mark.parametrize("beside", [Threaded, Inline])
@pytest.mark.parametrize("step", ["planned", "completed"])
def test_an_order_behind_a_barrier_loses_no_record_that_was_read_behind_it(
    step: str, beside: type[SideWork], tmp_path: Path
) -> None:
    """Between the barrier and the commit sources are read on: other tasks cannot begin at that checkpoint."""
    job = Job(tmp_path)

    def rescale(name: str, epoch: int) -> None:
        if (name, epoch) == (step, 2):
            assert job.master is not None
            job.master.submit(RescaleJob(1))

    life = job.run(beside(), on_step=rescale)
    assert life.status is JobStatus.FINISHED, life.failure
    assert life.master.deployment.parallelism == 1
    assert committed(job.out) == expected()


class EndsRescaled(JobListener):
    """Cancels the job when it has another parallelism."""

    def __init__(self, job: Job):
        self.job = job

    def on_rescale(self, epoch: int, changes: Any) -> None:
        assert self.job.master is not None
        self.job.master.cancel()


def test_an_order_that_waits_for_a_commit_does_not_end_open_slices_before_it(tmp_path: Path) -> None:
    job = Job(tmp_path)

    def order() -> None:
        assert job.master is not None
        job.master.submit(RescaleJob(1))
        wait_for(lambda: (job.out / "wrote-2").exists() and (job.out / "wrote-2").stat().st_size >= 10)
        ended = [one for one in job.pipeline.sent if isinstance(one, EndRound)]
        assert len(ended) == 1, "that for the barrier"

    job.meanwhile = order
    env = in_process(2, execution__mode="pipelined", execution__checkpointing__interval="20 ms")
    ticks = env.from_source(TickingSource("a", "b"), WatermarkStrategy.no_watermarks(), "ticks")
    ticks.map(lambda n: (n, n)).sink_to(SlowSink(str(job.out)))
    life = job.run(program=env, listeners=[EndsRescaled(job)])
    assert life.status is JobStatus.CANCELED, life.failure
    assert life.master.deployment.parallelism == 1
