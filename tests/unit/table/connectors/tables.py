"""Tables of connectors as tests declare, read and write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flott.datastream.connectors.base import ColumnRecords, SliceRequest, Source, WriterContext
from flott.table._catalog.catalog_table import (
    CatalogTable,
    Identifier,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
)
from flott.table._connectors.registry import table_sink, table_source
from flott.table._connectors.table_source import ConnectorTable, TableSink, TableSource
from flott.table._types.logical import LogicalType
from flott.table._types.record_types import TableRowTypeInfo
from flott.testing.sinks import commit_permit


def declared(
    columns: dict[str, LogicalType],
    options: dict[str, str],
    partitioned_by: Sequence[str] = (),
    metadata: Sequence[MetadataColumn] = (),
    key: Sequence[str] = (),
    batch: bool = False,
) -> ConnectorTable:
    """Return a table as a connector sees it."""
    physical = tuple(PhysicalColumn(name, of) for name, of in columns.items())
    schema = TableSchema((*physical, *metadata), primary_key=tuple(key))
    table = CatalogTable(schema, options, tuple(partitioned_by))
    identifier = Identifier("default_catalog", "default_database", "t")
    return ConnectorTable(identifier, table, tuple(columns), tuple(columns.values()), options, batch=batch)


def source_of(table: ConnectorTable) -> TableSource:
    return table_source(table)


def sink_of(table: ConnectorTable) -> TableSink:
    return table_sink(table)


def batches_of(
    source: Source[Any], max_records: int = 1_000_000, parallelism: int = 1, restart: bool = False
) -> Iterator[ColumnRecords]:
    """Yield what a source reads until it ends; with ``restart`` each epoch has an enumerator that was restored."""
    enumerator = source.create_enumerator()
    enumerator.open()
    reader = source.create_reader()
    reader.open()
    for epoch in range(10_000):
        plan = enumerator.plan(SliceRequest(max_records, parallelism, 1_000_000 + epoch * 1000))
        for part in plan.slices:
            for batch in reader.read_batches(part):
                assert isinstance(batch, ColumnRecords)
                yield batch
        enumerator.advance(plan, {part.split: reader.reached(part) for part in plan.slices})
        if restart:
            state = enumerator.snapshot()
            enumerator = source.create_enumerator()
            enumerator.open()
            enumerator.restore(state)
        if plan.finished:
            return
    raise AssertionError("the source does not end")


def rows_of(source: TableSource | Source[Any], **how: Any) -> list[dict[str, Any]]:
    """Return the rows that a source reads."""
    built = source.build() if isinstance(source, TableSource) else source
    return [row for batch in batches_of(built, **how) for row in batch.columns.to_pylist()]


def changes_of(source: TableSource | Source[Any], **how: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows that a source reads, with their kinds."""
    built = source.build() if isinstance(source, TableSource) else source
    found = []
    for batch in batches_of(built, **how):
        kinds = [0] * batch.columns.num_rows if batch.kinds is None else batch.kinds.tolist()
        found += list(zip(kinds, batch.columns.to_pylist(), strict=True))
    return found


def write(sink: TableSink, columns: pa.RecordBatch, kinds: Sequence[int] | None = None, epoch: int = 1) -> list[Any]:
    """Write rows in one epoch, commit it as the last one, and return what a driver sink would deliver."""
    built = sink.make()
    built.validate()
    built.validate_records(TableRowTypeInfo(sink.names, sink.types))
    writer = built.create_writer(WriterContext(0, 1, epoch, "first", "job", "operator", now_ms=1_000_000))
    writer.write_columns(columns, None if kinds is None else np.array(kinds, dtype=np.int8))
    committables = writer.prepare_commit()
    delivered = list(getattr(writer, "values", []))
    writer.close()
    committer = built.create_committer()
    if committer is not None:
        committer.open("job", "operator")
        committer.commit(commit_permit(epoch, now_ms=1_000_000, final=True), committables)
        committer.close()
    return delivered
