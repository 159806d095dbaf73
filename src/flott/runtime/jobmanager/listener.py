"""What a job tells those who watch it. Driver side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flott.common._late_records import LedgerEntry
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.runner import TaskProgress
from flott.runtime.jobmanager.rescaling import ParallelismChange


@dataclass(frozen=True)
class EpochStatistics:
    """One completed epoch in numbers."""

    epoch: int
    attempt: int
    records_in: int
    records_out: int  #: records that reached a sink
    watermark: int
    completed_at_ms: int
    backlog: bool
    state_bytes: int
    state_entries: int
    plan_ms: float
    run_ms: float
    complete_ms: float
    commit_ms: float
    operators: Mapping[OperatorId, tuple[int, int]] = field(default_factory=dict)  #: records in and out
    #: What windowed and timed operators did with the records they got.
    ledger: Mapping[OperatorId, LedgerEntry] = field(default_factory=dict)
    parallelism: int = 1  #: of the widest operator

    @property
    def total_ms(self) -> float:
        """From the plan to the last commit."""
        return self.plan_ms + self.run_ms + self.complete_ms + self.commit_ms

    @property
    def has_watermark(self) -> bool:
        """Whether event time has begun."""
        return self.watermark > MIN_WATERMARK


class JobListener:
    """Override what is of interest. Called by the job's thread: be quick and do not raise."""

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        """The job has reached a status."""

    def on_start(self, epoch: int, progress: Callable[[], TaskProgress | None]) -> None:
        """An epoch begins. While it runs, ``progress`` says from any thread how far it is, if the carrier knows."""

    def on_epoch(self, statistics: EpochStatistics) -> None:
        """An epoch is complete and committed."""

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        """From this epoch on operators have another parallelism."""

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        """The job failed and will be tried again."""
