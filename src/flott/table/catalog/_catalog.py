"""A catalog as programs see it."""

from __future__ import annotations

from typing import Any, NoReturn

from flott.errors import ProgramError
from flott.table._catalog import catalog_table as stored
from flott.table._catalog.in_memory import CatalogError, StoredCatalog
from flott.table.catalog._names import ObjectPath
from flott.table.catalog._objects import CatalogBaseTable, CatalogDatabase, CatalogFunction


def _refused(what: str) -> Any:
    def refuse(self: Catalog, *arguments: Any, **options: Any) -> NoReturn:
        raise ProgramError(f"Flott's catalogs hold no {what}. See docs/porting.md.")

    refuse.__doc__ = f"Refused: catalogs hold no {what}."
    return refuse


class Catalog:
    """Databases with tables, views and functions. ``TableEnvironment.get_catalog`` returns one."""

    def __init__(self, held: StoredCatalog) -> None:
        self.held = held

    # --- databases --------------------------------------------------------------------------------------------------

    def get_default_database(self) -> str:
        """Return the name of the database that is current when the catalog is."""
        return self.held.default_database

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""
        return sorted(self.held.databases)

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database."""
        found = self.held.database(database_name)
        return CatalogDatabase(dict(found.properties), found.comment)

    def database_exists(self, database_name: str) -> bool:
        """Return whether there is a database."""
        return database_name in self.held.databases

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Add a database."""
        self.held.create_database(name, database.properties, database.comment, ignore_if_exists)

    def drop_database(self, name: str, ignore_if_exists: bool) -> None:
        """Remove an empty database."""
        self.held.drop_database(name, ignore_if_exists, cascade=False)

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        """Replace the properties of a database."""
        if ignore_if_not_exists and name not in self.held.databases:
            return
        found = self.held.database(name)
        found.properties, found.comment = dict(new_database.properties), new_database.comment
        self.held.changed()

    # --- tables -----------------------------------------------------------------------------------------------------

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of tables and views."""
        return sorted(self.held.database(database_name).tables)

    def list_views(self, database_name: str) -> list[str]:
        """Return the names of views."""
        tables = self.held.database(database_name).tables
        return sorted(name for name, held in tables.items() if isinstance(held, stored.CatalogView))

    def list_materialized_tables(self, database_name: str) -> list[str]:
        """Return an empty list: there are no materialized tables."""
        self.held.database(database_name)
        return []

    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table or view."""
        found = self.held.database(table_path.database_name).tables.get(table_path.object_name)
        if found is None:
            raise CatalogError(f"There is no table '{self.held.name}.{table_path}'.")
        return CatalogBaseTable(found)

    def table_exists(self, table_path: ObjectPath) -> bool:
        """Return whether there is a table or view."""
        database = self.held.databases.get(table_path.database_name)
        return database is not None and table_path.object_name in database.tables

    def create_table(self, table_path: ObjectPath, table: CatalogBaseTable, ignore_if_exists: bool) -> None:
        """Add a table or view."""
        self.held.put_table(
            table_path.database_name,
            table_path.object_name,
            table.held,
            ignore_if_exists=ignore_if_exists,
            replace=False,
        )

    def alter_table(self, table_path: ObjectPath, new_table: CatalogBaseTable, ignore_if_not_exists: bool) -> None:
        """Replace a table or view."""
        if self._missing(table_path, ignore_if_not_exists):
            return
        self.held.put_table(
            table_path.database_name, table_path.object_name, new_table.held, ignore_if_exists=False, replace=True
        )

    def drop_table(self, table_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Remove a table or view."""
        if not self._missing(table_path, ignore_if_not_exists):
            self.held.drop_table(table_path.database_name, table_path.object_name)

    def rename_table(self, table_path: ObjectPath, new_table_name: str, ignore_if_not_exists: bool) -> None:
        """Give a table or view another name."""
        if self._missing(table_path, ignore_if_not_exists):
            return
        table = self.get_table(table_path)
        self.create_table(ObjectPath(table_path.database_name, new_table_name), table, ignore_if_exists=False)
        self.held.drop_table(table_path.database_name, table_path.object_name)

    def _missing(self, table_path: ObjectPath, ignore: bool) -> bool:
        if self.table_exists(table_path):
            return False
        if not ignore:
            raise CatalogError(f"There is no table '{self.held.name}.{table_path}'.")
        return True

    # --- functions --------------------------------------------------------------------------------------------------

    def list_functions(self, database_name: str) -> list[str]:
        """Return the names of functions."""
        return sorted(self.held.database(database_name).functions)

    def get_function(self, function_path: ObjectPath) -> CatalogFunction:
        """Return a function."""
        found = self.held.database(function_path.database_name).functions.get(function_path.object_name)
        if found is None:
            raise CatalogError(f"There is no function '{self.held.name}.{function_path}'.")
        return CatalogFunction(found)

    def function_exists(self, function_path: ObjectPath) -> bool:
        """Return whether there is a function."""
        database = self.held.databases.get(function_path.database_name)
        return database is not None and function_path.object_name in database.functions

    def create_function(self, function_path: ObjectPath, function: CatalogFunction, ignore_if_exists: bool) -> None:
        """Add a function."""
        self.held.put_function(function_path.database_name, function_path.object_name, function.held, ignore_if_exists)

    def alter_function(
        self, function_path: ObjectPath, new_function: CatalogFunction, ignore_if_not_exists: bool
    ) -> None:
        """Replace a function."""
        if not self.function_exists(function_path) and ignore_if_not_exists:
            return
        self.get_function(function_path)
        self.held.drop_function(function_path.database_name, function_path.object_name)
        self.create_function(function_path, new_function, ignore_if_exists=False)

    def drop_function(self, function_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Remove a function."""
        if not self.function_exists(function_path) and ignore_if_not_exists:
            return
        self.get_function(function_path)
        self.held.drop_function(function_path.database_name, function_path.object_name)

    # --- what catalogs do not hold ------------------------------------------------------------------------------------

    list_partitions = _refused("partitions; the filesystem connector finds them in its directories")
    get_partition = _refused("partitions; the filesystem connector finds them in its directories")
    partition_exists = _refused("partitions; the filesystem connector finds them in its directories")
    create_partition = _refused("partitions; the filesystem connector finds them in its directories")
    drop_partition = _refused("partitions; the filesystem connector finds them in its directories")
    alter_partition = _refused("partitions; the filesystem connector finds them in its directories")
    list_procedures = _refused("procedures")
    get_procedure = _refused("procedures")
    list_models = _refused("models")
    get_model = _refused("models")
    model_exists = _refused("models")
    drop_model = _refused("models")
    rename_model = _refused("models")
    create_model = _refused("models")
    alter_model = _refused("models")
    get_table_statistics = _refused("statistics")
    get_table_column_statistics = _refused("statistics")
    get_partition_statistics = _refused("statistics")
    bulk_get_partition_statistics = _refused("statistics")
    get_partition_column_statistics = _refused("statistics")
    bulk_get_partition_column_statistics = _refused("statistics")
    alter_table_statistics = _refused("statistics")
    alter_table_column_statistics = _refused("statistics")
    alter_partition_statistics = _refused("statistics")
    alter_partition_column_statistics = _refused("statistics")
