"""A catalog in memory: databases, and the tables, views and functions in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from flott.table._catalog.catalog_table import CatalogFunction, CatalogTable, CatalogView
from flott.table._sql.errors import SqlError

#: What a name of a database stands for, where rows are meant.
TableObject: TypeAlias = CatalogTable | CatalogView


class CatalogError(SqlError):
    """An object of a catalog is missing, or is there already. A statement adds its place in the text."""


@dataclass
class StoredDatabase:
    """A database with what is in it, by name."""

    properties: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    tables: dict[str, TableObject] = field(default_factory=dict)
    functions: dict[str, CatalogFunction] = field(default_factory=dict)


class StoredCatalog:
    """The databases of a catalog. A subclass keeps them elsewhere as well: ``changed`` is called after every change."""

    def __init__(self, name: str, default_database: str = "default_database"):
        self.name = name
        self.default_database = default_database
        self.databases: dict[str, StoredDatabase] = {default_database: StoredDatabase()}

    def changed(self) -> None:
        """Take note that definitions have changed."""

    def database(self, name: str) -> StoredDatabase:
        """Return a database by name."""
        if name not in self.databases:
            known = ", ".join(sorted(self.databases))
            raise CatalogError(f"Catalog '{self.name}' has no database '{name}'. It has: {known}.")
        return self.databases[name]

    def create_database(
        self, name: str, properties: Mapping[str, str], comment: str | None, ignore_if_exists: bool
    ) -> None:
        """Add an empty database."""
        if name in self.databases:
            if ignore_if_exists:
                return
            raise CatalogError(f"Database '{name}' exists already in catalog '{self.name}'.")
        self.databases[name] = StoredDatabase(dict(properties), comment)
        self.changed()

    def drop_database(self, name: str, ignore_if_missing: bool, cascade: bool) -> None:
        """Remove a database; one that is not empty only with ``cascade``."""
        if name not in self.databases:
            if ignore_if_missing:
                return
            self.database(name)
        held = self.databases[name]
        if (held.tables or held.functions) and not cascade:
            raise CatalogError(
                f"Database '{name}' of catalog '{self.name}' is not empty. Add CASCADE to drop what is in it too."
            )
        del self.databases[name]
        self.changed()

    def put_table(self, database: str, name: str, table: TableObject, *, ignore_if_exists: bool, replace: bool) -> None:
        """Add a table or view."""
        tables = self.database(database).tables
        if name in tables and not replace:
            if ignore_if_exists:
                return
            raise CatalogError(f"Table or view '{self.name}.{database}.{name}' exists already.")
        tables[name] = table
        self.changed()

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table or view."""
        del self.database(database).tables[name]
        self.changed()

    def put_function(self, database: str, name: str, function: CatalogFunction, ignore_if_exists: bool) -> None:
        """Add a function."""
        functions = self.database(database).functions
        if name in functions:
            if ignore_if_exists:
                return
            raise CatalogError(f"Function '{self.name}.{database}.{name}' exists already.")
        functions[name] = function
        self.changed()

    def drop_function(self, database: str, name: str) -> None:
        """Remove a function."""
        del self.database(database).functions[name]
        self.changed()
