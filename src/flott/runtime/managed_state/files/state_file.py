"""The bytes of a state file: one immutable file of entries per subtask and epoch, indexed by key group.

Layout, version 2; numbers are little-endian::

    8 bytes   magic  b"FLOTTST" and one character for the version
    blocks    one per key group, ascending
    footer    JSON: the tables, and where each block stands with its checksum
    16 bytes  trailer: length of the footer (8), its checksum (4), b"FLTE"

A block is a run of *sections*, one per table: the table's number in the footer (2), the length of the section (8), the
section (``state.sections``). The index stands at the end so that a file can be written in one pass, however large it
is, and read by seeking: the footer, then only the key groups that are wanted. The footer and each block carry a
checksum: a damaged file is refused, never half applied.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO
from zlib import crc32

from flott.common._ids import KeyGroup
from flott.errors import CorruptStateError, StateError
from flott.runtime.managed_state.files.sections import decode_delta, encode_delta
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.table_kind import Delta
from flott.runtime.storage import Storage

MAGIC = b"FLOTTST"
VERSION = b"2"

_END = b"FLTE"
_TRAILER = struct.Struct("<QI4s")
_SECTION = struct.Struct("<HQ")


@dataclass(frozen=True)
class BlockIndex:
    """Where a key group's block stands, from the beginning of the file."""

    group: KeyGroup
    offset: int
    length: int
    checksum: int

    def is_within(self, start: int, stop: int) -> bool:
        """Return whether the block stands between two positions."""
        return self.length >= 0 and start <= self.offset <= self.offset + self.length <= stop


class StateFileWriter:
    """Writes one file, key group after key group."""

    def __init__(self, file: BinaryIO, tables: Iterable[TableHeader]):
        self._file = file
        self._tables = tuple(tables)
        self._numbers: dict[str, list[int]] = {}
        for number, table in enumerate(self._tables):
            self._numbers.setdefault(table.name, []).append(number)
        self._index: list[BlockIndex] = []
        self.size = file.write(MAGIC + VERSION)

    def add(self, group: KeyGroup, deltas: Mapping[str, Delta]) -> None:
        """Write the block of a key group, which must be higher than those before it."""
        parts: list[bytes] = []
        for name, delta in deltas.items():
            number = self._number(name, group)
            section = encode_delta(self._tables[number], delta)
            parts += (_SECTION.pack(number, len(section)), section)
        block = b"".join(parts)
        self._index.append(BlockIndex(group, self.size, len(block), crc32(block)))
        self.size += self._file.write(block)

    def _number(self, name: str, group: KeyGroup) -> int:
        """Return the number of the header that says what a table is in a key group."""
        numbers = self._numbers[name]
        return numbers[0] if len(numbers) == 1 else next(n for n in numbers if self._tables[n].is_about(group))

    def finish(self) -> int:
        """Write the index; returns the size of the file."""
        content = {
            "tables": [table.to_json() for table in self._tables],
            "blocks": [[block.group, block.offset, block.length, block.checksum] for block in self._index],
        }
        footer = json.dumps(content, separators=(",", ":")).encode()
        self.size += self._file.write(footer)
        self.size += self._file.write(_TRAILER.pack(len(footer), crc32(footer), _END))
        return self.size


class StateFileReader:
    """Reads one file: its footer at once, blocks when they are asked for. ``name`` is used in errors only."""

    def __init__(self, file: BinaryIO, name: str):
        self._file = file
        self._name = name
        size = file.seek(0, io.SEEK_END)
        self.tables, self._index = self._read_footer(size)

    @property
    def groups(self) -> Sequence[KeyGroup]:
        """Return the key groups it has blocks of, ascending."""
        return list(self._index)

    def block_bytes(self, group: KeyGroup) -> int:
        """Return the size of a key group's block; 0 if there is none."""
        block = self._index.get(group)
        return 0 if block is None else block.length

    def section_bytes(self, group: KeyGroup) -> dict[str, int]:
        """Return the size of each table's section in a key group's block. The sections themselves are not read."""
        block = self._index.get(group)
        sizes: dict[str, int] = {}
        position, end = (0, 0) if block is None else (block.offset, block.offset + block.length)
        while position < end:
            self._file.seek(position)
            try:
                number, length = _SECTION.unpack(self._file.read(_SECTION.size))
                sizes[self.tables[number].name] = length
            except (struct.error, IndexError) as error:
                raise self._without_sections(group) from error
            position += _SECTION.size + length
        return sizes

    def block(
        self, group: KeyGroup, *, plain: bool = False, kinds: Container[str] | None = None
    ) -> dict[str, Delta]:
        """Return the changes of one key group, by table. ``plain``: without the classes of the program that wrote them;
        ``kinds``: only tables of these kinds, the others are not decoded."""
        return {
            name: self._decode(table, raw, plain)
            for name, table, raw in self._sections(group)
            if kinds is None or table.kind in kinds
        }

    def table_delta(self, group: KeyGroup, table: str, *, plain: bool = False) -> Delta | None:
        """Return the changes of one table in one key group; the others are not decoded."""
        for name, header, raw in self._sections(group):
            if name == table:
                return self._decode(header, raw, plain)
        return None

    def blocks(
        self, groups: range, *, kinds: Container[str] | None = None
    ) -> Iterator[tuple[KeyGroup, dict[str, Delta]]]:
        """Return the changes of the key groups in a range, ascending, each read and checked when its turn comes."""
        for group in self._index:
            if group in groups:
                yield group, self.block(group, kinds=kinds)

    def verify(self) -> None:
        """Hold every block against its checksum."""
        for group in self._index:
            self._raw(group)

    def _sections(self, group: KeyGroup) -> Iterator[tuple[str, TableHeader, bytes]]:
        raw = self._raw(group)
        position = 0
        while position < len(raw):
            try:
                number, length = _SECTION.unpack_from(raw, position)
                table = self.tables[number]
            except (struct.error, IndexError) as error:
                raise self._without_sections(group) from error
            position += _SECTION.size
            if position + length > len(raw):
                raise self._without_sections(group)
            yield table.name, table, raw[position : position + length]
            position += length

    def _without_sections(self, group: KeyGroup) -> CorruptStateError:
        return CorruptStateError(
            f"The state file {self._name} is damaged: the block of key group {group} is not made of sections."
        )

    def _raw(self, group: KeyGroup) -> bytes:
        block = self._index.get(group)
        if block is None:
            return b""
        self._file.seek(block.offset)
        raw = self._file.read(block.length)
        if crc32(raw) != block.checksum:
            raise CorruptStateError(
                f"The state file {self._name} is damaged: the block of key group {group} does not match its checksum."
            )
        return raw

    def _decode(self, table: TableHeader, raw: bytes, plain: bool) -> Delta:
        try:
            return decode_delta(table, raw, plain=plain)
        except CorruptStateError as error:
            raise CorruptStateError(f"The state file {self._name} cannot be read: {error}") from error
        except Exception as error:  # any error that a class of the user raises when it is made
            raise StateError(
                f"State {table.name!r} in the file {self._name} holds an object that cannot be made again:"
                f" {type(error).__name__}: {error}. If its class was moved or renamed, make it importable under its"
                " former name, too."
            ) from error

    def _read_footer(self, size: int) -> tuple[tuple[TableHeader, ...], dict[KeyGroup, BlockIndex]]:
        name, file = self._name, self._file
        file.seek(0)
        magic = file.read(len(MAGIC) + 1)
        if magic[:-1] != MAGIC:
            raise CorruptStateError(f"{name} is not a Flott state file: it begins with {magic!r}, expected {MAGIC!r}.")
        if magic[-1:] != VERSION:
            raise CorruptStateError(
                f"The state file {name} has format version {magic[-1:].decode(errors='replace')!r}; this version of"
                f" Flott reads version {VERSION.decode()!r}. Use the version of Flott that wrote it, or a later one."
            )
        file.seek(max(size - _TRAILER.size, 0))
        trailer = file.read(_TRAILER.size)
        length, checksum, end = _TRAILER.unpack(trailer) if len(trailer) == _TRAILER.size else (0, 0, b"")
        start = size - _TRAILER.size - length
        if end != _END or start < len(magic):
            raise CorruptStateError(f"The state file {name} is damaged: it ends in the middle, after {size} bytes.")
        file.seek(start)
        raw = file.read(length)
        if crc32(raw) != checksum:
            raise CorruptStateError(f"The state file {name} is damaged: its footer does not match its checksum.")
        return self._parse(raw, start)

    def _parse(self, raw: bytes, blocks_end: int) -> tuple[tuple[TableHeader, ...], dict[KeyGroup, BlockIndex]]:
        try:
            content = json.loads(raw)
            tables = tuple(TableHeader.from_json(table) for table in content["tables"])
            blocks = {fields[0]: BlockIndex(*fields) for fields in content["blocks"]}
            misplaced = [block for block in blocks.values() if not block.is_within(len(MAGIC) + 1, blocks_end)]
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise CorruptStateError(f"The footer of the state file {self._name} cannot be read: {error}.") from error
        if misplaced:
            raise CorruptStateError(f"The state file {self._name} is damaged: a block reaches beyond the blocks' end.")
        return tables, blocks


@contextmanager
def open_state_file(storage: Storage, name: str) -> Iterator[StateFileReader]:
    """Return a state file in a storage, to be read."""
    with storage.open(name) as file:
        yield StateFileReader(file, name)


@contextmanager
def create_state_file(storage: Storage, name: str, tables: Iterable[TableHeader]) -> Iterator[StateFileWriter]:
    """Return a new state file in a storage; finished at the end of the block, or not there if that fails."""
    with storage.create(name) as file:
        writer = StateFileWriter(file, tables)
        yield writer
        writer.finish()


def encode_file(tables: Iterable[TableHeader], deltas: Mapping[str, Mapping[KeyGroup, Delta]]) -> bytes:
    """Return the bytes of a small file of these changes: table name -> key group -> delta."""
    file = io.BytesIO()
    writer = StateFileWriter(file, tables)
    for group, block in by_group(deltas):
        writer.add(group, block)
    writer.finish()
    return file.getvalue()


def by_group(deltas: Mapping[str, Mapping[KeyGroup, Delta]]) -> list[tuple[KeyGroup, dict[str, Delta]]]:
    """Changes by table and key group as changes by key group, ascending, and table."""
    found: dict[KeyGroup, dict[str, Delta]] = {}
    for name, groups in deltas.items():
        for group, delta in groups.items():
            found.setdefault(group, {})[name] = delta
    return sorted(found.items(), key=lambda pair: pair[0])


def is_savable(header: TableHeader, delta: Any) -> bool:
    """Return whether a delta can be saved: asked to find the culprit when a file could not be written."""
    try:
        encode_delta(header, delta)
    except Exception:
        return False
    return True
