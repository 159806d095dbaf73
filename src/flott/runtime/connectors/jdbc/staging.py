"""Exactly once by a staging table: tasks stage rows, the committer moves them. Driver side.

One transaction moves all rows of a checkpoint and inserts a marker for each stage. The markers come first, so that of
two committers of the same checkpoint, such as a deposed leader and its successor, the second one waits for the first
and then finds it done. A marker tells "moved before" from "lost", too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.jdbc._table_sink import JdbcTableSink
from flott.errors import StateError
from flott.runtime.connectors.jdbc.connection import Connection, failure, patient, trouble_of
from flott.runtime.connectors.jdbc.identity import MARKER_RETENTION_MS, stage_marker, writer_name
from flott.runtime.connectors.jdbc.prepared import FORGET_EVERY, forget, tidy
from flott.runtime.connectors.jdbc.session import Session, Trouble
from flott.runtime.connectors.jdbc.statements import STAGE, marks

log = logging.getLogger("flott.job")


class StagingCommitter(Committer):
    """Moves staged rows into their table."""

    def __init__(self, sink: JdbcTableSink):
        self._sink = sink
        self._connection = Connection(patient(sink.connection_options))
        self._own: set[str] = set()
        self._commits = 0

    def open(self, job_id: str, operator_id: str) -> None:
        self._own.add(writer_name(job_id, operator_id))

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        if not committables:
            return
        self._own.update(committable["writer"] for committable in committables)
        self._connection.attempt(
            f"commit checkpoint {permit.checkpoint_id}", lambda session: self._move(session, permit, committables)
        )
        self._commits += 1
        if self._commits % FORGET_EVERY == 1:
            markers = committables[0]["commits_table"]
            tidy(self._connection, lambda session: forget(session, markers, self._own, permit.now_ms))

    def _move(self, session: Session, permit: CommitPermit, committables: Sequence[Json]) -> None:
        with session.transaction():
            # One epoch after the other: a later one may delete what an earlier one inserts, and insert it again.
            groups: dict[tuple[int, str], list[Json]] = {}
            for committable in sorted(committables, key=lambda each: (each["epoch"], int(each["stage"]))):
                if _mark(session, permit, committable):  # else it was moved before
                    groups.setdefault((committable["epoch"], committable["staging"]), []).append(committable)
            for (_, staging), members in groups.items():
                self._move_table(session, permit, staging, members)

    def _move_table(self, session: Session, permit: CommitPermit, staging: str, members: list[Json]) -> None:
        grammar = session.grammar
        stages = [member["stage"] for member in members]
        inside = f"{STAGE} IN ({marks(len(stages))})"
        if not _is_complete(session, permit, staging, members):
            return
        table, columns, key = members[0]["table"], members[0]["columns"], members[0]["key"]
        try:
            session.run(grammar.move_staged(table, staging, columns, key, len(stages)), stages)
            if key and any(member["deletes"] for member in members):
                session.run(grammar.delete_staged(table, staging, key, len(stages)), stages)
        except Exception as error:
            if trouble_of(self._sink.connection_options, error) is not Trouble.DATA:
                raise
            cause = failure(self._sink.connection_options, f"move staged rows into {table}", error, Trouble.DATA)
            raise StateError(
                f"{cause} The rows of checkpoint {permit.checkpoint_id} are kept in {staging}, column {STAGE} {stages}:"
                f" change or delete the offending row there, or in {table}, and start the job again. It commits the"
                " checkpoint first."
            ) from None
        session.run(f"DELETE FROM {staging} WHERE {inside}", stages)
        session.run(f"DELETE FROM {members[0]['stages_table']} WHERE stage IN ({marks(len(stages))})", stages)

    def discard(self, live_attempts: frozenset[str]) -> None:
        def remove(session: Session) -> None:
            table = session.table(self._sink.table)
            stages_table = f"{table.prefix if table is not None else ''}flott_stages"
            for writer in self._own:
                found = session.rows(f"SELECT stage, attempt, staging FROM {stages_table} WHERE writer = ?", (writer,))
                for stage, attempt, staging in found:
                    if attempt not in live_attempts:
                        _remove_stage(session, stages_table, staging, stage)

        self._connection.attempt("remove what failed attempts have staged", remove)

    def close(self) -> None:
        self._connection.release()


def _mark(session: Session, permit: CommitPermit, committable: Json) -> bool:
    """Insert the marker of a stage; False if it is there. Waits for another committer that is about to insert it."""
    marker = session.grammar.insert_if_absent(committable["commits_table"], ("id", "writer", "epoch", "committed_ms"))
    facts = (stage_marker(committable["stage"]), committable["writer"], committable["epoch"], permit.now_ms)
    return session.run(marker, facts) == 1


def _is_complete(session: Session, permit: CommitPermit, staging: str, members: list[Json]) -> bool:
    """Return whether all staged rows are there; raises StateError if they are not and must be."""
    stages = [member["stage"] for member in members]
    counted = dict(
        session.rows(
            f"SELECT {STAGE}, COUNT(*) FROM {staging} WHERE {STAGE} IN ({marks(len(stages))}) GROUP BY {STAGE}", stages
        )
    )
    for member in members:
        if counted.get(member["stage"], 0) == member["rows"]:
            continue
        what = (
            f"Of the {member['rows']} rows that epoch {member['epoch']} has staged in {staging} there are"
            f" {counted.get(member['stage'], 0)}"
        )
        if permit.replay and permit.now_ms - member["time_ms"] > MARKER_RETENTION_MS and not counted:
            log.warning("%s, and markers of that time were deleted. They are taken for committed.", what)
            return False
        raise StateError(
            f"{what}: they belong to a completed checkpoint and were not moved. They were deleted by hand, or the"
            " database was set back. Restore them, or start the job again from an older savepoint."
        )
    return True


def _remove_stage(session: Session, stages_table: str, staging: str, stage: int) -> None:
    with session.transaction():
        # First its entry: a task that still writes into the stage looks at the entry, and finds that it is void.
        session.run(f"DELETE FROM {stages_table} WHERE stage = ?", (stage,))
        session.run(f"DELETE FROM {staging} WHERE {STAGE} = ?", (stage,))
