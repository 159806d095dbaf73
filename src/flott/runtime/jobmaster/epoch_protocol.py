"""The protocol of an epoch, from its fixed input to its committed output. Driver side.

    fix input (durable) -> plan -> [tasks run] -> acknowledge -> complete (durable) -> commit

Each step is a method. The job master calls them in this order and runs the tasks in between. ``restore`` brings the job
back to the last completed checkpoint, whatever step failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from zlib import crc32

from flott.common._ids import EpochId, JobId
from flott.datastream.connectors.base import CommitPermit
from flott.errors import LeadershipLostError, ProgramError
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, OperatorSnapshot, SourceSnapshot
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.epoch.accumulators import add_up
from flott.runtime.epoch.channel_starts import channel_starts
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.redistribute import starts_of
from flott.runtime.epoch.report import EpochResult
from flott.runtime.jobmaster.commits import SinkCommits
from flott.runtime.jobmaster.compactor import Compaction
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.epoch_outcome import snapshot_of
from flott.runtime.jobmaster.job_input import JobInput, Slices
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.triggers import CheckpointPolicy, clock_driven, next_wakeup

#: After this many epochs the state folder is searched for files of attempts that Spark retried by itself.
SWEEP_EVERY = 200


@dataclass(frozen=True)
class NotDue:
    """No epoch is due yet."""

    wait_ms: int  #: until one may be


@dataclass
class EpochProtocol:
    """The steps of one job's epochs, and the checkpoint between them."""

    job_id: JobId
    run_id: str
    deployment: Deployment
    store: CheckpointStore
    retained: RetainedCheckpoints
    compaction: Compaction
    commits: SinkCommits
    input: JobInput
    clock: Clock
    policy: CheckpointPolicy
    poll_ms: int  #: after which a source without input is asked again

    latest: Manifest | None = field(init=False, default=None)  #: the last completed checkpoint
    attempt: int = field(init=False, default=0)  #: how many attempts at the next epoch have failed
    started_ms: int | None = field(init=False, default=None)  #: when the last epoch began
    ended_ms: int | None = field(init=False, default=None)  #: when the last epoch was committed
    #: The last checkpoint that failed while tasks ran on. They are in a later epoch than the one after ``latest``.
    given_up: EpochId | None = field(init=False, default=None)
    _resumed_from: Manifest | None = field(init=False, default=None)  #: the checkpoint that the job was started from
    _fixed: EpochInput | None = field(init=False, default=None)  #: the input of the next epoch, once it is fixed
    #: Whether the last checkpoint that may exist has been committed. Until then its staged output must stay.
    _settled: bool = field(init=False, default=False)
    _swept: EpochId = field(init=False, default=EpochId(0))  #: the checkpoint at which the last sweep was

    def __post_init__(self) -> None:
        self._clock_driven = clock_driven(self.graph)

    @property
    def graph(self) -> JobGraph:
        """Return the job graph with its present parallelism."""
        return self.deployment.graph

    @property
    def next_epoch(self) -> EpochId:
        """Return the number of the epoch after the last completed one, and after those that tasks have gone beyond."""
        completed = EpochId(0) if self.latest is None else self.latest.checkpoint_id
        return EpochId(max(completed, self.given_up or 0) + 1)

    @property
    def is_finished(self) -> bool:
        """Return whether the last epoch has read all input."""
        return self.latest is not None and self.latest.final

    @property
    def latest_path(self) -> str | None:
        """Return the folder of the last completed checkpoint."""
        if self.latest is None:
            return None
        return self.store.storage.location(paths.checkpoint(self.latest.checkpoint_id))

    # --- restore -----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Find the checkpoint to start from. Refuses a program that cannot continue from it."""
        self.commits.validate()
        self.retained.open()
        if self.retained.completed:
            self.latest = self.retained.completed[-1]
        self._resumed_from = self.latest
        if self.graph.batch and self.latest is not None and not self.is_finished:
            raise ProgramError(
                f"The job is to continue from checkpoint {self.latest.checkpoint_id}, but a program in BATCH mode"
                " reads its input from the beginning. Start it without a checkpoint, or set execution.runtime-mode to"
                " STREAMING."
            )

    def restore(self) -> None:
        """Return to the last completed checkpoint: commit it again, delete what is later, keep a fixed input."""
        self.input.open(self.graph, self.latest)
        if self.latest is not None:
            self.commits.commit(self.store.permit_again(self.latest, self.clock.now_ms()), self.latest)
            self.input.acknowledge()
        self.commits.discard_failed(self.latest)
        self._settled = True
        self.retained.subsume()
        last_begun, self.given_up = self.next_epoch, None
        self._swept = EpochId(self.next_epoch - 1)
        self.retained.sweep(self._swept, last_begun)
        fixed = self.store.read_input(self.next_epoch)
        self._fixed = fixed if fixed is not None and self.input.fits(fixed) else None
        if self._fixed is not None and self.graph.batch and not self._fixed.finished:
            self._fixed = None  # it was fixed when the program ran in STREAMING mode

    # --- fix the input -----------------------------------------------------------------------------------------------

    def fix_end(self) -> EpochInput:
        """Return the input of a drain. It reads nothing, so it need not be durable: a restarted job is not drained."""
        return EpochInput(self.next_epoch, self._now_ms(), self.input.choose_end())

    def fix_input(self, budget: int, demanded: bool) -> EpochInput | NotDue:
        """Fix the input of the next epoch durably, if one is due or demanded."""
        if self._fixed is not None:
            return self._fixed
        now = self._now_ms()
        if self.graph.batch:
            return self._fix(EpochInput(self.next_epoch, now, self.input.choose_everything(now)))
        early_ms = self.policy.not_before_ms(self.started_ms, self.ended_ms) - now
        if not demanded and early_ms > 0:
            return NotDue(early_ms)
        slices = self.input.choose_slices(budget, now)
        if not (demanded or self._has_work(slices, now)):
            return NotDue(max(1, self._look_again_at(slices, now) - now))
        return self._fix(EpochInput(self.next_epoch, now, slices, self.input.held()))

    def _now_ms(self) -> int:
        """Return the time of the next epoch. It never goes back, also if another machine with a slow clock takes over:
        timers rely on it, and sinks that take versions from it."""
        now = self.clock.now_ms()
        return now if self.latest is None else max(now, self.latest.completed_at_ms)

    def _fix(self, fixed: EpochInput) -> EpochInput:
        self.store.write_input(fixed)
        self._fixed = fixed
        return fixed

    def _has_work(self, slices: Slices, now: int) -> bool:
        if self.latest is not None and self.latest.channels:
            return True  # what was on its way is not processed yet
        if self.input.has_news(slices) or self.deployment.is_new or all(part.finished for part in slices.values()):
            return True
        return any(deadline <= now for deadline in self._deadlines())

    def _look_again_at(self, slices: Slices, now: int) -> int:
        return min([*self._deadlines(), *self.input.look_again_at(slices, now)], default=now + self.poll_ms)

    def _deadlines(self) -> Iterator[int]:
        """Yield the times at which an epoch is due without input."""
        yield from self.input.idle_deadlines()
        if self.latest is not None and self.latest.wakeup_ms is not None:
            yield self.latest.wakeup_ms

    # --- plan, acknowledge, complete, commit -------------------------------------------------------------------------

    def plan(self, fixed: EpochInput) -> EpochPlan:
        """Return what the tasks of the next attempt need: slices of input, and the state to begin with."""
        return replace(
            self.start_plan(EpochId(fixed.epoch), fixed.now_ms),
            sources=self.input.assign(fixed),
            final=fixed.finished,
        )

    def start_plan(self, epoch: EpochId, now_ms: int) -> EpochPlan:
        """Return the state that tasks begin with, without input."""
        before = self.latest.operators if self.latest is not None else {}
        return EpochPlan(
            run_id=self.run_id,
            epoch=epoch,
            attempt=self.attempt,
            now_ms=now_ms,
            seed=crc32(self.job_id.encode()),
            states=starts_of(before, self.graph, resuming=self.latest is self._resumed_from),
            channels=channel_starts(self.latest, self.graph),
        )

    def begin_unplanned(self) -> EpochPlan:
        """Return what continuous tasks begin with. An input that was fixed for the next epoch is void.

        An empty input is written in its place. It fits no job, so it is never run; but a job that dies before its first
        checkpoint is found by it, and what its tasks have left is deleted.
        """
        plan = self.start_plan(self.next_epoch, self._now_ms())
        self._fixed = None
        self.store.write_input(EpochInput(plan.epoch, plan.now_ms, {}))
        return plan

    def has_news(self, now_ms: int) -> bool:
        """Return whether a timer that the last checkpoint knows of is due by now, or records were on their way then."""
        if self.latest is None:
            return False
        return bool(self.latest.channels) or (self.latest.wakeup_ms is not None and self.latest.wakeup_ms <= now_ms)

    def acknowledge(self, fixed: EpochInput, result: EpochResult) -> Manifest:
        """Return the checkpoint that the reports of all tasks amount to."""
        self.input.complete(fixed, result)
        return self.manifest_of(fixed, result, self.input.snapshot())

    def manifest_of(
        self, fixed: EpochInput, result: EpochResult, sources: dict[OperatorId, SourceSnapshot]
    ) -> Manifest:
        """Return the checkpoint of all operators, as they have reported, and of the sources."""
        operators: dict[OperatorId, OperatorSnapshot] = {}
        committables = {}
        for ident, operator in self.graph.operators.items():
            operators[ident] = snapshot_of(operator, [outcome for _, outcome in result.of_operator(ident)])
            everything = [outcome for part in result.parts for _, outcome in part.of_operator(ident)]
            if found := [committable for outcome in everything for committable in outcome.committables]:
                committables[ident] = found
        return Manifest(
            job_id=self.job_id,
            job_name=self.graph.name,
            checkpoint_id=fixed.epoch,
            completed_at_ms=max(self.clock.now_ms(), fixed.now_ms),
            seed=crc32(self.job_id.encode()),
            operators=self.compaction.adopt(operators),
            sources=sources,
            committables=committables,
            attempts=tuple(sorted({report.attempt_id for part in result.parts for report in part.reports})),
            wakeup_ms=next_wakeup(result, self._clock_driven, fixed.now_ms),
            final=fixed.finished,
            channels=result.channels,
            accumulators=add_up(
                self.latest.accumulators if self.latest is not None else None,
                [
                    outcome.accumulators
                    for part in result.parts
                    for ident in operators
                    for _, outcome in part.of_operator(ident)
                    if outcome.accumulators
                ],
            ),
        )

    def complete(self, manifest: Manifest, now_ms: int) -> CommitPermit:
        """Make a checkpoint durable. From now on nothing of its epoch is run again."""
        self._settled = False  # also if this raises: the checkpoint may exist all the same
        permit = self.store.publish(manifest, now_ms)
        # At once: if committing fails, the sweep that follows must know whose files to keep.
        self.retained.add(manifest)
        self.latest = manifest
        self._fixed, self.attempt, self.given_up = None, 0, None
        return permit

    def commit(self, permit: CommitPermit, manifest: Manifest, result: EpochResult) -> None:
        """Make the output of a completed checkpoint visible and drop what it replaces."""
        self.commit_sinks(permit, manifest)
        self.tell_committed(result)
        self.drop_replaced(manifest, result)

    def commit_sinks(self, permit: CommitPermit, manifest: Manifest) -> None:
        """Make the output of a completed checkpoint visible."""
        self.commits.commit(permit, manifest)
        self._settled = True

    def tell_committed(self, result: EpochResult) -> None:
        """Let sources know that a checkpoint is committed, and owners of driver sinks have its records."""
        self.input.acknowledge()
        self.commits.deliver(result)

    def drop_replaced(self, manifest: Manifest, result: EpochResult) -> None:
        """Delete what a committed checkpoint replaces."""
        self.retained.subsume()
        # Keyed state is a sequence that the next file continues; operator state is written whole each time.
        self.retained.delete(
            outcome.operator_state.name
            for part in result.earlier
            for report in part.reports
            for outcome in report.operators.values()
            if outcome.operator_state is not None
        )
        self.retained.delete(file.name for part in result.earlier for file in part.channels)
        self.compaction.completed(manifest)
        if manifest.checkpoint_id - self._swept >= SWEEP_EVERY:
            self._swept = manifest.checkpoint_id
            self.retained.sweep(manifest.checkpoint_id)

    def close(self) -> None:
        """Close sources and committers, after a last removal of what failed attempts have staged.

        A worker that died in one of the last epochs has left output that no recovery removes any more; a transaction
        that stays open hides later records from consumers.
        """
        self.input.close()
        if self._settled:
            with suppress(LeadershipLostError):  # then the successor removes it
                self.commits.discard_failed(self.latest)
        self.commits.close()
