"""A batch: many records that pass through a chain together. Task side.

A chain costs one call per operator and batch, and the loop over the records is inside the operator. A batch has one of
two forms: rows (Python objects) or columns (an Arrow record batch). An operator declares which form it accepts, and a
batch is converted where it enters an operator that accepts only the other form, never record by record. A batch is
not changed once it was emitted, because several consumers may share it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, final

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation


#: No operator emits more records at once than this many times the batch it got, however many a function produces.
MAX_BATCH_RECORDS = 2048


class Form(Enum):
    """Which batches an operator accepts."""

    ROWS = "rows"
    COLUMNS = "columns"
    EITHER = "either"


@final
class RowBatch:
    """Records as Python objects.

    A batch has timestamps for all of its records or for none. The same holds for row kinds, one byte per record with
    the code of its ``RowKind``; without them every record is an insert. Records of the class ``Row`` hold their kind
    themselves, and batches of them have no row kinds.
    """

    __slots__ = ("kinds", "timestamps", "values")

    def __init__(self, values: list[Any], timestamps: list[int] | None = None, kinds: bytes | None = None):
        self.values = values
        self.timestamps = timestamps
        self.kinds = kinds

    def __len__(self) -> int:
        return len(self.values)

    def to_rows(self) -> RowBatch:
        """Return the batch itself."""
        return self

    def to_columns(self, record_type: TypeInformation) -> ColumnBatch:
        """Return the batch as columns. Raises ``TypeMismatchError`` if a record has no columnar form."""
        from flott.runtime.operators.arrow import columns_of  # pyarrow is optional: only columns need it

        return columns_of(self, record_type)

    def __repr__(self) -> str:
        return f"RowBatch({self.values!r}, {self.timestamps!r}, {self.kinds!r})"


@final
class ColumnBatch:
    """Records as an Arrow record batch, with timestamps (int64) and row kinds (int8) as arrays beside it.

    ``record_type`` says which Python object a row stands for: a tuple, a ``Row``, or the only column's value.
    """

    __slots__ = ("_rows", "columns", "kinds", "record_type", "timestamps")

    def __init__(self, columns: Any, record_type: TypeInformation, timestamps: Any = None, kinds: Any = None):
        self.columns = columns
        self.record_type = record_type
        self.timestamps = timestamps
        self.kinds = kinds
        self._rows: RowBatch | None = None

    def __len__(self) -> int:
        return self.columns.num_rows  # type: ignore[no-any-return]

    def to_rows(self) -> RowBatch:
        """Return the batch as rows; they are made once, however many consumers ask for them."""
        if self._rows is None:
            from flott.runtime.operators.arrow import rows_of

            self._rows = rows_of(self)
        return self._rows

    def to_columns(self, record_type: TypeInformation) -> ColumnBatch:
        """Return the batch itself: its columns are as its producer declared them."""
        return self

    def take(self, indices: Any) -> ColumnBatch:
        """Return a batch of the rows at these positions (a list or a numpy array), in this order."""
        from flott.runtime.operators.arrow import taken

        return taken(self, indices)

    def slice(self, start: int, stop: int) -> ColumnBatch:
        """Return a batch of some consecutive rows, without copying them."""
        size = stop - start
        return ColumnBatch(
            self.columns.slice(start, size),
            self.record_type,
            None if self.timestamps is None else self.timestamps.slice(start, size),
            None if self.kinds is None else self.kinds.slice(start, size),
        )

    def __repr__(self) -> str:
        return f"ColumnBatch({self.columns.schema.names}, {len(self)} rows, {self.record_type!r})"


Batch: TypeAlias = RowBatch | ColumnBatch

#: Takes a batch.
Emit = Callable[[Batch], None]


class Coalescer:
    """Joins small batches into large ones, in front of an output.

    Where input comes key by key, so does output: a batch for each key, often of one record. What follows works on
    whole batches, so it is worth collecting them.
    """

    __slots__ = ("_emit", "_timestamps", "_values")

    def __init__(self, emit: Emit):
        self._emit = emit
        self._values: list[Any] = []
        self._timestamps: list[int] | None = None

    def emit(self, batch: Batch) -> None:
        """Take a batch."""
        if batch.__class__ is ColumnBatch or batch.kinds is not None:
            self.flush()
            self._emit(batch)
            return
        rows = batch.to_rows()
        values, timestamps = rows.values, rows.timestamps
        if self._values and (self._timestamps is None) is not (timestamps is None):
            self.flush()  # a batch has timestamps for all of its records or for none
        if not self._values:
            self._timestamps = None if timestamps is None else []
        self._values += values
        if timestamps is not None and self._timestamps is not None:
            self._timestamps += timestamps
        if len(self._values) >= MAX_BATCH_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Pass on what was collected."""
        if self._values:
            values, timestamps = self._values, self._timestamps
            self._values, self._timestamps = [], None
            self._emit(RowBatch(values, timestamps))
