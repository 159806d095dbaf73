"""The kind of columnar tables: what files and tools need to know of them. Tables themselves are in ``column_tables``.

This module imports neither numpy nor pyarrow, because every task knows all kinds of state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from flott.errors import ConfigurationError, CorruptStateError
from flott.runtime.managed_state.files.column_bodies import Cursor, Parts, spell_number
from flott.runtime.managed_state.files.section_columns import SectionTypes
from flott.runtime.managed_state.kinds.table_kind import Entry, ReturnedShape, TableKind, Wanted

if TYPE_CHECKING:
    from flott.runtime.managed_state.kinds.column_tables import ColumnTable

#: The version of the format of a delta.
COLUMN_FORMAT = 1
NAME = "columns"


class ColumnDelta(NamedTuple):
    """Rows that were put, and keys that were deleted, each as a message of Arrow's IPC format without its schema."""

    version: int
    schema: bytes  #: Arrow's message of a schema: the key columns, then the value columns
    keys: int  #: how many columns make up the key
    grouping: int  #: how many of them decide the key group
    rows: bytes  #: empty: none
    deleted: bytes


def checked(delta: ColumnDelta) -> ColumnDelta:
    """Return a delta if this version can read it."""
    if delta.version != COLUMN_FORMAT:
        raise CorruptStateError(
            f"Columns of state are written in version {delta.version} of their format, and this version of Flott knows"
            f" version {COLUMN_FORMAT}. Use the version of Flott that wrote them, or a later one."
        )
    return delta


class ColumnTableKind(TableKind["ColumnTable", ColumnDelta]):
    """The kind of columnar tables. They are in memory with every backend."""

    name = NAME

    def make(self, namespaced: bool) -> ColumnTable:
        try:
            from flott.runtime.managed_state.kinds.column_tables import ColumnTable
        except ImportError as error:
            raise ConfigurationError(
                "Columnar state needs the packages numpy and pyarrow where tasks run: pip install 'flott[table]'."
            ) from error
        return ColumnTable(namespaced)

    # --- files -------------------------------------------------------------------------------------------------------

    def from_plain(self, plain: Any) -> ColumnDelta:
        return checked(ColumnDelta(*plain))

    def write(self, types: SectionTypes, delta: ColumnDelta, parts: Parts) -> None:
        parts += (spell_number(delta.version), spell_number(delta.keys), spell_number(delta.grouping))
        for blob in (delta.schema, delta.rows, delta.deleted):
            parts += (spell_number(len(blob)), blob)

    def read(self, types: SectionTypes, cursor: Cursor) -> ColumnDelta:
        version, keys, grouping = cursor.number(), cursor.number(), cursor.number()
        schema, rows, deleted = (bytes(cursor.take(cursor.number())) for _ in range(3))
        return checked(ColumnDelta(version, schema, keys, grouping, rows, deleted))

    def part(self, delta: ColumnDelta, wanted: Wanted) -> tuple[ColumnDelta, bool]:
        from flott.runtime.managed_state.columns.deltas import part_of

        found, any_found = part_of(delta, wanted)
        return found, any_found and delta.keys == delta.grouping  # otherwise older deltas may have more rows of a key

    # --- rows for users ----------------------------------------------------------------------------------------------

    def entries(self, table: ColumnTable) -> Iterator[Entry]:
        for key, held in table.contents():
            yield key, None, held

    def release(self, table: ColumnTable) -> Iterator[Entry]:
        held = list(table.contents())
        table.remove_all()
        for key, content in held:
            yield key, None, content

    def transform(self, table: ColumnTable, change: Callable[[Any, Any, Any], Any]) -> None:
        table.transform(lambda key, held: change(key, None, held))

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        if changed is not None and not isinstance(changed, Mapping | list):
            raise shape.refusal(changed, "a dict of columns, or a list of them where a key has several rows")
        return changed


COLUMN_TABLES = ColumnTableKind()
