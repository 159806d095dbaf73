"""A state as a DataFrame: what each Spark task reads. The tasks' half needs neither Spark nor Arrow. Either side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flott.snapshots.scans import ItemsScan, StateScan
from flott.snapshots.table_columns import Column, RowShape


@dataclass(frozen=True)
class CellReader:
    """Reads one part of a state as rows of cells. A value: it travels to the tasks."""

    scan: StateScan | ItemsScan
    shape: RowShape

    def __call__(self, part: Any) -> Iterator[tuple[Any, ...]]:
        for rows in self.scan.row_batches(part):
            yield from self.shape.records(rows)


def state_frame(session: Any, parts: Sequence[Any], read: CellReader, columns: tuple[Column, ...]) -> Any:
    """A DataFrame of what a reader gives for each part."""
    from flott.runtime.spark.state_frames import make_frame

    return make_frame(session, parts, read, [(column.name, column.type) for column in columns])
