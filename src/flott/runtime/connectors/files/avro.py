"""Avro object container files: blocks of records between sync markers. Driver and task side.

The rule that lets a file be cut anywhere: **a slice [start, stop) holds the blocks whose preceding sync marker starts
in it.** The header ends with a sync marker as well, so the first block needs no rule of its own. A reader that enters
in the middle searches for the next marker, and reads its last block to the end. So any cutting gives every block once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any, BinaryIO

from flott.datastream.connectors.file_system._bulk_writers import AvroWriterFactory
from flott.datastream.connectors.file_system._formats import AvroFormat
from flott.errors import FlottError, ProgramError, TypeMismatchError
from flott.runtime.connectors.files.bad_records import BadRecords
from flott.runtime.connectors.formats.avro import fastavro, parsed_schema, with_default_values
from flott.runtime.connectors.formats.avro_rows import ValueConverters

SYNC_BYTES = 16
#: A block is closed when it has so many bytes.
BLOCK_BYTES = 64 * 1024
#: So much is kept before it is written: no file stays open, so there may be any number of buckets.
_BUFFER_BYTES = 1024 * 1024
_SEARCH_BYTES = 256 * 1024

_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "FileHeader",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_BYTES}},
        ],
    }
)


class AvroFile:
    """A file being read: its header, and its blocks from any marker on."""

    def __init__(self, file: BinaryIO, path: str, format: AvroFormat):
        self._file = file
        try:
            header = fastavro.schemaless_reader(file, _HEADER, None)
            if header["magic"] != b"Obj\x01":
                raise ValueError(f"it begins with {header['magic']!r}")
            written = json.loads(header["meta"]["avro.schema"])
        except Exception as error:  # fastavro raises whatever the bytes run into
            raise TypeMismatchError(f"{path} is no Avro file: {error!r}. Name the right format.") from error
        self.sync: bytes = header["sync"]
        stream = BytesIO()
        fastavro.schemaless_writer(stream, _HEADER, header)
        self._header = stream.getvalue()
        self.header_end = file.tell()
        schema = None if format.schema is None else parsed_schema(format.schema)
        self._reader_schema = None if schema is None else with_default_values(schema)
        shape = written if format.schema is None else json.loads(format.schema)
        self.convert = ValueConverters(format.record == "row").reading(shape)

    def blocks(self, marker: int) -> Iterator[Any]:
        """Yield the blocks after the marker at this position; the file then stands after the marker of each."""
        self._file.seek(marker + SYNC_BYTES)
        return iter(fastavro.block_reader(_Joined(self._header, self._file), self._reader_schema))

    def next_marker(self, position: int) -> int | None:
        """Return where the first marker at or after a position starts; None if there is none."""
        first = self.header_end - SYNC_BYTES
        if position <= first:
            return first
        self._file.seek(position)
        kept = b""
        while chunk := self._file.read(_SEARCH_BYTES):
            window = kept + chunk
            found = window.find(self.sync)
            if found >= 0:
                return position - len(kept) + found
            position += len(chunk)
            kept = window[-(SYNC_BYTES - 1) :]
        return None

    def after(self) -> int:
        """Return the position after what was read last."""
        return self._file.tell()


class _Joined:
    """The header of a file, and then its content from some block on: what the library takes for a whole file."""

    def __init__(self, header: bytes, file: BinaryIO):
        self._header = BytesIO(header)
        self._left = len(header)
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if self._left:
            data = self._header.read(size)
            self._left -= len(data)
            return data
        return self._file.read(size)

    def tell(self) -> int:
        return self._header.tell() if self._left else self._file.tell()


def scan_avro(
    file: BinaryIO, path: str, start: int, stop: int | None, end: int | None, format: AvroFormat, bad: BadRecords
) -> Iterator[tuple[list[Any], int]]:
    """Records block by block, each with the position of the marker after it. ``stop`` None: to the end of the file."""
    source = AvroFile(file, path, format)
    marker = source.next_marker(start)
    blocks: Iterator[Any] | None = None
    while marker is not None and (stop is None or marker < stop):
        if blocks is None:
            blocks = source.blocks(marker)
        try:
            block = next(blocks, None)
        except Exception as error:  # fastavro raises whatever the bytes run into
            bad.report(marker + SYNC_BYTES, b"", f"expected a block of records: {error!r}")
            blocks, marker = None, source.next_marker(marker + SYNC_BYTES)
            continue
        if block is None:  # the end of the file
            marker = None
            break
        records, after = _records(block, marker, bad), source.after()
        if source.convert is not None:
            records = list(map(source.convert, records))
        marker = after - SYNC_BYTES
        yield records, marker
    # Nothing before the next marker belongs to anyone: without this a slice that holds none would be planned forever.
    yield [], marker if marker is not None else source.after() if end is None else end


def _records(block: Any, marker: int, bad: BadRecords) -> list[Any]:
    """Return the records of a block. What follows one that is unreadable is lost: nothing says where it begins."""
    records: list[Any] = []
    try:
        for record in block:
            records.append(record)
    except FlottError:
        raise
    except Exception as error:  # fastavro raises whatever the bytes run into
        bad.report(marker + SYNC_BYTES, b"", f"record {len(records)} of the block of {block.num_records}: {error!r}")
    return records


class AvroFileWriter:
    """Writes the records of one file."""

    def __init__(self, path: str, factory: AvroWriterFactory):
        self._path = path
        schema = parsed_schema(factory.schema)
        self._convert = ValueConverters(as_rows=True).writing(json.loads(factory.schema))
        self._buffer = BytesIO()
        self._writer = avro_writer(self._buffer, schema, factory.codec)

    def add(self, values: list[Any]) -> None:
        """Take some records."""
        write, convert = self._writer.write, self._convert
        for value in values:
            try:
                write(value if convert is None else convert(value))
            except FlottError:
                raise
            except Exception as error:  # fastavro raises whatever the value runs into
                raise TypeMismatchError(f"{value!r} does not fit the Avro schema: {error}.") from error
        if self._buffer.tell() >= _BUFFER_BYTES:
            self._append()

    def finish(self) -> None:
        """Write what is left."""
        self._writer.flush()
        self._append()

    def close(self) -> None:
        """Release the memory."""
        self._buffer = BytesIO()

    def _append(self) -> None:
        with open(self._path, "ab") as file:  # the name is this attempt's own, so no other process appends
            file.write(self._buffer.getbuffer())
        self._buffer.seek(0)
        self._buffer.truncate()


def avro_writer(file: BytesIO, schema: Any, codec: str) -> Any:
    """Return the library's writer; refuses a codec whose package is not installed."""
    try:
        return fastavro.write.Writer(file, schema, codec=codec, sync_interval=BLOCK_BYTES)
    except ValueError as error:
        raise ProgramError(f"Avro files cannot be compressed with {codec}: {error}. Use deflate.") from None


def check_avro_factory(factory: AvroWriterFactory) -> None:
    """Refuse a schema that is none, and a codec that is not installed."""
    avro_writer(BytesIO(), parsed_schema(factory.schema), factory.codec)
