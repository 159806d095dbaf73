"""The result of a job, which ``execute()`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flott.common._late_records import LedgerEntry
from flott.common.job_id import JobID

__all__ = ["JobExecutionResult"]


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """The id of the job, its duration, its accumulators, and the counts of late records."""

    job_id: JobID
    net_runtime_ms: int
    accumulators: Mapping[str, Any] = field(default_factory=dict, hash=False)
    ledger: tuple[LedgerEntry, ...] = ()
    metrics: Mapping[str, int | float] = field(default_factory=dict, hash=False)

    def get_job_id(self) -> JobID:
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the milliseconds between the start of the first epoch and the end of the last."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of one accumulator, or None if the job has none of this name."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the values of all accumulators, by name."""
        return dict(self.accumulators)

    def get_metrics(self) -> dict[str, int | float]:
        """Return the values of the functions' metrics, by ``operator.metric``. Not in PyFlink."""
        return dict(self.metrics)

    def get_late_records(self) -> tuple[LedgerEntry, ...]:
        """Return the record counts of every windowed or timed operator: in = processed + late + dropped.

        They cover the run that ended with this result. A job that is started again counts from zero. Not in PyFlink.
        """
        return self.ledger

    def __str__(self) -> str:
        lines = ["Program execution finished", f"Job with JobID {self.job_id} has finished."]
        lines.append(f"Job Runtime: {self.net_runtime_ms} ms")
        if self.accumulators:
            lines.append("Accumulator Results:")
            lines.extend(f"- {name}: {value}" for name, value in sorted(self.accumulators.items()))
        return "\n".join(lines)
