"""Rows in memory as a table's source: VALUES, ``from_elements``, ``from_pandas``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.datastream.connectors.base import (
    Boundedness,
    ColumnRecords,
    Json,
    Slice,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.table._types.record_types import TableRowTypeInfo

#: Rows that are handed over at once.
_BATCH_ROWS = 65_536


class MemorySource(Source[Any]):
    """Columns that travel with the program: an Arrow table, and the row kinds of a changelog."""

    def __init__(self, columns: Any, record_type: TableRowTypeInfo, kinds: bytes | None = None):
        self._columns = columns.combine_chunks()
        self._record_type = record_type
        self._kinds = kinds

    @property
    def columns(self) -> Any:
        """Return the rows as an Arrow table."""
        return self._columns

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self._columns.num_rows)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def preferred_parallelism(self) -> int:
        return 1

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.collection import CollectionEnumerator

        return CollectionEnumerator(self._columns.num_rows, None)

    def create_reader(self) -> SourceReader[Any]:
        return _MemoryReader(self._columns, self._record_type, self._kinds)

    def __repr__(self) -> str:
        return f"MemorySource({self._columns.num_rows} rows)"


class _MemoryReader(SourceReader[Any]):
    def __init__(self, columns: Any, record_type: TableRowTypeInfo, kinds: bytes | None):
        self._columns = columns
        self._record_type = record_type
        self._kinds = kinds

    def read(self, part: Slice) -> Iterator[Any]:
        return iter(self._columns.slice(part.start, part.stop - part.start).to_pylist())

    def read_batches(self, part: Slice) -> Iterator[ColumnRecords]:
        import numpy as np

        for start in range(part.start, part.stop, _BATCH_ROWS):
            stop = min(start + _BATCH_ROWS, part.stop)
            kinds = None if self._kinds is None else np.frombuffer(self._kinds, np.int8)[start:stop]
            for batch in self._columns.slice(start, stop - start).combine_chunks().to_batches():
                yield ColumnRecords(batch, self._record_type, kinds)

    def locate(self, part: Slice, index: int) -> str:
        return f"row {part.start + index} of the rows in memory"

    def reached(self, part: Slice) -> Json:
        return part.stop
