"""Reads slices of an Iceberg table's data files. Task side."""

from __future__ import annotations

from typing import Any

from flott.datastream.connectors.iceberg import IcebergSource
from flott.errors import ProgramError
from flott.runtime.connectors.iceberg.tables import TABLES, find_table, table_key
from flott.runtime.connectors.iceberg.writer import local_path
from flott.runtime.connectors.tables.reader import TableReader

EXPIRY_ADVICE = (
    "Expired snapshots are removed with files that no other one needs: keep snapshots longer than the job may be behind"
    " (history.expire.max-snapshot-age-ms), or start the job again without its state."
)


class IcebergReader(TableReader):
    """Reads data files with the table's own file access, which a catalog may give credentials for."""

    def __init__(self, source: IcebergSource):
        super().__init__(self._open_file, EXPIRY_ADVICE)
        self._source = source
        self._table: Any = None

    def _open_file(self, location: str) -> Any:
        if (path := local_path(location)) is not None:
            return path
        if self._table is None:
            self._table = TABLES.take(table_key(self._source.catalog, self._source.table), self._find)
        return self._table.io.new_input(location).open()

    def _find(self) -> Any:
        table = find_table(self._source.catalog, self._source.table)
        if table is None:
            raise ProgramError(f"There is no Iceberg table {self._source.table} in the catalog any more.")
        return table

    def close(self) -> None:
        if self._table is not None:
            TABLES.give_back(table_key(self._source.catalog, self._source.table), self._table, lambda table: None)
            self._table = None
