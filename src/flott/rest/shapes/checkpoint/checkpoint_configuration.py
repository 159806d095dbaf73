"""The checkpoint settings of a job. Pure."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.rest.shapes.job.job_configuration import settings_of
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.jobmaster.execution_mode import DEFAULT_INTERVAL_MS, EPOCHS, PIPELINED

#: The value that Flink displays as "not periodic".
NEVER_AGAIN = 0x7FFF_FFFF_FFFF_FFFF


class Externalization(TypedDict):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfiguration(TypedDict):
    mode: Literal["exactly_once", "at_least_once"]
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


_BACKENDS = {"hashmap": "HashMapStateBackend", "rocksdb": "EmbeddedRocksDBStateBackend"}


def checkpoint_configuration(job: JobView) -> CheckpointConfiguration:
    """Return the options of the job. Every epoch is a checkpoint, so it is exactly once. Checkpoints are sequential."""
    settings = settings_of(job)
    retention = settings.get(options.CHECKPOINT_RETENTION)
    return {
        "mode": "at_least_once" if _may_count_twice(settings) else "exactly_once",
        "interval": NEVER_AGAIN if job.batch else _interval_ms(settings),
        "timeout": settings.get(options.CHECKPOINT_TIMEOUT),
        "min_pause": settings.get(options.CHECKPOINT_MIN_PAUSE),
        "max_concurrent": 1,
        "externalization": {
            "enabled": retention != "NO_EXTERNALIZED_CHECKPOINTS",
            "delete_on_cancellation": retention != "RETAIN_ON_CANCELLATION",
        },
        "state_backend": _BACKENDS[settings.get(options.STATE_BACKEND)],
        "checkpoint_storage": "FileSystemCheckpointStorage",
        "unaligned_checkpoints": settings.get(options.UNALIGNED_CHECKPOINTS),
        "tolerable_failed_checkpoints": settings.get(options.TOLERABLE_FAILED_CHECKPOINTS),
        "aligned_checkpoint_timeout": settings.get(options.ALIGNED_CHECKPOINT_TIMEOUT),
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "memory",
    }


def _may_count_twice(settings: Configuration) -> bool:
    weak = settings.get(options.CHECKPOINTING_MODE) != "EXACTLY_ONCE"
    return weak and settings.get(options.EXECUTION_MODE) != EPOCHS


def _interval_ms(settings: Configuration) -> int:
    interval = settings.get(options.CHECKPOINT_INTERVAL)
    if interval is not None:
        return interval
    pipelined = settings.get(options.EXECUTION_MODE) == PIPELINED
    return DEFAULT_INTERVAL_MS if pipelined else settings.get(options.EPOCH_TARGET_DURATION)
