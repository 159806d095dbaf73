"""Which way a job is executed: in epochs or pipelined, and what cannot run pipelined. Driver side."""

from __future__ import annotations

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.graph.job_graph import JobGraph
from flott.runtime.jobmaster.pipelined_execution import PipelinedPolicy
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.pipelined.task import TaskRules

EPOCHS, PIPELINED, ADAPTIVE = "epochs", "pipelined", "adaptive"

#: An adaptive job leaves the pipelined mode when input has been waiting for so long, and epochs when none has.
BEHIND_MS = 2000
CAUGHT_UP_MS = 1000

_UNALIGNED = "execution.checkpointing.unaligned.enabled"

#: How often a pipelined job takes a checkpoint if the configuration does not say.
DEFAULT_INTERVAL_MS = 1000


class JobMode:
    """The mode of a job: as configured or, if it is adaptive, by its backlog.

    An adaptive job runs in epochs while input waits, and pipelined when it has caught up. It changes when the contrary
    has been true for a while, so that a short burst does not make it change back and forth.
    """

    def __init__(self, name: str):
        self.name = name
        self.is_pipelined = name == PIPELINED
        self._contrary_since_ms: int | None = None

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

    def is_leaving(self, now_ms: int, backlog: bool) -> bool:
        """Note whether input waits at this time; return whether the job is to change its mode at a checkpoint."""
        if self.name != ADAPTIVE or backlog is not self.is_pipelined:
            self._contrary_since_ms = None
            return False
        if self._contrary_since_ms is None:
            self._contrary_since_ms = now_ms
        return now_ms - self._contrary_since_ms >= (BEHIND_MS if self.is_pipelined else CAUGHT_UP_MS)

    def change(self) -> None:
        """Continue in the other mode."""
        self.is_pipelined = not self.is_pipelined
        self._contrary_since_ms = None


def refuse(configuration: Configuration, graph: JobGraph, has_pipeline: bool) -> None:
    """Refuse what cannot run pipelined, before anything runs."""
    key = options.EXECUTION_MODE.key
    if not has_pipeline:
        raise ConfigurationError(
            f"{key} allows pipelined execution, but this target runs epochs only. Set {key} to {EPOCHS}."
        )
    if graph.batch:
        raise ConfigurationError(
            f"{key} allows pipelined execution, but the program runs in BATCH mode, which is one epoch over all input."
            f" Set execution.runtime-mode to STREAMING, or {key} to {EPOCHS}."
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
        round_ms=options.read(configuration, options.ROUND_DURATION),
    )
