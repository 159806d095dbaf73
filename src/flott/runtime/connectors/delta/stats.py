"""What a Delta log says of a data file: counts and bounds of its columns, so that readers can leave files out. Pure."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

#: Longer texts have no bounds in the log.
MAX_TEXT = 32
#: Columns of which the log says something, as Delta's default is.
MAX_COLUMNS = 32


def stats_json(metadata: Any) -> str:
    """Return the statistics of a Parquet file, from the metadata of its footer."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unbounded: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(min(metadata.num_columns, MAX_COLUMNS)):
            column = metadata.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if "." in name or found is None or not found.has_null_count:
                unbounded.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if not found.has_min_max:
                if found.null_count < column.num_values:
                    unbounded.add(name)
                continue
            low, high = _bounds(found.min, found.max)
            if low is None:
                unbounded.add(name)
                continue
            lows[name] = low if name not in lows else min(lows[name], low)
            highs[name] = high if name not in highs else max(highs[name], high)
    return json.dumps(
        {
            "numRecords": metadata.num_rows,
            "minValues": {name: low for name, low in lows.items() if name not in unbounded},
            "maxValues": {name: high for name, high in highs.items() if name not in unbounded},
            "nullCount": {name: count for name, count in nulls.items() if "." not in name},
        }
    )


def _bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """Return bounds as the log spells them; None: it cannot, or need not."""
    if isinstance(low, (bool, bytes)):
        return None, None
    if isinstance(low, int):
        return low, high
    if isinstance(low, float):
        return (low, high) if low == low and high == high and abs(low) != float("inf") != abs(high) else (None, None)
    if isinstance(low, str):
        return (low, high) if len(low) <= MAX_TEXT and len(high) <= MAX_TEXT else (None, None)
    if isinstance(low, datetime):
        return _milliseconds(low, False), _milliseconds(high, True)
    if isinstance(low, date):
        return low.isoformat(), high.isoformat()
    return None, None


def _milliseconds(time: datetime, up: bool) -> str:
    """Return a time as the log has it, in milliseconds: rounded away from the values in between.

    >>> _milliseconds(datetime(2026, 11, 18, 3, 0, 0, 1500), True)
    '2026-11-18T03:00:00.002'
    """
    rest = time.microsecond % 1000
    time += timedelta(microseconds=1000 - rest) if up and rest else -timedelta(microseconds=rest)
    zone = "Z" if time.tzinfo is not None else ""
    return f"{time.replace(tzinfo=None).isoformat(timespec='milliseconds')}{zone}"
