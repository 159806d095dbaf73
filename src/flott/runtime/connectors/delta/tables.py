"""Opens and creates Delta tables, and says what writers need to know of one. Driver and task side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flott._extras import require
from flott.common._object_store_settings import is_object_location
from flott.datastream.connectors.delta import DeltaSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.tables.changes import check_keys
from flott.runtime.connectors.tables.columns import arrow_schema
from flott.runtime.storage.opening import open_object_storage

#: Features of tables that files written without the library are right for.
_SAFE_FEATURES = frozenset(
    {
        "appendOnly", "changeDataFeed", "columnMapping", "deletionVectors", "domainMetadata", "invariants",
        "checkConstraints", "generatedColumns", "identityColumns", "inCommitTimestamp", "timestampNtz", "v2Checkpoint",
        "vacuumProtocolCheck", "typeWidening",
    }
)  # fmt: skip


@dataclass(frozen=True)
class TableFacts:
    """What a writer needs to know."""

    ident: str  #: changes if the table is replaced by another one
    schema: Any  #: ``pyarrow.Schema``
    partition_columns: tuple[str, ...]

    @property
    def file_schema(self) -> Any:
        """Return the columns that stand in data files: all but those of partitions."""
        return pa.schema([field for field in self.schema if field.name not in self.partition_columns])


def library() -> Any:
    """Return the Delta library."""
    return require("deltalake", "delta")


def storage_options(path: str, options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the library's options for a location: those of the configuration, then those of the program."""
    if not is_object_location(path):
        return dict(options) or None
    settings = open_object_storage(path).settings
    found = {
        "AWS_ENDPOINT_URL": settings.endpoint,
        "AWS_REGION": settings.region,
        "AWS_ACCESS_KEY_ID": settings.access_key,
        "AWS_SECRET_ACCESS_KEY": settings.secret_key,
        "AWS_SESSION_TOKEN": settings.session_token,
        "AWS_ALLOW_HTTP": "true" if settings.allows_http else None,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false" if settings.path_style else None,
        "timeout": f"{settings.request_timeout_ms}ms",
    }
    if not path.lower().startswith(("s3://", "s3a://")):
        found = {"timeout": found["timeout"]}
    return {key: value for key, value in found.items() if value} | dict(options)


def find_table(path: str, options: Mapping[str, str], version: int | None = None) -> Any | None:
    """Return a table, or None if there is none."""
    deltalake = library()
    try:
        return deltalake.DeltaTable(path, version=version, storage_options=storage_options(path, options))
    except deltalake.exceptions.TableNotFoundError:
        return None
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise ConnectorError(f"Cannot open the Delta table {path}: {error}.") from error


def open_table(sink: DeltaSink) -> Any:
    """Return the table of a sink; creates it if it is not there and the sink says how."""
    table = find_table(sink.table_path, sink.storage_options)
    if table is not None:
        return table
    if sink.schema is None:
        raise ProgramError(
            f"There is no Delta table at {sink.table_path}. Check its spelling, or give a schema to create it:"
            " DeltaSink.for_row_data(path, schema)."
        )
    deltalake = library()
    try:
        return deltalake.DeltaTable.create(
            sink.table_path,
            arrow_schema(sink.schema),
            mode="ignore",  # another subtask or job may create it in this moment
            partition_by=list(sink.partition_columns) or None,
            configuration=dict(sink.table_properties) or None,
            storage_options=storage_options(sink.table_path, sink.storage_options),
        )
    except (deltalake.exceptions.DeltaError, OSError) as error:
        if (found := find_table(sink.table_path, sink.storage_options)) is not None:
            return found
        raise ConnectorError(f"Cannot create the Delta table {sink.table_path}: {error}.") from error


def facts_of(table: Any) -> TableFacts:
    """Return what a writer needs to know of a table."""
    metadata = table.metadata()
    return TableFacts(metadata.id, pa.schema(table.schema()), tuple(metadata.partition_columns))


#: By job, operator and table. A table that is replaced is found out by the committer, and ends the job.
_known: dict[tuple[str, str, str], TableFacts] = {}


def facts_for(sink: DeltaSink, job_id: str, operator_id: str) -> TableFacts:
    """Return the facts of a sink's table, which a process looks up once for a job."""
    key = (job_id, operator_id, sink.table_path)
    if key not in _known:
        if len(_known) >= 256:
            _known.clear()
        _known[key] = facts_of(open_table(sink))
    return _known[key]


def check_sink(sink: DeltaSink) -> None:
    """Refuse a sink whose table cannot be written as it says, before anything runs."""
    table = find_table(sink.table_path, sink.storage_options)
    if table is None and sink.schema is None:
        open_table(sink)  # says what is missing
    schema = arrow_schema(sink.schema) if table is None else facts_of(table).schema
    check_keys(sink.upsert_keys, schema.names)
    check_keys(sink.partition_columns, schema.names)
    if table is not None:
        _check_table(sink, table, schema)


def _check_table(sink: DeltaSink, table: Any, schema: Any) -> None:
    metadata, where = table.metadata(), sink.table_path
    if sink.partition_columns and tuple(metadata.partition_columns) != sink.partition_columns:
        raise ProgramError(
            f"The Delta table {where} is partitioned by {metadata.partition_columns}, the sink says"
            f" {list(sink.partition_columns)}."
        )
    if sink.schema is not None and (strange := set(arrow_schema(sink.schema).names) - set(schema.names)):
        raise ProgramError(f"The Delta table {where} has no column {sorted(strange)}: it has {schema.names}.")
    settings = metadata.configuration
    found = sorted(set(table.protocol().writer_features or ()) - _SAFE_FEATURES)
    if settings.get("delta.columnMapping.mode", "none") != "none":
        found.append("columnMapping")
    found += [key for key in settings if key.startswith("delta.constraints.")]
    marks = ("delta.invariants", "delta.generationExpression", "delta.identity.")
    for field in table.schema().fields:
        found += [f"{key} of {field.name}" for key in field.metadata if key.startswith(marks)]
    if found and not sink.upsert_keys:
        raise ProgramError(
            f"The Delta table {where} uses {', '.join(found)}, which data files that tasks write by themselves do not"
            " respect. Write to a table without it."
        )
    if sink.upsert_keys and settings.get("delta.appendOnly", "false").lower() == "true":
        raise ProgramError(f"The Delta table {where} is append-only (delta.appendOnly), so rows cannot be replaced.")
