"""The part of the configuration that tasks need. Driver side."""

from __future__ import annotations

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.logs.line import LogLimits
from flott.runtime.managed_state.backends.backend import BackendSettings
from flott.runtime.storage import local_path


def task_settings(configuration: Configuration) -> TaskSettings:
    """Return the settings of tasks."""
    return TaskSettings(
        buffer_records=options.read(configuration, options.EXCHANGE_BUFFER_RECORDS),
        object_reuse=options.read(configuration, options.OBJECT_REUSE),
        input_memory_bytes=options.read(configuration, options.EXCHANGE_MEMORY),
        network_memory_bytes=options.read(configuration, options.NETWORK_MEMORY_MAX),
        job_parameters=options.read(configuration, options.GLOBAL_JOB_PARAMETERS) or {},
        backend=backend_settings(configuration),
        logs=LogLimits(
            options.read(configuration, cluster_options.LOG_TASK_LINES),
            options.read(configuration, cluster_options.LOG_TASK_SIZE),
            options.read(configuration, cluster_options.LOG_LEVEL),
        ),
        object_stores=options.object_store_settings(configuration),
    )


def backend_settings(configuration: Configuration) -> BackendSettings:
    """Return the settings of the state backend."""
    local_dir = options.read(configuration, options.LOCAL_DIR)
    return BackendSettings(
        options.read(configuration, options.STATE_BACKEND),
        options.read(configuration, options.MANAGED_MEMORY) // options.slots_per_executor(configuration),
        local_path(local_dir.split(",")[0]) if local_dir else None,
    )
