"""Tables over connectors as values: ``TableDescriptor.for_connector("datagen").schema(...).build()``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flott.common.config_options import ConfigOption
from flott.errors import ProgramError
from flott.table._catalog.catalog_table import CatalogTable, TableSchema
from flott.table.schema import Schema

__all__ = ["FormatDescriptor", "TableDescriptor"]


def _key(key: str | ConfigOption[Any]) -> str:
    return key if isinstance(key, str) else key.key


def _value(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class FormatDescriptor:
    """The format of a table's records with its options, whose names lack the format's prefix."""

    format: str
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Return a builder for a format such as json."""
        return FormatDescriptor.Builder(format)

    def get_format(self) -> str:
        """Return the name of the format."""
        return self.format

    def get_options(self) -> dict[str, str]:
        """Return the options of the format."""
        return dict(self.options)

    def __str__(self) -> str:
        return f"{self.format}[{', '.join(f'{key}={value}' for key, value in self.options)}]"

    class Builder:
        """Collects the options of a format."""

        def __init__(self, format: str) -> None:
            self._format = FormatDescriptor(format)

        def option(self, key: str | ConfigOption[Any], value: Any) -> FormatDescriptor.Builder:
            """Set an option of the format, without the format's prefix."""
            options = {**self._format.get_options(), _key(key): _value(value)}
            self._format = replace(self._format, options=tuple(options.items()))
            return self

        def build(self) -> FormatDescriptor:
            """Return the format."""
            return self._format


class TableDescriptor:
    """A table over a connector."""

    def __init__(self, table: CatalogTable, schema: Schema | None = None) -> None:
        self.table = table
        self._schema = schema

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Return a builder for a connector such as filesystem."""
        return TableDescriptor.Builder({"connector": connector})

    @staticmethod
    def for_managed() -> TableDescriptor.Builder:
        """Return a builder for a table whose connector the catalog chooses."""
        return TableDescriptor.Builder({})

    def get_schema(self) -> Schema | None:
        """Return the schema, if one was given."""
        return self._schema

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self.table.options)

    def get_partition_keys(self) -> list[str]:
        """Return the columns by which the table is partitioned."""
        return list(self.table.partitioned_by)

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.table.comment

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDescriptor) and (self.table, self._schema) == (other.table, other._schema)

    def __hash__(self) -> int:
        return hash(tuple(self.table.options.items()))

    def __str__(self) -> str:
        schema = "" if self._schema is None else str(self._schema)
        options = ",\n".join(f"  '{key}' = '{value}'" for key, value in self.table.options.items())
        partitioned = ", ".join(f"`{key}`" for key in self.table.partitioned_by)
        comment = "" if self.table.comment is None else f"\nCOMMENT '{self.table.comment}'"
        by = f"\nPARTITIONED BY ({partitioned})" if partitioned else ""
        return f"{schema}{comment}{by}\nWITH (\n{options}\n)"

    class Builder:
        """Collects the parts of a table."""

        def __init__(self, options: dict[str, str]) -> None:
            self._options = options
            self._schema: Schema | None = None
            self._partition_keys: tuple[str, ...] = ()
            self._comment: str | None = None

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the schema."""
            self._schema = schema
            return self

        def option(self, key: str | ConfigOption[Any], value: Any) -> TableDescriptor.Builder:
            """Set an option of the connector."""
            self._options[_key(key)] = _value(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: ConfigOption[str] | None = None
        ) -> TableDescriptor.Builder:
            """Set the format of records, as ``format`` or as another option such as ``value.format``."""
            option = "format" if format_option is None else format_option.key
            if isinstance(format, str):
                self._options[option] = format
                return self
            self._options[option] = format.get_format()
            if not option.endswith("format"):
                raise ProgramError(f"The option is {option!r}, expected one that ends with 'format'")
            prefix = option.removesuffix("format") + format.get_format()
            self._options.update({f"{prefix}.{key}": value for key, value in format.get_options().items()})
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Set the columns by which the table is partitioned."""
            self._partition_keys = partition_keys
            return self

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """Return the table."""
            declared = TableSchema(()) if self._schema is None else self._schema.declared
            table = CatalogTable(declared, dict(self._options), self._partition_keys, self._comment)
            return TableDescriptor(table, self._schema)
