"""Amazon SQS: a source and a sink. Specifications only: ``flott.runtime.connectors.sqs`` connects.

PyFlink has no such connector. Both need ``flott[sqs]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flott.common._secrets import Properties
from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.datastream.connectors._aws import aws_properties
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import (
    Boundedness,
    Committer,
    Guarantee,
    OnError,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.errors import ProgramError

__all__ = ["SqsSource", "SqsSink", "QueueMessage", "QueueDeserializationSchema", "QueueSerializationSchema"]


@dataclass(frozen=True)
class SqsSource(Source[Any]):
    """Reads a queue, standard or FIFO. Messages are deleted after the checkpoint that contains their effects.

    A message that is delivered again is recognized by its message id: exactly once. In a FIFO queue the messages of a
    group stay in order.
    """

    queue_url: str
    deserialization_schema: DeserializationSchema
    properties: Mapping[str, str] = field(default_factory=Properties)
    #: How many messages may be received and not deleted. SQS allows 120,000, or 20,000 of a FIFO queue.
    prefetch: int = 5000
    #: For how long a message is hidden from others. It is prolonged while the job lives, and waited for after a crash.
    visibility_timeout_seconds: int = 60
    on_error: OnError = OnError.fail()  # noqa: RUF009 (immutable)

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", aws_properties(self.properties))
        if not 10 <= self.visibility_timeout_seconds <= 43_200:
            raise ProgramError(
                f"The visibility time-out must be 10 to 43200 seconds, found {self.visibility_timeout_seconds}."
            )
        if not 0 < self.prefetch <= 120_000:
            raise ProgramError(f"The prefetch count must be 1 to 120000, found {self.prefetch}.")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.sqs import create_enumerator

        return create_enumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.queues.reader import QueueReader

        return QueueReader(f"SQS queue {self.queue_url}", self.deserialization_schema, self.on_error)


@dataclass(frozen=True)
class SqsSink(Sink[Any]):
    """Sends to a queue.

    To a FIFO queue messages are sent after the checkpoint with deduplication ids, so that the queue drops repeated ones
    (within five minutes): exactly once. Their group is the topic of a :class:`QueueMessage`, or the name of the
    subtask. To a standard queue they are sent as they come: at least once.
    """

    queue_url: str
    serialization_schema: SerializationSchema
    properties: Mapping[str, str] = field(default_factory=Properties)

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", aws_properties(self.properties))

    @property
    def is_fifo(self) -> bool:
        """Return whether the queue is a FIFO queue, which its name says."""
        return self.queue_url.endswith(".fifo")

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE if self.is_fifo else Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.sqs import check_queue

        check_queue(self.queue_url, self.properties)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.sqs import create_writer

        return create_writer(self, context)

    def create_committer(self) -> Committer | None:
        from flott.runtime.connectors.sqs import create_committer

        return create_committer(self)
