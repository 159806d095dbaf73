"""Reads chunks of tables, and ranges of the binary log, from MySQL and MariaDB. Task side."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

from flott._extras import require
from flott.datastream.connectors.base import BadRecord, Json, Records, Slice, SourceReader
from flott.datastream.connectors.cdc import ChangeRecord
from flott.datastream.connectors.mysql_cdc import MySqlSource
from flott.errors import BadRecordError
from flott.runtime.connectors.cdc.binlog import LogRange, changes_of
from flott.runtime.connectors.cdc.mysql_connection import (
    SeenUpTo,
    log_end,
    position_of,
    quoted,
    rows_of,
    session,
    wording,
)
from flott.runtime.connectors.cdc.mysql_values import selected, snapshot_conversions
from flott.runtime.connectors.cdc.table_chunks import rows_condition
from flott.runtime.connectors.cdc.visibility import ReadRows

FETCH = 2000

_COLUMNS = (
    "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    " ORDER BY ORDINAL_POSITION"
)

Batches = Generator[tuple[list[ChangeRecord], list[BadRecord]], None, None]


class MySqlReader(SourceReader[Any]):
    """Reads both kinds of slices."""

    def __init__(self, source: MySqlSource):
        self._source = source
        self._reached: dict[str, Json] = {}

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        deserialize = self._source.deserializer.deserialize
        read = self._read_chunk if part.detail["kind"] == "chunk" else self._read_log
        with wording(self._source, f"reading {_place(part)} failed"), closing(read(part)) as batches:
            for changes, rejected in batches:
                made = [deserialize(change) for change in changes]
                timestamps = [change.ts_ms for change, records in zip(changes, made, strict=True) for _ in records]
                yield Records(list(chain.from_iterable(made)), timestamps, rejected or None)

    def reached(self, part: Slice) -> Json:
        return self._reached[part.split]

    def locate(self, part: Slice, index: int) -> str:
        return f"{_place(part)}, record {index}"

    def _read_chunk(self, part: Slice) -> Batches:
        """Read the rows of a range of keys, and keep the position of the log at which they were read."""
        source, detail = self._source, part.detail
        database, name = detail["database"], detail["name"]
        facts = (database, "", name, detail["started_ms"], "", "", False)
        cursors = require("pymysql.cursors", extra="mysql-cdc")
        with (
            session(source, f"reading {_place(part)} failed") as connection,
            _snapshot(connection, detail["mariadb"], detail["positioned"]) as position,
        ):
            columns = rows_of(connection, _COLUMNS, database, name)
            fields = tuple(column for column, _ in columns)
            listed = ", ".join(selected(quoted(column), kind) for column, kind in columns)
            conversions = snapshot_conversions([kind for _, kind in columns], source.time_zone, detail["mariadb"])
            with connection.cursor(cursors.SSCursor) as cursor:
                cursor.execute(
                    f"SELECT {listed} FROM {quoted(database)}.{quoted(name)}"
                    + rows_condition(quoted(detail["key"] or ""), part.start, part.stop)
                )
                while rows := cursor.fetchmany(FETCH):
                    changes, rejected = [], []
                    for row in rows:
                        values = list(row)
                        try:
                            for index, convert in conversions:
                                if values[index] is not None:
                                    values[index] = convert(values[index])
                        except Exception as error:
                            rejected.append(self._bad_row(part, row, error))
                            continue
                        changes.append(ChangeRecord("r", fields, None, values, *facts))
                    yield changes, rejected
        self._reached[part.split] = {"position": position}

    def _bad_row(self, part: Slice, row: Any, error: Exception) -> BadRecord:
        reason, shown = f"{type(error).__name__}: {error}", repr(row).encode()
        if not self._source.on_error.keeps_going:
            raise BadRecordError(_place(part), reason, shown) from error
        return BadRecord(_place(part), reason, shown, timestamp=part.detail["started_ms"])

    def _read_log(self, part: Slice) -> Batches:
        (file, start), (_, stop) = position_of(part.start), position_of(part.stop)
        snapshots = {name: ReadRows.of(told, SeenUpTo.parse) for name, told in part.detail["snapshots"].items()}
        log = LogRange(self._source, file, start, stop, snapshots, dict(part.detail["prepared"]))
        count = 0
        if start < stop:
            for changes, rejected in changes_of(log):
                count += len(changes)
                yield changes, rejected
        self._reached[part.split] = {"prepared": log.prepared, "records": count}


@contextmanager
def _snapshot(connection: Any, mariadb: bool, needs_position: bool) -> Iterator[Json]:
    """Open a transaction that sees one state of all tables, and give the position of the log that belongs to it.

    MariaDB tells the position within the transaction. For MySQL all tables are locked for a moment.
    """
    rows_of(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    locks = needs_position and not mariadb
    if locks:
        rows_of(connection, "FLUSH TABLES WITH READ LOCK")
    try:
        rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        position: Json = None
        if needs_position and mariadb:
            found = dict(rows_of(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
            position = [found["Binlog_snapshot_file"], int(found["Binlog_snapshot_position"])]
        elif needs_position:
            position = list(log_end(connection))
    finally:
        if locks:
            rows_of(connection, "UNLOCK TABLES")
    yield position
    rows_of(connection, "COMMIT")


def _place(part: Slice) -> str:
    """Return where a slice is, in words."""
    if part.detail["kind"] == "log":
        return f"the binary log {part.start[0]} from {part.start[1]} to {part.stop[1]}"
    keys = [f"{word} {key}" for word, key in (("from key", part.start), ("to key", part.stop)) if key is not None]
    return " ".join([f"table {part.detail['database']}.{part.detail['name']}", *keys])
