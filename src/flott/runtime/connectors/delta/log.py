"""The log of a Delta table as steps: the content at a version, and what each version adds or changes. Driver side.

    ["content", v]      all rows at version v
    ["version", v, 0]   what version v adds; with a change feed, what it removes or changes
    ["version", v, 1]   with a change feed, what a version that replaces files adds
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from flott.datastream.connectors.base import Json
from flott.datastream.connectors.delta import DeltaSource
from flott.errors import ConnectorError, ProgramError, StateError
from flott.runtime.connectors.delta.tables import facts_of, find_table, library
from flott.runtime.connectors.files.compression import file_or_path
from flott.runtime.connectors.tables.steps import DataFile, Step
from flott.runtime.storage import open_storage
from flott.runtime.storage.locations import join

VACUUM_ADVICE = (
    "VACUUM removes files that the latest version does not need: keep them longer than the job may be behind"
    " (delta.deletedFileRetentionDuration), or start the job again without its state."
)

Action = dict[str, Any]


class DeltaLog:
    """Reads the log of the table of a :class:`DeltaSource`."""

    def __init__(self, source: DeltaSource):
        self._source = source
        self._table: Any = None
        self._first: Json | None = None

    def open(self) -> None:
        source = self._source
        self._table = find_table(source.table_path, source.storage_options)
        if self._table is None:
            raise ProgramError(f"There is no Delta table at {source.table_path}. Check its spelling.")
        if self._table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise ProgramError(f"The Delta table {source.table_path} maps column names, which Flott does not read.")
        names = facts_of(self._table).schema.names
        if missing := [name for name in source.columns or () if name not in names]:
            raise ProgramError(f"The Delta table {source.table_path} has no column {missing}: it has {names}.")
        self._first = self._first_step()

    def _first_step(self) -> Json:
        source, latest = self._source, self._table.version()
        if source.starting_version is not None:
            start = latest + 1 if source.starting_version == "latest" else int(source.starting_version)
            return ["version", start, 0]
        if source.version is None:
            return ["content", latest]
        if isinstance(source.version, int):
            if source.version > latest:
                raise ProgramError(
                    f"The Delta table {source.table_path} has no version {source.version} yet: {latest}."
                )
            return ["content", source.version]
        return ["content", self._at(source.version).version()]

    def first(self) -> Json | None:
        return self._first

    def close(self) -> None:
        self._table = None

    def load(self, ident: Json) -> Step | None:
        if ident[0] == "content":
            return self._content(ident)
        _, version, stage = ident
        actions = self._actions(version)
        return None if actions is None else self._version(ident, version, stage, actions)

    # --- the content at a version -------------------------------------------------------------------------------------

    def _content(self, ident: Json) -> Step:
        import pyarrow as pa

        table = self._at(ident[1])
        rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        types = self._partition_types(table)
        may_have_vectors = bool(rows) and "deletionVectors" in (table.protocol().reader_features or ())
        if may_have_vectors and pa.table(table.deletion_vectors()).num_rows:
            raise self._has_deletion_vectors(f"version {ident[1]}")
        files = tuple(
            DataFile(
                path := self._location(row["path"]),
                self._rows(path, row["num_records"]),
                constants={name: (_text(row.get(f"partition.{name}")), kind) for name, kind in types.items()},
            )
            for row in sorted(rows, key=lambda row: str(row["path"]))
        )
        after = None if self._source.interval_ms is None else self._following(ident[1])
        return Step(ident, files, after, self._names(table), note=f"version {ident[1]}")

    def _at(self, version: int | str) -> Any:
        deltalake = library()
        try:
            table = find_table(self._source.table_path, self._source.storage_options)
            assert table is not None
            table.load_as_version(version)
            return table
        except (deltalake.exceptions.DeltaError, AssertionError, ValueError) as error:
            raise StateError(
                f"Version {version} of the Delta table {self._source.table_path} cannot be read any more: {error}. Its"
                " log may have been cleaned up (delta.logRetentionDuration): start the job again without its state."
            ) from error

    # --- what a version adds ------------------------------------------------------------------------------------------

    def _actions(self, version: int) -> list[Action] | None:
        """Return the entries of the log of a version; None: it is not there yet."""
        storage = open_storage(self._source.table_path)
        name = f"_delta_log/{version:020d}.json"
        if not storage.exists(name):
            latest = self._latest()
            if version > latest:
                return None
            if not storage.exists(name):  # it may have come in between
                raise StateError(
                    f"The log of version {version} of the Delta table {self._source.table_path} is gone, and the latest"
                    f" is {latest}: it was cleaned up (delta.logRetentionDuration) before the job had read it. Start"
                    " the job again without its state."
                )
        return [json.loads(line) for line in storage.read(name).decode().splitlines() if line.strip()]

    def _latest(self) -> int:
        deltalake = library()
        try:
            self._table.update_incremental()
            return int(self._table.version())
        except deltalake.exceptions.DeltaError as error:
            raise ConnectorError(f"Cannot read the log of {self._source.table_path}: {error}.") from error

    def _version(self, ident: Json, version: int, stage: int, actions: list[Action]) -> Step:
        added = [action["add"] for action in actions if "add" in action and action["add"]["dataChange"]]
        removed = [action["remove"] for action in actions if "remove" in action and action["remove"]["dataChange"]]
        changed = [action["cdc"] for action in actions if "cdc" in action]
        note = f"version {version}"
        if any(entry.get("deletionVector") for entry in added + removed):
            raise self._has_deletion_vectors(note)
        following = self._following(version)
        if self._source.change_feed:
            if changed:
                return self._step(ident, changed, "changes", following, note, ordered=True)
            if removed and stage == 0:
                after = ["version", version, 1] if added else following
                return self._step(ident, removed, "delete", after, note, ordered=True)
            return self._step(ident, added, "insert", following, note, ordered=bool(removed))
        if removed and added and not self._source.ignore_changes:
            raise self._is_changed(version, "replaces rows", "ignore_changes() to read all rows of its new files,")
        if removed and not added and not self._source.ignore_deletes:
            raise self._is_changed(version, "removes rows", "ignore_deletes() to pass over it,")
        return self._step(ident, added, "insert", following, note)

    def _step(
        self, ident: Json, entries: list[Action], kind: str, after: Json | None, note: str, ordered: bool = False
    ) -> Step:
        types = self._partition_types(self._table)
        files = []
        for entry in entries:
            values: Mapping[str, str | None] = entry.get("partitionValues") or {}
            path = self._location(entry["path"])
            stats = json.loads(entry.get("stats") or "{}")
            constants = {name: (values.get(name) or None, kind_) for name, kind_ in types.items()}
            files.append(DataFile(path, self._rows(path, stats.get("numRecords")), kind, constants))
        return Step(ident, tuple(files), after, self._names(self._table), ordered=ordered, note=note)

    def _following(self, version: int) -> Json | None:
        ending = self._source.ending_version
        return None if ending is not None and version >= ending else ["version", version + 1, 0]

    # --- details ------------------------------------------------------------------------------------------------------

    def _names(self, table: Any) -> tuple[str, ...]:
        return self._source.columns or tuple(facts_of(table).schema.names)

    def _partition_types(self, table: Any) -> dict[str, str]:
        facts = facts_of(table)
        return {name: str(facts.schema.field(name).type) for name in facts.partition_columns}

    def _location(self, path: str) -> str:
        path = unquote(path)
        return path if "://" in path else join(self._source.table_path, path)

    def _rows(self, path: str, known: int | None) -> int:
        if known is not None:
            return known
        import pyarrow.parquet as pq

        try:
            return int(pq.read_metadata(file_or_path(path)).num_rows)
        except FileNotFoundError as error:
            raise ConnectorError(f"The data file {path} is gone. {VACUUM_ADVICE}") from error

    def _is_changed(self, version: int, what: str, how: str) -> ProgramError:
        return ProgramError(
            f"Version {version} of the Delta table {self._source.table_path} {what}, but the source reads appended rows"
            f" only. Use {how} or read_change_feed() to read updates and deletes with row kinds."
        )

    def _has_deletion_vectors(self, note: str) -> ProgramError:
        return ProgramError(
            f"The Delta table {self._source.table_path} has deletion vectors in {note}, which Flott does not read."
            " Rewrite its files (REORG TABLE ... APPLY (PURGE)) and set delta.enableDeletionVectors to false."
        )


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
