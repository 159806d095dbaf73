"""Named rows as columns and back, at the boundary to connectors that know rows only. Task side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common.types import restore_row
from flott.datastream.connectors.base import (
    ColumnRecords,
    Followed,
    Json,
    Pause,
    Records,
    SinkWriter,
    Slice,
    SourceReader,
)
from flott.runtime.connectors.columns.jdbc_columns import database_column
from flott.runtime.connectors.columns.rows import batch_of
from flott.table._types.arrow import arrow_schema
from flott.table._types.logical import LogicalType
from flott.table._types.record_types import TableRowTypeInfo


class NamedRowsReader(SourceReader[Any]):
    """Reads the rows of another reader as columns."""

    def __init__(self, rows: SourceReader[Any], names: tuple[str, ...], types: tuple[LogicalType, ...]):
        self._rows = rows
        self._names, self._types = names, types
        self._schema = arrow_schema(names, types)
        self._record_type = TableRowTypeInfo(names, types)

    def open(self) -> None:
        self._rows.open()

    def read(self, part: Slice) -> Iterator[Any]:
        raise NotImplementedError("Rows of a table are read as columns.")

    def read_batches(self, part: Slice) -> Iterator[ColumnRecords]:
        for batch in self._rows.read_batches(part):
            yield self._columns(batch)

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        with closing(self._rows.follow(parts)) as followed:
            for news in followed:
                if isinstance(news, Pause):
                    yield news
                else:
                    yield news[0], self._columns(news[1])

    def _columns(self, batch: Records[Any] | ColumnRecords) -> ColumnRecords:
        """Return a batch in columns, also one that holds nothing: the task does something else after each batch."""
        assert isinstance(batch, Records)
        rows = batch.values
        places = [rows[0]._fields.index(name) for name in self._names] if rows else []
        cells = [[row._values[place] for row in rows] for place in places] or [[] for _ in self._names]
        arrays = [
            database_column(name, column, of)
            for name, column, of in zip(self._names, cells, self._types, strict=True)
        ]
        codes = np.array([row._row_kind.value for row in rows], dtype=np.int8)
        kinds = codes if codes.any() else None
        return ColumnRecords(batch_of(arrays, self._schema, len(rows)), self._record_type, kinds, batch.rejected)

    def reached(self, part: Slice) -> Json:
        return self._rows.reached(part)

    def locate(self, part: Slice, index: int) -> str:
        return self._rows.locate(part, index)

    def roughly(self, part: Slice, index: int) -> str:
        return self._rows.roughly(part, index)

    def close(self) -> None:
        self._rows.close()


class NamedRowsWriter(SinkWriter[Any]):
    """Hands rows with their kinds to a writer of rows."""

    def __init__(self, names: Sequence[str], rows: SinkWriter[Any]):
        self._names = tuple(names)
        self._rows = rows

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        raise NotImplementedError("Rows of a table are written as columns.")

    def write_columns(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> None:
        cells = [column.to_pylist() for column in columns.columns]
        codes = [0] * columns.num_rows if kinds is None else kinds.tolist()
        names = self._names
        self._rows.write(
            [restore_row(names, row, code) for row, code in zip(zip(*cells, strict=True), codes, strict=True)], None
        )

    def prepare_commit(self) -> list[Json]:
        return self._rows.prepare_commit()

    def close(self) -> None:
        self._rows.close()
