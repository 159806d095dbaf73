"""The restart strategies of a program, as frozen values that write their options into a configuration.

They decide nothing: functions of the driver decide, based on these options.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.common.time import Duration, Time
from flott.errors import ProgramError

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """A restart strategy."""

    @abstractmethod
    def get_description(self) -> str:
        """Return a description in one sentence."""

    @abstractmethod
    def write_to(self, configuration: Configuration) -> None:
        """Set the options with the same meaning. Not in PyFlink."""


@dataclass(frozen=True, slots=True)
class NoRestart(RestartStrategyConfiguration):
    """The job fails with its first failure."""

    def get_description(self) -> str:
        return "Restart deactivated."

    def write_to(self, configuration: Configuration) -> None:
        configuration.set(options.RESTART_STRATEGY, "none")


@dataclass(frozen=True, slots=True)
class FallbackRestart(RestartStrategyConfiguration):
    """The strategy of the deployment's configuration."""

    def get_description(self) -> str:
        return "Cluster level default restart strategy."

    def write_to(self, configuration: Configuration) -> None:
        for key in options.RESTART_STRATEGY.spellings():
            configuration.remove_config(key)


@dataclass(frozen=True, slots=True)
class FixedDelayRestart(RestartStrategyConfiguration):
    """A limited number of restarts, with the same delay before each."""

    restart_attempts: int
    delay_ms: int

    def get_restart_attempts(self) -> int:
        return self.restart_attempts

    def get_delay_between_attempts_interval(self) -> timedelta:
        return timedelta(milliseconds=self.delay_ms)

    def get_description(self) -> str:
        return f"Restart with fixed delay ({self.delay_ms} ms). #{self.restart_attempts} restart attempts."

    def write_to(self, configuration: Configuration) -> None:
        configuration.set(options.RESTART_STRATEGY, "fixed-delay")
        configuration.set(options.FIXED_DELAY_ATTEMPTS, self.restart_attempts)
        configuration.set(options.FIXED_DELAY_DELAY, Duration.of_millis(self.delay_ms))


@dataclass(frozen=True, slots=True)
class FailureRateRestart(RestartStrategyConfiguration):
    """Restarts until there are too many failures within an interval."""

    max_failure_rate: int
    failure_interval_ms: int
    delay_ms: int

    def get_max_failure_rate(self) -> int:
        return self.max_failure_rate

    def get_failure_interval(self) -> timedelta:
        return timedelta(milliseconds=self.failure_interval_ms)

    def get_delay_between_attempts_interval(self) -> timedelta:
        return timedelta(milliseconds=self.delay_ms)

    def get_description(self) -> str:
        return (
            f"Failure rate restart with maximum of {self.max_failure_rate} failures within interval "
            f"{self.failure_interval_ms} ms and fixed delay {self.delay_ms} ms."
        )

    def write_to(self, configuration: Configuration) -> None:
        configuration.set(options.RESTART_STRATEGY, "failure-rate")
        configuration.set(options.FAILURE_RATE_MAX_FAILURES, self.max_failure_rate)
        configuration.set(options.FAILURE_RATE_INTERVAL, Duration.of_millis(self.failure_interval_ms))
        configuration.set(options.FAILURE_RATE_DELAY, Duration.of_millis(self.delay_ms))


@dataclass(frozen=True, slots=True)
class ExponentialDelayRestart(RestartStrategyConfiguration):
    """Restarts without a limit, with delays that grow until the job has run without a failure for a while."""

    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    reset_backoff_threshold_ms: int
    jitter_factor: float

    def get_description(self) -> str:
        return (
            f"Restart with exponential delay: starting at {self.initial_backoff_ms} ms, increasing by "
            f"{self.backoff_multiplier}, with maximum {self.max_backoff_ms} ms. Delay resets after "
            f"{self.reset_backoff_threshold_ms} ms with jitter {self.jitter_factor}."
        )

    def write_to(self, configuration: Configuration) -> None:
        configuration.set(options.RESTART_STRATEGY, "exponential-delay")
        configuration.set(options.EXPONENTIAL_INITIAL_BACKOFF, Duration.of_millis(self.initial_backoff_ms))
        configuration.set(options.EXPONENTIAL_MAX_BACKOFF, Duration.of_millis(self.max_backoff_ms))
        configuration.set(options.EXPONENTIAL_MULTIPLIER, self.backoff_multiplier)
        configuration.set(options.EXPONENTIAL_RESET_THRESHOLD, Duration.of_millis(self.reset_backoff_threshold_ms))
        configuration.set(options.EXPONENTIAL_JITTER, self.jitter_factor)


class RestartStrategies:
    """Factories of restart strategies. A delay is given in milliseconds, as timedelta, Duration or Time.

    >>> RestartStrategies.fixed_delay_restart(3, 1000).get_restart_attempts()
    3
    """

    # PyFlink's names of the classes.
    NoRestartStrategyConfiguration = NoRestart
    FixedDelayRestartStrategyConfiguration = FixedDelayRestart
    FailureRateRestartStrategyConfiguration = FailureRateRestart
    ExponentialDelayRestartStrategyConfiguration = ExponentialDelayRestart
    FallbackRestartStrategyConfiguration = FallbackRestart

    @staticmethod
    def no_restart() -> NoRestart:
        return NoRestart()

    @staticmethod
    def fall_back_restart() -> FallbackRestart:
        return FallbackRestart()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta | Duration | Time
    ) -> FixedDelayRestart:
        return FixedDelayRestart(restart_attempts, _millis(delay_between_attempts, "delay_between_attempts"))

    @staticmethod
    def failure_rate_restart(
        failure_rate: int,
        failure_interval: int | timedelta | Duration | Time,
        delay_interval: int | timedelta | Duration | Time,
    ) -> FailureRateRestart:
        return FailureRateRestart(
            failure_rate, _millis(failure_interval, "failure_interval"), _millis(delay_interval, "delay_interval")
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int | timedelta | Duration | Time = options.EXPONENTIAL_INITIAL_BACKOFF.default,
        max_backoff: int | timedelta | Duration | Time = options.EXPONENTIAL_MAX_BACKOFF.default,
        backoff_multiplier: float = options.EXPONENTIAL_MULTIPLIER.default,
        reset_backoff_threshold: int | timedelta | Duration | Time = options.EXPONENTIAL_RESET_THRESHOLD.default,
        jitter_factor: float = options.EXPONENTIAL_JITTER.default,
    ) -> ExponentialDelayRestart:
        """Return the strategy as in Flink's Java API. In PyFlink it is only available through the configuration."""
        return ExponentialDelayRestart(
            _millis(initial_backoff, "initial_backoff"),
            _millis(max_backoff, "max_backoff"),
            backoff_multiplier,
            _millis(reset_backoff_threshold, "reset_backoff_threshold"),
            jitter_factor,
        )


def _millis(amount: Any, parameter: str) -> int:
    if isinstance(amount, Duration):
        return amount.to_millis()
    if isinstance(amount, Time):
        return amount.to_milliseconds()
    if isinstance(amount, timedelta):
        return amount // timedelta(milliseconds=1)
    if isinstance(amount, int) and not isinstance(amount, bool):
        return amount
    raise ProgramError(f"{parameter} takes milliseconds, a timedelta or a Duration, found {amount!r}.")
