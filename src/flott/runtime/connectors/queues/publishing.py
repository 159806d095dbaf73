"""Writers and committer of sinks that send messages. Task and driver side.

There are two ways. A **direct** writer publishes as records come, and waits for the broker's confirmations before the
checkpoint: a repeated epoch publishes again (at least once). A **staged** writer publishes nothing: its messages become
part of the checkpoint, each with an id that never changes, and the committer publishes them once the checkpoint is
complete. Nothing of a failed attempt is ever visible, and a broker that drops repeated ids makes it exactly once.

Ids must not be used by direct writers to drop repeats: a repeated epoch may bring the records of a subtask in another
order, so that the same id would stand for another record, which would be lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from flott.common.serialization import SerializationSchema
from flott.datastream.connectors._queues import QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import CommitPermit, Committer, Json, SinkWriter, WriterContext
from flott.errors import ConnectorError, StateError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.queues.message import FORMAT_VERSION, pack, unpack

#: What one subtask may stage in an epoch: the messages travel through the driver and are part of the checkpoint.
STAGED_BYTES = 64 * 1024 * 1024
#: The committer sends so many messages, then waits for their confirmations.
COMMIT_BATCH = 5000


class Publisher(ABC):
    """A connection that sends messages. Used by one thread at a time; after an error it is closed."""

    @abstractmethod
    def publish(self, messages: Sequence[QueueMessage]) -> None:
        """Send messages. May return before the broker has them."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until the broker has confirmed all messages. Raises ConnectorError if it refuses one."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""


class PublisherSource:
    """How publishers of one sink are made and kept: by the key of everything that they depend on."""

    _pool: ClientPool[Publisher] = ClientPool("queues")

    def __init__(self, key: Hashable, create: Callable[[], Publisher]):
        self._key = key
        self._create = create

    def take(self) -> Publisher:
        """Return a publisher that was given back, or a new one."""
        return self._pool.take(self._key, self._create)

    def give_back(self, publisher: Publisher) -> None:
        """Keep a publisher that works."""
        self._pool.give_back(self._key, publisher, Publisher.close)


def encode(schema: SerializationSchema, values: Sequence[Any]) -> list[QueueMessage]:
    """Return the messages of records."""
    if isinstance(schema, QueueSerializationSchema):
        return [schema.serialize_message(value) for value in values]
    return [QueueMessage(raw) for raw in schema.serialize_batch(values)]


class PublishingWriter(SinkWriter[Any]):
    """Publishes records as they come."""

    def __init__(self, context: WriterContext, schema: SerializationSchema, publishers: PublisherSource):
        self._schema = schema
        self._publishers = publishers
        self._publisher: Publisher | None = None
        self._ids = f"{context.job_id}-{context.attempt_id}-{context.subtask}"
        self._count = 0
        self._flushed = True

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if self._publisher is None:
            self._publisher = self._publishers.take()
        self._flushed = False
        start = self._count
        self._count += len(values)
        messages = encode(self._schema, values)
        self._publisher.publish([replace(m, id=f"{self._ids}-{start + i}") for i, m in enumerate(messages)])

    def prepare_commit(self) -> list[Json]:
        if self._publisher is not None:
            self._publisher.flush()
            self._flushed = True
        return []

    def close(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            if self._flushed:
                self._publishers.give_back(publisher)
            else:
                publisher.close()


class StagedWriter(SinkWriter[Any]):
    """Keeps messages for the committer."""

    def __init__(self, label: str, context: WriterContext, schema: SerializationSchema):
        self._label = label
        self._context = context
        self._schema = schema
        self._messages: list[QueueMessage] = []
        self._bytes = 0

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        messages = encode(self._schema, values)
        self._bytes += sum([len(message.value) for message in messages])
        if self._bytes > STAGED_BYTES:
            raise ConnectorError(
                f"{self._label}: subtask {self._context.subtask} has more than {STAGED_BYTES} bytes of messages in"
                f" epoch {self._context.epoch}. They are published after the checkpoint and kept in it until then."
                " Use a shorter checkpoint interval, more subtasks, or DeliveryGuarantee.AT_LEAST_ONCE."
            )
        self._messages += messages

    def prepare_commit(self) -> list[Json]:
        if not self._messages:
            return []
        context = self._context
        return [
            {
                **pack(self._messages),
                # Fixed here, not by the committer: a job that continues from a savepoint has another id.
                "ids": f"{context.job_id}-{context.operator_id}-{context.attempt_id}-{context.subtask}",
                "epoch": context.epoch,
                "subtask": context.subtask,
            }
        ]


class StagedCommitter(Committer):
    """Publishes the messages of a completed checkpoint."""

    def __init__(self, label: str, publishers: PublisherSource):
        self._label = label
        self._publishers = publishers
        self._checkpoint = -1
        self._confirmed = 0  #: how many messages of this checkpoint are confirmed: a repeated commit skips them

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        if not committables:
            return
        if permit.checkpoint_id != self._checkpoint:
            self._checkpoint, self._confirmed = permit.checkpoint_id, 0
        messages = staged_messages(self._label, committables)
        publisher = self._publishers.take()
        try:
            while self._confirmed < len(messages):
                some = messages[self._confirmed : self._confirmed + COMMIT_BATCH]
                publisher.publish(some)
                publisher.flush()
                self._confirmed += len(some)
        except BaseException:
            publisher.close()
            raise
        self._publishers.give_back(publisher)


def staged_messages(label: str, committables: Sequence[Json]) -> list[QueueMessage]:
    """Return the messages of committables with their ids, in an order that never changes."""
    messages: list[QueueMessage] = []
    for packed in sorted(committables, key=lambda packed: (packed["epoch"], packed["subtask"])):
        if packed["version"] != FORMAT_VERSION:
            raise StateError(
                f"{label}: staged messages have format {packed['version']}, but {FORMAT_VERSION} is the highest known."
            )
        messages += [replace(message, id=f"{packed['ids']}-{i}") for i, message in enumerate(unpack(packed))]
    return messages
