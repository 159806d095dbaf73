"""The catalogs of a session: what is current, temporary objects, and how names are completed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from flott.table._catalog.catalog_table import CatalogFunction, CatalogTable, Identifier
from flott.table._catalog.in_memory import CatalogError, StoredCatalog, TableObject

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"


@dataclass(frozen=True)
class CatalogDefinition:
    """How a catalog was created."""

    options: Mapping[str, str] = field(default_factory=lambda: {"type": "generic_in_memory"})
    comment: str | None = None


class SessionCatalogs:
    """All that names can stand for. Temporary objects hide permanent ones of the same name."""

    def __init__(self, catalog: str = DEFAULT_CATALOG, database: str = DEFAULT_DATABASE) -> None:
        self.catalogs: dict[str, StoredCatalog] = {catalog: StoredCatalog(catalog, database)}
        self.definitions: dict[str, CatalogDefinition] = {}
        self.catalog = catalog
        self.database = database
        self.temporary_tables: dict[Identifier, TableObject | Any] = {}
        self.temporary_functions: dict[Identifier, CatalogFunction] = {}
        self.system_functions: dict[str, CatalogFunction] = {}  #: temporary, of no database; names in lower case

    # --- names -------------------------------------------------------------------------------------------------------

    def identifier(self, path: tuple[str, ...]) -> Identifier:
        """Return the whole name that one to three parts stand for."""
        if not 1 <= len(path) <= 3:
            raise CatalogError(f"A name has one to three parts, found {'.'.join(path)!r}.")
        return Identifier(*((self.catalog, self.database)[: 3 - len(path)] + tuple(path)))

    def catalog_named(self, name: str) -> StoredCatalog:
        """Return a catalog by name."""
        if name not in self.catalogs:
            raise CatalogError(f"There is no catalog '{name}'. There are: {', '.join(sorted(self.catalogs))}.")
        return self.catalogs[name]

    def definition(self, name: str) -> CatalogDefinition:
        """Return how a catalog was created; one that the program registered is shown as one in memory."""
        return self.definitions.get(name) or CatalogDefinition()

    def register(self, name: str, catalog: StoredCatalog, definition: CatalogDefinition | None = None) -> None:
        """Add a catalog."""
        if name in self.catalogs:
            raise CatalogError(f"Catalog '{name}' exists already.")
        self.catalogs[name] = catalog
        if definition is not None:
            self.definitions[name] = definition

    def use_catalog(self, name: str) -> None:
        """Make a catalog current, with its default database."""
        self.database = self.catalog_named(name).default_database
        self.catalog = name

    def use_database(self, path: tuple[str, ...]) -> None:
        """Make a database current."""
        catalog = path[0] if len(path) == 2 else self.catalog
        self.catalog_named(catalog).database(path[-1])
        self.catalog, self.database = catalog, path[-1]

    # --- tables ------------------------------------------------------------------------------------------------------

    def find(self, path: tuple[str, ...]) -> tuple[Identifier, TableObject | Any] | None:
        """Return what a name stands for: a table, a view, or what the program registered; None if nothing."""
        identifier = self.identifier(path)
        if identifier in self.temporary_tables:
            return identifier, self.temporary_tables[identifier]
        catalog = self.catalogs.get(identifier.catalog)
        database = None if catalog is None else catalog.databases.get(identifier.database)
        found = None if database is None else database.tables.get(identifier.name)
        return None if found is None else (identifier, found)

    def get(self, path: tuple[str, ...]) -> tuple[Identifier, TableObject | Any]:
        """Return what a name stands for, or raise an error that suggests a name."""
        found = self.find(path)
        if found is None:
            raise CatalogError(f"There is no table '{'.'.join(path)}'.{self._suggestion(path[-1], self.table_names())}")
        return found

    def put_table(
        self, identifier: Identifier, table: TableObject | Any, *, temporary: bool, ignore: bool, replace: bool = False
    ) -> None:
        """Add a table or view."""
        if temporary:
            if identifier in self.temporary_tables and not replace:
                if ignore:
                    return
                raise CatalogError(f"Temporary table or view '{identifier.summary}' exists already.")
            self.temporary_tables[identifier] = table
            return
        catalog = self.catalog_named(identifier.catalog)
        catalog.put_table(identifier.database, identifier.name, table, ignore_if_exists=ignore, replace=replace)

    def drop_table(self, path: tuple[str, ...], *, view: bool, temporary: bool, if_exists: bool) -> bool:
        """Remove a table or view; return whether it was there."""
        identifier = self.identifier(path)
        what = "view" if view else "table"
        held = self.temporary_tables.get(identifier) if temporary else (self.find(path) or (None, None))[1]
        if held is None or (_is_view(held) is not view):
            if if_exists:
                return False
            kind = f"temporary {what}" if temporary else what
            raise CatalogError(
                f"There is no {kind} '{identifier.summary}'.{self._suggestion(identifier.name, self.table_names())}"
            )
        if identifier in self.temporary_tables:
            if not temporary:
                raise CatalogError(
                    f"A temporary {what} is called '{identifier.summary}'. Drop it with DROP TEMPORARY {what.upper()}"
                    " first."
                )
            del self.temporary_tables[identifier]
            return True
        self.catalog_named(identifier.catalog).drop_table(identifier.database, identifier.name)
        return True

    def tables_in(self, catalog: str, database: str) -> Iterator[tuple[str, TableObject | Any]]:
        """Return the tables and views of a database by name, temporary ones among them, anonymous ones not."""
        held = dict(self.catalog_named(catalog).database(database).tables)
        for identifier, table in self.named_temporary_tables():
            if (identifier.catalog, identifier.database) == (catalog, database):
                held[identifier.name] = table
        yield from sorted(held.items())

    def named_temporary_tables(self) -> Iterator[tuple[Identifier, TableObject | Any]]:
        """Return the temporary tables and views that a user can name in a statement."""
        return ((one, table) for one, table in self.temporary_tables.items() if not one.is_anonymous)

    def table_names(self) -> list[str]:
        """Return the names that may be written without a database."""
        try:
            return [name for name, _ in self.tables_in(self.catalog, self.database)]
        except CatalogError:
            return []

    # --- functions ---------------------------------------------------------------------------------------------------

    def find_function(self, path: tuple[str, ...]) -> CatalogFunction | None:
        """Return the function that a name stands for; names of functions ignore case."""
        if len(path) == 1 and path[0].lower() in self.system_functions:
            return self.system_functions[path[0].lower()]
        identifier = self.identifier(path)
        for known, function in self.temporary_functions.items():
            if _same_name(known, identifier):
                return function
        catalog = self.catalogs.get(identifier.catalog)
        database = None if catalog is None else catalog.databases.get(identifier.database)
        for name, function in () if database is None else database.functions.items():
            if name.lower() == identifier.name.lower():
                return function
        return None

    def function_names(self) -> list[str]:
        """Return the names of functions that may be written without a database."""
        names = {*self.system_functions, *(one.name for one in self.temporary_functions)}
        catalog = self.catalogs.get(self.catalog)
        if catalog is not None and self.database in catalog.databases:
            names |= set(catalog.databases[self.database].functions)
        return sorted(names)

    def _suggestion(self, name: str, known: list[str]) -> str:
        near = get_close_matches(name, known, 1)
        if near:
            return f" Did you mean '{near[0]}'?"
        return f" There are: {', '.join(known[:10])}." if known else ""


def _is_view(table: TableObject | Hashable) -> bool:
    return not isinstance(table, CatalogTable)


def _same_name(one: Identifier, other: Identifier) -> bool:
    return (one.catalog, one.database, one.name.lower()) == (other.catalog, other.database, other.name.lower())
