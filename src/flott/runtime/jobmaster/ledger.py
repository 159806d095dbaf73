"""The late-data ledger of a job: what every windowed or timed operator did with its records. Pure. Driver side.

An operator subtask counts what it refuses (``runtime.operators.lateness``); here the counts of an epoch are added up
and put beside the records that came in. Totals are those of one run of the driver, like metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

from flott.common._durations import rounded_millis
from flott.common._late_records import LateSample, LedgerEntry
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.graph.job_graph import ChainedOperator, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import (
    BroadcastProcessSpec,
    CoProcessSpec,
    IntervalJoinSpec,
    ProcessSpec,
    WindowSpec,
)
from flott.metrics._engine_metrics import LATE_RECORDS, LATE_RECORDS_DROPPED
from flott.runtime.epoch.report import EpochResult

Entries = Mapping[OperatorId, LedgerEntry]



def is_timed(operator: ChainedOperator) -> bool:
    """Return whether an operator has windows or timers, so that a record can come too late for it."""
    spec = operator.node.spec
    if isinstance(spec, WindowSpec | IntervalJoinSpec):
        return True
    return operator.node.is_keyed and isinstance(spec, ProcessSpec | CoProcessSpec | BroadcastProcessSpec)


def ledger_of(graph: JobGraph, result: EpochResult) -> dict[OperatorId, LedgerEntry]:
    """Return the entries of one epoch: of windowed and timed operators, and of others that refused a record."""
    ledger: dict[OperatorId, LedgerEntry] = {}
    for report in result.reports:
        for ident, outcome in report.operators.items():
            operator, late = graph.operators[ident], outcome.late
            if is_timed(operator) or late.late or late.dropped:
                entry = LedgerEntry(operator.node.name, outcome.records_in, late.late, late.dropped, late.samples)
                ledger[ident] = ledger[ident].plus(entry) if ident in ledger else entry
    return ledger


def add(totals: Entries, epoch: Entries) -> dict[OperatorId, LedgerEntry]:
    """Return the totals with one more epoch."""
    summed = {ident: totals[ident].plus(entry) if ident in totals else entry for ident, entry in epoch.items()}
    return {**totals, **summed}


def metric_changes(graph: JobGraph, epoch: Entries) -> dict[str, tuple[str, int | float]]:
    """Return what an epoch adds to the metrics: always for windows and joins, for others once they refuse a record."""
    changes: dict[str, tuple[str, int | float]] = {}
    for ident, entry in epoch.items():
        if entry.refused or isinstance(graph.operators[ident].node.spec, WindowSpec | IntervalJoinSpec):
            for metric, number in ((LATE_RECORDS.name, entry.refused), (LATE_RECORDS_DROPPED.name, entry.dropped)):
                name = f"{entry.operator}.{metric}"
                changes[name] = ("sum", number + changes.get(name, ("sum", 0))[1])
    return changes


def first_drops(totals: Entries, epoch: Entries) -> list[LedgerEntry]:
    """Return the entries of operators that dropped records in this epoch and never before."""
    return [
        entry for ident, entry in epoch.items() if entry.dropped and not (ident in totals and totals[ident].dropped)
    ]


def describe(entry: LedgerEntry) -> str:
    """Return an entry in words, with samples, and what to do about it."""
    fates = []
    if entry.dropped:
        fates.append(f"dropped {entry.dropped:,}")
    if entry.late:
        fates.append(f"sent {entry.late:,} to a side output")
    text = f"{entry.operator}: of {entry.records_in:,} records {entry.refused:,} came too late, {' and '.join(fates)}."
    if entry.samples:
        shown = ", ".join(f"{sample.record} ({_how_late(sample)})" for sample in entry.samples)
        text += f" For example {shown}."
    if entry.dropped:
        text += (
            " To keep such records: a larger bound in for_bounded_out_of_orderness(...), allowed_lateness(...) on the"
            " window, or side_output_late_data(...)."
        )
    return text


def _how_late(sample: LateSample) -> str:
    if sample.watermark >= MAX_WATERMARK:
        return "after the end of event time"
    return f"{rounded_millis(sample.behind_ms)} late"
