"""Reads ranges of Pulsar partitions. Task side."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import READ_BATCH_RECORDS, Records, Slice, SourceReader
from flott.datastream.connectors.pulsar import PulsarSource
from flott.errors import ConnectorError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.pulsar.connection import client, explained, id_of, library, order
from flott.runtime.connectors.queues.reader import decode

#: How long the broker may take to deliver a message that is there.
READ_SECONDS = 30
#: Readers that stand where the next epoch begins.
POOL: ClientPool[Any] = ClientPool("Pulsar")


class PulsarReader(SourceReader[Any]):
    """Yields the messages after a position up to a message."""

    def __init__(self, source: PulsarSource):
        self._source = source
        self._at_stop = False  #: whether the last message that was read is the last one of its slice

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        if part.start == part.stop:
            return
        source, schema = self._source, self._source.deserialization_schema
        assert schema is not None
        key = (source.service_url, source.properties, part.split)
        with explained(source.service_url, source.properties, f"reading {part.split}"):
            reader = POOL.take((*key, str(part.start)), partial(self._reader, part))
        try:
            for messages in self._messages(part, reader):
                yield decode(messages, schema, source.on_error, partial(self._place, part, messages))
        except BaseException:
            reader.close()
            raise
        if self._at_stop:
            POOL.give_back((*key, str(part.stop)), reader, _close)
        else:
            reader.close()  # it does not stand at the end of the slice: the next one must not continue with it

    def _reader(self, part: Slice) -> Any:
        earliest = library().MessageId.earliest
        made = client(self._source.service_url, self._source.properties)
        match part.start:
            case ["at", ident]:
                return made.create_reader(part.split, id_of(ident), start_message_id_inclusive=True)
            case ["after", ident]:
                return made.create_reader(part.split, id_of(ident))
            case ["time", int(moment)]:
                reader = made.create_reader(part.split, earliest)
                reader.seek(moment)
                return reader
        return made.create_reader(part.split, earliest)

    def _messages(self, part: Slice, reader: Any) -> Iterator[list[QueueMessage]]:
        last, found = order(id_of(part.stop[1])), list[QueueMessage]()
        self._at_stop = False
        while True:
            with explained(self._source.service_url, self._source.properties, f"reading {part.split}"):
                if not found and part.start[0] in ("at", "time") and not reader.has_message_available():
                    return  # the start is after the last message
                message = reader.read_next(READ_SECONDS * 1000)
            at = message.message_id()
            if order(at) > last:
                if part.start[0] == "after" and not found:
                    raise ConnectorError(f"Pulsar has removed messages of {part.split} that were to be read.")
                break
            ident = ":".join(map(str, order(at)))
            headers = message.properties() or None
            found.append(
                QueueMessage(
                    message.data(), ident, message.partition_key() or None, message.publish_timestamp(), headers
                )
            )
            if order(at) == last:
                self._at_stop = True
                break
            if len(found) >= READ_BATCH_RECORDS:
                yield found
                found = []
        if found:
            yield found

    def _place(self, part: Slice, messages: list[QueueMessage], index: int) -> str:
        return f"Pulsar topic {part.split}, message {messages[index].id}"

    def locate(self, part: Slice, index: int) -> str:
        return f"Pulsar topic {part.split}, record {index} of the epoch"


def _close(reader: Any) -> None:
    reader.close()
