"""Commits the output of a checkpoint to a Delta table, as one transaction. Driver side.

The log of a table holds, for each application, the number of its last transaction. Here an application is the sink of a
job and the number is the checkpoint. A commit reads the table's latest version, looks up that number, and writes the
next version on the condition that no other process has written it. If one has, all of it is done again. So a repeated
commit finds its number and does nothing, and of two processes that commit the same checkpoint at once one wins and the
other finds the number on its next try.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.delta import DeltaSink
from flott.errors import ConnectorError, StateError
from flott.runtime.connectors.delta.tables import facts_of, library, open_table
from flott.runtime.connectors.delta.writer import CHANGES, DATA
from flott.runtime.connectors.files.compression import file_or_path
from flott.runtime.connectors.files.names import writer_token
from flott.runtime.connectors.tables.changes import DELETED, without_repeated_keys
from flott.runtime.connectors.tables.names import DataFileName
from flott.runtime.storage import open_storage
from flott.runtime.storage.locations import join

log = logging.getLogger("flott.job")

#: Tries against other writers of the table, before the job waits and tries again.
COMMIT_ATTEMPTS = 30
#: The longest pause between two of them.
LONGEST_PAUSE_S = 0.5
#: How long the end of a job waits for a compaction that runs.
COMPACTION_END_S = 60
#: Versions that are searched for a commit that was made before.
SEARCHED_VERSIONS = 1000


class DeltaCommitter(Committer):
    """Commits the output of a :class:`DeltaSink`."""

    def __init__(self, sink: DeltaSink):
        self._sink = sink
        self._table: Any = None
        self._writers: set[tuple[str, str]] = set()  # jobs and operators whose files are ours to remove
        self._commits = 0
        self._compaction: threading.Thread | None = None

    def open(self, job_id: str, operator_id: str) -> None:
        self._writers.add((job_id, operator_id))
        self._table = open_table(self._sink)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        groups: dict[tuple[int, str, str], list[Json]] = {}
        for committable in committables:
            # Of a job that continues another one's savepoint: its last output, under the name it was written with.
            key = (committable["epoch"], committable["job"], committable["operator"])
            groups.setdefault(key, []).append(committable)
        for (epoch, job, operator), group in sorted(groups.items()):
            self._writers.add((job, operator))
            if self._commit_once(f"flott/{job}/{operator}", epoch, group):
                self._commits += 1
                self._compact_if_due()

    def _commit_once(self, application: str, epoch: int, group: list[Json]) -> bool:
        """Commit unless that was done before; return whether it was done now."""
        deltalake = library()
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                table = self._latest()
                self._check_table(table, group)
                done = table.transaction_version(application)
                missing = group if done is None or done < epoch else self._missing(table, application, epoch, group)
                if not missing:
                    self._remove_changes(group)
                    return False
                self._check_files(epoch, missing)
                properties = deltalake.CommitProperties(
                    custom_metadata=_marker(application, epoch, missing),
                    max_commit_retries=0,  # the library would not look up the number again
                    app_transactions=[deltalake.Transaction(application, epoch)],
                )
                if "changes" in missing[0]:
                    self._merge(table, missing, properties)
                else:
                    self._append(table, missing, properties)
                self._remove_changes(group)
                return True
            except deltalake.exceptions.CommitFailedError as error:
                log.debug("Delta table %s changed during a commit: %s", self._sink.table_path, error)
                time.sleep(random.random() * min(LONGEST_PAUSE_S, 0.01 * 2**attempt))
            except deltalake.exceptions.DeltaError as error:
                self._table = None
                raise ConnectorError(f"Cannot commit to the Delta table {self._sink.table_path}: {error}.") from error
        raise ConnectorError(
            f"The Delta table {self._sink.table_path} changed {COMMIT_ATTEMPTS} times during the commit of checkpoint"
            f" {epoch}. Other writers are busy; the commit will be tried again."
        )

    def _latest(self) -> Any:
        if self._table is None:
            self._table = open_table(self._sink)
        else:
            self._table.update_incremental()
        return self._table

    def _append(self, table: Any, group: list[Json], properties: Any) -> None:
        from deltalake.transaction import AddAction

        actions = [
            AddAction(
                path=entry["path"],
                size=entry["size"],
                partition_values=entry["partition"],
                modification_time=entry["time_ms"],
                data_change=True,
                stats=entry["stats"],
            )
            for entry in group
        ]
        columns = list(table.metadata().partition_columns)
        table.create_write_transaction(actions, "append", table.schema(), columns, commit_properties=properties)

    def _merge(self, table: Any, group: list[Json], properties: Any) -> None:
        changes = self._read_changes(group)
        names = facts_of(table).schema.names
        same = " AND ".join(f"target.`{key}` = source.`{key}`" for key in self._sink.upsert_keys)
        values = {f"`{name}`": f"source.`{name}`" for name in names}
        merge = table.merge(changes, same, source_alias="source", target_alias="target", commit_properties=properties)
        (
            merge.when_matched_delete(f"source.`{DELETED}`")
            .when_matched_update(values)
            .when_not_matched_insert(values, predicate=f"NOT source.`{DELETED}`")
            .execute()
        )

    def _read_changes(self, group: list[Json]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        ordered = sorted(group, key=lambda entry: entry["subtask"])
        tables = [pq.read_table(file_or_path(join(self._sink.table_path, entry["changes"]))) for entry in ordered]
        return without_repeated_keys(pa.concat_tables(tables), self._sink.upsert_keys)

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_table(self, table: Any, group: list[Json]) -> None:
        found = table.metadata().id
        if found != group[0]["table"]:
            raise StateError(
                f"The Delta table {self._sink.table_path} was replaced: the output of the checkpoint was written for"
                f" the table {group[0]['table']}, found {found}. Start the job again without its state."
            )

    def _check_files(self, epoch: int, group: list[Json]) -> None:
        storage = open_storage(self._sink.table_path)
        for entry in group:
            path = entry.get("path") or entry["changes"]
            if not storage.exists(path):
                raise StateError(
                    f"The data file {join(self._sink.table_path, path)} ({entry['rows']} rows) belongs to checkpoint"
                    f" {epoch}, which is complete but was never committed to the table, and the file is gone. It was"
                    " deleted, perhaps by VACUUM: restore it, or start the job again without its state."
                )

    def _missing(self, table: Any, application: str, epoch: int, group: list[Json]) -> list[Json]:
        """Return what is not committed, although this number is: nothing, or the job was set back."""
        committed: set[str] = set()
        for entry in table.history(SEARCHED_VERSIONS):
            if entry.get("flott.application") == application and entry.get("flott.checkpoint-id") == str(epoch):
                committed |= set(str(entry.get("flott.files")).split())
        missing = [entry for entry in group if _digest(entry) not in committed]
        if not committed or not missing:
            return []
        if len(missing) == len(group):
            raise StateError(
                f"The Delta table {self._sink.table_path} holds other output of checkpoint {epoch} of this job already:"
                " it seems to have been set back to an older checkpoint. Continue it as a new job."
            )
        return missing

    # --- cleaning and compaction --------------------------------------------------------------------------------------

    def _remove_changes(self, group: list[Json]) -> None:
        if paths := [entry["changes"] for entry in group if "changes" in entry]:
            open_storage(self._sink.table_path).delete_all(paths)

    def discard(self, live_attempts: frozenset[str]) -> None:
        storage = open_storage(self._sink.table_path)
        table = self._latest()
        for job, operator in self._writers:
            # A file of a committed checkpoint may still be needed by older versions of the table, so only files of
            # later ones are looked at: none of those is in any version.
            done = table.transaction_version(f"flott/{job}/{operator}") or 0
            for folder, oldest in ((DATA, done + 1), (CHANGES, 0)):
                place = join(folder, writer_token(job, operator))
                for name in storage.list(place):
                    found = DataFileName.read(name)
                    if found is not None and found.epoch >= oldest and found.attempt not in live_attempts:
                        storage.delete(join(place, name))

    def _compact_if_due(self) -> None:
        every = self._sink.compact_every
        if every is None or self._commits % every:
            return
        if self._sink.upsert_keys:  # a merge would fail again and again beside a compaction
            self._compact()
        elif self._compaction is None or not self._compaction.is_alive():
            self._compaction = threading.Thread(target=self._compact, name="flott-delta-compaction", daemon=True)
            self._compaction.start()

    def _compact(self) -> None:
        try:
            found = open_table(self._sink).optimize.compact(target_size=self._sink.target_file_bytes)
            log.info(
                "Compacted the Delta table %s: %s files became %s.",
                self._sink.table_path, found["numFilesRemoved"], found["numFilesAdded"],
            )  # fmt: skip
        except Exception as error:  # the table is as it was; the next turn tries again
            log.warning("Cannot compact the Delta table %s: %s", self._sink.table_path, error)

    def close(self) -> None:
        if self._compaction is not None:
            self._compaction.join(COMPACTION_END_S)
        self._table = None


def _marker(application: str, epoch: int, group: list[Json]) -> dict[str, str]:
    files = " ".join(map(_digest, group))
    return {"flott.application": application, "flott.checkpoint-id": str(epoch), "flott.files": files}


def _digest(committable: Json) -> str:
    path: str = committable.get("path") or committable["changes"]
    return blake2b(path.encode(), digest_size=8).hexdigest()
