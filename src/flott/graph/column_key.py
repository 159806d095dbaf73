"""The key of records that are columns: which of them make it up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ColumnKey:
    """Selects columns as the key, for ``Hash(KeySpec(ColumnKey((0, 2))))``.

    The key of one column is its value, that of several is a tuple. Without columns all records have the key ``()``: one
    subtask gets them, and its state moves with the key group of that key when the parallelism changes.

    >>> ColumnKey((0, 2))(("a", "b", "c"))
    ('a', 'c')
    >>> ColumnKey((1,))(("a", "b", "c"))
    'b'
    """

    indices: tuple[int, ...]

    def __call__(self, row: Any) -> Any:
        if len(self.indices) == 1:
            return row[self.indices[0]]
        return tuple([row[index] for index in self.indices])
