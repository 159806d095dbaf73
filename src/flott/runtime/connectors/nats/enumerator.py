"""Plans which messages of a JetStream stream an epoch reads: ranges of their numbers. Driver side."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from flott.datastream.connectors.base import Json, Pending, Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.nats import NatsSource
from flott.errors import StateError
from flott.runtime.connectors.nats.connection import POOL, NatsConnection

log = logging.getLogger("flott.connectors")
STATE_VERSION = 1


class NatsEnumerator(SplitEnumerator):
    """A split is a subject. All its positions are numbers of messages in the stream, which are never used again."""

    def __init__(self, source: NatsSource):
        self._source = source
        self._next: dict[str, int] = {}  #: the number of the next message, by subject
        self._stop: int | None = None  #: where a bounded source ends
        self._last = 0  #: the number of the last message, as far as is known
        self._reported = 1  #: messages before this number are known to be removed

    def open(self) -> None:
        with POOL.borrow(self._source.connection, self._connect, NatsConnection.close) as connection:
            state = self._state(connection)
            first = self._first(connection, state)
        self._last = state.last_seq
        self._next = dict.fromkeys(self._source.subjects, first)
        if self._source.bounded:
            self._stop = state.last_seq + 1

    def _connect(self) -> NatsConnection:
        return NatsConnection(self._source.connection)

    def _state(self, connection: NatsConnection) -> Any:
        stream = self._source.stream
        return connection.call(connection.stream.stream_info(stream), f"looking for stream {stream}").state

    def _first(self, connection: NatsConnection, state: Any) -> int:
        start = self._source.start
        match start.kind:
            case "earliest":
                return max(1, int(state.first_seq))
            case "latest":
                return int(state.last_seq) + 1
            case "sequence":
                return start.value
        return connection.call(self._find(connection, start.value), "finding the start")

    async def _find(self, connection: NatsConnection, milliseconds: int) -> int:
        """Return the number of the first message that was stored at a time or later."""
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=moment,
            ack_policy=AckPolicy.EXPLICIT,
            inactive_threshold=30.0,
        )
        made = await connection.stream.add_consumer(self._source.stream, config)
        await connection.stream.delete_consumer(self._source.stream, made.name)
        return int(made.delivered.stream_seq) + 1

    def restore(self, state: Json) -> None:
        if state["version"] != STATE_VERSION:
            raise StateError(
                f"NATS stream {self._source.stream}: the state has version {state['version']}, but {STATE_VERSION} is"
                " the highest known."
            )
        # A subject that the program has dropped is forgotten. One that is new begins where the program says.
        self._next |= {subject: number for subject, number in state["next"].items() if subject in self._next}
        self._stop = state["stop"]

    def plan(self, request: SliceRequest) -> SlicePlan:
        with POOL.borrow(self._source.connection, self._connect, NatsConnection.close) as connection:
            state = self._state(connection)
        self._last = int(state.last_seq)
        self._report_removed(int(state.first_seq))
        end = self._last + 1 if self._stop is None else self._stop
        share = max(1, request.max_records // max(1, len(self._next)))
        slices = []
        for subject, number in self._next.items():
            stop = end if request.everything else min(end, number + share)
            if subject not in request.paused and number < stop:
                ends = self._stop is not None and stop >= self._stop
                slices.append(Slice(subject, number, stop, records=stop - number, ends_split=ends))
        planned = {part.split: part.stop for part in slices}
        left = [subject for subject, number in self._next.items() if planned.get(subject, number) < end]
        waiting = tuple(subject for subject in self._next if subject not in planned)
        finished = self._stop is not None and not left
        return SlicePlan(tuple(slices), finished=finished, backlog=bool(left), waiting=() if finished else waiting)

    def _report_removed(self, first: int) -> None:
        """Say that the stream has removed messages that were not read. Some may have been of other subjects."""
        oldest = min(self._next.values())
        if first > max(oldest, self._reported):
            self._reported = first
            log.warning(
                "NATS stream %s has removed messages before number %d, but this source has read only up to %d. Keep"
                " messages for longer (max_age, max_msgs, max_bytes of the stream).",
                self._source.stream, first, oldest - 1,
            )  # fmt: skip

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        self._next |= {subject: number for subject, number in reached.items() if subject in self._next}

    def snapshot(self) -> Json:
        return {"version": STATE_VERSION, "next": dict(self._next), "stop": self._stop}

    def pending(self, now_ms: int) -> Pending:
        end = self._last + 1 if self._stop is None else self._stop
        splits = {subject: max(0, end - number) for subject, number in self._next.items()}
        return Pending(records=sum(splits.values()), splits=splits)
