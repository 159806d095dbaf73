"""Restart strategies: given when a job failed, whether and when to try again. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from flott.common import _options as options
from flott.common.configuration import Configuration


@dataclass(frozen=True)
class RestartAfter:
    """Try again after a delay."""

    delay_ms: int


@dataclass(frozen=True)
class GiveUp:
    """Do not try again; says why."""

    reason: str


Decision = RestartAfter | GiveUp


class RestartStrategy(Protocol):
    """Decides from the times of all failures so far, the last one being now."""

    def decide(self, failures_ms: Sequence[int]) -> Decision:
        """Return what to do about the last failure."""


@dataclass(frozen=True)
class NeverRestart:
    """Fail at the first failure."""

    def decide(self, failures_ms: Sequence[int]) -> Decision:
        return GiveUp("no restart strategy is configured")


@dataclass(frozen=True)
class FixedDelay:
    """A number of attempts, always after the same delay."""

    attempts: int
    delay_ms: int

    def decide(self, failures_ms: Sequence[int]) -> Decision:
        if len(failures_ms) > self.attempts:
            return GiveUp(f"all {self.attempts} restarts of the fixed-delay strategy are used up")
        return RestartAfter(self.delay_ms)


@dataclass(frozen=True)
class FailureRate:
    """As long as failures are rare enough."""

    max_failures: int
    interval_ms: int
    delay_ms: int

    def decide(self, failures_ms: Sequence[int]) -> Decision:
        recent = [at for at in failures_ms if at > failures_ms[-1] - self.interval_ms]
        if len(recent) > self.max_failures:
            return GiveUp(f"{len(recent)} failures within {self.interval_ms} ms are more than {self.max_failures}")
        return RestartAfter(self.delay_ms)


@dataclass(frozen=True)
class ExponentialDelay:
    """Ever longer delays, short again after a quiet time."""

    initial_ms: int
    max_ms: int
    multiplier: float
    reset_after_ms: int
    jitter: float
    attempts: int | None  #: None: without end

    def decide(self, failures_ms: Sequence[int]) -> Decision:
        streak = 1
        for earlier, later in zip(reversed(failures_ms[:-1]), reversed(failures_ms[1:]), strict=True):
            if later - earlier >= self.reset_after_ms:
                break
            streak += 1
        if self.attempts is not None and streak > self.attempts:
            return GiveUp(f"all {self.attempts} restarts of the exponential-delay strategy are used up")
        delay = min(self.max_ms, self.initial_ms * self.multiplier ** min(streak - 1, 64))
        # Seeded by the failure, so that the decision is a function of its input like every other.
        spread = random.Random(f"{failures_ms[-1]}:{streak}").uniform(-self.jitter, self.jitter)
        return RestartAfter(int(min(self.max_ms, delay * (1 + spread))))


def strategy_of(configuration: Configuration) -> RestartStrategy:
    """Return the configured strategy. Flink's default is exponential delay with checkpointing, otherwise none."""
    name = options.read(configuration, options.RESTART_STRATEGY)
    if name is None:
        checkpointing = options.read(configuration, options.CHECKPOINT_INTERVAL) is not None
        name = "exponential-delay" if checkpointing else "none"
    match name:
        case "fixed-delay":
            return FixedDelay(
                options.read(configuration, options.FIXED_DELAY_ATTEMPTS),
                options.read(configuration, options.FIXED_DELAY_DELAY),
            )
        case "failure-rate":
            return FailureRate(
                options.read(configuration, options.FAILURE_RATE_MAX_FAILURES),
                options.read(configuration, options.FAILURE_RATE_INTERVAL),
                options.read(configuration, options.FAILURE_RATE_DELAY),
            )
        case "exponential-delay":
            return ExponentialDelay(
                options.read(configuration, options.EXPONENTIAL_INITIAL_BACKOFF),
                options.read(configuration, options.EXPONENTIAL_MAX_BACKOFF),
                options.read(configuration, options.EXPONENTIAL_MULTIPLIER),
                options.read(configuration, options.EXPONENTIAL_RESET_THRESHOLD),
                options.read(configuration, options.EXPONENTIAL_JITTER),
                options.read(configuration, options.EXPONENTIAL_ATTEMPTS),
            )
    return NeverRestart()
