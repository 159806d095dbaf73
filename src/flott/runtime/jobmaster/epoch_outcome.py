"""What the reports of an epoch amount to: a failure, or snapshots and statistics. Driver side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from flott.common._ids import EpochId, SubtaskIndex
from flott.datastream.connectors.base import Pending
from flott.errors import EpochFailure, StateMigrationError, StorageError, UserCodeError, WorkerLostError
from flott.graph.job_graph import ChainedOperator, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SinkSpec
from flott.metrics._engine_metrics import STATE_ENTRIES, TASK_ALIGNMENT_NANOS, TASK_START_DELAY_NANOS
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, OperatorSnapshot, SubtaskSnapshot
from flott.runtime.clock import Clock
from flott.runtime.epoch.failure import Blame, FailureCard
from flott.runtime.epoch.report import EpochResult, OperatorReport, SubtaskReport
from flott.runtime.epoch.topology import Topology
from flott.runtime.jobmaster import ledger
from flott.runtime.jobmaster.listener import (
    EpochStatistics,
    JobFailure,
    OperatorStatistics,
    SubtaskStatistics,
)

#: Of several failures, which one is told.
_GRAVITY = (Blame.STATE, Blame.USER_CODE, Blame.STORAGE, Blame.ENGINE)


class StepTimes:
    """Times the steps of one epoch and calls the hook after each."""

    def __init__(self, clock: Clock, epoch: EpochId, on_step: Callable[[str, int], None]):
        self._clock = clock
        self._epoch = epoch
        self._on_step = on_step
        self.started_ms = self.handed_over_ms = clock.now_ms()
        self._reached = {"started": clock.monotonic()}

    def reached(self, step: str) -> None:
        """Note the end of a step."""
        self._on_step(step, self._epoch)
        self._reached[step] = self._clock.monotonic()
        if step == "planned":
            self.handed_over_ms = self._clock.now_ms()

    @property
    def phase_seconds(self) -> list[float]:
        """Return how long it took to plan, run, complete and commit the epoch."""
        times = [self._reached[step] for step in ("started", "planned", "ran", "completed", "committed")]
        return [later - earlier for earlier, later in pairwise(times)]


def raise_failures(result: EpochResult, graph: JobGraph, topology: Topology) -> None:
    """Turn failure cards, and reports that never came, into the exception the restart strategy sees."""
    if result.failures:
        first = min(result.failures, key=lambda card: (_GRAVITY.index(card.blame), card.vertex, card.subtask))
        if first.blame is Blame.STATE:
            error = StateMigrationError(str(first))  # no failure of the epoch: it is not tried again
            error.culprit = first
            raise error
        raise error_of(first)
    if missing := result.missing(graph):
        raise WorkerLostError(f"No acknowledgement came from {', '.join(missing)}.")
    if mixed := result.mixed(topology):
        raise WorkerLostError(f"Output that was lost and computed again reached {', '.join(mixed)}.")


def error_of(card: FailureCard) -> EpochFailure:
    """Return the exception that the restart strategy sees for a failed task."""
    error: EpochFailure = StorageError(str(card)) if card.blame is Blame.STORAGE else UserCodeError(str(card))
    error.culprit = card
    return error


def failure_of(error: BaseException, graph: JobGraph) -> JobFailure:
    """Return what listeners are told about a failure."""
    card = getattr(error, "culprit", None)
    if not isinstance(card, FailureCard):
        return JobFailure(type(error).__name__, str(error))
    widths = {vertex.name: vertex.parallelism for vertex in graph.vertices}
    return JobFailure(
        card.exception,
        str(card),
        operator=card.operator,
        vertex=card.vertex,
        subtask=SubtaskIndex(card.subtask),
        parallelism=card.parallelism or widths.get(card.vertex),
        host=card.host or None,
        executor=card.executor or None,
        card=card,
    )


def snapshot_of(operator: ChainedOperator, outcomes: Iterable[OperatorReport]) -> OperatorSnapshot:
    """Return an operator at the end of an epoch, from the reports of its subtasks in order."""
    return OperatorSnapshot(
        operator.node.name,
        operator.node.uid,
        operator.node.parallelism,
        operator.node.max_parallelism,
        tuple(SubtaskSnapshot(o.watermark, o.sequence, o.progress, o.operator_state) for o in outcomes),
    )


def statistics_of(
    graph: JobGraph,
    fixed: EpochInput,
    result: EpochResult,
    manifest: Manifest,
    attempt: int,
    phase_seconds: Sequence[float],
    *,
    started_at_ms: int = 0,
    handed_over_ms: int | None = None,
    pending: Mapping[OperatorId, Pending] | None = None,
    pipelined: bool = False,
) -> EpochStatistics:
    """Return what listeners are told about a completed epoch.

    ``handed_over_ms``: when the runner got it. Tasks say by the clocks of their hosts when they began; where those are
    wrong, the time before the first task is wrong too, but never more than the epoch took. In a pipelined job the
    barriers were sent then.
    """
    outcomes = [(ident, outcome) for report in result.reports for ident, outcome in report.operators.items()]
    traffic: dict[OperatorId, tuple[int, int]] = {}
    for ident, outcome in outcomes:
        before = traffic.get(ident, (0, 0))
        traffic[ident] = (before[0] + outcome.records_in, before[1] + outcome.records_out)
    sinks = {ident for ident, operator in graph.operators.items() if isinstance(operator.node.spec, SinkSpec)}
    plan_ms, run_ms, complete_ms, commit_ms = (seconds * 1000 for seconds in phase_seconds)
    triggered_ms = handed_over_ms if pipelined and handed_over_ms is not None else None
    align_ms, sync_ms = (0.0, 0.0) if triggered_ms is None else checkpoint_phases(result.reports, triggered_ms, run_ms)
    return EpochStatistics(
        epoch=fixed.epoch,
        attempt=attempt,
        parallelism=max(vertex.parallelism for vertex in graph.vertices),
        records_in=sum(split.records for _, outcome in outcomes for split in outcome.splits.values()),
        records_out=sum(traffic[ident][0] for ident in sinks if ident in traffic),
        watermark=min(outcome.watermark for ident, outcome in outcomes if ident in sinks),
        completed_at_ms=manifest.completed_at_ms,
        backlog=any(slices.backlog for slices in fixed.slices.values()),
        state_bytes=manifest.state_bytes,
        state_entries=sum(int(outcome.measures.get(STATE_ENTRIES.name, 0)) for _, outcome in outcomes),
        plan_ms=plan_ms,
        run_ms=run_ms,
        complete_ms=complete_ms,
        commit_ms=commit_ms,
        operators=traffic,
        ledger=ledger.ledger_of(graph, result),
        started_at_ms=started_at_ms if triggered_ms is None else triggered_ms,
        schedule_ms=0.0 if pipelined else _wait_ms(result, handed_over_ms, run_ms),
        subtasks=tuple(_subtask(report, triggered_ms) for report in result.reports),
        pending=pending or {},
        accumulators=manifest.accumulators,
        pipelined=pipelined,
        align_ms=align_ms,
        sync_ms=sync_ms,
    )


def checkpoint_phases(reports: Iterable[SubtaskReport], triggered_ms: float, took_ms: float) -> tuple[float, float]:
    """Return how long it took until barriers had come through to all subtasks, and then until all state was aside.

    ``took_ms``: from the trigger until all subtasks had acknowledged the checkpoint. Subtasks measure by the clocks of
    their hosts; where those are wrong, the phases are wrong too, but never longer than all of it.
    """
    times = [report.checkpoint for report in reports if report.checkpoint is not None]
    align_ms = max((one.aligned_ms - triggered_ms for one in times), default=0.0)
    align_ms = min(max(0.0, align_ms), took_ms)
    saved_ms = max((one.saved_ms - triggered_ms for one in times), default=0.0)
    return align_ms, min(max(align_ms, saved_ms), took_ms) - align_ms


def _wait_ms(result: EpochResult, handed_over_ms: int | None, run_ms: float) -> float:
    first = min((report.started_ms for report in result.reports), default=0)
    return 0.0 if handed_over_ms is None else min(max(0.0, first - handed_over_ms), run_ms)


def _subtask(report: SubtaskReport, triggered_ms: int | None) -> SubtaskStatistics:
    measures, times = report.measures, report.checkpoint
    if times is not None and triggered_ms is not None:
        measures = {
            **measures,
            TASK_ALIGNMENT_NANOS.name: times.alignment_ms * 1e6,
            TASK_START_DELAY_NANOS.name: max(0.0, times.barrier_ms - triggered_ms) * 1e6,
        }
    return SubtaskStatistics(
        report.vertex,
        SubtaskIndex(report.subtask),
        place=report.place,
        worker=report.worker,
        started_ms=report.started_ms,
        ended_ms=report.ended_ms,
        measures=measures,
        checkpoint=times,
        edges=report.edges,
        latencies=report.latencies,
        operators={ident: _operator(outcome) for ident, outcome in report.operators.items()},
    )


def _operator(outcome: OperatorReport) -> OperatorStatistics:
    return OperatorStatistics(outcome.measures, outcome.written_bytes, outcome.metrics)
