"""Writes rows after the checkpoint that contains them. Task side: the writer; driver side: the committer.

Until then a row is part of the checkpoint, in Cassandra's own encoding of its values. So nothing of a failed attempt is
ever visible, also if the program would give other rows when an epoch is repeated.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from random import Random
from typing import Any

from flott._extras import require
from flott.datastream.connectors.base import CommitPermit, Committer, Json, SinkWriter, WriterContext
from flott.datastream.connectors.cassandra import CassandraTableSink
from flott.errors import ConnectorError, StateError
from flott.runtime.clock import SystemClock
from flott.runtime.connectors.cassandra.connection import borrow, connection_failure, outcome_of
from flott.runtime.connectors.cassandra.store import CassandraStore
from flott.runtime.connectors.stores.actions import DONE, ActionOutcome, Unavailable
from flott.runtime.connectors.stores.delivery import deliver

_log = logging.getLogger(__name__)
VERSION = 1
_ROWS = 1000  #: in one committable


class WriteAheadWriter(SinkWriter[Any]):
    """Encodes rows."""

    def __init__(self, sink: CassandraTableSink, context: WriterContext):
        self._sink = sink
        self._store = CassandraStore(sink, context)
        self._rows: list[Json] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        actions = list(self._store.actions(values))
        try:
            with borrow(self._sink) as connection:
                for action in actions:
                    statement, bound, timestamp = action.body
                    raw = connection.prepare(statement).bind(bound).values
                    self._rows.append([statement, [_packed(one) for one in raw], timestamp])
        except (TypeError, ValueError) as error:
            raise ConnectorError(f"{self._sink.address}: values do not fit the statement: {error}") from error
        except Exception as error:
            failure = connection_failure(self._sink, error)
            raise ConnectorError(str(failure)) from error

    def prepare_commit(self) -> list[Json]:
        rows = self._rows
        return [{"version": VERSION, "rows": rows[start : start + _ROWS]} for start in range(0, len(rows), _ROWS)]


class WriteAheadCommitter(Committer):
    """Executes the statements of a completed checkpoint. Repeated, they write the same rows with the same times."""

    def __init__(self, sink: CassandraTableSink):
        self._sink = sink

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        for one in committables:
            if one["version"] != VERSION:
                raise StateError(
                    f"Found a committable of version {one['version']}; this Flott reads version {VERSION}. Use the"
                    " version of Flott that wrote the checkpoint."
                )
            refused = deliver(
                one["rows"],
                self._send,
                self._sink.retries,
                SystemClock(),
                Random(permit.checkpoint_id),
                self._sink.address,
            )
            if refused and not self._sink.on_rejected.keeps_going:
                raise ConnectorError(f"{self._sink.address} refused a row of {refused[0][0][0]!r}: {refused[0][1]}")
            if refused:
                _log.warning("%s refused %d rows; the first: %s", self._sink.address, len(refused), refused[0][1])

    def _send(self, rows: list[Json]) -> list[ActionOutcome]:
        queries = require("cassandra.query", extra="cassandra")
        try:
            with borrow(self._sink) as connection:
                futures = []
                for statement, values, timestamp in rows:
                    ready = queries.BoundStatement(connection.prepare(statement))
                    ready.values = [queries.UNSET_VALUE if one is False else _unpacked(one) for one in values]
                    futures.append(connection.execute(ready, timestamp, self._sink.options.traces))
                return [_outcome(future) for future in futures]
        except Unavailable:
            raise
        except Exception as error:
            raise connection_failure(self._sink, error) from error


def _outcome(future: Any) -> ActionOutcome:
    try:
        future.result()
    except Exception as error:
        return outcome_of(error)
    return DONE


def _packed(value: Any) -> Json:
    """Return an encoded value as JSON; one that is to stay as it is (unset) is False."""
    if value is None:
        return None
    return base64.b64encode(value).decode() if isinstance(value, bytes) else False


def _unpacked(value: Json) -> bytes | None:
    return None if value is None else base64.b64decode(value)
