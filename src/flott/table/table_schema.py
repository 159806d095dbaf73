"""PyFlink's legacy schema: names and types of columns."""

from __future__ import annotations

from collections.abc import Sequence

from flott.errors import ProgramError
from flott.table._types import logical
from flott.table.types import DataType, RowType, data_type_of, logical_type_of

__all__ = ["TableSchema"]


class TableSchema:
    """Names and types of columns. New programs use ``Schema`` and ``ResolvedSchema``."""

    def __init__(self, field_names: Sequence[str] = (), data_types: Sequence[DataType] = ()) -> None:
        if len(field_names) != len(data_types):
            raise ProgramError(f"Found {len(field_names)} names and {len(data_types)} types")
        self._names = list(field_names)
        self._types = list(data_types)

    def copy(self) -> TableSchema:
        """Return an equal schema."""
        return TableSchema(self._names, self._types)

    def get_field_data_types(self) -> list[DataType]:
        """Return the types of the columns."""
        return list(self._types)

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """Return the type of a column, by name or by position from 0; None if there is none."""
        if isinstance(field, int):
            return self._types[field] if 0 <= field < len(self._types) else None
        return self._types[self._names.index(field)] if field in self._names else None

    def get_field_count(self) -> int:
        """Return the number of columns."""
        return len(self._names)

    def get_field_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._names)

    def get_field_name(self, field_index: int) -> str | None:
        """Return the name of a column by its position from 0; None if there is none."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def to_row_data_type(self) -> RowType:
        """Return the columns as a row type."""
        types = (logical_type_of(of) for of in self._types)
        row = data_type_of(logical.row_type(dict(zip(self._names, types, strict=True)), nullable=False))
        assert isinstance(row, RowType)
        return row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSchema) and (self._names, self._types) == (other._names, other._types)

    def __hash__(self) -> int:
        return hash(tuple(self._names))

    def __repr__(self) -> str:
        lines = [f" |-- {name}: {of}" for name, of in zip(self._names, self._types, strict=True)]
        return "\n".join(["root", *lines]) + "\n"

    @classmethod
    def builder(cls) -> TableSchema.Builder:
        """Return a builder without columns."""
        return TableSchema.Builder()

    class Builder:
        """Collects columns."""

        def __init__(self) -> None:
            self._names: list[str] = []
            self._types: list[DataType] = []

        def field(self, name: str, data_type: DataType) -> TableSchema.Builder:
            """Add a column."""
            self._names.append(name)
            self._types.append(data_type)
            return self

        def build(self) -> TableSchema:
            """Return the schema."""
            return TableSchema(self._names, self._types)


def schema_of_row(row: logical.RowType) -> TableSchema:
    """Return the schema of rows."""
    return TableSchema(list(row.names), [data_type_of(of) for of in row.types])
