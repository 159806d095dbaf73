"""Statements about catalogs: CREATE, ALTER, DROP, DESCRIBE and SHOW CREATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flott.table._catalog.in_memory import CatalogError
from flott.table._catalog.kinds import make_catalog
from flott.table._catalog.session_catalogs import CatalogDefinition
from flott.table._connectors.options import shown_options
from flott.table._environment.definitions import options_of
from flott.table._environment.result import StatementResult, names_of, success, table_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.print_expressions import quote_name, quote_text
from flott.table._types.logical import STRING

if TYPE_CHECKING:
    from flott.table._environment.session import SqlSession


def create_catalog(session: SqlSession, statement: sql.SqlCreateCatalog) -> StatementResult:
    """Add a catalog to the session."""
    if statement.name in session.catalogs.catalogs and statement.if_not_exists:
        return success()
    options = options_of(statement.options)
    catalog = make_catalog(statement.name, options)
    session.catalogs.register(statement.name, catalog, CatalogDefinition(options, statement.comment))
    return success()


def alter_catalog(session: SqlSession, statement: sql.SqlAlterCatalog) -> StatementResult:
    """Change the options or the comment of a catalog. One in files is opened again, with what its options say now."""
    catalogs, name = session.catalogs, statement.name
    catalogs.catalog_named(name)
    former = catalogs.definition(name)
    changed = options_of(statement.options)
    if "type" in statement.reset_keys or changed.get("type", former.options["type"]) != former.options["type"]:
        raise SqlError(f"The type of catalog '{name}' cannot be changed: create another catalog.", statement.position)
    kept = {key: value for key, value in former.options.items() if key not in statement.reset_keys}
    comment = former.comment if statement.comment is None else statement.comment
    definition = CatalogDefinition({**kept, **changed}, comment)
    if definition.options["type"] != "generic_in_memory" and definition.options != former.options:
        catalogs.catalogs[name] = make_catalog(name, definition.options)
        if catalogs.catalog == name and catalogs.database not in catalogs.catalogs[name].databases:
            catalogs.use_catalog(name)
    catalogs.definitions[name] = definition
    return success()


def drop_catalog(session: SqlSession, statement: sql.SqlDropCatalog) -> StatementResult:
    """Remove a catalog from the session; the files of one in files stay."""
    catalogs = session.catalogs
    if statement.name not in catalogs.catalogs:
        if statement.if_exists:
            return success()
        catalogs.catalog_named(statement.name)
    if statement.name == catalogs.catalog:
        raise CatalogError(f"Catalog '{statement.name}' is in use: USE CATALOG another one first.")
    del catalogs.catalogs[statement.name]
    catalogs.definitions.pop(statement.name, None)
    return success()


def describe_catalog(session: SqlSession, name: str, *, extended: bool) -> StatementResult:
    """Return what is known of a catalog; extended: with its options."""
    session.catalogs.catalog_named(name)
    definition = session.catalogs.definition(name)
    rows = [("name", name), ("type", definition.options["type"]), ("comment", definition.comment or "")]
    if extended:
        shown = shown_options(definition.options)
        rows += [(f"option:{key}", shown[key]) for key in sorted(shown) if key != "type"]
    return table_of({"info name": STRING, "info value": STRING}, rows)


def show_create_catalog(session: SqlSession, name: str) -> StatementResult:
    """Return the statement that would create a catalog. Secrets among its options are hidden."""
    session.catalogs.catalog_named(name)
    definition = session.catalogs.definition(name)
    comment = f"\nCOMMENT {quote_text(definition.comment)}" if definition.comment else ""
    shown = shown_options(definition.options)
    options = ",\n  ".join(f"{quote_text(key)} = {quote_text(shown[key])}" for key in sorted(shown))
    return names_of("result", [f"CREATE CATALOG {quote_name(name)}{comment}\nWITH (\n  {options}\n)\n"])
