"""The ages of latency markers are shown as histograms, under the names and labels of Flink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration
from flott.common._ids import EpochId, SubtaskIndex
from flott.graph.chain import chain
from flott.graph.job_graph import VertexId
from flott.graph.operator_ids import OperatorId
from flott.reporters.exposition import Exposition, TextFormat
from flott.rest.shapes.metrics import job_metrics
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.jobmanager.ended_job_file import decode_end, encode_end
from flott.runtime.jobmanager.views.job_tracker import JobTracker
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.jobmanager.views.latency_tracker import LatencyTracker
from flott.runtime.jobmanager.views.task_tracker import Moment
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.runtime.jobmaster.listener import ModeChange, SubtaskStatistics
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, in_process
from flott.testing.sinks import Ledger
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait
from tests.unit.reporters.test_reporters import Cluster
from tests.unit.runtime.jobmanager.tracked_jobs import counting as counting_job
from tests.unit.runtime.jobmanager.tracked_jobs import recorded, vertex_named
from tests.unit.runtime.pipelined.test_latency_markers import Slow
from tests.unit.runtime.pipelined.test_pipelined_jobs import counting


def tracked(folder: Path, **settings: str) -> JobView:
    """The view of a job that runs, after two checkpoints, behind an exchange that takes 30 ms."""
    seen: list[JobView] = []
    masters: list[Any] = []

    def look(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 3):
            [tracker] = [each for each in masters[0].listeners if isinstance(each, TrackingListener)]
            seen.append(tracker.view())
            raise Cancel

    script = {split: [value for n in range(200) for value in (n, EndOfEpoch(), Wait(100))] for split in "ab"}
    env = counting_job(
        script,
        options={
            "execution__mode": "pipelined", "execution__checkpointing__interval": "2 s",
            "metrics__latency__interval": "50 ms", **settings,
        },
    )  # fmt: skip
    clock = ManualClock(0)
    recorded(env, folder, clock, on_step=look, on_start=masters.append, pipeline=Slow(clock))
    return seen[0]


@pytest.mark.parametrize(
    ("granularity", "labels"),
    [
        ("single", ["operator_id", "operator_subtask_index"]),
        ("operator", ["source_id", "operator_id", "operator_subtask_index"]),
        ("subtask", ["source_id", "source_subtask_index", "operator_id", "operator_subtask_index"]),
    ],
)
def test_the_granularity_says_which_markers_are_measured_as_one(
    granularity: str, labels: list[str], tmp_path: Path
) -> None:
    view = tracked(tmp_path, metrics__latency__granularity=granularity)
    assert {tuple(one.labels) for one in view.latencies} == {tuple(labels)}
    at_count = [one for one in view.latencies if one.operator == vertex_named(view, "Count").operators[0].id]
    assert len(at_count) == (4 if granularity == "subtask" else 2)
    assert {one.source_subtask for one in view.latencies} == ({0, 1} if granularity == "subtask" else {None})


def test_rest_has_the_histograms_among_the_metrics_of_the_job_under_flinks_names(tmp_path: Path) -> None:
    view = tracked(tmp_path)
    source = vertex_named(view, "Source").operators[0].id
    count, out = (operator.id for operator in vertex_named(view, "Count").operators)
    metrics = job_metrics(view, 0)
    for operator in (count, out):
        for subtask in (0, 1):
            name = f"latency.source_id.{source}.operator_id.{operator}.operator_subtask_index.{subtask}.latency"
            assert metrics[f"{name}_count"] > 10
            numbers = ("min", "max", "mean", "median", "p75", "p90", "p95", "p98", "p99", "p999")
            assert {number: metrics[f"{name}_{number}"] for number in numbers} == dict.fromkeys(numbers, 30)
            assert metrics[f"{name}_stddev"] == 0
    assert sum(name.startswith("latency.") for name in metrics) == 4 * 12
    archived, _ = decode_end(encode_end(view, JobResultView(view.job_id, view.status, 0)))
    assert archived.latencies == view.latencies


def test_prometheus_gets_flinks_families_with_the_quantile_as_a_label(tmp_path: Path) -> None:
    view = tracked(tmp_path)
    source = vertex_named(view, "Source").operators[0].id
    count = vertex_named(view, "Count").operators[0].id
    cluster: Any = Cluster([view])
    text = Exposition().scrape(cluster, TextFormat.PROMETHEUS).decode()
    family = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"
    lines = [line for line in text.splitlines() if line.startswith(f"{family}{{")]
    of_one = [line for line in lines if f'operator_id="{count}"' in line and 'operator_subtask_index="1"' in line]
    quantiles = [line.partition('quantile="')[2].partition('"')[0] for line in of_one]
    assert sorted(quantiles) == ["0_5", "0_75", "0_9", "0_95", "0_98", "0_99", "0_999"]
    assert all(f'source_id="{source}"' in line and line.endswith(" 30.0") for line in of_one)
    assert all('tm_id="in_process"' in line for line in of_one)
    assert f"# HELP {family} The age of the last latency markers" in text
    assert f"# HELP {family}_count Latency markers" in text
    assert len([line for line in text.splitlines() if line.startswith(f"{family}_count{{")]) == 4


def statistics(path: LatencyPath, *ages: int) -> list[SubtaskStatistics]:
    return [SubtaskStatistics(VertexId("v"), SubtaskIndex(0), latencies={path: MarkerAges(len(ages), ages)})]


def test_a_histogram_covers_the_last_markers_and_counts_all() -> None:
    tracker, path = LatencyTracker(history=4), LatencyPath(OperatorId("o"), 0)
    tracker.add(statistics(path, 1000, 1000))
    tracker.add(statistics(path, 10, 20, 30, 40))
    [one] = tracker.view()
    assert (one.count, one.minimum, one.maximum, one.mean) == (6, 10, 40, 25)
    assert one.stddev == pytest.approx(12.909944)
    assert one.percentiles["0.5"] == 25
    assert one.percentiles["0.999"] == 40


def new_tracker(parallelism: int = 2) -> tuple[JobTracker, LatencyPath, Any]:
    env = in_process(parallelism)
    counting(env, ScriptedSource([1]), Ledger("tracked"))
    graph = chain(env.get_stream_graph())
    tracker = JobTracker("j", graph, Configuration(), "", Moment(0, 0.0))
    by_uid = {operator.node.uid: ident for ident, operator in graph.operators.items()}
    return tracker, LatencyPath(by_uid["counted"], 1, by_uid["numbers"], 1), graph


def test_a_restart_a_change_of_mode_and_a_smaller_parallelism_end_histograms() -> None:
    smaller = new_tracker(parallelism=1)[2]
    for end in (
        lambda tracker: tracker.restarting(Moment(1, 1.0)),
        lambda tracker: tracker.mode_changed(Moment(1, 1.0), ModeChange("epochs", EpochId(1), "input was waiting")),
        lambda tracker: tracker.graph(Moment(1, 1.0), smaller),
    ):
        tracker, path, graph = new_tracker()
        tracker._latencies.add(statistics(path, 5))
        tracker.graph(Moment(1, 1.0), graph)
        assert len(tracker.view(Moment(1, 1.0)).latencies) == 1
        end(tracker)
        assert tracker.view(Moment(2, 2.0)).latencies == ()
