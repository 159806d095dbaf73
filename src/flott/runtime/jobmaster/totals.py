"""What one run of a job has amounted to: metrics, the late-data ledger, and how event time stands. Driver side."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flott.common._late_records import LedgerEntry
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.metrics.metricbase import combine
from flott.runtime.epoch.report import EpochResult
from flott.runtime.jobmaster import ledger
from flott.runtime.jobmaster.time_report import Standings, TimeSnapshot, note_standings

log = logging.getLogger("flott.job")


class JobTotals:
    """Totals over the completed epochs of one run. Each is replaced as a whole or only grows, for other threads."""

    def __init__(self) -> None:
        self.metrics: dict[str, int | float] = {}
        self.ledger: Mapping[OperatorId, LedgerEntry] = {}
        self.records: Mapping[OperatorId, tuple[int, int]] = {}  #: in and out, by operator
        self.standings: Standings = {}  #: since when event time has not moved, as far as this run knows

    def count(self, graph: JobGraph, result: EpochResult) -> None:
        """Add the metrics of user functions."""
        for report in result.reports:
            for ident, outcome in report.operators.items():
                name = graph.operators[ident].node.name
                combine(self.metrics, {f"{name}.{metric}": reading for metric, reading in outcome.metrics.items()})

    def add_records(self, epoch: Mapping[OperatorId, tuple[int, int]]) -> None:
        """Add the records in and out of each operator in an epoch."""
        former = self.records
        added = {
            ident: (former.get(ident, (0, 0))[0] + read, former.get(ident, (0, 0))[1] + sent)
            for ident, (read, sent) in epoch.items()
        }
        self.records = {**former, **added}

    def add_ledger(self, graph: JobGraph, epoch: Mapping[OperatorId, LedgerEntry]) -> None:
        """Add the ledger of an epoch. Warns when an operator drops late records for the first time."""
        for entry in ledger.first_drops(self.ledger, epoch):
            log.warning("Late records are being dropped. %s", ledger.describe(entry))
        combine(self.metrics, ledger.metric_changes(graph, epoch))
        self.ledger = ledger.add(self.ledger, epoch)

    def note_time(self, snapshot: TimeSnapshot) -> None:
        """Note how event time stands after an epoch."""
        self.standings = note_standings(self.standings, snapshot)
