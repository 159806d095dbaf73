"""Messages of Kafka as columns: key, value and metadata. Task side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common.types import RowKind
from flott.datastream.connectors.base import BadRecord, ColumnRecords, Slice
from flott.datastream.connectors.kafka._offsets import KafkaTopicPartition
from flott.errors import BadRecordError
from flott.runtime.connectors.columns.decoded import DecodedColumns
from flott.runtime.connectors.columns.rows import batch_of
from flott.runtime.connectors.kafka.partition_consumer import Message
from flott.runtime.connectors.kafka.reader import KafkaReader, RecordOffsets, partition_of, place
from flott.table._connectors.formats import MessageFormat
from flott.table._connectors.kafka_tables import TableKafkaSource
from flott.table._types.arrow import arrow_schema, arrow_type
from flott.table._types.logical import LogicalType
from flott.table._types.record_types import TableRowTypeInfo

#: Messages that become one batch of columns.
_BATCH_MESSAGES = 4096

_TIMESTAMP_TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


class _Part:
    """The key or the value of messages: the columns that are wanted of it."""

    def __init__(self, format: MessageFormat, columns: tuple[str, ...], wanted: dict[str, LogicalType]):
        fields = dict(zip(columns, format.names, strict=True))
        self.names = [name for name in columns if name in wanted]
        self.decoder = format.decoder([fields[name] for name in self.names], [wanted[name] for name in self.names])


class TableKafkaReader(KafkaReader):
    """Reads the slices of a :class:`TableKafkaSource`."""

    followed_messages = _BATCH_MESSAGES

    def __init__(self, source: TableKafkaSource):
        super().__init__(source)
        settings = source.table
        assert settings is not None
        self._settings = settings
        self._record_type = TableRowTypeInfo(settings.names, settings.types)
        self._schema = arrow_schema(settings.names, settings.types)
        wanted = dict(zip(settings.names, settings.types, strict=True))
        # What both hold is read from the value, except the key of a tombstone.
        in_value = {name: of for name, of in wanted.items() if name in settings.value_columns}
        in_key = {name: of for name, of in wanted.items() if name in settings.key_columns}
        if not settings.upsert:
            in_key = {name: of for name, of in in_key.items() if name not in in_value}
        self._value = _Part(settings.value, settings.value_columns, in_value)
        needs_key = settings.key is not None and (bool(in_key) or settings.upsert)
        self._key = _Part(settings.key, settings.key_columns, in_key) if needs_key and settings.key else None

    def read_batches(self, part: Slice) -> Iterator[ColumnRecords]:
        partition = partition_of(part)
        places = self._places[part.split] = RecordOffsets()
        with closing(self._messages(part)) as found:
            for messages in _gathered(batch for _, batch in found):
                yield self._decode(partition, messages, places)

    def _decode(self, partition: KafkaTopicPartition, messages: list[Any], places: RecordOffsets) -> ColumnRecords:
        records = self._columns(messages)
        places.add(records.columns.num_rows, messages[0].offset(), None)
        return records

    def _columns(self, messages: list[Any]) -> ColumnRecords:
        values = list(map(Message.value, messages))
        there = [index for index, value in enumerate(values) if value is not None]
        bad: list[tuple[int, str]] = []
        decoded = _decoded(self._value.decoder, [values[index] for index in there], there, bad)
        rows, kinds = decoded.messages, decoded.kinds
        assert rows is not None
        found = dict(zip(self._value.names, decoded.columns.columns, strict=False))
        if self._settings.upsert:
            rows, kinds, found = self._with_tombstones(rows, values, found)
        if self._key is not None:
            rows, kinds, found = self._with_keys(messages, rows, kinds, found, bad)
        self._add_metadata(messages, rows, found)
        arrays = [found[name] for name in self._settings.names]
        rejected = self._rejected(messages, bad) if bad else None
        return ColumnRecords(batch_of(arrays, self._schema, len(rows)), self._record_type, kinds, rejected)

    def _with_tombstones(
        self, rows: np.ndarray[Any, Any], values: list[Any], found: dict[str, pa.Array]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, pa.Array]]:
        """Return the rows of values and tombstones in the order of messages; a tombstone has NULL in its columns."""
        gone = np.array([index for index, value in enumerate(values) if value is None], dtype=np.int64)
        kinds = np.full(len(rows), RowKind.UPDATE_AFTER.value, dtype=np.int8)
        if not len(gone):
            return rows, kinds, found
        order = np.argsort(np.concatenate((rows, gone)), kind="stable")
        at = pa.array(np.where(order < len(rows), order, 0), mask=order >= len(rows))
        kinds = np.concatenate((kinds, np.full(len(gone), RowKind.DELETE.value, dtype=np.int8)))[order]
        return np.concatenate((rows, gone))[order], kinds, {name: column.take(at) for name, column in found.items()}

    def _with_keys(
        self,
        messages: list[Any],
        rows: np.ndarray[Any, Any],
        kinds: np.ndarray[Any, Any] | None,
        found: dict[str, pa.Array],
        bad: list[tuple[int, str]],
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None, dict[str, pa.Array]]:
        """Add the columns of keys; a message whose key cannot be decoded is left out."""
        assert self._key is not None
        keys = list(map(Message.key, messages))
        there = [index for index, each in enumerate(keys) if each is not None]
        decoded = _decoded(self._key.decoder, [keys[index] for index in there], there, bad)
        assert decoded.messages is not None
        place_of = np.full(len(messages), -1, dtype=np.int64)
        place_of[decoded.messages] = np.arange(len(decoded.messages))
        unreadable = {index for index, _ in bad}
        kept = np.array([row not in unreadable for row in rows.tolist()], dtype=bool)
        if not kept.all():
            rows, kinds = rows[kept], None if kinds is None else kinds[kept]
            found = {name: column.filter(pa.array(kept)) for name, column in found.items()}
        at = place_of[rows]
        taken = pa.array(np.where(at < 0, 0, at), mask=at < 0)
        found.update(
            (name, column.take(taken)) for name, column in zip(self._key.names, decoded.columns.columns, strict=False)
        )
        return rows, kinds, found

    def _add_metadata(self, messages: list[Any], rows: np.ndarray[Any, Any], found: dict[str, pa.Array]) -> None:
        types = dict(zip(self._settings.names, self._settings.types, strict=True))
        for name, kind in self._settings.metadata:
            values = pa.array([_metadata(message, kind) for message in messages], type=_METADATA_TYPES[kind])
            found[name] = values.take(pa.array(rows)).cast(arrow_type(types[name]))

    def _rejected(self, messages: list[Any], bad: list[tuple[int, str]]) -> list[BadRecord]:
        rejected = []
        for index, reason in bad:
            message = messages[index]
            where = place(_partition_of(message), message.offset())
            if not self._source.on_error.keeps_going:
                raise BadRecordError(where, reason, message.value())
            headers = tuple(message.headers() or ())
            rejected.append(BadRecord(where, reason, message.value(), message.key(), headers, message.timestamp()[1]))
        return rejected


_METADATA_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.map_(pa.string(), pa.binary()),
    "leader-epoch": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timestamp-type": pa.string(),
}


def _gathered(batches: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """Yield messages, more at once than the client gives: columns are worth it."""
    gathered: list[Any] = []
    for messages in batches:
        gathered += messages
        if len(gathered) >= _BATCH_MESSAGES:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def _metadata(message: Any, kind: str) -> Any:
    match kind:
        case "topic":
            return message.topic()
        case "partition":
            return message.partition()
        case "headers":
            return [(name, value or b"") for name, value in message.headers() or ()]
        case "leader-epoch":
            return message.leader_epoch()
        case "offset":
            return message.offset()
        case "timestamp":
            return message.timestamp()[1]
    return _TIMESTAMP_TYPES.get(message.timestamp()[0], "NoTimestampType")


def _partition_of(message: Any) -> Any:
    return KafkaTopicPartition(message.topic(), message.partition())


def _decoded(decoder: Any, content: list[bytes], there: list[int], bad: list[tuple[int, str]]) -> DecodedColumns:
    """Return the rows of the messages that are there, with positions among all messages."""
    decoded: DecodedColumns = decoder.decode(content)
    positions = np.array(there, dtype=np.int64)
    bad += [(there[index], reason) for index, reason in decoded.bad]
    rows = positions if decoded.messages is None else positions[decoded.messages]
    return DecodedColumns(decoded.columns, decoded.kinds, rows)
