"""Columns as messages of Kafka. Task side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common.types import RowKind
from flott.datastream.connectors.base import Json, SinkWriter
from flott.table._connectors.kafka_tables import TableKafkaSink

_GONE = (RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)


class TableKafkaWriter(SinkWriter[Any]):
    """Encodes the columns of key and value, and lets the writer of messages send them."""

    def __init__(self, sink: TableKafkaSink, messages: SinkWriter[Any]):
        settings = sink.table
        assert settings is not None
        self._settings = settings
        self._messages = messages
        self._value = settings.value.encoder()
        self._key = None if settings.key is None else settings.key.encoder()
        self._value_at = [settings.names.index(name) for name in settings.value_columns]
        self._key_at = [settings.names.index(name) for name in settings.key_columns]
        self._metadata_at = {kind: settings.names.index(name) for name, kind in settings.metadata}

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        raise NotImplementedError("Rows of a table are written as columns.")

    def write_columns(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> None:
        size = columns.num_rows
        if not size:
            return
        values = self._value.encode(columns.select(self._value_at), kinds).to_pylist()
        keys = [None] * size
        if self._key is not None:
            keys = self._key.encode(columns.select(self._key_at), None).to_pylist()
        if self._settings.upsert and kinds is not None:
            values = [None if kind in _GONE else v for kind, v in zip(kinds.tolist(), values, strict=True)]
        times = self._cells(columns, "timestamp", size)
        headers = self._cells(columns, "headers", size)
        self._messages.write(list(zip(keys, values, times, headers, strict=True)), None)

    def prepare_commit(self) -> list[Json]:
        return self._messages.prepare_commit()

    def close(self) -> None:
        self._messages.close()

    def _cells(self, columns: pa.RecordBatch, kind: str, size: int) -> list[Any]:
        at = self._metadata_at.get(kind)
        if at is None:
            return [None] * size
        column = columns.column(at)
        return list((column.cast(pa.int64()) if kind == "timestamp" else column).to_pylist())
