"""Reads shards of Kinesis ahead, and orders them by their lineage. Driver side."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import Json
from flott.errors import ConnectorError
from flott.runtime.connectors import aws

#: A position in a shard: ["trim"], ["at", milliseconds], ["after", sequence number] or ["end"].
Position = list[Any]
TRIM: Position = ["trim"]
END: Position = ["end"]
#: Errors that are normal: the next request may succeed.
BUSY = frozenset({"ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException"})


@dataclass
class Shard:
    """One shard, and what was read ahead of its position."""

    stream: str
    shard_id: str
    parents: tuple[str, ...]  #: names of the shards that it continues
    cursor: Position  #: the position after what was read ahead
    is_closed: bool = False  #: nothing is added to it any more
    buffer: deque[QueueMessage] = field(default_factory=deque)
    exhausted: bool = False  #: it is closed, and everything was read
    iterator: str | None = None
    reading: Future[None] | None = None
    due: float = 0.0  #: when it may be read again
    reads: int = 0  #: how often it was read

    @property
    def name(self) -> str:
        """Return the name of the split."""
        return f"{self.stream}/{self.shard_id}"

    def read_ahead(self, client: Any, limit: int) -> None:
        """Read once. Errors that only say "later" are ignored."""
        try:
            if self.iterator is None:
                self.iterator = self._iterator(client)
            answer = client.get_records(ShardIterator=self.iterator, Limit=limit)
        except Exception as error:
            code = aws.error_code(error)
            if code == "ExpiredIteratorException":
                self.iterator = None
            elif code not in BUSY:
                self.iterator = None
                raise
            return
        found = [
            QueueMessage(
                record["Data"],
                record["SequenceNumber"],
                record["PartitionKey"],
                int(record["ApproximateArrivalTimestamp"].timestamp() * 1000),
            )
            for record in answer["Records"]
        ]
        if found:
            self.buffer.extend(found)
            self.cursor = ["after", found[-1].id]
        self.iterator = answer.get("NextShardIterator")
        ended = self.is_closed and not found and not answer.get("MillisBehindLatest")
        self.exhausted = self.iterator is None or ended

    def _iterator(self, client: Any) -> str:
        match self.cursor:
            case ["trim"]:
                where: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
            case ["at", int(moment)]:
                where = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": datetime.fromtimestamp(moment / 1000, UTC)}
            case ["after", number]:
                where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": number}
            case _:
                raise ConnectorError(f"Kinesis shard {self.name}: {self.cursor} is no position.")
        answer = client.get_shard_iterator(StreamName=self.stream, ShardId=self.shard_id, **where)
        return str(answer["ShardIterator"])


def list_shards(client: Any, stream: str) -> list[Shard]:
    """Return the shards that a stream has, with those that have expired not among them."""
    found: list[Shard] = []
    request: dict[str, Any] = {"StreamName": stream}
    while True:
        answer = client.list_shards(**request)
        for raw in answer["Shards"]:
            parents = [raw.get("ParentShardId"), raw.get("AdjacentParentShardId")]
            names = tuple(f"{stream}/{parent}" for parent in parents if parent)
            closed = raw["SequenceNumberRange"].get("EndingSequenceNumber") is not None
            found.append(Shard(stream, raw["ShardId"], names, TRIM, closed))
        if not answer.get("NextToken"):
            return found
        request = {"NextToken": answer["NextToken"]}


def readable(shards: Mapping[str, Shard], positions: Mapping[str, Json]) -> list[Shard]:
    """Return the shards that may be read: not at their end, and all shards that they continue are.

    A parent that the stream does not have any more has expired.
    """
    return [
        shard
        for name, shard in shards.items()
        if positions.get(name) != END
        and all(positions.get(parent) == END for parent in shard.parents if parent in shards)
    ]


def start_position(kind: str, moment: str | None, now_ms: int) -> Position:
    """Return where a source begins that has no checkpoint.

    "Latest" is the present moment: a job that fails before its first checkpoint then misses nothing.

    >>> start_position("AT_TIMESTAMP", "1.5", 0)
    ['at', 1500]
    """
    if kind == "TRIM_HORIZON":
        return TRIM
    if kind == "LATEST" or moment is None:
        return ["at", now_ms]
    try:
        return ["at", int(float(moment) * 1000)]
    except ValueError:
        parsed = datetime.fromisoformat(moment)
        return ["at", int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)]


def now() -> float:
    """Return the time for intervals."""
    return time.monotonic()
