"""Checkpoint settings: what reaches the configuration, and what is only remembered."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flott.common import _options
from flott.common.configuration import Configuration
from flott.common.time import Duration
from flott.datastream.checkpoint_config import CheckpointConfig
from flott.datastream.checkpointing_mode import CheckpointingMode
from flott.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from flott.errors import ConfigurationError

SETTINGS: list[tuple[str, str, Any]] = [
    ("set_checkpointing_mode", "get_checkpointing_mode", CheckpointingMode.AT_LEAST_ONCE),
    ("set_checkpoint_interval", "get_checkpoint_interval", 5000),
    ("set_checkpoint_timeout", "get_checkpoint_timeout", 60_000),
    ("set_min_pause_between_checkpoints", "get_min_pause_between_checkpoints", 700),
    ("set_max_concurrent_checkpoints", "get_max_concurrent_checkpoints", 3),
    ("set_tolerable_checkpoint_failure_number", "get_tolerable_checkpoint_failure_number", 4),
    ("set_fail_on_checkpointing_errors", "is_fail_on_checkpointing_errors", False),
    (
        "set_externalized_checkpoint_retention",
        "get_externalized_checkpoint_retention",
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
    ),
    ("enable_unaligned_checkpoints", "is_unaligned_checkpoints_enabled", True),
    ("set_force_unaligned_checkpoints", "is_force_unaligned_checkpoints", True),
    ("set_aligned_checkpoint_timeout", "get_aligned_checkpoint_timeout", Duration.of_seconds(3)),
    ("set_alignment_timeout", "get_alignment_timeout", Duration.of_seconds(3)),
]


@pytest.mark.parametrize(("setter", "getter", "value"), SETTINGS)
def test_what_is_set_is_read_back_and_never_in_the_way_of_submission(setter: str, getter: str, value: Any) -> None:
    configuration = Configuration()
    config = CheckpointConfig(configuration)
    assert getattr(config, setter)(value) is config
    assert getattr(config, getter)() == value
    _options.validate(configuration)


def test_without_settings_the_answers_are_the_defaults() -> None:
    config = CheckpointConfig(Configuration())
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.is_fail_on_checkpointing_errors()
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.get_alignment_timeout() == Duration.of_millis(0)


def test_the_interval_and_the_retention_reach_the_configuration_under_flinks_keys() -> None:
    configuration = Configuration()
    config = CheckpointConfig(configuration).set_checkpoint_interval(5000)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    assert configuration.to_dict() == {
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    assert config.is_checkpointing_enabled()


def test_what_the_configuration_says_is_read() -> None:
    configuration = Configuration.of({"execution.checkpointing.interval": "1 min"})
    assert CheckpointConfig(configuration).get_checkpoint_interval() == 60_000
    configuration.set_string("execution.checkpointing.unaligned.enabled", "true")
    assert CheckpointConfig(configuration).is_unaligned_checkpoints_enabled()


def test_no_externalized_checkpoints_means_that_they_are_not_enabled() -> None:
    config = CheckpointConfig(Configuration())
    assert config.is_externalized_checkpoints_enabled()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    assert not config.is_externalized_checkpoints_enabled()


def test_a_setting_without_meaning_is_said_in_one_line_and_stored_apart(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration()
    with caplog.at_level(logging.INFO, logger="flott.porting"):
        CheckpointConfig(configuration).set_force_unaligned_checkpoints()
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        (
            "flott.porting",
            "execution.checkpointing.unaligned.forced = true has no effect in Flott: "
            "there are no iterations, and edges that cannot be unaligned stay aligned.",
        )
    ]
    assert configuration.to_dict() == {}


def test_asking_for_what_happens_anyway_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="flott.porting"):
        config = CheckpointConfig(Configuration()).disable_unaligned_checkpoints().set_max_concurrent_checkpoints(1)
        config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("setter", "value"),
    [
        ("set_checkpoint_interval", 0),
        ("set_checkpoint_interval", -5),
        ("set_checkpoint_timeout", 5),
        ("set_max_concurrent_checkpoints", 0),
        ("set_min_pause_between_checkpoints", -1),
        ("set_tolerable_checkpoint_failure_number", -1),
    ],
)
def test_values_that_flink_refuses_are_refused(setter: str, value: int) -> None:
    config = CheckpointConfig(Configuration())
    with pytest.raises(ConfigurationError, match=r"Option execution\.checkpointing\.[a-z.-]+: found"):
        getattr(config, setter)(value)
    assert not config.is_checkpointing_enabled()
