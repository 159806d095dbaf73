"""CheckpointedFunction: fields of a function are right, whichever worker runs it, through crashes and rescaling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.errors import StorageError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.managed_state.operator.operator_shares import Mode, OperatorStart
from flott.runtime.managed_state.operator.operator_state import OperatorState
from flott.runtime.storage import PosixStorage
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Crash, Faults, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource
from tests.unit.runtime.epoch.wandering import wandering
from tests.unit.runtime.jobmaster.test_protocol import STEPS, Storm, TornStorage, patient, tidy

NO_TIME = WatermarkStrategy.no_watermarks()

#: What happened to functions, in order. They run in this process.
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    calls.clear()


class Triples(FlatMapFunction[int, Any], CheckpointedFunction):
    """Emits every three records together. Fills its field as Flink's own example does: it adds to what is there."""

    def __init__(self) -> None:
        self.waiting: list[int] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
        if context.is_restored():
            for value in self.saved.get():
                self.waiting.append(value)

    def flat_map(self, value: int) -> Iterator[Any]:
        self.waiting.append(value)
        if len(self.waiting) >= 3:
            yield tuple(self.waiting)
            self.waiting.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.clear()
        for value in self.waiting:
            self.saved.add(value)


class Count(KeyedProcessFunction[int, int, Any], CheckpointedFunction):
    """Has keyed state, a timer and a field that counts all records of the subtask."""

    seen = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen"))
        self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count"))
        self.seen += sum(self.saved.get())

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.seen += 1
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update([self.seen] if self.seen else [])


def program(env: StreamExecutionEnvironment, source: Any, triples: Ledger, counts: Ledger) -> None:
    numbers = env.from_source(source, NO_TIME, "n").uid("n")
    numbers.rebalance().flat_map(Triples()).uid("triples").map(lambda v: v).sink_to(LedgerSink(triples)).uid("t")
    numbers.key_by(lambda n: n % 5).process(Count()).uid("count").sink_to(LedgerSink(counts)).uid("c")


def items_in(folder: Path, uid: str, state: str = "", mode: Mode = Mode.SPLIT) -> list[list[Any]]:
    """What the latest checkpoint holds of an operator's list state, by subtask."""
    storage = PosixStorage(str(folder))
    (snapshot,) = [op for op in CheckpointStore(storage).completed()[-1].operators.values() if op.uid == uid]
    found = []
    for subtask in snapshot.subtasks:
        held = OperatorState(uid)
        held.bring_to(OperatorStart(True, subtask.operator_state), storage)
        found.append(held.named(state or {"triples": "waiting", "count": "seen"}[uid], mode).dump())
    return found


def check(folder: Path, values: list[int], triples: Ledger, counts: Ledger) -> None:
    grouped = [value for group in triples.records for value in group]
    waiting = [value for items in items_in(folder, "triples") for value in items]
    assert Counter(grouped + waiting) == Counter(values), "every record is in one triple, or waits for one"
    sizes = Counter(value % 5 for value in values)
    assert Counter(counts.records) == Counter((key, n + 1) for key, size in sizes.items() for n in range(size))
    assert sum(n for items in items_in(folder, "count") for n in items) == len(values)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_crashes_and_wherever_it_runs_fields_are_right(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    values = list(range(random.randint(0, 60)))
    splits: dict[str, list[Any]] = {f"s{i}": [] for i in range(random.randint(1, 3))}
    for value in values:
        script = splits[random.choice(list(splits))]
        script += [value, *random.choices([[], [EndOfEpoch()], [Abort(1)]], [10, 4, 0.5])[0]]
    source, clock, folder = ScriptedSource(splits), ManualClock(), tmp_path / "job"
    triples, counts = Ledger(uuid4().hex), Ledger(uuid4().hex)
    faults = Faults()
    storage = TornStorage(str(folder), sync=False, faults=faults)
    with wandering(seed):
        for life in range(40):
            storm = Storm(random, []) if life < 10 else None
            faults.fails = storm.storage if storm is not None else (lambda verb, name: False)
            env = patient(random.randint(1, 4))
            program(env, source, triples, counts)
            try:
                done = live(env, folder, clock=clock, storage=storage, on_step=storm.step if storm else None)
            except StorageError:
                continue  # while it was being started
            if done.status is JobStatus.FINISHED:
                break
        else:
            pytest.fail("it never finished")
    check(folder, values, triples, counts)
    faults.fails = lambda verb, name: False
    env = patient(2)
    program(env, source, triples, counts)
    assert live(env, folder, clock=clock, storage=storage).history.epochs == []
    assert tidy(folder) == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_crash_at_every_step_followed_by_another_parallelism(step: str, epoch: int, tmp_path: Path) -> None:
    values = list(range(23))
    source = ScriptedSource([entry for n in values for entry in ((n, EndOfEpoch()) if n % 4 == 3 else (n,))])
    triples, counts = Ledger(uuid4().hex), Ledger(uuid4().hex)

    def life(parallelism: int, signal: type[BaseException] | None, at: int) -> Incarnation:
        def interrupt(now: str, epoch_now: int) -> None:
            if signal is not None and (now, epoch_now) == (step, at):
                raise signal

        env = patient(parallelism)
        program(env, source, triples, counts)
        return live(env, tmp_path, on_step=interrupt)

    with wandering(epoch):
        assert life(1, Crash, epoch).crashed
        assert life(3, Cancel, epoch + 1).status is JobStatus.CANCELED
        assert life(2, None, 0).status is JobStatus.FINISHED
    check(tmp_path, values, triples, counts)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_another_job_goes_on_from_a_checkpoint_and_leaves_its_files_alone(parallelism: int, tmp_path: Path) -> None:
    source = ScriptedSource([entry for n in range(12) for entry in (n, EndOfEpoch())])
    ledger, counts = Ledger(uuid4().hex), Ledger(uuid4().hex)

    def stop(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 4):
            raise Cancel

    env = in_process(1)
    program(env, source, ledger, counts)
    live(env, tmp_path / "first", on_step=stop)
    before = {path.name: path.read_bytes() for path in (tmp_path / "first" / "state").iterdir()}
    env = in_process(
        parallelism,
        execution__state_recovery__path=str(tmp_path / "first" / "chk-4"),
        execution__checkpointing__dir=str(tmp_path / "second"),
    )
    program(env, source, ledger, counts)
    env.execute("second")
    grouped = [value for group in ledger.records for value in group]
    assert len(set(grouped)) == len(grouped)
    assert len(grouped) == 12 if parallelism == 1 else len(grouped) >= 6
    assert sorted(grouped)[:3] == [0, 1, 2]
    assert 3 in grouped, "it was waiting in the checkpoint"
    assert {path.name: path.read_bytes() for path in (tmp_path / "first" / "state").iterdir()} == before


# --- the life of a function ------------------------------------------------------------------------------------------


class Diary(MapFunction[int, int], CheckpointedFunction):
    def __init__(self, sizes: bool = True) -> None:
        self.seen: list[int] = []
        self.writes = sizes

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen"))
        self.seen.extend(self.saved.get())
        calls.append(("initialize", context.is_restored(), context.get_restored_checkpoint_id(), len(self.seen)))

    def open(self, runtime_context: RuntimeContext) -> None:
        calls.append("open")

    def map(self, value: int) -> int:
        self.seen.append(value)
        return len(self.seen)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        calls.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        if self.writes:
            self.saved.update(self.seen)

    def close(self) -> None:
        calls.append("close")


EPOCHS = [entry for n in range(6) for entry in (n, EndOfEpoch())]


def test_in_one_worker_state_is_initialized_once_before_open_and_written_at_the_end_of_every_epoch(
    tmp_path: Path,
) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1)
    env.from_source(ScriptedSource(EPOCHS[:4]), NO_TIME, "n").map(Diary()).sink_to(LedgerSink(ledger))
    live(env, tmp_path, clock=ManualClock(5_000))
    assert calls == [
        ("initialize", False, None, 0), "open", ("snapshot", 1, 5_000), ("snapshot", 2, 5_000), "close",
    ]  # fmt: skip
    assert ledger.records == [1, 2]


def test_a_function_that_was_left_behind_is_replaced_by_a_fresh_copy(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1)
    env.from_source(ScriptedSource(EPOCHS), NO_TIME, "n").map(Diary()).sink_to(LedgerSink(ledger))
    with wandering(1, workers=2):
        live(env, tmp_path)
    assert ledger.records == [1, 2, 3, 4, 5, 6]
    initialized = [call for call in calls if call[0] == "initialize"]
    assert len(initialized) > 2, "more often than there are workers"
    assert initialized == [("initialize", n > 0, n or None, n) for _, _, _, n in initialized]
    assert calls.count("open") == calls.count("close") == len(initialized)


def test_a_function_whose_state_did_not_change_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    env = in_process(1)
    stream = env.from_source(ScriptedSource(EPOCHS), NO_TIME, "n").map(Diary(sizes=False))
    stream.sink_to(LedgerSink(Ledger(uuid4().hex)))
    with wandering(1, workers=2):
        live(env, tmp_path)
    assert len([call for call in calls if call[0] == "initialize"]) == 2


class Broken(Diary):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        super().initialize_state(context)
        if self.where == "initialize_state()":
            raise RuntimeError("cannot")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if self.where == "snapshot_state()":
            raise RuntimeError("cannot")
        self.saved.add(lambda: None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("initialize_state()", "RuntimeError: cannot"),
        ("snapshot_state()", "RuntimeError: cannot"),
        ("saving its operator state", "State 'seen' of operator 'broken' holds an object that cannot be saved"),
    ],
)
def test_a_failure_is_shown_with_the_operator_and_what_it_was_doing(where: str, error: str, tmp_path: Path) -> None:
    env = in_process(1)
    stream = env.from_source(ScriptedSource([1]), NO_TIME, "n").map(Broken(where)).name("broken")
    stream.sink_to(LedgerSink(Ledger(uuid4().hex)))
    failure = str(live(env, tmp_path).failure)
    assert error in failure
    assert f"while      {where}" in failure
    assert "operator   broken" in failure
    assert calls[-1] == "close"


# --- kinds of functions, kinds of state ------------------------------------------------------------------------------


class Longest(ReduceFunction[str], CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("calls"))
        self.calls = sum(self.saved.get())

    def reduce(self, value1: str, value2: str) -> str:
        self.calls += 1
        return max(value1, value2, key=len)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update([self.calls])


class Tally(CheckpointedFunction):
    """Not a Function at all: a callable object with a memory."""

    def __init__(self) -> None:
        self.n = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("n"))
        self.n += sum(self.saved.get())

    def __call__(self, value: Any) -> Any:
        self.n += 1
        return value, self.n

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update([self.n])


def test_every_kind_of_function_may_be_checkpointed(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    words = ScriptedSource([entry for word in ["a", "bb", "c", "ddd"] for entry in (word, EndOfEpoch())])
    env = in_process(1)
    longest = env.from_source(words, NO_TIME, "w").key_by(lambda _: 0).reduce(Longest()).uid("longest")
    longest.map(Tally()).sink_to(LedgerSink(ledger))
    with wandering(3):
        live(env, tmp_path)
    assert ledger.records == [("a", 1), ("bb", 2), ("bb", 3), ("ddd", 4)]
    assert items_in(tmp_path, "longest", "calls") == [[3]]


class Members(MapFunction[int, Any], CheckpointedFunction):
    """Knows the names of all subtasks there were, and a rule that is the same in all."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.names = store.get_union_list_state(ListStateDescriptor("names"))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules"))
        self.known = list(self.names.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = f"{runtime_context.get_index_of_this_subtask()}/{runtime_context.get_number_of_parallel_subtasks()}"

    def map(self, value: int) -> Any:
        return self.name, tuple(self.known), tuple(self.rules.items())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.names.update([self.name])
        self.rules.put("epoch", 1)


def test_union_and_broadcast_state_come_to_every_subtask_when_a_job_is_resumed(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    source = ScriptedSource([entry for n in range(10) for entry in ((n, EndOfEpoch()) if n % 2 else (n,))])

    def life(parallelism: int, until: int) -> set[Any]:
        def stop(step: str, epoch: int) -> None:
            if (step, epoch) == ("committed", until):
                raise Cancel

        before = len(ledger.records)
        env = patient(parallelism)
        members = env.from_source(source, NO_TIME, "n").uid("n").rebalance().map(Members()).uid("members")
        members.sink_to(LedgerSink(ledger)).uid("sink")
        with wandering(parallelism):
            live(env, tmp_path, on_step=stop)
        return set(ledger.records[before:])

    rule = (("epoch", 1),)
    assert life(2, 1) == {("0/2", (), ()), ("1/2", (), ())}
    resumed = {("0/2", ("0/2", "1/2"), rule), ("1/2", ("0/2", "1/2"), rule)}
    later = {("0/2", ("0/2",), rule), ("1/2", ("1/2",), rule)}
    found = life(2, 3)
    assert resumed <= found <= resumed | later, "at the start all names; then one's own, in whichever worker"
    found = life(1, 4)
    assert found == {("0/1", ("0/2", "1/2"), rule)}
    assert items_in(tmp_path, "members", "names", Mode.UNION) == [["0/1"]]
