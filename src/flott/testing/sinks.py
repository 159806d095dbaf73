"""A transactional sink that records in this process what was staged and committed, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flott.datastream.connectors.base import (
    CommitPermit,
    Committer,
    Guarantee,
    Json,
    Sink,
    SinkWriter,
    WriterContext,
    _issue_permit,
)

#: Ledgers by name: a sink that was pickled finds its ledger again. In-process only.
_ledgers: dict[str, Ledger] = {}


def commit_permit(
    checkpoint_id: int, now_ms: int, *, replay: bool = False, final: bool = False, leader: int = 0
) -> CommitPermit:
    """Return a permit as the checkpoint store issues it, to test a committer without a job.

    >>> commit_permit(7, now_ms=0).checkpoint_id
    7
    """
    return _issue_permit(checkpoint_id, now_ms, replay=replay, final=final, leader=leader)


@dataclass
class Ledger:
    """What one :class:`LedgerSink` has written. It survives simulated crashes, as a database would."""

    name: str
    staged: dict[str, list[Any]] = field(default_factory=dict)
    committed: dict[str, list[Any]] = field(default_factory=dict)
    commits: list[tuple[int, bool]] = field(default_factory=list)  #: checkpoint and replay flag of every commit call
    before_commit: Callable[[CommitPermit], None] | None = None  #: called before each commit; may raise

    def __post_init__(self) -> None:
        _ledgers[self.name] = self

    @property
    def records(self) -> list[Any]:
        """Return all committed records, in the order of their commits."""
        return [record for records in self.committed.values() for record in records]


class LedgerSink(Sink[Any]):
    """Writes to a ledger."""

    def __init__(self, ledger: Ledger):
        self._name = ledger.name

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        token = f"{context.operator_id}:{context.subtask}:{context.attempt_id}:{context.epoch}"
        return _LedgerWriter(_ledgers[self._name], token)

    def create_committer(self) -> Committer:
        return _LedgerCommitter(_ledgers[self._name])


class _LedgerWriter(SinkWriter[Any]):
    """Stages one list."""

    def __init__(self, ledger: Ledger, token: str):
        self._ledger = ledger
        self._token = token
        self._values: list[Any] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._values.extend(values)

    def prepare_commit(self) -> list[Json]:
        if not self._values:
            return []
        assert self._token not in self._ledger.staged, "an attempt id was used twice"
        self._ledger.staged[self._token] = self._values
        return [self._token]


class _LedgerCommitter(Committer):
    """Commits staged lists. Committing a list again does nothing."""

    def __init__(self, ledger: Ledger):
        self._ledger = ledger

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        if self._ledger.before_commit is not None:
            self._ledger.before_commit(permit)
        self._ledger.commits.append((permit.checkpoint_id, permit.replay))
        for token in committables:
            # A job that was started from the checkpoint of another job may have another ledger.
            if token not in self._ledger.committed and not (permit.replay and token not in self._ledger.staged):
                self._ledger.committed[token] = self._ledger.staged.pop(token)

    def discard(self, live_attempts: frozenset[str]) -> None:
        for token in [token for token in self._ledger.staged if token.split(":")[2] not in live_attempts]:
            del self._ledger.staged[token]
