"""Reads chunks of tables, and ranges of the log, from PostgreSQL. Task side.

The log is read by ``pg_logical_slot_peek_binary_changes``, which does not consume: the same range can be read again by
another process until the driver confirms it, and no session holds the slot between epochs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import Any

from flott._extras import require
from flott.datastream.connectors.base import BadRecord, Json, Records, Slice, SourceReader
from flott.datastream.connectors.cdc import ChangeRecord
from flott.datastream.connectors.postgres_cdc import PostgresSource
from flott.errors import BadRecordError
from flott.runtime.connectors.cdc.pgoutput import Load, LogDecoder
from flott.runtime.connectors.cdc.postgres_connection import borrowed, time_limit, wording
from flott.runtime.connectors.cdc.postgres_slot import lsn_of, lsn_text, quoted, with_slot
from flott.runtime.connectors.cdc.table_chunks import rows_condition
from flott.runtime.connectors.cdc.visibility import ReadRows, Visibility

#: Rows and messages that are fetched at once.
FETCH = 2000

#: Types whose text Python reads without psycopg, by their fixed numbers.
_FAST: dict[int, Load] = {
    16: lambda text: text == b"t",
    **dict.fromkeys((20, 21, 23, 26), int),
    **dict.fromkeys((25, 1042, 1043, 19), lambda text: text.decode()),
    **dict.fromkeys((700, 701), float),
}

_PEEK = """
COPY (SELECT data FROM pg_logical_slot_peek_binary_changes(
    %s, %s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', %s)) TO STDOUT (FORMAT BINARY)
"""

#: Generated columns are not in the log.
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""


class PostgresReader(SourceReader[Any]):
    """Reads both kinds of slices."""

    def __init__(self, source: PostgresSource):
        self._source = source
        self._reached: dict[str, Json] = {}

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        read = self._read_chunk if part.detail["kind"] == "chunk" else self._read_log
        with wording(self._source, f"reading {_place(part)} failed"), closing(read(part)) as batches:
            for changes, rejected in batches:
                yield self._records(changes, rejected)

    def reached(self, part: Slice) -> Json:
        return self._reached.get(part.split, part.stop)

    def locate(self, part: Slice, index: int) -> str:
        return f"{_place(part)}, record {index}"

    def _records(self, changes: list[ChangeRecord], rejected: list[BadRecord]) -> Records[Any]:
        """Deserialize changes. All records of a change have its time."""
        deserialize = self._source.deserializer.deserialize
        made = [deserialize(change) for change in changes]
        values = list(chain.from_iterable(made))
        if len(values) == len(changes) and all(len(records) == 1 for records in made):
            timestamps = [change.ts_ms for change in changes]
        else:
            timestamps = [change.ts_ms for change, records in zip(changes, made, strict=True) for _ in records]
        return Records(values, timestamps, rejected or None)

    # -- snapshot

    def _read_chunk(self, part: Slice) -> Generator[tuple[list[ChangeRecord], list[BadRecord]], None, None]:
        """Read the rows of a range of keys, and keep what they contain for the enumerator."""
        source, detail = self._source, part.detail
        schema, name = detail["schema"], detail["name"]
        full_name = f"{quoted(schema)}.{quoted(name)}"
        facts = (source.database, schema, name, detail["started_ms"], "", "", False)
        with borrowed(source, task=True) as connection, connection.transaction():
            with time_limit(connection, source.request_timeout_ms):
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                (seen,) = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
                (horizon,) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
                fields = tuple(column for (column,) in connection.execute(_COLUMNS, (full_name,)).fetchall())
                connection.execute(
                    f"DECLARE flott_chunk NO SCROLL CURSOR FOR SELECT {', '.join(map(quoted, fields))} FROM {full_name}"
                    + rows_condition(quoted(detail["key"] or ""), part.start, part.stop)
                )
            load_of = _loads(connection)
            loads: list[Load] = []
            while True:
                with time_limit(connection, source.request_timeout_ms):
                    cursor = connection.execute(f"FETCH FORWARD {FETCH} FROM flott_chunk")
                result = cursor.pgresult
                if not result.ntuples:
                    break
                loads = loads or [load_of(result.ftype(column)) for column in range(len(fields))]
                columns = list(enumerate(loads))
                changes, rejected = [], []
                value = result.get_value
                for row in range(result.ntuples):
                    try:
                        values = [
                            None if (text := value(row, column)) is None else load(text) for column, load in columns
                        ]
                    except Exception as error:
                        rejected.append(self._bad_row(part, [value(row, column) for column, _ in columns], error))
                        continue
                    changes.append(ChangeRecord("r", fields, None, values, *facts))
                yield changes, rejected
        self._reached[part.split] = {"snapshot": seen, "horizon": lsn_of(horizon)}

    def _bad_row(self, part: Slice, texts: list[bytes | None], error: Exception) -> BadRecord:
        reason, row = f"{type(error).__name__}: {error}", b"\t".join(text or b"\\N" for text in texts)
        if not self._source.on_error.keeps_going:
            raise BadRecordError(_place(part), reason, row) from error
        return BadRecord(_place(part), reason, row, timestamp=part.detail["started_ms"])

    # -- log

    def _read_log(self, part: Slice) -> Generator[tuple[list[ChangeRecord], list[BadRecord]], None, None]:
        source = self._source
        if part.start >= part.stop:
            return
        snapshots = {name: ReadRows.of(told, Visibility.parse) for name, told in part.detail["snapshots"].items()}
        with borrowed(source, task=True) as connection:
            decoder = LogDecoder(
                source.database, part.start, source.captures, _loads(connection), snapshots, source.on_error.keeps_going
            )
            with _peek(connection, source, part.stop) as messages:
                while True:
                    with time_limit(connection, source.request_timeout_ms):
                        fetched = [data for (data,) in islice(messages, FETCH)]
                    if not fetched:
                        break
                    changes = list(decoder.changes(fetched))
                    rejected, decoder.rejected = decoder.rejected, []
                    if changes or rejected:
                        yield changes, rejected


@contextmanager
def _peek(connection: Any, source: PostgresSource, stop: int) -> Iterator[Iterator[tuple[bytes]]]:
    """Decode the log up to a position. The server has released the slot when the first message arrives."""
    arguments = (source.slot, lsn_text(stop), quoted(source.publication))
    copying: list[Any] = []

    def begin() -> Iterator[tuple[bytes]]:
        context = connection.cursor().copy(_PEEK, arguments)
        copy = context.__enter__()
        copy.set_types(["bytea"])
        rows: Iterator[tuple[bytes]] = copy.rows()
        try:
            first = next(rows, None)
        except BaseException as error:
            context.__exit__(type(error), error, None)
            raise
        copying.append(context)
        return rows if first is None else chain((first,), rows)

    with time_limit(connection, source.request_timeout_ms):
        messages = with_slot(connection, source, begin)
    try:
        yield messages
    except BaseException:
        connection.close()  # to read the rest would take longer
        raise
    copying[0].__exit__(None, None, None)


def _loads(connection: Any) -> Any:
    """Return a function from a type's number to what turns its text into a Python value. Domains are their base."""
    psycopg = require("psycopg", extra="postgres")
    bases = dict(connection.execute("SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'").fetchall())
    transformer = psycopg.adapt.Transformer(connection)

    def load_of(kind: int) -> Load:
        while kind in bases:
            kind = bases[kind]
        load: Load = _FAST.get(kind) or transformer.get_loader(kind, psycopg.pq.Format.TEXT).load
        return load

    return load_of


def _place(part: Slice) -> str:
    """Return where a slice is, in words."""
    if part.detail["kind"] == "log":
        return f"the log from {lsn_text(part.start)} to {lsn_text(part.stop)}"
    keys = [f"{word} {key}" for word, key in (("from key", part.start), ("to key", part.stop)) if key is not None]
    return " ".join([f"table {part.detail['schema']}.{part.detail['name']}", *keys])
