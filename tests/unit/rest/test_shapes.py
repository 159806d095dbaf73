"""What the replies say: numbers, states and spellings of Flink's API, made from views."""

from __future__ import annotations

import base64
import sys
import threading
from dataclasses import replace
from typing import Any, get_args

import pytest

from flott.common._secrets import HIDDEN, shown
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.rest.process import own_threads, process_facts, process_metrics
from flott.rest.shapes.checkpoint.checkpoint_configuration import NEVER_AGAIN, checkpoint_configuration
from flott.rest.shapes.checkpoint.checkpoint_detail import checkpoint_detail, find_checkpoint, task_checkpoint_detail
from flott.rest.shapes.checkpoint.checkpoints import (
    CheckpointClass,
    CheckpointStatus,
    CheckpointType,
    checkpoint_item,
    checkpoints,
)
from flott.rest.shapes.cluster.job_manager import environment
from flott.rest.shapes.cluster.overview import cluster_overview, dashboard_configuration
from flott.rest.shapes.cluster.task_managers import task_manager_detail
from flott.rest.shapes.cluster.threads import thread_dump
from flott.rest.shapes.job.applications import ApplicationState, application_detail, application_state
from flott.rest.shapes.job.exceptions import job_exceptions
from flott.rest.shapes.job.execution_result import ApplicationStatus, execution_result
from flott.rest.shapes.job.job_configuration import configuration_entries, job_configuration
from flott.rest.shapes.job.job_detail import job_detail
from flott.rest.shapes.job.jobs import SchedulerType, jobs_overview
from flott.rest.shapes.job.plan import job_plan
from flott.rest.shapes.metrics import (
    aggregated_metrics,
    job_manager_metrics,
    job_metrics,
    metric_values,
    subtask_metrics,
    vertex_metrics,
    watermarks,
)
from flott.rest.shapes.values.numbers import metric_text, whole
from flott.rest.shapes.values.statistics import aggregate, quantiles, quantiles_of
from flott.rest.shapes.vertex.backpressure import back_pressure, shares
from flott.rest.shapes.vertex.states import JobState, TaskStateName, all_subtasks, job_state, task_state
from flott.rest.shapes.vertex.vertices import state_of, status_durations, subtask_detail, subtasks_times, vertex_detail
from flott.runtime.jobmanager.views.job_view import (
    ChainedOperatorView,
    CheckpointsView,
    CheckpointView,
    FailureView,
    JobResultView,
    Spread,
    SubtaskView,
    TaskState,
    Traffic,
    VertexView,
)
from tests.unit.rest.fake_cluster import NOW, RUNNING, SOURCE, START, TASK_MANAGER, WINDOW, running_job, task_manager

JOB = running_job()
VERTEX = JOB.vertices[1]
PORTS = {TASK_MANAGER: 36765}


# ---- enums -----------------------------------------------------------------------------------------------------------


def test_jobs_and_tasks_spell_cancelling_differently() -> None:
    assert {job_state(status) for status in JobStatus} == set(get_args(JobState))
    assert {task_state(state) for state in TaskState} == set(get_args(TaskStateName))
    assert job_state(JobStatus.CANCELLING) == "CANCELLING"
    assert task_state(TaskState.CANCELING) == "CANCELING"
    assert application_state(JobStatus.CANCELLING) == "CANCELING"


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_of_a_job_is_a_state_of_its_application(status: JobStatus) -> None:
    job = replace(JOB, status=status)
    assert application_state(status) in get_args(ApplicationState)
    detail = application_detail(job, NOW)
    assert set(detail["timestamps"]) == set(get_args(ApplicationState))
    assert detail["id"] == RUNNING, "an application is its one job"


@pytest.mark.parametrize("name", ["Default", "Adaptive", "AdaptiveBatch", "Spark", ""])
def test_no_scheduler_is_named_that_flinks_client_does_not_know(name: str) -> None:
    assert job_detail(replace(JOB, scheduler=name), NOW)["schedulerType"] in get_args(SchedulerType)


@pytest.mark.parametrize("status", get_args(CheckpointStatus))
@pytest.mark.parametrize(
    ("savepoint_format", "stops", "kind"),
    [(None, False, "CHECKPOINT"), ("CANONICAL", False, "SAVEPOINT"), ("NATIVE", True, "SYNC_SAVEPOINT")],
)
def test_a_checkpoint_says_its_class_and_type(
    status: str, savepoint_format: str | None, stops: bool, kind: str
) -> None:
    item = checkpoint_item(CheckpointView(3, status, START, savepoint_format=savepoint_format, stops_the_job=stops), 4)
    assert item["className"] in get_args(CheckpointClass)
    assert item["className"] == status.lower()
    assert item["checkpoint_type"] == kind
    assert kind in get_args(CheckpointType)
    assert item["is_savepoint"] is (savepoint_format is not None)
    assert ("external_path" in item, "failure_message" in item) == (status == "COMPLETED", status == "FAILED")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (JobStatus.FINISHED, "SUCCEEDED"),
        (JobStatus.FAILED, "FAILED"),
        (JobStatus.CANCELED, "CANCELED"),
        (JobStatus.SUSPENDED, "UNKNOWN"),
    ],
)
def test_a_result_says_how_the_job_ended_in_flinks_words(status: JobStatus, expected: str) -> None:
    reply = execution_result(JOB, JobResultView(RUNNING, status, 42))
    assert expected in get_args(ApplicationStatus)
    assert reply["status"] == {"id": "COMPLETED"}
    assert reply["job-execution-result"]["application-status"] == expected
    assert reply["job-execution-result"]["net-runtime"] == 42
    assert "failure-cause" not in reply["job-execution-result"]


# ---- jobs ------------------------------------------------------------------------------------------------------------


def test_a_job_that_runs_has_no_end_and_a_duration_until_now() -> None:
    detail = job_detail(JOB, NOW)
    assert (detail["end-time"], detail["duration"]) == (-1, NOW - START)
    assert detail["timestamps"]["RUNNING"] == START
    assert detail["timestamps"]["FINISHED"] == 0
    assert detail["maxParallelism"] == -1
    ended = job_detail(replace(JOB, end_ms=START + 5), NOW)
    assert (ended["end-time"], ended["duration"]) == (START + 5, 5)


def test_overview_and_detail_count_tasks_each_in_its_own_spelling() -> None:
    [line] = jobs_overview([JOB], NOW)["jobs"]
    assert line["tasks"]["total"] == line["tasks"]["running"] == 4
    detail = job_detail(JOB, NOW)
    assert [vertex["tasks"]["RUNNING"] for vertex in detail["vertices"]] == [2, 2]
    assert detail["status-counts"]["RUNNING"] == 2
    assert line["jobType"] == detail["job-type"] == "STREAMING"


def test_subtasks_no_task_has_taken_up_yet_are_created() -> None:
    waiting = replace(VERTEX, parallelism=4, subtasks=VERTEX.subtasks[1:], state=TaskState.SCHEDULED)
    assert [subtask.index for subtask in all_subtasks(waiting)] == [0, 1, 2, 3]
    [vertex] = job_detail(replace(JOB, vertices=(waiting,)), NOW)["vertices"]
    assert (vertex["tasks"]["CREATED"], vertex["tasks"]["RUNNING"]) == (3, 1)
    first = vertex_detail(waiting, PORTS, NOW)["subtasks"][0]
    assert (first["endpoint"], first["taskmanager-id"], first["duration"]) == ("(unassigned)", "(unassigned)", -1)


def test_what_subtasks_did_before_a_change_of_parallelism_still_counts() -> None:
    vertex = replace(VERTEX, former=Traffic(records_in=1000))
    [reply] = job_detail(replace(JOB, vertices=(vertex,)), NOW)["vertices"]
    assert reply["metrics"]["read-records"] == 1000 + 100 + 101


def test_the_cluster_counts_all_jobs_that_have_not_ended_as_running() -> None:
    jobs = [replace(JOB, status=status) for status in JobStatus]
    overview = cluster_overview(jobs, [task_manager()])
    assert overview["jobs-running"] == len(JobStatus) - 3
    assert (overview["jobs-finished"], overview["jobs-cancelled"], overview["jobs-failed"]) == (1, 1, 1)
    assert (overview["slots-total"], overview["slots-available"]) == (4, 2)


def test_the_dashboard_does_as_it_is_configured_and_never_takes_this_for_a_history_server() -> None:
    settings = Configuration.of({"web.refresh-interval": "10 s", "web.cancel.enable": False})
    reply = dashboard_configuration(settings, "CET", 3_600_000)
    assert reply["refresh-interval"] == 10_000
    assert reply["features"]["web-cancel"] is False
    assert reply["features"]["web-history"] is False


def test_a_plan_draws_a_chain_line_by_line_and_escapes_what_users_wrote() -> None:
    chain = [ChainedOperatorView("1" * 32, name, None, "Operator", name, 1) for name in ("a<b>", "b & c", "d")]
    job = replace(JOB, vertices=(replace(VERTEX, operators=tuple(chain)),))
    [node] = job_plan(job)["nodes"]
    assert node["description"] == "a&lt;b&gt;<br/>+- b &amp; c<br/>   +- d<br/>"
    assert node["inputs"][0]["ship_strategy"] == "HASH"
    assert "inputs" not in job_plan(JOB)["nodes"][0], "a source has none"


def test_failures_are_cut_at_what_was_asked_for_and_say_so() -> None:
    failures = tuple(FailureView("E", f"E: {number}", NOW - number) for number in range(3))
    job = replace(JOB, failures=failures)
    history = job_exceptions(job, 2)["exceptionHistory"]
    assert [entry["stacktrace"] for entry in history["entries"]] == ["E: 0", "E: 1"]
    assert history["truncated"]
    assert "taskName" not in history["entries"][0], "it was the whole job's"
    assert not job_exceptions(job, 3)["exceptionHistory"]["truncated"]


def test_a_result_carries_the_failure_in_the_form_flinks_client_reads() -> None:
    failure = FailureView("ValueError", "ValueError: no number\n  at line 3", NOW)
    result = JobResultView(RUNNING, JobStatus.FAILED, 7, {"count": b"12"}, failure, b"ledger")
    reply = execution_result(JOB, result)["job-execution-result"]
    assert reply["failure-cause"]["class"] == "ValueError"
    throwable = base64.b64decode(reply["failure-cause"]["serialized-throwable"])
    assert throwable.startswith(b"\xac\xed\x00\x05")
    assert b"ValueError: no number" in throwable
    assert reply["accumulator-results"] == {}, "Java's client would try to read it"
    assert execution_result(JOB, None) == {"status": {"id": "IN_PROGRESS"}}


def test_a_result_has_no_field_flinks_client_does_not_know() -> None:
    """It reads this object field by field, and takes the value of one it does not know for the next name."""
    reply = execution_result(JOB, JobResultView(RUNNING, JobStatus.FINISHED, 7))["job-execution-result"]
    assert set(reply) == {
        "id",
        "name",
        "application-id",
        "application-status",
        "accumulator-results",
        "net-runtime",
        "start-time",
        "end-time",
    }


# ---- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("flott.rest.token", "abc", HIDDEN),
        ("s3.secret-key", "abc", HIDDEN),
        ("my.PassWord", "abc", HIDDEN),
        ("properties.sasl.jaas.config", "abc", HIDDEN),
        ("parallelism.default", "4", "4"),
        ("pipeline.global-job-parameters", "db.password:abc,input:orders", f"db.password:{HIDDEN},input:orders"),
        ("jdbc.url", "jdbc:x://h/db?user=me&password=abc&ssl=1", f"jdbc:x://h/db?user=me&password={HIDDEN}&ssl=1"),
        ("proxy", "http://me:abc@host:80/x", f"http://me:{HIDDEN}@host:80/x"),
        ("headers", 'token = "a b c", more=1', f"token = {HIDDEN}, more=1"),
    ],
)
def test_secrets_are_hidden_wherever_they_stand(key: str, value: str, expected: str) -> None:
    assert shown({key: value}) == {key: expected}
    assert configuration_entries({key: value}) == [{"key": key, "value": expected}]


def test_parameters_of_a_job_are_shown_without_its_secrets() -> None:
    job = replace(JOB, job_parameters={"input": "orders", "api-key": "abc"})
    assert job_configuration(job)["execution-config"]["user-config"] == {"api-key": HIDDEN, "input": "orders"}


# ---- checkpoints -----------------------------------------------------------------------------------------------------


def test_without_a_checkpoint_all_is_zero_and_percentiles_are_none() -> None:
    reply = checkpoints(replace(JOB, checkpoints=CheckpointsView()))
    assert reply["latest"] == {"completed": None, "savepoint": None, "failed": None, "restored": None}
    assert reply["history"] == []
    assert reply["summary"]["state_size"]["p50"] == "NaN"
    assert reply["summary"]["state_size"]["max"] == 0
    assert reply["counts"]["total"] == 0


def test_checkpoints_are_counted_and_listed_newest_first() -> None:
    reply = checkpoints(JOB)
    assert reply["counts"] == {"restored": 1, "total": 7, "in_progress": 0, "completed": 6, "failed": 1}
    assert [item["id"] for item in reply["history"]] == [7, 6, 5]
    assert reply["history"][0]["num_acknowledged_subtasks"] == reply["history"][0]["num_subtasks"] == 4
    assert reply["history"][2]["failure_message"] == "the disk is full"
    assert reply["history"][2]["failure_timestamp"] == NOW - 5000
    assert reply["latest"]["restored"] == {
        "id": 1,
        "restore_timestamp": START,
        "is_savepoint": True,
        "external_path": "/s/savepoint-0",
    }


def test_a_checkpoint_in_progress_has_no_end_yet() -> None:
    item = checkpoint_item(CheckpointView(8, "IN_PROGRESS", NOW), 4)
    assert (item["latest_ack_timestamp"], item["end_to_end_duration"], item["num_acknowledged_subtasks"]) == (-1, -1, 0)


def test_a_checkpoint_is_told_vertex_by_vertex_and_subtask_by_subtask() -> None:
    checkpoint = find_checkpoint(JOB, 7)
    assert checkpoint is not None
    detail = checkpoint_detail(JOB, checkpoint)
    assert list(detail["tasks"]) == [SOURCE, WINDOW]
    assert detail["tasks"][WINDOW]["state_size"] == 2048
    assert detail["tasks"][WINDOW]["num_acknowledged_subtasks"] == 2
    part = task_checkpoint_detail(replace(checkpoint, tasks=checkpoint.tasks[:3]), VERTEX)
    assert [one["status"] for one in part["subtasks"]] == ["completed", "pending_or_failed"]
    assert part["summary"]["state_size"]["max"] == 1024
    assert find_checkpoint(JOB, 99) is None


def test_options_of_checkpoints_are_the_jobs() -> None:
    settings = {
        "execution.checkpointing.interval": "5 s",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    reply = checkpoint_configuration(replace(JOB, configuration=settings))
    assert (reply["mode"], reply["interval"]) == ("exactly_once", 5000)
    assert reply["state_backend"] == "EmbeddedRocksDBStateBackend"
    assert reply["externalization"] == {"enabled": True, "delete_on_cancellation": False}
    assert checkpoint_configuration(replace(JOB, batch=True, configuration={}))["interval"] == NEVER_AGAIN


# ---- vertices --------------------------------------------------------------------------------------------------------


def test_states_last_from_one_to_the_next_and_the_last_until_now() -> None:
    times = {
        TaskState.CREATED: 1_000,
        TaskState.SCHEDULED: 1_002,
        TaskState.DEPLOYING: 1_092,
        TaskState.INITIALIZING: 1_123,
        TaskState.RUNNING: 1_280,
    }
    running = SubtaskView(0, TaskState.RUNNING, start_ms=1_092, timestamps=times)
    expected = {"CREATED": 2, "SCHEDULED": 90, "DEPLOYING": 31, "INITIALIZING": 157, "RUNNING": 720}
    assert status_durations(running, 2_000) == expected
    ended = replace(running, state=TaskState.FINISHED, end_ms=1_300, timestamps={**times, TaskState.FINISHED: 1_300})
    assert status_durations(ended, 2_000) == {**expected, "RUNNING": 20}
    never = dict.fromkeys(expected, -1)
    assert status_durations(SubtaskView(0, TaskState.CREATED), 2_000) == never, "Flink's parser needs all five"
    skipped = replace(running, timestamps={TaskState.CREATED: 1_000, TaskState.RUNNING: 1_280})
    assert status_durations(skipped, 2_000) == {**never, "CREATED": 280, "RUNNING": 720}


def test_a_subtask_names_its_start_and_its_place_both_ways() -> None:
    detail = subtask_detail(VERTEX.subtasks[0], PORTS, NOW)
    assert detail["start-time"] == detail["start_time"] == START
    assert (detail["endpoint"], detail["host"]) == ("127.0.0.1:36765", "127.0.0.1")
    assert subtask_detail(VERTEX.subtasks[0], {}, NOW)["endpoint"] == "127.0.0.1", "its task manager has gone"
    [first, _] = subtasks_times(VERTEX, PORTS, NOW)["subtasks"]
    assert first["host"] == first["endpoint"] == "127.0.0.1:36765"
    assert first["duration"] == NOW - (START - 20)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("RUNNING RUNNING", "RUNNING"),
        ("RUNNING FAILED", "FAILED"),
        ("FINISHED RUNNING", "RUNNING"),
        ("FINISHED FINISHED", "FINISHED"),
        ("SCHEDULED CREATED", "CREATED"),
        ("CANCELED FINISHED", "CANCELED"),
        ("", "CREATED"),
    ],
)
def test_several_tasks_have_one_state(states: str, expected: str) -> None:
    assert state_of([TaskState(state) for state in states.split()]).value == expected


def test_numbers_are_aggregated_as_flink_does() -> None:
    assert aggregate([192.0, 153.0]) == {
        "min": 153,
        "max": 192,
        "avg": 172,
        "sum": 345,
        "median": 172,
        "p25": 153,
        "p75": 192,
        "p95": 192,
    }
    assert aggregate([float("nan")])["sum"] == 0
    many = quantiles(list(range(1, 101)))
    assert (many["p50"], many["p90"], many["p99"]) == (50.5, 90.9, 99.99)
    assert quantiles([])["p50"] == "NaN"
    assert quantiles_of(Spread(1, 3, 2.5, 2, 3, 3, 3, float("nan"), 4)) == {
        "min": 1, "max": 3, "avg": 2, "p50": 2.0, "p90": 3.0, "p95": 3.0, "p99": 3.0, "p999": "NaN"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("busy", "idle", "level"), [(0.4, 0.6, "ok"), (0.4, 0.5, "ok"), (0.2, 0.4, "low"), (0.1, 0.1, "high")]
)
def test_what_is_neither_work_nor_idleness_is_back_pressure(busy: float, idle: float, level: str) -> None:
    vertex = replace(
        VERTEX, subtasks=(replace(VERTEX.subtasks[0], busy_ratio=busy, idle_ratio=idle), VERTEX.subtasks[1])
    )
    reply = back_pressure(vertex, NOW)
    assert reply["status"] == "ok"
    assert reply["backpressure-level"] == reply["backpressureLevel"] == level
    first = reply["subtasks"][0]
    assert first["ratio"] == pytest.approx(1 - busy - idle)
    assert first["ratio"] + first["idleRatio"] + first["busyRatio"] == pytest.approx(1)


@pytest.mark.parametrize(("busy", "idle"), [(float("nan"), 2.0), (3.0, 1.0), (-1.0, float("inf"))])
def test_shares_of_time_are_shares_whatever_was_measured(busy: float, idle: float) -> None:
    parts = shares(SubtaskView(0, TaskState.RUNNING, busy_ratio=busy, idle_ratio=idle))
    assert sum(parts) == pytest.approx(1)
    assert all(0 <= part <= 1 for part in parts)


def test_beside_back_pressure_it_is_told_what_a_subtask_waits_for() -> None:
    waiting = replace(VERTEX.subtasks[0], waits_for="no more of its output is taken by the sink (1/2)")
    first, second = back_pressure(replace(VERTEX, subtasks=(waiting, VERTEX.subtasks[1])), NOW)["subtasks"]
    assert first["waits-for"] == "no more of its output is taken by the sink (1/2)"
    assert "waits-for" not in second


def test_of_a_vertex_that_does_not_run_no_back_pressure_is_known() -> None:
    assert back_pressure(replace(VERTEX, state=TaskState.FINISHED), NOW) == {"status": "deprecated"}


# ---- metrics ---------------------------------------------------------------------------------------------------------


def ask(vertex: VertexView, *names: str) -> dict[str, str]:
    return {one["id"]: one["value"] for one in metric_values(vertex_metrics(vertex), names)}


def test_metrics_of_a_vertex_are_named_by_subtask_and_operator() -> None:
    assert ask(VERTEX, "1.numRecordsIn", "0.numbers.numLateRecordsDropped", "nosuch", "0.busyTimeMsPerSecond") == {
        "1.numRecordsIn": "101",
        "0.numbers.numLateRecordsDropped": "1",
        "0.busyTimeMsPerSecond": "400.0",
    }
    listed = metric_values(vertex_metrics(VERTEX), [])
    assert {"id": "0.numRecordsIn"} in listed
    assert all("value" not in one for one in listed)


def test_metrics_of_subtasks_together_have_no_prefix_and_numbers_for_values() -> None:
    parts = [{"rate": 4.816666666666666}, {"rate": 4.933333333333334}, {"other": 1}]
    [rate] = aggregated_metrics(parts, ["rate", "nosuch"], [])
    assert rate["sum"] == 9.75
    assert rate["skew"] == pytest.approx(1.1965811965812014)
    assert aggregated_metrics(parts, ["rate"], ["max"]) == [{"id": "rate", "max": 4.933333333333334}]
    assert aggregated_metrics(parts, [], []) == [{"id": "rate"}, {"id": "other"}]
    own = [subtask_metrics(VERTEX, subtask) for subtask in VERTEX.subtasks]
    [busy] = aggregated_metrics(own, ["backPressuredTimeMsPerSecond"], ["avg"])
    assert busy == {"id": "backPressuredTimeMsPerSecond", "avg": 0.0}


@pytest.mark.parametrize(
    ("values", "skew"), [([23.0, 3.0, 10.0], 61.1), ([300.0, 0.0, 0.0], 100.0), ([0.0, 0.0], 0.0), ([7.0], 0.0)]
)
def test_skew_is_the_mean_deviation_in_percent_of_the_mean(values: list[float], skew: float) -> None:
    [metric] = aggregated_metrics([{"x": value} for value in values], ["x"], ["skew"])
    assert metric["skew"] == pytest.approx(skew, abs=0.05)


def test_watermarks_are_told_only_where_there_is_event_time() -> None:
    assert watermarks(VERTEX)[1] == {"id": "1.currentInputWatermark", "value": str(NOW - 5_000)}
    fresh = replace(VERTEX, subtasks=())
    assert watermarks(fresh)[0]["value"] == str(MIN_WATERMARK) == str(-(2**63))
    assert watermarks(replace(VERTEX, has_event_time=False)) == []
    assert "0.currentInputWatermark" not in vertex_metrics(replace(VERTEX, has_event_time=False))


def test_a_job_counts_its_checkpoints_and_restarts_and_its_own_metrics_go_first() -> None:
    metrics = job_metrics(replace(JOB, metrics={"numRestarts": 5, "mine": 2.5}), NOW)
    assert metrics["uptime"] == NOW - START
    assert metrics["numberOfCompletedCheckpoints"] == 6
    assert metrics["lastCheckpointDuration"] == 100
    assert (metrics["numRestarts"], metrics["mine"]) == (5, 2.5)
    assert job_metrics(replace(JOB, status=JobStatus.FINISHED, metrics={}), NOW)["uptime"] == -1
    fresh = replace(JOB, checkpoints=CheckpointsView(), metrics={})
    assert job_metrics(fresh, NOW)["lastCheckpointDuration"] == -1


def test_the_jobmanager_shows_the_machine_of_the_driver_and_its_own_process() -> None:
    driver = replace(task_manager(), id="driver")
    metrics = job_manager_metrics([JOB], [driver, task_manager()], process_metrics())
    assert metrics["Status.JVM.Memory.Heap.Used"] == 1 << 29
    assert metrics["Status.Python.Memory.Used"] > 1 << 20
    assert (metrics["numRunningJobs"], metrics["taskSlotsTotal"]) == (1, 8)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0.5, "0.5"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (True, "true"),
    ],
)
def test_values_of_metrics_are_written_as_java_does(value: float, text: str) -> None:
    assert metric_text(value) == text


def test_whole_numbers_fit_into_64_bits() -> None:
    assert whole(1e300) == 2**63 - 1
    assert whole(-1e300) == -(2**63)
    assert whole(float("nan")) == 0


# ---- task managers and the JobManager --------------------------------------------------------------------------------


def test_a_task_manager_shows_whose_slots_it_holds() -> None:
    ended = replace(JOB, job_id="e" * 32, status=JobStatus.FINISHED)
    detail = task_manager_detail(task_manager(), [JOB, ended])
    slots = [(slot["jobId"], slot["assignedTasks"]) for slot in detail["allocatedSlots"]]
    assert slots == [(RUNNING, 2), (RUNNING, 2)], "a slot has one subtask of each vertex"
    assert detail["timeSinceLastHeartbeat"] == NOW - 200, "the time of it, in spite of the name"
    assert detail["totalResource"]["taskHeapMemory"] == 1024, "in MiB"
    assert detail["freeResource"]["cpuCores"] == 2.0
    assert detail["hardware"]["physicalMemory"] == 1 << 30, "in bytes"
    assert detail["metrics"]["heapUsed"] == 1 << 29


def test_a_task_manager_tells_what_only_spark_knows_and_what_is_a_maximum() -> None:
    metrics = {
        "Status.Python.Memory.Used": 7, "Status.Storage.Memory.Used": 1, "Status.Storage.Memory.Max": 2,
        "Status.Shuffle.Read.Bytes": 3, "Status.Shuffle.Write.Bytes": 4,
    }  # fmt: skip
    urls = {"stderr": "http://worker:8081/stderr"}
    told = task_manager_detail(replace(task_manager(), metrics=metrics, log_urls=urls, memory_is_peak=True), [])
    assert told["spark"] == {
        "pythonMemoryPeak": 7, "storageUsed": 1, "storageMax": 2, "shuffleRead": 3, "shuffleWritten": 4,
        "logUrls": urls,
    }  # fmt: skip
    assert (told["memoryIsPeak"], told["startTime"]) == (True, START)
    unknown = task_manager_detail(replace(task_manager(), metrics={}), [])["spark"]
    assert {name for name, value in unknown.items() if value is None} == set(told["spark"]) - {"logUrls"}


def test_collectors_of_a_task_manager_are_listed_by_name() -> None:
    metrics = {
        "Status.JVM.GarbageCollector.G1_Young_Generation.Count": 8,
        "Status.JVM.GarbageCollector.G1_Young_Generation.Time": 181,
    }
    detail = task_manager_detail(replace(task_manager(), metrics=metrics), [])
    assert detail["metrics"]["garbageCollectors"] == [{"name": "G1_Young_Generation", "count": 8, "time": 181}]


def test_a_thread_dump_shows_where_each_thread_stands() -> None:
    here, leave = threading.Event(), threading.Event()

    def waits_in_a_named_place() -> None:
        here.set()
        leave.wait(120)

    thread = threading.Thread(target=waits_in_a_named_place, name="a waiting thread", daemon=True)
    thread.start()
    try:
        assert here.wait(120)
        found: dict[str, str] = {
            one["threadName"]: one["stringifiedThreadInfo"] for one in own_threads()["threadInfos"]
        }
        assert "waits_in_a_named_place" in found["a waiting thread"]
        assert found["a waiting thread"].startswith('"a waiting thread" Id=')
    finally:
        leave.set()
        thread.join()


def test_a_thread_python_did_not_start_has_its_number_for_a_name() -> None:
    frame: Any = sys._getframe()
    [info] = thread_dump([], {17: frame})["threadInfos"]
    assert info["threadName"] == "thread-17"


def test_the_environment_tells_of_python_where_flink_tells_of_java() -> None:
    reply = environment(process_facts())
    assert reply["jvm"]["version"].startswith("Python 3.")
    assert reply["classpath"]
