"""Rows of databases as columns: read, looked up by key, and written. Task side."""

from __future__ import annotations

import datetime
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from flott.datastream.connectors.base import ColumnRecords, Slice
from flott.errors import TypeMismatchError
from flott.runtime.connectors.columns.json_values import JsonRules, json_converter
from flott.runtime.connectors.columns.rows import batch_of
from flott.runtime.connectors.columns.times import parse_timestamp_text
from flott.runtime.connectors.jdbc.connection import Connection
from flott.runtime.connectors.jdbc.session import Session
from flott.runtime.connectors.jdbc.source import JdbcReader
from flott.table._connectors.jdbc import JdbcLookup, TableJdbcSource, quoted_name
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema, arrow_type
from flott.table._types.record_types import TableRowTypeInfo

#: Keys in one query.
_LOOKUP_KEYS = 200


class TableJdbcReader(JdbcReader):
    """Reads ranges as columns."""

    def __init__(self, source: TableJdbcSource):
        super().__init__(source)
        self._names, self._types = source.names, source.types
        self._record_type = TableRowTypeInfo(source.names, source.types)

    def read_batches(self, part: Slice) -> Iterator[ColumnRecords]:  # type: ignore[override]
        for _, rows in self._batches(part):
            yield ColumnRecords(columns_of(rows, self._names, self._types), self._record_type)


def columns_of(
    rows: Sequence[Sequence[Any]], names: Sequence[str], types: Sequence[logical.LogicalType]
) -> pa.RecordBatch:
    """Return rows as columns of the declared types; further values of a row are left out."""
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    arrays = [database_column(name, column, of) for name, column, of in zip(names, cells, types, strict=False)]
    return batch_of(arrays, arrow_schema(names, types), len(rows))


def database_column(name: str, values: Sequence[Any], of: logical.LogicalType) -> pa.Array:
    """Return the values of a driver as a column. SQLite has no types for time and decimals: they are texts there."""
    wanted = arrow_type(of)
    if not isinstance(of, logical.CharType | logical.VarCharType):
        try:
            return pa.array(values, type=wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
    convert = _converter(of)
    try:
        return pa.array([None if value is None else convert(value) for value in values], type=wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeMismatchError(f"The column '{name}' is {of} in the table: {error}") from error


def _converter(of: logical.LogicalType) -> Callable[[Any], Any]:
    match of:
        case logical.TimestampType() | logical.LocalZonedTimestampType():
            return lambda value: _timestamp(value, of.precision)
        case logical.CharType() | logical.VarCharType():
            return lambda value: value if isinstance(value, str) else value.decode() if isinstance(
                value, bytes
            ) else str(value)
        case logical.BooleanType():
            return lambda value: value.strip().lower() in ("true", "t", "1") if isinstance(value, str) else bool(value)
        case logical.TimeType():
            plain = json_converter(of, JsonRules())
            return lambda value: (
                (datetime.datetime.min + value).time() if isinstance(value, datetime.timedelta) else plain(value)
            )
    return json_converter(of, JsonRules())


def _timestamp(value: Any, precision: int) -> Any:
    if not isinstance(value, str):
        return value
    text = value.replace("+00:00", "").removesuffix("Z")
    return parse_timestamp_text(text, None, precision, zoned=False)


class JdbcLookupClient:
    """Looks up rows by key, and keeps them for a while if that is asked for."""

    def __init__(self, table: JdbcLookup):
        self._table = table
        self._connection = Connection(table.connection_options)
        self._types = dict(zip(table.names, table.types, strict=True))
        #: Rows by key, the key asked for last at the end; with the times of reading and of asking, in seconds.
        self._cache: OrderedDict[tuple[Any, ...], tuple[float, float, list[tuple[Any, ...]]]] = OrderedDict()

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of keys, each key once. A key with NULL has none."""
        wanted = dict.fromkeys(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        asked = [each for each in wanted if None not in each]
        now = time.monotonic()
        found: list[tuple[Any, ...]] = []
        missing = []
        for each in asked:
            rows = self._cached(each, now)
            if rows is None:
                missing.append(each)
            else:
                found += rows
        for start in range(0, len(missing), _LOOKUP_KEYS):
            some = missing[start : start + _LOOKUP_KEYS]
            rows = self._query(some)
            found += rows
            if self._table.cached:
                self._keep(some, rows, now)
        table = self._table
        return pa.Table.from_batches([columns_of(found, table.names, table.types)])

    def _query(self, keys: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        table = self._table
        dialect = table.connection_options.address.dialect
        columns = ", ".join(quoted_name(dialect, name) for name in table.names)
        names = [quoted_name(dialect, name) for name in table.keys]
        if len(names) == 1:
            condition = f"{names[0]} IN ({', '.join('?' * len(keys))})"
        else:
            one = "(" + " AND ".join(f"{name} = ?" for name in names) + ")"
            condition = " OR ".join([one] * len(keys))
        statement = f"SELECT {columns} FROM {table.table} WHERE {condition}"

        def work(session: Session) -> list[tuple[Any, ...]]:
            (values,) = session.adapted([[value for each in keys for value in each]])
            return session.rows(statement, values)

        return self._connection.attempt(f"look up {len(keys)} keys in {table.table}", work, table.retries)

    def _cached(self, key: tuple[Any, ...], now: float) -> list[tuple[Any, ...]] | None:
        entry = self._cache.get(key)
        if entry is None:
            return None
        read, used, rows = entry
        table = self._table
        if (table.cache_ms is not None and (now - read) * 1000 > table.cache_ms) or (
            table.idle_ms is not None and (now - used) * 1000 > table.idle_ms
        ):
            del self._cache[key]
            return None
        self._cache[key] = (read, now, rows)
        self._cache.move_to_end(key)
        return rows

    def _keep(self, keys: list[tuple[Any, ...]], rows: list[tuple[Any, ...]], now: float) -> None:
        """Keep rows by key, as the declared types compare them: a driver may return a key in another form."""
        at = [self._table.names.index(name) for name in self._table.keys]
        columns = columns_of(rows, self._table.names, self._table.types)
        found_keys = zip(*(columns.column(position).to_pylist() for position in at), strict=True) if rows else ()
        by_key: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for key, row in zip(found_keys, rows, strict=True):
            by_key.setdefault(key, []).append(row)
        for each in keys:
            if each in by_key or self._table.cache_missing:
                self._cache[each] = (now, now, by_key.get(each, []))
        while self._table.cache_rows is not None and len(self._cache) > self._table.cache_rows:
            self._cache.popitem(last=False)
