"""Which way a job is executed: in epochs or pipelined, and what cannot run pipelined. Pure. Driver side."""

from __future__ import annotations

from dataclasses import dataclass

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.graph.job_graph import JobGraph
from flott.runtime.jobmaster.pipelined_execution import PipelinedPolicy
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.pipelined.task import TaskRules

EPOCHS, PIPELINED = "epochs", "pipelined"

_UNALIGNED = "execution.checkpointing.unaligned.enabled"

#: How often a pipelined job takes a checkpoint if the configuration does not say.
DEFAULT_INTERVAL_MS = 1000


@dataclass(frozen=True)
class JobMode:
    """The configured mode of a job."""

    name: str = EPOCHS

    @staticmethod
    def of(configuration: Configuration, graph: JobGraph, has_pipeline: bool) -> JobMode:
        """Return the mode of a job. Refuses one in which the job cannot run."""
        mode = JobMode(options.read(configuration, options.EXECUTION_MODE))
        if mode.may_be_pipelined:
            refuse(configuration, graph, has_pipeline)
        return mode

    @property
    def may_be_pipelined(self) -> bool:
        """Return whether the job may ever run pipelined."""
        return self.name != EPOCHS

    def is_pipelined(self, backlog: bool) -> bool:
        """Return whether the job runs pipelined until the next checkpoint."""
        return self.name == PIPELINED


def refuse(configuration: Configuration, graph: JobGraph, has_pipeline: bool) -> None:
    """Refuse what cannot run pipelined, before anything runs."""
    key = options.EXECUTION_MODE.key
    if not has_pipeline:
        raise ConfigurationError(f"{key} is {PIPELINED}, but this target runs epochs only. Set {key} to {EPOCHS}.")
    if graph.batch:
        raise ConfigurationError(
            f"{key} is {PIPELINED}, but the program runs in BATCH mode, which is one epoch over all input. Set"
            f" execution.runtime-mode to STREAMING, or {key} to {EPOCHS}."
        )
    if configuration.get_string(_UNALIGNED, "false").lower() == "true":
        raise ConfigurationError(
            f"{_UNALIGNED} is true, but the checkpoints of pipelined jobs are aligned. Set it to false. A slow sink"
            " then delays checkpoints, but no result changes."
        )


def pipelined_policy(configuration: Configuration) -> PipelinedPolicy:
    """Return the settings of a pipelined job."""
    interval = options.read(configuration, options.CHECKPOINT_INTERVAL)
    return PipelinedPolicy(
        interval_ms=DEFAULT_INTERVAL_MS if interval is None else interval,
        checkpoints=CheckpointPolicy.of(configuration),
        rules=TaskRules(
            buffer_timeout_ms=options.read(configuration, options.BUFFER_TIMEOUT),
            exactly_once=options.read(configuration, options.CHECKPOINTING_MODE) == "EXACTLY_ONCE",
        ),
        most_records=options.read(configuration, options.EPOCH_MAX_RECORDS),
        poll_ms=options.read(configuration, options.EPOCH_POLL_INTERVAL),
    )
