"""What a manifest says of a data file, as a JSON value for a checkpoint, and back. Driver and task side."""

from __future__ import annotations

from base64 import b64decode, b64encode
from decimal import Decimal
from typing import Any
from uuid import UUID

from flott.datastream.connectors.base import Json

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


def to_json(file: Any, spec_id: int) -> Json:
    """Return a data file, written for a partition spec, as a JSON value."""
    content: dict[str, Json] = {
        "path": file.file_path,
        "rows": file.record_count,
        "size": file.file_size_in_bytes,
        "spec": spec_id,
        "partition": [_value_to_json(file.partition[index]) for index in range(len(file.partition))],
        "split_offsets": file.split_offsets,
    }
    for name in _COUNTS:
        content[name] = {str(key): value for key, value in (getattr(file, name) or {}).items()}
    for name in _BOUNDS:
        bounds = (getattr(file, name) or {}).items()
        content[name] = {str(key): b64encode(value).decode("ascii") for key, value in bounds}
    return content


def from_json(content: Json, format_version: Any) -> Any:
    """Return the data file of :func:`to_json`."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    counts = {name: {int(key): value for key, value in content[name].items()} for name in _COUNTS}
    bounds = {name: {int(key): b64decode(value) for key, value in content[name].items()} for name in _BOUNDS}
    file = DataFile.from_args(
        format_version,
        content=DataFileContent.DATA,
        file_path=content["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(*map(_value_from_json, content["partition"])),
        record_count=content["rows"],
        file_size_in_bytes=content["size"],
        split_offsets=content["split_offsets"],
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **counts,
        **bounds,
    )
    file.spec_id = content["spec"]
    return file


def _value_to_json(value: Any) -> Json:
    match value:
        case bytes():
            return {"bytes": b64encode(value).decode("ascii")}
        case Decimal():
            return {"decimal": str(value)}
        case UUID():
            return {"uuid": str(value)}
    return value


def _value_from_json(value: Json) -> Any:
    match value:
        case {"bytes": text}:
            return b64decode(text)
        case {"decimal": text}:
            return Decimal(text)
        case {"uuid": text}:
            return UUID(text)
    return value
