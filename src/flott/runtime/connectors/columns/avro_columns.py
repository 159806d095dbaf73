"""Avro as columns, through fastavro: records are decoded one by one, and their fields become columns. Task side."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from flott.datastream.connectors.file_system._formats import AvroFormat
from flott.datastream.formats.avro import AvroSchema
from flott.datastream.formats.confluent_avro import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from flott.datastream.formats.schema_registry import SchemaRegistry
from flott.errors import ProgramError
from flott.runtime.connectors.columns.decoded import DecodedColumns, decoded_one_by_one
from flott.runtime.connectors.columns.rows import batch_of, columns_of_rows
from flott.runtime.connectors.files.avro import scan_avro
from flott.runtime.connectors.files.bad_records import BadRecords
from flott.runtime.connectors.formats.avro import fastavro, parsed_schema
from flott.table._connectors.message_formats import AvroMessages, ConfluentAvroMessages
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema

#: Changes a value between Arrow's Python form and Avro's; None: they are the same.
Change = Callable[[Any], Any] | None

_BLOCK_RECORDS = 8 * 1024


# --- schemas ---------------------------------------------------------------------------------------------------------


def avro_schema(names: Sequence[str], types: Sequence[logical.LogicalType]) -> str:
    """Return the Avro schema of a table's rows, as Flink derives it."""
    return json.dumps(_record(names, types, "record"))


def _record(names: Sequence[str], types: Sequence[logical.LogicalType], name: str) -> dict[str, Any]:
    fields = []
    for field, of in zip(names, types, strict=True):
        kind = _avro_type(of, f"{name}_{field}")
        entry: dict[str, Any] = {"name": field, "type": ["null", kind] if of.nullable else kind}
        if of.nullable:
            entry["default"] = None
        fields.append(entry)
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(of: logical.LogicalType, name: str) -> Any:
    def nullable(inner: logical.LogicalType, suffix: str) -> Any:
        kind = _avro_type(inner, f"{name}_{suffix}")
        return ["null", kind] if inner.nullable else kind

    match of:
        case logical.BooleanType():
            return "boolean"
        case logical.BigIntType():
            return "long"
        case logical.IntegerType():
            return "int"
        case logical.FloatType():
            return "float"
        case logical.DoubleType():
            return "double"
        case logical.CharType() | logical.VarCharType():
            return "string"
        case logical.BinaryType() | logical.VarBinaryType():
            return "bytes"
        case logical.DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": of.precision, "scale": of.scale}
        case logical.DateType():
            return {"type": "int", "logicalType": "date"}
        case logical.TimeType():
            return {"type": "int", "logicalType": "time-millis"}
        case logical.TimestampType() | logical.LocalZonedTimestampType():
            return {"type": "long", "logicalType": "timestamp-millis" if of.precision <= 3 else "timestamp-micros"}
        case logical.ArrayType():
            return {"type": "array", "items": nullable(of.element, "element")}
        case logical.MapType():
            _check_key(of.key)
            return {"type": "map", "values": nullable(of.value, "value")}
        case logical.MultisetType():
            _check_key(of.element)
            return {"type": "map", "values": "int"}
        case logical.RowType():
            return _record(of.names, of.types, name)
    raise ProgramError(f"Avro has no form of the type {of}.")


def _check_key(of: logical.LogicalType) -> None:
    if not isinstance(of, logical.CharType | logical.VarCharType):
        raise ProgramError(f"Avro has texts as keys of maps, found {of}.")


# --- values ----------------------------------------------------------------------------------------------------------


def _to_arrow(of: logical.LogicalType) -> Change:
    """Return what makes a value that Arrow takes from one that fastavro read."""
    match of:
        case logical.ArrayType():
            element = _to_arrow(of.element)
            return None if element is None else lambda value: [None if v is None else element(v) for v in value]
        case logical.MapType():
            item = _to_arrow(of.value) or (lambda value: value)
            return lambda value: [(k, None if v is None else item(v)) for k, v in value.items()]
        case logical.MultisetType():
            return lambda value: list(value.items())
        case logical.RowType():
            return _row_change(of, _to_arrow)
    return None


def _to_avro(of: logical.LogicalType) -> Change:
    """Return what makes a value that fastavro writes from one of Arrow."""
    match of:
        case logical.TimestampType():
            return lambda value: value.replace(tzinfo=datetime.UTC)
        case logical.ArrayType():
            element = _to_avro(of.element)
            return None if element is None else lambda value: [None if v is None else element(v) for v in value]
        case logical.MapType():
            item = _to_avro(of.value) or (lambda value: value)
            return lambda value: {k: None if v is None else item(v) for k, v in value}
        case logical.MultisetType():
            return dict
        case logical.RowType():
            return _row_change(of, _to_avro)
    return None


def _row_change(of: logical.RowType, direction: Callable[[logical.LogicalType], Change]) -> Change:
    changes = {field.name: each for field in of.fields if (each := direction(field.type)) is not None}
    names = of.names

    def change(value: dict[str, Any]) -> dict[str, Any]:
        changed = {name: value.get(name) for name in names}
        for name, each in changes.items():
            if changed[name] is not None:
                changed[name] = each(changed[name])
        return changed

    return change


def _as_row(names: Sequence[str], types: Sequence[logical.LogicalType]) -> logical.RowType:
    return logical.row_type(dict(zip(names, types, strict=True)))


# --- messages --------------------------------------------------------------------------------------------------------


class AvroColumnDecoder:
    """Decodes records without their schema."""

    def __init__(self, format: AvroMessages, names: Sequence[str], types: Sequence[logical.LogicalType]):
        self.schema = arrow_schema(names, types)
        self._avro = parsed_schema(avro_schema(format.names, format.types))
        change = _to_arrow(_as_row(names, types))
        assert change is not None
        self.change = change

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return None: Avro has no lines."""
        return None

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the rows of messages."""
        return decoded_one_by_one(messages, self._row, self.columns)

    def columns(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """Return rows as columns."""
        return columns_of_rows(rows, self.schema)

    def _row(self, message: bytes) -> dict[str, Any]:
        try:
            found = fastavro.schemaless_reader(BytesIO(message), self._avro, None)
        except Exception as error:  # fastavro raises whatever comes first for bytes that are no record
            raise ValueError(f"it is no record of the table's schema: {error!r}") from error
        return self.change(found)  # type: ignore[no-any-return]


class AvroColumnEncoder:
    """Encodes records without their schema."""

    def __init__(self, format: AvroMessages | ConfluentAvroMessages):
        self._avro = parsed_schema(avro_schema(format.names, format.types))
        self._names = format.names
        change = _to_avro(_as_row(format.names, format.types))
        assert change is not None
        self.change = change

    def records(self, columns: pa.RecordBatch) -> list[dict[str, Any]]:
        """Return rows as fastavro takes them."""
        return list(map(self.change, columns.rename_columns(list(self._names)).to_pylist()))

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a message for each row."""
        messages = []
        for record in self.records(columns):
            stream = BytesIO()
            fastavro.schemaless_writer(stream, self._avro, record)
            messages.append(stream.getvalue())
        return pa.array(messages, type=pa.binary())

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Refuse: Avro has no lines."""
        raise ProgramError("Avro records are not lines of a file.")


class ConfluentColumnDecoder(AvroColumnDecoder):
    """Decodes records by the schema whose number they begin with."""

    def __init__(self, format: ConfluentAvroMessages, names: Sequence[str], types: Sequence[logical.LogicalType]):
        super().__init__(AvroMessages(format.names, format.types), names, types)
        schema = AvroSchema(avro_schema(format.names, format.types))
        self._records = ConfluentRegistryAvroDeserializationSchema.for_generic(schema, _registry(format))

    def _row(self, message: bytes) -> dict[str, Any]:
        return self.change(self._records.deserialize(message))  # type: ignore[no-any-return]


class ConfluentColumnEncoder(AvroColumnEncoder):
    """Encodes records after the number of their schema."""

    def __init__(self, format: ConfluentAvroMessages):
        super().__init__(format)
        if format.subject is None:
            raise ProgramError("The format 'avro-confluent' needs the option 'avro-confluent.subject' to write.")
        schema = AvroSchema(avro_schema(format.names, format.types))
        self._serializer = ConfluentRegistryAvroSerializationSchema.for_generic(
            format.subject, schema, _registry(format)
        )

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        return pa.array(self._serializer.serialize_batch(self.records(columns)), type=pa.binary())


def _registry(format: ConfluentAvroMessages) -> SchemaRegistry:
    return SchemaRegistry(format.url, format.user, format.password)


# --- files -----------------------------------------------------------------------------------------------------------


def scan_blocks(
    file: Any, path: str, start: int, stop: int | None, end: int | None, decoder: AvroColumnDecoder, bad: BadRecords
) -> Iterator[tuple[pa.RecordBatch, Any, int]]:
    """Yield the rows of the blocks of a file that begin before ``stop``."""
    for records, after in scan_avro(file, path, start, stop, end, AvroFormat(), bad):
        if records:
            yield decoder.columns([decoder.change(record) for record in records]), None, after
        else:
            yield batch_of([], pa.schema([]), 0), None, after


class AvroColumnFile:
    """Rows as an Avro file."""

    def __init__(self, path: str, format: AvroMessages):
        self._path = path
        self._encoder = AvroColumnEncoder(format)
        self._schema = parsed_schema(avro_schema(format.names, format.types))
        self._codec = format.codec
        self._records: list[dict[str, Any]] = []
        self._written = False

    def add(self, values: list[Any]) -> None:
        for columns, _ in values:
            self._records += self._encoder.records(columns)
        if len(self._records) >= _BLOCK_RECORDS:
            self._flush()

    def finish(self) -> None:
        if self._records or not self._written:
            self._flush()

    def close(self) -> None:
        self._records = []

    def _flush(self) -> None:
        # Opened for appending and reading: fastavro continues a file by its header.
        with open(self._path, "a+b" if self._written else "wb") as file:
            fastavro.writer(file, self._schema, self._records, codec=self._codec)
        self._records, self._written = [], True
