"""Decodes the messages of a slice. Task side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from flott.common.serialization import DeserializationSchema
from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage
from flott.datastream.connectors.base import READ_BATCH_RECORDS, BadRecord, OnError, Records, Slice, SourceReader
from flott.errors import BadRecordError
from flott.runtime.connectors.decoding import decode_batch
from flott.runtime.connectors.queues.message import unpack


class QueueReader(SourceReader[Any]):
    """Yields the records of the messages that a slice holds."""

    def __init__(self, label: str, schema: DeserializationSchema, on_error: OnError):
        self._label = label
        self._schema = schema
        self._on_error = on_error

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        messages = unpack(part.detail)
        for start in range(0, len(messages), READ_BATCH_RECORDS):
            some = messages[start : start + READ_BATCH_RECORDS]
            yield decode(some, self._schema, self._on_error, partial(self._place, part, start))

    def _place(self, part: Slice, start: int, index: int) -> str:
        return self.locate(part, start + index)

    def locate(self, part: Slice, index: int) -> str:
        ids, topics = part.detail.get("id"), part.detail.get("topic")
        words = [self._label]
        if topics is not None and topics[index] is not None:
            words.append(f"topic {topics[index]}")
        if ids is not None and ids[index] is not None:
            words.append(f"message {ids[index]}")
        else:
            words.append(f"message {index} of slice {part.split}")
        return ", ".join(words)

    def roughly(self, part: Slice, index: int) -> str:
        return f"{self._label}, message {index} of slice {part.split}"


class _WholeMessages(DeserializationSchema):
    """Lets a schema that wants whole messages be used like any other."""

    def __init__(self, schema: QueueDeserializationSchema):
        self._schema = schema

    def deserialize(self, message: Any) -> Any:
        return self._schema.deserialize_message(message)

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()


def decode(
    messages: Sequence[QueueMessage], schema: DeserializationSchema, on_error: OnError, place: Callable[[int], str]
) -> Records[Any]:
    """Decode messages. One that cannot be decoded follows ``on_error``. ``place`` says where a message stands."""
    if isinstance(schema, QueueDeserializationSchema):
        whole: Sequence[Any] = messages
        decoded = decode_batch(_WholeMessages(schema), whole)
    else:
        decoded = decode_batch(schema, [message.value for message in messages])
    rejected: list[BadRecord] = []
    for index, error in decoded.bad:
        reason, message = f"{type(error).__name__}: {error}", messages[index]
        if not on_error.keeps_going:
            raise BadRecordError(place(index), reason, message.value) from error
        headers = tuple((key, text.encode()) for key, text in (message.headers or {}).items())
        rejected.append(BadRecord(place(index), reason, message.value, None, headers, message.timestamp))
    timestamps: list[int] | None = None
    if messages and messages[0].timestamp is not None:
        origins = range(len(messages)) if decoded.origins is None else decoded.origins
        timestamps = [messages[index].timestamp or 0 for index in origins]
    return Records(decoded.records, timestamps, rejected or None)
