"""Publishes to JetStream and waits for its acknowledgements. Task and driver side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import Committer, DeliveryGuarantee, SinkWriter, WriterContext
from flott.datastream.connectors.nats import NatsSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.nats.connection import NatsConnection
from flott.runtime.connectors.queues.publishing import (
    Publisher,
    PublisherSource,
    PublishingWriter,
    StagedCommitter,
    StagedWriter,
)

#: The stream is given up if it acknowledges nothing for so long.
ACKNOWLEDGE_SECONDS = 60.0


class NatsPublisher(Publisher):
    """Sends messages and collects the promises of their acknowledgements."""

    def __init__(self, sink: NatsSink):
        self._subject = sink.subject
        self._with_ids = _is_exact(sink)
        self._connection = NatsConnection(sink.connection)
        self._promises: list[Any] = []

    def publish(self, messages: Sequence[QueueMessage]) -> None:
        doing = f"publishing to {self._subject}"
        self._promises += self._connection.call(self._send(messages), doing, ACKNOWLEDGE_SECONDS)

    async def _send(self, messages: Sequence[QueueMessage]) -> list[Any]:
        publish, promises = self._connection.stream.publish_async, []
        for message in messages:
            headers = dict(message.headers) if message.headers else {}
            if self._with_ids and message.id is not None:
                headers["Nats-Msg-Id"] = message.id
            subject = message.topic or self._subject
            promises.append(await publish(subject, message.value, ACKNOWLEDGE_SECONDS, headers=headers or None))
        return promises

    def flush(self) -> None:
        promises, self._promises = self._promises, []
        if promises:
            doing = f"waiting for the acknowledgements of {self._subject}"
            self._connection.call(_all(promises, self._subject), doing, ACKNOWLEDGE_SECONDS)

    def close(self) -> None:
        self._connection.close()


async def _all(promises: Sequence[Any], subject: str) -> None:
    for answer in await asyncio.gather(*promises, return_exceptions=True):
        if isinstance(answer, BaseException):
            if "NoResponders" in type(answer).__name__ or "NoStream" in type(answer).__name__:
                raise ConnectorError(f"No stream of NATS stores subject {subject}: create one that does.")
            raise answer


def check_sink(sink: NatsSink) -> None:
    """Find the stream that stores the subject."""
    connection = NatsConnection(sink.connection)
    try:
        connection.call(
            connection.stream.find_stream_name_by_subject(sink.subject), f"looking for a stream of {sink.subject}"
        )
    except ProgramError as error:
        if "not found" in str(error):
            raise ProgramError(
                f"No stream of NATS stores subject {sink.subject}: create one that does. JetStream confirms messages"
                " only if a stream has stored them."
            ) from error
        raise
    finally:
        connection.close()


def create_writer(sink: NatsSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of a sink."""
    if _is_exact(sink):
        return StagedWriter(_label(sink), context, sink.serialization_schema)
    return PublishingWriter(context, sink.serialization_schema, _publishers(sink))


def create_committer(sink: NatsSink) -> Committer | None:
    """Return the committer of a sink that publishes after the checkpoint."""
    return StagedCommitter(_label(sink), _publishers(sink)) if _is_exact(sink) else None


def _publishers(sink: NatsSink) -> PublisherSource:
    return PublisherSource(("nats", sink.connection, sink.subject, _is_exact(sink)), lambda: NatsPublisher(sink))


def _is_exact(sink: NatsSink) -> bool:
    return sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE


def _label(sink: NatsSink) -> str:
    return f"NATS subject {sink.subject}"
