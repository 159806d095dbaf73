"""What sources and sinks of message queues have in common for a program: a message with all that belongs to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message of a queue."""

    value: bytes
    id: str | None = None  #: unique in its queue, if the broker or the producer gives messages an id
    topic: str | None = None  #: the routing key, subject, topic or message group
    timestamp: int | None = None  #: when it was sent, in milliseconds, if the broker says so
    headers: Mapping[str, str] | None = None


class QueueDeserializationSchema(DeserializationSchema):
    """Converts a message with its topic and headers to a record. Extend it where the content alone is not enough.

    >>> from flott.common.typeinfo import Types
    >>> class WithTopic(QueueDeserializationSchema):
    ...     def deserialize_message(self, message):
    ...         return message.topic, message.value.decode()
    ...     def get_produced_type(self):
    ...         return Types.TUPLE([Types.STRING(), Types.STRING()])
    >>> WithTopic().deserialize_message(QueueMessage(b"21.5", topic="sensors/3"))
    ('sensors/3', '21.5')
    """

    @abstractmethod
    def deserialize_message(self, message: QueueMessage) -> Any:
        """Return the record of a message."""

    def deserialize(self, message: bytes) -> Any:
        return self.deserialize_message(QueueMessage(message))


class QueueSerializationSchema(SerializationSchema):
    """Converts a record to a message with a topic and headers of its own. The id is given by the sink.

    >>> class ByDevice(QueueSerializationSchema):
    ...     def serialize_message(self, element):
    ...         return QueueMessage(element[1].encode(), topic=f"sensors/{element[0]}")
    >>> ByDevice().serialize_message((3, "21.5")).topic
    'sensors/3'
    """

    @abstractmethod
    def serialize_message(self, element: Any) -> QueueMessage:
        """Return the message of a record. A topic of None means that of the sink."""

    def serialize(self, element: Any) -> bytes:
        return self.serialize_message(element).value
