"""The configuration of a job. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from flott.common import _options as options
from flott.common._secrets import shown
from flott.common.configuration import Configuration
from flott.runtime.jobmanager.views.job_view import JobView

ExecutionSettings = TypedDict(
    "ExecutionSettings",
    {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": dict[str, str],
    },
)
JobConfiguration = TypedDict("JobConfiguration", {"jid": str, "name": str, "execution-config": ExecutionSettings})


class ConfigurationEntry(TypedDict):
    key: str
    value: str


def job_configuration(job: JobView) -> JobConfiguration:
    """Return the settings that Flink shows of a job, and the parameters that its functions can read."""
    return {
        "jid": job.job_id,
        "name": job.name,
        "execution-config": {
            "restart-strategy": job.restart_strategy,
            "job-parallelism": job.parallelism,
            "object-reuse-mode": settings_of(job).get(options.OBJECT_REUSE),
            "user-config": shown(job.job_parameters),
        },
    }


def configuration_entries(values: Mapping[str, str]) -> list[ConfigurationEntry]:
    """Return all keys and values, without secrets."""
    return [{"key": key, "value": value} for key, value in shown(values).items()]


def settings_of(job: JobView) -> Configuration:
    """Return the job's configuration for reading options."""
    return Configuration.from_dict(job.configuration)
