"""Which way a job is executed: in epochs or pipelined, and what cannot run pipelined. Driver side."""

from __future__ import annotations

import logging

from flott.common import _options as options
from flott.common._durations import rounded_millis
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.graph.job_graph import JobGraph
from flott.runtime.jobmaster.pipelined_execution import PipelinedPolicy
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.pipelined.latency_tracking import LatencyGranularity, LatencyRules
from flott.runtime.pipelined.task import TaskRules

log = logging.getLogger("flott.job")

EPOCHS, PIPELINED, ADAPTIVE = "epochs", "pipelined", "adaptive"

#: An adaptive job leaves the pipelined mode when input has been waiting for so long, and epochs when none has.
BEHIND_MS = 2000
CAUGHT_UP_MS = 1000

#: An adaptive job waits so long for its slots. Without them it continues in epochs, and asks again after this time.
SLOTS_MS = 10_000
ASK_AGAIN_MS = 60_000

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
        self._not_before_ms = 0  #: it does not become pipelined earlier, because slots were missing

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
        is_barred = not self.is_pipelined and now_ms < self._not_before_ms
        if self.name != ADAPTIVE or backlog is not self.is_pipelined or is_barred:
            self._contrary_since_ms = None
            return False
        if self._contrary_since_ms is None:
            self._contrary_since_ms = now_ms
        return now_ms - self._contrary_since_ms >= (BEHIND_MS if self.is_pipelined else CAUGHT_UP_MS)

    @property
    def present(self) -> str:
        """Return the mode in which tasks run now."""
        return PIPELINED if self.is_pipelined else EPOCHS

    def change(self) -> str:
        """Continue in the other mode; return why."""
        self.is_pipelined = not self.is_pipelined
        self._contrary_since_ms = None
        if self.is_pipelined:
            return f"it has caught up: no input was waiting for {rounded_millis(CAUGHT_UP_MS)}"
        return f"input was waiting for {rounded_millis(BEHIND_MS)}"


    @property
    def is_adaptive(self) -> bool:
        """Return whether the job may continue in the other mode."""
        return self.name == ADAPTIVE

    def return_to_epochs(self, now_ms: int) -> str:
        """Continue in epochs, because slots are missing; return why."""
        self.is_pipelined, self._contrary_since_ms = False, None
        self._not_before_ms = now_ms + ASK_AGAIN_MS
        return f"the cluster did not give it its slots; it asks for them again in {rounded_millis(ASK_AGAIN_MS)}"


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


def pipelined_policy(configuration: Configuration) -> PipelinedPolicy:
    """Return the settings of a pipelined job."""
    heartbeat = options.read(configuration, options.HEARTBEAT_INTERVAL)
    heartbeat_timeout = options.read(configuration, options.HEARTBEAT_TIMEOUT)
    if heartbeat >= heartbeat_timeout:
        raise ConfigurationError(
            f"heartbeat.timeout ({heartbeat_timeout} ms) must be more than heartbeat.interval ({heartbeat} ms), or"
            " every slot is taken for lost. Set it to several intervals."
        )
    interval = options.read(configuration, options.CHECKPOINT_INTERVAL)
    slots_ms = options.read(configuration, options.SLOT_REQUEST_TIMEOUT)
    if options.read(configuration, options.EXECUTION_MODE) == ADAPTIVE:
        slots_ms = min(slots_ms, SLOTS_MS)  # input would wait for them, which epochs can read meanwhile
    return PipelinedPolicy(
        interval_ms=DEFAULT_INTERVAL_MS if interval is None else interval,
        checkpoints=CheckpointPolicy.of(configuration),
        rules=TaskRules(
            watermark_interval_ms=options.read(configuration, options.AUTO_WATERMARK_INTERVAL),
            buffer_timeout_ms=options.buffer_timeout_ms(configuration),
            exactly_once=options.read(configuration, options.CHECKPOINTING_MODE) == "EXACTLY_ONCE",
            heartbeat_ms=heartbeat,
            heartbeat_timeout_ms=heartbeat_timeout,
            slots_timeout_ms=slots_ms,
            latency=LatencyRules(
                options.read(configuration, options.LATENCY_INTERVAL),
                LatencyGranularity(options.read(configuration, options.LATENCY_GRANULARITY)),
                options.read(configuration, options.LATENCY_HISTORY),
            ),
        ),
        most_records=options.read(configuration, options.EPOCH_MAX_RECORDS),
        poll_ms=options.read(configuration, options.EPOCH_POLL_INTERVAL),
        round_ms=options.read(configuration, options.ROUND_DURATION),
        overtake_after_ms=_overtake_after_ms(configuration),
    )


def _overtake_after_ms(configuration: Configuration) -> int | None:
    """Return after which time a checkpoint becomes unaligned; None: never."""
    if not options.read(configuration, options.UNALIGNED_CHECKPOINTS):
        return None
    if options.read(configuration, options.CHECKPOINTING_MODE) != "EXACTLY_ONCE":
        log.warning(
            "%s has no effect with %s AT_LEAST_ONCE: such checkpoints hold no input back.",
            options.UNALIGNED_CHECKPOINTS.key, options.CHECKPOINTING_MODE.key,
        )  # fmt: skip
        return None
    return options.read(configuration, options.ALIGNED_CHECKPOINT_TIMEOUT)
