"""What writers, stages and prepared transactions are called: the only speller and reader of these names. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from flott.datastream.connectors.base import WriterContext

#: So long is it remembered that a transaction was committed. An older checkpoint that is restored is taken for done.
MARKER_RETENTION_MS = 7 * 24 * 3600 * 1000

_GID = re.compile(r"flott_([0-9a-f]{12})_(\d+)_(\d+)_([0-9a-f]{16})")


def writer_name(job_id: str, operator_id: str) -> str:
    """Return the name of a writer: the sink of a job."""
    return blake2b(f"{job_id}/{operator_id}".encode(), digest_size=6).hexdigest()


def attempt_digest(attempt_id: str) -> str:
    """Return a short form of an attempt, for names of limited length."""
    return blake2b(attempt_id.encode(), digest_size=8).hexdigest()


def stage_number(context: WriterContext) -> int:
    """Return the number of a stage: what one attempt of one subtask stages in one epoch. It fits into a BIGINT."""
    facts = f"{context.job_id}/{context.operator_id}/{context.epoch}/{context.subtask}/{context.attempt_id}"
    return int.from_bytes(blake2b(facts.encode(), digest_size=8).digest(), "big") >> 1


def stage_marker(stage: int) -> str:
    """Return the name of the marker that says that a stage was moved."""
    return f"stage_{stage:016x}"


@dataclass(frozen=True)
class TransactionName:
    """The name of a prepared transaction."""

    writer: str
    epoch: int
    subtask: int
    attempt: str  #: a digest

    def __str__(self) -> str:
        return f"{self.prefix(self.writer)}{self.epoch}_{self.subtask}_{self.attempt}"

    @staticmethod
    def prefix(writer: str) -> str:
        return f"flott_{writer}_"

    @staticmethod
    def of(context: WriterContext) -> TransactionName:
        writer = writer_name(context.job_id, context.operator_id)
        return TransactionName(writer, context.epoch, context.subtask, attempt_digest(context.attempt_id))

    @staticmethod
    def read(gid: str) -> TransactionName | None:
        """Return what a name says; None if it is not Flott's.

        >>> TransactionName.read("flott_0123456789ab_7_0_0123456789abcdef").epoch
        7
        """
        match = _GID.fullmatch(gid)
        return None if match is None else TransactionName(match[1], int(match[2]), int(match[3]), match[4])
