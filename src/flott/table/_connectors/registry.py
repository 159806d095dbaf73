"""The connectors by name, and what the planner asks of them: a source, a sink or a lookup of a table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from flott.errors import ProgramError
from flott.table._catalog.catalog_table import Identifier
from flott.table._connectors.format_registry import format_keys
from flott.table._connectors.options import check_options, missing_option
from flott.table._connectors.table_source import ConnectorTable, LookupSource, TableConnector, TableSink, TableSource
from flott.table._sql.errors import nearest

#: Where each connector is: modules are imported when a table names them, because some need packages of their own.
_MODULES = {
    "blackhole": "flott.table._connectors.blackhole",
    "datagen": "flott.table._connectors.datagen",
    "delta": "flott.table._connectors.delta",
    "filesystem": "flott.table._connectors.filesystem",
    "iceberg": "flott.table._connectors.iceberg",
    "jdbc": "flott.table._connectors.jdbc",
    "kafka": "flott.table._connectors.kafka",
    "print": "flott.table._connectors.print",
    "upsert-kafka": "flott.table._connectors.upsert_kafka",
}


def connector_names() -> tuple[str, ...]:
    """Return the names of all connectors that tables may name."""
    return tuple(sorted(_MODULES))


@cache
def connector(name: str) -> TableConnector:
    """Return the connector of a name."""
    if name not in _MODULES:
        raise ProgramError(
            f"There is no connector '{name}'.{nearest(name, _MODULES)} Connectors are {', '.join(connector_names())}."
        )
    found = import_module(_MODULES[name]).CONNECTOR
    assert isinstance(found, TableConnector)
    return found


def table_source(table: ConnectorTable) -> TableSource:
    """Return what reads a table."""
    found = _checked(table)
    if found.source is None:
        raise ProgramError(f"Table {table.identifier}: the connector '{found.name}' writes tables, it does not read.")
    return found.source(table)


def table_sink(table: ConnectorTable) -> TableSink:
    """Return what writes a table."""
    found = _checked(table)
    if found.sink is None:
        raise ProgramError(f"Table {table.identifier}: the connector '{found.name}' reads tables, it does not write.")
    return found.sink(table)


def lookup_source(table: ConnectorTable) -> LookupSource:
    """Return what looks up rows of a table by key."""
    found = _checked(table)
    if found.lookup is None:
        raise ProgramError(
            f"Table {table.identifier}: the connector '{found.name}' cannot look up rows, so that it cannot be joined"
            " FOR SYSTEM_TIME AS OF a processing time."
        )
    return found.lookup(table)


def can_look_up(options: Mapping[str, str]) -> bool:
    """Return whether the connector of some options looks up rows by key."""
    name = options.get("connector")
    return name in _MODULES and connector(name).lookup is not None


def check_table(identifier: Identifier, options: Mapping[str, str]) -> TableConnector:
    """Return the connector of a table whose options were checked: none is unknown, none is missing."""
    table = str(identifier)
    name = options.get("connector")
    if name is None:
        raise missing_option(table, "connector", f"Connectors are {', '.join(connector_names())}.")
    found = connector(name)
    known = ["connector", *found.options]
    for option in ("format", "key.format", "value.format"):
        if option in found.options:
            known += format_keys(options, option)
    check_options(table, options, known, f"the connector '{name}'")
    for option in found.required:
        if option not in options:
            raise missing_option(table, option, found.options.get(option, ""))
    return found


def _checked(table: ConnectorTable) -> TableConnector:
    return check_table(table.identifier, table.options)
