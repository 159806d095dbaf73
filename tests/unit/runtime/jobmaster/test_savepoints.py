"""Savepoints: every way to ask for one, what may go wrong, and what can be started from it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from flott.common import SavepointFormatType, Time, WatermarkStrategy
from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from flott.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.errors import ConfigurationError, JobLockedError, ProgramError, SavepointError, StateError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import EpochInput
from flott.runtime.checkpoint.pins import read_pins
from flott.runtime.checkpoint.restoring import ClaimMode, begin_with, open_snapshot
from flott.runtime.checkpoint.savepoint_files import dispose_savepoint, export_savepoint
from flott.runtime.checkpoint.store import CheckpointStore, open_checkpoint
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.side_work import Inline
from flott.runtime.orders import CancelWithSavepoint, RescaleJob, SavepointOrder, StopWithSavepoint, TakeSavepoint
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Crash, Faults, Incarnation, UnreliableStorage, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()
CANONICAL, NATIVE = SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE
TAKE, STOP, DRAIN, CANCEL = TakeSavepoint(), StopWithSavepoint(), StopWithSavepoint(drain=True), CancelWithSavepoint()
FORMATS = [CANONICAL, NATIVE]

Configure = Callable[[StreamExecutionEnvironment, Any, Ledger], None]


class Count(KeyedProcessFunction[int, int, Any]):
    """Numbers the records of its key: any loss or repetition shows."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.some = runtime_context.get_list_state(ListStateDescriptor("some"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.some.add(value) if value % 3 else self.some.clear()
        yield ctx.get_current_key(), self.count.value(), len(list(self.some.get() or ()))


class Seen(MapFunction[int, int], CheckpointedFunction):
    """Operator state: how many records were seen by all subtasks is the number of items in the list."""

    def initialize_state(self, context: Any) -> None:
        self.seen = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> int:
        self.seen.add(value)
        return value


def counting(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
    stream = env.from_source(source, NO_TIME, "n").uid("n").map(Seen()).uid("seen")
    stream.key_by(lambda n: n % 5).process(Count()).uid("count").sink_to(LedgerSink(ledger)).uid("sink")


def script(count: int, every: int = 4) -> list[Any]:
    return [entry for n in range(count) for entry in ((n, EndOfEpoch()) if n % every == every - 1 else (n,))]


@cache
def expected(values: range) -> Counter[Any]:
    ledger = Ledger(uuid4().hex)
    env = in_process(1)
    counting(env, ScriptedSource(list(values)), ledger)
    env.execute("straight")
    return Counter(ledger.records)


@dataclass
class Asking:
    """Asks for a savepoint when an epoch is committed, and keeps the answer."""

    at: int
    directory: Path
    order: SavepointOrder = TAKE
    format: SavepointFormatType = CANONICAL
    answer: CompletableFuture[str] | None = None
    master: JobMaster | None = None

    def start(self, master: JobMaster) -> None:
        self.master = master
        if self.at == 0:
            self.ask()

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("committed", self.at):
            self.ask()

    def ask(self) -> None:
        assert self.master is not None
        self.answer = self.master.submit(replace(self.order, target=str(self.directory), format=self.format))

    @property
    def path(self) -> str:
        assert self.answer is not None
        return self.answer.result(120)

    @property
    def failure(self) -> BaseException:
        assert self.answer is not None
        assert self.answer.done()
        failure = self.answer.exception()
        assert failure is not None
        return failure


def run(
    asking: Asking,
    folder: Path,
    source: Any,
    ledger: Ledger,
    build: Configure = counting,
    storage: PosixStorage | None = None,
    parallelism: int = 2,
    **options: str,
) -> Incarnation:
    env = in_process(parallelism, **options)
    build(env, source, ledger)
    return live(env, folder, storage=storage, on_start=asking.start, on_step=asking.step)


def restore(
    path: str, source: Any, ledger: Ledger, parallelism: int = 2, build: Configure = counting, **options: str
) -> None:
    env = in_process(parallelism, execution__state_recovery__path=path, **options)
    build(env, source, ledger)
    env.execute("restored")


def folders(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.exists() else []


# --- the verbs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_type", FORMATS)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_another_job_goes_on_exactly_where_a_savepoint_was_taken(
    format_type: SavepointFormatType, parallelism: int, tmp_path: Path
) -> None:
    source = ScriptedSource(script(40))
    first, second = Ledger(uuid4().hex), Ledger(uuid4().hex)
    asking = Asking(4, tmp_path / "sp", format=format_type)
    life = run(asking, tmp_path / "job", source, first)
    assert life.status is JobStatus.FINISHED, life.failure
    assert Counter(first.records) == expected(range(40)), "the job itself went on undisturbed"
    restore(asking.path, source, second, parallelism)
    before = expected(range(16))
    assert Counter(second.records) + before == expected(range(40))


@pytest.mark.parametrize("seed", range(20))
def test_from_job_to_job_nothing_is_lost_or_repeated(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    size = random.randint(30, 60)
    source, ledger = ScriptedSource(script(size, random.randint(2, 6))), Ledger(uuid4().hex)
    order = random.choice([STOP, CANCEL])
    asking = Asking(random.randint(0, 4), tmp_path / "sp", order, random.choice(FORMATS))
    life = run(asking, tmp_path / "job", source, ledger, parallelism=random.randint(1, 4))
    assert life.status is (JobStatus.FINISHED if order is STOP else JobStatus.CANCELED)
    path: str | None = asking.path
    for _ in range(3):
        options = {
            "execution__state_recovery__path": path, "execution__checkpointing__dir": str(tmp_path / "chk"),
            "execution__state_recovery__claim_mode": random.choice(["CLAIM", "NO_CLAIM"]),
        }  # fmt: skip
        env = in_process(random.randint(1, 4), **{key: value for key, value in options.items() if value is not None})
        counting(env, source, ledger)
        client = env.execute_async("next")
        path = _path_if_taken(client.stop_with_savepoint(False, str(tmp_path / "sp"), random.choice(FORMATS)))
        client.get_job_execution_result().result(120)
        if path is None:
            break
    if path is not None:
        restore(path, source, ledger, random.randint(1, 4))
    assert Counter(ledger.records) == expected(range(size))


def _path_if_taken(answer: CompletableFuture[str]) -> str | None:
    try:
        return answer.result(120)
    except SavepointError:
        return None  # the job was faster


def test_a_savepoint_of_a_job_that_has_read_nothing_yet(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(12)), Ledger(uuid4().hex)
    asking = Asking(0, tmp_path / "sp")
    assert run(asking, tmp_path / "job", source, ledger).status is JobStatus.FINISHED
    second = Ledger(uuid4().hex)
    restore(asking.path, source, second)
    whole = expected(range(12))
    assert Counter(ledger.records) == whole
    done = open_checkpoint(asking.path, False)[1].sources
    assert Counter(second.records) <= whole
    assert len(done) == 1


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value) * 1000


def windowed(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    stream = env.from_source(source, strategy, "n").uid("n").map(lambda n: (0, [n])).uid("pair")
    windows = stream.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    windows.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("window").sink_to(LedgerSink(ledger)).uid("sink")


@pytest.mark.parametrize("format_type", FORMATS)
def test_stopping_leaves_windows_open_and_the_next_job_closes_them(
    format_type: SavepointFormatType, tmp_path: Path
) -> None:
    source, ledger = ScriptedSource(script(25, 5), endless=True), Ledger(uuid4().hex)
    asking = Asking(3, tmp_path / "sp", STOP, format_type)
    life = run(asking, tmp_path / "job", source, ledger, windowed)
    assert life.history.statuses[-1] is JobStatus.FINISHED
    assert len(life.history.epochs) == 3, "it stops at the boundary, whatever is left to read"
    assert ledger.records == [(0, list(range(10)))]
    restore(asking.path, ScriptedSource(script(25, 5)), ledger, 3, windowed)
    assert ledger.records == [(0, list(range(10))), (0, list(range(10, 20))), (0, list(range(20, 25)))]


def test_draining_ends_the_sources_and_fires_every_window(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(25, 5), endless=True), Ledger(uuid4().hex)
    asking = Asking(3, tmp_path / "sp", DRAIN)
    life = run(asking, tmp_path / "job", source, ledger, windowed)
    assert life.status is JobStatus.FINISHED
    assert ledger.records == [(0, list(range(10))), (0, [10, 11, 12, 13, 14])]
    mark = open_checkpoint(asking.path, False)[1].savepoint
    assert mark is not None
    assert mark.drained
    # What was drained is over: a job that starts from it has nothing to do.
    restore(asking.path, source, ledger, 1, windowed)
    assert len(ledger.records) == 2


def test_cancelling_with_a_savepoint_ends_as_cancelled(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(20), endless=True), Ledger(uuid4().hex)
    asking = Asking(2, tmp_path / "sp", CANCEL)
    life = run(asking, tmp_path / "job", source, ledger)
    assert life.history.statuses[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]
    assert len(life.history.epochs) == 2
    assert folders(tmp_path / "sp") == [Path(asking.path).name]


def test_several_requests_are_served_and_only_one_may_end_the_job(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40), endless=True), Ledger(uuid4().hex)
    answers: list[CompletableFuture[str]] = []

    class Many(Asking):
        def ask(self) -> None:
            assert self.master is not None
            for order in (TAKE, TAKE, STOP, CANCEL, TAKE):
                answers.append(self.master.submit(replace(order, target=str(self.directory))))

    life = run(Many(2, tmp_path / "sp"), tmp_path / "job", source, ledger)
    assert life.status is JobStatus.FINISHED
    taken = {answer.result(120) for answer in answers[:3]}
    assert len(taken) == 3
    assert folders(tmp_path / "sp") == sorted(Path(path).name for path in taken)
    assert "stopped with a savepoint already" in str(answers[3].exception())
    assert "ended (FINISHED)" in str(answers[4].exception())
    assert life.master is not None
    late = life.master.submit(TakeSavepoint(str(tmp_path)))
    assert isinstance(late.exception(), SavepointError)


class Later(Inline):
    """Work that is begun, but done only when the test says so: as slow as a large savepoint."""

    def __init__(self) -> None:
        self._work: list[Callable[[], None]] = []

    def start(self, work: Callable[[], Any], name: str) -> Future[Any]:
        future: Future[Any] = Future()
        self._work.append(lambda: future.set_result(work()))
        return future

    def do_it(self) -> None:
        for work in self._work:
            work()


def test_a_slow_savepoint_holds_on_to_files_that_the_job_does_not_need_any_more(tmp_path: Path) -> None:
    source, first, second = ScriptedSource(script(60, 3)), Ledger(uuid4().hex), Ledger(uuid4().hex)
    later, state = Later(), tmp_path / "job" / "state"

    class Slow(Asking):
        def start(self, master: JobMaster) -> None:
            super().start(master)
            master.savepoints._beside = later
            master._compaction._beside = Inline()

        def step(self, name: str, epoch: int) -> None:
            super().step(name, epoch)
            if (name, epoch) == ("committed", 18):
                assert self.answer is not None
                assert not self.answer.done()
                later.do_it()

    asking = Slow(4, tmp_path / "sp")
    life = run(asking, tmp_path / "job", source, first)
    assert life.status is JobStatus.FINISHED, life.failure
    restore(asking.path, source, second)
    assert Counter(second.records) + expected(range(12)) == expected(range(60))
    completed = CheckpointStore(PosixStorage(str(tmp_path / "job"))).completed()
    assert set(os.listdir(state)) == {Path(name).name for manifest in completed for name in manifest.files}


# --- through the client ----------------------------------------------------------------------------------------------


def asynchronous(source: Any, ledger: Ledger, build: Configure = counting, **options: str) -> Any:
    env = in_process(2, **options)
    build(env, source, ledger)
    return env.execute_async("job")


def test_an_idle_job_reacts_at_once_to_every_verb(tmp_path: Path) -> None:
    """It would ask its source for input once an hour: nothing but the request can wake it."""
    for number, verb in enumerate(["trigger_savepoint", "stop", "drain", "cancel_with_savepoint"]):
        ledger = Ledger(uuid4().hex)
        client = asynchronous(
            ScriptedSource([], endless=True), ledger, flott__epoch__poll_interval="1 h",
            execution__checkpointing__savepoint_dir=(tmp_path / str(number)).as_uri(),
        )  # fmt: skip
        match verb:
            case "stop" | "drain":
                path = client.stop_with_savepoint(verb == "drain").result(120)
            case _:
                path = getattr(client, verb)().result(120)
        assert Path(path).parent == tmp_path / str(number)
        if verb == "trigger_savepoint":
            assert client.get_job_status().result() is JobStatus.RUNNING
            client.cancel().result(120)
        else:
            ended = JobStatus.CANCELED if verb == "cancel_with_savepoint" else JobStatus.FINISHED
            assert client.get_job_status().result() is ended, "answered when the job has ended"


def test_a_request_that_cannot_be_met_is_refused_with_a_sentence(tmp_path: Path) -> None:
    client = asynchronous(ScriptedSource([], endless=True), Ledger(uuid4().hex), flott__epoch__poll_interval="1 h")
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.savepoint-dir"):
        client.trigger_savepoint().result(120)
    with pytest.raises(SavepointError, match=r"temporary directory.*execution\.checkpointing\.dir"):
        client.stop_with_savepoint(False, str(tmp_path), NATIVE).result(120)
    (tmp_path / "file").write_text("")
    with pytest.raises(SavepointError, match=r"failed.*The job goes on"):
        client.stop_with_savepoint(False, str(tmp_path / "file")).result(120)
    assert client.get_job_status().result() is JobStatus.RUNNING
    path = client.trigger_savepoint(str(tmp_path)).result(120)
    assert Path(path, "_metadata").exists()
    client.cancel().result(120)
    with pytest.raises(SavepointError, match="ended"):
        client.trigger_savepoint(str(tmp_path)).result(120)


def test_a_batch_job_has_no_savepoints(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    asking = Asking(0, tmp_path)
    run(asking, tmp_path / "job", ScriptedSource(script(4)), ledger, execution__runtime_mode="BATCH")
    assert "BATCH" in str(asking.failure)


# --- what a savepoint is made of -------------------------------------------------------------------------------------


def test_a_canonical_savepoint_is_one_folder_with_one_base_file_per_subtask(tmp_path: Path) -> None:
    asking = Asking(5, tmp_path / "sp")
    run(asking, tmp_path / "job", ScriptedSource(script(40)), Ledger(uuid4().hex), parallelism=3)
    _, manifest = open_checkpoint(asking.path, False)
    assert manifest.savepoint is not None
    assert (manifest.savepoint.format, manifest.savepoint.home) == (CANONICAL, None)
    sequences = [s.sequence for op in manifest.operators.values() for s in op.subtasks if s.sequence]
    assert sequences
    assert all(len(sequence) == 1 and sequence[0].is_base and not sequence[0].covers for sequence in sequences)
    assert {path.name for path in Path(asking.path).iterdir()} == {"_metadata", *manifest.files}
    assert all((Path(asking.path) / f.name).stat().st_size == f.size for sequence in sequences for f in sequence)
    assert Path(asking.path).name.startswith("savepoint-job-")
    moved = tmp_path / "moved"
    Path(asking.path).rename(moved)
    ledger = Ledger(uuid4().hex)
    restore(str(moved / "_metadata"), ScriptedSource(script(40)), ledger)
    assert Counter(ledger.records) + expected(range(20)) == expected(range(40))


@pytest.mark.parametrize("format_type", FORMATS)
def test_it_holds_no_committables_because_they_are_committed(format_type: SavepointFormatType, tmp_path: Path) -> None:
    asking = Asking(3, tmp_path / "sp", format=format_type)
    ledger = Ledger(uuid4().hex)
    run(asking, tmp_path / "job", ScriptedSource(script(40)), ledger)
    _, manifest = open_checkpoint(asking.path, False)
    assert manifest.committables == {}
    assert (manifest.attempts, manifest.accumulators) == ((), None)


def test_a_native_savepoint_outlives_subsumption_and_the_job_until_it_is_disposed_of(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(60, 2)), Ledger(uuid4().hex)
    client_dir = tmp_path / "chk"
    env = in_process(2, execution__checkpointing__dir=str(client_dir))
    counting(env, source, ledger)
    path: list[str] = []

    def ask(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 5):
            path.append(client.trigger_savepoint(str(tmp_path / "sp"), NATIVE))

    executors.step_hook = ask
    try:
        gate = _Gate()
        executors.step_hook = gate.before(ask)
        client = env.execute_async("job")
        gate.open()
        client.get_job_execution_result().result(120)
    finally:
        executors.step_hook = None
    savepoint = path[0].result(120)  # type: ignore[attr-defined]
    assert Counter(ledger.records) == expected(range(60))
    (home,) = client_dir.iterdir()
    _, manifest = open_checkpoint(savepoint, False)
    assert manifest.savepoint is not None
    assert manifest.savepoint.home == str(home)
    kept = {str(file) for file in (home / "state").iterdir()}
    assert kept == manifest.files, "the job is over: only what the savepoint needs is left"
    assert not list(home.glob("chk-*"))
    second = Ledger(uuid4().hex)
    restore(savepoint, source, second, 3)
    assert Counter(second.records) + expected(range(10)) == expected(range(60))
    dispose_savepoint(savepoint)
    assert folders(tmp_path / "sp") == []
    assert folders(client_dir) == []


class _Gate:
    """Keeps a job from its first step until the test knows its client."""

    def __init__(self) -> None:
        import threading

        self._event = threading.Event()

    def open(self) -> None:
        self._event.set()

    def before(self, hook: Callable[[str, int], None]) -> Callable[[str, int], None]:
        def wait(step: str, epoch: int) -> None:
            assert self._event.wait(120)
            hook(step, epoch)

        return wait


def test_a_native_savepoint_disposed_of_while_the_job_runs_lets_its_files_go(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    asking = Asking(2, tmp_path / "sp", format=NATIVE)
    before: list[set[str]] = []
    state = tmp_path / "job" / "state"

    class Disposing(Asking):
        def step(self, name: str, epoch: int) -> None:
            asking.step(name, epoch)
            if (name, epoch) == ("committed", 6):
                needed = {Path(file).name for file in open_checkpoint(asking.path, False)[1].files}
                assert needed <= set(os.listdir(state))
                before.append(needed)
                dispose_savepoint(asking.path)
                assert asking.master is not None
                asking.master.retained.sweep(6)

        def start(self, master: JobMaster) -> None:
            asking.start(master)

    life = run(Disposing(0, tmp_path), tmp_path / "job", source, ledger)
    assert life.status is JobStatus.FINISHED
    completed = CheckpointStore(PosixStorage(str(tmp_path / "job"))).completed()
    assert set(os.listdir(state)) == {Path(name).name for manifest in completed for name in manifest.files}
    assert list(read_pins(PosixStorage(str(tmp_path / "job")))) == []
    assert folders(tmp_path / "sp") == []


def test_exporting_makes_a_native_savepoint_self_contained(tmp_path: Path) -> None:
    source = ScriptedSource(script(40))
    asking = Asking(4, tmp_path / "sp", STOP, NATIVE)
    run(asking, tmp_path / "job", source, Ledger(uuid4().hex))
    exported = export_savepoint(asking.path, str(tmp_path / "elsewhere"))
    dispose_savepoint(asking.path)
    for path in sorted((tmp_path / "job").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    ledger = Ledger(uuid4().hex)
    restore(exported, source, ledger, 3)
    assert Counter(ledger.records) + expected(range(16)) == expected(range(40))
    assert open_checkpoint(exported, False)[1].savepoint.format is CANONICAL  # type: ignore[union-attr]
    again = export_savepoint(exported, str(tmp_path / "elsewhere"))
    assert again != exported
    dispose_savepoint(exported)
    dispose_savepoint(again)
    assert folders(tmp_path / "elsewhere") == []


def test_only_savepoints_are_disposed_of(tmp_path: Path) -> None:
    asking = Asking(9, tmp_path)
    run(asking, tmp_path / "job", ScriptedSource(script(8)), Ledger(uuid4().hex))
    (checkpoint,) = (tmp_path / "job").glob("chk-*")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(StateError, match="is a checkpoint of job job, not a savepoint"):
        dispose_savepoint(str(checkpoint))
    with pytest.raises(StateError, match="not a completed checkpoint or savepoint"):
        dispose_savepoint(str(tmp_path / "job"))
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_disposing_leaves_what_somebody_else_put_into_the_folder(tmp_path: Path) -> None:
    asking = Asking(1, tmp_path / "sp")
    run(asking, tmp_path / "job", ScriptedSource(script(8)), Ledger(uuid4().hex))
    (Path(asking.path) / "note.txt").write_text("mine")
    dispose_savepoint(asking.path)
    assert folders(Path(asking.path)) == ["note.txt"]


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [TAKE, STOP, DRAIN, CANCEL])
@pytest.mark.parametrize("format_type", FORMATS)
def test_a_full_disk_fails_the_savepoint_and_never_the_job(
    order: SavepointOrder, format_type: SavepointFormatType, tmp_path: Path
) -> None:
    target = tmp_path / "sp"
    refused: list[str] = []
    written: list[str] = []

    def fails(verb: str, name: str) -> bool:
        place = name if os.path.isabs(name) else ""
        if verb in ("write", "publish") and (str(target) in place or name == "_metadata"):
            written.append(name)
            if len(written) > 2 or name == "_metadata":
                refused.append(name)
                return True
        return False

    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    asking = Asking(3, target, order, format_type)
    storage = UnreliableStorage(str(tmp_path / "job"), sync=False, faults=Faults(fails))
    life = run(asking, tmp_path / "job", source, ledger, storage=storage)
    assert life.status is JobStatus.FINISHED, life.failure
    assert refused
    assert isinstance(asking.failure, SavepointError)
    assert "the test says so" in str(asking.failure)
    assert folders(target) == [], "nothing half written is left"
    assert list(read_pins(storage)) == []
    if order is DRAIN:
        assert Counter(ledger.records) == expected(range(12))
        assert life.master.savepoints.checkpoint_is_needed
        assert (tmp_path / "job" / "chk-4" / "_metadata").exists()
        assert str(tmp_path / "job" / "chk-4") in str(asking.failure)
    else:
        assert Counter(ledger.records) == expected(range(40)), "the job went on"
        assert "The job goes on" in str(asking.failure)


class Last(KeyedProcessFunction[int, int, Any]):
    """Raises the first time event time comes to its end."""

    failed: ClassVar[set[str]] = set()

    def __init__(self, token: str):
        self.token = token

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(2**60)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self.token not in self.failed:
            self.failed.add(self.token)
            raise RuntimeError("not now")
        yield "end"


def test_a_drain_that_fails_is_given_up_and_the_job_goes_on(tmp_path: Path) -> None:
    ledger, token = Ledger(uuid4().hex), uuid4().hex
    env = in_process(2, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="3")
    stream = env.from_source(ScriptedSource(script(12)), WatermarkStrategy.for_monotonous_timestamps(), "n").uid("n")
    stream.key_by(lambda n: 0).process(Last(token)).uid("last").sink_to(LedgerSink(ledger)).uid("sink")
    asking = Asking(1, tmp_path / "sp", DRAIN)
    life = live(env, tmp_path / "job", on_start=asking.start, on_step=asking.step)
    assert life.status is JobStatus.FINISHED
    assert "could not be drained" in str(asking.failure)
    assert "not now" in str(asking.failure)
    assert ledger.records == [*range(12), "end"]
    assert len(life.history.restarts) == 1
    assert folders(tmp_path / "sp") == []


def crash_at(moment: int, asking: Asking, folder: Path, source: Any, ledger: Ledger) -> bool:
    """Run the job and kill it when a savepoint has changed so many files; False if the savepoint was done by then."""
    left = moment

    def fails(verb: str, name: str) -> bool:
        nonlocal left
        if asking.answer is not None and not asking.answer.done() and verb != "read":
            left -= 1
            if left < 0:
                raise Crash
        return False

    def start(master: JobMaster) -> None:
        asking.start(master)
        master.savepoints._beside = Inline()

    env = in_process(2)
    counting(env, source, ledger)
    storage = UnreliableStorage(str(folder), sync=False, faults=Faults(fails))
    return live(env, folder, storage=storage, on_start=start, on_step=asking.step).crashed


@pytest.mark.parametrize("order", [TAKE, STOP, DRAIN])
@pytest.mark.parametrize("format_type", FORMATS)
def test_a_crash_at_any_moment_of_a_savepoint_leaves_no_trace_of_it(
    order: SavepointOrder, format_type: SavepointFormatType, tmp_path: Path
) -> None:
    for moment in range(60):
        folder, target = tmp_path / f"job{moment}", tmp_path / f"sp{moment}"
        source, ledger = ScriptedSource(script(16)), Ledger(uuid4().hex)
        asking = Asking(2, target, order, format_type)
        if not crash_at(moment, asking, folder, source, ledger):
            assert asking.path
            break
        again = run(Asking(99, target), folder, source, ledger)
        assert again.status is JobStatus.FINISHED, again.failure
        drained = order is DRAIN and not again.history.epochs  # that much was complete: the job has finished
        assert Counter(ledger.records) == expected(range(8 if drained else 16)), moment
        complete = [name for name in folders(target) if (target / name / "_metadata").exists()]
        assert folders(target) == complete, "what was half written is gone"
        pins = read_pins(PosixStorage(str(folder)))
        assert [Path(pin.savepoint).name for pin in pins] == (complete if format_type is NATIVE else [])
        for name in complete:
            restore(str(target / name), source, Ledger(uuid4().hex))
    assert moment >= 2, "it has that many moments at least"


# --- NO_CLAIM and CLAIM ----------------------------------------------------------------------------------------------


def _savepoint(tmp_path: Path, source: Any, ledger: Ledger, format_type: SavepointFormatType) -> str:
    asking = Asking(4, tmp_path / "sp", STOP, format_type)
    assert run(asking, tmp_path / "job", source, ledger).status is JobStatus.FINISHED
    return asking.path


@pytest.mark.parametrize("format_type", FORMATS)
def test_without_a_claim_the_savepoint_may_be_deleted_as_soon_as_the_job_runs(
    format_type: SavepointFormatType, tmp_path: Path
) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, format_type)

    def delete(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 5):
            dispose_savepoint(path)
            for file in [*(tmp_path / "job").rglob("*"), *(tmp_path / "sp").rglob("*")]:
                if file.is_file():
                    file.unlink()

    executors.step_hook = delete
    try:
        restore(path, source, ledger, 3)
    finally:
        executors.step_hook = None
    assert Counter(ledger.records) == expected(range(40))


@pytest.mark.parametrize("format_type", FORMATS)
@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_claimed_savepoint_is_used_where_it_is_and_goes_with_the_job(
    format_type: SavepointFormatType, parallelism: int, tmp_path: Path
) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, format_type)
    seen: list[bool] = []

    def look(step: str, epoch: int) -> None:
        if step == "planned":
            (own,) = (tmp_path / "new").iterdir()
            store = CheckpointStore(PosixStorage(str(own)))
            referred = {name for manifest in store.completed() for name in manifest.files if os.path.isabs(name)}
            seen.append(bool(referred))
            assert all(Path(name).exists() for name in referred)

    executors.step_hook = look
    try:
        restore(
            path, source, ledger, parallelism, execution__checkpointing__dir=str(tmp_path / "new"),
            execution__state_recovery__claim_mode="CLAIM",
        )  # fmt: skip
    finally:
        executors.step_hook = None
    assert Counter(ledger.records) == expected(range(40))
    assert seen[0], "nothing was copied"
    assert folders(tmp_path / "sp") == []
    assert folders(tmp_path / "new") == []
    if format_type is NATIVE:
        assert not list((tmp_path / "job").glob("pins/*"))


def test_a_claimed_checkpoint_goes_with_the_job_and_takes_the_former_jobs_directory_along(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    env = in_process(2)
    counting(env, source, ledger)

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 4):
            raise Crash

    assert live(env, tmp_path / "job", on_step=die).crashed
    restore(
        str(tmp_path / "job" / "chk-4"), source, ledger, execution__checkpointing__dir=str(tmp_path / "new"),
        execution__state_recovery__claim_mode="CLAIM",
    )  # fmt: skip
    assert Counter(ledger.records) == expected(range(40))
    assert not (tmp_path / "job").exists()
    assert folders(tmp_path / "new") == []


def test_a_claim_is_given_back_if_the_job_never_starts(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, CANONICAL)
    before = sorted(os.listdir(path))

    def other(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
        counting(env, source, ledger)
        env.from_collection([1]).key_by(lambda n: n).process(Last("x")).sink_to(LedgerSink(ledger))

    with pytest.raises(ConfigurationError, match="cannot be used"):
        restore(
            path, source, ledger, build=other, execution__checkpointing__dir="/proc/version/x",
            execution__state_recovery__claim_mode="CLAIM",
        )  # fmt: skip
    assert sorted(os.listdir(path)) == before
    restore(path, source, ledger, execution__state_recovery__claim_mode="CLAIM")
    assert Counter(ledger.records) == expected(range(40))


def test_a_claimed_savepoint_is_deleted_while_the_job_runs_once_its_files_are_compacted(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(400, 2)), Ledger(uuid4().hex)
    asking = Asking(1, tmp_path / "sp", STOP)
    run(asking, tmp_path / "job", source, ledger)
    store = CheckpointStore(PosixStorage(str(tmp_path / "next"), sync=False))
    store.claim("job")
    begin_with(open_snapshot(asking.path, False), store, "job", ClaimMode.CLAIM)
    store.release()
    gone_at: list[int] = []

    class Looking(Asking):
        def start(self, master: JobMaster) -> None:
            master._compaction._beside = Inline()

        def step(self, name: str, epoch: int) -> None:
            if name == "committed" and not gone_at and not Path(asking.path).exists():
                gone_at.append(epoch)

    life = run(Looking(0, tmp_path), tmp_path / "next", source, ledger)
    assert life.status is JobStatus.FINISHED, life.failure
    assert Counter(ledger.records) == expected(range(400))
    assert gone_at
    assert gone_at[0] > 3
    assert not (tmp_path / "next" / "claim").exists()


def test_a_job_continues_though_the_savepoint_it_began_with_is_gone(tmp_path: Path) -> None:
    """With the very configuration it was started with: path and from-latest."""
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, CANONICAL)
    options = {
        "execution__checkpointing__dir": str(tmp_path / "new"), "execution__state_recovery__from_latest": "true",
    }  # fmt: skip

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 5):
            raise Crash

    executors.step_hook = die
    try:
        with pytest.raises(Crash):
            restore(path, source, ledger, **options)
    finally:
        executors.step_hook = None
    dispose_savepoint(path)
    restore(path, source, ledger, **options)
    assert Counter(ledger.records) == expected(range(40))
    assert folders(tmp_path / "new") == []


def test_a_start_that_is_refused_leaves_the_job_that_runs_in_the_directory_alone(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, CANONICAL)
    other = CheckpointStore(PosixStorage(str(tmp_path / "new" / "running"), sync=False))
    other.claim("restored")
    other.write_input(EpochInput(1, 0, {}))
    with pytest.raises(JobLockedError):
        restore(
            path, source, ledger, execution__checkpointing__dir=str(tmp_path / "new"),
            execution__state_recovery__from_latest="true", execution__state_recovery__claim_mode="CLAIM",
        )  # fmt: skip
    assert folders(tmp_path / "new" / "running") == ["job.json", "lock", "plans"]
    assert Path(path, "_metadata").exists()
    other.release()


def test_a_native_savepoint_of_a_job_that_claimed_its_own_beginning_keeps_all_of_it(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    first = _savepoint(tmp_path, source, ledger, CANONICAL)
    store = CheckpointStore(PosixStorage(str(tmp_path / "next"), sync=False))
    store.claim("job")
    begin_with(open_snapshot(first, False), store, "job", ClaimMode.CLAIM)
    store.release()
    asking = Asking(6, tmp_path / "sp", STOP, NATIVE)
    run(asking, tmp_path / "next", source, ledger)
    restore(asking.path, source, ledger, 3)
    assert Counter(ledger.records) == expected(range(40))


def test_a_savepoint_after_a_live_rescale_holds_everything(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(80)), Ledger(uuid4().hex)

    class Rescaling(Asking):
        def step(self, name: str, epoch: int) -> None:
            assert self.master is not None
            if name == "committed" and epoch in (2, 4, 7):
                self.master.submit(RescaleJob({2: 4, 4: 1, 7: 3}[epoch]))
            super().step(name, epoch)

    for number, format_type in enumerate(FORMATS):
        first, second = Ledger(uuid4().hex), Ledger(uuid4().hex)
        asking = Rescaling(9, tmp_path / "sp", STOP, format_type)
        run(asking, tmp_path / f"job{number}", source, first)
        restore(asking.path, source, second)
        assert Counter(first.records) + Counter(second.records) == expected(range(80))
    assert not ledger.records


def test_the_mode_that_flink_gave_up_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"LEGACY.*NO_CLAIM.*CLAIM"):
        restore("/nowhere", ScriptedSource([]), Ledger(uuid4().hex), execution__state_recovery__claim_mode="legacy")


@pytest.mark.parametrize("step", ["ran", "acknowledged", "completed", "committed"])
def test_output_of_the_checkpoint_another_job_starts_from_is_committed_exactly_once(step: str, tmp_path: Path) -> None:
    """The former job may have died between completing the checkpoint and committing it."""
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    env = in_process(2)
    counting(env, source, ledger)

    def die(name: str, epoch: int) -> None:
        if (name, epoch) == (step, 4):
            raise Crash

    assert live(env, tmp_path / "job", on_step=die).crashed
    checkpoint = max((tmp_path / "job").glob("chk-*"))
    restore(str(checkpoint), source, ledger, 3)
    assert Counter(ledger.records) == expected(range(40))


# --- changed programs ------------------------------------------------------------------------------------------------


def test_state_without_an_operator_is_refused_with_all_that_is_needed_to_act(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, CANONICAL)

    def renamed(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
        keyed = env.from_source(source, NO_TIME, "n").uid("n").key_by(lambda n: n % 5)
        keyed.process(Count()).uid("counter").sink_to(LedgerSink(ledger)).uid("sink")

    with pytest.raises(ProgramError) as refused:
        restore(path, source, ledger, build=renamed)
    text = str(refused.value)
    for part in (
        "The savepoint holds", "(uid 'count')", "value state 'count'", "list state 'some'", "(uid 'seen')",
        "list state 'seen'", "uid('seen')", "execution.state-recovery.ignore-unclaimed-state", "does not know",
    ):  # fmt: skip
        assert part in text, text
    second = Ledger(uuid4().hex)
    restore(path, source, second, build=renamed, execution__state_recovery__ignore_unclaimed_state="true")
    assert Counter(second.records) == expected(range(16, 40)), "it begins to count at the position of the savepoint"


def test_a_program_with_an_operator_more_or_less_goes_on_where_flinks_would(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, CANONICAL)

    def larger(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
        stream = env.from_source(source, NO_TIME, "n").uid("n").map(lambda n: n).filter(lambda n: True)
        counted = stream.map(Seen()).uid("seen").key_by(lambda n: n % 5).process(Count()).uid("count")
        counted.map(lambda row: row).set_parallelism(1).sink_to(LedgerSink(ledger)).uid("sink")

    restore(path, source, ledger, 3, larger)
    assert Counter(ledger.records) == expected(range(40))


def test_a_source_that_is_gone_is_not_read_from_the_beginning_without_a_word(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = _savepoint(tmp_path, source, ledger, CANONICAL)

    def other(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
        stream = env.from_source(source, NO_TIME, "n").uid("other").map(Seen()).uid("seen")
        stream.key_by(lambda n: n % 5).process(Count()).uid("count").sink_to(LedgerSink(ledger)).uid("sink")

    with pytest.raises(ProgramError, match=r"uid 'n'\): how far its input was read"):
        restore(path, source, ledger, build=other)


def test_output_that_may_not_be_visible_is_not_left_behind_without_a_word(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    env = in_process(2)
    counting(env, source, ledger)

    def die(name: str, epoch: int) -> None:
        if (name, epoch) == ("completed", 4):
            raise Crash

    assert live(env, tmp_path / "job", on_step=die).crashed

    def other(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
        stream = env.from_source(source, NO_TIME, "n").uid("n").map(Seen()).uid("seen")
        stream.key_by(lambda n: n % 5).process(Count()).uid("count").sink_to(LedgerSink(ledger)).uid("elsewhere")

    with pytest.raises(ProgramError, match=r"uid 'sink'\): output that may not be visible yet"):
        restore(str(tmp_path / "job" / "chk-4"), source, ledger, build=other)


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_snapshot_with_a_missing_or_truncated_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    source, ledger = ScriptedSource(script(40)), Ledger(uuid4().hex)
    path = Path(_savepoint(tmp_path, source, ledger, CANONICAL))
    committed = list(ledger.records)
    for file in sorted(path.glob("*state")):
        data = file.read_bytes()
        file.write_bytes(data[:-1])
        with pytest.raises(StateError, match=f"file {file} has {len(data) - 1} bytes, expected {len(data)}"):
            restore(str(path), source, ledger)
        file.unlink()
        with pytest.raises(StateError, match=f"incomplete: its file {file} cannot be read"):
            restore(str(path), source, ledger)
        file.write_bytes(data)
    metadata = path / "_metadata"
    data = metadata.read_bytes()
    for damaged, reason in (
        (data[:-3], "bytes of JSON, expected"),
        (data.replace(b'"seen"', b'"sean"', 1), "does not match its checksum"),
        (data.replace(b" 2 ", b" 3 ", 1), "format version 3, of a later version of Flott; this one reads version 2"),
        (b"", "not a Flott snapshot"),
    ):
        metadata.write_bytes(damaged)
        with pytest.raises(StateError, match=reason):
            restore(str(path), source, ledger)
    metadata.unlink()
    with pytest.raises(StateError, match="not a completed checkpoint or savepoint"):
        restore(str(path), source, ledger)
    metadata.write_bytes(data)
    assert ledger.records == committed
    restore(str(path), source, ledger)
    assert Counter(ledger.records) == expected(range(40))


def test_a_checkpoint_folder_away_from_its_job_is_refused(tmp_path: Path) -> None:
    run(Asking(9, tmp_path), tmp_path / "job", ScriptedSource(script(8)), Ledger(uuid4().hex))
    (checkpoint,) = (tmp_path / "job").glob("chk-*")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "_metadata").write_bytes((checkpoint / "_metadata").read_bytes())
    with pytest.raises(StateError, match="away from the job's directory"):
        restore(str(tmp_path / "copy"), ScriptedSource([]), Ledger(uuid4().hex))


def test_names_of_savepoints_are_flinks() -> None:
    assert paths.savepoint("0123456789ab", "cafe") == "savepoint-012345-cafe"
