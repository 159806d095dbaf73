"""Reads the files that a DataFrame was written as. Driver and task side."""

from __future__ import annotations

from flott.datastream.connectors.base import Json, SourceReader
from flott.datastream.connectors.spark import DataFrameSource
from flott.errors import StateError
from flott.runtime.connectors.files.compression import file_or_path
from flott.runtime.connectors.files.discovery import find_files
from flott.runtime.connectors.files.parquet import row_groups
from flott.runtime.connectors.tables.enumerator import TableEnumerator
from flott.runtime.connectors.tables.reader import TableReader
from flott.runtime.connectors.tables.steps import DataFile, Step
from flott.runtime.storage import open_storage


class DataFrameEnumerator(TableEnumerator):
    """Plans the reading, and deletes the files when a checkpoint says that they were read."""

    def __init__(self, source: DataFrameSource):
        super().__init__(DataFrameLog(source), None)
        self._source = source

    def acknowledge(self) -> None:
        if self.is_finished and not self._source.keep:
            storage = open_storage(self._source.folder)
            if storage.exists("."):
                storage.delete_folder(".")


class DataFrameLog:
    """The one step of a DataFrame: all of its rows."""

    def __init__(self, source: DataFrameSource):
        self._source = source

    def open(self) -> None:
        """Do nothing: if all rows were read, there are no files any more."""

    def first(self) -> Json:
        return ["rows", 0]

    def load(self, ident: Json) -> Step:
        folder = self._source.folder
        if not open_storage(folder).exists("_SUCCESS"):
            raise StateError(
                f"The rows of a DataFrame are to be read from {folder}, but they are not there, or not complete. They"
                " are deleted when all of them were read: run the program again, or use from_spark(..., keep=True)."
            )
        files = []
        for file in find_files([folder]):
            ends, _ = row_groups(file.path)
            if ends:
                files.append(DataFile(file.path, ends[-1]))
        return Step(ident, tuple(files), None, self._source.names, note=f"the DataFrame in {folder}")

    def close(self) -> None:
        """Do nothing: no file is open."""


def make_reader() -> SourceReader[object]:
    """Return the reader of the files."""
    return TableReader(file_or_path, "Run the program again.")
