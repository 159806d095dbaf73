"""The snapshots of an Iceberg table as steps: the content of one, and what each later one appends. Driver side.

    ["content", s]      all rows of snapshot s
    ["after", s]        what the snapshot after s appends; s is null before the first one
"""

from __future__ import annotations

from typing import Any

from flott.datastream.connectors.base import Json
from flott.datastream.connectors.iceberg import IcebergSource
from flott.errors import ProgramError, StateError
from flott.runtime.connectors.iceberg.tables import failure, find_table, open_catalog
from flott.runtime.connectors.tables.steps import DataFile, Step


class IcebergLog:
    """Reads the snapshots of the table of an :class:`IcebergSource`."""

    def __init__(self, source: IcebergSource):
        self._source = source
        self._catalog: Any = None
        self._table: Any = None
        self._first: Json | None = None

    def open(self) -> None:
        source = self._source
        self._catalog = open_catalog(source.catalog)
        self._table = self._latest()
        names = [field.name for field in self._table.schema().fields]
        if missing := [name for name in source.columns or () if name not in names]:
            raise ProgramError(f"The Iceberg table {source.table} has no column {missing}: it has {names}.")
        self._first = self._first_step()

    def _first_step(self) -> Json:
        source, current = self._source, self._table.current_snapshot()
        known = {snapshot.snapshot_id for snapshot in self._table.snapshots()}
        for wanted in (source.snapshot_id, source.end_at):
            if wanted is not None and wanted not in known:
                raise ProgramError(f"The Iceberg table {source.table} has no snapshot {wanted}, only {sorted(known)}.")
        if source.start_after == "latest":
            return ["after", None if current is None else current.snapshot_id]
        if source.start_after is not None:
            return ["after", source.start_after]
        if source.snapshot_id is not None:
            return ["content", source.snapshot_id]
        if current is not None:
            return ["content", current.snapshot_id]
        return None if source.interval_ms is None else ["after", None]

    def first(self) -> Json | None:
        return self._first

    def close(self) -> None:
        self._catalog = self._table = None

    def load(self, ident: Json) -> Step | None:
        if ident[0] == "content":
            return self._content(ident)
        self._table = self._latest()
        snapshot = self._next_after(ident[1])
        return None if snapshot is None else self._appended(ident, snapshot)

    def _latest(self) -> Any:
        table = find_table(self._source.catalog, self._source.table, self._catalog)
        if table is None:
            raise ProgramError(f"There is no Iceberg table {self._source.table} in the catalog. Check its spelling.")
        return table

    # --- steps --------------------------------------------------------------------------------------------------------

    def _content(self, ident: Json) -> Step:
        snapshot = self._table.snapshot_by_id(ident[1])
        if snapshot is None:
            raise self._is_gone(ident[1])
        try:
            tasks = list(self._table.scan(snapshot_id=ident[1]).plan_files())
        except Exception as error:
            raise failure(self._source.catalog, "list the files of", self._source.table, error) from error
        files = tuple(
            sorted((self._file(task.file, task.delete_files) for task in tasks), key=lambda file: file.path)
        )
        after = None if self._source.interval_ms is None else self._following(ident[1])
        return self._step(ident, files, after, snapshot)

    def _next_after(self, last: int | None) -> Any | None:
        """Return the snapshot after another one in the history of the table; None: there is none yet."""
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self._table.snapshots()}
        current = self._table.current_snapshot()
        if current is None or current.snapshot_id == last:
            return None
        found = current
        while found.parent_snapshot_id != last:
            if found.parent_snapshot_id is None or found.parent_snapshot_id not in by_id:
                raise self._is_gone(last)
            found = by_id[found.parent_snapshot_id]
        return found

    def _appended(self, ident: Json, snapshot: Any) -> Step:
        operation = "append" if snapshot.summary is None else snapshot.summary.operation.value
        after = self._following(snapshot.snapshot_id)
        if operation == "replace":  # the same rows in other files
            return self._step(ident, (), after, snapshot)
        if operation != "append" and not self._source.ignore_changes:
            raise ProgramError(
                f"Snapshot {snapshot.snapshot_id} of the Iceberg table {self._source.table} is of the kind"
                f" {operation!r}, but the source reads appended rows only."
                " Use ignore_changes() to read the rows of its new files."
            )
        files = tuple(map(self._file, self._added(snapshot)))
        return self._step(ident, files, after, snapshot)

    def _added(self, snapshot: Any) -> list[Any]:
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

        added = []
        try:
            for manifest in snapshot.manifests(self._table.io):
                if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
                    for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True):
                        if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id:
                            added.append(entry.data_file)
        except Exception as error:
            raise failure(self._source.catalog, "read the manifests of", self._source.table, error) from error
        return sorted(added, key=lambda file: str(file.file_path))

    def _step(self, ident: Json, files: tuple[DataFile, ...], after: Json | None, snapshot: Any) -> Step:
        schema = self._table.schema()
        fields = schema.fields if self._source.columns is None else map(schema.find_field, self._source.columns)
        named = [(field.name, field.field_id) for field in fields]
        names, ids = tuple(name for name, _ in named), tuple(ident for _, ident in named)
        return Step(ident, files, after, names, ids, note=f"snapshot {snapshot.snapshot_id}")

    def _following(self, last: int) -> Json | None:
        return None if last == self._source.end_at else ["after", last]

    def _file(self, file: Any, deletes: Any = ()) -> DataFile:
        from pyiceberg.manifest import DataFileContent, FileFormat

        if file.file_format is not FileFormat.PARQUET:
            raise ProgramError(f"{file.file_path} is not a Parquet file, which is all that Flott reads of a table.")
        for delete in deletes:
            if delete.content is not DataFileContent.POSITION_DELETES or delete.file_format is not FileFormat.PARQUET:
                raise ProgramError(
                    f"The Iceberg table {self._source.table} has deletes by equality or deletion vectors, which Flott"
                    " does not read. Rewrite its data files."
                )
        paths = tuple(sorted(delete.file_path for delete in deletes))
        return DataFile(file.file_path, file.record_count, deletes=paths)

    def _is_gone(self, snapshot_id: int | None) -> StateError:
        return StateError(
            f"Snapshot {snapshot_id} is not in the history of the Iceberg table {self._source.table}: it has expired,"
            " or the table was rolled back behind it. Start the job again without its state."
        )
