"""Plans the reading of PostgreSQL's tables and log. Driver side.

First the tables are read, chunk by chunk, each chunk a split of its own. Readers report which transactions their chunk
contains. Then the log is read, in one split, from where the slot began: each epoch reads whole transactions, up to a
position that the driver looked up in the log. A change that the snapshot contains is left out by the reader, until the
log is beyond the snapshot. A table that is added to the program later is read in the same way, while the log waits.

The state is the position in the log, which tables were read, and, for a while, what their chunks contain.
"""

from __future__ import annotations

from typing import Any

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.cdc import StartupMode
from flott.datastream.connectors.postgres_cdc import PostgresSource
from flott.errors import ProgramError, StateError
from flott.runtime.connectors.cdc import postgres_slot as slots
from flott.runtime.connectors.cdc.postgres_connection import session
from flott.runtime.connectors.cdc.postgres_slot import PostgresTable, lsn_of, lsn_text, quoted
from flott.runtime.connectors.cdc.table_chunks import TableChunks, edges_query

LOG = "log"  #: the split of the log

#: A log without changes of the source's tables is passed over in memory. An epoch without records makes that durable,
#: so that the server can remove the log, when it has grown so much, or after so long.
IDLE_BYTES = 16 << 20
IDLE_MS = 30_000

_MOST_MESSAGES = 1 << 30

_LOOK_AHEAD = """
SELECT (max(lsn) FILTER (WHERE get_byte(data, 0) = 67))::text,
       count(*) FILTER (WHERE get_byte(data, 0) IN (73, 85, 68)), count(*)
FROM (SELECT lsn, data FROM pg_logical_slot_peek_binary_changes(
          %s, %s::pg_lsn, %s::int, 'proto_version', '1', 'publication_names', %s)) AS log
"""


class PostgresEnumerator(SplitEnumerator):
    """Plans a :class:`PostgresSource`."""

    readable_beside = False

    def __init__(self, source: PostgresSource):
        self._source = source
        self._reads_tables = source.startup.mode in (StartupMode.INITIAL, StartupMode.SNAPSHOT)
        self._reads_log = source.startup.mode is not StartupMode.SNAPSHOT
        # The state: what snapshot returns.
        self._system: str | None = None
        self._started_ms: int | None = None  #: the time of the snapshot's rows: not later than any change in the log
        self._position: int | None = None  #: transactions whose commit begins before it were read
        self._chunks = TableChunks()
        # Not state.
        self._tables: list[PostgresTable] = []
        self._ready = False  #: the slot is there and fits
        self._origin: dict[str, Json] = {}  #: what the state begins with, before an epoch has completed
        self._looked: int = 0  #: up to here the log has nothing that was not read
        self._end: int = 0  #: of the log, when it was looked at last
        self._confirmed: int = 0
        self._moved_at_ms: int | None = None

    def open(self) -> None:
        source = self._source
        with session(source, "the source cannot be opened", source.request_timeout_ms) as connection:
            slots.check_server(connection, source)
            self._tables = slots.find_tables(connection, source)

    def restore(self, state: Json) -> None:
        self._system, self._started_ms, self._position = state["system"], state["started_ms"], state["position"]
        self._chunks = TableChunks(state["tables"])

    def snapshot(self) -> Json:
        return {
            "version": 1,
            "system": self._system,
            "started_ms": self._started_ms,
            "position": self._position,
            "tables": self._chunks.to_json(),
        }

    def plan(self, request: SliceRequest) -> SlicePlan:
        source = self._source
        with session(source, "planning the next epoch failed", 2 * source.request_timeout_ms) as connection:
            self._prepare(connection, request.now_ms)
            chunks, left = self._next_chunks(connection, request) if self._reads_tables else ((), False)
            if chunks or not self._reads_log:
                finished = not left and not self._reads_log
                return SlicePlan(chunks, finished=finished, backlog=not finished)
            if LOG in request.paused:
                return SlicePlan(backlog=True)
            return self._next_log(connection, request)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for part in plan.slices:
            detail = part.detail
            if self._started_ms is None:
                origin = detail["origin"]
                self._system, self._started_ms, self._position = (
                    origin["system"], origin["started_ms"], origin["position"],
                )  # fmt: skip
            if detail["kind"] == "chunk":
                name, seen = f"{detail['schema']}.{detail['name']}", reached[part.split]
                self._chunks.advance(name, detail["key"], part, seen["snapshot"], seen["horizon"])
            else:
                self._position, self._looked = part.stop, max(self._looked, part.stop)
                self._chunks.forget(part.stop)

    def acknowledge(self) -> None:
        position = self._position
        if not self._reads_log or position is None or position <= self._confirmed:
            return
        source = self._source
        limit_ms = source.request_timeout_ms + 2000 * slots.BUSY_PATIENCE_S
        with session(source, "confirming the log failed", limit_ms) as connection:
            if not self._confirmed:
                self._verify(connection)
            if position > self._confirmed:
                slots.advance_slot(connection, source, position)
                self._confirmed = position

    def pending(self, now_ms: int) -> Pending:
        """Bytes of the log, which may be about other tables."""
        if self._position is None or not self._reads_log:
            return Pending()
        return Pending(bytes=max(0, self._end - self._position))

    # -- before the first plan

    def _prepare(self, connection: Any, now_ms: int) -> None:
        """Create the publication and the slot, or check that they fit to the state."""
        if self._ready:
            return
        source = self._source
        if not self._reads_log:
            self._origin = {"system": slots.system_of(connection), "started_ms": now_ms, "position": None}
            self._ready = True
            return
        if self._position is not None:
            self._verify(connection)
            slots.ensure_publication(connection, source, self._tables)
        else:
            slots.ensure_publication(connection, source, self._tables)
            self._origin = self._begin(connection, now_ms)
        self._looked = self._position if self._position is not None else self._origin["position"]
        self._moved_at_ms = now_ms
        self._ready = True

    def _verify(self, connection: Any) -> None:
        """Raise StateError if the slot does not fit to the state."""
        system = slots.system_of(connection)
        if self._system is not None and system != self._system:
            raise StateError(
                f"The checkpoint was made with another database server (system {self._system}, found {system}), whose"
                " log has other positions. Start the job without its checkpoints, so that it takes a new snapshot."
            )
        slot = slots.read_slot(connection, self._source)
        slots.refuse_lost(slot, self._source, self._position)
        assert slot is not None
        if not slots.log_end(connection, self._source)[1]:
            raise StateError(slots.unpublished(self._source))
        self._confirmed = slot.confirmed

    def _begin(self, connection: Any, now_ms: int) -> dict[str, Json]:
        """Create the slot, unless an attempt before did, and say where in the log the job begins."""
        source, mode = self._source, self._source.startup.mode
        slot = slots.read_slot(connection, source)
        if slot is None:
            if mode is StartupMode.COMMITTED_OFFSETS:
                raise ProgramError(
                    f"StartupOptions.committed() continues where the replication slot {source.slot!r} is, but there is"
                    " no such slot. Use StartupOptions.initial() or latest()."
                )
            slots.create_slot(connection, source)
            slot = slots.read_slot(connection, source)
        slots.refuse_lost(slot, source, None)
        assert slot is not None
        self._confirmed = position = slot.confirmed
        if mode is StartupMode.LATEST_OFFSET:
            position = max(position, slots.log_end(connection, source)[0])
        return {"system": slots.system_of(connection), "started_ms": now_ms, "position": position}

    # -- snapshot

    def _next_chunks(self, connection: Any, request: SliceRequest) -> tuple[tuple[Slice, ...], bool]:
        """Return chunks for an epoch, and whether there are more."""

        def edges(table: PostgresTable, low: int | None, size: int, count: int | None) -> list[int]:
            query = edges_query(quoted(table.key or ""), table.quoted_name, low, size, count)
            return [int(edge) for (edge,) in connection.execute(query).fetchall()]

        return self._chunks.plan(self._tables, request, self._source.split_size, edges, self._chunk)

    def _chunk(self, table: PostgresTable, key: str | None, low: int | None, high: int | None, size: int) -> Slice:
        started_ms = self._started_ms if self._started_ms is not None else self._origin["started_ms"]
        detail = {
            "kind": "chunk",
            "schema": table.schema,
            "name": table.name,
            "key": key,
            "started_ms": started_ms,
            "origin": self._origin,
        }
        records = None if low is None and high is None else size
        return Slice(f"{table.full_name}@{low}", low, high, records, ends_split=True, detail=detail)

    # -- log

    def _next_log(self, connection: Any, request: SliceRequest) -> SlicePlan:
        """Return the log up to the end of a transaction, about as many changes as were asked for."""
        start = self._position if self._position is not None else self._origin["position"]
        end, published = slots.log_end(connection, self._source)
        if not published:
            raise StateError(slots.unpublished(self._source))
        self._end = max(self._end, end)
        if self._end <= self._looked:
            return SlicePlan(waiting=(LOG,))
        stop, changes, more = self._look_ahead(connection, request.max_records)
        if stop is not None:
            self._moved_at_ms = request.now_ms
            return SlicePlan((self._log(start, stop, changes),), backlog=more)
        self._looked = self._end
        waited = request.now_ms - (self._moved_at_ms or 0)
        beyond_snapshot = self._position is not None and bool(self._chunks.for_log())
        if beyond_snapshot or self._end - start >= IDLE_BYTES or waited >= IDLE_MS:
            self._moved_at_ms = request.now_ms
            return SlicePlan((self._log(start, self._end, 0),))
        return SlicePlan(waiting=(LOG,))

    def _look_ahead(self, connection: Any, max_records: int) -> tuple[int | None, int, bool]:
        """Return the end of the last transaction to read, how many changes there are, and whether there are more."""
        source, limit = self._source, min(max_records, _MOST_MESSAGES)

        def look() -> tuple[str | None, int, int]:
            arguments = (source.slot, lsn_text(self._end), limit, quoted(source.publication))
            found: tuple[str | None, int, int] = connection.execute(_LOOK_AHEAD, arguments).fetchone()
            return found

        while True:
            last, changes, messages = slots.with_slot(connection, source, look)
            stop = None if last is None else lsn_of(last)
            if stop is not None and stop > self._looked:
                return stop, changes, messages >= limit
            if messages < limit or limit == _MOST_MESSAGES:
                return None, 0, False
            limit = min(2 * limit, _MOST_MESSAGES)  # all of these were read and not confirmed yet

    def _log(self, start: int, stop: int, changes: int) -> Slice:
        detail = {"kind": "log", "snapshots": self._chunks.for_log(), "origin": self._origin}
        return Slice(LOG, start, stop, changes, detail=detail)
