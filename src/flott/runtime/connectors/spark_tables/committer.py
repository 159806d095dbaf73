"""Collects what tasks staged and hands it to Spark when the job has finished. Driver side.

    <staging>/<writer>/<file>.parquet    rows of one subtask in one epoch
    <staging>/<writer>/progress.json     the last committed checkpoint, the files of all, and how far Spark is

Spark's tables have no common way to say which job has written what. So the driver notes, before Spark writes, how many
rows the table has and how many come. If it dies before it has noted that Spark is done, the next one counts again: the
old number, and Spark has to write; the sum, and it is done; anything else, and a person has to look, since another
writer was at work or Spark's own commit was torn. To overwrite a table twice is the same as once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.spark import SparkTableSink
from flott.errors import StateError
from flott.runtime.connectors.files.names import writer_token
from flott.runtime.connectors.spark_tables.session import TableSession, table_session
from flott.runtime.connectors.tables.columns import arrow_schema
from flott.runtime.connectors.tables.names import DataFileName
from flott.runtime.storage import Storage, open_storage
from flott.runtime.storage.locations import join

log = logging.getLogger("flott.job")

PROGRESS = "progress.json"


@dataclass(frozen=True)
class StagedRows:
    """What is known of a sink's output."""

    checkpoint: int = 0
    files: dict[str, int] = field(default_factory=dict)  #: the number of rows by name
    rows_before: int | None = None  #: of the table, when Spark was told to write
    done: bool = False

    def plus(self, checkpoint: int, committables: Sequence[Json]) -> StagedRows:
        """Return the progress after a checkpoint."""
        new = {entry["file"]: entry["rows"] for entry in committables}
        return replace(self, checkpoint=max(checkpoint, self.checkpoint), files={**self.files, **new})


def check_sink(sink: SparkTableSink) -> None:
    """Refuse a sink that cannot work, before anything runs."""
    arrow_schema(sink.schema)
    table_session()


class SparkTableCommitter(Committer):
    """Commits the output of a :class:`SparkTableSink`."""

    def __init__(self, sink: SparkTableSink):
        self._sink = sink
        self._storage: Storage | None = None
        self._progress: StagedRows | None = None

    @property
    def takes_several_epochs(self) -> bool:
        """Return False: a checkpoint that is missing in the sequence tells that staged rows were lost."""
        return False

    def open(self, job_id: str, operator_id: str) -> None:
        self._storage = open_storage(join(self._sink.staging_folder, writer_token(job_id, operator_id)))

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        progress = self._read() if self._progress is None or permit.replay else self._progress
        if permit.checkpoint_id > progress.checkpoint + 1:
            raise StateError(
                f"The rows that checkpoints up to {permit.checkpoint_id - 1} staged for the table {self._sink.table}"
                f" are not below {self._sink.staging_folder}: they were deleted, or the job continues another one's"
                " savepoint. Run it from the beginning."
            )
        if progress.done:
            return
        progress = progress.plus(permit.checkpoint_id, committables)
        self._write(progress)
        if permit.final:
            self._finish(progress)

    def _finish(self, progress: StagedRows) -> None:
        session, rows = table_session(), sum(progress.files.values())
        if progress.files and self._is_to_write(session, progress, rows):
            progress = replace(progress, rows_before=session.count(self._sink.table) or 0)
            self._write(progress)
            storage = self._own_storage()
            files = [storage.location(name) for name in sorted(progress.files)]
            session.write(self._sink.table, self._sink.mode, files)
            log.info("Spark has written %d rows into the table %s.", rows, self._sink.table)
        self._write(replace(progress, done=True))
        self._own_storage().delete_all(progress.files)

    def _is_to_write(self, session: TableSession, progress: StagedRows, rows: int) -> bool:
        before = progress.rows_before
        if before is None or self._sink.mode == "overwrite":
            return True
        found = session.count(self._sink.table) or 0
        if found == before + rows:
            return False
        if found == before:
            return True
        raise StateError(
            f"The driver died while Spark appended {rows} rows to the table {self._sink.table}, which had {before}"
            f" rows. It has {found} now, so either another writer was at work, or not all rows are there. Look at the"
            f" table, and write the rows of {self._own_storage().root} by hand if they are missing."
        )

    def discard(self, live_attempts: frozenset[str]) -> None:
        storage, committed = self._own_storage(), self._read().files
        for name in list(storage.list(".")):
            found = DataFileName.read(name)
            if found is not None and name not in committed and found.attempt not in live_attempts:
                storage.delete(name)

    def _own_storage(self) -> Storage:
        assert self._storage is not None, "open() comes first"
        return self._storage

    def _read(self) -> StagedRows:
        storage = self._own_storage()
        if not storage.exists(PROGRESS):
            return StagedRows()
        content = json.loads(storage.read(PROGRESS))
        content.pop("version")
        return StagedRows(**content)

    def _write(self, progress: StagedRows) -> None:
        self._progress = None
        self._own_storage().publish(PROGRESS, json.dumps({"version": 1, **asdict(progress)}).encode())
        self._progress = progress
