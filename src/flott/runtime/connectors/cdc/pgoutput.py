"""Decodes the output of PostgreSQL's plugin pgoutput, version 1 of its protocol. Pure; task side.

A transaction arrives whole, after its commit: Begin, changes, Commit. A Relation message comes before the first change
of a table in a session and whenever its columns have changed, so a new column appears with the change that has it.
Values are text, and become the Python values that a SELECT by psycopg gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from flott.datastream.connectors.base import BadRecord
from flott.datastream.connectors.cdc import UNAVAILABLE_VALUE, ChangeRecord
from flott.errors import BadRecordError, ConnectorError, StateError
from flott.runtime.connectors.cdc.visibility import ReadRows, left_over

#: Milliseconds from 1970 to 2000, where PostgreSQL's time begins.
EPOCH_2000_MS = 946_684_800_000

_BEGIN = Struct(">QqI")
_OID = Struct(">I")
_COUNT = Struct(">H")
_COLUMN = Struct(">Ii")

Load = Callable[[Any], Any]


@dataclass
class Relation:
    """The columns of a table, as of the changes that follow."""

    schema: str
    table: str
    captured: bool
    fields: tuple[str, ...]
    loads: list[Load]
    rows: ReadRows | None  #: what the snapshot contains, as long as the log is behind it
    key_index: int = 0  #: of the column by which the snapshot was cut
    moves: bool = False  #: a change of the key is a delete and an insert, because the old row is not logged

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass
class LogDecoder:
    """Turns messages into changes. The relations last for a session with the server."""

    database: str
    start: int  #: transactions whose commit begins before this position were read already
    captures: Callable[[str, str], bool]
    load_of: Callable[[int], Load]  #: from the type of a column
    snapshots: Mapping[str, ReadRows]
    keeps_going: bool = False  #: whether a row that cannot be decoded is put aside
    rejected: list[BadRecord] = field(default_factory=list)
    _relations: dict[int, Relation] = field(default_factory=dict)
    _xid: int = 0
    _ts_ms: int = 0
    _position: str = ""
    _reading: bool = False

    def changes(self, messages: Iterable[bytes]) -> Iterator[ChangeRecord]:
        """Yield the changes that the snapshot does not contain."""
        relations = self._relations
        for data in messages:
            kind = data[0]
            if kind == 73 or kind == 85 or kind == 68:  # Insert, Update, Delete
                relation = relations[_OID.unpack_from(data, 1)[0]]
                if not (self._reading and relation.captured):
                    continue
                try:
                    change = self._change(kind, relation, data)
                except Exception as error:
                    self._reject(relation, data, error)
                    continue
                if relation.rows is None and not (relation.moves and change[0] == "u"):
                    yield change
                else:
                    yield from left_over(change, relation.rows, relation.key_index, self._xid, relation.moves)
            elif kind == 66:  # Begin
                commit, micros, self._xid = _BEGIN.unpack_from(data, 1)
                self._reading = commit >= self.start
                self._ts_ms = EPOCH_2000_MS + micros // 1000
                self._position = f"{commit >> 32:X}/{commit & 0xFFFFFFFF:X}"
            elif kind == 82:  # Relation
                oid, relation = self._relation(data)
                relations[oid] = relation
            elif kind == 84 and self._reading:  # Truncate
                yield from self._truncates(data)

    def _change(self, kind: int, relation: Relation, data: bytes) -> ChangeRecord:
        loads, before, after, whole = relation.loads, None, None, False
        if kind == 73:
            op, (after, _) = "c", _values(data, 6, loads, None)
        elif kind == 68:
            whole = data[5] == 79  # O: the old row; K: its key
            op, (before, _) = "d", _values(data, 6, loads, None)
        elif data[5] == 78:  # N: only the new row
            op, (after, _) = "u", _values(data, 6, loads, None)
        else:
            whole = data[5] == 79
            before, place = _values(data, 6, loads, None)
            op, (after, _) = "u", _values(data, place + 1, loads, before if whole else None)
        return ChangeRecord(
            op, relation.fields, before, after, self.database, relation.schema, relation.table,
            self._ts_ms, self._position, str(self._xid), whole,
        )  # fmt: skip

    def _truncates(self, data: bytes) -> Iterator[ChangeRecord]:
        (count,) = _OID.unpack_from(data, 1)
        for index in range(count):
            relation = self._relations[_OID.unpack_from(data, 6 + 4 * index)[0]]
            if not relation.captured:
                continue
            known = False if relation.rows is None else relation.rows.agree(self._xid)
            if known is None:
                raise StateError(
                    f"The table {relation.name} was truncated (transaction {self._xid}) while its snapshot was taken,"
                    " so the snapshot has rows of before and after. Start the job again without its checkpoints."
                )
            if not known:
                yield ChangeRecord(
                    "t", relation.fields, None, None, self.database, relation.schema, relation.table,
                    self._ts_ms, self._position, str(self._xid), False,
                )  # fmt: skip

    def _relation(self, data: bytes) -> tuple[int, Relation]:
        (oid,) = _OID.unpack_from(data, 1)
        schema, place = _text(data, 5)
        table, place = _text(data, place)
        identity = data[place]
        (count,) = _COUNT.unpack_from(data, place + 1)
        place += 3
        fields, types = [], []
        for _ in range(count):
            field_name, place = _text(data, place + 1)
            fields.append(field_name)
            types.append(_COLUMN.unpack_from(data, place)[0])
            place += 8
        name = f"{schema or 'pg_catalog'}.{table}"
        captured = self.captures(schema, table)
        rows = self.snapshots.get(name)
        key_index = 0
        if rows is not None and rows.key is not None and captured:
            if rows.key not in fields:
                raise ConnectorError(
                    f"The table {name} has lost its column {rows.key!r}, by which its snapshot was read, before the log"
                    " reached the end of the snapshot. Start the job again without its checkpoints."
                )
            key_index = fields.index(rows.key)
        loads = [self.load_of(kind) for kind in types] if captured else []
        return oid, Relation(schema, table, captured, tuple(fields), loads, rows, key_index, identity != 102)

    def _reject(self, relation: Relation, data: bytes, error: Exception) -> None:
        place = f"table {relation.name}, transaction {self._xid} at {self._position} of the log"
        reason = f"{type(error).__name__}: {error}"
        if not self.keeps_going:
            raise BadRecordError(place, reason, data) from error
        self.rejected.append(BadRecord(place, reason, data, timestamp=self._ts_ms))


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.index(0, place)
    return data[place:end].decode(), end + 1


def _values(data: bytes, place: int, loads: list[Load], unchanged: list[Any] | None) -> tuple[list[Any], int]:
    """Return the values of a tuple, and where it ends. ``unchanged``: where values come from that were left out."""
    count = int.from_bytes(data[place : place + 2], "big")
    if count != len(loads):
        raise ValueError(f"the row has {count} values for {len(loads)} columns")
    place += 2
    values: list[Any] = []
    for index, load in enumerate(loads):
        kind = data[place]
        if kind == 116:  # text
            start = place + 5
            place = start + int.from_bytes(data[place + 1 : start], "big")
            values.append(load(data[start:place]))
        else:
            place += 1
            values.append(None if kind == 110 else UNAVAILABLE_VALUE if unchanged is None else unchanged[index])
    return values, place
