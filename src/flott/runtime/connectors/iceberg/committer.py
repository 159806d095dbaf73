"""Commits the output of a checkpoint to an Iceberg table, as one commit. Driver side.

A property of the table holds, for each sink of a job, its last committed checkpoint. It changes in the same commit that
adds the files, and the commit is made on the condition that the table's current snapshot is the one that was looked at.
If another one was faster, all of it is done again, beginning with the look at the property. So a repeated commit does
nothing, and of two processes that commit the same checkpoint at once one wins and the other finds the property changed.

The summary of each snapshot holds the same facts, for people. It is not relied on, since snapshots expire.
"""

from __future__ import annotations

import logging
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.datastream.connectors.iceberg import IcebergSink
from flott.errors import ConnectorError, FlottError, StateError
from flott.runtime.connectors.files.names import writer_token
from flott.runtime.connectors.iceberg.data_file import from_json
from flott.runtime.connectors.iceberg.tables import failure, find_table, open_catalog, open_table
from flott.runtime.connectors.iceberg.writer import CHANGES
from flott.runtime.connectors.tables.changes import DELETED, without_repeated_keys
from flott.runtime.connectors.tables.names import DataFileName

log = logging.getLogger("flott.job")

#: Tries against other writers of the table, before the job waits and tries again.
COMMIT_ATTEMPTS = 30
#: The longest pause between two of them.
LONGEST_PAUSE_S = 0.5
_RETRIES = "commit.retry.num-retries"


class IcebergCommitter(Committer):
    """Commits the output of an :class:`IcebergSink`."""

    def __init__(self, sink: IcebergSink):
        self._sink = sink
        self._catalog: Any = None
        self._writers: set[tuple[str, str]] = set()  # jobs and operators whose files are ours to remove

    def open(self, job_id: str, operator_id: str) -> None:
        self._writers.add((job_id, operator_id))
        self._catalog = open_catalog(self._sink.catalog)
        open_table(self._sink, self._catalog)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        groups: dict[tuple[int, str, str], list[Json]] = {}
        for committable in committables:
            # Of a job that continues another one's savepoint: its last output, under the name it was written with.
            key = (committable["epoch"], committable["job"], committable["operator"])
            groups.setdefault(key, []).append(committable)
        for (epoch, job, operator), group in sorted(groups.items()):
            self._writers.add((job, operator))
            self._commit_once(job, operator, epoch, group)

    def _commit_once(self, job: str, operator: str, epoch: int, group: list[Json]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        marker = marker_key(job, operator)
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                table = self._latest()
                self._check_table(table, group)
                done = Marker.read(table.properties.get(marker))
                missing = done.missing(self._sink.table, epoch, group)
                if missing:
                    self._check_files(table, epoch, missing)
                    facts = {"flott.job": job, "flott.operator": operator, "flott.checkpoint-id": str(epoch)}
                    self._write(table, missing, facts, {marker: done.after(epoch, missing).text})
                self._remove_changes(table, group)
                return
            except CommitFailedException as error:
                log.debug("Iceberg table %s changed during a commit: %s", self._sink.table, error)
                time.sleep(random.random() * min(LONGEST_PAUSE_S, 0.01 * 2**attempt))
            except FlottError:
                raise
            except Exception as error:  # also CommitStateUnknown: the next try finds out what became of it
                self._catalog = None
                raise failure(self._sink.catalog, "commit to the Iceberg table", self._sink.table, error) from error
        raise ConnectorError(
            f"The Iceberg table {self._sink.table} changed {COMMIT_ATTEMPTS} times during the commit of checkpoint"
            f" {epoch}. Other writers are busy; the commit will be tried again."
        )

    def _latest(self) -> Any:
        if self._catalog is None:
            self._catalog = open_catalog(self._sink.catalog)
        table = find_table(self._sink.catalog, self._sink.table, self._catalog)
        if table is None:
            raise StateError(f"The Iceberg table {self._sink.table} was dropped while the job was running.")
        # The library would try again by itself, without a look at the property. Set here, not in the catalog.
        properties = {**table.metadata.properties, _RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        return table

    def _write(self, table: Any, group: list[Json], facts: dict[str, str], marker: dict[str, str]) -> None:
        transaction = table.transaction()
        transaction.set_properties(marker)
        if "changes" in group[0]:
            self._merge(table, transaction, group, facts)
        else:
            merging = table.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
            update = transaction.update_snapshot(snapshot_properties=facts)
            with update.merge_append() if merging else update.fast_append() as append:
                for entry in group:
                    append.append_data_file(from_json(entry["file"], table.metadata.format_version))
        transaction.commit_transaction()

    def _merge(self, table: Any, transaction: Any, group: list[Json], facts: dict[str, str]) -> None:
        """Delete the rows with the keys of the changes, and append what is not deleted."""
        from pyiceberg.table.upsert_util import create_match_filter

        ordered = sorted(group, key=lambda entry: entry["subtask"])
        changes = pa.concat_tables([_read(table.io, entry["changes"]) for entry in ordered])
        changes = without_repeated_keys(changes, self._sink.upsert_keys)
        rows = changes.filter(pa.compute.invert(changes[DELETED])).drop_columns([DELETED])
        if table.current_snapshot() is not None:
            matching = create_match_filter(changes, list(self._sink.upsert_keys))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that no row was matched
                transaction.delete(matching, snapshot_properties=facts)
        if rows.num_rows:
            transaction.append(rows.cast(table.schema().as_arrow()), snapshot_properties=facts)

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_table(self, table: Any, group: list[Json]) -> None:
        found = str(table.metadata.table_uuid)
        if found != group[0]["table"]:
            raise StateError(
                f"The Iceberg table {self._sink.table} was replaced: the output of the checkpoint was written for the"
                f" table {group[0]['table']}, found {found}. Start the job again without its state."
            )

    def _check_files(self, table: Any, epoch: int, group: list[Json]) -> None:
        for entry in group:
            location = _location(entry)
            if not table.io.new_input(location).exists():
                rows = entry["rows"] if "changes" in entry else entry["file"]["rows"]
                raise StateError(
                    f"The data file {location} ({rows} rows) belongs to checkpoint {epoch}, which is complete but was"
                    " never committed to the table, and the file is gone. It was deleted, perhaps as an orphan:"
                    " restore it, or start the job again without its state."
                )

    # --- cleaning -----------------------------------------------------------------------------------------------------

    def _remove_changes(self, table: Any, group: list[Json]) -> None:
        for entry in group:
            if "changes" in entry:
                _delete(table.io, entry["changes"])

    def discard(self, live_attempts: frozenset[str]) -> None:
        table = self._latest()
        for job, operator in self._writers:
            done = Marker.read(table.properties.get(marker_key(job, operator)))
            prefix = f"{writer_token(job, operator)}-"
            # A file of a committed checkpoint may still be needed by older snapshots, so only files of later ones are
            # looked at: none of those is in any snapshot.
            for folder, oldest in (("data", done.epoch + 1), (CHANGES, 0)):
                for location, name in _files_below(table, folder):
                    found = DataFileName.read(name.removeprefix(prefix)) if name.startswith(prefix) else None
                    if found is not None and found.epoch >= oldest and found.attempt not in live_attempts:
                        _delete(table.io, location)

    def close(self) -> None:
        self._catalog = None


class Marker:
    """The last committed checkpoint of a sink, and which of its files: ``<checkpoint> <digest> <digest> ...``."""

    def __init__(self, epoch: int, files: frozenset[str]):
        self.epoch = epoch
        self.files = files

    @staticmethod
    def read(text: str | None) -> Marker:
        """Return what a property says."""
        epoch, *files = (text or "0").split()
        return Marker(int(epoch), frozenset(files))

    @property
    def text(self) -> str:
        """Return the value of the property."""
        return " ".join([str(self.epoch), *sorted(self.files)])

    def after(self, epoch: int, group: list[Json]) -> Marker:
        """Return the marker after a commit."""
        files = frozenset(map(_digest, group))
        return Marker(epoch, files | self.files if epoch == self.epoch else files)

    def missing(self, table: str, epoch: int, group: list[Json]) -> list[Json]:
        """Return what is not committed."""
        if epoch != self.epoch:
            return group if epoch > self.epoch else []
        missing = [entry for entry in group if _digest(entry) not in self.files]
        if len(missing) == len(group):
            raise StateError(
                f"The Iceberg table {table} holds other output of checkpoint {epoch} of this job already: it seems to"
                " have been set back to an older checkpoint. Continue it as a new job."
            )
        return missing


def marker_key(job: str, operator: str) -> str:
    """Return the property of a table that holds the last checkpoint of a sink."""
    return f"flott.committed.{writer_token(job, operator)}"


def _location(entry: Json) -> str:
    location: str = entry["changes"] if "changes" in entry else entry["file"]["path"]
    return location


def _digest(entry: Json) -> str:
    return blake2b(_location(entry).encode(), digest_size=8).hexdigest()


def _read(io: Any, location: str) -> Any:
    with io.new_input(location).open() as stream:
        return pq.read_table(pa.BufferReader(stream.read()))


def _delete(io: Any, location: str) -> None:
    try:
        io.delete(location)
    except FileNotFoundError:
        pass
    except Exception as error:  # a file without a reference may stay
        log.debug("Cannot delete %s: %s", location, error)


def _files_below(table: Any, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the locations and names of files below a folder of the table, where its storage can be listed."""
    if not hasattr(table.io, "fs_by_scheme"):
        return
    from pyarrow.fs import FileSelector, FileType

    base = f"{table.location().rstrip('/')}/{folder}"
    scheme, netloc, path = table.io.parse_location(base, table.io.properties)
    selector = FileSelector(path, allow_not_found=True, recursive=True)
    for info in table.io.fs_by_scheme(scheme, netloc).get_file_info(selector):
        if info.type == FileType.File:
            yield base + info.path.removeprefix(path), info.base_name
