"""Turns a range of the binary log into changes, with mysql-replication. Task side."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from flott._extras import require
from flott.datastream.connectors.base import BadRecord, Json
from flott.datastream.connectors.cdc import ChangeRecord
from flott.datastream.connectors.mysql_cdc import MySqlSource
from flott.errors import BadRecordError, ConnectorError, StateError
from flott.runtime.connectors.cdc.mysql_connection import connection_class, ordinal, settings_of
from flott.runtime.connectors.cdc.mysql_values import Convert, log_conversions
from flott.runtime.connectors.cdc.visibility import ReadRows, left_over

#: Changes that are handed over at once, about.
BATCH = 2000
#: Added to the server id while a prepared transaction is read again, because the log is being read with the other one.
SECOND_READER = 500_000_000

_TRUNCATE = re.compile(
    r"\s*(?:/\*.*?\*/\s*)*truncate\s+(?:table\s+)?(?:`([^`]+)`|(\w+))(?:\s*\.\s*(?:`([^`]+)`|(\w+)))?", re.I
)
_XA = re.compile(r"\s*XA\s+(START|END|COMMIT|ROLLBACK)\s+(.*?)\s*(ONE PHASE)?\s*$", re.I | re.S)
_STATEMENT = re.compile(r"\s*(?:/\*.*?\*/\s*)*(insert|update|delete|replace|load)\b", re.I)
_SET, _EMPTY_SET = 248, "empty set"
_XA_PREPARED = 0x40  #: the flag of MariaDB's Gtid event

Batch = tuple[list[ChangeRecord], list[BadRecord]]


@dataclass
class LogRange:
    """What is to be read, and what the reader learns on the way."""

    source: MySqlSource
    file: str
    start: int
    stop: int
    snapshots: Mapping[str, ReadRows]
    prepared: dict[str, Json]  #: XA transactions by name: file, start, stop


@dataclass
class _Group:
    """The event group that is being read."""

    start: int = 0
    gtid: str = ""
    xa: str | None = None  #: of an XA transaction: its name, empty until it is known


@dataclass
class _Columns:
    """What is known about the columns of a table, by the table map that is valid."""

    source: Any
    fields: tuple[str, ...]
    conversions: list[tuple[int, Convert]]
    rows: ReadRows | None
    key_index: int
    sets: list[int]  #: where columns of the type SET are


@dataclass
class _Changes:
    """The state of one reading."""

    log: LogRange
    #: Where and when a prepared transaction was committed, if such a one is read: (position, ordinal, milliseconds).
    commit: tuple[str, int, int] | None = None
    columns: dict[int, _Columns] = field(default_factory=dict)
    changes: list[ChangeRecord] = field(default_factory=list)
    rejected: list[BadRecord] = field(default_factory=list)


def changes_of(log: LogRange) -> Iterator[Batch]:
    """Yield the changes of whole transactions that the snapshot does not contain."""
    yield from _read(_Changes(log), log.file, log.start, log.stop, log.source.server_id)


def _read(state: _Changes, file: str, start: int, stop: int, server_id: int) -> Iterator[Batch]:
    group, before = _Group(start), start
    for event, place in _events(state.log.source, file, start, stop, server_id):
        kind = type(event).__name__
        if kind in ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent"):
            if group.xa is None or state.commit is not None:
                _add_rows(state, kind, event, file, place, group)
        elif kind in ("MariadbGtidEvent", "GtidEvent"):
            prepared = kind == "MariadbGtidEvent" and bool(event.flags & _XA_PREPARED)
            group = _Group(before, str(event.gtid), "" if prepared else None)
        elif kind == "QueryEvent" and state.commit is None:
            yield from _statement(state, event, file, place, group)
        elif kind == "XAPrepareEvent" and state.commit is None:
            where = [file, group.start, place]
            if event.one_phase:
                yield from _committed(state, where, event, file, place)
            else:
                state.log.prepared[group.xa or ""] = where
        elif kind == "PartialUpdateRowsEvent":
            raise ConnectorError(
                "The binary log has partial updates of JSON columns. Set binlog_row_value_options='' on the server."
            )
        before = place
        if len(state.changes) >= BATCH:
            yield _taken(state)
    if state.changes or state.rejected:
        yield _taken(state)


def _taken(state: _Changes) -> Batch:
    taken = state.changes, state.rejected
    state.changes, state.rejected = [], []
    return taken


def _events(source: MySqlSource, file: str, start: int, stop: int, server_id: int) -> Iterator[tuple[Any, int]]:
    """Yield the events of a range of one file, each with its end. The server is asked not to wait for more."""
    replication = require("pymysqlreplication", extra="mysql-cdc")
    pymysql = require("pymysql", extra="mysql-cdc")
    logging.getLogger("pymysqlreplication").setLevel(logging.ERROR)
    connections = 0

    def connect(**settings: Any) -> Any:
        # mysql-replication reconnects by itself, in the middle of a transaction, and then has lost the table map.
        nonlocal connections
        connections += 1
        if connections > 2:
            raise pymysql.err.OperationalError(2013, "Lost connection to the server while reading the binary log")
        if "db" in settings:  # the old name
            settings["database"] = settings.pop("db")
        return connection_class()(**settings)

    stream = replication.BinLogStreamReader(
        connection_settings=settings_of(source), server_id=server_id, log_file=file, log_pos=start, resume_stream=True,
        blocking=False, is_mariadb=False, enable_logging=False, pymysql_wrapper=connect,
    )  # fmt: skip
    place = start
    try:
        for event in stream:
            if type(event).__name__ == "RotateEvent":
                if event.next_binlog != file:
                    break
                continue
            if not event.packet.log_pos or event.packet.log_pos <= start:
                continue
            place = event.packet.log_pos
            if place > stop:
                break
            yield event, place
            if place == stop:
                break
    finally:
        with suppress(Exception):
            stream.close()
    if place < stop:
        raise ConnectorError(f"The binary log {file} ended at {place}, but was listed up to {stop}.")


def _add_rows(state: _Changes, kind: str, event: Any, file: str, place: int, group: _Group) -> None:
    source = state.log.source
    if not source.captures(event.schema, event.table):
        return
    position, number, ts_ms = state.commit or (f"{file}:{place}", ordinal(file, place), event.timestamp * 1000)
    try:
        rows = event.rows
        columns = _columns(state, event)
        made = [_change(kind, row, columns, event, ts_ms, position, group.gtid) for row in rows]
    except (ConnectorError, StateError):
        raise
    except Exception as error:
        where, reason = f"table {event.schema}.{event.table} at {position}", f"{type(error).__name__}: {error}"
        if not source.on_error.keeps_going:
            raise BadRecordError(where, reason) from error
        state.rejected.append(BadRecord(where, reason, None, timestamp=ts_ms))
        return
    if columns.rows is None:
        state.changes += made
    else:
        for change in made:
            state.changes += left_over(change, columns.rows, columns.key_index, number, moves=False)


def _change(kind: str, row: Any, columns: _Columns, event: Any, ts_ms: int, position: str, gtid: str) -> ChangeRecord:
    if kind == "UpdateRowsEvent":
        op, before, after = "u", _values(row, "before_", columns), _values(row, "after_", columns)
    elif kind == "WriteRowsEvent":
        op, before, after = "c", None, _values(row, "", columns)
    else:
        op, before, after = "d", _values(row, "", columns), None
    whole = before is not None
    return ChangeRecord(op, columns.fields, before, after, event.schema, "", event.table, ts_ms, position, gtid, whole)


def _values(row: dict[str, Any], prefix: str, columns: _Columns) -> list[Any]:
    values = list(row[f"{prefix}values"].values())
    for index, convert in columns.conversions:
        if values[index] is not None:
            values[index] = convert(values[index])
    if missing := row[f"{prefix}none_sources"]:
        for index in columns.sets:  # mysql-replication has None for the empty set
            if missing.get(columns.fields[index]) == _EMPTY_SET:
                values[index] = ""
    return values


def _columns(state: _Changes, event: Any) -> _Columns:
    """Return what is known about the columns of an event. Each table map brings a new list of them."""
    known = state.columns.get(event.table_id)
    if known is not None and known.source is event.columns:
        return known
    fields = tuple(column.name for column in event.columns)
    if None in fields:
        raise ConnectorError(
            f"The binary log does not name the columns of {event.schema}.{event.table} at this place. It was written"
            " before binlog_row_metadata=FULL was set: begin later in the log, or with a snapshot."
        )
    rows = state.log.snapshots.get(f"{event.schema}.{event.table}")
    key_index = 0
    if rows is not None and rows.key is not None:
        if rows.key not in fields:
            raise StateError(
                f"The table {event.schema}.{event.table} has lost its column {rows.key!r}, by which its snapshot was"
                " read, before the log reached the end of the snapshot. Start the job again without its checkpoints."
            )
        key_index = fields.index(rows.key)
    sets = [index for index, column in enumerate(event.columns) if column.type == _SET]
    conversions = log_conversions(event.columns, state.log.source.time_zone)
    state.columns[event.table_id] = made = _Columns(event.columns, fields, conversions, rows, key_index, sets)
    return made


def _statement(state: _Changes, event: Any, file: str, place: int, group: _Group) -> Iterator[Batch]:
    """Handle a statement in the log: the end of a prepared transaction, TRUNCATE, or one that should be rows."""
    text = event.query if isinstance(event.query, str) else event.query.decode(errors="replace")
    if match := _XA.match(text):
        what, name = match[1].upper(), match[2]
        if what in ("START", "END"):
            group.xa = name
        elif (where := state.log.prepared.pop(name, None)) is not None and what == "COMMIT":
            yield from _committed(state, where, event, file, place)
        return
    schema = event.schema.decode() if isinstance(event.schema, bytes) else str(event.schema)
    if match := _TRUNCATE.match(text):
        first, second = match[1] or match[2], match[3] or match[4]
        database, table = (first, second) if second else (schema, first)
        if state.log.source.captures(database, table):
            _truncate(state, database, table, event, file, place, group)
    elif _STATEMENT.match(text) and state.log.source.captures(schema, _table_in(text)):
        raise ConnectorError(
            f"The binary log has a statement where rows are expected, at {file}:{place}: a session has set"
            f" binlog_format to another value than ROW for a change of {schema}.{_table_in(text)}. This change cannot"
            " be captured. Start the job again without its checkpoints, so that it takes a new snapshot."
        )


def _table_in(text: str) -> str:
    """Return the table that a statement changes.

    >>> _table_in("insert into `t` values (1)"), _table_in("UPDATE IGNORE d.t SET a = 1")
    ('t', 't')
    """
    words = re.sub(
        r"^\s*(insert|update|delete|replace|load\s+data)\b|\b(into|from|ignore|low_priority|delayed|quick|high_priority)\b",
        " ",
        text,
        flags=re.I,
    )
    match = re.match(r"\s*(?:(?:`[^`]+`|\w+)\s*\.\s*)?(?:`([^`]+)`|(\w+))", words)
    return "" if match is None else match[1] or match[2]


def _committed(state: _Changes, where: Json, event: Any, file: str, place: int) -> Iterator[Batch]:
    """Read the changes of a prepared transaction, which take effect here."""
    if state.changes or state.rejected:
        yield _taken(state)
    again = _Changes(state.log, (f"{file}:{place}", ordinal(file, place), event.timestamp * 1000))
    yield from _read(again, where[0], where[1], where[2], state.log.source.server_id + SECOND_READER)


def _truncate(state: _Changes, database: str, table: str, event: Any, file: str, place: int, group: _Group) -> None:
    rows = state.log.snapshots.get(f"{database}.{table}")
    known = False if rows is None else rows.agree(ordinal(file, place))
    if known is None:
        raise StateError(
            f"The table {database}.{table} was truncated at {file}:{place}, while its snapshot was taken, so the"
            " snapshot has rows of before and after. Start the job again without its checkpoints."
        )
    if not known:
        facts = (database, "", table, event.timestamp * 1000, f"{file}:{place}", group.gtid, False)
        state.changes.append(ChangeRecord("t", (), None, None, *facts))
