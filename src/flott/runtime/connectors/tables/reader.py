"""Reads slices of a table's data files as rows. Task side: a file is open only while a slice of it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flott.common.types import restore_row
from flott.datastream.connectors.base import Records, Slice, SourceReader
from flott.errors import ConnectorError, StorageError
from flott.runtime.connectors.tables.columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

#: Rows handed over at once.
BATCH_ROWS = 4096
#: The column of a file of changes that says what each row is.
CHANGE_TYPE = "_change_type"
_CHANGE_CODES = {
    "insert": INSERT,
    "update_preimage": UPDATE_BEFORE,
    "update_postimage": UPDATE_AFTER,
    "delete": DELETE,
}

#: Opens a data file: its path, or a file object that can be read in parts.
Opener = Callable[[str], Any]


class TableReader(SourceReader[Any]):
    """Turns slices of data files into rows."""

    def __init__(self, opener: Opener, advice: str):
        self._opener = opener
        self._advice = advice  #: what to do if a file is gone

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        path = part.detail["path"]
        try:
            for batch, first in self._batches(path, part):
                if values := self._rows(batch, first, part):
                    yield Records(values)
        except FileNotFoundError as error:
            raise self._gone(part) from error
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._gone(part) from error
            raise
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"Cannot read {path}: {error}. Check that it is there and complete.") from error

    def _gone(self, part: Slice) -> ConnectorError:
        note = part.detail["note"]
        return ConnectorError(f"The data file {part.detail['path']} of {note} is gone. {self._advice}")

    def locate(self, part: Slice, index: int) -> str:
        return f"{part.detail['path']}, row {part.start + index} ({part.detail['note']})"

    def _batches(self, path: str, part: Slice) -> Iterator[tuple[Any, int]]:
        """Batches of the rows of a slice, each with the number of its first row in the file."""
        start, stop = part.start, part.stop
        with pq.ParquetFile(self._opener(path), coerce_int96_timestamp_unit="us") as file:  # Spark writes INT96
            if file.metadata.num_rows < stop:
                raise StorageError(f"{path} has only {file.metadata.num_rows} rows, the table's log says {stop}.")
            ends = list(accumulate(file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)))
            wanted = [
                index for index, end in enumerate(ends) if end > start and (ends[index - 1] if index else 0) < stop
            ]
            position = ends[wanted[0] - 1] if wanted and wanted[0] else 0
            columns = _columns(file.schema_arrow, part.detail)
            for batch in file.iter_batches(BATCH_ROWS, row_groups=wanted, columns=columns):
                first, position = position, position + batch.num_rows
                low, high = max(start, first), min(stop, position)
                if low < high:
                    yield batch.slice(low - first, high - low), low

    def _rows(self, batch: Any, first: int, part: Slice) -> list[Any]:
        detail = part.detail
        if deletes := detail.get("deletes"):
            batch = self._without_deleted(batch, first, detail["path"], deletes)
        columns = [self._column(batch, index, name, detail) for index, name in enumerate(detail["names"])]
        names = tuple(detail["names"])
        rows = zip(*columns, strict=True)
        kind = detail.get("kind", "insert")
        if kind == "changes":
            codes = [_CHANGE_CODES[change] for change in batch.column(CHANGE_TYPE).to_pylist()]
            return [restore_row(names, row, code) for row, code in zip(rows, codes, strict=True)]
        code = DELETE if kind == "delete" else INSERT
        return [restore_row(names, row, code) for row in rows]

    @staticmethod
    def _column(batch: Any, index: int, name: str, detail: dict[str, Any]) -> Sequence[Any]:
        if (constant := detail.get("constants", {}).get(name)) is not None:
            return [constant_value(*constant)] * batch.num_rows
        at = _position(batch.schema, name, detail["ids"][index] if "ids" in detail else None)
        if at is None:  # the column was added after the file was written
            return [None] * batch.num_rows
        values: list[Any] = batch.column(at).to_pylist()
        return values

    def _without_deleted(self, batch: Any, first: int, path: str, deletes: Sequence[str]) -> Any:
        """Leave out rows whose position stands in a file of deletes."""
        positions = [self._deleted_positions(file, path) for file in deletes]
        rows = pa.array(range(first, first + batch.num_rows), pa.int64())
        return batch.filter(pc.invert(pc.is_in(rows, pa.concat_arrays(positions))))

    def _deleted_positions(self, file: str, path: str) -> Any:
        table = pq.read_table(self._opener(file), columns=["file_path", "pos"])
        return table.filter(pc.equal(table["file_path"], path))["pos"].combine_chunks()


def _columns(schema: Any, detail: dict[str, Any]) -> list[str] | None:
    """Return the columns of a file to read; None: all of them."""
    positions = [
        _position(schema, name, detail["ids"][index] if "ids" in detail else None)
        for index, name in enumerate(detail["names"])
    ]
    names = [schema.field(at).name for at in positions if at is not None]
    if detail.get("kind") == "changes":
        names.append(CHANGE_TYPE)
    if not names or len(names) == len(schema) or any("." in name for name in names):  # a dot would be a path
        return None
    return names


def _position(schema: Any, name: str, ident: int | None) -> int | None:
    """Return where a column stands in a file: by its id if the file has ids, otherwise by its name."""
    if ident is not None:
        ids = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
        if any(ids):
            return ids.index(str(ident).encode()) if str(ident).encode() in ids else None
    at = schema.get_field_index(name)
    return at if at >= 0 else None


def constant_value(text: str | None, type_name: str) -> Any:
    """Return the value that a log spells as text.

    >>> constant_value("2026-11-18", "date32[day]"), constant_value("7", "int32"), constant_value(None, "int32")
    (datetime.date(2026, 11, 18), 7, None)
    """
    if text is None:
        return None
    kind = _TYPES.get(type_name)
    if kind is None:
        kind = pa.decimal128(*map(int, type_name[11:-1].split(","))) if type_name.startswith("decimal128") else None
    if kind is None or pa.types.is_string(kind):
        return text
    return pa.array([text]).cast(kind)[0].as_py()


_TYPES = {
    str(kind): kind
    for kind in (
        pa.string(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"),
    )
}  # fmt: skip
