"""Plans the reading of MySQL's tables and binary log. Driver side.

First the tables are read, chunk by chunk. Readers report the position in the log that their chunk was read at, and the
reader of the log leaves out what the chunk contains. Then the log is read in one split, file by file. The driver lists
the events of the log, so that each epoch reads whole transactions, and none runs for a part of the log in which the
tables of the source did not change.

A transaction of two phases (XA) is logged when it is prepared. The state has where, until it is committed.
"""

from __future__ import annotations

from typing import Any

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.cdc import StartupMode
from flott.datastream.connectors.mysql_cdc import MySqlSource
from flott.errors import ConnectorError, StateError
from flott.runtime.connectors.cdc.binlog_groups import Listing, whole_groups
from flott.runtime.connectors.cdc.mysql_connection import (
    MySqlTable,
    check_server,
    find_tables,
    is_mariadb,
    log_end,
    log_files,
    ordinal,
    position_of,
    quoted,
    rows_of,
    server_of,
    session,
)
from flott.runtime.connectors.cdc.table_chunks import TableChunks, edges_query

LOG = "log"  #: the split of the log

#: Events that are listed at once: at least, and at most.
LISTED_EVENTS = (500, 1 << 30)
#: Listings without a change of the source's tables before an epoch is asked for again.
LISTINGS_PER_PLAN = 20
#: Bytes of the log per change, before that is known.
BYTES_PER_RECORD = 100
#: How many records the average is made of.
REMEMBERED_RECORDS = 1_000_000
#: A log without changes of the source's tables is passed over in memory, and an epoch makes that durable after so long.
IDLE_MS = 30_000

_FIRST_EVENT = 4


class MySqlEnumerator(SplitEnumerator):
    """Plans a :class:`MySqlSource`."""

    readable_beside = False

    def __init__(self, source: MySqlSource):
        self._source = source
        self._reads_tables = source.startup.mode in (StartupMode.INITIAL, StartupMode.SNAPSHOT)
        self._reads_log = source.startup.mode is not StartupMode.SNAPSHOT
        # The state: what snapshot returns.
        self._server: str | None = None
        self._started_ms: int | None = None
        self._position: tuple[str, int] | None = None
        self._prepared: dict[str, Json] = {}  #: XA transactions that are neither committed nor rolled back: where
        self._chunks = TableChunks()
        self._read = (0, 0)  #: bytes of the log and records, for the average
        # Not state.
        self._tables: list[MySqlTable] = []
        self._mariadb = False
        self._ready = False
        self._origin: dict[str, Json] = {}
        self._looked: tuple[str, int] = ("", 0)  #: up to here the log has nothing that was not read
        self._end: tuple[str, int] = ("", 0)
        self._moved_at_ms = 0

    def open(self) -> None:
        with session(self._source, "the source cannot be opened") as connection:
            check_server(connection, self._source)
            self._tables = find_tables(connection, self._source)
            self._mariadb = is_mariadb(connection)

    def restore(self, state: Json) -> None:
        self._server, self._started_ms = state["server"], state["started_ms"]
        self._position = None if state["position"] is None else position_of(state["position"])
        self._prepared = dict(state["prepared"])
        self._chunks = TableChunks(state["tables"])
        self._read = (state["read"][0], state["read"][1])

    def snapshot(self) -> Json:
        return {
            "version": 1,
            "server": self._server,
            "started_ms": self._started_ms,
            "position": None if self._position is None else list(self._position),
            "prepared": dict(self._prepared),
            "tables": self._chunks.to_json(),
            "read": list(self._read),
        }

    def plan(self, request: SliceRequest) -> SlicePlan:
        with session(self._source, "planning the next epoch failed") as connection:
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
            detail, told = part.detail, reached[part.split]
            if self._started_ms is None:
                origin = detail["origin"]
                self._server, self._started_ms = origin["server"], origin["started_ms"]
                self._position = None if origin["position"] is None else position_of(origin["position"])
            if detail["kind"] == "chunk":
                name = f"{detail['database']}.{detail['name']}"
                horizon = 0 if told["position"] is None else ordinal(*position_of(told["position"]))
                self._chunks.advance(name, detail["key"], part, _text(told["position"]), horizon)
            else:
                self._position = position_of(part.stop)
                if not self._looked[0] or ordinal(*self._looked) < ordinal(*self._position):
                    self._looked = self._position
                self._prepared = told["prepared"]
                self._chunks.forget(ordinal(*self._position))
                length, records = self._read[0] + part.stop[1] - part.start[1], self._read[1] + told["records"]
                self._read = (length, records) if records <= REMEMBERED_RECORDS else (length // 2, records // 2)

    def pending(self, now_ms: int) -> Pending:
        """Bytes of the log, if its end is in the file that is read."""
        if self._position is None or self._position[0] != self._end[0]:
            return Pending()
        return Pending(bytes=max(0, self._end[1] - self._position[1]))

    # -- before the first plan

    def _prepare(self, connection: Any, now_ms: int) -> None:
        """Find out where to begin, or check that the log still has what comes next."""
        if self._ready:
            return
        server = server_of(connection)
        if self._position is not None:
            self._verify(connection, server)
        elif self._started_ms is None:
            position = self._begin(connection) if self._reads_log else None
            self._origin = {"server": server, "started_ms": now_ms, "position": position and list(position)}
        if self._reads_log:
            self._looked = self._position or position_of(self._origin["position"])
        self._moved_at_ms = now_ms
        self._ready = True

    def _verify(self, connection: Any, server: str) -> None:
        again = "Start the job without its checkpoints, so that it takes a new snapshot."
        assert self._position is not None
        if server != self._server:
            raise StateError(
                f"The checkpoint was made with another server (number {self._server}, found {server}), whose log has"
                f" other positions. {again}"
            )
        files = log_files(connection)
        needed = [self._position[0], *(place[0] for place in self._prepared.values())]
        if lost := [file for file in needed if file not in files]:
            raise StateError(
                f"The server does not have {lost[0]} of its binary log any more; the oldest file is {files[0]}. {again}"
                " Keep binary logs longer (binlog_expire_logs_seconds or expire_logs_days)."
            )

    def _begin(self, connection: Any) -> tuple[str, int]:
        """Return where in the log the job begins."""
        startup = self._source.startup
        if startup.mode is StartupMode.EARLIEST_OFFSET:
            return log_files(connection)[0], _FIRST_EVENT
        if startup.offset is not None:
            return startup.offset
        position = log_end(connection)
        if self._reads_tables and (waiting := rows_of(connection, "XA RECOVER")):
            # Its rows are in the log before this position, and it may be committed after the snapshot.
            raise ConnectorError(
                f"The server has {len(waiting)} XA transactions that are prepared and not committed. A snapshot can be"
                " taken only when there is none. Commit them or roll them back (XA RECOVER lists them); the job tries"
                " again."
            )
        return position

    # -- snapshot

    def _next_chunks(self, connection: Any, request: SliceRequest) -> tuple[tuple[Slice, ...], bool]:
        def edges(table: MySqlTable, low: int | None, size: int, count: int | None) -> list[int]:
            query = edges_query(quoted(table.key or ""), table.quoted_name, low, size, count)
            return [int(edge) for (edge,) in rows_of(connection, query)]

        # To learn the position of a snapshot MySQL needs a lock on all tables, so a table is one chunk.
        size = self._source.split_size if self._mariadb or not self._reads_log else 1 << 62
        return self._chunks.plan(self._tables, request, size, edges, self._chunk)

    def _chunk(self, table: MySqlTable, key: str | None, low: int | None, high: int | None, size: int) -> Slice:
        started_ms = self._started_ms if self._started_ms is not None else self._origin["started_ms"]
        detail = {
            "kind": "chunk",
            "database": table.database,
            "name": table.name,
            "key": key,
            "mariadb": self._mariadb,
            "positioned": self._reads_log,
            "started_ms": started_ms,
            "origin": self._origin,
        }
        records = None if low is None and high is None else size
        return Slice(f"{table.full_name}@{low}", low, high, records, ends_split=True, detail=detail)

    # -- log

    def _next_log(self, connection: Any, request: SliceRequest) -> SlicePlan:
        """Return the next part of the log that changes tables of the source."""
        self._end = log_end(connection)
        for _ in range(LISTINGS_PER_PLAN):
            if ordinal(*self._looked) >= ordinal(*self._end):
                break
            file, start = self._looked
            listing = self._list(connection, file, start, request.max_records)
            if listing.stop is None:
                if not self._to_next_file(connection, file):
                    break
                continue
            if listing.telling:
                self._moved_at_ms = request.now_ms
                return SlicePlan((self._log(file, start, listing.stop),), backlog=listing.more)
            self._looked = (file, listing.stop)
        else:
            return SlicePlan(backlog=True)
        return self._idle(request.now_ms)

    def _idle(self, now_ms: int) -> SlicePlan:
        """Make it durable, now and then, that the log was passed over: the server may remove files."""
        position = self._position or position_of(self._origin["position"])
        passed = ordinal(*self._looked) > ordinal(*position)
        if passed and (self._chunks.for_log() or now_ms - self._moved_at_ms >= IDLE_MS):
            self._moved_at_ms = now_ms
            return SlicePlan((self._log(self._looked[0], self._looked[1], self._looked[1]),))
        return SlicePlan(waiting=(LOG,))

    def _list(self, connection: Any, file: str, start: int, max_records: int) -> Listing:
        """List events until there is a whole group, or no more events."""
        length, records = self._read
        average = length / records if records else BYTES_PER_RECORD
        limit = start + int(average * min(max_records, 1 << 40))
        count = max(LISTED_EVENTS[0], min(10 * max_records, 20_000))
        while True:
            events = rows_of(connection, f"SHOW BINLOG EVENTS IN '{file}' FROM {start} LIMIT {count}")
            listing = whole_groups(events, limit, self._source.captures)
            if listing.stop is not None or len(events) < count or count >= LISTED_EVENTS[1]:
                return listing
            count *= 4

    def _to_next_file(self, connection: Any, file: str) -> bool:
        """Continue with the next file, if there is one. The server may have died in this one."""
        later = [found for found in log_files(connection) if ordinal(found, 0) > ordinal(file, 0)]
        if later:
            self._looked = (later[0], _FIRST_EVENT)
        return bool(later)

    def _log(self, file: str, start: int, stop: int) -> Slice:
        detail = {
            "kind": "log",
            "snapshots": self._chunks.for_log(),
            "prepared": self._prepared,
            "origin": self._origin,
        }
        return Slice(LOG, [file, start], [file, stop], detail=detail)


def _text(position: Json) -> str:
    return "" if position is None else f"{position[0]}:{position[1]}"
