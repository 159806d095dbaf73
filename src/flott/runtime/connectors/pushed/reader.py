"""Decodes the messages that a slice holds. Task side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common.serialization import DeserializationSchema
from flott.datastream.connectors.base import READ_BATCH_RECORDS, BadRecord, OnError, Records, Slice, SourceReader
from flott.errors import BadRecordError
from flott.runtime.connectors.decoding import decode_batch
from flott.runtime.connectors.pushed.enumerator import unpacked


class PushedReader(SourceReader[Any]):
    """Yields the records of the messages."""

    def __init__(self, label: str, schema: DeserializationSchema, on_error: OnError):
        self._label = label
        self._schema = schema
        self._on_error = on_error

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        messages = unpacked(part.detail)
        for start in range(0, len(messages), READ_BATCH_RECORDS):
            some = messages[start : start + READ_BATCH_RECORDS]
            decoded = decode_batch(self._schema, some)
            rejected = [self._rejected(part, start + index, some[index], error) for index, error in decoded.bad]
            yield Records(decoded.records, rejected=rejected or None)

    def _rejected(self, part: Slice, index: int, value: bytes, error: Exception) -> BadRecord:
        place, reason = self.locate(part, index), f"{type(error).__name__}: {error}"
        if not self._on_error.keeps_going:
            raise BadRecordError(place, reason, value) from error
        return BadRecord(place, reason, value)

    def locate(self, part: Slice, index: int) -> str:
        return f"{self._label}, message {index} of slice {part.split}"
