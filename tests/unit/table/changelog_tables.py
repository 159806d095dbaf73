"""A connector for tests: tables whose changes are lists in this process, and tables that print their upserts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flott.table._connectors.memory import MemorySource
from flott.table._connectors.print import PrintTableSink
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink, TableSource
from flott.table._plan.logical import Schema
from flott.table._types.arrow import arrow_schema
from flott.table._types.record_types import record_type_of

NAME = "changes"
KINDS = ("+I", "-U", "+U", "-D")
#: The changes of tables by the option ``data``.
TABLES: dict[str, Sequence[tuple[str, tuple[Any, ...]]]] = {}


def _source(table: ConnectorTable) -> TableSource:
    changes = TABLES[table.options["data"]]
    kinds = bytes(KINDS.index(kind) for kind, _ in changes)

    def make(wanted: TableSource) -> MemorySource:
        schema = arrow_schema(wanted.names, wanted.types)
        places = [table.names.index(name) for name in wanted.names]
        columns = [
            pa.array([row[place] for _, row in changes], field.type)
            for place, field in zip(places, schema, strict=True)
        ]
        record_type = record_type_of(Schema(wanted.names, wanted.types))
        return MemorySource(pa.table(columns, schema=schema), record_type, kinds if any(kinds) else None)

    mode = ChangelogMode.ALL if table.options.get("updates") == "true" else ChangelogMode.INSERT_ONLY
    return TableSource(table.names, table.types, make, changelog=mode)


def _sink(table: ConnectorTable) -> TableSink:
    """Return a table that replaces rows by key, and prints what it gets."""
    key = table.table.schema.primary_key
    sink = PrintTableSink(table.types)
    return TableSink(table.names, table.types, lambda: sink, accepts=ChangelogMode.UPSERT, key=key)


CONNECTOR = TableConnector(
    NAME, source=_source, sink=_sink, options={"data": "Which changes.", "updates": "Not only inserts."}
)
