"""Commits the transactions of completed checkpoints, and aborts those that no checkpoint will have. Driver side.

A commit that is repeated does nothing. A transaction that the broker does not have any more was either committed long
ago (an older checkpoint was restored) or aborted, for example by its time-out: one of its records tells which.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.kafka._sink import KafkaSink
from flott.errors import ConnectorError, LeadershipLostError, StateError
from flott.runtime.connectors.kafka.end_txn import Fate, Transaction, TransactionClient
from flott.runtime.connectors.kafka.producer_settings import protocol_settings
from flott.runtime.connectors.kafka.transactions import ids_of_job, ids_of_prefix

log = logging.getLogger("flott.connectors.kafka")

#: While a job runs, transactions that will not be committed are looked for at this interval. A worker that dies and
#: whose task is retried leaves one, and it hides later records from read-committed consumers. The commit after the look
#: aborts what is open then, too.
SWEEP_MS = 10_000


class KafkaCommitter(Committer):
    """Ends the transactions of one sink."""

    def __init__(self, sink: KafkaSink):
        self._sink = sink
        self._client = TransactionClient(protocol_settings(sink))
        self._job = ("", "")
        self._live: Collection[str] = frozenset()
        self._swept_ms: int | None = None
        self._suspects: frozenset[Transaction] | None = None  #: open at the last commit; None: no look was due

    @property
    def takes_several_epochs(self) -> bool:
        """Return False: a transactional id is used again two epochs later, so its transaction must be over then."""
        return False

    def open(self, job_id: str, operator_id: str) -> None:
        self._job = (job_id, operator_id)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        transactions = [_transaction(found) for found in committables]
        for found, refusal in zip(committables, self._client.end(transactions, commit=True), strict=True):
            if refusal is not None:
                self._explain(found, refusal)
        if self._swept_ms is None:
            self._swept_ms = permit.now_ms  # discard() does it now
        elif self._suspects is not None or permit.now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = permit.now_ms
            self._sweep()

    def discard(self, live_attempts: frozenset[str]) -> None:
        self._live, self._suspects = live_attempts, None
        prefix = self._sink.transactional_id_prefix
        self._abort(self._client.ongoing(ids_of_prefix(prefix) if self._sink.owns_prefix else self._own_ids()))

    def close(self) -> None:
        self._client.close()

    # ---- lingering transactions --------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Abort what was open at the last commit and still is: none of its checkpoints will have it.

        What is open at one commit only may be of use: the tasks of a pipelined job write for the next checkpoint while
        this one is committed.
        """
        suspects, self._suspects = self._suspects, None
        try:
            found = self._client.ongoing(self._own_ids())
            if suspects is None:
                self._suspects = frozenset(found)
            else:
                self._abort([each for each in found if each in suspects])
        except LeadershipLostError:
            raise
        except Exception as error:
            log.warning("Kafka transactions that were left open could not be looked for: %s", error)

    def _own_ids(self) -> str:
        return ids_of_job(self._sink.transactional_id_prefix, *self._job)

    def _abort(self, found: Sequence[Transaction]) -> None:
        """Abort open transactions. Those of the last checkpoint have been committed before."""
        # The question stops a process that was deposed: what it found, its successor may be writing. It is asked after
        # the list was read. An abort names the producer's epoch, so it does not hit a later transaction of the same id.
        void = [each for each in found if each.transactional_id not in self._live]
        refusals = self._client.end(void, commit=False)
        for each, refusal in zip(void, refusals, strict=True):
            if refusal is None:
                log.info("Aborted the Kafka transaction %s, which a failed attempt left open.", each.transactional_id)

    # ---- refused commits ---------------------------------------------------------------------------------------------

    def _explain(self, committable: Json, refusal: Exception) -> None:
        """Find out why the broker does not have a transaction. Returns if its records are visible."""
        topic, partition, offset = committable["witness"]
        fate = self._client.fate(topic, partition, offset, committable["producer_id"])
        if fate is Fate.COMMITTED:
            return  # long ago: the job was restored from an older checkpoint
        if fate is Fate.UNKNOWN:
            raise ConnectorError(
                f"The broker refused to commit Kafka transaction {committable['transactional_id']} ({refusal}), and"
                f" does not tell yet what became of it, because another transaction of topic {topic}, partition"
                f" {partition} is open."
            )
        if fate is Fate.EXPIRED:
            log.warning("%s Retention has deleted its records, so it cannot be told whether they were visible.",
                        _refused(committable, refusal))  # fmt: skip
            return
        text = _lost(committable, refusal)
        if not self._sink.tolerates_timed_out:
            raise StateError(text)
        log.error("%s The job goes on, as it was told to.", text)


def _transaction(committable: Json) -> Transaction:
    if committable.get("version") != 1:
        raise StateError(
            f"A committable of the Kafka sink has version {committable.get('version')!r}, expected 1. It was written by"
            " another version of Flott: commit it with that version."
        )
    return Transaction(committable["transactional_id"], committable["producer_id"], committable["producer_epoch"])


def _refused(committable: Json, refusal: Exception) -> str:
    return (
        f"The broker refused to commit Kafka transaction {committable['transactional_id']} of checkpoint"
        f" {committable['epoch']} ({type(refusal).__name__})."
    )


def _lost(committable: Json, refusal: Exception) -> str:
    topics = ", ".join(f"{count} of topic {topic}" for topic, count in sorted(committable["topics"].items()))
    topic, partition, offset = committable["witness"]
    return (
        f"{_refused(committable, refusal)} It was aborted before, most likely because it was open for longer than its"
        f" time-out of {committable['timeout_ms']} ms. {committable['records']} records of subtask"
        f" {committable['subtask']} in epoch {committable['epoch']} are lost: {topics} (among them topic {topic},"
        f" partition {partition}, offset {offset}). Increase transaction.timeout.ms of the sink, and"
        " transaction.max.timeout.ms of the brokers, beyond the longest time from the begin of an epoch to a restart"
        " of the job, or make the checkpoint interval shorter. To continue without these records, start the job from"
        " a savepoint, or remove the sink's committables with a new uid."
    )
