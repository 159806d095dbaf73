"""Pipelined jobs in this process: time, timers, failures, orders, files, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration, Duration, Time, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import READ_BATCH_RECORDS, SplitEnumerator
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import StateTtlConfig, ValueStateDescriptor
from flott.errors import ConfigurationError, NoSlotsError
from flott.graph.chain import chain
from flott.rest.shapes.job.job_detail import job_detail
from flott.rest.shapes.live.vertices import live_job
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.epoch.image import JobImage, TaskSettings
from flott.runtime.jobmanager.views.job_history import events_of
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.runtime.jobmaster.execution_mode import ASK_AGAIN_MS, BEHIND_MS, CAUGHT_UP_MS, JobMode
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.orders import StopWithSavepoint, TakeCheckpoint
from flott.runtime.pipelined.control import SlotEvent, SlotLost
from flott.runtime.pipelined.links import FEWEST_CREDITS, WAITING_BUFFERS
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.storage import PosixStorage
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait

NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()


def pipelined(parallelism: int = 2, interval: str = "1 s", **options: str) -> StreamExecutionEnvironment:
    options = {"execution__mode": "pipelined", "execution__checkpointing__interval": interval, **options}
    return in_process(parallelism, **options)


class Counted(KeyedProcessFunction[Any, Any, Any]):
    """Numbers the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


def counting(env: StreamExecutionEnvironment, source: ScriptedSource, ledger: Ledger) -> None:
    numbers = env.from_source(source, NO_WATERMARKS, "numbers").uid("numbers")
    numbers.key_by(lambda n: n % 3).process(Counted()).uid("counted").sink_to(LedgerSink(ledger)).uid("out")


def expected_counts(numbers: int) -> Counter[Any]:
    return Counter((key, n + 1) for key in range(3) for n in range(len(range(key, numbers, 3))))


# --- time ------------------------------------------------------------------------------------------------------------


class Alarm(KeyedProcessFunction[Any, Any, Any]):
    """Notes when its timers fire, by the clock of the task."""

    def __init__(self, in_event_time: bool):
        self.in_event_time = in_event_time

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        if self.in_event_time:
            timers.register_event_time_timer(value + 5)
        else:
            timers.register_processing_time_timer(timers.current_processing_time() + 70)
        yield "record", value, timers.current_watermark(), timers.current_processing_time()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp, ctx.timer_service().current_watermark(), ctx.timer_service().current_processing_time()


def test_event_time_moves_within_the_stream_and_not_only_at_checkpoints(tmp_path: Path) -> None:
    env, found = pipelined(1), []
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    script = [1, 2, EndOfEpoch(), 10, EndOfEpoch(), 20]
    env.from_source(ScriptedSource(script), strategy, "n").key_by(lambda n: 0).process(Alarm(True)).sink_to(
        CallableSink(found.append)
    )
    life = live(env, tmp_path)
    assert len(life.history.epochs) == 1  # all of it between two checkpoints
    assert [(kind, at, watermark) for kind, at, watermark, _ in found] == [
        ("record", 1, -(2**63)), ("record", 2, -(2**63)), ("record", 10, 1), ("timer", 6, 9), ("timer", 7, 9),
        ("record", 20, 9), ("timer", 15, 2**63 - 1), ("timer", 25, 2**63 - 1),
    ]  # fmt: skip


def test_processing_time_timers_fire_at_their_time_without_input(tmp_path: Path) -> None:
    env, found = pipelined(2, interval="1 h"), []
    script = [1, Wait(500), 2]
    env.from_source(ScriptedSource(script), NO_WATERMARKS, "n").key_by(lambda n: n).process(Alarm(False)).sink_to(
        CallableSink(found.append)
    )
    live(env, tmp_path, clock=ManualClock(1000))
    fired = [(at, now) for kind, at, _, now in found if kind == "timer"]
    assert fired[0] == (1070, 1070)


def test_a_silent_split_is_not_waited_for(tmp_path: Path) -> None:
    env, found = pipelined(1, interval="1 h"), []
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(lambda n, _: n)
        .with_idleness(Duration.of_millis(300))
    )
    script = {"busy": [5, EndOfEpoch(), 20, Wait(900), 30], "silent": [1, Wait(1000), 40]}
    env.from_source(ScriptedSource(script), strategy, "n").key_by(lambda n: 0).process(Alarm(True)).sink_to(
        CallableSink(found.append)
    )
    live(env, tmp_path, clock=ManualClock(0))
    fired = {at: now for kind, at, _, now in found if kind == "timer"}
    assert 300 <= fired[10] < 900  # the timer of 5 fires when the other split is idle, not when it continues


@pytest.mark.parametrize("in_source", [True, False])
def test_ingestion_time_fires_timers_without_input(in_source: bool, tmp_path: Path) -> None:
    env, found = pipelined(1, interval="1 h"), []
    strategy = WatermarkStrategy.for_ingestion_time()
    source = ScriptedSource([1000, Wait(900), 2000])
    if in_source:
        numbers = env.from_source(source, strategy, "n")
    else:
        numbers = env.from_source(source, NO_WATERMARKS, "n").assign_timestamps_and_watermarks(strategy)
    numbers.key_by(lambda n: 0).process(Alarm(True)).sink_to(CallableSink(found.append))
    live(env, tmp_path, clock=ManualClock(900))
    fired = {at: now for kind, at, _, now in found if kind == "timer"}
    assert 1005 < fired[1005] < 1500  # long before the next record, at 1800


class Remembering(KeyedProcessFunction[Any, Any, Any]):
    """Counts, but forgets after 50 ms."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(50)).build())
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def test_state_expires_between_two_checkpoints(tmp_path: Path) -> None:
    env, found = pipelined(1, interval="1 h"), []
    source = ScriptedSource(["a", "a", Wait(30), "a", Wait(100), "a"])
    env.from_source(source, NO_WATERMARKS, "n").key_by(lambda n: n).process(Remembering()).sink_to(
        CallableSink(found.append)
    )
    live(env, tmp_path)
    assert found == [("a", 1), ("a", 2), ("a", 3), ("a", 1)]


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_failure_restarts_the_job_from_its_last_checkpoint_and_nothing_counts_twice(tmp_path: Path) -> None:
    env = pipelined(
        2, "1 ms", restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="5",
        flott__epoch__max_records="10",
    )  # fmt: skip
    ledger = Ledger("pipelined-failure")
    script: list[Any] = list(range(60))
    script[45:45] = [Abort(times=2)]
    counting(env, ScriptedSource(script), ledger)
    life = live(env, tmp_path, clock=_Hasty())
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(life.history.restarts) == 2
    assert "attempt 1 of 2 at entry 45" in life.history.restarts[0][0]
    assert Counter(ledger.records) == expected_counts(60)


@pytest.mark.parametrize("step", ["planned", "ran", "acknowledged", "completed", "committed"])
@pytest.mark.parametrize("modes", [("pipelined", "pipelined"), ("pipelined", "epochs"), ("epochs", "pipelined")])
def test_a_driver_that_dies_at_any_step_is_continued_exactly_in_either_mode(
    step: str, modes: tuple[str, str], tmp_path: Path
) -> None:
    ledger, source = Ledger(f"pipelined-dying-{step}-{'-'.join(modes)}"), ScriptedSource(list(range(90)))

    def life_in(mode: str, crash: bool) -> Incarnation:
        env = in_process(
            2, execution__mode=mode, execution__checkpointing__interval="1 ms", flott__epoch__max_records="10"
        )
        counting(env, source, ledger)

        def on_step(name: str, epoch: int) -> None:
            if crash and (name, epoch) == (step, 3):
                raise Crash

        return live(env, tmp_path, clock=_Hasty(), on_step=on_step)

    assert life_in(modes[0], True).crashed
    assert life_in(modes[1], False).status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected_counts(90)


class _Hasty(ManualClock):
    """A clock that runs on whenever it is looked at, so that checkpoints become due."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


# --- orders ----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_taken_when_it_is_asked_for(tmp_path: Path) -> None:
    env, ledger = pipelined(2, "1 h"), Ledger("pipelined-asked")
    counting(env, ScriptedSource([*range(9), Wait(50), 9], endless=True), ledger)
    answers: list[Any] = []
    live(
        env, tmp_path, clock=ManualClock(0, until_ms=200), on_start=lambda m: answers.append(m.submit(TakeCheckpoint()))
    )
    assert answers[0].result() == 1
    assert ledger.commits[0] == (1, False)


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_is_stopped_with_a_savepoint_of_all_that_it_has_processed(drain: bool, tmp_path: Path) -> None:
    env, ledger, masters = pipelined(2, "10 ms"), Ledger(f"pipelined-stop-{drain}"), list[JobMaster]()
    counting(env, ScriptedSource([*range(30), Wait(500), *range(30, 40)], endless=True), ledger)
    answers: list[Any] = []

    def on_step(name: str, epoch: int) -> None:
        if name == "committed" and not answers:
            answers.append(masters[0].submit(StopWithSavepoint(drain, str(tmp_path / "saved"))))

    life = live(env, tmp_path / "job", clock=_Hasty(), on_start=masters.append, on_step=on_step)
    assert life.status is JobStatus.FINISHED, life.failure
    assert Path(answers[0].result(), "_metadata").exists()
    assert Counter(ledger.records) == expected_counts(30)


def test_an_idle_job_takes_no_checkpoints(tmp_path: Path) -> None:
    env, ledger = pipelined(2, "10 ms"), Ledger("pipelined-idle")
    counting(env, ScriptedSource(list(range(9)), endless=True), ledger)
    life = live(env, tmp_path, clock=ManualClock(0, until_ms=5000))
    assert life.status is JobStatus.CANCELED
    assert len(life.history.epochs) == 1
    assert Counter(ledger.records) == expected_counts(9)


def test_an_adaptive_job_runs_in_epochs_with_a_backlog_and_pipelined_when_it_has_caught_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "flott.job")
    env, ledger = pipelined(2, "100 ms", execution__mode="adaptive"), Ledger("pipelined-adaptive")
    burst: list[Any] = [entry for n in range(10, 200) for entry in (n, EndOfEpoch())]
    counting(env, ScriptedSource([*range(10), Wait(4000), *burst, Wait(4000), 200]), ledger)
    clock = _Hasty()
    graph = chain(env.get_stream_graph(clear_transformations=False, job_name="adaptive"))
    tracker = TrackingListener("0" * 32, graph, Configuration(env._configuration), clock)
    views: list[JobView] = []
    assert tracker.view().mode == "epochs"
    look = lambda step, epoch: views.append(tracker.view()) if step == "planned" else None  # noqa: E731
    assert live(env, tmp_path, clock=clock, listeners=[tracker], on_step=look).status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected_counts(201)
    changes = [line.message.partition("continues ")[2] for line in caplog.records if "continues" in line.message]
    assert changes[0].startswith("pipelined after checkpoint")
    view = tracker.view()
    assert [f"after checkpoint {one.checkpoint}: {one.reason}." for one in view.mode_changes] == [
        change[change.index("after") :] for change in changes
    ]
    assert view.configured_mode == "adaptive"
    assert view.metrics["numModeChanges"] == len(changes)
    pipelined_views = [one for one in views if one.mode == "pipelined"]
    assert {one.metrics["isPipelined"] for one in pipelined_views} == {1}
    assert {one.metrics["isPipelined"] for one in views if one.mode == "epochs"} == {0}
    change, detail = view.mode_changes[0], job_detail(pipelined_views[0], 0)
    assert detail["execution-mode"] == live_job(pipelined_views[0])["execution-mode"] == "pipelined"
    assert detail["execution-mode-changes"] == [
        {"mode": "pipelined", "checkpoint": change.checkpoint, "timestamp": change.at_ms, "reason": change.reason}
    ]
    events = [event for event in events_of(view) if event.kind == "mode"]
    assert (events[0].at_ms, events[0].epoch) == (change.at_ms, change.checkpoint)
    by_mode = {one.epoch: one.pipelined for one in view.epochs}
    assert by_mode.get(change.checkpoint) is not True


class _FullCluster(LocalPipeline):
    """Does not get its slots at the first start."""

    starts = 0

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        self.starts += 1
        super().start(image, start, on_news)

    def events(self) -> list[SlotEvent]:
        if self.starts == 1:
            return [SlotLost("All cores are held by others.", is_missing=True)]
        return super().events()


def test_an_adaptive_job_that_does_not_get_its_slots_goes_on_in_epochs_and_asks_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "flott.job")
    env, ledger = pipelined(2, "100 ms", execution__mode="adaptive"), Ledger("pipelined-full-cluster")
    numbers = [*range(10), Wait(4000), *range(10, 20), Wait(ASK_AGAIN_MS), *range(20, 30), Wait(4000), 30]
    counting(env, ScriptedSource(numbers), ledger)
    clock = _Hasty()
    pipeline = _FullCluster(clock)
    life = live(env, tmp_path, clock=clock, pipeline=pipeline)
    assert life.status is JobStatus.FINISHED
    assert life.history.restarts == []
    assert Counter(ledger.records) == expected_counts(31)
    changes = [line.message.partition("continues ")[2] for line in caplog.records if "continues" in line.message]
    assert [change.partition(" ")[0] for change in changes[:3]] == ["pipelined", "in", "pipelined"]
    assert "did not give it its slots" in changes[1]
    assert pipeline.starts == 2


def test_a_job_that_is_only_pipelined_fails_without_its_slots(tmp_path: Path) -> None:
    env = pipelined(2, "100 ms", restart_strategy__type="none")
    counting(env, ScriptedSource([1]), Ledger("pipelined-no-slots"))
    life = live(env, tmp_path, clock=_Hasty(), pipeline=_FullCluster(_Hasty()))
    assert life.status is JobStatus.FAILED
    assert life.failure is not None
    assert isinstance(life.failure.__cause__ or life.failure, NoSlotsError)


@pytest.mark.parametrize("is_pipelined", [True, False])
def test_a_mode_changes_when_the_contrary_has_been_true_for_a_while(is_pipelined: bool) -> None:
    mode = JobMode("adaptive")
    mode.is_pipelined = is_pipelined
    contrary, limit = is_pipelined, BEHIND_MS if is_pipelined else CAUGHT_UP_MS
    assert not mode.is_leaving(0, contrary)
    assert not mode.is_leaving(limit - 1, contrary)
    assert not mode.is_leaving(limit, not contrary)  # a break: it counts from the beginning
    assert not mode.is_leaving(limit + 1, contrary)
    assert mode.is_leaving(2 * limit + 1, contrary)
    mode.change()
    assert mode.is_pipelined is not is_pipelined
    for name in ("epochs", "pipelined"):
        fixed = JobMode(name)
        assert not any(fixed.is_leaving(now, backlog) for now in (0, 10**9) for backlog in (True, False))


# --- state files -----------------------------------------------------------------------------------------------------


def test_tasks_follow_compacted_files_and_sequences_stay_short(tmp_path: Path) -> None:
    env, ledger = pipelined(2, "1 ms", flott__epoch__max_records="6"), Ledger("pipelined-compacted")
    counting(env, ScriptedSource(list(range(300))), ledger)
    lengths: list[int] = []

    def on_step(name: str, epoch: int) -> None:
        if name == "completed":
            manifest = CheckpointStore(PosixStorage(str(tmp_path), sync=False)).completed()[-1]
            lengths.extend(
                len(subtask.sequence or ()) for snapshot in manifest.operators.values() for subtask in snapshot.subtasks
            )
            if epoch == 35:
                raise Crash

    assert live(env, tmp_path, clock=_Hasty(), on_step=on_step).crashed
    assert 2 < max(lengths) < 20
    again = pipelined(3, "1 ms")
    counting(again, ScriptedSource(list(range(300))), ledger)
    assert live(again, tmp_path, clock=_Hasty()).status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected_counts(300)


# --- back pressure ---------------------------------------------------------------------------------------------------


class _OnlySources(LocalPipeline):
    """Lets only sources work, as if everything after them was stopped."""

    def __init__(self, clock: ManualClock):
        super().__init__(clock)
        self.steps = 0

    def _work(self) -> bool:
        self.steps += 1
        if self.steps > 2000:
            raise Crash
        worked = [slot.work_in_stage(0) for slot in self.slots]
        for slot in self.slots:
            for task in slot.tasks.values():
                assert task.inputs.waiting_messages <= 2 * (FEWEST_CREDITS + 3)
                # A step is one batch of a reader. Its output may exceed the limit, but then no other step follows.
                assert task.outputs.waiting_buffers <= READ_BATCH_RECORDS // 4 + 2 * WAITING_BUFFERS
        return any(worked)


def test_a_source_stops_reading_when_what_follows_does_not_take_its_records(tmp_path: Path) -> None:
    env, ledger, clock = pipelined(2), Ledger("pipelined-pressure"), ManualClock(until_ms=1_100_000)
    counting(env, ScriptedSource({"a": list(range(50_000)), "b": list(range(50_000))}), ledger)
    small = TaskSettings(buffer_records=4, input_memory_bytes=1)
    blocked: list[int] = []

    def on_step(name: str, epoch: int) -> None:
        assert name == "planned", "no checkpoint may complete"

    class Looking(_OnlySources):
        @property
        def wakeup_ms(self) -> int | None:
            blocked.append(sum(task.is_blocked for slot in self.slots for task in slot.tasks.values()))
            return None

    pipeline = Looking(clock)
    life = live(env, tmp_path, clock=clock, pipeline=pipeline, settings=small, on_step=on_step)
    assert life.status is JobStatus.CANCELED
    assert max(blocked) == 2
    assert ledger.records == []


# --- what a job reports ----------------------------------------------------------------------------------------------


class _Epochs(JobListener):
    def __init__(self) -> None:
        self.found: list[EpochStatistics] = []

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.found.append(statistics)


def test_a_checkpoint_reports_the_records_of_all_rounds_since_the_last_one(tmp_path: Path) -> None:
    env, ledger, epochs = pipelined(2, "1 h", flott__epoch__max_records="5"), Ledger("pipelined-reports"), _Epochs()
    counting(env, ScriptedSource(list(range(50))), ledger)
    live(env, tmp_path, listeners=[epochs])
    assert [(epoch.records_in, epoch.records_out) for epoch in epochs.found] == [(50, 50)]


def test_a_source_that_acknowledges_checkpoints_is_not_read_further_until_they_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, ledger = pipelined(1, "1 ms", flott__epoch__max_records="5"), Ledger("pipelined-acknowledged")
    source = ScriptedSource(list(range(40)))
    kind = type(source.create_enumerator())
    acknowledged: list[tuple[int, int]] = []
    snapshots: list[int] = []
    take = kind.snapshot

    def snapshot(self: SplitEnumerator) -> Any:
        state = take(self)
        snapshots.append(state["0"])
        return state

    monkeypatch.setattr(kind, "snapshot", snapshot)
    monkeypatch.setattr(
        kind, "acknowledge", lambda self: acknowledged.append((self._next["0"], snapshots[-1] if snapshots else 0))
    )
    counting(env, source, ledger)
    assert live(env, tmp_path, clock=_Hasty()).status is JobStatus.FINISHED
    assert len(acknowledged) > 3
    assert all(position == saved for position, saved in acknowledged)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_batch_program_is_refused_before_anything_runs(tmp_path: Path) -> None:
    env = pipelined(1, execution__runtime_mode="BATCH")
    env.from_collection([1, 2]).map(lambda n: n).print()
    with pytest.raises(ConfigurationError, match="allows pipelined execution, but the program runs in BATCH mode"):
        live(env, tmp_path)

