"""Checkpoint settings: PyFlink's setters over a :class:`~flott.common.configuration.Configuration`.

A setting with an effect is written to the configuration under Flink's key. A setting without an effect is kept only in
this object, for its getter, and logs one line on the logger ``flott.porting``. ``flott.common._options`` decides which
is which. Driver side.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from flott.common._options import (
    ALIGNED_CHECKPOINT_TIMEOUT,
    ALL_OPTIONS,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_MIN_PAUSE,
    CHECKPOINT_RETENTION,
    CHECKPOINT_TIMEOUT,
    TOLERABLE_FAILED_CHECKPOINTS,
    UNALIGNED_CHECKPOINTS,
)
from flott.common.config_options import ConfigOption, ConfigOptions
from flott.common.configuration import Configuration
from flott.common.time import Duration
from flott.datastream.checkpointing_mode import CheckpointingMode
from flott.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

__all__ = ["CheckpointConfig"]

_porting = logging.getLogger("flott.porting")

T = TypeVar("T")

_key = ConfigOptions.key
_MODE = (
    _key("execution.checkpointing.mode").enum_type(("EXACTLY_ONCE", "AT_LEAST_ONCE")).default_value("EXACTLY_ONCE")
    .with_description("checkpoints lie between epochs and are exactly-once at no extra cost")
)  # fmt: skip
_MAX_CONCURRENT = (
    _key("execution.checkpointing.max-concurrent-checkpoints").int_type().default_value(1).at_least(1)
    .with_description("epochs end one after the other, so there is one checkpoint at a time")
)  # fmt: skip
_FORCE_UNALIGNED = (
    _key("execution.checkpointing.unaligned.forced").boolean_type().default_value(False)
    .with_description("there are no iterations, and edges that cannot be unaligned stay aligned")
)  # fmt: skip

_KEYS_WITH_MEANING = frozenset(key for option in ALL_OPTIONS for key in option.spellings())


class CheckpointConfig:
    """When checkpoints are taken and how long they are kept. Setters return the object, so calls can be chained.

    >>> configuration = Configuration()
    >>> CheckpointConfig(configuration).set_checkpoint_interval(5000).get_checkpoint_interval()
    5000
    >>> configuration.get_string("execution.checkpointing.interval", "")
    '5 s'
    """

    def __init__(self, configuration: Configuration):
        self._configuration = configuration
        self._without_effect = Configuration()

    def is_checkpointing_enabled(self) -> bool:
        """Return whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return CheckpointingMode[self._read(_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        return self._write(_MODE, checkpointing_mode)

    def get_checkpoint_interval(self) -> int:
        """Return the interval in milliseconds, or -1 if none is set."""
        interval_ms = self._read(CHECKPOINT_INTERVAL)
        return -1 if interval_ms is None else interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Take a checkpoint about every ``checkpoint_interval`` milliseconds, always at the end of an epoch."""
        return self._write(CHECKPOINT_INTERVAL, Duration.of_millis(checkpoint_interval))

    def get_checkpoint_timeout(self) -> int:
        """Return the timeout in milliseconds."""
        return self._read(CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the timeout of an epoch, which is a checkpoint, in milliseconds."""
        return self._write(CHECKPOINT_TIMEOUT, Duration.of_millis(checkpoint_timeout))

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the pause in milliseconds."""
        return self._read(CHECKPOINT_MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Set the minimum time between the end of an epoch and the start of the next, in milliseconds."""
        return self._write(CHECKPOINT_MIN_PAUSE, Duration.of_millis(min_pause_between_checkpoints))

    def get_max_concurrent_checkpoints(self) -> int:
        return self._read(_MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        return self._write(_MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether no failed checkpoint is tolerated. Deprecated in Flink."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Tolerate no failed checkpoint, or any number of them. Deprecated in Flink."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return self._read(TOLERABLE_FAILED_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many consecutive checkpoints may fail before the job fails."""
        return self._write(TOLERABLE_FAILED_CHECKPOINTS, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set whether checkpoints are kept when the job is cancelled."""
        return self._write(CHECKPOINT_RETENTION, retention_mode)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints can outlive the job."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        return ExternalizedCheckpointRetention[self._read(CHECKPOINT_RETENTION)]

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self._read(UNALIGNED_CHECKPOINTS)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers of a pipelined job overtake buffers, so that back pressure does not delay checkpoints."""
        return self._write(UNALIGNED_CHECKPOINTS, enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set how long barriers keep their place before a checkpoint becomes unaligned."""
        return self._write(ALIGNED_CHECKPOINT_TIMEOUT, alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        return Duration.of_millis(self._read(ALIGNED_CHECKPOINT_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set the timeout: the older name of :meth:`set_aligned_checkpoint_timeout`. Deprecated in Flink."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Return the timeout: the older name of :meth:`get_aligned_checkpoint_timeout`. Deprecated in Flink."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        return self._write(_FORCE_UNALIGNED, force_unaligned_checkpoints)

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._read(_FORCE_UNALIGNED)

    def _read(self, option: ConfigOption[T]) -> T:
        holder = self._configuration if self._configuration.contains(option) else self._without_effect
        return holder.get(option)

    def _write(self, option: ConfigOption[Any], value: Any) -> CheckpointConfig:
        if option.key in _KEYS_WITH_MEANING:
            self._configuration.set(option, value)
            return self
        self._without_effect.set(option, value)
        if self._without_effect.get(option) != option.default:  # the default has the same effect
            text = self._without_effect.get_string(option.key, "")
            _porting.warning("%s = %s has no effect in Flott: %s.", option.key, text, option.description)
        return self
