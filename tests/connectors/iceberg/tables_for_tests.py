"""Iceberg tables in a catalog of SQLite, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

SCHEMA = {"id": "int64", "name": "string"}
ARROW = pa.schema([("id", pa.int64()), ("name", pa.string())])
TABLE = "shop.orders"


def properties(folder: Path) -> dict[str, str]:
    """Return the properties of a catalog below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def load(catalog: dict[str, str]) -> Any:
    """Return the table as it is now."""
    return load_catalog("default", **catalog).load_table(TABLE)


def create(catalog: dict[str, str], **options: Any) -> Any:
    """Create the table without a sink."""
    opened = load_catalog("default", **catalog)
    opened.create_namespace_if_not_exists("shop")
    return opened.create_table(TABLE, schema=ARROW, **options)


def append(catalog: dict[str, str], *ids: int, name: str = "a") -> int:
    """Append rows without a sink; return the snapshot."""
    table = load(catalog)
    table.append(pa.table({"id": ids, "name": [name] * len(ids)}, schema=ARROW))
    return int(table.current_snapshot().snapshot_id)


def rows(catalog: dict[str, str]) -> list[tuple[Any, ...]]:
    """Return what a reader sees, sorted."""
    found = load(catalog).scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)
