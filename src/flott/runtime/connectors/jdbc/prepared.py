"""Exactly once by prepared transactions: a task prepares, the committer commits. Task and driver side.

A marker row in the transaction tells "committed before" from "lost" when the commit is repeated: the name of a
committed transaction is gone, its marker is not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from flott.datastream.connectors.base import CommitPermit, Committer, Json, WriterContext
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions
from flott.errors import ConnectorError, StateError
from flott.runtime.connectors.jdbc.connection import Connection, patient
from flott.runtime.connectors.jdbc.identity import (
    MARKER_RETENTION_MS,
    TransactionName,
    attempt_digest,
    writer_name,
)
from flott.runtime.connectors.jdbc.session import Session

log = logging.getLogger("flott.job")

#: After so many commits the committer looks for transactions that were prepared too late to be discarded.
SWEEP_EVERY = 20
#: A server may need a moment to notice that the connection which has prepared a transaction is closed.
RETRIES = 4
#: After so many commits old markers are deleted.
FORGET_EVERY = 500


class PreparedTransaction:
    """The transaction of one attempt of a subtask, from its first write to its preparation. Task side."""

    def __init__(self, options: JdbcConnectionOptions, context: WriterContext, markers: Callable[[Session], str]):
        self._connection = Connection(options)
        self._context = context
        self._name = TransactionName.of(context)
        self._markers = markers
        self._markers_table = ""
        self._begun = False
        self._records = 0

    def write(
        self, what: str, records: int, work: Callable[[Session], None], explain: Callable[[], str] | None = None
    ) -> None:
        """Write something in the transaction, which begins with it if necessary."""
        if not self._begun:
            self._connection.attempt("begin a transaction", self._begin)
            self._begun = True
        session = self._connection.session()
        try:
            self._connection.attempt(what, lambda found: self._same(session, found, work), explain=explain)
        except ConnectorError as error:
            if "another transaction is in the way" in str(error):
                raise ConnectorError(
                    f"{error} Prepared transactions hold their locks until the checkpoint is complete. If two subtasks"
                    " write the same key, use key_by() on it before the sink, or commit by staging."
                ) from None
            raise
        self._records += records

    def _same(self, session: Session, found: Session, work: Callable[[Session], None]) -> None:
        if found is not session:
            raise ConnectorError("The connection was lost, and with it the transaction of this epoch.")
        work(found)

    def _begin(self, session: Session) -> None:
        self._markers_table = self._markers(session)
        session.begin_prepared(str(self._name))
        session.run(
            session.grammar.insert(self._markers_table, ("id", "writer", "epoch", "committed_ms")),
            (str(self._name), self._name.writer, self._context.epoch, self._context.now_ms),
        )

    def prepare(self) -> list[Json]:
        """Prepare the transaction, and describe it for the committer."""
        if not self._begun:
            return []
        session = self._connection.session()
        self._connection.attempt(
            "prepare the transaction",
            lambda found: self._same(session, found, lambda it: it.prepare(str(self._name))),
        )
        self._begun = False
        if session.closes_after_prepare:
            self._connection.drop()
        return [
            {
                "version": 1,
                "transaction": str(self._name),
                "markers": self._markers_table,
                "epoch": self._context.epoch,
                "records": self._records,
                "time_ms": self._context.now_ms,
            }
        ]

    def close(self) -> None:
        """Let go of the connection. A transaction that was not prepared is rolled back."""
        if self._begun:
            self._connection.drop()
        else:
            self._connection.release()


class PreparedCommitter(Committer):
    """Commits prepared transactions. Driver side."""

    def __init__(self, options: JdbcConnectionOptions):
        self._connection = Connection(patient(options))
        self._own: set[str] = set()
        self._commits = 0
        self._markers = ""

    @property
    def takes_several_epochs(self) -> bool:
        """Return False: a transaction that stays prepared keeps its locks, and the next epoch waits for them."""
        return False

    def open(self, job_id: str, operator_id: str) -> None:
        self._own.add(writer_name(job_id, operator_id))

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        for committable in committables:
            if (name := TransactionName.read(committable["transaction"])) is not None:
                self._own.add(name.writer)
            self._markers = committable["markers"]
            self._connection.attempt(
                f"commit the transaction {committable['transaction']}",
                lambda session, what=committable: _commit(session, permit, what),  # type: ignore[misc]
                retries=RETRIES,
            )
        if committables:
            self._commits += 1
            self._tidy(permit)

    def _tidy(self, permit: CommitPermit) -> None:
        if self._commits % SWEEP_EVERY == 0:
            tidy(self._connection, lambda session: self._sweep(session, permit.checkpoint_id))
        if self._commits % FORGET_EVERY == 1:
            tidy(self._connection, lambda session: forget(session, self._markers, self._own, permit.now_ms))

    def _sweep(self, session: Session, checkpoint_id: int) -> None:
        """Undo what was prepared for an epoch that is over: by a task that was taken for dead."""
        for writer in self._own:
            for gid in session.prepared(TransactionName.prefix(writer)):
                name = TransactionName.read(gid)
                if name is not None and name.epoch < checkpoint_id:
                    session.rollback_prepared(gid)

    def discard(self, live_attempts: frozenset[str]) -> None:
        by_digest = {attempt_digest(attempt): attempt for attempt in live_attempts}

        def roll_back(session: Session) -> None:
            for writer in self._own:
                for gid in session.prepared(TransactionName.prefix(writer)):
                    name = TransactionName.read(gid)
                    if name is not None and by_digest.get(name.attempt, name.attempt) not in live_attempts:
                        session.rollback_prepared(gid)

        self._connection.attempt("undo the transactions of failed attempts", roll_back, retries=RETRIES)

    def close(self) -> None:
        self._connection.release()


def _commit(session: Session, permit: CommitPermit, committable: Json) -> None:
    gid = committable["transaction"]
    if session.commit_prepared(gid):
        return
    if session.rows(f"SELECT id FROM {committable['markers']} WHERE id = ?", (gid,)):
        return  # it was committed before
    what = f"The prepared transaction {gid} of epoch {committable['epoch']} ({committable['records']} records)"
    if permit.replay and permit.now_ms - committable["time_ms"] > MARKER_RETENTION_MS:
        log.warning(
            "%s is gone, and so is what was known of transactions of that time. It is taken for committed.", what
        )
        return
    raise StateError(
        f"{what} belongs to a completed checkpoint but is neither prepared nor committed: it was rolled back on the"
        " server by hand, or the server has lost it. Its records are missing in the table. Restore them, or start the"
        " job again from an older savepoint."
    )


def tidy(connection: Connection, work: Callable[[Session], None]) -> None:
    """Do what can be done later as well: a failure is logged, and the commit is complete all the same."""
    try:
        connection.attempt("tidy up after earlier commits", work)
    except ConnectorError as error:
        log.warning("%s It is tried again after some commits.", error)


def forget(session: Session, markers: str, writers: set[str], now_ms: int) -> None:
    """Delete markers that are older than they are needed."""
    for writer in writers:
        # Not in one statement: a DELETE that searches would wait for the markers of prepared transactions.
        old = session.rows(
            f"SELECT id FROM {markers} WHERE writer = ? AND committed_ms < ?", (writer, now_ms - MARKER_RETENTION_MS)
        )
        if old:
            session.run_many(f"DELETE FROM {markers} WHERE id = ?", old)
