"""What becomes of a change that a store will never accept: the job fails, or it is logged, or it is a dead letter.

A dead letter goes to the writer of another sink, in the same task and epoch. Its committables travel with those of the
store's writer, so it is published exactly once if that sink does so. Task and driver side.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flott.datastream.connectors.base import (
    BadRecord,
    CommitPermit,
    Committer,
    Json,
    OnError,
    SinkWriter,
    WriterContext,
)
from flott.errors import ConnectorError, StateError

_log = logging.getLogger(__name__)
_VERSION = 1


class Rejections:
    """Receives rejected changes in a task."""

    def __init__(self, on_rejected: OnError, context: WriterContext, whom: str):
        self.count = 0
        self._on_rejected = on_rejected
        self._whom = whom
        self._sample = ""
        sink = on_rejected.dead_letters
        self._letters: SinkWriter[BadRecord] | None = None if sink is None else sink.create_writer(context)

    def report(self, bad: BadRecord) -> None:
        """Report a rejected change; raises if the sink is to fail then."""
        if not self._on_rejected.keeps_going:
            raise ConnectorError(
                f"{self._whom} rejected {bad.place}: {bad.error}. Correct the record or the store's schema, or let the"
                " sink continue with on_rejected: OnError.skip() or OnError.dead_letter(sink)."
            )
        self.count += 1
        self._sample = self._sample or f"{bad.place}: {bad.error}"
        if self._letters is not None:
            self._letters.write([bad], None if bad.timestamp is None else [bad.timestamp])

    def prepare_commit(self) -> list[Json]:
        """Return the committables of the dead letters."""
        if self.count:
            _log.warning("%s rejected %d changes; the first: %s", self._whom, self.count, self._sample)
        if self._letters is None:
            return []
        return [{"version": _VERSION, "dead_letter": one} for one in self._letters.prepare_commit()]

    def close(self) -> None:
        """Close the writer of the dead letters."""
        if self._letters is not None:
            self._letters.close()


class DeadLetterCommitter(Committer):
    """Commits dead letters with the committer of their sink."""

    def __init__(self, committer: Committer):
        self._committer = committer

    @property
    def takes_several_epochs(self) -> bool:
        return self._committer.takes_several_epochs

    def open(self, job_id: str, operator_id: str) -> None:
        self._committer.open(job_id, operator_id)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        for one in committables:
            if one["version"] != _VERSION:
                raise StateError(
                    f"Found a committable of version {one['version']}; this Flott reads version {_VERSION}. Use the"
                    " version of Flott that wrote the checkpoint."
                )
        self._committer.commit(permit, [one["dead_letter"] for one in committables if "dead_letter" in one])

    def discard(self, live_attempts: frozenset[str]) -> None:
        self._committer.discard(live_attempts)

    def close(self) -> None:
        self._committer.close()


def dead_letter_committer(on_rejected: OnError) -> Committer | None:
    """Return the committer of a sink that commits nothing but dead letters; None if there are none to commit."""
    committer = None if on_rejected.dead_letters is None else on_rejected.dead_letters.create_committer()
    return None if committer is None else DeadLetterCommitter(committer)
