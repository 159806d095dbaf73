"""What the reports of an epoch amount to: a failure, or statistics for whoever looks on. Pure. Driver side."""

from __future__ import annotations

from collections.abc import Sequence

from flott.errors import StateMigrationError, StorageError, UserCodeError, WorkerLostError
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SinkSpec
from flott.runtime.checkpoint.manifest import InputPlan, Manifest
from flott.runtime.epoch.failure import Blame
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.topology import Topology
from flott.runtime.jobmanager import ledger
from flott.runtime.jobmanager.listener import EpochStatistics

#: Of several failures, which one is told.
_GRAVITY = (Blame.STATE, Blame.USER_CODE, Blame.STORAGE, Blame.ENGINE)


def raise_failures(result: EpochResult, graph: JobGraph, topology: Topology) -> None:
    """Turn failure cards, and reports that never came, into the exception the restart strategy sees."""
    if result.failures:
        first = min(result.failures, key=lambda card: (_GRAVITY.index(card.blame), card.vertex, card.subtask))
        if first.blame is Blame.STORAGE:
            raise StorageError(str(first))
        if first.blame is Blame.STATE:
            raise StateMigrationError(str(first))  # no failure of the epoch: it is not tried again
        raise UserCodeError(str(first))
    if missing := result.missing(graph):
        raise WorkerLostError(f"No acknowledgement came from {', '.join(missing)}.")
    if mixed := result.mixed(topology):
        raise WorkerLostError(f"Output that was lost and computed again reached {', '.join(mixed)}.")


def statistics_of(
    graph: JobGraph,
    plan: InputPlan,
    result: EpochResult,
    manifest: Manifest,
    attempt: int,
    phase_seconds: Sequence[float],
) -> EpochStatistics:
    """What listeners are told about a completed epoch."""
    outcomes = [(ident, outcome) for report in result.reports for ident, outcome in report.operators.items()]
    traffic: dict[OperatorId, tuple[int, int]] = {}
    for ident, outcome in outcomes:
        before = traffic.get(ident, (0, 0))
        traffic[ident] = (before[0] + outcome.records_in, before[1] + outcome.records_out)
    sinks = {ident for ident, operator in graph.operators.items() if isinstance(operator.node.spec, SinkSpec)}
    plan_ms, run_ms, complete_ms, commit_ms = (seconds * 1000 for seconds in phase_seconds)
    return EpochStatistics(
        epoch=plan.epoch,
        attempt=attempt,
        parallelism=max(vertex.parallelism for vertex in graph.vertices),
        records_in=sum(split.records for _, outcome in outcomes for split in outcome.splits.values()),
        records_out=sum(traffic[ident][0] for ident in sinks if ident in traffic),
        watermark=min(outcome.watermark for ident, outcome in outcomes if ident in sinks),
        completed_at_ms=manifest.completed_at_ms,
        backlog=any(slices.backlog for slices in plan.slices.values()),
        state_bytes=manifest.state_bytes,
        state_entries=sum(outcome.state_entries for _, outcome in outcomes),
        plan_ms=plan_ms,
        run_ms=run_ms,
        complete_ms=complete_ms,
        commit_ms=commit_ms,
        operators=traffic,
        ledger=ledger.ledger_of(graph, result),
    )
