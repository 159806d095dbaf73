"""Partitions as folders: ``day=2026-01-31/country=de``. Pure; driver and task side."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

import pyarrow as pa

from flott.errors import StorageError
from flott.runtime.connectors.columns.json_values import JsonRules, json_converter
from flott.table._types.arrow import arrow_schema, arrow_type
from flott.table._types.logical import LogicalType

#: What stands unchanged in the name of a folder; all else is written as %XX.
_PLAIN = " !$&()+,-.;<>@_`{}~"


def partition_texts(path: str, keys: Sequence[str]) -> tuple[str | None, ...]:
    """Return the values of the partition that a file belongs to, as text.

    >>> partition_texts("/t/day=2026-01-31/country=d%2Fe/part-0", ["day", "country"])
    ('2026-01-31', 'd/e')
    """
    found = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    values = {unquote(name): unquote(value) for name, value in found.items()}
    if missing := [key for key in keys if key not in values]:
        raise StorageError(f"{path} is in no folder '{missing[0]}=…', but the table is partitioned by {list(keys)}.")
    return tuple(values[key] for key in keys)


def partition_folder(keys: Sequence[str], texts: Sequence[str | None], default: str) -> str:
    """Return the folder of a partition; NULL and empty text have a name of their own.

    >>> partition_folder(["day", "country"], ["1", None], "none")
    'day=1/country=none'
    """
    return "/".join(
        f"{quote(key, safe=_PLAIN)}={quote(text, safe=_PLAIN) if text else default}"
        for key, text in zip(keys, texts, strict=True)
    )


def partition_columns(
    partitions: Sequence[tuple[str | None, ...]], keys: Sequence[str], types: Sequence[LogicalType], default: str
) -> pa.RecordBatch:
    """Return partitions as rows of their columns."""
    arrays = []
    for position, of in enumerate(types):
        convert = json_converter(of, JsonRules())
        values = [partition[position] for partition in partitions]
        arrays.append(
            pa.array([None if v is None or v == default else convert(v) for v in values], type=arrow_type(of))
        )
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(keys, types))
