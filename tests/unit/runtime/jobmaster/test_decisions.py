"""The pure decisions between two epochs: restarts, the size of epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Configuration
from flott.runtime.jobmaster.restart import (
    Decision,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    GiveUp,
    NeverRestart,
    RestartAfter,
    RestartStrategy,
    strategy_of,
)
from flott.runtime.jobmaster.sizing import EpochLimits, next_budget

# --- restarts --------------------------------------------------------------------------------------------------------

EXACT = ExponentialDelay(initial_ms=100, max_ms=1_000, multiplier=2, reset_after_ms=60_000, jitter=0, attempts=None)


@pytest.mark.parametrize(
    ("strategy", "failures_ms", "expected"),
    [
        (NeverRestart(), [1], "give up"),
        (FixedDelay(2, 50), [1], 50),
        (FixedDelay(2, 50), [1, 2], 50),
        (FixedDelay(2, 50), [1, 2, 3], "give up"),
        (FixedDelay(0, 50), [1], "give up"),
        (FailureRate(2, 1_000, 30), [0, 500], 30),
        (FailureRate(2, 1_000, 30), [0, 500, 900], "give up"),
        (FailureRate(2, 1_000, 30), [0, 500, 1_000], 30),
        (EXACT, [0], 100),
        (EXACT, [0, 10], 200),
        (EXACT, [0, 10, 20], 400),
        (EXACT, list(range(20)), 1_000),
        (EXACT, [0, 10, 20, 60_020], 100),
        (EXACT, list(range(100_000)), 1_000),
        (ExponentialDelay(100, 1_000, 2, 60_000, 0, attempts=2), [0, 1], 200),
        (ExponentialDelay(100, 1_000, 2, 60_000, 0, attempts=2), [0, 1, 2], "give up"),
        (ExponentialDelay(100, 1_000, 2, 60_000, 0, attempts=2), [0, 1, 60_001], 100),
    ],
)
def test_restart_strategies_by_table(
    strategy: RestartStrategy, failures_ms: list[int], expected: int | str
) -> None:
    decision: Decision = strategy.decide(failures_ms)
    if expected == "give up":
        assert isinstance(decision, GiveUp)
        assert decision.reason
    else:
        assert decision == RestartAfter(int(expected))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30).map(sorted), st.floats(0, 1))
def test_jitter_stays_in_its_frame_and_is_a_function_of_the_failures(failures_ms: list[int], jitter: float) -> None:
    strategy = ExponentialDelay(100, 1_000, 1.5, 60_000, jitter, None)
    decision = strategy.decide(failures_ms)
    assert decision == strategy.decide(failures_ms)
    assert isinstance(decision, RestartAfter)
    assert 0 <= decision.delay_ms <= 1_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NeverRestart()),
        ({"execution.checkpointing.interval": "1 s"}, ExponentialDelay(1_000, 60_000, 1.5, 3_600_000, 0.1, 2**31 - 1)),
        ({"execution.checkpointing.interval": "1 s", "restart-strategy.type": "none"}, NeverRestart()),
        ({"restart-strategy.type": "fixed-delay"}, FixedDelay(1, 1_000)),
        (
            {"restart-strategy": "fixeddelay", "restart-strategy.fixed-delay.attempts": "7"},
            FixedDelay(7, 1_000),
        ),
        ({"restart-strategy.type": "failure-rate"}, FailureRate(1, 60_000, 1_000)),
    ],
)
def test_the_configuration_chooses_the_strategy(options: dict[str, str], expected: RestartStrategy) -> None:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    assert strategy_of(configuration) == expected


# --- the size of epochs ----------------------------------------------------------------------------------------------

limits = st.builds(EpochLimits, st.integers(1, 60_000), st.integers(1, 10**6), st.integers(1, 10**7))
counts, times = st.integers(0, 10**8), st.floats(0, 10**7)


@given(limits, counts, counts, times, times, st.booleans())
def test_a_budget_is_always_between_one_and_the_maximum(
    frame: EpochLimits, budget: int, records: int, duration_ms: float, work_ms: float, backlog: bool
) -> None:
    budget = max(1, min(budget, frame.max_records))
    following = next_budget(frame, budget, records, duration_ms, work_ms, backlog)
    assert 1 <= following <= frame.max_records


def simulate(frame: EpochLimits, fixed_ms: float, per_record_ms: float, epochs: int = 60) -> tuple[int, float]:
    """Budget and duration after so many epochs with a backlog, on a machine with these costs."""
    budget, duration = frame.first_budget, 0.0
    for _ in range(epochs):
        work = budget * per_record_ms
        duration = fixed_ms + work
        budget = next_budget(frame, budget, budget, duration, work, backlog=True)
    return budget, duration


@pytest.mark.parametrize("per_record_ms", [0.0005, 0.01, 1.0, 20.0])
@pytest.mark.parametrize("fixed_ms", [0, 5, 120])
def test_with_a_backlog_epochs_come_to_take_the_target_duration(fixed_ms: float, per_record_ms: float) -> None:
    frame = EpochLimits(target_ms=1_000, initial_records=20_000, max_records=4_000_000)
    _, duration = simulate(frame, fixed_ms, per_record_ms)
    assert 0.8 * frame.target_ms <= duration <= 1.2 * frame.target_ms


@pytest.mark.parametrize("target_ms", [1, 50, 100])
def test_a_target_below_the_price_of_an_epoch_does_not_starve_the_job(target_ms: int) -> None:
    """An epoch on Spark costs 150 ms whatever it reads: shrinking it would only make it useless."""
    frame = EpochLimits(target_ms=target_ms, initial_records=20_000, max_records=4_000_000)
    budget, duration = simulate(frame, fixed_ms=150, per_record_ms=0.002)
    assert budget >= 50_000
    assert duration < 400


def test_epochs_grow_with_a_backlog_and_shrink_when_they_take_too_long() -> None:
    frame = EpochLimits(target_ms=1_000, initial_records=1_000, max_records=100_000)
    assert next_budget(frame, 1_000, 1_000, 100, 100, backlog=True) == 4_000
    assert next_budget(frame, 1_000, 1_000, 500, 500, backlog=True) == 2_000
    assert next_budget(frame, 1_000, 1_000, 2_000, 2_000, backlog=True) == 500
    assert next_budget(frame, 1_000, 1_000, 2_000, 2_000, backlog=False) == 500
    assert next_budget(frame, 1_000, 1_000, 90_000, 90_000, backlog=True) == 250


def test_without_a_backlog_the_budget_says_nothing_about_what_is_possible() -> None:
    frame = EpochLimits(target_ms=1_000, initial_records=1_000, max_records=100_000)
    assert next_budget(frame, 50_000, 3, 10, 5, backlog=False) == 50_000
    assert next_budget(frame, 50_000, 0, 10, 5, backlog=True) == 50_000


def test_a_source_that_gives_less_than_asked_does_not_make_epochs_small() -> None:
    frame = EpochLimits(target_ms=1_000, initial_records=1_000, max_records=100_000)
    assert next_budget(frame, 50_000, 1, 10, 5, backlog=True) == 50_000


def test_a_checkpoint_interval_bounds_the_duration_of_an_epoch() -> None:
    configuration = Configuration().set_string("execution.checkpointing.interval", "200 ms")
    assert EpochLimits.of(configuration).target_ms == 200
    configuration.set_string("execution.checkpointing.interval", "10 min")
    configuration.set_string("flott.epoch.target-duration", "1 s")
    assert EpochLimits.of(configuration).target_ms == 1_000
