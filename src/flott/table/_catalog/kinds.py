"""The kinds of catalogs, by the option 'type' of CREATE CATALOG."""

from __future__ import annotations

from collections.abc import Mapping

from flott.table._catalog.file_catalog import FileCatalog
from flott.table._catalog.in_memory import CatalogError, StoredCatalog


def make_catalog(name: str, options: Mapping[str, str]) -> StoredCatalog:
    """Return a new catalog of the type that options name."""
    kind = options.get("type")
    default = options.get("default-database", "default")
    if kind == "generic_in_memory":
        return StoredCatalog(name, default)
    if kind == "file":
        path = options.get("path")
        if not path:
            raise CatalogError(f"Catalog '{name}' of the type 'file' needs the option 'path': the folder of its files.")
        return FileCatalog(name, path, default)
    raise CatalogError(
        f"CREATE CATALOG needs the option 'type', one of: generic_in_memory, file. Found {kind!r} for catalog '{name}'."
    )
