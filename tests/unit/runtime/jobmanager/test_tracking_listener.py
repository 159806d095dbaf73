"""The recorder of a job: what it shows of jobs that run, fail, restart, rescale and take savepoints."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Configuration, WatermarkStrategy
from flott.common._accumulators import IntCounter
from flott.common._savepoint_format import SavepointFormatType
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream.functions import MapFunction, RuntimeContext
from flott.errors import SavepointError
from flott.graph.chain import chain
from flott.reporters.metric_table import task_metrics
from flott.runtime.jobmanager.views.job_view import NEVER, JobView, TaskState, Traffic
from flott.runtime.jobmanager.views.tracking_listener import QUIET_SECONDS, TrackingListener
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.orders import RescaleJob, TakeSavepoint
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Faults, UnreliableStorage, in_process
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.jobmanager.tracked_jobs import at_step, counting, operator_sum, recorded, vertex_named

RETRY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "30"}


def three_epochs() -> list[Any]:
    return [*range(10), EndOfEpoch(), *range(10, 20), EndOfEpoch(), *range(20, 25)]


def test_a_finished_job_is_shown_whole(tmp_path: Path) -> None:
    recorder, _ = recorded(counting(three_epochs()), tmp_path)
    view = recorder.view()
    assert view.status is JobStatus.FINISHED
    assert view.name == "counting"
    assert view.end_ms != NEVER
    assert {vertex.state for vertex in view.vertices} == {TaskState.FINISHED}
    assert [epoch.epoch for epoch in view.epochs] == [1, 2, 3]
    assert [epoch.records_in for epoch in view.epochs] == [10, 10, 5]
    assert view.checkpoints.completed == view.metrics["numberOfCompletedCheckpoints"] == 3
    assert view.checkpoint_directory == str(tmp_path)


def test_records_and_bytes_that_leave_a_vertex_reach_the_next(tmp_path: Path) -> None:
    view = recorded(counting(three_epochs()), tmp_path)[0].view()
    source, counter = vertex_named(view, "Source").traffic, vertex_named(view, "Count").traffic
    assert (source.records_in, source.records_out) == (0, 25)
    assert (counter.records_in, counter.records_out) == (25, 0)
    assert source.bytes_out == counter.bytes_in > 25
    assert (source.bytes_in, counter.bytes_out) == (0, 0)
    assert operator_sum(view, "Count", "numRecordsIn") == operator_sum(view, "Count", "numRecordsOut") == 25
    assert operator_sum(view, "Sink__out", "numRecordsIn") == 25
    assert operator_sum(view, "Source__numbers", "numRecordsIn") == 25
    assert view.metrics["numRecordsIn"] == 25


def test_a_failed_epoch_adds_nothing_to_any_total(tmp_path: Path) -> None:
    script = [*range(10), EndOfEpoch(), *range(10, 15), Abort(times=3), *range(15, 20), EndOfEpoch(), 20]
    straight = recorded(counting([e for e in script if not isinstance(e, Abort)]), tmp_path / "straight")[0].view()
    view = recorded(counting(script, options=RETRY), tmp_path / "failing")[0].view()
    assert view.restarts == view.metrics["numRestarts"] == view.metrics["fullRestarts"] == 3
    assert view.checkpoints.failed == view.metrics["numberOfFailedCheckpoints"] == 3
    assert view.metrics["totalNumberOfCheckpoints"] == 3 + 3
    assert operator_sum(view, "Count", "counted") == 21
    for vertex, other in zip(view.vertices, straight.vertices, strict=True):
        assert _counts(vertex.traffic) == _counts(other.traffic)
    assert {subtask.attempt for vertex in view.vertices for subtask in vertex.subtasks} == {3}


def test_a_failure_says_who_failed_and_why(tmp_path: Path) -> None:
    def refuse(number: int) -> int:
        if number == 13:
            raise ValueError("thirteen")
        return number

    env = in_process(2)
    numbers = env.from_source(ScriptedSource(three_epochs()), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(refuse).name("Refuse").sink_to(LedgerSink(Ledger(uuid4().hex))).name("out")
    view = recorded(env, tmp_path)[0].view()
    assert view.status is JobStatus.FAILED
    (failure,) = view.failures
    assert failure.name == "ValueError"
    assert "thirteen" in failure.text
    assert "Refuse" in failure.text
    (vertex,) = view.vertices
    assert failure.task in {f"{vertex.name} (1/2)", f"{vertex.name} (2/2)"}
    assert (failure.task_manager, failure.endpoint) == ("in-process", "localhost")
    assert sorted(subtask.state.name for subtask in vertex.subtasks) == ["CANCELED", "FAILED"]
    assert vertex.state is TaskState.FAILED
    assert view.checkpoints.latest_failed is not None
    assert "thirteen" in (view.checkpoints.latest_failed.failure or "")


def test_only_the_sixteen_newest_failures_are_kept(tmp_path: Path) -> None:
    view = recorded(counting([1, EndOfEpoch(), Abort(times=20), 2], options=RETRY), tmp_path)[0].view()
    assert view.restarts == 20
    assert len(view.failures) == 16
    assert view.failures_truncated
    assert [failure.at_ms for failure in view.failures] == sorted((f.at_ms for f in view.failures), reverse=True)


def test_a_tolerated_checkpoint_failure_is_counted_but_is_no_failure_of_the_job(tmp_path: Path) -> None:
    refusals = iter([True, True])
    faults = Faults(lambda verb, name: verb == "publish" and name.startswith("chk-2") and next(refusals, False))
    storage = UnreliableStorage(str(tmp_path), sync=False, faults=faults)
    env = counting(three_epochs(), options={"execution.checkpointing.tolerable-failed-checkpoints": "5"})
    view = recorded(env, tmp_path, storage=storage)[0].view()
    assert faults.refused == 2
    assert view.status is JobStatus.FINISHED
    assert (view.checkpoints.completed, view.checkpoints.failed, view.restarts) == (3, 2, 0)
    assert view.failures == ()
    assert view.checkpoints.latest_failed is not None
    assert view.checkpoints.latest_failed.id == 2
    assert view.checkpoints.restored is None


class Rescaled(JobListener):
    """Asks for another parallelism after an epoch."""

    def __init__(self, wanted: dict[int, int]):
        self.wanted = wanted
        self.master: JobMaster | None = None
        self.views: list[JobView] = []
        self.recorder: TrackingListener | None = None

    def on_epoch(self, statistics: EpochStatistics) -> None:
        assert self.master is not None
        if self.recorder is not None:
            self.views.append(self.recorder.view())
        if (parallelism := self.wanted.get(statistics.epoch)) is not None:
            self.master.submit(RescaleJob(parallelism))


@pytest.mark.parametrize("wanted", [{1: 3}, {1: 1}, {1: 4, 2: 1, 3: 3}])
def test_totals_outlive_a_change_of_parallelism(wanted: dict[int, int], tmp_path: Path) -> None:
    script = [entry for epoch in range(6) for entry in (*range(epoch * 10, epoch * 10 + 10), EndOfEpoch())]
    asking = Rescaled(wanted)
    recorder, _ = recorded(
        counting({"a": script, "b": script}), tmp_path, listeners=[asking],
        on_start=lambda master: setattr(asking, "master", master),
    )  # fmt: skip
    view = recorder.view()
    assert {vertex.parallelism for vertex in view.vertices} == {[*wanted.values()][-1]}
    assert all(len(vertex.subtasks) == vertex.parallelism for vertex in view.vertices)
    assert vertex_named(view, "Source").traffic.records_out == 120
    assert vertex_named(view, "Count").traffic.records_in == 120
    assert view.metrics["numRecordsIn"] == 120
    subtasks = [subtask for vertex in view.vertices for subtask in vertex.subtasks]
    assert all(subtask.busy_ratio >= 0 for subtask in subtasks)
    assert all(task_metrics(subtask)["numRecordsInPerSecond"] >= 0 for subtask in subtasks)


def test_a_job_that_goes_on_in_a_new_process_counts_anew_and_says_where_it_began(tmp_path: Path) -> None:
    from flott.testing.harness import Crash

    def crash() -> None:
        raise Crash

    recorded(counting(three_epochs()), tmp_path, on_step=at_step("committed", 2, crash))
    view = recorded(counting(three_epochs()), tmp_path)[0].view()
    assert view.checkpoints.restored is not None
    assert (view.checkpoints.restored.id, view.checkpoints.restored_count) == (2, 1)
    assert view.checkpoints.restored.path == str(tmp_path / "chk-2")
    assert view.metrics["lastCheckpointRestoreTimestamp"] > 0
    assert view.metrics["numRecordsIn"] == 5
    assert view.checkpoints.completed == 1


def test_savepoints_are_among_the_checkpoints(tmp_path: Path) -> None:
    asked: list[Any] = []

    def ask(master: JobMaster) -> None:
        for directory in (str(tmp_path / "savepoints"), "/proc/nowhere"):
            asked.append(master.submit(TakeSavepoint(directory, SavepointFormatType.CANONICAL)))

    recorder, _ = recorded(counting(three_epochs()), tmp_path / "job", on_start=ask)
    checkpoints = recorder.view().checkpoints
    assert isinstance(asked[1].exception(), SavepointError)
    assert (checkpoints.completed, checkpoints.failed) == (4, 1)
    assert checkpoints.latest_savepoint is not None
    assert checkpoints.latest_savepoint.path == asked[0].result()
    assert checkpoints.latest_savepoint.savepoint_format == "CANONICAL"
    assert checkpoints.latest_savepoint.state_bytes > 0
    assert [(c.id, c.savepoint_format, c.status) for c in reversed(checkpoints.history)] == [
        (1, None, "COMPLETED"), (1, "CANONICAL", "COMPLETED"), (1, "CANONICAL", "FAILED"),
        (2, None, "COMPLETED"), (3, None, "COMPLETED"),
    ]  # fmt: skip
    assert checkpoints.durations.count == 3


def test_checkpoints_that_made_room_say_so(tmp_path: Path) -> None:
    env = counting(three_epochs(), options={"execution.checkpointing.num-retained": "2"})
    history = recorded(env, tmp_path)[0].view().checkpoints.history
    assert [(checkpoint.id, checkpoint.discarded) for checkpoint in history] == [(3, False), (2, False), (1, True)]


def test_a_checkpoint_shows_what_each_subtask_saved(tmp_path: Path) -> None:
    checkpoints = recorded(counting(three_epochs()), tmp_path)[0].view().checkpoints
    latest = checkpoints.latest_completed
    assert latest is not None
    assert sum(task.state_bytes for task in latest.tasks) == latest.state_bytes > 0
    assert 0 < sum(task.written_bytes for task in latest.tasks) == latest.written_bytes < latest.state_bytes
    first = checkpoints.history[-1]
    assert first.written_bytes == first.state_bytes
    on_disk = {path.name: path.stat().st_size for path in (tmp_path / "state").iterdir()}
    assert sum(on_disk.values()) == latest.state_bytes == sum(c.written_bytes for c in checkpoints.history)
    assert list(latest.phases) == ["plan", "schedule", "run", "ack", "commit"]


def test_subtasks_are_scheduled_until_the_first_epoch_and_run_from_then_on(tmp_path: Path) -> None:
    env = counting([1, EndOfEpoch(), 2])
    graph = chain(env.get_stream_graph(clear_transformations=False))
    fresh = TrackingListener("a" * 32, graph, Configuration(), ManualClock()).view()
    assert {s.state for v in fresh.vertices for s in v.subtasks} == {TaskState.SCHEDULED}
    assert fresh.status is JobStatus.INITIALIZING
    seen: list[JobView] = []
    holder: list[TrackingListener] = []

    class During(JobListener):
        def on_start(self, epoch: int, progress: object) -> None:
            seen.append(holder[0].view())

    clock = ManualClock()
    holder.append(TrackingListener("a" * 32, graph, Configuration(), clock))
    recorded(env, tmp_path, clock, listeners=[holder[0], During()])
    assert {s.state for v in seen[0].vertices for s in v.subtasks} == {TaskState.RUNNING}
    assert [c.status for c in seen[0].checkpoints.history] == ["IN_PROGRESS"]
    assert seen[0].metrics["numberOfInProgressCheckpoints"] == 1


def test_a_cancelled_job_has_cancelled_subtasks_and_no_failed_checkpoint(tmp_path: Path) -> None:
    def cancel() -> None:
        raise Cancel

    view = recorded(counting(three_epochs()), tmp_path, on_step=at_step("committed", 2, cancel))[0].view()
    assert view.status is JobStatus.CANCELED
    assert {s.state for v in view.vertices for s in v.subtasks} == {TaskState.CANCELED}
    assert (view.checkpoints.failed, view.checkpoints.in_progress) == (0, 0)


def test_times_are_told_by_status(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    script = [1, EndOfEpoch(), Abort(), 2, EndOfEpoch(), Wait(30_000), 3]
    options = {**RETRY, "restart-strategy.fixed-delay.delay": "5 s"}
    seen: list[JobView] = []

    class During(JobListener):
        def on_epoch(self, statistics: EpochStatistics) -> None:
            seen.append(recorder.view())

        def on_status(self, status: JobStatus, reason: str = "") -> None:
            if status is JobStatus.RESTARTING:
                clock.advance(1)
                seen.append(recorder.view())

    env = counting(script, options=options)
    graph = chain(env.get_stream_graph(clear_transformations=False))
    recorder = TrackingListener("a" * 32, graph, Configuration(), clock)
    recorded(env, tmp_path, clock, listeners=[recorder, During()])
    restarting, last = seen[1], seen[-1]
    assert restarting.status is JobStatus.RESTARTING
    assert restarting.metrics["uptime"] == 0
    assert last.metrics["restartingTime"] == 5_001
    assert last.metrics["uptime"] >= 30_000
    assert last.metrics["downtime"] == 0
    ended = recorder.view()
    assert ended.metrics["uptime"] == ended.metrics["downtime"] == -1
    assert ended.timestamps[JobStatus.FINISHED] - ended.timestamps[JobStatus.RESTARTING] >= 35_000


def test_rates_fall_to_nothing_when_nothing_comes_and_the_version_tells(tmp_path: Path) -> None:
    clock = ManualClock()
    recorder, _ = _running_job(clock)
    busy = recorder.view()
    (source,) = busy.vertices[0].subtasks
    assert busy.records_per_second == pytest.approx(100.0)
    assert task_metrics(source)["numRecordsOutPerSecond"] == pytest.approx(100.0)
    assert source.busy_ratio == pytest.approx(0.5)
    assert source.idle_ratio == pytest.approx(0.5)
    version = recorder.version
    clock.advance(5_000)
    assert recorder.version > version
    half = recorder.view()
    assert half.records_per_second == pytest.approx(50.0, rel=0.12)
    clock.advance(6_000)
    assert recorder.view().records_per_second == 0.0
    assert recorder.view().vertices[0].subtasks[0].busy_ratio == 0.0


def test_ages_and_lags_grow_while_a_job_is_stuck_and_the_version_tells() -> None:
    clock = ManualClock()
    recorder, _ = _running_job(clock)
    recorder.on_start(41, lambda: None)  # and nothing is heard of it any more
    clock.advance(60_000)
    stuck, version = recorder.view(), recorder.version
    assert stuck.metrics["lastCheckpointAge"] >= 60_000
    versions = set()
    for _ in range(60):
        clock.advance(1_000)
        versions.add(recorder.version)
    assert len(versions - {version}) == 60 // QUIET_SECONDS  # news, but not every second
    assert recorder.view().metrics["lastCheckpointAge"] == stuck.metrics["lastCheckpointAge"] + 60_000
    recorder.on_status(JobStatus.FINISHED)
    ended = recorder.version
    clock.advance(60_000)
    assert recorder.version == ended


def test_watermarks_and_lag_are_told_per_operator(tmp_path: Path) -> None:
    class Stamp(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return int(value)

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    env = in_process(1)
    numbers = env.from_source(ScriptedSource([5_000, EndOfEpoch(), Wait(100), 9_000]), strategy, "numbers")
    numbers.key_by(lambda n: n).map(lambda n: n).name("Map").sink_to(LedgerSink(Ledger(uuid4().hex)))
    seen: list[JobView] = []

    class During(JobListener):
        def on_epoch(self, statistics: EpochStatistics) -> None:
            seen.append(recorder.view())

    clock = ManualClock(10_000)
    graph = chain(env.get_stream_graph(clear_transformations=False))
    recorder = TrackingListener("a" * 32, graph, Configuration(), clock)
    recorded(env, tmp_path, clock, listeners=[recorder, During()])
    first = seen[0]
    source, mapped = first.vertices[0], first.vertices[1]
    assert source.has_event_time
    assert mapped.has_event_time
    assert source.subtasks[0].watermark == mapped.subtasks[0].watermark == 4_999
    assert source.subtasks[0].metrics["Source__numbers"]["currentOutputWatermark"] == 4_999
    assert source.subtasks[0].metrics["Source__numbers"]["watermarkLag"] == 10_000 - 4_999
    assert mapped.subtasks[0].metrics["Map"]["currentInputWatermark"] == 4_999
    assert first.metrics["currentLowWatermark"] == 4_999
    assert first.metrics["pendingRecords"] == 1
    assert source.subtasks[0].metrics["Source__numbers"]["pendingRecords"] == 1


def test_accumulators_are_shown_by_type_and_value(tmp_path: Path) -> None:
    class Add(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.sum = IntCounter()
            runtime_context.add_accumulator("sum", self.sum)

        def map(self, value: int) -> int:
            self.sum.add(value)
            return value

    env = in_process(2)
    numbers = env.from_source(ScriptedSource([1, 2, EndOfEpoch(), 3]), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Add()).sink_to(LedgerSink(Ledger(uuid4().hex)))
    assert recorded(env, tmp_path)[0].view().accumulators == {"sum": ("int", "6")}


def test_a_view_travels(tmp_path: Path) -> None:
    view = recorded(counting(three_epochs()), tmp_path)[0].view()
    assert pickle.loads(pickle.dumps(view)) == view


def test_the_recorder_is_told_without_being_asked_for_a_long_time(tmp_path: Path) -> None:
    script = [entry for number in range(200) for entry in (number, EndOfEpoch())]
    recorder, _ = recorded(counting(script, 1), tmp_path)
    assert len(recorder._queue) <= 65
    assert recorder.view().metrics["numRecordsIn"] == 200
    assert len(recorder.view().epochs) == 20


def test_files_say_how_many_bytes_wait(tmp_path: Path) -> None:
    from flott.datastream.connectors.base import SliceRequest
    from flott.datastream.connectors.file_system import FileSource, StreamFormat

    folder = tmp_path / "input"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text("one line\n" * 100)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    enumerator = source.create_enumerator()
    enumerator.open()
    left = [enumerator.pending(0).bytes]
    while True:
        plan = enumerator.plan(SliceRequest(10, 1, 0))
        enumerator.advance(plan, {part.split: [part.stop, 1] for part in plan.slices})
        left.append(enumerator.pending(0).bytes)
        if plan.finished:
            break
    assert left[0] == 2700
    assert left[-1] == 0
    assert left == sorted(left, reverse=True)  # type: ignore[type-var]


def _counts(traffic: Traffic) -> tuple[int, int, int, int]:
    return traffic.records_in, traffic.records_out, traffic.bytes_in, traffic.bytes_out


def _running_job(clock: ManualClock) -> tuple[TrackingListener, str]:
    """A source that has been reading a hundred records a second for twenty seconds, half of the time."""
    from flott.runtime.jobmaster.listener import OperatorStatistics, SubtaskStatistics

    env = in_process(1)
    env.from_collection([1]).print()
    graph = chain(env.get_stream_graph(clear_transformations=False))
    recorder = TrackingListener("a" * 32, graph, Configuration(), clock)
    recorder.on_status(JobStatus.CREATED)
    recorder.on_status(JobStatus.RUNNING)
    vertex = graph.vertices[0]
    for epoch in range(1, 41):
        recorder.on_start(epoch, lambda: None)
        clock.advance(500)
        subtask = SubtaskStatistics(
            vertex.id, 0, measures={"accumulateBusyTimeMs": 250.0, "numRecordsOut": 50},
            operators={
                op.id: OperatorStatistics({"numRecordsIn": 50, "numRecordsOut": 50}) for op in vertex.operators
            },
        )  # fmt: skip
        recorder.on_epoch(
            EpochStatistics(epoch, 0, 50, 50, 0, clock.now_ms(), True, 0, 0, 1.0, 1.0, 1.0, 1.0, subtasks=(subtask,))
        )
    return recorder, vertex.id


def test_a_tracker_that_fails_does_not_disturb_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, _ = _running_job(ManualClock())
    recorder.on_savepoint(None)  # type: ignore[arg-type]
    recorder.on_status(JobStatus.FINISHED)
    assert recorder.view().status is JobStatus.FINISHED
    assert "could not process an event" in caplog.text
