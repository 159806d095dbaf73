"""ExecutionConfig and the restart strategies write into a configuration, and nowhere else."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.common.execution_config import ExecutionConfig
from flott.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from flott.common.time import Duration, Time
from flott.errors import ConfigurationError, ProgramError


def test_an_execution_config_is_a_view_of_its_configuration():
    configuration = Configuration()
    config = ExecutionConfig(configuration).set_parallelism(4).set_max_parallelism(64).disable_auto_generated_uids()
    config.set_auto_watermark_interval(300).enable_object_reuse().set_global_job_parameters({"a": 1})
    assert config.get_parallelism() == options.read(configuration, options.PARALLELISM) == 4
    assert config.get_max_parallelism() == 64
    assert not config.has_auto_generated_uids_enabled()
    assert config.get_auto_watermark_interval() == 300
    assert config.is_object_reuse_enabled()
    assert config.get_global_job_parameters() == {"a": "1"}
    assert config == ExecutionConfig(configuration)
    options.validate(configuration)


def test_the_default_parallelism_is_not_a_number_of_subtasks():
    config = ExecutionConfig()
    assert config.get_parallelism() == ExecutionConfig.PARALLELISM_DEFAULT
    config.set_parallelism(3).set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
    assert config.get_parallelism() == 3
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == -1
    with pytest.raises(ConfigurationError):
        config.set_parallelism(0)


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        (RestartStrategies.no_restart(), {options.RESTART_STRATEGY: "none"}),
        (
            RestartStrategies.fixed_delay_restart(3, 1500),
            {
                options.RESTART_STRATEGY: "fixed-delay",
                options.FIXED_DELAY_ATTEMPTS: 3,
                options.FIXED_DELAY_DELAY: 1500,
            },
        ),
        (
            RestartStrategies.failure_rate_restart(2, timedelta(minutes=5), Duration.of_seconds(1)),
            {
                options.RESTART_STRATEGY: "failure-rate",
                options.FAILURE_RATE_MAX_FAILURES: 2,
                options.FAILURE_RATE_INTERVAL: 300_000,
                options.FAILURE_RATE_DELAY: 1000,
            },
        ),
        (
            RestartStrategies.exponential_delay_restart(Time.seconds(2), backoff_multiplier=3),
            {
                options.RESTART_STRATEGY: "exponential-delay",
                options.EXPONENTIAL_INITIAL_BACKOFF: 2000,
                options.EXPONENTIAL_MAX_BACKOFF: 60_000,
                options.EXPONENTIAL_MULTIPLIER: 3.0,
            },
        ),
    ],
)
def test_a_restart_strategy_writes_itself_into_a_configuration(
    strategy: RestartStrategyConfiguration, settings: dict[Any, Any]
):
    configuration = Configuration()
    strategy.write_to(configuration)
    options.validate(configuration)
    assert {option: options.read(configuration, option) for option in settings} == settings
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert strategy.get_description()


def test_falling_back_leaves_the_choice_to_the_deployment():
    configuration = Configuration.of({"restart-strategy.type": "none"})
    RestartStrategies.fall_back_restart().write_to(configuration)
    assert options.read(configuration, options.RESTART_STRATEGY) is None


def test_getters_are_pyflinks():
    fixed = RestartStrategies.fixed_delay_restart(3, 1500)
    assert isinstance(fixed, RestartStrategies.FixedDelayRestartStrategyConfiguration)
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=1.5)
    rate = RestartStrategies.failure_rate_restart(2, 1000, 1)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (2, timedelta(seconds=1))
    with pytest.raises(ProgramError):
        RestartStrategies.fixed_delay_restart(3, "1 s")  # type: ignore[arg-type]


def test_the_time_a_cancelled_job_may_take_is_an_option_of_the_job() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert config.get_task_cancellation_timeout() == 180_000
    assert config.set_task_cancellation_timeout(9).get_task_cancellation_timeout() == 9
    assert configuration.get_string("task.cancellation.timeout", "") == "9 ms"
