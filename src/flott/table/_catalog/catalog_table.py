"""What a catalog holds: tables, views and functions as they were declared. Frozen values.

Expressions are kept as the text that was written; the resolver parses and types them where the table is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flott.table._types.logical import LogicalType


@dataclass(frozen=True)
class PhysicalColumn:
    """A column that the connector reads and writes."""

    name: str
    type: LogicalType
    comment: str | None = None


@dataclass(frozen=True)
class ComputedColumn:
    """A column that is computed from others when the table is read."""

    name: str
    expression: str  #: SQL
    comment: str | None = None


@dataclass(frozen=True)
class MetadataColumn:
    """A column of which the connector knows the value: a topic, an offset, a time."""

    name: str
    type: LogicalType
    key: str | None = None  #: the connector's name of it; None: the column's name
    virtual: bool = False  #: it is read and not written
    comment: str | None = None

    @property
    def metadata_key(self) -> str:
        """Return the connector's name of it."""
        return self.key or self.name


TableColumn: TypeAlias = PhysicalColumn | ComputedColumn | MetadataColumn


@dataclass(frozen=True)
class WatermarkSpec:
    """WATERMARK FOR column AS expression."""

    column: str
    expression: str  #: SQL


@dataclass(frozen=True)
class TableSchema:
    """The declared columns of a table, its event time and its key."""

    columns: tuple[TableColumn, ...]
    watermark: WatermarkSpec | None = None
    primary_key: tuple[str, ...] = ()
    primary_key_name: str | None = None

    @property
    def physical(self) -> tuple[PhysicalColumn, ...]:
        """Return the columns that the connector reads and writes."""
        return tuple(column for column in self.columns if isinstance(column, PhysicalColumn))


@dataclass(frozen=True)
class Identifier:
    """The whole name of an object in a catalog."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return f"`{self.catalog}`.`{self.database}`.`{self.name}`"

    @property
    def summary(self) -> str:
        """Return the name without quotes, as plans print it."""
        return f"{self.catalog}.{self.database}.{self.name}"

    @property
    def is_anonymous(self) -> bool:
        """Return whether Flott made the name up, for elements, a stream or a descriptor that has none."""
        return self.name.startswith("*")


@dataclass(frozen=True)
class CatalogTable:
    """A table over a connector, by its options."""

    schema: TableSchema
    options: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    comment: str | None = None
    distribution: Any = None


@dataclass(frozen=True)
class CatalogView:
    """A named query."""

    query: str  #: SQL with every name spelled out
    columns: tuple[str, ...] = ()  #: names of its own; empty: those of the query
    comment: str | None = None
    original: str = ""  #: SQL as written


@dataclass(frozen=True)
class CatalogFunction:
    """A function in Python, by the place where it is defined."""

    class_name: str  #: module and name
    language: str = "PYTHON"
    function: Any = field(default=None, compare=False)  #: the object itself, for temporary functions
