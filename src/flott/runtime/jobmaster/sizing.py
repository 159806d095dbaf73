"""How large the next epoch may be: by what the last one achieved. Pure.

With a backlog, epochs grow until one takes about the target duration, so fixed costs are spread thin; they shrink as
soon as one takes longer. Without a backlog an epoch is whatever has arrived: small and quick.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.runtime.jobmaster.listener import EpochStatistics

#: An epoch is never more than this many times larger than the one before: a wrong guess costs little.
MAX_GROWTH = 4.0
MAX_SHRINK = 0.25
#: Epochs are not made smaller than this much work: a task has fixed costs too.
MIN_WORK_MS = 20.0


@dataclass(frozen=True)
class EpochLimits:
    """The configured frame."""

    target_ms: int
    initial_records: int
    max_records: int

    @staticmethod
    def of(configuration: Configuration) -> EpochLimits:
        """Return the configured limits. An epoch is a checkpoint, so a checkpoint interval bounds its duration."""
        target = options.read(configuration, options.EPOCH_TARGET_DURATION)
        interval = options.read(configuration, options.CHECKPOINT_INTERVAL)
        return EpochLimits(
            target_ms=target if interval is None else max(1, min(target, interval)),
            initial_records=options.read(configuration, options.EPOCH_INITIAL_RECORDS),
            max_records=options.read(configuration, options.EPOCH_MAX_RECORDS),
        )

    @property
    def first_budget(self) -> int:
        """Return the budget of the first epoch, about which nothing is known."""
        return min(self.initial_records, self.max_records)


def next_budget(
    limits: EpochLimits, budget: int, records: int, duration_ms: float, work_ms: float, backlog: bool
) -> int:
    """Return the budget after an epoch that read so many records in that time, of which tasks worked ``work_ms``.

    The rest is the price of any epoch, however small. Where the target is below that price, epochs of one record would
    not meet it either: then the work is allowed to take as long as the overhead does.
    """
    if records == 0:
        return budget
    work_ms = max(1.0, min(work_ms, duration_ms))
    overhead_ms = max(0.0, duration_ms - work_ms)
    wanted = max(limits.target_ms - overhead_ms, overhead_ms, MIN_WORK_MS) / work_ms
    if wanted >= 1 and not backlog:
        return budget  # it kept up: the size says how much arrived, not how much is possible
    scale = min(MAX_GROWTH, max(MAX_SHRINK, wanted))
    # An epoch that was quick because its source gave less than was asked for proves nothing against the budget.
    least = budget if wanted >= 1 else 1
    return min(limits.max_records, max(least, int(records * scale)))


class EpochBudget:
    """How many records the next epoch of a job may read."""

    def __init__(self, limits: EpochLimits):
        self._limits = limits
        self.records = limits.first_budget

    @staticmethod
    def of(configuration: Configuration) -> EpochBudget:
        """Return the budget of a job that has not run yet."""
        return EpochBudget(EpochLimits.of(configuration))

    def epoch_completed(self, statistics: EpochStatistics, work_ms: float, backlog: bool) -> None:
        """Follow what an epoch achieved. ``backlog``: more could have been read than was asked for."""
        records, total_ms = statistics.records_in, statistics.total_ms
        self.records = next_budget(self._limits, self.records, records, total_ms, work_ms, backlog)

    def halve(self) -> None:
        """Read less: the last attempt took too long."""
        self.records = max(1, self.records // 2)

    def rescale(self, before: int, after: int) -> None:
        """Follow a change of parallelism. Fewer subtasks take longer; how much more of them can do is found out."""
        self.records = max(1, self.records * min(before, after) // before)
