"""Commit after a durable checkpoint: committers, driver sinks, retries. Driver side."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flott.common._ids import JobId, SubtaskIndex
from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import CommitPermit, Committer, DriverSink, Json
from flott.errors import EpochFailure, LeadershipLostError, ProgramError, StateError
from flott.graph.job_graph import ChainedOperator, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SinkSpec
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.wire import decode_batch
from flott.runtime.storage import Fence

log = logging.getLogger("flott.job")

#: Delays before a failed commit is tried again; after the last one it is tried at that pace for as long as it takes.
RETRY_DELAYS_MS = (100, 300, 1000, 3000, 10_000)


class LiveAttempts(frozenset[str]):
    """Attempts whose output counts. A question about another attempt raises if this process has been deposed.

    Output that was found before the question was answered was not written by a successor. It may be removed, however
    late that happens.
    """

    _fence: Fence

    def __new__(cls, attempts: Iterable[str], fence: Fence) -> LiveAttempts:
        self = super().__new__(cls, attempts)
        self._fence = fence
        return self

    def __contains__(self, attempt: object) -> bool:
        self._fence.check()
        return super().__contains__(attempt)


class SinkCommits:
    """The driver side of all sinks of a job."""

    def __init__(self, graph: JobGraph, job_id: JobId, sleep: Callable[[int], bool], fence: Fence | None = None):
        self._fence = fence
        self._sleep = sleep  #: waits so many milliseconds; True if the job was cancelled meanwhile
        self._sinks: dict[OperatorId, ChainedOperator] = {
            ident: operator for ident, operator in graph.operators.items() if isinstance(operator.node.spec, SinkSpec)
        }
        self._committers: dict[OperatorId, Committer] = {}
        for ident, operator in self._sinks.items():
            committer = _sink_of(operator).create_committer()
            if committer is not None:
                committer.open(job_id, ident)
                self._committers[ident] = committer

    @property
    def take_several_epochs(self) -> bool:
        """Return whether the output of a failed checkpoint may be committed with the next one."""
        return all(committer.takes_several_epochs for committer in self._committers.values())

    def validate(self) -> None:
        """Refuse sinks that cannot work, before anything runs."""
        for operator in self._sinks.values():
            sink = _sink_of(operator)
            sink.validate()
            sink.validate_records(_record_type_of(operator))

    def commit(self, permit: CommitPermit, manifest: Manifest) -> None:
        """Make the output of a completed checkpoint visible. Tries until it succeeds: later epochs wait."""
        if type(permit) is not CommitPermit or permit.checkpoint_id != manifest.checkpoint_id:
            raise TypeError(f"To commit checkpoint {manifest.checkpoint_id} takes its own permit, found {permit!r}.")
        for ident, committer in self._committers.items():
            self._commit_one(ident, committer, permit, manifest.committables.get(ident, []))

    def _commit_one(self, ident: OperatorId, committer: Committer, permit: CommitPermit, what: list[Json]) -> None:
        attempt = 0
        while True:
            if self._fence is not None:
                self._fence.check()
            try:
                committer.commit(permit, what)
                return
            except (StateError, LeadershipLostError):
                raise  # what is to be committed is gone, or not this process's any more: trying again does not help
            except Exception as error:
                delay = RETRY_DELAYS_MS[min(attempt, len(RETRY_DELAYS_MS) - 1)]
                attempt += 1
                log.warning(
                    "Sink %s could not commit checkpoint %d (%s: %s). Trying again in %d ms; the job waits.",
                    self._sinks[ident].label, permit.checkpoint_id, type(error).__name__, error, delay,
                )  # fmt: skip
                if self._sleep(delay):
                    raise EpochFailure("Cancelled while a sink could not commit.") from error

    def deliver(self, result: EpochResult) -> None:
        """Hand the records of driver sinks to their owners on this side."""
        for ident, operator in self._sinks.items():
            sink = _sink_of(operator)
            if isinstance(sink, DriverSink):
                for report, outcome in (found for part in result.parts for found in part.of_operator(ident)):
                    if outcome.results is not None:
                        batch, _ = decode_batch(outcome.results)
                        self._deliver_one(operator, sink, SubtaskIndex(report.subtask), batch.to_rows().values)

    def _deliver_one(
        self, operator: ChainedOperator, sink: DriverSink[Any], subtask: SubtaskIndex, values: list[Any]
    ) -> None:
        try:
            sink.deliver(subtask, values)
        except Exception as error:
            # The epoch is committed, so a restart would only skip these records: the job must end here.
            raise ProgramError(
                f"Sink {operator.label} ({operator.node.source_line}) could not take the results of a completed epoch:"
                f" {type(error).__name__}: {error}"
            ) from error

    def discard_failed(self, manifest: Manifest | None) -> None:
        """Remove what attempts that do not count have staged."""
        live = frozenset(manifest.attempts) if manifest is not None else frozenset[str]()
        if self._fence is not None:
            live = LiveAttempts(live, self._fence)
        for ident, committer in self._committers.items():
            try:
                committer.discard(live)
            except LeadershipLostError:
                raise
            except Exception as error:
                log.warning("Sink %s could not clean up after failed attempts: %s", self._sinks[ident].label, error)

    def close(self) -> None:
        """Close all committers."""
        for committer in self._committers.values():
            committer.close()


def _record_type_of(operator: ChainedOperator) -> TypeInformation | None:
    assert isinstance(operator.node.spec, SinkSpec)
    return operator.node.spec.record_type


def _sink_of(operator: ChainedOperator) -> Any:
    assert isinstance(operator.node.spec, SinkSpec)
    return operator.node.spec.sink
