"""A job changes its parallelism while it runs: nothing is read again, no epoch is repeated, no result changes."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Duration, JobClient, Time, WatermarkStrategy
from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    ProcessFunction,
    RuntimeContext,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.errors import EpochFailure, ProgramError, WorkerLostError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.console import LogDisplay
from flott.runtime.entrypoint import executors
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.jobmaster.rescaling import ParallelismChange
from flott.runtime.managed_state.key_groups import key_group_of
from flott.runtime.orders import RescaleJob
from flott.runtime.storage import PosixStorage
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.jobmaster.test_protocol import patient

NO_TIME = WatermarkStrategy.no_watermarks()
LATE = OutputTag("late")
NAMES = MapStateDescriptor("names")


class EventTimes(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Visits(KeyedProcessFunction[int, Any, Any]):
    """Counts the records of a key, and says five time units after a record how many there were by then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 5)
        yield "count", value[0], self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp, sorted(self.seen.get())


class Modulo(Partitioner[int]):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Keep(BroadcastProcessFunction[Any, Any, Any], CheckpointedFunction):
    """Keeps records in a field until somebody says "flush": saved as an even-split list.

    Keeps account of the numbers that are its own (they come to subtask ``number % parallelism``) in a union list, as a
    source with partitions of its own would. Renames keys by broadcast state.
    """

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.kept_state = store.get_list_state(ListStateDescriptor("kept"))
        self.owned_state = store.get_union_list_state(ListStateDescriptor("owned"))
        self.kept = list(self.kept_state.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        index, parallelism = (
            runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()
        )  # fmt: skip
        found = [entry for entry in self.owned_state.get() if entry[0] % parallelism == index]
        self.owned = dict(found)
        assert len(self.owned) == len(found), "a number has one owner"

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = value[0]
        self.kept.append(value)
        self.owned[number] = self.owned.get(number, 0) + 1
        yield "owned", number, self.owned[number], ctx.get_broadcast_state(NAMES).get(number)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value[0] == "flush":
            yield from [("kept", *record) for record in self.kept]
            self.kept.clear()
        else:
            ctx.get_broadcast_state(NAMES).put(value[0], value[1])

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.kept_state.update(self.kept)
        self.owned_state.update(list(self.owned.items()))


def program(env: StreamExecutionEnvironment, splits: Mapping[str, list[Any]], rules: list[Any], ledger: Ledger) -> None:
    """All there is: keyed state, timers, windows, late records, operator state of every kind, and several sinks."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    strategy = bounded.with_timestamp_assigner(EventTimes())
    records = env.from_source(ScriptedSource(splits), strategy, "records").uid("records")
    visits = records.map(lambda record: record).key_by(lambda record: record[0]).process(Visits()).uid("visits")
    visits.sink_to(LedgerSink(ledger)).uid("visits sink")
    sums = (
        records.key_by(lambda record: record[0] % 3)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .side_output_late_data(LATE)
        .reduce(lambda one, two: (one[0] + two[0], max(one[1], two[1])))
        .uid("windows")
    )
    sums.map(lambda total: ("window", *total)).sink_to(LedgerSink(ledger)).uid("windows sink")
    sums.get_side_output(LATE).map(lambda record: ("late", *record)).sink_to(LedgerSink(ledger)).uid("late sink")
    told = env.from_source(ScriptedSource(rules), NO_TIME, "rules").uid("rules").broadcast(NAMES)
    kept = records.partition_custom(Modulo(), lambda record: record[0]).connect(told).process(Keep()).uid("keep")
    kept.sink_to(LedgerSink(ledger)).uid("kept sink")


@st.composite
def inputs(draw: st.DrawFn) -> tuple[dict[str, list[Any]], list[Any]]:
    """Scripts of one to three splits and of rules, cut into the same number of epochs."""
    epochs = draw(st.integers(3, 8))
    records = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 15)), max_size=6)
    splits = {
        str(split): [
            entry
            for epoch in range(epochs)
            for entry in (*((key, 8 * epoch + at) for key, at in draw(records)), EndOfEpoch())
        ]
        for split in range(draw(st.integers(1, 3)))
    }
    rule = st.one_of(st.just(("flush",)), st.tuples(st.integers(0, 9), st.text(max_size=1)))
    rules = [entry for _ in range(epochs) for entry in (*draw(st.lists(rule, max_size=2)), EndOfEpoch())]
    return splits, rules


class Asked(JobListener):
    """Asks for another parallelism at steps of the protocol, and remembers what became of it."""

    def __init__(self, plan: Mapping[tuple[str, int], RescaleJob | list[RescaleJob]]):
        self._plan = dict(plan)
        self.masters: list[JobMaster] = []
        self.answers: list[CompletableFuture[None]] = []
        self.changes: list[tuple[int, tuple[ParallelismChange, ...]]] = []
        self.done_at: list[tuple[int, list[bool]]] = []  #: which answers were there when an epoch was committed

    def on_step(self, step: str, epoch: int) -> None:
        found = self._plan.pop((step, epoch), [])
        for request in found if isinstance(found, list) else [found]:
            self.answers.append(self.masters[-1].submit(request))
        if step == "committed":
            self.done_at.append((epoch, [answer.done() for answer in self.answers]))

    def on_rescale(self, epoch: int, changes: Any) -> None:
        self.changes.append((epoch, tuple(changes)))


def run(
    env: StreamExecutionEnvironment,
    folder: Path,
    plan: Mapping[tuple[str, int], RescaleJob | list[RescaleJob]],
    on_step: Callable[[str, int], None] = lambda step, epoch: None,
    **given: Any,
) -> tuple[Incarnation, Asked]:
    asked = Asked(plan)

    def step(name: str, epoch: int) -> None:
        asked.on_step(name, epoch)
        on_step(name, epoch)

    incarnation = live(env, folder, on_step=step, on_start=asked.masters.append, listeners=[asked], **given)
    return incarnation, asked


def to(parallelism: int, operator: str | None = None) -> RescaleJob:
    return RescaleJob(parallelism, operator)


def epochs_of(incarnation: Incarnation) -> list[tuple[int, int, int]]:
    """Epoch, attempt and parallelism of every completed epoch."""
    return [(epoch.epoch, epoch.attempt, epoch.parallelism) for epoch in incarnation.history.epochs]


# --- results ---------------------------------------------------------------------------------------------------------


UIDS = ["records", "visits", "windows", "keep", "visits sink", "rules"]
REQUESTS = st.builds(to, st.integers(1, 5), st.one_of(st.none(), st.sampled_from(UIDS)))
STEPS = st.sampled_from(["planned", "ran", "acknowledged", "completed", "committed"])


@settings(max_examples=60)
@given(
    inputs(),
    st.integers(1, 4),
    st.dictionaries(st.tuples(STEPS, st.integers(1, 7)), st.lists(REQUESTS, min_size=1, max_size=2), max_size=5),
)
def test_whatever_is_rescaled_whenever_the_results_are_those_of_a_job_that_never_was(
    given_input: tuple[dict[str, list[Any]], list[Any]],
    parallelism: int,
    plan: dict[tuple[str, int], list[RescaleJob]],
) -> None:
    splits, rules = given_input
    straight, rescaled = Ledger(uuid4().hex), Ledger(uuid4().hex)
    with tempfile.TemporaryDirectory() as folder:
        env = in_process(2)
        program(env, splits, rules, straight)
        assert live(env, Path(folder, "straight")).status is JobStatus.FINISHED
        env = in_process(parallelism)
        program(env, splits, rules, rescaled)
        incarnation, asked = run(env, Path(folder, "rescaled"), plan)
    assert incarnation.status is JobStatus.FINISHED, incarnation.failure
    assert incarnation.history.restarts == []
    assert Counter(map(repr, rescaled.records)) == Counter(map(repr, straight.records))
    epochs = [(epoch, attempt) for epoch, attempt, _ in epochs_of(incarnation)]
    assert epochs == [(n + 1, 0) for n in range(len(epochs))], "no epoch is left out or repeated"
    assert all(answer.done() for answer in asked.answers)


@settings(max_examples=25)
@given(
    inputs(),
    st.dictionaries(st.tuples(STEPS, st.integers(1, 7)), st.lists(REQUESTS, min_size=1, max_size=2), max_size=4),
    st.lists(st.tuples(STEPS, st.integers(1, 8)), max_size=4, unique=True),
)
def test_crashes_between_and_during_rescaling_change_no_result(
    given_input: tuple[dict[str, list[Any]], list[Any]],
    plan: dict[tuple[str, int], list[RescaleJob]],
    crashes: list[tuple[str, int]],
) -> None:
    splits, rules = given_input
    straight, stormy = Ledger(uuid4().hex), Ledger(uuid4().hex)
    left = list(crashes)

    def storm(step: str, epoch: int) -> None:
        if (step, epoch) in left:
            left.remove((step, epoch))
            raise Crash

    with tempfile.TemporaryDirectory() as folder:
        env = in_process(2)
        program(env, splits, rules, straight)
        live(env, Path(folder, "straight"))
        for parallelism in range(2, 9):
            env = in_process(1 + parallelism % 4)
            program(env, splits, rules, stormy)
            incarnation, _ = run(env, Path(folder, "stormy"), plan, storm)
            if not incarnation.crashed:
                break
    assert incarnation.status is JobStatus.FINISHED, incarnation.failure
    assert Counter(map(repr, stormy.records)) == Counter(map(repr, straight.records))


# --- the protocol ----------------------------------------------------------------------------------------------------


def counting(env: StreamExecutionEnvironment, script: list[Any], ledger: Ledger, **given: Any) -> None:
    """Keyed counts of numbers: one epoch for each EndOfEpoch."""
    numbers = env.from_source(ScriptedSource(script, **given), NO_TIME, "numbers").uid("numbers")
    numbers.key_by(lambda n: n % 3).process(Count()).uid("count").sink_to(LedgerSink(ledger)).uid("sink")


class Count(KeyedProcessFunction[int, int, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


def counts(values: int) -> Counter[Any]:
    sizes = Counter(n % 3 for n in range(values))
    return Counter((key, n + 1) for key, size in sizes.items() for n in range(size))


def script_of(epochs: int) -> list[Any]:
    return [entry for n in range(epochs) for entry in (n, EndOfEpoch())]


def test_the_next_epoch_has_the_new_parallelism_and_none_is_repeated(tmp_path: Path) -> None:
    env, ledger = in_process(2), Ledger(uuid4().hex)
    counting(env, script_of(6), ledger)
    incarnation, asked = run(env, tmp_path, {("ran", 2): to(4), ("planned", 3): to(1), ("committed", 4): to(3)})
    assert epochs_of(incarnation) == [(1, 0, 2), (2, 0, 2), (3, 0, 4), (4, 0, 1), (5, 0, 3), (6, 0, 3)]
    assert [(epoch, {c.operator: (c.before, c.after) for c in changes}) for epoch, changes in asked.changes] == [
        (3, dict.fromkeys(["numbers", "count", "sink"], (2, 4))),
        (4, dict.fromkeys(["numbers", "count", "sink"], (4, 1))),
        (5, dict.fromkeys(["numbers", "count", "sink"], (1, 3))),
    ]
    assert Counter(ledger.records) == counts(6)
    assert [checkpoint for checkpoint, _ in ledger.commits] == sorted({c for c, _ in ledger.commits})


def test_one_operator_is_rescaled_by_its_uid(tmp_path: Path) -> None:
    env, ledger = in_process(2), Ledger(uuid4().hex)
    counting(env, script_of(4), ledger)
    _, asked = run(env, tmp_path, {("ran", 1): to(5, "count")})
    assert asked.changes == [(2, (ParallelismChange("count", 2, 5),))]
    latest = CheckpointStore(PosixStorage(str(tmp_path))).completed()[-1]
    assert {op.uid: op.parallelism for op in latest.operators.values()} == {
        "numbers": 2, "count": 5, "sink": 2,
    }  # fmt: skip
    assert Counter(ledger.records) == counts(4)


def test_an_answer_comes_when_the_first_epoch_of_the_new_parallelism_is_complete(tmp_path: Path) -> None:
    env = in_process(2)
    counting(env, script_of(4), Ledger(uuid4().hex))
    _, asked = run(env, tmp_path, {("planned", 2): to(3)})
    assert asked.done_at == [(1, []), (2, [False]), (3, [False]), (4, [True])]


def test_of_several_requests_before_an_epoch_the_last_one_counts(tmp_path: Path) -> None:
    env, ledger = in_process(2), Ledger(uuid4().hex)
    counting(env, script_of(4), ledger)
    incarnation, asked = run(env, tmp_path, {("ran", 2): [to(4), to(7, "count"), to(3)]})
    assert [parallelism for *_, parallelism in epochs_of(incarnation)] == [2, 2, 7, 7]
    assert asked.changes == [
        (3, (ParallelismChange("numbers", 2, 3), ParallelismChange("count", 2, 7), ParallelismChange("sink", 2, 3)))
    ]
    assert [answer.exception() for answer in asked.answers] == [None, None, None]


def test_a_request_that_another_one_takes_back_changes_nothing(tmp_path: Path) -> None:
    env = in_process(2)
    counting(env, script_of(4), Ledger(uuid4().hex))
    incarnation, asked = run(env, tmp_path, {("ran", 2): [to(4), to(2)]})
    assert asked.changes == []
    assert [answer.exception() for answer in asked.answers] == [None, None]
    assert [parallelism for *_, parallelism in epochs_of(incarnation)] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (to(0), "takes a whole number of at least 1, found 0"),
        (to(129), "its state is in 128 key groups"),
        (to(2, "nobody"), "no operator with the uid, id or name 'nobody'"),
    ],
)
def test_a_request_that_cannot_be_is_refused_at_once_and_the_job_goes_on(
    request_: RescaleJob, message: str, tmp_path: Path
) -> None:
    env, ledger = in_process(2), Ledger(uuid4().hex)
    counting(env, script_of(3), ledger)
    refusals: list[str] = []
    masters: list[JobMaster] = []

    def ask(step: str, epoch: int) -> None:
        if (step, epoch) == ("ran", 1):
            with pytest.raises(ProgramError, match=message) as refused:
                masters[0].submit(request_)
            refusals.append(str(refused.value))

    incarnation = live(env, tmp_path, on_step=ask, on_start=masters.append)
    assert len(refusals) == 1
    assert incarnation.status is JobStatus.FINISHED
    assert Counter(ledger.records) == counts(3)


def test_an_idle_job_is_rescaled_at_once_by_an_epoch_without_input(tmp_path: Path) -> None:
    env, ledger, clock = in_process(2), Ledger(uuid4().hex), ManualClock(0)
    counting(env, [0, EndOfEpoch(), Wait(60_000), 1], ledger)
    incarnation, asked = run(env, tmp_path, {("committed", 1): to(4)}, clock=clock)
    assert [(e.epoch, e.records_in, e.parallelism) for e in incarnation.history.epochs] == [
        (1, 1, 2), (2, 0, 4), (3, 1, 4),
    ]  # fmt: skip
    assert incarnation.history.epochs[1].completed_at_ms < 1_000
    assert asked.answers[0].exception() is None
    assert Counter(ledger.records) == counts(2)


def test_a_job_that_waits_for_input_is_woken(tmp_path: Path) -> None:
    """With a real clock and a request from another thread: the source says it has nothing for an hour."""
    env, ledger = patient(2), Ledger(uuid4().hex)
    counting(env, [0, EndOfEpoch(), Wait(3_600_000), 1], ledger)
    client = env.execute_async("idle")
    client.rescale(3).result(timeout=30)
    client.rescale(1, "count").result(timeout=30)
    client.cancel().result(timeout=30)
    assert Counter(ledger.records) == counts(1)


def test_a_job_that_ends_answers_whoever_waits(tmp_path: Path) -> None:
    env = in_process(2)
    counting(env, script_of(2), Ledger(uuid4().hex))
    _, asked = run(env, tmp_path, {("ran", 2): to(4)})
    with pytest.raises(EpochFailure, match="ended before another epoch was complete"):
        asked.answers[0].result(0)
    with pytest.raises(EpochFailure, match="ended before"):
        asked.masters[0].submit(to(3)).result(0)


# --- failures --------------------------------------------------------------------------------------------------------


def test_an_epoch_that_fails_is_tried_again_in_the_new_parallelism(tmp_path: Path) -> None:
    env, ledger = patient(2), Ledger(uuid4().hex)
    counting(env, [0, EndOfEpoch(), 1, EndOfEpoch(), 2, Abort(2), EndOfEpoch(), 3], ledger)
    incarnation, _ = run(env, tmp_path, {("ran", 2): to(4)})
    assert epochs_of(incarnation) == [(1, 0, 2), (2, 0, 2), (3, 2, 4), (4, 0, 4)]
    assert Counter(ledger.records) == counts(4)


def test_a_request_during_a_failing_epoch_takes_effect_with_its_next_attempt(tmp_path: Path) -> None:
    env, ledger = patient(2), Ledger(uuid4().hex)
    counting(env, [0, EndOfEpoch(), 1, Abort(), EndOfEpoch(), 2], ledger)
    incarnation, _ = run(env, tmp_path, {("planned", 2): to(3)})
    assert epochs_of(incarnation) == [(1, 0, 2), (2, 1, 3), (3, 0, 3)]
    assert Counter(ledger.records) == counts(3)


def test_after_a_crash_the_parallelism_is_the_programs_again(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)

    def crash(step: str, epoch: int) -> None:
        if (step, epoch) == ("completed", 3):
            raise Crash

    env = in_process(2)
    counting(env, script_of(5), ledger)
    first, _ = run(env, tmp_path, {("ran", 1): to(4)}, crash)
    assert first.crashed
    env = in_process(2)
    counting(env, script_of(5), ledger)
    second, _ = run(env, tmp_path, {})
    assert epochs_of(second) == [(4, 0, 2), (5, 0, 2)]
    assert Counter(ledger.records) == counts(5)


class Stubborn(LocalRunner):
    """Takes no other image than its first."""

    def deploy(self, image: JobImage) -> None:
        if self._image is not None:
            raise WorkerLostError("The runner is full.")
        super().deploy(image)


def test_a_runner_that_cannot_take_the_new_graph_leaves_the_job_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flott.testing.harness.LocalRunner", Stubborn)
    env, ledger = in_process(2), Ledger(uuid4().hex)
    counting(env, script_of(3), ledger)
    incarnation, asked = run(env, tmp_path, {("ran", 1): to(4)})
    assert epochs_of(incarnation) == [(1, 0, 2), (2, 0, 2), (3, 0, 2)]
    with pytest.raises(WorkerLostError, match="The runner is full"):
        asked.answers[0].result(0)
    assert Counter(ledger.records) == counts(3)


# --- tasks -----------------------------------------------------------------------------------------------------------

#: What functions did, in order. They run in this process.
calls: list[str] = []


class Connected(MapFunction[int, int]):
    """Holds something that must be closed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = f"{runtime_context.get_index_of_this_subtask()}/{runtime_context.get_number_of_parallel_subtasks()}"
        calls.append(f"open {self.name}")

    def map(self, value: int) -> int:
        return value

    def close(self) -> None:
        calls.append(f"close {self.name}")


def test_functions_of_the_former_parallelism_are_closed_and_each_new_one_is_opened_once(tmp_path: Path) -> None:
    calls.clear()
    env = in_process(2)
    numbers = env.from_source(ScriptedSource(script_of(4)), NO_TIME, "n")
    numbers.map(Connected()).sink_to(LedgerSink(Ledger(uuid4().hex)))
    run(env, tmp_path, {("ran", 2): to(3)})
    assert calls == [
        "open 0/2", "open 1/2", "close 0/2", "close 1/2", "open 0/3", "open 1/3", "open 2/3",
        "close 0/3", "close 1/3", "close 2/3",
    ]  # fmt: skip


def test_a_rescaled_job_leaves_no_files_behind(tmp_path: Path) -> None:
    env = in_process(2)
    counting(env, script_of(12), Ledger(uuid4().hex))
    run(env, tmp_path, {("ran", n): to(1 + n % 4) for n in range(1, 11)})
    storage = PosixStorage(str(tmp_path))
    referred = CheckpointStore(storage).completed()[-1].files
    assert {path.name for path in (tmp_path / "state").iterdir()} == {Path(name).name for name in referred}


# --- event time ------------------------------------------------------------------------------------------------------


class Lateness(ProcessFunction[Any, Any]):
    """Says of every record whether it came after the watermark."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[1], value[1] <= ctx.timer_service().current_watermark()


def test_splits_of_a_slow_reader_are_not_late_wherever_they_go(tmp_path: Path) -> None:
    """Forwarded records never meet those of other readers: each subtask has a time of its own until they move."""
    ledger = Ledger(uuid4().hex)
    env = in_process(2)
    fast = [entry for n in range(5) for entry in ((0, 100 + n), EndOfEpoch())]
    slow = [entry for n in range(5) for entry in ((0, n), EndOfEpoch())]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTimes())
    records = env.from_source(ScriptedSource({"fast": fast, "slow": slow}), strategy, "records").uid("records")
    records.rescale().process(Lateness()).set_parallelism(2).sink_to(LedgerSink(ledger))
    run(env, tmp_path, {("ran", 2): to(1), ("ran", 3): to(2)})
    assert sorted(ledger.records) == sorted((at, False) for at in [*range(5), *range(100, 105)])


def test_stopping_a_job_while_it_is_being_rescaled_is_safe(tmp_path: Path) -> None:
    """Requests from many threads while the job runs and is cancelled: each is answered, one way or the other."""
    env, ledger = patient(2), Ledger(uuid4().hex)
    counting(env, [0], ledger, endless=True)
    client = env.execute_async("storm")
    answers: list[CompletableFuture[None]] = []
    threads = [
        threading.Thread(target=lambda p=p: answers.extend(client.rescale(1 + (p + n) % 5) for n in range(20)))
        for p in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.cancel().result(120)
    assert len(answers) == 80
    assert all(answer.done() for answer in answers)
    assert Counter(ledger.records) <= counts(1)


# --- what people see -------------------------------------------------------------------------------------------------


def test_a_change_is_shown_once_for_all_operators_that_change_alike(tmp_path: Path, capsys: Any) -> None:
    env, clock = in_process(2), ManualClock(0)
    counting(env, script_of(4), Ledger(uuid4().hex))
    display = LogDisplay("job", clock, every_seconds=0)
    asked = Asked({("ran", 2): [to(4), to(3, "count")]})
    live(env, tmp_path, clock=clock, on_step=asked.on_step, on_start=asked.masters.append, listeners=[display])
    shown = capsys.readouterr().err
    assert "job: Parallelism from epoch 3 on: 2 -> 4 (numbers, sink); 2 -> 3 (count)" in shown
    assert "epoch 2 (0 ms) x2" in shown
    assert "epoch 3 (0 ms) x4" in shown


# --- copies of state on local disks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_copy_left_by_a_former_parallelism_is_not_taken_for_the_present_state(backend: str, tmp_path: Path) -> None:
    """Both key ranges of the second subtask move on while the copy of their union rests; only one of them changes."""
    low, middle, high = (next(k for k in range(2000) if key_group_of(k, 128) in groups) for groups in RANGES)
    script = [low, middle, EndOfEpoch(), low, middle, EndOfEpoch(), high, EndOfEpoch(), low, EndOfEpoch(), low]
    env, ledger = patient(2, state__backend__type=backend, io__tmp__dirs=str(tmp_path)), Ledger(uuid4().hex)
    numbers = env.from_source(ScriptedSource(script), NO_TIME, "numbers")
    numbers.key_by(lambda n: n).process(Count()).uid("count").sink_to(LedgerSink(ledger))
    wanted = {1: 4, 2: 2, 3: 4, 4: 2}
    client: CompletableFuture[JobClient] = CompletableFuture()

    class Asking(JobListener):
        def on_start(self, epoch: int, progress: Any) -> None:
            if epoch in wanted:
                client.result().rescale(wanted[epoch])

    executors.extra_listeners.append(listener := Asking())
    try:
        client.set_result(env.execute_async("copies"))
        client.result().get_job_execution_result().result(120)
    finally:
        executors.extra_listeners.remove(listener)
    expected = {low: 4, middle: 2, high: 1}
    assert sorted(ledger.records) == sorted((key, n + 1) for key, times in expected.items() for n in range(times))


RANGES = (range(32), range(32, 64), range(64, 128))
