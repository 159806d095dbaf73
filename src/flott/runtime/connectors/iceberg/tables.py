"""Opens and creates Iceberg tables. Driver and task side."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.iceberg import IcebergCatalog, IcebergSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.tables.changes import check_keys
from flott.runtime.connectors.tables.columns import arrow_schema

#: Tables as tasks have loaded them. What a task writes for an older schema or partition spec stays right.
TABLES: ClientPool[Any] = ClientPool("iceberg")

_TRANSFORM = re.compile(r"(\w+)\((?:(\d+)\s*,\s*)?([^()]+)\)")
#: Transforms with a number, and those without.
_WITH_NUMBER, _PLAIN = ("bucket", "truncate"), ("year", "month", "day", "hour", "identity")


def open_catalog(catalog: IcebergCatalog) -> Any:
    """Return a catalog."""
    module = require("pyiceberg.catalog", "iceberg")
    try:
        return module.load_catalog(catalog.name, **dict(catalog.properties))
    except Exception as error:
        raise failure(catalog, "open the Iceberg catalog", catalog.name, error) from error


def find_table(catalog: IcebergCatalog, name: str, opened: Any = None) -> Any | None:
    """Return a table as it is now, or None if there is none."""
    errors = require("pyiceberg.exceptions", "iceberg")
    try:
        return (opened or open_catalog(catalog)).load_table(name)
    except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
        return None
    except ConnectorError:
        raise
    except Exception as error:
        raise failure(catalog, "load the Iceberg table", name, error) from error


def failure(catalog: IcebergCatalog, verb: str, what: str, error: Exception) -> ConnectorError:
    """Return the error for a request that a catalog or its storage refused, without secrets."""
    reason = without_secrets(f"{type(error).__name__}: {error}", *catalog.properties.secrets())
    return ConnectorError(f"Cannot {verb} {what}: {reason}.")


def open_table(sink: IcebergSink, opened: Any = None) -> Any:
    """Return the table of a sink; creates it if it is not there and the sink says how."""
    catalog = opened or open_catalog(sink.catalog)
    table = find_table(sink.catalog, sink.table, catalog)
    if table is not None:
        return table
    if sink.schema is None:
        raise ProgramError(
            f"There is no Iceberg table {sink.table} in the catalog. Check its spelling, or give a schema to create it:"
            " IcebergSink.for_row_data(table, schema)."
        )
    errors = require("pyiceberg.exceptions", "iceberg")
    schema = arrow_schema(sink.schema)
    try:
        catalog.create_namespace_if_not_exists(sink.table.rpartition(".")[0])
        return _create(catalog, sink, schema)
    except Exception as error:
        if (found := find_table(sink.catalog, sink.table, catalog)) is not None:
            return found  # another subtask or job has created it in this moment
        if isinstance(error, (errors.ValidationError, ValueError)):
            raise ProgramError(f"Cannot create the Iceberg table {sink.table}: {error}.") from error
        raise failure(sink.catalog, "create the Iceberg table", sink.table, error) from error


def _create(catalog: Any, sink: IcebergSink, schema: Any) -> Any:
    """Create a table at once with its partitions, which refer to columns by their ids."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids

    with_ids = assign_fresh_schema_ids(catalog._convert_schema_if_needed(schema))
    fields = []
    for index, text in enumerate(sink.partition_by):
        column, transform = partition_field(text)
        kind = str(transform).partition("[")[0]
        name = column if kind == "identity" else f"{column}_{kind}"
        fields.append(PartitionField(with_ids.find_field(column).field_id, 1000 + index, transform, name))
    properties = dict(sink.table_properties)
    return catalog.create_table(
        sink.table, schema=with_ids, partition_spec=PartitionSpec(*fields), properties=properties
    )


def partition_field(text: str) -> tuple[str, Any]:
    """Return the column and the transform of a field of a partition.

    >>> partition_field("bucket(16, id)")
    ('id', BucketTransform(num_buckets=16))
    """
    transforms = require("pyiceberg.transforms", "iceberg")
    match = _TRANSFORM.fullmatch(text.strip())
    if match is None:
        return text.strip(), transforms.IdentityTransform()
    kind, number, column = match[1].lower(), match[2], match[3].strip()
    if (kind in _WITH_NUMBER) != (number is not None) or kind not in _WITH_NUMBER + _PLAIN:
        raise ProgramError(
            "A table is partitioned by columns, year(c), month(c), day(c), hour(c), bucket(n, c), truncate(n, c); found"
            f" {text!r}."
        )
    return column, transforms.parse_transform(f"{kind}[{number}]" if number else kind)


def table_key(catalog: IcebergCatalog, name: str, *more: Hashable) -> Hashable:
    """Return the key of a table that a process keeps."""
    return catalog, name, *more


def check_sink(sink: IcebergSink) -> None:
    """Refuse a sink whose table cannot be written as it says, before anything runs."""
    table = find_table(sink.catalog, sink.table)
    columns = [partition_field(text)[0] for text in sink.partition_by]
    if table is None:
        if sink.schema is None:
            open_table(sink)  # says what is missing
        names = arrow_schema(sink.schema).names
    else:
        names = [field.name for field in table.schema().fields]
        if sink.schema is not None and (strange := set(arrow_schema(sink.schema).names) - set(names)):
            raise ProgramError(f"The Iceberg table {sink.table} has no column {sorted(strange)}: it has {names}.")
    check_keys(columns, names)
    check_keys(sink.upsert_keys, names)
    if table is not None and table.properties.get("write.format.default", "parquet").lower() != "parquet":
        raise ProgramError(f"The Iceberg table {sink.table} is to be written in another format than Parquet.")
