"""Reads ranges of a JetStream stream. Task side.

A range is read by a consumer that the server forgets soon. Nothing is acknowledged: the position is in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import Records, Slice, SourceReader
from flott.datastream.connectors.nats import NatsSource
from flott.runtime.connectors.nats.connection import POOL, NatsConnection
from flott.runtime.connectors.queues.reader import decode

#: How many messages are asked for at once.
FETCH = 2000


class NatsReader(SourceReader[Any]):
    """Yields the messages with numbers of a range that match a subject."""

    def __init__(self, source: NatsSource):
        self._source = source

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        options, source = self._source.connection, self._source
        connection = POOL.take(options, lambda: NatsConnection(options))
        try:
            doing = f"reading stream {source.stream} from {part.start}"
            subscription, left = connection.call(self._subscribe(connection, part), doing)
            while left:
                fetch = subscription.fetch(min(FETCH, left), timeout=options.timeout_seconds)
                found = connection.call(fetch, doing)
                messages, numbers = [], []
                for message in found:
                    facts = message.metadata
                    left = facts.num_pending  # what the consumer has after this message
                    if facts.sequence.stream >= part.stop:
                        left = 0
                        break
                    headers = message.headers
                    moment = int(facts.timestamp.timestamp() * 1000)
                    numbers.append(facts.sequence.stream)
                    ident = headers.get("Nats-Msg-Id") if headers else None
                    messages.append(QueueMessage(message.data, ident, message.subject, moment, headers))
                if messages:
                    place = partial(self._place, numbers)
                    yield decode(messages, source.deserialization_schema, source.on_error, place)
            connection.call(subscription.unsubscribe(), doing)
        except BaseException:
            connection.close()
            raise
        POOL.give_back(options, connection, NatsConnection.close)

    async def _subscribe(self, connection: NatsConnection, part: Slice) -> tuple[Any, int]:
        """Return a subscription that begins with the range, and how many messages match from there on."""
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        stream = self._source.stream
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=part.start,
            ack_policy=AckPolicy.NONE,
            filter_subject=part.split,
            inactive_threshold=30.0,
            mem_storage=True,
        )
        made = await connection.stream.add_consumer(stream, config)
        subscription = await connection.stream.pull_subscribe_bind(made.name, stream)
        return subscription, made.num_pending

    def _place(self, numbers: list[int], index: int) -> str:
        return f"NATS stream {self._source.stream}, message {numbers[index]}"

    def locate(self, part: Slice, index: int) -> str:
        return f"NATS stream {self._source.stream}, record {index} of {part.split} from message {part.start}"
