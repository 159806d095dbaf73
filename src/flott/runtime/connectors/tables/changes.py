"""The last row of each key in an epoch: what an upsert merges into its table. Task and driver side.

A task keeps one row for each key, so an epoch costs memory for the keys that change in it, not for all of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.tables.columns import DELETE, UPDATE_BEFORE, cells_of, kinds_of, table_of

#: The column of a file of changes that says whether the key is deleted.
DELETED = "__flott_deleted"


def changes_schema(schema: Any) -> Any:
    """Return the schema of a file of changes to a table of this schema. A deleted row has nothing but its key."""
    fields = [field.with_nullable(True) for field in schema]
    return pa.schema([*fields, pa.field(DELETED, pa.bool_())])


def check_keys(keys: Sequence[str], names: Sequence[str]) -> None:
    """Refuse keys that are no columns."""
    if missing := [key for key in keys if key not in names]:
        raise ProgramError(f"The table has no column {missing} to be a key: it has {list(names)}.")


class LatestRows:
    """Collects changes by key."""

    def __init__(self, schema: Any, keys: Sequence[str]):
        self._schema = schema
        self._names = schema.names
        self._keys = [schema.names.index(key) for key in keys]
        self._rows: dict[tuple[Any, ...], tuple[tuple[Any, ...], bool]] = {}

    def add(self, values: Sequence[Any]) -> None:
        """Take changes in order: a later one of the same key replaces an earlier one."""
        kinds = kinds_of(values)
        if kinds is not None and UPDATE_BEFORE in kinds:  # the row after the update says all
            values = [value for value, kind in zip(values, kinds, strict=True) if kind != UPDATE_BEFORE]
            kinds = bytes(kind for kind in kinds if kind != UPDATE_BEFORE)
        cells = cells_of(values, self._names)
        if not values:
            return
        keys = list(zip(*(cells[index] for index in self._keys), strict=True))
        if any(None in key for key in keys):
            raise TypeMismatchError(
                f"A row of an upsert has a null in its key {[self._names[index] for index in self._keys]}."
            )
        deleted = [False] * len(keys) if kinds is None else [kind == DELETE for kind in kinds]
        rows = zip(zip(*cells, strict=True), deleted, strict=True)
        try:
            self._rows.update(zip(keys, rows, strict=True))
        except TypeError as error:
            raise TypeMismatchError(f"The key of an upsert must be hashable: {error}.") from error

    def __len__(self) -> int:
        return len(self._rows)

    def to_table(self) -> Any:
        """Return one row for each key."""
        kept = list(self._rows.values())
        columns = list(zip(*(row for row, _ in kept), strict=True))
        table = table_of(columns, changes_schema(self._schema).remove(len(self._schema)))
        for field in self._schema:
            if not field.nullable and any(
                row[self._names.index(field.name)] is None and not deleted for row, deleted in kept
            ):
                raise TypeMismatchError(f"Column {field.name} of the table must not be null, found a null in a record.")
        return table.append_column(DELETED, pa.array([deleted for _, deleted in kept], pa.bool_()))


def without_repeated_keys(changes: Any, keys: Sequence[str]) -> Any:
    """Return changes with one row for each key: the last one. Files come in the order of their subtasks."""
    numbered = changes.append_column("__row", pa.array(range(changes.num_rows), pa.int64()))
    last = numbered.group_by(list(keys), use_threads=False).aggregate([("__row", "max")])["__row_max"]
    return changes if len(last) == changes.num_rows else changes.take(last.combine_chunks().sort())
