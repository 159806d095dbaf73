"""Catalogs: names, schemas and what is stored. Re-exports only."""

from flott._absent import names_of
from flott.table.catalog._catalog import Catalog
from flott.table.catalog._names import ObjectIdentifier, ObjectPath
from flott.table.catalog._objects import (
    CatalogBaseTable,
    CatalogDatabase,
    CatalogDescriptor,
    CatalogFunction,
    CatalogPartitionSpec,
)
from flott.table.catalog._schema import (
    Column,
    ComputedColumn,
    Constraint,
    MetadataColumn,
    PhysicalColumn,
    ResolvedSchema,
    UniqueConstraint,
    WatermarkSpec,
)

__all__ = [
    "Catalog",
    "CatalogBaseTable",
    "CatalogDatabase",
    "CatalogDescriptor",
    "CatalogFunction",
    "CatalogPartitionSpec",
    "Column",
    "ComputedColumn",
    "Constraint",
    "MetadataColumn",
    "ObjectIdentifier",
    "ObjectPath",
    "PhysicalColumn",
    "ResolvedSchema",
    "UniqueConstraint",
    "WatermarkSpec",
]

__getattr__ = names_of(__name__)
