"""Parquet through pyarrow: the only module that imports it. Positions are row numbers. Driver and task side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from flott.common.types import Row, restore_row
from flott.datastream.connectors.file_system._bulk_writers import ParquetWriterFactory
from flott.datastream.connectors.file_system._formats import ParquetFormat
from flott.errors import ProgramError, StorageError, TypeMismatchError
from flott.runtime.connectors.files.compression import file_or_path

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:  # pragma: no cover
    raise ProgramError("Parquet files need pyarrow: pip install 'flott[parquet]'.") from error

#: So many rows are kept before they are written as a row group.
ROW_GROUP_ROWS = 64 * 1024


def row_groups(path: str) -> tuple[list[int], list[int]]:
    """Return where each row group ends, in rows, and how many bytes each has."""
    try:
        metadata = pq.read_metadata(file_or_path(path))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"Cannot read the footer of {path}: {error}. Is it a complete Parquet file?") from error
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    return list(accumulate(group.num_rows for group in groups)), [group.total_byte_size for group in groups]


def scan_parquet(path: str, start: int, stop: int, format: ParquetFormat) -> Iterator[tuple[list[Any], int]]:
    """Batches of the rows from ``start`` to ``stop``, each with the row number after it."""
    with pq.ParquetFile(file_or_path(path)) as file:
        if file.metadata.num_rows < stop:
            raise StorageError(
                f"{path} has only {file.metadata.num_rows} rows, expected at least {stop}: files must not be rewritten"
                " while they are read."
            )
        _check_columns(path, file.schema_arrow.names, format)
        ends = list(accumulate(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)))
        wanted = [
            index for index, end in enumerate(ends) if end > start and (ends[index - 1] if index else 0) < stop
        ]
        position = ends[wanted[0] - 1] if wanted and wanted[0] else 0
        columns = None if format.columns is None else list(format.columns)
        for batch in file.iter_batches(format.batch_size, row_groups=wanted, columns=columns):
            first, position = position, position + batch.num_rows
            low, high = max(start, first), min(stop, position)
            if low < high:
                yield _records(batch.slice(low - first, high - low), format), high


def _records(batch: Any, format: ParquetFormat) -> list[Any]:
    if format.record == "dict":
        rows: list[Any] = batch.to_pylist()
        return rows
    names = tuple(format.columns or batch.schema.names)
    columns = [batch.column(name).to_pylist() for name in names]
    return [restore_row(names, values) for values in zip(*columns, strict=True)]


def _check_columns(path: str, names: list[str], format: ParquetFormat) -> None:
    missing = [column for column in format.columns or () if column not in names]
    if missing:
        raise TypeMismatchError(f"{path} has no column {', '.join(missing)}: it has {', '.join(names)}.")


class ParquetFileWriter:
    """Writes the rows of one file. Nothing is on the disk before there is a row group's worth of them."""

    def __init__(self, path: str, factory: ParquetWriterFactory):
        self._path = path
        self._factory = factory
        self._schema = _arrow_schema(factory.schema)
        self._names = None if self._schema is None else frozenset(self._schema.names)
        self._rows: list[dict[str, Any]] = []
        self._writer: Any = None

    def add(self, values: list[Any]) -> None:
        """Take some records."""
        self._rows += [self._row(value) for value in values]
        if len(self._rows) >= ROW_GROUP_ROWS:
            self._flush()

    def finish(self) -> None:
        """Write what is left and the footer."""
        self._flush()
        self.close()

    def close(self) -> None:
        """Let go of the file, complete or not."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _row(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            row = value
        elif isinstance(value, Row) and value._fields is not None:
            row = value.as_dict(True)
        elif isinstance(value, (tuple, Row)) and self._schema is not None and len(value) == len(self._schema.names):
            row = dict(zip(self._schema.names, value, strict=True))
        else:
            raise TypeMismatchError(f"A Parquet file holds dicts and rows with field names, found {value!r}.")
        if self._names is not None and not row.keys() <= self._names:
            strange = sorted(row.keys() - self._names)
            raise TypeMismatchError(f"The schema has no field {strange}, found it in {row!r}: pass a complete schema.")
        return row

    def _flush(self) -> None:
        if not self._rows and self._writer is not None:
            return
        try:
            table = pa.Table.from_pylist(self._rows, schema=self._schema or self._inferred())
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TypeMismatchError(
                f"Records do not fit the Parquet schema: {error}. Pass BulkWriterFactory.parquet(schema) with the right"
                " types."
            ) from error
        if self._writer is None:
            self._schema, self._names = table.schema, frozenset(table.schema.names)
            self._writer = pq.ParquetWriter(self._path, table.schema, compression=self._factory.compression)
        self._writer.write_table(table)
        self._rows = []

    def _inferred(self) -> Any:
        """Return the schema of the rows so far: Arrow by itself would look at the fields of the first row only."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        return pa.schema([(name, pa.array([row.get(name) for row in self._rows]).type) for name in names])


def _arrow_schema(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    try:
        return pa.schema([(name, pa.type_for_alias(kind) if isinstance(kind, str) else kind)
                          for name, kind in schema.items()])  # fmt: skip
    except ValueError as error:
        raise ProgramError(f"Found the Parquet schema {schema}: {error}. Use Arrow's names, such as int64.") from error
