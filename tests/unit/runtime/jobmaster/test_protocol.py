"""The protocol under fire: crashes at every step, storage that fails for a while, and each invariant by itself."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, BinaryIO
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import CommitPermit, Slice, SlicePlan, SliceRequest, SourceReader, SplitEnumerator
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flott.errors import StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage import PosixStorage
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Crash, Faults, Incarnation, UnreliableStorage, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()
STEPS = ["planned", "ran", "acknowledged", "completed", "committed"]


class Count(KeyedProcessFunction[int, int, Any]):
    """Numbers the records of its key: any loss or repetition shows."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.some = runtime_context.get_list_state(ListStateDescriptor("some"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        if value % 3 == 0:
            self.some.add(value)
        if value % 7 == 0:
            self.some.clear()
        yield ctx.get_current_key(), self.count.value()


def counting(env: StreamExecutionEnvironment, source: Any, *ledgers: Ledger) -> None:
    counted = env.from_source(source, NO_TIME, "n").uid("n").key_by(lambda n: n % 5).process(Count()).uid("count")
    for index, ledger in enumerate(ledgers):
        counted.rebalance().map(lambda pair: pair).sink_to(LedgerSink(ledger)).uid(f"sink{index}")


def expected_of(values: list[int]) -> Counter[Any]:
    sizes = Counter(value % 5 for value in values)
    return Counter((key, n + 1) for key, size in sizes.items() for n in range(size))


def patient(parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    return in_process(
        parallelism, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="900", **options
    )


@dataclass(frozen=True)
class TornStorage(UnreliableStorage):
    """Names are written once only, and a crash may leave a half-written file behind."""

    def write(self, name: str, data: bytes) -> None:
        assert not self.exists(name), f"{name} would be overwritten (I3)"
        try:
            super().write(name, data)
        except Crash:
            PosixStorage(self.root, sync=False).write(name, data[: len(data) // 2])
            raise

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        assert not self.exists(name), f"{name} would be overwritten (I3)"
        try:
            with super().create(name) as file:
                yield file
        except Crash:
            PosixStorage(self.root, sync=False).write(name, b"FLOTTST2 and no more")
            raise


def tidy(folder: Path, retained: int = 1) -> list[str]:
    """What lies in a job's folder and should not: files no retained checkpoint refers to, plans, half-made folders."""
    store = CheckpointStore(PosixStorage(str(folder)))
    completed = store.completed()
    kept = {name for manifest in completed for name in manifest.files}
    kept |= {f"chk-{manifest.checkpoint_id}/_metadata" for manifest in completed}
    kept |= {paths.epoch_input(manifest.checkpoint_id) for manifest in completed}
    kept |= {paths.epoch_input(completed[-1].checkpoint_id + 1), paths.JOB, paths.LOCK}
    assert len(completed) <= retained
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return sorted(found - kept)


class Storm:
    """Everything that can go wrong in one life of a job, by chance."""

    def __init__(self, random: Random, log: list[tuple[str, int]]):
        self.random, self.log = random, log
        self.crash_after = random.randint(1, 40) if random.random() < 0.8 else 10**9
        self.crash_in_storage = random.randint(1, 60) if random.random() < 0.4 else 10**9
        self.bad_for = 0

    def step(self, name: str, epoch: int) -> None:
        self.log.append((name, epoch))
        self.crash_after -= 1
        if self.crash_after == 0:
            raise Crash

    def storage(self, verb: str, name: str) -> bool:
        if verb in ("write", "publish", "delete"):
            self.crash_in_storage -= 1
            if self.crash_in_storage == 0:
                raise Crash
        if self.bad_for == 0 and self.random.random() < 0.03:
            self.bad_for = self.random.randint(1, 4)
        if self.bad_for:
            self.bad_for -= 1
            return True
        return False

    def commit(self, permit: CommitPermit) -> None:
        if self.random.random() < 0.1:
            raise ConnectionError("the database is away")


@pytest.mark.parametrize("seed", range(200))
def test_whatever_crashes_and_fails_every_record_counts_once(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    values = list(range(random.randint(0, 80)))
    splits: dict[str, list[Any]] = {f"s{i}": [] for i in range(random.randint(1, 3))}
    for value in values:
        script = splits[random.choice(list(splits))]
        script += [value, *random.choices([[], [EndOfEpoch()], [Abort(1)]], [10, 3, 0.5])[0]]
    ledgers = [Ledger(f"{uuid4().hex}") for _ in range(2)]
    source = ScriptedSource(splits)
    folder, clock = tmp_path / "job", ManualClock()
    log: list[tuple[str, int]] = []
    faults = Faults()
    storage = TornStorage(str(folder), sync=False, faults=faults)
    storm: Storm | None = None

    def before_commit(permit: CommitPermit) -> None:
        assert (folder / f"chk-{permit.checkpoint_id}" / "_metadata").exists(), "visible before it is durable (I2)"
        if storm is not None:
            storm.commit(permit)

    for ledger in ledgers:
        ledger.before_commit = before_commit
    retained = random.choice([1, 1, 3])
    finished = False
    for life in range(40):
        storm = Storm(random, log) if life < 12 else None
        faults.fails = storm.storage if storm is not None else (lambda verb, name: False)
        env = patient(random.randint(1, 4), execution__checkpointing__num_retained=str(retained))
        counting(env, source, *ledgers)
        try:
            incarnation = live(
                env, folder, clock=clock, storage=storage, on_step=storm.step if storm is not None else None
            )
        except StorageError:
            continue  # while it was being started
        if incarnation.status is JobStatus.FINISHED:
            finished = True
            break
    assert finished
    for ledger in ledgers:
        assert Counter(ledger.records) == expected_of(values)
    completed = 0
    for step, epoch in log:  # I8: what is complete is never run again
        if step == "planned":
            assert epoch > completed
        if step == "completed":
            completed = epoch
    faults.fails = lambda verb, name: False
    env = patient(2, execution__checkpointing__num_retained=str(retained))
    counting(env, source, *ledgers)
    again = live(env, folder, clock=clock, storage=storage)  # finds that all is done, and cleans up
    assert again.status is JobStatus.FINISHED
    assert again.history.epochs == []
    assert tidy(folder, retained) == []
    for ledger in ledgers:
        assert Counter(ledger.records) == expected_of(values)
        assert not ledger.staged


# --- I1: the input is fixed before it is read ------------------------------------------------------------------------

_sizes: dict[str, int] = {}


class Growing(ScriptedSource):
    """As many numbers as there are at the moment."""

    def __init__(self, name: str):
        super().__init__([], endless=True)
        self.name = name

    def create_enumerator(self) -> SplitEnumerator:
        return GrowingEnumerator(self.name)

    def create_reader(self) -> SourceReader[Any]:
        return Numbers()


class GrowingEnumerator(SplitEnumerator):
    def __init__(self, name: str):
        self.name, self.next = name, 0

    def restore(self, state: Any) -> None:
        self.next = state

    def plan(self, request: SliceRequest) -> SlicePlan:
        stop = _sizes[self.name]
        return SlicePlan((Slice("numbers", self.next, stop, stop - self.next),) if stop > self.next else ())

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        self.next = reached.get("numbers", self.next)

    def snapshot(self) -> Any:
        return self.next


class Shaky(Growing):
    """Cannot always be opened."""

    def create_enumerator(self) -> SplitEnumerator:
        return ShakyEnumerator(self.name)


class ShakyEnumerator(GrowingEnumerator):
    def open(self) -> None:
        if troubles.pop(0):
            raise ConnectionError("no broker")


troubles: list[bool] = []


class Numbers(SourceReader[int]):
    def read(self, part: Slice) -> Iterator[int]:
        yield from range(part.start, part.stop)


@pytest.mark.parametrize("step", STEPS[:3])
def test_a_replay_reads_the_same_slices_although_the_source_has_grown(step: str, tmp_path: Path) -> None:
    name, ledger = uuid4().hex, Ledger(uuid4().hex)
    _sizes[name] = 5
    source = Growing(name)

    def life(at: str, epoch_at: int, signal: type[BaseException]) -> Incarnation:
        def interrupt(step_now: str, epoch: int) -> None:
            if (step_now, epoch) == (at, epoch_at):
                raise signal

        env = patient(1)
        counting(env, source, ledger)
        return live(env, tmp_path, on_step=interrupt)

    assert life(step, 1, Crash).crashed
    _sizes[name] = 12
    resumed = life("committed", 2, Cancel)
    assert [epoch.records_in for epoch in resumed.history.epochs] == [5, 7]
    assert Counter(ledger.records) == expected_of(list(range(12)))


def test_a_failed_epoch_reads_the_same_slices_again_in_the_same_process(tmp_path: Path) -> None:
    name, ledger = uuid4().hex, Ledger(uuid4().hex)
    _sizes[name] = 4
    failed = []

    def fail_once(value: int) -> int:
        if not failed:
            failed.append(value)
            _sizes[name] = 9
            raise RuntimeError("once")
        return value

    def stop(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 2):
            raise Cancel

    failures.append(fail_once)
    env = patient(1)
    env.from_source(Growing(name), NO_TIME, "n").map(fragile).sink_to(LedgerSink(ledger))
    incarnation = live(env, tmp_path, on_step=stop)
    assert [epoch.records_in for epoch in incarnation.history.epochs] == [4, 5]
    assert [epoch.attempt for epoch in incarnation.history.epochs] == [1, 0]
    assert ledger.records == list(range(9))


failures: list[Any] = []


def fragile(value: int) -> int:
    """Found by name in a task, so it sees this module's list and not a copy."""
    return int(failures[-1](value))


# --- storage that is away for a while --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["publish", "write", "read", "delete"])
def test_storage_that_refuses_for_a_while_only_delays(verb: str, tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(0)
    faults = Faults(lambda what, name: what == verb and 3_000 < clock.now_ms() < 60_000)
    storage = UnreliableStorage(str(tmp_path), sync=False, faults=faults)
    script = [entry for n in range(20) for entry in (n, EndOfEpoch())]
    env = patient(2, restart_strategy__fixed_delay__delay="2 s")
    counting(env, ScriptedSource(script), ledger)

    def later(step: str, epoch: int) -> None:
        clock.advance(400)

    incarnation = live(env, tmp_path, clock=clock, storage=storage, on_step=later)
    assert incarnation.status is JobStatus.FINISHED
    assert faults.refused > 0 or verb == "read"
    assert bool(incarnation.history.restarts) == (verb in ("publish", "write"))
    assert Counter(ledger.records) == expected_of(list(range(20)))


@pytest.mark.parametrize("retained", [1, 2, 5])
def test_as_many_checkpoints_are_retained_as_asked_for_and_each_can_be_read(retained: int, tmp_path: Path) -> None:
    script = [entry for n in range(12) for entry in (n, EndOfEpoch())]
    env = patient(2, execution__checkpointing__num_retained=str(retained))
    counting(env, ScriptedSource(script), Ledger(uuid4().hex))
    seen: list[int] = []

    def look(step: str, epoch: int) -> None:
        if step == "committed":
            completed = CheckpointStore(PosixStorage(str(tmp_path))).completed()
            seen.append(len(completed))
            assert [m.checkpoint_id for m in completed] == list(range(epoch - len(completed) + 1, epoch + 1))
            for manifest in completed:
                for name in manifest.files:
                    assert (tmp_path / name).exists()

    live(env, tmp_path, on_step=look)
    assert seen == [min(epoch, retained) for epoch in range(1, 13)]
    assert tidy(tmp_path, retained) == []


def test_later_epochs_wait_for_a_commit_that_does_not_work(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock()
    tried = Counter[int]()

    def refuse(permit: CommitPermit) -> None:
        tried[permit.checkpoint_id] += 1
        if permit.checkpoint_id == 2 and tried[2] < 6:
            raise ConnectionError("the database is away")

    ledger.before_commit = refuse
    env = patient(1)
    counting(env, ScriptedSource([entry for n in range(4) for entry in (n, EndOfEpoch())]), ledger)
    incarnation = live(env, tmp_path, clock=clock)
    assert incarnation.status is JobStatus.FINISHED
    assert incarnation.history.restarts == []
    assert tried == {1: 1, 2: 6, 3: 1, 4: 1}
    assert [checkpoint for checkpoint, _ in ledger.commits] == [1, 2, 3, 4]


def test_after_a_crash_between_completion_and_commit_the_commit_is_made_up_for(tmp_path: Path) -> None:
    ledger, source = Ledger(uuid4().hex), ScriptedSource([1, EndOfEpoch(), 2, EndOfEpoch(), 3])

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("completed", 2):
            raise Crash

    env = patient(1)
    counting(env, source, ledger)
    assert live(env, tmp_path, on_step=die).crashed
    assert len(ledger.records) == 1
    counting(env, source, ledger)
    live(env, tmp_path)
    assert ledger.commits == [(1, False), (2, True), (3, False)]
    assert len(ledger.records) == 3


# --- cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_a_job_can_be_cancelled_at_every_step_and_goes_on_later(step: str, tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    source = ScriptedSource([entry for n in range(6) for entry in (n, EndOfEpoch())])

    def stop(step_now: str, epoch: int) -> None:
        if (step_now, epoch) == (step, 2):
            raise Cancel

    env = patient(2)
    counting(env, source, ledger)
    cancelled = live(env, tmp_path, on_step=stop)
    assert cancelled.status is JobStatus.CANCELED
    assert cancelled.failure is None
    counting(env, source, ledger)
    assert live(env, tmp_path).status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected_of(list(range(6)))


def test_a_job_that_is_cancelled_before_it_starts_makes_up_for_a_commit(tmp_path: Path) -> None:
    ledger, source = Ledger(uuid4().hex), ScriptedSource([1, EndOfEpoch(), 2])

    def die(step: str, epoch: int) -> None:
        if step == "completed":
            raise Crash

    env = patient(1)
    counting(env, source, ledger)
    assert live(env, tmp_path, on_step=die).crashed
    assert ledger.commits == []
    counting(env, source, ledger)
    incarnation = live(env, tmp_path, on_start=lambda master: master.cancel())
    assert incarnation.history.statuses == [JobStatus.CANCELLING, JobStatus.CANCELED]
    assert ledger.commits == [(1, True)]


def test_a_job_that_cannot_make_up_for_a_commit_can_be_cancelled_while_it_starts(tmp_path: Path) -> None:
    ledger, source = Ledger(uuid4().hex), ScriptedSource([1, EndOfEpoch(), 2])

    def die(step: str, epoch: int) -> None:
        if step == "completed":
            raise Crash

    def refuse(permit: CommitPermit) -> None:
        raise ConnectionError("the database is away")

    env = patient(1)
    counting(env, source, ledger)
    assert live(env, tmp_path, on_step=die).crashed
    ledger.before_commit = refuse
    counting(env, source, ledger)
    incarnation = live(env, tmp_path, clock=ManualClock(0, until_ms=100_000))
    assert incarnation.status is JobStatus.CANCELED
    assert incarnation.failure is None


def test_a_job_whose_source_cannot_be_opened_for_a_while_is_restarted(tmp_path: Path) -> None:
    name, ledger = uuid4().hex, Ledger(uuid4().hex)
    _sizes[name] = 3
    troubles.extend([False, True, True, False])
    failed: list[int] = []

    def once(value: int) -> int:
        if not failed:
            failed.append(value)
            raise RuntimeError("once")
        return value

    failures.append(once)
    env = patient(1)
    env.from_source(Shaky(name), NO_TIME, "n").map(fragile).sink_to(LedgerSink(ledger))

    def committed(step: str, epoch: int) -> None:
        if step == "committed":
            raise Cancel

    incarnation = live(env, tmp_path, on_step=committed)
    assert incarnation.status is JobStatus.CANCELED
    assert len(incarnation.history.restarts) == 3
    assert incarnation.history.statuses == [
        JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RUNNING, JobStatus.CANCELLING,
        JobStatus.CANCELED,
    ], "it does not run while it cannot be restored"  # fmt: skip
    assert ledger.records == [0, 1, 2]


@pytest.mark.parametrize("step", STEPS)
def test_a_program_may_gain_and_lose_sources_while_it_is_stopped(step: str, tmp_path: Path) -> None:
    """Also if it was stopped between the plan of an epoch and its end: that plan knows the old sources only."""
    ledger = Ledger(uuid4().hex)
    old = ScriptedSource([entry for n in range(6) for entry in (n, EndOfEpoch())])
    new = ScriptedSource([entry for n in range(100, 103) for entry in (n, EndOfEpoch())])

    def life(sources: dict[str, ScriptedSource], epoch_at: int | None) -> Incarnation:
        def stop(step_now: str, epoch: int) -> None:
            if (step_now, epoch) == (step, epoch_at):
                raise Cancel

        env = patient(2)
        streams = [env.from_source(source, NO_TIME, uid).uid(uid) for uid, source in sources.items()]
        merged: Any = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
        merged.key_by(lambda n: n % 5).process(Count()).uid("count").sink_to(LedgerSink(ledger)).uid("sink")
        return live(env, tmp_path, on_step=stop)

    assert life({"old": old}, 2).status is JobStatus.CANCELED
    assert life({"old": old, "new": new}, 4).status is JobStatus.CANCELED
    last = life({"new": new}, None)
    assert last.status is JobStatus.FINISHED, last.failure
    kept = len(ledger.records)
    assert kept == len(set(ledger.records))
    assert 6 <= kept <= 9


def test_no_file_of_the_job_is_left_in_the_temporary_folder() -> None:
    before = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("flott-job-")}
    env = in_process(1)
    counting(env, ScriptedSource([1, EndOfEpoch(), 2]), Ledger(uuid4().hex))
    env.execute("temporary")
    after = {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("flott-job-")}
    assert after <= before


# --- what retried tasks leave behind ---------------------------------------------------------------------------------


def leave_behind(ledger: Ledger) -> Any:
    """Stage output in the first epoch, as a worker does that is killed and whose task Spark retries."""

    def step(name: str, epoch: int) -> None:
        if name == "ran" and epoch == 1:
            ledger.staged["operator:0:killed-attempt:1"] = ["never to be seen"]

    return step


def test_a_job_that_ends_removes_what_a_killed_worker_staged(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = patient()
    counting(env, ScriptedSource([1, 2, EndOfEpoch(), 3]), ledger)
    assert live(env, tmp_path, on_step=leave_behind(ledger)).status is JobStatus.FINISHED
    assert ledger.staged == {}
    assert Counter(ledger.records) == expected_of([1, 2, 3])
