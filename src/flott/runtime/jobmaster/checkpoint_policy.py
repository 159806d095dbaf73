"""When the next epoch may begin and which failures are merely failed checkpoints: Flink's checkpoint options. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import EpochFailure, EpochTimeoutError, StorageError


@dataclass(frozen=True)
class CheckpointPolicy:
    """The configured frame. An epoch is a checkpoint, so what Flink says of checkpoints holds for epochs."""

    timeout_ms: int
    min_pause_ms: int = 0  #: between the end of an epoch and the start of the next
    min_interval_ms: int = 0  #: between the starts of two epochs
    tolerable_failures: int = 0  #: in a row

    @staticmethod
    def of(configuration: Configuration) -> CheckpointPolicy:
        """From the configuration."""
        return CheckpointPolicy(
            options.read(configuration, options.CHECKPOINT_TIMEOUT),
            options.read(configuration, options.CHECKPOINT_MIN_PAUSE),
            options.read(configuration, options.EPOCH_MIN_INTERVAL),
            options.read(configuration, options.TOLERABLE_FAILED_CHECKPOINTS),
        )

    def not_before_ms(self, last_start_ms: int | None, last_end_ms: int | None) -> int:
        """The earliest time for the next epoch to begin, given when the last one began and ended."""
        by_start = 0 if last_start_ms is None else last_start_ms + self.min_interval_ms
        by_end = 0 if last_end_ms is None else last_end_ms + self.min_pause_ms
        return max(by_start, by_end)

    def tolerates(self, failure: EpochFailure, failed_before: int) -> bool:
        """Whether a failure is one of a checkpoint that is simply tried again, after so many such ones in a row."""
        return isinstance(failure, StorageError | EpochTimeoutError) and failed_before < self.tolerable_failures
