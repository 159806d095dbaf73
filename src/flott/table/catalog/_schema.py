"""Schemas with all types known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from flott.table._types import logical
from flott.table.types import DataType, RowType, data_type_of, logical_type_of


@dataclass(frozen=True)
class Column:
    """A column of a resolved schema."""

    name: str
    data_type: DataType
    comment: str | None = None

    @staticmethod
    def physical(name: str, data_type: DataType) -> PhysicalColumn:
        """Return a column of the connector."""
        return PhysicalColumn(name, data_type)

    @staticmethod
    def computed(name: str, resolved_expression: str, data_type: DataType) -> ComputedColumn:
        """Return a column that is computed from others by SQL."""
        return ComputedColumn(name, data_type, expression=resolved_expression)

    @staticmethod
    def metadata(name: str, data_type: DataType, metadata_key: str | None, is_virtual: bool) -> MetadataColumn:
        """Return a column whose value the connector knows."""
        return MetadataColumn(name, data_type, key=metadata_key, virtual=is_virtual)

    def with_comment(self, comment: str | None) -> Column:
        """Return the column with a comment."""
        return replace(self, comment=comment)

    def is_physical(self) -> bool:
        """Return whether the connector reads and writes the column."""
        return False

    def is_persisted(self) -> bool:
        """Return whether the column is written."""
        return False

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def get_data_type(self) -> DataType:
        """Return the type."""
        return self.data_type

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.comment

    def explain_extras(self) -> str | None:
        """Return what the column has beside its name and type."""
        return None

    def as_summary_string(self) -> str:
        """Return the column as SQL writes it."""
        extras = self.explain_extras()
        return f"{logical.quoted(self.name)} {self.data_type}" + ("" if extras is None else f" {extras}")

    def copy(self, new_type: DataType) -> Column:
        """Return the column with another type."""
        return replace(self, data_type=new_type)

    def rename(self, new_name: str) -> Column:
        """Return the column under another name."""
        return replace(self, name=new_name)


@dataclass(frozen=True)
class PhysicalColumn(Column):
    """A column that the connector reads and writes."""

    def is_physical(self) -> bool:
        return True

    def is_persisted(self) -> bool:
        return True


@dataclass(frozen=True)
class ComputedColumn(Column):
    """A column that is computed from others when the table is read."""

    expression: str = ""

    def get_expression(self) -> str:
        """Return the expression as SQL."""
        return self.expression

    def explain_extras(self) -> str | None:
        return f"AS {self.expression}"


@dataclass(frozen=True)
class MetadataColumn(Column):
    """A column of which the connector knows the value."""

    key: str | None = None
    virtual: bool = False

    def is_virtual(self) -> bool:
        """Return whether the column is read and not written."""
        return self.virtual

    def get_metadata_key(self) -> str | None:
        """Return the connector's name of the column; None if it is the column's."""
        return self.key

    def is_persisted(self) -> bool:
        return not self.virtual

    def explain_extras(self) -> str | None:
        key = "" if self.key is None else f" FROM '{self.key}'"
        return f"METADATA{key}{' VIRTUAL' if self.virtual else ''}"


@dataclass(frozen=True)
class WatermarkSpec:
    """An event-time column and the SQL of its watermark."""

    rowtime_attribute: str
    watermark_expression: str

    @staticmethod
    def of(rowtime_attribute: str, watermark_expression: str) -> WatermarkSpec:
        """Return the watermark of a column."""
        return WatermarkSpec(rowtime_attribute, watermark_expression)

    def get_rowtime_attribute(self) -> str:
        """Return the name of the column."""
        return self.rowtime_attribute

    def get_watermark_expression(self) -> str:
        """Return the watermark as SQL."""
        return self.watermark_expression

    def as_summary_string(self) -> str:
        """Return the watermark as SQL writes it."""
        return f"WATERMARK FOR {logical.quoted(self.rowtime_attribute)} AS {self.watermark_expression}"


@dataclass(frozen=True)
class Constraint:
    """A constraint of a table, under a name."""

    name: str

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    class ConstraintType(Enum):
        """Kinds of constraints."""

        PRIMARY_KEY = 0
        UNIQUE_KEY = 1

    def get_type(self) -> Constraint.ConstraintType:
        """Return the kind of the constraint."""
        return Constraint.ConstraintType.PRIMARY_KEY

    def as_summary_string(self) -> str:
        """Return the constraint as SQL writes it."""
        return f"CONSTRAINT {logical.quoted(self.name)}"

    def is_enforced(self) -> bool:
        """Return False: a constraint is a promise of the program, which is not checked."""
        return False


@dataclass(frozen=True)
class UniqueConstraint(Constraint):
    """A key."""

    columns: tuple[str, ...] = ()

    @staticmethod
    def primary_key(name: str, columns: Sequence[str]) -> UniqueConstraint:
        """Return the key of these columns."""
        return UniqueConstraint(name, tuple(columns))

    def get_columns(self) -> list[str]:
        """Return the columns of the key."""
        return list(self.columns)

    def get_type_string(self) -> str:
        """Return the kind of the constraint as SQL writes it."""
        return "PRIMARY KEY"

    def as_summary_string(self) -> str:
        """Return the constraint as SQL writes it."""
        keys = ", ".join(logical.quoted(name) for name in self.columns)
        return f"CONSTRAINT {logical.quoted(self.name)} PRIMARY KEY ({keys}) NOT ENFORCED"


@dataclass(frozen=True)
class ResolvedSchema:
    """Names and types of columns, and the key."""

    columns: tuple[Column, ...]
    primary_key: UniqueConstraint | None = None
    watermark_specs: tuple[WatermarkSpec, ...] = ()

    @staticmethod
    def of_row(row: logical.RowType) -> ResolvedSchema:
        """Return the schema of rows."""
        return ResolvedSchema(
            tuple(Column(name, data_type_of(of)) for name, of in zip(row.names, row.types, strict=True))
        )

    @staticmethod
    def of(columns: Sequence[Column]) -> ResolvedSchema:
        """Return the schema of columns."""
        return ResolvedSchema(tuple(columns))

    @staticmethod
    def physical(column_names: Sequence[str], column_data_types: Sequence[DataType]) -> ResolvedSchema:
        """Return the schema of names and types."""
        return ResolvedSchema(tuple(map(PhysicalColumn, column_names, column_data_types)))

    def get_column_count(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def get_columns(self) -> list[Column]:
        """Return the columns."""
        return list(self.columns)

    def get_column_names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    def get_column_data_types(self) -> list[DataType]:
        """Return the types of the columns."""
        return [column.data_type for column in self.columns]

    def get_column(self, column_index_or_name: int | str) -> Column | None:
        """Return a column by name or by position from 0; None if there is none."""
        if isinstance(column_index_or_name, int):
            return self.columns[column_index_or_name] if 0 <= column_index_or_name < len(self.columns) else None
        return next((column for column in self.columns if column.name == column_index_or_name), None)

    def get_primary_key(self) -> UniqueConstraint | None:
        """Return the key, if there is one."""
        return self.primary_key

    def get_primary_key_indexes(self) -> list[int]:
        """Return the positions of the key's columns."""
        names = self.get_column_names()
        return [] if self.primary_key is None else [names.index(name) for name in self.primary_key.columns]

    def get_watermark_specs(self) -> list[WatermarkSpec]:
        """Return the event-time columns with their watermarks."""
        return list(self.watermark_specs)

    def to_source_row_data_type(self) -> RowType:
        """Return all columns as a row type."""
        return _row_type(self.columns)

    def to_physical_row_data_type(self) -> RowType:
        """Return the columns of the connector as a row type."""
        return _row_type([column for column in self.columns if column.is_physical()])

    def to_sink_row_data_type(self) -> RowType:
        """Return the columns that are written as a row type."""
        return _row_type([column for column in self.columns if column.is_persisted()])

    def __str__(self) -> str:
        lines = [column.as_summary_string() for column in self.columns]
        lines += [spec.as_summary_string() for spec in self.watermark_specs]
        if self.primary_key is not None:
            lines.append(self.primary_key.as_summary_string())
        return "(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)"


def _row_type(columns: Sequence[Column]) -> RowType:
    row = data_type_of(logical.row_type({one.name: logical_type_of(one.data_type) for one in columns}, nullable=False))
    assert isinstance(row, RowType)
    return row
