"""What a recorder makes of any history of a job, against a model that simply adds up; and the parts it is made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Configuration, WatermarkStrategy
from flott.common._ids import EpochId, SubtaskIndex
from flott.common._late_records import LedgerEntry
from flott.common._savepoint_format import SavepointFormatType
from flott.common.job_status import JobStatus
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.graph.stream_graph import StreamGraph
from flott.metrics._engine_metrics import Kind
from flott.reporters.metric_table import job_rows, kind_of, task_metrics
from flott.rest.shapes.vertex.backpressure import back_pressure
from flott.runtime.epoch.failure import Blame, FailureCard
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.jobmanager.views.checkpoint_tracker import CheckpointTracker, spread_of
from flott.runtime.jobmanager.views.graph_view import metric_scope, metric_scopes
from flott.runtime.jobmanager.views.job_tracker import JobTracker, in_words
from flott.runtime.jobmanager.views.job_view import Spread, TaskState
from flott.runtime.jobmanager.views.task_tracker import Moment
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.runtime.jobmaster.listener import (
    EpochStatistics,
    JobFailure,
    ModeChange,
    OperatorStatistics,
    RestoredFrom,
    SavepointNews,
    SavepointStage,
    SubtaskStatistics,
)
from flott.runtime.jobmaster.rescaling import ParallelismChange, rescale
from flott.runtime.jobmaster.restart import ExponentialDelay, FailureRate, FixedDelay, NeverRestart, RestartStrategy
from flott.runtime.orders import RescaleJob
from flott.runtime.pipelined.control import SubtaskLoad
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process
from flott.testing.sources import ScriptedSource


def _program() -> StreamGraph:
    env = in_process(2)
    numbers = env.from_source(ScriptedSource([1]), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n).map(lambda n: n).name("Map").map(lambda n: n).name("Map").print()
    return env.get_stream_graph(job_name="any")


GRAPHS = {parallelism: chain(rescale(_program(), RescaleJob(parallelism))) for parallelism in (1, 2, 3)}

#: The sink has left its chain.
APART = chain(rescale(_program(), RescaleJob(1, "Sink: Print")))

numbers = st.integers(0, 1000)
events = st.lists(
    st.one_of(
        st.tuples(st.just("epoch"), st.lists(numbers, min_size=6, max_size=6), st.integers(0, 3000)),
        st.tuples(st.just("fail"), st.booleans()),
        st.tuples(st.just("rescale"), st.sampled_from([1, 2, 3])),
        st.tuples(st.just("savepoint"), st.booleans()),
        st.tuples(st.just("look")),
    ),
    max_size=60,
)


def _statistics(graph: JobGraph, epoch: int, sizes: list[int], clock: ManualClock) -> EpochStatistics:
    places = [(vertex, index) for vertex in graph.vertices for index in range(vertex.parallelism)]
    subtasks = tuple(
        SubtaskStatistics(
            vertex.id, index,
            measures={
                "numRecordsIn": sizes[at], "numRecordsOut": sizes[at] // 2, "numBytesIn": sizes[at] * 3,
                "accumulateBusyTimeMs": 1.0,
            },
            operators={
                op.id: OperatorStatistics(
                    {
                        "numRecordsIn": sizes[at], "numRecordsOut": sizes[at], "stateBytes": at,
                        "numLateRecordsDropped": sizes[at] % 3, "numLateRecords": sizes[at] % 3,
                    },
                    metrics={"mine": ("sum", sizes[at]), "top": ("max", sizes[at]), "now": ("last", epoch)},
                )
                for op in vertex.operators
            },
        )
        for at, (vertex, index) in enumerate(places)
    )  # fmt: skip
    return EpochStatistics(
        epoch, 0, sum(sizes), 0, 0, clock.now_ms(), False, 7, 0, 1.0, 2.0, 3.0, 4.0, subtasks=subtasks,
        started_at_ms=clock.now_ms(),
    )  # fmt: skip


@settings(max_examples=60)
@given(events)
def test_any_history_adds_up(history: list[tuple[Any, ...]]) -> None:
    clock = ManualClock()
    graph = GRAPHS[2]
    recorder = TrackingListener("b" * 32, graph, Configuration(), clock)
    recorder.on_status(JobStatus.CREATED)
    recorder.on_status(JobStatus.RUNNING)
    totals: Counter[str] = Counter()
    mine: Counter[tuple[str, int]] = Counter()
    completed = failed = restarts = savepoints = records = 0
    epoch = 0
    for event in history:
        match event:
            case ("epoch", sizes, took):
                epoch += 1
                recorder.on_start(epoch, lambda: None)
                clock.advance(took)
                statistics = _statistics(graph, epoch, sizes, clock)
                recorder.on_epoch(statistics)
                completed, records = completed + 1, records + sum(sizes)
                for subtask in statistics.subtasks:
                    totals[subtask.vertex] += subtask.measures["numRecordsIn"]
                    for ident in subtask.operators:
                        mine[ident, subtask.subtask] += subtask.measures["numRecordsIn"]
            case ("fail", tolerated):
                recorder.on_start(epoch + 1, lambda: None)
                failure = JobFailure("ValueError", "no", vertex=graph.vertices[0].name, subtask=0)
                recorder.on_epoch_failed(epoch + 1, failure, tolerated)
                failed += 1
                if not tolerated:
                    restarts += 1
                    recorder.on_failure(failure)
                    recorder.on_status(JobStatus.RESTARTING)
                    recorder.on_restart("no", 0, restarts)
                    recorder.on_status(JobStatus.RUNNING)
                    recorder.on_restored(RestoredFrom(epoch, "somewhere"))
            case ("rescale", parallelism):
                graph = GRAPHS[parallelism]
                recorder.on_graph(graph)
                mine = Counter({key: number for key, number in mine.items() if key[1] < parallelism})
            case ("savepoint", good):
                savepoints += 1
                news = SavepointNews(
                    savepoints, SavepointStage.IN_PROGRESS, max(epoch, 1), SavepointFormatType.CANONICAL
                )  # fmt: skip
                recorder.on_savepoint(news)
                assert recorder.view().checkpoints.in_progress == 1
                stage = SavepointStage.COMPLETED if good else SavepointStage.FAILED
                recorder.on_savepoint(SavepointNews(news.number, stage, news.checkpoint_id, news.format))
                completed, failed = completed + good, failed + (not good)
            case _:
                recorder.view()
    view = recorder.view()
    assert view.checkpoints.completed == completed
    assert view.checkpoints.failed == failed
    assert view.restarts == restarts == view.checkpoints.restored_count
    assert view.metrics["numRecordsIn"] == records
    assert len(view.failures) == min(restarts, 16)
    assert {vertex.id: vertex.traffic.records_in for vertex in view.vertices} == {
        vertex.id: totals[vertex.id] for vertex in graph.vertices
    }
    for vertex in view.vertices:
        assert [shown.index for shown in vertex.subtasks] == list(range(vertex.parallelism))
        for shown in vertex.subtasks:
            assert 0.0 <= shown.busy_ratio <= 1.0
            assert task_metrics(shown)["numRecordsInPerSecond"] >= -1e-6
            for operator in vertex.operators:
                found = shown.metrics[operator.metric_scope]
                assert found.get("mine", 0) == found.get("numRecordsIn", 0) == mine[operator.id, shown.index]
                assert found.get("numRecordsOutPerSecond", 0.0) >= -1e-6
    assert len(view.checkpoints.history) <= 10
    assert len(view.epochs) <= 20


@settings(max_examples=60)
@given(events, st.lists(st.floats(0, 4000), min_size=60, max_size=60))
def test_what_reporters_are_told_to_only_grow_never_falls(history: list[tuple[Any, ...]], busy: list[float]) -> None:
    clock = ManualClock()
    graph = GRAPHS[2]
    recorder = TrackingListener("b" * 32, graph, Configuration(), clock)
    recorder.on_status(JobStatus.CREATED)
    recorder.on_status(JobStatus.RUNNING)
    before: dict[tuple[object, ...], int | float] = {}

    def look() -> None:
        nonlocal before
        now = _counters(recorder)
        assert not {key: (before[key], now[key]) for key in before.keys() & now.keys() if now[key] < before[key]}
        before = now

    for epoch, event in enumerate(history, 1):
        match event:
            case ("epoch", sizes, took):
                recorder.on_start(epoch, lambda: None)
                clock.advance(took)
                look()
                told = _statistics(graph, epoch, sizes, clock)
                subtasks = tuple(
                    replace(subtask, measures={**subtask.measures, "accumulateBusyTimeMs": busy[epoch - 1]})
                    for subtask in told.subtasks
                )
                recorder.on_epoch(replace(told, subtasks=subtasks))
            case ("fail", tolerated):
                recorder.on_start(epoch, lambda: None)
                clock.advance(700)
                look()
                recorder.on_epoch_failed(epoch, JobFailure("ValueError", "no"), tolerated)
                if not tolerated:
                    recorder.on_status(JobStatus.RESTARTING)
                    recorder.on_restart("no", 0, 1)
                    clock.advance(300)
                    look()
                    recorder.on_status(JobStatus.RUNNING)
            case ("rescale", parallelism):
                graph = GRAPHS[parallelism]
                recorder.on_graph(graph)
            case _:
                clock.advance(900)
        look()


def _counters(recorder: TrackingListener) -> dict[tuple[object, ...], int | float]:
    """All numbers that reporters call counters, by name and labels; a subtask that is tried again remains the same."""
    return {
        (row.scope, metric, *(pair for pair in row.labels.items() if pair[0] != "task_attempt_num")): value
        for row in job_rows(recorder.view())
        for metric, value in row.numbers.items()
        if kind_of(row.scope, metric) is Kind.COUNTER
    }


def test_time_that_was_spent_waiting_is_told_as_it_passes_and_once() -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[1], Configuration(), clock)

    def waited() -> float:
        return recorder.view().vertices[0].subtasks[0].traffic.idle_ms

    clock.advance(2_000)
    assert waited() == 2_000
    recorder.on_start(1, lambda: None)
    clock.advance(1_000)
    assert waited() == 2_000  # nobody knows yet what it does
    recorder.on_epoch(_statistics(GRAPHS[1], 1, [1] * 6, clock))
    assert waited() == pytest.approx(2_999)  # it was busy for one
    clock.advance(500)
    assert waited() == pytest.approx(3_499)
    recorder.on_start(2, lambda: None)
    clock.advance(1_000)
    recorder.on_epoch(replace(_statistics(GRAPHS[1], 2, [1] * 6, clock), subtasks=()))  # it had no part in this one
    assert waited() == pytest.approx(4_499)


def test_time_in_a_status_does_not_shrink_when_the_status_is_left() -> None:
    record = JobTracker("b" * 32, GRAPHS[1], Configuration(), "", Moment(0, 0.0))
    spent = []
    for start in (0.0, 1.0):
        record.status(Moment(0, start), JobStatus.RUNNING)
        end = Moment(0, start + 0.0016)
        spent.append(record.view(end).metrics["runningTime"])
        record.status(end, JobStatus.RESTARTING)
        spent.append(record.view(end).metrics["runningTime"])
    assert spent == sorted(spent)


def test_the_state_of_a_vertex_follows_from_its_subtasks() -> None:
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), ManualClock())
    recorder.on_start(1, lambda: None)
    assert {vertex.state for vertex in recorder.view().vertices} == {TaskState.RUNNING}
    recorder.on_failure(JobFailure("E", "text", vertex=GRAPHS[2].vertices[1].name, subtask=1, parallelism=2))
    recorder.on_status(JobStatus.FAILED)
    view = recorder.view()
    assert [vertex.state for vertex in view.vertices] == [TaskState.CANCELED, TaskState.FAILED]
    assert view.failures[0].task == f"{view.vertices[1].name} (2/2)"


def test_an_epoch_that_is_durable_although_something_failed_after_it_is_no_failed_checkpoint() -> None:
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), ManualClock())
    recorder.on_start(1, lambda: None)
    recorder.on_epoch_failed(2, JobFailure("StorageError", "cannot delete"), tolerated=False)
    assert (recorder.view().checkpoints.completed, recorder.view().checkpoints.failed) == (1, 0)


def test_savepoints_outlive_the_history_of_checkpoints_and_are_bounded() -> None:
    tracker = CheckpointTracker("/c")

    def take(number: int) -> None:
        path = f"/s/{number}"
        for stage in (SavepointStage.IN_PROGRESS, SavepointStage.COMPLETED):
            news = SavepointNews(number, stage, EpochId(number), SavepointFormatType.NATIVE, path=path)
            tracker.savepoint(news, number)

    take(1)
    for epoch in range(1, 50):
        tracker.begin(epoch, epoch)
        tracker.fail(epoch, "no", epoch)
    assert [one.path for one in tracker.view(1).history if one.savepoint_format] == []
    assert [one.path for one in tracker.view(1).savepoints] == ["/s/1"]
    tracker.savepoint(SavepointNews(2, SavepointStage.FAILED, EpochId(2), SavepointFormatType.NATIVE), 2)
    assert len(tracker.view(1).savepoints) == 1, "a failed one cannot be restored"
    for number in range(3, 200):
        take(number)
    assert [one.id for one in tracker.view(1).savepoints] == list(range(199, 99, -1)), "the newest hundred"


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (FixedDelay(1, 1_000), "Restart at most 1 time, 1 s after a failure"),
        (FixedDelay(3, 100), "Restart at most 3 times, 100 ms after a failure"),
        (
            FailureRate(1, 300_000, 1_500),
            "Restart 1 s 500 ms after a failure, unless more than 1 failure comes in 5 min",
        ),
        (
            ExponentialDelay(1_000, 60_000, 1.5, 3_600_000, 0.1, None),
            "Restart 1 s after a failure, and 1.5 times as late after each further one, up to 1 min",
        ),
        (NeverRestart(), "No restart"),
    ],
)
def test_restart_strategies_are_told_in_words(strategy: RestartStrategy, words: str) -> None:
    assert in_words(strategy) == words


def test_percentiles_are_those_of_flink() -> None:
    spread = spread_of([*range(1, 29)])
    assert (spread.minimum, spread.maximum, spread.average, spread.count) == (1, 28, 14.5, 28)
    assert [spread.p50, spread.p90, spread.p99] == pytest.approx([14.5, 26.1, 28])
    assert spread_of([]) == Spread()
    assert spread_of([5]).p999 == 5


def test_names_in_metrics_hold_no_separators_and_are_unique_in_a_chain() -> None:
    assert metric_scope("Source: a.b, c") == "Source__a_b__c"
    assert metric_scopes(["Map", "Map", "Map_2", "Map"]) == ["Map", "Map_2", "Map_2_2", "Map_3"]


def test_a_subtask_that_went_and_came_again_has_no_rate_of_its_former_life() -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), clock)

    def run(graph: JobGraph, epochs: range, size: int) -> None:
        recorder.on_graph(graph)
        for epoch in epochs:
            recorder.on_start(epoch, lambda: None)
            clock.advance(1_000)
            recorder.on_epoch(_statistics(graph, epoch, [size] * 6, clock))

    run(GRAPHS[2], range(1, 7), 1_000)
    run(GRAPHS[1], range(7, 9), 1_000)
    run(GRAPHS[2], range(9, 15), 10)
    again = recorder.view().vertices[1].subtasks[1]
    assert again.traffic.records_in == 60
    assert task_metrics(again)["numRecordsInPerSecond"] == pytest.approx(6.0)
    assert again.metrics["Map"]["numRecordsInPerSecond"] == pytest.approx(6.0)


def test_a_chain_that_is_cut_leaves_its_operators_their_totals_and_nobody_a_leap() -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), clock)
    assert len(APART.vertices) == len(GRAPHS[2].vertices) + 1
    for epoch, graph in enumerate([GRAPHS[2]] * 8 + [APART] * 4, 1):
        recorder.on_graph(graph)
        recorder.on_start(epoch, lambda: None)
        clock.advance(1_000)
        recorder.on_epoch(_statistics(graph, epoch, [100] * 6, clock))
    source, mapped, sink = recorder.view().vertices
    assert task_metrics(source.subtasks[0])["numRecordsInPerSecond"] == pytest.approx(100.0)
    assert mapped.subtasks[0].traffic.records_in == 1200
    assert task_metrics(mapped.subtasks[0])["numRecordsInPerSecond"] == pytest.approx(40.0)  # counted from the cut on
    assert sink.subtasks[0].metrics["Sink__Print"]["numRecordsIn"] == 1200
    assert sink.subtasks[0].metrics["Sink__Print"]["numRecordsInPerSecond"] == pytest.approx(40.0)


def test_an_epoch_on_another_executor_than_the_one_before_counts_as_a_move() -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), clock)
    for epoch, executors in enumerate([("1", "2"), ("1", "2"), ("3", "2"), ("1", "2")], 1):
        recorder.on_start(epoch, lambda: None)
        statistics = _statistics(GRAPHS[2], epoch, [1] * 6, clock)
        subtasks = [replace(s, place=TaskPlace("host", executors[s.subtask])) for s in statistics.subtasks]
        recorder.on_epoch(replace(statistics, subtasks=tuple(subtasks)))
    for vertex in recorder.view().vertices:
        assert [task_metrics(subtask)["numMoves"] for subtask in vertex.subtasks] == [2, 0]


# --- what is told between checkpoints --------------------------------------------------------------------------------


def _load(busy_ms: float, back_pressured_ms: float, records: int = 0) -> list[SubtaskLoad]:
    """What the first subtask of the source tells."""
    return [SubtaskLoad(GRAPHS[2].vertices[0].id, SubtaskIndex(0), busy_ms, back_pressured_ms, records, records)]


def _reported(epoch: int, busy_ms: float, clock: ManualClock) -> EpochStatistics:
    statistics = _statistics(GRAPHS[2], epoch, [0] * 6, clock)
    measures = {"numRecordsIn": 100, "numRecordsOut": 100, "accumulateBusyTimeMs": busy_ms}
    return replace(statistics, subtasks=tuple(replace(one, measures=measures) for one in statistics.subtasks))


def test_a_pipelined_subtask_shows_its_load_while_its_checkpoint_hangs() -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), clock)
    recorder.on_interval(1)
    for second in range(1, 21):
        clock.advance(1_000)
        recorder.on_loads(_load(250.0 * second, 500.0 * second, 100 * second))
    vertex = recorder.view().vertices[0]
    assert [one.busy_ratio for one in vertex.subtasks] == pytest.approx([0.25, 0.0])
    found = task_metrics(vertex.subtasks[0])
    assert found["busyTimeMsPerSecond"] == pytest.approx(250.0)
    assert found["backPressuredTimeMsPerSecond"] == pytest.approx(500.0)
    assert found["numRecordsInPerSecond"] == pytest.approx(100.0)
    assert vertex.subtasks[0].traffic.busy_ms == 5_000
    assert vertex.subtasks[0].traffic.idle_ms == 5_000
    pressure = back_pressure(replace(vertex, state=TaskState.RUNNING), clock.now_ms())
    assert pressure["backpressure-level"] == "low"
    assert pressure["subtasks"][0]["ratio"] == pytest.approx(0.5)


def test_what_was_told_before_a_checkpoint_is_not_counted_again_with_it() -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), clock)

    def busy_ms() -> float:
        return recorder.view().vertices[0].subtasks[0].traffic.busy_ms

    recorder.on_interval(1)
    clock.advance(1_000)
    recorder.on_loads(_load(400.0, 0.0))
    recorder.on_epoch(_reported(1, 300.0, clock))  # its snapshot was taken before
    assert busy_ms() == 400
    recorder.on_epoch(_reported(2, 300.0, clock))
    assert busy_ms() == 600
    recorder.on_loads(_load(550.0, 0.0))  # an old one
    assert busy_ms() == 600
    recorder.on_restart("card", 0, 1)
    recorder.on_loads(_load(50.0, 0.0))  # since the restart
    assert busy_ms() == 650
    recorder.on_epoch(_reported(3, 70.0, clock))
    assert busy_ms() == 670


@pytest.mark.parametrize("way", ["rescale", "mode"])
def test_tasks_that_are_started_again_tell_from_zero(way: str) -> None:
    clock = ManualClock()
    recorder = TrackingListener("b" * 32, GRAPHS[2], Configuration(), clock)
    recorder.on_loads(_load(400.0, 0.0))
    if way == "rescale":
        recorder.on_rescale(2, [])
    else:
        recorder.on_mode(ModeChange("epochs", EpochId(1), "because"))
    recorder.on_epoch(_reported(2, 30.0, clock))
    assert recorder.view().vertices[0].subtasks[0].traffic.busy_ms == 430


# --- what pages show -------------------------------------------------------------------------------------------------


def test_rescales_the_late_data_ledger_and_the_parts_of_a_failure_are_in_the_view() -> None:
    clock, graph = ManualClock(), GRAPHS[2]
    recorder = TrackingListener("b" * 32, graph, Configuration(), clock)
    operator = graph.vertices[1].operators[0].id
    for _ in range(2):
        statistics = _statistics(graph, 1, [0] * 6, clock)
        recorder.on_epoch(replace(statistics, ledger={operator: LedgerEntry("Map", 10, 1, 2)}))
    recorder.on_rescale(2, [ParallelismChange("Map", 2, 3)])
    card = FailureCard(
        Blame.USER_CODE, "ValueError: bad", "x" * 200_000, 2, 0, 1, "Map", operator="Map", uid="m", key="'k'"
    )
    recorder.on_failure(JobFailure("ValueError", str(card), card=card))
    view = recorder.view()
    assert view.ledger == {operator: LedgerEntry("Map", 20, 2, 4)}
    assert [(rescale.epoch, rescale.changes) for rescale in view.rescales] == [(2, ("Map: 2 -> 3",))]
    found = view.failures[0].card
    assert found is not None
    assert (found.blame, found.uid, found.key, found.subtask) == ("user code", "m", "'k'", 1)
    assert len(found.traceback) < 70_000  # a view is sent a few times a second
    assert view.epochs[0].started_ms == view.epochs[0].ended_ms - 10
