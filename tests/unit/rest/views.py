"""Any job there may be, for property tests. Numbers that come from users or from divisions may be none at all."""

from __future__ import annotations

from hypothesis import strategies as st

from flott.common._late_records import LateSample, LedgerEntry
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.metrics._engine_metrics import ROWS, Scope
from flott.runtime.jobmanager.views.job_view import (
    NEVER,
    ChainedOperatorView,
    CheckpointsView,
    CheckpointTask,
    CheckpointView,
    EpochView,
    FailureCardView,
    FailureView,
    InputView,
    JobView,
    LatencyView,
    RescaleView,
    RestoredView,
    Spread,
    SubtaskView,
    TaskManagerView,
    TaskState,
    Traffic,
    VertexView,
)
from flott.runtime.jobmanager.views.latency_tracker import QUANTILES

numbers = st.floats() | st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**62)
times = st.just(NEVER) | st.integers(1, 2**45)
ids = st.text("0123456789abcdef", min_size=32, max_size=32)
names = st.text(max_size=12) | st.sampled_from(["<script>", 'a"b', "Source: x -> Map", "NaN"])
metric_maps = st.dictionaries(names, numbers, max_size=2)
phases = st.dictionaries(st.sampled_from(["plan", "run", "commit"]), st.floats(), max_size=2)

traffic = st.builds(Traffic, counts, counts, counts, counts, st.floats(), st.floats())
spreads = st.builds(Spread, *([st.floats()] * 8), st.integers(0, 3))
watermarks = st.integers(MIN_WATERMARK, 2**63 - 1)
numbers = st.integers() | st.floats()
latencies = st.builds(
    LatencyView, ids, st.integers(0, 3), st.none() | ids, st.none() | st.integers(0, 3), counts,
    *([st.floats()] * 4), st.dictionaries(st.sampled_from(QUANTILES), st.floats()),
)  # fmt: skip


@st.composite
def subtasks(draw: st.DrawFn, index: int) -> SubtaskView:
    return SubtaskView(
        index=index,
        state=draw(st.sampled_from(TaskState)),
        attempt=draw(st.integers(0, 3)),
        host=draw(st.sampled_from(["", "host", "::1"])),
        task_manager=draw(st.sampled_from(["", "driver", "0"])),
        worker=draw(st.integers(0, 70_000)),
        start_ms=draw(times),
        end_ms=draw(times),
        timestamps=draw(st.dictionaries(st.sampled_from(TaskState), times, max_size=4)),
        traffic=draw(traffic),
        busy_ratio=draw(st.floats()),
        idle_ratio=draw(st.floats()),
        own_metrics=draw(st.none() | st.fixed_dictionaries(dict.fromkeys(ROWS[Scope.TASK], numbers))),
        watermark=draw(watermarks),
        state_bytes=draw(counts),
        metrics=draw(st.dictionaries(names, metric_maps, max_size=2)),
    )


@st.composite
def vertices(draw: st.DrawFn, ident: str, before: list[str]) -> VertexView:
    parallelism = draw(st.integers(1, 3))
    begun = draw(st.integers(0, parallelism))
    inputs = draw(st.lists(st.sampled_from(before), max_size=2)) if before else []
    return VertexView(
        id=ident,
        name=draw(names),
        parallelism=parallelism,
        max_parallelism=128,
        state=draw(st.sampled_from(TaskState)),
        operators=tuple(
            draw(
                st.lists(
                    st.builds(ChainedOperatorView, ids, names, st.none() | names, names, names, counts), max_size=2
                )
            )
        ),
        inputs=tuple(InputView(source, "HASH", number) for number, source in enumerate(inputs)),
        subtasks=tuple(draw(subtasks(index)) for index in range(begun)),
        slot_sharing_group=draw(ids),
        start_ms=draw(times),
        end_ms=draw(times),
        has_event_time=draw(st.booleans()),
        former=draw(traffic),
    )


@st.composite
def checkpoint_views(draw: st.DrawFn, vertex_ids: list[str]) -> CheckpointView:
    vertex = st.sampled_from([*vertex_ids, "f" * 32])
    task = st.builds(CheckpointTask, vertex, st.integers(0, 3), counts, counts, st.integers(0, 10**6))
    return CheckpointView(
        id=draw(st.integers(1, 5)),
        status=draw(st.sampled_from(["IN_PROGRESS", "COMPLETED", "FAILED"])),
        triggered_ms=draw(st.integers(1, 2**45)),
        acknowledged_ms=draw(times),
        state_bytes=draw(counts),
        written_bytes=draw(counts),
        records=draw(counts),
        path=draw(st.none() | names),
        savepoint_format=draw(st.sampled_from([None, "CANONICAL", "NATIVE"])),
        stops_the_job=draw(st.booleans()),
        discarded=draw(st.booleans()),
        failure=draw(st.none() | names),
        tasks=tuple(draw(st.lists(task, max_size=3))),
        phases=draw(phases),
    )


@st.composite
def job_views(draw: st.DrawFn) -> JobView:
    """Any job."""
    vertex_ids = draw(st.lists(ids, max_size=3, unique=True))
    one = checkpoint_views(vertex_ids)
    checkpoints = CheckpointsView(
        completed=draw(counts),
        failed=draw(counts),
        in_progress=draw(counts),
        restored_count=draw(counts),
        history=tuple(draw(st.lists(one, max_size=2))),
        latest_completed=draw(st.none() | one),
        latest_savepoint=draw(st.none() | one),
        latest_failed=draw(st.none() | one),
        restored=draw(st.none() | st.builds(RestoredView, counts, times, st.booleans(), st.none() | names)),
        durations=draw(spreads),
        state_bytes=draw(spreads),
        written_bytes=draw(spreads),
        records=draw(spreads),
    )
    maybe = st.none() | names
    card = st.builds(
        FailureCardView, names, names, names, counts, counts, counts, names, st.none() | counts, maybe, maybe, maybe,
        maybe, maybe, maybe, st.none() | watermarks, st.none() | st.tuples(names, names),
    )  # fmt: skip
    failure = st.builds(FailureView, names, names, times, maybe, maybe, maybe, st.none() | card)
    sample = st.builds(LateSample, names, watermarks, watermarks)
    entry = st.builds(LedgerEntry, names, counts, counts, counts, st.lists(sample, max_size=2).map(tuple))
    epoch = st.builds(
        EpochView, counts, counts, times, counts, counts, watermarks, phases, counts, counts, st.booleans(), times,
        counts,
    )  # fmt: skip
    return JobView(
        job_id=draw(ids),
        name=draw(names),
        status=draw(st.sampled_from(JobStatus)),
        start_ms=draw(st.integers(1, 2**45)),
        end_ms=draw(times),
        timestamps=draw(st.dictionaries(st.sampled_from(JobStatus), times, max_size=4)),
        last_modified_ms=draw(times),
        batch=draw(st.booleans()),
        vertices=tuple(draw(vertices(ident, vertex_ids[:number])) for number, ident in enumerate(vertex_ids)),
        checkpoints=checkpoints,
        failures=tuple(draw(st.lists(failure, max_size=2))),
        failures_truncated=draw(st.booleans()),
        configuration=draw(st.dictionaries(names, names, max_size=2)),
        job_parameters=draw(st.dictionaries(names, names, max_size=2)),
        accumulators=draw(st.dictionaries(names, st.tuples(names, names), max_size=2)),
        metrics=draw(metric_maps),
        epochs=tuple(draw(st.lists(epoch, max_size=2))),
        restarts=draw(counts),
        records_per_second=draw(st.floats()),
        waiting_for=draw(st.none() | names),
        checkpoint_directory=draw(names),
        scheduler=draw(st.sampled_from(["Default", "Adaptive", "Spark"])),
        restart_strategy=draw(names),
        rescales=tuple(draw(st.lists(st.builds(RescaleView, counts, times, st.tuples(names)), max_size=1))),
        ledger=draw(st.dictionaries(ids, entry, max_size=2)),
        latencies=tuple(draw(st.lists(latencies, max_size=2))),
    )


task_manager_views = st.builds(
    TaskManagerView,
    st.sampled_from(["driver", "0", "1"]),
    st.just("host"),
    st.integers(0, 65535),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 64),
    counts,
    counts,
    counts,
    times,
    metrics=st.dictionaries(
        st.sampled_from(["Status.JVM.Memory.Heap.Used", "Status.JVM.GarbageCollector.All.Count", "x"]), numbers
    ),
)
