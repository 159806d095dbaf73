"""Run one recorded epoch again and report its outcome."""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flott.common import _options as options
from flott.common._ids import EpochId, JobId
from flott.common.configuration import Configuration
from flott.datastream.connectors.base import SplitEnumerator
from flott.errors import ProgramError, StateError
from flott.graph.chain import chain
from flott.graph.connection import with_parallelism
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId, operator_ids
from flott.graph.specs import SourceSpec
from flott.graph.stream_graph import StreamGraph
from flott.runtime.checkpoint.manifest import EpochInput, Manifest
from flott.runtime.clock import SystemClock
from flott.runtime.entrypoint.task_settings import task_settings
from flott.runtime.epoch.accumulators import add_up
from flott.runtime.epoch.channel_starts import channel_starts
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.image import make_image
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.redistribute import starts_of
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.runner import run_epoch
from flott.runtime.jobmaster.epoch_outcome import snapshot_of
from flott.runtime.jobmaster.job_input import JobInput
from flott.runtime.jobmaster.restored_state import restorable
from flott.runtime.jobmaster.triggers import clock_driven, next_wakeup
from flott.runtime.operators.operator import Operator
from flott.runtime.replay.observation import ObservedTasks, Observer, SeenTraffic, Watch
from flott.runtime.replay.overlay import OverlayStorage
from flott.runtime.replay.recorded_epoch import RecordedEpoch
from flott.runtime.replay.staged_sinks import with_staged_sinks

#: Told before a watched operator is called; makes the call itself.
Approach = Callable[[Operator, Any, Callable[[], None]], None]


#: How often sources are asked for news, and the time between.
_LOOKS = 10
_BETWEEN_LOOKS_MS = 100


def refuse_to_read_beside(graph: JobGraph) -> None:
    """Refuse to read sources on while the job reads them, if that takes records away from it."""
    for vertex in graph.sources:
        spec = vertex.head.node.spec
        assert isinstance(spec, SourceSpec)
        kind = type(spec.source.create_enumerator())
        beside = kind.readable_beside
        if not (kind.acknowledge is SplitEnumerator.acknowledge if beside is None else beside):
            raise StateError(
                f"Source {vertex.head.label} cannot be read a second time while the job reads it: what is read there is"
                " taken away from the job, or moves its position. Run the job with execution.mode epochs and"
                " execution.checkpointing.num-retained of 2 or more: then the recorded input of an epoch is shown."
            )


@dataclass(frozen=True)
class Replayed:
    """An epoch that was run again. Its files exist as long as the ``with`` statement that ran it."""

    graph: JobGraph
    result: EpochResult
    traffic: Mapping[OperatorId, SeenTraffic]
    manifest: Manifest | None  #: the checkpoint it would have become; None: it failed
    storage: OverlayStorage
    writing: Mapping[OperatorId, bool]  #: whether a sink's own writers ran
    failure: BaseException | None  #: what an operator raised

    @property
    def card(self) -> FailureCard | None:
        """Return what a user is shown of the failure."""
        return self.result.failures[0] if self.result.failures else None


@contextmanager
def replayed(
    recorded: RecordedEpoch,
    program: StreamGraph,
    configuration: Configuration,
    *,
    watch: Watch | None = None,
    approach: Approach | None = None,
    run_writers: bool = False,
) -> Iterator[Replayed]:
    """Run an epoch again. ``run_writers``: those of all sinks, though what they stage may stay behind."""
    with tempfile.TemporaryDirectory(prefix="flott-replay-") as folder:
        storage = OverlayStorage(str(Path(folder, "files")), sync=False, base=recorded.directory)
        storage.hold(recorded.files, recorded.held_in)
        staged, writing = with_staged_sinks(
            in_shape_of(recorded, program), str(Path(folder, "sinks")), run_writers=run_writers
        )
        run = _ReplayRun(recorded, chain(staged), configuration, storage, folder)
        yield run.run(watch or Watch(), approach, writing)


def in_shape_of(recorded: RecordedEpoch, program: StreamGraph) -> StreamGraph:
    """Return the program with the parallelism that the epoch had: the job may have been rescaled."""
    ids, wanted = operator_ids(program), recorded.parallelism
    return with_parallelism(program, {n.id: wanted[ids[n.id]] for n in program.nodes if ids[n.id] in wanted})


class _ReplayRun:
    def __init__(
        self,
        recorded: RecordedEpoch,
        graph: JobGraph,
        configuration: Configuration,
        storage: OverlayStorage,
        folder: str,
    ):
        self._recorded = recorded
        self._graph = graph
        self._configuration = configuration
        self._storage = storage
        self._folder = folder
        self._run_id = f"replay{uuid.uuid4().hex[:8]}"  # names of files: unlike those of any run of the job
        self._before = (
            restorable(recorded.before, graph, storage, ignore_unclaimed=True) if recorded.before is not None else None
        )

    def run(self, watch: Watch, approach: Approach | None, writing: Mapping[OperatorId, bool]) -> Replayed:
        if self._recorded.read_on is not None:
            refuse_to_read_beside(self._graph)
        source = JobInput(options.read(self._configuration, options.EPOCH_POLL_INTERVAL))
        source.open(self._graph, self._before)
        observer = Observer(watch, approach)
        runner = LocalRunner(ObservedTasks(observer))
        try:
            if self._recorded.read_on is not None:
                self._recorded = replace(self._recorded, input=self._read_on(source, self._recorded.read_on))
            if not source.fits(self._recorded.input):
                raise ProgramError(self._misfit())
            settings = task_settings(self._configuration)
            settings = replace(settings, backend=replace(settings.backend, local_dir=self._folder))
            image = make_image(self._graph, self._run_id, JobId(self._recorded.job_id), self._storage, settings)
            runner.deploy(image)
            result = run_epoch(runner, self._plan_epoch(source))
            failed = bool(result.failures) or bool(result.missing(self._graph))
            manifest = None if failed else self._acknowledge(source, result)
        finally:
            runner.close()
            source.close()
        return Replayed(self._graph, result, observer.traffic, manifest, self._storage, writing, observer.failure)

    def _read_on(self, source: JobInput, records: int) -> EpochInput:
        """Return the input of an epoch that begins now. Some sources need a moment until they know what there is."""
        clock, stop = SystemClock(), threading.Event()
        for _ in range(_LOOKS):
            now_ms = clock.now_ms()
            slices = source.choose_slices(records, now_ms)
            if source.has_news(slices):
                break
            clock.wait(stop, _BETWEEN_LOOKS_MS)
        return EpochInput(self._recorded.epoch, now_ms, slices, source.held())

    def _plan_epoch(self, source: JobInput) -> EpochPlan:
        recorded = self._recorded
        before = self._before.operators if self._before is not None else {}
        return EpochPlan(
            run_id=self._run_id,
            epoch=EpochId(recorded.epoch),
            attempt=recorded.attempt,
            now_ms=recorded.input.now_ms,
            seed=recorded.seed,
            sources=source.assign(recorded.input),
            states=starts_of(before, self._graph, resuming=recorded.resumed),
            channels=channel_starts(self._before, self._graph),
            final=recorded.input.finished,
        )

    def _acknowledge(self, source: JobInput, result: EpochResult) -> Manifest:
        recorded, before = self._recorded, self._before
        source.complete(recorded.input, result)
        outcomes = {ident: [outcome for _, outcome in result.of_operator(ident)] for ident in self._graph.operators}
        return Manifest(
            job_id=recorded.job_id,
            job_name=self._graph.name,
            checkpoint_id=recorded.epoch,
            completed_at_ms=recorded.input.now_ms,
            seed=recorded.seed,
            operators={
                ident: snapshot_of(operator, outcomes[ident]) for ident, operator in self._graph.operators.items()
            },
            sources=source.snapshot(),
            committables={
                ident: found
                for ident, reports in outcomes.items()
                if (found := [committable for outcome in reports for committable in outcome.committables])
            },
            attempts=tuple(sorted({report.attempt_id for report in result.reports})),
            wakeup_ms=next_wakeup(result, clock_driven(self._graph), recorded.input.now_ms),
            final=recorded.input.finished,
            accumulators=add_up(
                before.accumulators if before is not None else None,
                [outcome.accumulators for reports in outcomes.values() for outcome in reports if outcome.accumulators],
            ),
        )

    def _misfit(self) -> str:
        planned = sorted(self._recorded.input.slices)
        known = self._recorded.before or self._recorded.after
        names = [known.operators[i].name if known is not None and i in known.operators else i for i in planned]
        sources = [vertex.head.node.name for vertex in self._graph.sources]
        return (
            f"The program is not the one that ran: epoch {self._recorded.epoch} read the sources {', '.join(names)},"
            f" the program has {', '.join(sources) or 'none'}. Give the program as it was, with the same uids."
        )
