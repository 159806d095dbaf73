"""The schema of a table as a program declares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError
from flott.table._catalog.catalog_table import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableColumn,
    TableSchema,
    WatermarkSpec,
)
from flott.table._sql.parser import parse_expression
from flott.table._types.logical import RowType
from flott.table.expression import Expression
from flott.table.types import DataType, logical_type_of

if TYPE_CHECKING:
    from flott.table.catalog import ResolvedSchema

__all__ = ["Schema"]


class Schema:
    """Columns, event time and key of a table. ``new_builder`` makes one.

    >>> schema = Schema.new_builder().column("a", "INT").column_by_expression("b", "a + 1").build()
    >>> print(schema)
    (
      `a` INT,
      `b` AS a + 1
    )
    """

    def __init__(self, declared: TableSchema) -> None:
        self.declared = declared

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Return a builder without columns."""
        return Schema.Builder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.declared == other.declared

    def __hash__(self) -> int:
        return hash(self.declared)

    def __str__(self) -> str:
        lines = [_describe(column) for column in self.declared.columns]
        if self.declared.watermark is not None:
            lines.append(f"WATERMARK FOR `{self.declared.watermark.column}` AS {self.declared.watermark.expression}")
        if self.declared.primary_key:
            keys = ", ".join(f"`{key}`" for key in self.declared.primary_key)
            name = self.declared.primary_key_name
            constraint = "" if name is None else f"CONSTRAINT `{name}` "
            lines.append(f"{constraint}PRIMARY KEY ({keys}) NOT ENFORCED")
        return "(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)"

    class Builder:
        """Collects the parts of a schema."""

        def __init__(self) -> None:
            self._schema = TableSchema(())

        def from_schema(self, unresolved_schema: Schema) -> Schema.Builder:
            """Take over all parts of another schema."""
            other = unresolved_schema.declared
            for column in other.columns:
                self._add(column)
            if other.watermark is not None:
                self._schema = replace(self._schema, watermark=other.watermark)
            if other.primary_key:
                self._schema = replace(
                    self._schema, primary_key=other.primary_key, primary_key_name=other.primary_key_name
                )
            return self

        def from_resolved_schema(self, resolved_schema: ResolvedSchema) -> Schema.Builder:
            """Take over the columns of a resolved schema."""
            return self.from_fields(resolved_schema.get_column_names(), resolved_schema.get_column_data_types())

        def from_row_data_type(self, data_type: DataType) -> Schema.Builder:
            """Take over the fields of a row type as columns."""
            row = logical_type_of(data_type)
            if not isinstance(row, RowType):
                raise ProgramError(f"Found the type {row}, expected a row type such as DataTypes.ROW([...])")
            for field in row.fields:
                self._add(PhysicalColumn(field.name, field.type, field.description))
            return self

        def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[DataType | str]) -> Schema.Builder:
            """Add columns by their names and types."""
            if len(field_names) != len(field_data_types):
                raise ProgramError(
                    f"Found {len(field_names)} names and {len(field_data_types)} types, expected as many"
                )
            for name, data_type in zip(field_names, field_data_types, strict=True):
                self.column(name, data_type)
            return self

        def column(self, column_name: str, data_type: DataType | str) -> Schema.Builder:
            """Add a column of the connector."""
            return self._add(PhysicalColumn(column_name, logical_type_of(data_type)))

        def column_by_expression(self, column_name: str, expr: str | Expression[Any]) -> Schema.Builder:
            """Add a column that is computed from others."""
            return self._add(ComputedColumn(column_name, _text(expr)))

        def column_by_metadata(
            self,
            column_name: str,
            data_type: DataType | str,
            metadata_key: str | None = None,
            is_virtual: bool = False,
        ) -> Schema.Builder:
            """Add a column whose value the connector knows, such as an offset."""
            return self._add(MetadataColumn(column_name, logical_type_of(data_type), metadata_key, is_virtual))

        def watermark(self, column_name: str, watermark_expr: str | Expression[Any]) -> Schema.Builder:
            """Say which column is the event time, and how watermarks follow it."""
            self._schema = replace(self._schema, watermark=WatermarkSpec(column_name, _text(watermark_expr)))
            return self

        def primary_key(self, *column_names: str) -> Schema.Builder:
            """Say which columns are the key."""
            self._schema = replace(self._schema, primary_key=column_names)
            return self

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Schema.Builder:
            """Say which columns are the key, under a name."""
            self._schema = replace(self._schema, primary_key=column_names, primary_key_name=constraint_name)
            return self

        def build(self) -> Schema:
            """Return the schema."""
            names = [column.name for column in self._schema.columns]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ProgramError(f"Column {twice[0]!r} is declared twice, expected different names")
            return Schema(self._schema)

        def _add(self, column: TableColumn) -> Schema.Builder:
            self._schema = replace(self._schema, columns=(*self._schema.columns, column))
            return self


def _text(expression: str | Expression[Any]) -> str:
    if isinstance(expression, str):
        parse_expression(expression)  # a mistake is told here, where it was written
        return expression
    return str(expression)


def _describe(column: TableColumn) -> str:
    match column:
        case ComputedColumn():
            return f"`{column.name}` AS {column.expression}"
        case MetadataColumn():
            key = "" if column.key is None else f" FROM '{column.key}'"
            return f"`{column.name}` {column.type} METADATA{key}{' VIRTUAL' if column.virtual else ''}"
    return f"`{column.name}` {column.type}"
