"""Executes a statement for each record, many at once. Task side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flott._extras import require
from flott.common.types import Row
from flott.datastream.connectors.base import BadRecord, WriterContext
from flott.datastream.connectors.cassandra import CassandraTableSink, MapperOptions
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.cassandra.connection import CassandraConnection, borrow, connection_failure, outcome_of
from flott.runtime.connectors.stores.actions import DONE, Action, ActionOutcome, ActionVerdict, Unavailable
from flott.runtime.connectors.stores.rows import is_delete, is_outdated, key_of, mapping_of
from flott.runtime.connectors.stores.writer import Store


class CassandraStore(Store[Any]):
    """A cluster, as one subtask writes to it in one epoch. An action is a statement, its values and its timestamp."""

    def __init__(self, sink: CassandraTableSink, context: WriterContext):
        self._sink = sink
        self.name = sink.address
        self._fields_of = mapping_of(context.record_type)
        # Microseconds. The time of an epoch never goes back, and a record takes longer than one microsecond.
        self._timestamp = context.now_ms * 1000
        self._unset = require("cassandra.query", extra="cassandra").UNSET_VALUE

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        make = self._by_query if self._sink.query else self._by_table
        fixed = self._sink.options.timestamp_micros
        for value in values:
            if not is_outdated(value):
                statement, bound = make(value)
                self._timestamp += 1
                yield Action(None, (statement, bound, fixed or self._timestamp), 100)

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        try:
            with borrow(self._sink) as connection:
                return execute(connection, self._sink, [action.body for action in actions])
        except (Unavailable, ProgramError):
            raise
        except Exception as error:
            raise connection_failure(self._sink, error) from error

    def rejected(self, action: Action, reason: str) -> BadRecord:
        statement, bound, _ = action.body
        return BadRecord(f"the row {bound!r} of {statement!r}", reason, repr(bound).encode())

    def _by_query(self, value: Any) -> tuple[str, tuple[Any, ...]]:
        if is_delete(value):
            raise ProgramError(
                f"A query executes the same statement for every row, found one of kind DELETE: {value!r}. Use"
                " set_table(), which deletes such rows, or filter them."
            )
        if isinstance(value, (tuple, list, Row)):
            bound = tuple(value)
        elif isinstance(value, Mapping):
            bound = tuple(value.values())
        else:
            raise TypeMismatchError(
                f"A query takes the fields of a tuple, a list, a row or a dict, found {value!r} of type"
                f" {type(value).__name__}: map it first."
            )
        return self._sink.query, self._with_nulls(bound)

    def _by_table(self, value: Any) -> tuple[str, tuple[Any, ...]]:
        fields = self._fields_of(value)
        if is_delete(value):
            where = " AND ".join(f"{_quoted(name)} = ?" for name in self._sink.key_fields)
            return f"DELETE FROM {self._sink.table} WHERE {where}", key_of(fields, self._sink.key_fields)
        return insertion(self._sink.table, tuple(fields), self._sink.options), self._with_nulls(tuple(fields.values()))

    def _with_nulls(self, bound: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._sink.options.saves_nulls or None not in bound:
            return bound
        return tuple(self._unset if one is None else one for one in bound)


def insertion(table: str, names: tuple[str, ...], options: MapperOptions) -> str:
    """Return the statement that inserts a row.

    >>> insertion("shop.orders", ("id", "article"), MapperOptions().ttl(60))
    'INSERT INTO shop.orders ("id", "article") VALUES (?, ?) USING TTL 60'
    """
    statement = (
        f"INSERT INTO {table} ({', '.join(map(_quoted, names))}) VALUES ({', '.join('?' * len(names))})"
        f"{' IF NOT EXISTS' if options.only_new else ''}"
    )
    return statement if options.ttl_seconds is None else f"{statement} USING TTL {options.ttl_seconds}"


def execute(
    connection: CassandraConnection, sink: CassandraTableSink, statements: Sequence[Any]
) -> list[ActionOutcome]:
    """Execute statements, so many at once as the sink allows; return what became of each."""
    outcomes: list[ActionOutcome] = [DONE] * len(statements)
    under_way: list[tuple[int, Any]] = []

    def finish(index: int, future: Any) -> None:
        try:
            future.result()
        except Exception as error:
            outcomes[index] = outcome_of(error)

    for index, (statement, bound, timestamp) in enumerate(statements):
        prepared = connection.prepare(statement)
        try:
            ready = prepared.bind(bound)
        except (TypeError, ValueError, KeyError) as error:
            outcomes[index] = ActionOutcome(ActionVerdict.REJECTED, f"its values do not fit the statement: {error}")
            continue
        if len(under_way) >= sink.concurrent_requests:
            finish(*under_way.pop(0))
        under_way.append((index, connection.execute(ready, timestamp, sink.options.traces)))
    for one in under_way:
        finish(*one)
    return outcomes


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
