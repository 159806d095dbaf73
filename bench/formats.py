"""`python -m bench.formats`: messages per second of processor time of each format, next to its library alone."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2

from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.datastream.formats.avro import AvroDeserializationSchema, AvroSchema, AvroSerializationSchema
from flott.datastream.formats.changelog import DebeziumJsonDeserializationSchema, DebeziumJsonSerializationSchema
from flott.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flott.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flott.datastream.formats.protobuf import ProtobufDeserializationSchema, ProtobufSerializationSchema

COUNT, BATCH, RUNS = 20_000, 1_000, 7
NAMES = ["id", "name", "price", "ok", "city"]
TYPE = Types.ROW_NAMED(NAMES, [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING()])
ROWS = [Row(id=i, name=f"name-{i}", price=i * 1.25, ok=i % 2 == 0, city="Berlin an der Spree") for i in range(COUNT)]
DICTS = [row.as_dict() for row in ROWS]
AVRO = AvroSchema.of_type(TYPE)


def rate(call: Callable[[], object]) -> int:
    """Return thousands of messages per second, the best of some runs."""
    seconds = []
    for _ in range(RUNS):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return round(COUNT / min(seconds) / 1000)


def batches(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + BATCH] for start in range(0, COUNT, BATCH)]


def protobuf_descriptors() -> bytes:
    field = descriptor_pb2.FieldDescriptorProto
    kinds = [field.TYPE_INT64, field.TYPE_STRING, field.TYPE_DOUBLE, field.TYPE_BOOL, field.TYPE_STRING]
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Event")
    for number, (name, kind) in enumerate(zip(NAMES, kinds, strict=True), 1):
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def avro_alone() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    schema = fastavro.parse_schema(json.loads(str(AVRO)))

    def write(record: Any) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, record)
        return stream.getvalue()

    return lambda message: fastavro.schemaless_reader(io.BytesIO(message), schema, None), write


def csv_line(row: Row) -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerow(row)
    return stream.getvalue().encode()


def main() -> None:
    descriptors = protobuf_descriptors()
    protobuf = ProtobufDeserializationSchema.for_descriptor_set(descriptors, "bench.Event")
    event = protobuf._class
    avro_read, avro_write = avro_alone()
    formats: dict[str, tuple[Any, Any, Callable[[], object] | None, Any]] = {
        "JSON": (
            JsonRowDeserializationSchema(TYPE), JsonRowSerializationSchema(TYPE),
            lambda: [json.dumps(each).encode() for each in DICTS], json.loads,
        ),
        "CSV": (
            CsvRowDeserializationSchema(TYPE), CsvRowSerializationSchema(TYPE),
            lambda: list(map(csv_line, ROWS)), lambda message: next(csv.reader([message.decode()])),
        ),
        "Debezium": (DebeziumJsonDeserializationSchema(TYPE), DebeziumJsonSerializationSchema(TYPE), None, None),
        "Avro": (
            AvroDeserializationSchema(AVRO, None, True), AvroSerializationSchema(AVRO, True),
            lambda: list(map(avro_write, DICTS)), avro_read,
        ),
        "Protobuf": (
            protobuf, ProtobufSerializationSchema.for_descriptor_set(descriptors, "bench.Event"),
            lambda: [event(**each).SerializeToString() for each in DICTS], event.FromString,
        ),
    }  # fmt: skip
    rows = batches(ROWS)
    for name, (reader, writer, write_alone, read_alone) in formats.items():
        written = [writer.serialize_batch(each) for each in rows]
        messages = [message for each in written for message in each]
        read = rate(lambda reader=reader, written=written: list(map(reader.deserialize_batch, written)))
        write = rate(lambda writer=writer: list(map(writer.serialize_batch, rows)))
        alone = ["", ""]
        if read_alone is not None and write_alone is not None:
            alone = [str(rate(lambda r=read_alone, m=messages: list(map(r, m)))), str(rate(write_alone))]
        print(f"| {name} | {read} | {write} | {alone[0]} | {alone[1]} |")


if __name__ == "__main__":
    main()
