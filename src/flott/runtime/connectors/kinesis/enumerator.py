"""Plans what an epoch reads of Kinesis streams. Driver side.

Nothing says where a shard ends at this moment but reading it, and the input of an epoch must be fixed before it runs.
So the driver reads the records, in the background, and they travel in the plan: each is read once. A position is a
sequence number, from which records can be read again after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.kinesis import START, START_TIME, FlinkKinesisConsumer
from flott.errors import ConnectorError, ProgramError, StateError
from flott.runtime.clock import SystemClock
from flott.runtime.connectors import aws
from flott.runtime.connectors.kinesis.shards import END, TRIM, Shard, list_shards, now, readable, start_position
from flott.runtime.connectors.queues.message import pack

log = logging.getLogger("flott.connectors")

STATE_VERSION = 1
#: Kinesis allows five reads of a shard per second.
READ_SECONDS = 0.2
DISCOVERY_SECONDS = 10.0
#: No more is read ahead of a shard than this.
MAX_BUFFERED = 20_000
#: The job is told about a service that refuses all requests for so long.
PATIENCE_SECONDS = 30.0
#: How long the first plan waits for records.
FIRST_SECONDS = 2.0


class ShardEnumerator(SplitEnumerator):
    """A split is a shard."""

    def __init__(self, source: FlinkKinesisConsumer):
        self._source = source
        self._properties = source.config_props
        self._label = f"Kinesis streams {', '.join(source.streams)}"
        self._interval = float(self._properties.get("flink.shard.getrecords.intervalmillis", READ_SECONDS * 1000)) / 1e3
        self._discovery = (
            float(self._properties.get("flink.shard.discovery.intervalmillis", DISCOVERY_SECONDS * 1000)) / 1e3
        )
        self._limit = int(self._properties.get("flink.shard.getrecords.maxrecordcount", "10000"))
        self._client: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._shards: dict[str, Shard] = {}
        self._positions: dict[str, Json] = {}  #: what the checkpoint has; a shard that is not in it begins at its start
        self._discover_at = 0.0
        self._failing_since: float | None = None

    def open(self) -> None:
        self._client = aws.client("kinesis", self._properties, "kinesis")
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="flott-kinesis")
        with aws.explained(self._label, self._properties):
            self._discover()
        kind, moment = self._properties.get(START, "LATEST"), self._properties.get(START_TIME)
        start = start_position(kind, moment, SystemClock().now_ms())
        self._positions = dict.fromkeys(self._shards, start)
        self._rewind()

    def restore(self, state: Json) -> None:
        if state["version"] != STATE_VERSION:
            raise StateError(
                f"{self._label}: the state has version {state['version']}, but {STATE_VERSION} is the highest known."
            )
        self._positions = dict(state["shards"])
        self._rewind()

    def _rewind(self) -> None:
        for name, shard in self._shards.items():
            shard.cursor = self._positions.get(name, TRIM)

    def _discover(self) -> None:
        found = {shard.name: shard for stream in self._source.streams for shard in list_shards(self._client, stream)}
        for name, shard in found.items():
            if (known := self._shards.get(name)) is not None:
                known.is_closed = shard.is_closed
                found[name] = known
            else:
                shard.cursor = self._positions.get(name, TRIM)
        self._shards = found
        self._discover_at = now() + self._discovery

    def plan(self, request: SliceRequest) -> SlicePlan:
        try:
            if now() >= self._discover_at:
                self._discover()
            live = readable(self._shards, self._positions)
            for shard in live:
                self._read_ahead(shard)
            self._await_first(live)
            self._failing_since = None
        except Exception as error:
            self._report(error)
            live = readable(self._shards, self._positions)
        ready = [shard for shard in live if shard.name not in request.paused and (shard.buffer or shard.exhausted)]
        share = max(1, request.max_records // max(1, len(ready)))
        slices = tuple(self._slice(shard, share) for shard in ready)
        waiting = tuple(shard.name for shard in live if shard not in ready)
        backlog = any(len(shard.buffer) > share for shard in ready)
        return SlicePlan(slices, backlog=backlog, waiting=waiting)

    def _read_ahead(self, shard: Shard) -> None:
        """Collect what was read, and read on in the background."""
        assert self._threads is not None
        if shard.reading is not None:
            if not shard.reading.done():
                return
            reading, shard.reading = shard.reading, None
            shard.reads += 1
            reading.result()
        if not shard.exhausted and len(shard.buffer) < MAX_BUFFERED and now() >= shard.due:
            shard.due = now() + self._interval
            shard.reading = self._threads.submit(shard.read_ahead, self._client, self._limit)

    def _await_first(self, live: Sequence[Shard]) -> None:
        """Wait a moment for the first read of shards: a job that restarts often must get somewhere."""
        first = [shard for shard in live if shard.reading is not None and shard.reads == 0]
        if first and not any(shard.buffer for shard in live):
            wait([shard.reading for shard in first if shard.reading is not None], FIRST_SECONDS)
            for shard in first:
                self._read_ahead(shard)

    def _report(self, error: Exception) -> None:
        """Raise an error that does not pass by itself."""
        secrets = self._properties.secrets() if hasattr(self._properties, "secrets") else ()
        explained = aws.explain(error, self._label, secrets)
        if self._failing_since is None:
            self._failing_since = now()
            log.warning("%s. Trying again.", explained)
        if isinstance(explained, ProgramError):
            raise explained from None
        if now() - self._failing_since > PATIENCE_SECONDS:
            raise ConnectorError(f"{explained} This has lasted for {PATIENCE_SECONDS:g} s.") from None

    def _slice(self, shard: Shard, share: int) -> Slice:
        messages = [shard.buffer[i] for i in range(min(share, len(shard.buffer)))]
        start = self._positions.get(shard.name, TRIM)
        return Slice(
            shard.name,
            start,
            ["after", messages[-1].id] if messages else start,
            records=len(messages),
            ends_split=shard.exhausted and len(messages) == len(shard.buffer),
            detail=pack(messages),
        )

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for part in plan.slices:
            self._positions[part.split] = END if part.ends_split else part.stop
            if (shard := self._shards.get(part.split)) is not None and part.records:
                self._drop(shard, part)
            if part.ends_split:
                self._discover_at = 0.0  # its children are there
        expired = [name for name, at in self._positions.items() if at == END and name not in self._shards]
        for name in expired:
            del self._positions[name]

    def _drop(self, shard: Shard, part: Slice) -> None:
        """Forget the records of a slice. If another enumerator planned it, read again after it."""
        if part.records and len(shard.buffer) >= part.records and shard.buffer[part.records - 1].id == part.stop[1]:
            for _ in range(part.records):
                shard.buffer.popleft()
            return
        if shard.reading is not None:
            shard.reading.exception(60)
        shard.buffer.clear()
        shard.reading, shard.iterator, shard.exhausted, shard.cursor = None, None, False, part.stop

    def snapshot(self) -> Json:
        return {"version": STATE_VERSION, "shards": dict(self._positions)}

    def pending(self, now_ms: int) -> Pending:
        splits = {name: len(shard.buffer) for name, shard in self._shards.items()}
        return Pending(records=sum(splits.values()), splits=splits)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
