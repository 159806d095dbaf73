"""Flink's checkpoint options: each does what its description says."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from flott.common import Configuration, Time, WatermarkStrategy
from flott.common._ids import EpochId
from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.datastream import AsyncDataStream, CheckpointConfig
from flott.datastream.functions import AsyncFunction, MapFunction
from flott.errors import (
    EpochFailure,
    EpochTimeoutError,
    JobCancelledError,
    JobFailedError,
    StorageError,
    UserCodeError,
)
from flott.runtime.checkpoint.retention import outlive
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.orders import TakeCheckpoint
from flott.testing.clock import ManualClock
from flott.testing.harness import Faults, Incarnation, UnreliableStorage, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()

#: Clocks by name: a function that was pickled finds its own again.
CLOCKS: dict[str, ManualClock] = {}


class Slow(MapFunction[int, int]):
    """A record takes so long."""

    def __init__(self, clock: str, ms: int):
        self.clock, self.ms = clock, ms

    def map(self, value: int) -> int:
        CLOCKS[self.clock].advance(self.ms)
        return value


def slow_job(folder: Path, record_ms: int, **options: str) -> tuple[Incarnation, Ledger]:
    ledger, name = Ledger(uuid4().hex), uuid4().hex
    CLOCKS[name] = ManualClock()
    env = in_process(1, flott__epoch__initial_records="16", flott__epoch__max_records="16", **options)
    stream = env.from_source(ScriptedSource(list(range(16))), NO_TIME, "n").map(Slow(name, record_ms))
    stream.sink_to(LedgerSink(ledger))
    return live(env, folder, clock=CLOCKS[name]), ledger


# --- timeout ---------------------------------------------------------------------------------------------------------


def test_an_epoch_that_takes_too_long_is_tried_again_with_less_input(tmp_path: Path) -> None:
    life, ledger = slow_job(
        tmp_path, 300, execution__checkpointing__timeout="1 s",
        execution__checkpointing__tolerable_failed_checkpoints="9",
    )  # fmt: skip
    assert life.status is JobStatus.FINISHED, life.failure
    assert sorted(ledger.records) == list(range(16))
    assert life.history.restarts == []
    assert all(epoch.records_in <= 3 for epoch in life.history.epochs)


def test_an_epoch_that_takes_too_long_is_a_failure_like_any_other_unless_it_is_tolerated(tmp_path: Path) -> None:
    life, ledger = slow_job(tmp_path, 300, execution__checkpointing__timeout="1 s", restart_strategy__type="none")
    assert life.status is JobStatus.FAILED
    assert isinstance(life.failure, EpochTimeoutError)
    assert "execution.checkpointing.timeout" in str(life.failure)
    assert ledger.records == []


def test_an_epoch_may_take_ten_minutes_by_default(tmp_path: Path) -> None:
    patient, _ = slow_job(tmp_path / "a", 37_000)
    late, _ = slow_job(tmp_path / "b", 38_000, restart_strategy__type="none")
    assert (patient.status, late.status) == (JobStatus.FINISHED, JobStatus.FAILED)


def test_a_batch_may_take_as_long_as_it_likes(tmp_path: Path) -> None:
    life, _ = slow_job(tmp_path, 300, execution__checkpointing__timeout="1 s", execution__runtime_mode="BATCH")
    assert life.status is JobStatus.FINISHED, life.failure


class Stuck(AsyncFunction[int, int]):
    """Waits for ever, the first time."""

    met: ClassVar[set[str]] = set()

    def __init__(self, token: str):
        self.token = token

    async def async_invoke(self, value: int) -> list[int]:
        if self.token not in self.met:
            self.met.add(self.token)
            await asyncio.Event().wait()
        return [value]


def test_an_epoch_that_would_never_end_is_interrupted(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(
        1, execution__checkpointing__timeout="200 ms", execution__checkpointing__tolerable_failed_checkpoints="1"
    )
    stream = env.from_source(ScriptedSource([1, 2, 3]), NO_TIME, "n")
    waited = AsyncDataStream.ordered_wait(stream, Stuck(uuid4().hex), Time.hours(1), 10)
    waited.sink_to(LedgerSink(ledger))
    env.execute("stuck")
    assert sorted(ledger.records) == [1, 2, 3]


# --- failures that are tolerated -------------------------------------------------------------------------------------


def failing_storage(folder: Path, failures: dict[str, int]) -> UnreliableStorage:
    """Storage that refuses to publish some files so many times."""
    left = dict(failures)

    def fails(verb: str, name: str) -> bool:
        if verb == "publish" and left.get(name, 0) > 0:
            left[name] -= 1
            return True
        return False

    return UnreliableStorage(str(folder), sync=False, faults=Faults(fails))


def run_with(storage: UnreliableStorage, folder: Path, script: list[Any], **options: str) -> tuple[Incarnation, Ledger]:
    ledger = Ledger(uuid4().hex)
    env = in_process(2, restart_strategy__type="none", **options)
    env.from_source(ScriptedSource(script), NO_TIME, "n").key_by(lambda n: n).sum().sink_to(LedgerSink(ledger))
    return live(env, folder, storage=storage), ledger


SCRIPT = [entry for n in range(8) for entry in (n, EndOfEpoch())]


@pytest.mark.parametrize(("tolerable", "status"), [(3, JobStatus.FINISHED), (2, JobStatus.FAILED)])
def test_so_many_failed_checkpoints_in_a_row_are_tolerated(tolerable: int, status: JobStatus, tmp_path: Path) -> None:
    storage = failing_storage(tmp_path, {"chk-2/_metadata": 3})
    life, ledger = run_with(
        storage, tmp_path, SCRIPT, execution__checkpointing__tolerable_failed_checkpoints=str(tolerable)
    )
    assert life.status is status
    assert life.history.restarts == []
    assert sorted(ledger.records) == (list(range(8)) if status is JobStatus.FINISHED else [0])
    assert JobStatus.RESTARTING not in life.history.statuses


def test_a_checkpoint_that_succeeds_starts_the_count_anew(tmp_path: Path) -> None:
    storage = failing_storage(tmp_path, {f"chk-{n}/_metadata": 2 for n in (1, 2, 3, 5)} | {"plans/epoch-7.json": 2})
    life, ledger = run_with(storage, tmp_path, SCRIPT, execution__checkpointing__tolerable_failed_checkpoints="2")
    assert life.status is JobStatus.FINISHED, life.failure
    assert sorted(ledger.records) == list(range(8))


def test_a_failure_of_the_program_is_not_a_failed_checkpoint(tmp_path: Path) -> None:
    storage = failing_storage(tmp_path, {})
    script = [1, Abort(), 2]
    life, _ = run_with(storage, tmp_path, script, execution__checkpointing__tolerable_failed_checkpoints="9")
    assert life.status is JobStatus.FAILED


def test_what_is_tolerated_is_decided_by_the_kind_of_failure_and_the_ones_before() -> None:
    policy = CheckpointPolicy(1000, tolerable_failures=2)
    assert policy.tolerates(StorageError("full"), 0)
    assert policy.tolerates(EpochTimeoutError("late"), 1)
    assert not policy.tolerates(StorageError("full"), 2)
    assert not policy.tolerates(UserCodeError("card"), 0)
    assert not CheckpointPolicy(1000).tolerates(StorageError("full"), 0)


# --- pauses ----------------------------------------------------------------------------------------------------------


def test_between_an_epoch_and_the_next_there_is_a_pause(tmp_path: Path) -> None:
    clock, ledger = ManualClock(), Ledger(uuid4().hex)
    times: list[tuple[str, int]] = []
    env = in_process(1, execution__checkpointing__min_pause="5 s", flott__epoch__min_interval="1 s")
    env.from_source(ScriptedSource(SCRIPT), NO_TIME, "n").sink_to(LedgerSink(ledger))

    def note(step: str, epoch: int) -> None:
        if step == "ran":
            clock.advance(700)
        times.append((step, clock.now_ms()))

    assert live(env, tmp_path, clock=clock, on_step=note).status is JobStatus.FINISHED
    starts = [at for step, at in times if step == "planned"]
    ends = [at for step, at in times if step == "committed"]
    assert [start - end for start, end in zip(starts[1:], ends, strict=False)] == [5000] * 7


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(None, None, 0), (100, None, 1100), (100, 150, 1100), (100, 900, 1400)]
)
def test_the_next_epoch_begins_when_both_pauses_are_over(start: int | None, end: int | None, expected: int) -> None:
    policy = CheckpointPolicy(1000, min_pause_ms=500, min_interval_ms=1000)
    assert policy.not_before_ms(start, end) == expected


def test_a_savepoint_does_not_wait_for_the_pause_to_end(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1, execution__checkpointing__min_pause="1 h")
    env.from_source(ScriptedSource([1, EndOfEpoch(), 2]), NO_TIME, "n").sink_to(LedgerSink(ledger))
    client = env.execute_async("job")
    assert client.trigger_savepoint(str(tmp_path)).result(120)
    assert client.stop_with_savepoint(True, str(tmp_path)).result(120)
    assert client.get_job_status().result() is JobStatus.FINISHED


# --- retention -------------------------------------------------------------------------------------------------------

KEPT = {
    "NO_EXTERNALIZED_CHECKPOINTS": set(),
    "DELETE_ON_CANCELLATION": {JobStatus.FAILED},
    "RETAIN_ON_CANCELLATION": {JobStatus.FAILED, JobStatus.CANCELED},
}


@pytest.mark.parametrize("retention", list(KEPT))
def test_what_stays_when_a_job_ends_is_flinks_table(retention: str) -> None:
    ends = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED)
    assert {status for status in ends if outlive(status, retention)} == KEPT[retention]
    assert outlive(JobStatus.RUNNING, retention), "it was torn from its work"
    assert outlive(JobStatus.SUSPENDED, retention), "it goes on elsewhere"


@pytest.mark.parametrize("retention", list(KEPT))
@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED])
def test_the_directory_of_a_job_that_ended_is_there_or_not(retention: str, status: JobStatus, tmp_path: Path) -> None:
    env = in_process(
        1, execution__checkpointing__dir=str(tmp_path), restart_strategy__type="none",
        execution__checkpointing__externalized_checkpoint_retention=retention,
    )  # fmt: skip
    script = {JobStatus.FINISHED: [1], JobStatus.FAILED: [1, EndOfEpoch(), Abort(9)], JobStatus.CANCELED: [1]}[status]
    source = ScriptedSource(script, endless=status is JobStatus.CANCELED)
    ledger = Ledger(uuid4().hex)
    env.from_source(source, NO_TIME, "n").sink_to(LedgerSink(ledger))
    client = env.execute_async("job")
    if status is JobStatus.CANCELED:
        client.trigger_savepoint(str(tmp_path / "sp")).result(120)  # so a checkpoint is complete
        client.cancel().result(120)
    failure = client.get_job_execution_result()._future.exception(30)
    expected = {JobStatus.FAILED: JobFailedError, JobStatus.CANCELED: JobCancelledError}
    assert isinstance(failure, expected.get(status, type(None)))
    left = [name for name in os.listdir(tmp_path) if name != "sp"]
    assert len(left) == (status in KEPT[retention])


# --- the setters -----------------------------------------------------------------------------------------------------


def test_pyflinks_setters_reach_the_options(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration()
    config = CheckpointConfig(configuration)
    config.set_checkpoint_timeout(30_000).set_min_pause_between_checkpoints(2_000)
    config.set_tolerable_checkpoint_failure_number(4)
    assert CheckpointPolicy.of(configuration) == CheckpointPolicy(30_000, 2_000, 0, 4)
    assert (config.get_checkpoint_timeout(), config.get_min_pause_between_checkpoints()) == (30_000, 2_000)
    assert config.get_tolerable_checkpoint_failure_number() == 4
    assert caplog.records == [], "they have an effect"
    assert Counter(CheckpointPolicy.of(Configuration()).__dict__.values()) == Counter([600_000, 0, 0, 0])


# --- checkpoints on demand -------------------------------------------------------------------------------------------


def test_a_request_that_comes_while_the_job_ends_is_answered_in_any_case(tmp_path: Path) -> None:
    answers: list[CompletableFuture[EpochId]] = []
    ended = threading.Event()
    masters: list[JobMaster] = []

    def ask() -> None:
        while not ended.is_set():
            answers.append(masters[0].submit(TakeCheckpoint()))

    def started(master: JobMaster) -> None:
        masters.append(master)
        threading.Thread(target=ask, daemon=True).start()

    env = in_process(1)
    env.from_collection([1, 2, 3]).print()
    live(env, tmp_path, on_start=started)
    answers.append(masters[0].submit(TakeCheckpoint()))
    ended.set()
    assert isinstance(answers[-1].exception(), EpochFailure)
    for answer in answers:
        assert answer.done()
