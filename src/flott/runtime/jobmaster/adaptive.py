"""The parallelism that fits the load: by backlog and busy time of the last epochs. Driver side.

    busy      the share of the time since the epoch before in which tasks were at work
    backlog   there was more to read than the epoch took

    more      several epochs in a row had a backlog though tasks were busy: parallelism doubles
    fewer     for a long while there was no backlog and tasks were hardly busy: as many as that load needs
    neither   in all other cases, and for some time after each change

Busy time grows as parallelism falls, so it only falls as far as the load will keep tasks below what makes it rise: a
constant load leads to one parallelism and stays there.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from math import ceil

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, FlottError
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.rescaling import limit_of
from flott.runtime.orders import RescaleJob

log = logging.getLogger("flott.job")


@dataclass(frozen=True)
class EpochLoad:
    """An epoch, as far as the decision looks at it."""

    completed_at_ms: int
    parallelism: int  #: of the job when it ran
    backlog: bool
    busy: float  #: from 0 to 1


@dataclass(frozen=True)
class ScalingPolicy:
    """The configured frame."""

    min_parallelism: int = 1
    max_parallelism: int | None = None  #: None: the number of slots, or of this machine's cores if that is not known
    busy_high: float = 0.6
    busy_low: float = 0.3
    up_epochs: int = 3  #: so many epochs in a row must ask for more
    down_ms: int = 60_000  #: for so long all epochs must ask for fewer
    cooldown_ms: int = 30_000  #: nothing changes so soon after a change

    @staticmethod
    def of(configuration: Configuration) -> ScalingPolicy | None:
        """Return the configured policy; None if the parallelism is to stay as it is."""
        if options.read(configuration, options.SCHEDULER) != "adaptive":
            return None
        policy = ScalingPolicy(
            min_parallelism=options.read(configuration, options.ADAPTIVE_MIN_PARALLELISM),
            max_parallelism=options.read(configuration, options.ADAPTIVE_MAX_PARALLELISM),
            busy_high=options.read(configuration, options.ADAPTIVE_BUSY_HIGH),
            busy_low=options.read(configuration, options.ADAPTIVE_BUSY_LOW),
            up_epochs=options.read(configuration, options.ADAPTIVE_UP_EPOCHS),
            down_ms=options.read(configuration, options.ADAPTIVE_DOWN_INTERVAL),
            cooldown_ms=options.read(configuration, options.ADAPTIVE_COOLDOWN),
        )
        if not 0 < policy.busy_low < policy.busy_high <= 1:
            raise ConfigurationError(
                f"{options.ADAPTIVE_BUSY_LOW.key} ({policy.busy_low}) must be above 0 and below"
                f" {options.ADAPTIVE_BUSY_HIGH.key} ({policy.busy_high}), and that at most 1: between the two the"
                " parallelism rests."
            )
        if policy.max_parallelism is not None and policy.max_parallelism < policy.min_parallelism:
            raise ConfigurationError(
                f"{options.ADAPTIVE_MAX_PARALLELISM.key} ({policy.max_parallelism}) is below"
                f" {options.ADAPTIVE_MIN_PARALLELISM.key} ({policy.min_parallelism}). Swap them."
            )
        return policy

    @property
    def busy_target(self) -> float:
        """Return how busy tasks should be after parallelism fell: safely below what makes it rise again."""
        return (self.busy_low + self.busy_high) / 2

    def bounds(self, slots: int | None, limit: int) -> tuple[int, int]:
        """Return the lowest and the highest parallelism, given the slots and the job's own limit."""
        highest = self.max_parallelism or slots or os.cpu_count() or 1
        highest = max(1, min(highest, limit, slots or highest))
        return min(self.min_parallelism, highest), highest


@dataclass(frozen=True)
class LoadTrend:
    """What the epochs of the present parallelism amount to."""

    parallelism: int
    changed_at_ms: int | None = None  #: when it became so; None: it was so from the start
    pressed_epochs: int = 0  #: the last so many asked for more
    quiet_since_ms: int | None = None  #: since when all have asked for fewer; None: the last one did not
    quiet_busy: float = 0.0  #: the busiest of those


def follow(policy: ScalingPolicy, trend: LoadTrend | None, load: EpochLoad) -> LoadTrend:
    """Return the trend after another epoch. An epoch with another parallelism says nothing about this one."""
    if trend is None:
        trend = LoadTrend(load.parallelism)
    elif trend.parallelism != load.parallelism:
        trend = LoadTrend(load.parallelism, load.completed_at_ms)
    if load.backlog or load.busy >= policy.busy_low:
        pressed = load.backlog and load.busy > policy.busy_high
        return LoadTrend(trend.parallelism, trend.changed_at_ms, trend.pressed_epochs + 1 if pressed else 0)
    since = load.completed_at_ms if trend.quiet_since_ms is None else trend.quiet_since_ms
    return LoadTrend(trend.parallelism, trend.changed_at_ms, 0, since, max(trend.quiet_busy, load.busy))


def next_parallelism(policy: ScalingPolicy, trend: LoadTrend, now_ms: int, bounds: tuple[int, int]) -> int | None:
    """Return the parallelism from the next epoch on; None: the present one."""
    lowest, highest = bounds
    present = trend.parallelism
    if not lowest <= present <= highest:
        return max(lowest, min(present, highest))  # beyond the slots, tasks would wait for each other
    if trend.changed_at_ms is not None and now_ms - trend.changed_at_ms < policy.cooldown_ms:
        return None
    if trend.pressed_epochs >= policy.up_epochs and present < highest:
        return min(2 * present, highest)
    if trend.quiet_since_ms is not None and now_ms - trend.quiet_since_ms >= policy.down_ms:
        needed = max(lowest, ceil(present * trend.quiet_busy / policy.busy_target))
        return needed if needed < present else None
    return None


class Autoscaler:
    """Watches one job, decides by the functions above, and asks for what they say. The job's thread only."""

    def __init__(self, policy: ScalingPolicy, deployment: Deployment):
        self._policy = policy
        self._deployment = deployment
        self._trend: LoadTrend | None = None
        self._last_ms: float | None = None

    @staticmethod
    def of(configuration: Configuration, deployment: Deployment) -> Autoscaler | None:
        """Return the configured autoscaler; None if the parallelism is not to follow the load."""
        policy = ScalingPolicy.of(configuration)
        if policy is None or deployment.program.batch or not limit_of(deployment.program):
            return None
        return Autoscaler(policy, deployment)

    def epoch_completed(self, now_ms: float, work_ms: float, backlog: bool) -> None:
        """Follow a completed epoch whose tasks worked for ``work_ms``, stage after stage."""
        last_ms, self._last_ms = self._last_ms, now_ms
        if last_ms is None or now_ms <= last_ms:
            return  # the time it is a share of is not known yet
        deployment = self._deployment
        load = EpochLoad(int(now_ms), deployment.parallelism, backlog, min(1.0, work_ms / (now_ms - last_ms)))
        self._trend = follow(self._policy, self._trend, load)
        bounds = self._policy.bounds(deployment.runner.status().slots, limit_of(deployment.program))
        wanted = next_parallelism(self._policy, self._trend, int(now_ms), bounds)
        if wanted is None or deployment.is_asked:
            return
        log.info(
            "Adaptive: tasks are busy %.0f %% of the time%s, so the parallelism goes from %d to %d.",
            100 * load.busy, ", with a backlog" if backlog else "", load.parallelism, wanted,
        )  # fmt: skip
        try:
            deployment.ask(RescaleJob(wanted))
        except FlottError as error:
            log.warning("Adaptive: parallelism %d is not possible. %s", wanted, error)
