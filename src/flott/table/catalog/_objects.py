"""What a catalog holds: databases, tables, views and functions, as programs see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flott.table._catalog import catalog_table as stored
from flott.table._types import logical
from flott.table.schema import Schema
from flott.table.table_schema import TableSchema
from flott.table.types import logical_type_of


@dataclass(frozen=True)
class CatalogPartitionSpec:
    """A partition by the values of its columns."""

    partition_spec: Mapping[str, str] = field(default_factory=dict)

    def get_partition_spec(self) -> dict[str, str]:
        """Return the values by column."""
        return dict(self.partition_spec)

    def __str__(self) -> str:
        return f"CatalogPartitionSpec{{{dict(self.partition_spec)}}}"


@dataclass(frozen=True)
class CatalogDatabase:
    """A database of a catalog."""

    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @staticmethod
    def create_instance(properties: dict[str, str], comment: str | None = None) -> CatalogDatabase:
        """Return a database with properties."""
        return CatalogDatabase(dict(properties), comment)

    def get_properties(self) -> dict[str, str]:
        """Return the properties."""
        return dict(self.properties)

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.comment

    def copy(self) -> CatalogDatabase:
        """Return an equal database."""
        return CatalogDatabase(dict(self.properties), self.comment)

    def get_description(self) -> str | None:
        """Return the comment."""
        return self.comment

    def get_detailed_description(self) -> str | None:
        """Return the comment."""
        return self.comment


@dataclass(frozen=True)
class CatalogDescriptor:
    """What a catalog is made of: its name and options such as its type."""

    catalog_name: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @staticmethod
    def of(catalog_name: str, configuration: Mapping[str, str], comment: str | None = None) -> CatalogDescriptor:
        """Return the descriptor of these parts."""
        return CatalogDescriptor(catalog_name, configuration, comment)


class CatalogBaseTable:
    """A table or view of a catalog."""

    def __init__(self, held: stored.CatalogTable | stored.CatalogView) -> None:
        self.held = held

    @staticmethod
    def create_table(
        schema: TableSchema,
        partition_keys: list[str] | None = None,
        properties: dict[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Return a table of columns and options."""
        types = map(logical_type_of, schema.get_field_data_types())
        columns = tuple(map(stored.PhysicalColumn, schema.get_field_names(), types))
        declared = stored.TableSchema(columns)
        return CatalogBaseTable(stored.CatalogTable(declared, properties or {}, tuple(partition_keys or ()), comment))

    @staticmethod
    def create_view(
        original_query: str,
        expanded_query: str,
        schema: TableSchema,
        properties: dict[str, str],
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Return a view of a query."""
        names = tuple(schema.get_field_names())
        return CatalogBaseTable(stored.CatalogView(expanded_query, names, comment, original_query))

    def get_options(self) -> dict[str, str]:
        """Return the options; a view has none."""
        return dict(self.held.options) if isinstance(self.held, stored.CatalogTable) else {}

    def get_unresolved_schema(self) -> Schema:
        """Return the schema as it was declared."""
        if isinstance(self.held, stored.CatalogTable):
            return Schema(self.held.schema)
        return Schema(
            stored.TableSchema(tuple(stored.PhysicalColumn(name, logical.NULL) for name in self.held.columns))
        )

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.held.comment

    def copy(self) -> CatalogBaseTable:
        """Return an equal table."""
        return CatalogBaseTable(self.held)

    def get_description(self) -> str | None:
        """Return the comment."""
        return self.held.comment

    def get_detailed_description(self) -> str | None:
        """Return the comment."""
        return self.held.comment


class CatalogFunction:
    """A function of a catalog, by the place where it is defined."""

    def __init__(self, held: stored.CatalogFunction) -> None:
        self.held = held

    @staticmethod
    def create_instance(class_name: str, function_language: str = "Python") -> CatalogFunction:
        """Return the function of a module and a name such as ``module.function``."""
        return CatalogFunction(stored.CatalogFunction(class_name, function_language.upper()))

    def get_class_name(self) -> str:
        """Return the module and the name."""
        return self.held.class_name

    def copy(self) -> CatalogFunction:
        """Return an equal function."""
        return CatalogFunction(self.held)

    def get_description(self) -> str | None:
        """Return None: functions have no description."""
        return None

    def get_detailed_description(self) -> str | None:
        """Return None: functions have no description."""
        return None

    def get_function_language(self) -> str:
        """Return PYTHON."""
        return self.held.language

    def get_options(self) -> dict[str, str]:
        """Return an empty map: functions have no options."""
        return {}
