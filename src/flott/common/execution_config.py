"""The settings of a program that have methods of their own. Driver side.

``ExecutionConfig`` has no state of its own: it reads and writes the ``Configuration`` that it was created with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common._ignored_execution_settings import IgnoredExecutionSettings
from flott.common.configuration import Configuration
from flott.common.time import Duration

__all__ = ["ExecutionConfig"]


class ExecutionConfig(IgnoredExecutionSettings):
    """Parallelism, uids and parameters of a program.

    >>> ExecutionConfig(Configuration()).set_parallelism(4).get_parallelism()
    4
    """

    #: Returned and accepted instead of a parallelism: as many subtasks as there are cores.
    PARALLELISM_DEFAULT = -1
    #: Accepted instead of a parallelism: no change.
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None):
        self._configuration = Configuration() if configuration is None else configuration

    def get_parallelism(self) -> int:
        parallelism = options.read(self._configuration, options.PARALLELISM)
        return self.PARALLELISM_DEFAULT if parallelism is None else parallelism

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.PARALLELISM.key)
        elif parallelism != self.PARALLELISM_UNKNOWN:
            self._configuration.set(options.PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, which limits every later rescaling."""
        return options.read(self._configuration, options.MAX_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        self._configuration.set(options.MAX_PARALLELISM, max_parallelism)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the interval in milliseconds. It has no effect: event time advances once per epoch."""
        return options.read(self._configuration, options.AUTO_WATERMARK_INTERVAL)

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        self._configuration.set(options.AUTO_WATERMARK_INTERVAL, Duration.of_millis(interval))
        return self

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        self._configuration.set(options.AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse programs with an operator without a uid. This is recommended if savepoints are used."""
        self._configuration.set(options.AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        return options.read(self._configuration, options.AUTO_GENERATE_UIDS)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Do nothing: chained Python functions always pass the object itself."""
        self._configuration.set(options.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Do nothing: a function must not modify a record after it has emitted it."""
        self._configuration.set(options.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        return options.read(self._configuration, options.OBJECT_REUSE)

    def get_global_job_parameters(self) -> dict[str, str]:
        return options.read(self._configuration, options.GLOBAL_JOB_PARAMETERS).copy()

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Set parameters that every function can read. The values become text."""
        self._configuration.set(options.GLOBAL_JOB_PARAMETERS, global_job_parameters_dict)
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return how often sources of a pipelined job send latency markers, in milliseconds; 0: never."""
        return options.read(self._configuration, options.LATENCY_INTERVAL)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set how often sources of a pipelined job send latency markers, in milliseconds; 0 or less: never."""
        self._configuration.set(options.LATENCY_INTERVAL, Duration.of_millis(max(0, interval)))
        return self

    def get_task_cancellation_timeout(self) -> int:
        return options.read(self._configuration, cluster_options.CANCELLATION_TIMEOUT)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Set the time, in milliseconds, after which the process of a cancelled job is killed on a cluster."""
        self._configuration.set(cluster_options.CANCELLATION_TIMEOUT, f"{timeout} ms")
        return self

    def __eq__(self, other: object) -> bool:
        return self._configuration == other._configuration if isinstance(other, ExecutionConfig) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._configuration)

    def __repr__(self) -> str:
        return f"ExecutionConfig({self._configuration})"
