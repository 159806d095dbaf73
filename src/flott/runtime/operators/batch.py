"""A batch: many records that pass through a chain together. Task side.

A chain costs one call per operator and batch, and the loop over the records is inside the operator. A batch is never
changed once it was emitted, because several consumers may share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final


@final
class RowBatch:
    """Records as Python objects.

    A batch has timestamps for all of its records or for none. The same holds for row kinds, one byte per record with
    the code of its ``RowKind``; without them every record is an insert.
    """

    __slots__ = ("kinds", "timestamps", "values")

    def __init__(self, values: list[Any], timestamps: list[int] | None = None, kinds: bytes | None = None):
        self.values = values
        self.timestamps = timestamps
        self.kinds = kinds

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"RowBatch({self.values!r}, {self.timestamps!r}, {self.kinds!r})"


Batch: TypeAlias = RowBatch

#: Takes a batch.
Emit = Callable[[Batch], None]
