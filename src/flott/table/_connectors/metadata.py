"""Metadata columns of a table: which there are, and what a connector knows about them."""

from __future__ import annotations

from collections.abc import Mapping

from flott.errors import ProgramError
from flott.table._catalog.catalog_table import MetadataColumn, PhysicalColumn
from flott.table._connectors.table_source import ConnectorTable
from flott.table._types.logical import LogicalType


def source_columns(table: ConnectorTable, known: Mapping[str, LogicalType]) -> tuple[list[str], list[LogicalType]]:
    """Return the names and types of what a table reads from its connector: all columns but the computed ones."""
    names, types = [], []
    for column in table.table.schema.columns:
        if isinstance(column, MetadataColumn) and column.metadata_key not in known:
            raise ProgramError(
                f"Table {table.identifier}: the column '{column.name}' asks for the metadata '{column.metadata_key}';"
                f" the connector '{table.options.get('connector')}' knows {', '.join(known) or 'none'}."
            )
        if isinstance(column, PhysicalColumn | MetadataColumn):
            names.append(column.name)
            types.append(column.type)
    return names, types


def metadata_names(table: ConnectorTable) -> tuple[tuple[str, str], ...]:
    """Return name and key of the metadata columns of a table."""
    columns = table.table.schema.columns
    return tuple((column.name, column.metadata_key) for column in columns if isinstance(column, MetadataColumn))


def sink_columns(
    table: ConnectorTable, known: Mapping[str, LogicalType]
) -> tuple[list[str], list[LogicalType], dict[str, str]]:
    """Return names and types of what a table writes, and the names of metadata columns by key: no virtual ones."""
    names, types = [], []
    metadata = {}
    for column in table.table.schema.columns:
        if isinstance(column, MetadataColumn):
            if column.virtual:
                continue
            if column.metadata_key not in known:
                raise ProgramError(
                    f"Table {table.identifier}: the metadata '{column.metadata_key}' of the column '{column.name}'"
                    f" cannot be written. Declare it VIRTUAL; what can be written is {', '.join(known) or 'none'}."
                )
            metadata[column.metadata_key] = column.name
        if isinstance(column, PhysicalColumn | MetadataColumn):
            names.append(column.name)
            types.append(column.type)
    return names, types, metadata
