"""A catalog whose definitions are files, so that they outlive a session.

    <path>/<database>.json      {"version": 1, "comment": …, "properties": …, "tables": {…}, "functions": {…}}

A file is replaced as a whole, by a rename. A session that finds that another one has changed a file since it read it
does not overwrite it: it reads the definitions again and asks for the statement to be repeated. Options of tables are
stored as they are, passwords included, so the files are readable for their owner only.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from flott.table._catalog.catalog_table import (
    CatalogFunction,
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableColumn,
    TableSchema,
    WatermarkSpec,
)
from flott.table._catalog.in_memory import CatalogError, StoredCatalog, StoredDatabase, TableObject
from flott.table._sql.type_names import parse_type

#: The version of the files. A reader refuses a later one.
VERSION = 1
_SUFFIX = ".json"


class FileCatalog(StoredCatalog):
    """Databases that are files of a folder."""

    def __init__(self, name: str, path: str, default_database: str = "default"):
        super().__init__(name, default_database)
        self._folder = Path(path).absolute()
        self._texts: dict[str, str] = {}  # what the files held when they were read or written last
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CatalogError(f"Catalog '{name}' cannot use the folder {self._folder}: {error.strerror}.") from error
        self._load()

    def changed(self) -> None:
        on_disk = self._read_files()
        if on_disk != self._texts:
            self._load()
            raise CatalogError(
                f"Another session has changed the definitions of catalog '{self.name}' in {self._folder}. They were"
                " read again: repeat the statement."
            )
        texts = {name: json.dumps(_database(held, name), indent=1) for name, held in self.databases.items()}
        for name, text in texts.items():
            if self._texts.get(name) != text:
                self._replace(name, text)
        for name in self._texts.keys() - texts.keys():
            self._file(name).unlink(missing_ok=True)
        self._texts = texts

    def _load(self) -> None:
        self._texts = self._read_files()
        self.databases = {name: self._parsed(name, text) for name, text in self._texts.items()}
        self.databases.setdefault(self.default_database, StoredDatabase())

    def _read_files(self) -> dict[str, str]:
        try:
            files = sorted(self._folder.glob(f"[!.]*{_SUFFIX}"))
            return {unquote(file.name.removesuffix(_SUFFIX)): file.read_text() for file in files}
        except OSError as error:
            raise CatalogError(f"Catalog '{self.name}' cannot read {self._folder}: {error}.") from error

    def _parsed(self, name: str, text: str) -> StoredDatabase:
        try:
            found = json.loads(text)
            version = found["version"]
            if version > VERSION:
                raise CatalogError(f"{self._file(name)} has the version {version}; this Flott reads up to {VERSION}.")
            return StoredDatabase(
                dict(found["properties"]),
                found["comment"],
                {key: _table_object(entry) for key, entry in found["tables"].items()},
                {key: CatalogFunction(*entry) for key, entry in found["functions"].items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CatalogError(f"{self._file(name)} holds no definitions of a database: {error!r}.") from error

    def _replace(self, name: str, text: str) -> None:
        file = self._file(name)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as target:
                target.write(text)
                target.flush()
                os.fsync(target.fileno())
            os.replace(draft, file)
        except OSError as error:
            raise CatalogError(f"Catalog '{self.name}' cannot write {file}: {error.strerror}.") from error

    def _file(self, database: str) -> Path:
        return self._folder / (quote(database, safe=" -_") + _SUFFIX)


# --- definitions as JSON ---------------------------------------------------------------------------------------------


def _database(held: StoredDatabase, name: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "comment": held.comment,
        "properties": held.properties,
        "tables": {key: _entry(table, f"{name}.{key}") for key, table in held.tables.items()},
        "functions": {key: [function.class_name, function.language] for key, function in held.functions.items()},
    }


def _entry(table: TableObject, name: str) -> dict[str, Any]:
    if isinstance(table, CatalogView):
        return {
            "view": table.query,
            "columns": list(table.columns),
            "comment": table.comment,
            "original": table.original,
        }
    if table.distribution is not None:
        raise CatalogError(f"Table '{name}': DISTRIBUTED BY cannot be kept in a catalog of files.")
    schema = table.schema
    watermark = schema.watermark
    return {
        "columns": [_column(column) for column in schema.columns],
        "watermark": None if watermark is None else [watermark.column, watermark.expression],
        "primary_key": list(schema.primary_key),
        "primary_key_name": schema.primary_key_name,
        "options": dict(table.options),
        "partitioned_by": list(table.partitioned_by),
        "comment": table.comment,
    }


def _column(column: TableColumn) -> dict[str, Any]:
    match column:
        case PhysicalColumn():
            return {"name": column.name, "type": str(column.type), "comment": column.comment}
        case ComputedColumn():
            return {"name": column.name, "as": column.expression, "comment": column.comment}
    return {
        "name": column.name,
        "type": str(column.type),
        "metadata": column.key,
        "virtual": column.virtual,
        "comment": column.comment,
    }


def _table_object(entry: dict[str, Any]) -> TableObject:
    if "view" in entry:
        return CatalogView(entry["view"], tuple(entry["columns"]), entry["comment"], entry["original"])
    watermark = entry["watermark"]
    schema = TableSchema(
        tuple(_declared(column) for column in entry["columns"]),
        None if watermark is None else WatermarkSpec(*watermark),
        tuple(entry["primary_key"]),
        entry["primary_key_name"],
    )
    return CatalogTable(schema, entry["options"], tuple(entry["partitioned_by"]), entry["comment"])


def _declared(column: dict[str, Any]) -> TableColumn:
    name, comment = column["name"], column["comment"]
    if "as" in column:
        return ComputedColumn(name, column["as"], comment)
    declared = parse_type(column["type"])
    if "metadata" in column:
        return MetadataColumn(name, declared, column["metadata"], column["virtual"], comment)
    return PhysicalColumn(name, declared, comment)
