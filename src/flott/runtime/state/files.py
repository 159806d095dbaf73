"""The bytes of a state file: one immutable file of entries per subtask and epoch, indexed by key group.

Layout, version 1::

    8 bytes   magic  b"FLOTTST" and one character for the version
    4 bytes   length of the header, big-endian
    4 bytes   checksum of the header, big-endian
    header    JSON, see FileHeader
    blocks    one per key group, in the order of the header's index

A block is a pickle of ``{table name: delta}`` made of builtin containers and the user's own keys and values; no class
of Flott's is ever pickled. ``codec`` in the header names the encoding of the blocks, so that others can be added. The
header and each block carry a checksum: a damaged file is refused, never half applied.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

from flott.errors import CorruptStateError, StateError
from flott.runtime.state.tables import Delta

MAGIC = b"FLOTTST"
VERSION = b"1"
CODEC = "pickle-5"


@dataclass(frozen=True)
class TableHeader:
    """What a file says about one table."""

    name: str
    kind: str
    namespaced: bool


@dataclass(frozen=True)
class BlockIndex:
    """Where a key group's block stands, from the end of the header."""

    group: int
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True)
class FileHeader:
    """The self-description of a state file."""

    tables: tuple[TableHeader, ...]
    blocks: tuple[BlockIndex, ...]
    codec: str = CODEC


def encode_file(tables: Iterable[TableHeader], deltas: Mapping[str, Mapping[int, Delta]]) -> bytes:
    """A file of these changes: table name -> key group -> delta."""
    by_group: dict[int, dict[str, Delta]] = {}
    for name, groups in deltas.items():
        for group, delta in groups.items():
            by_group.setdefault(group, {})[name] = delta
    blocks: list[bytes] = []
    index: list[BlockIndex] = []
    offset = 0
    for group in sorted(by_group):
        block = pickle.dumps(by_group[group], protocol=5)
        index.append(BlockIndex(group, offset, len(block), crc32(block)))
        blocks.append(block)
        offset += len(block)
    header = json.dumps(asdict(FileHeader(tuple(tables), tuple(index)))).encode()
    lengths = len(header).to_bytes(4, "big") + crc32(header).to_bytes(4, "big")
    return b"".join([MAGIC, VERSION, lengths, header, *blocks])


def read_header(data: bytes, name: str) -> tuple[FileHeader, int]:
    """The header and the position where the blocks begin. ``name`` is used in errors only."""
    if data[:7] != MAGIC:
        raise CorruptStateError(f"{name} is not a Flott state file: it begins with {data[:8]!r}, expected {MAGIC!r}.")
    if data[7:8] != VERSION:
        raise CorruptStateError(
            f"The state file {name} has format version {data[7:8]!r}; this version of Flott reads {VERSION!r}."
        )
    start = 16 + int.from_bytes(data[8:12], "big")
    raw = data[16:start]
    if len(data) < start or crc32(raw) != int.from_bytes(data[12:16], "big"):
        raise CorruptStateError(f"The state file {name} is damaged: its header does not match its checksum.")
    header = _parse_header(raw, name)
    end = start + sum(block.length for block in header.blocks)
    if len(data) != end:
        raise CorruptStateError(f"The state file {name} is damaged: it has {len(data)} bytes, expected {end}.")
    return header, start


def _parse_header(raw: bytes, name: str) -> FileHeader:
    try:
        content = json.loads(raw)
        codec = content["codec"]
        if codec != CODEC:
            raise CorruptStateError(
                f"The state file {name} is encoded with {codec!r}; this version of Flott reads {CODEC!r}."
            )
        return FileHeader(
            tuple(TableHeader(**table) for table in content["tables"]),
            tuple(BlockIndex(**block) for block in content["blocks"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStateError(f"The header of the state file {name} cannot be read: {error}.") from error


def read_blocks(data: bytes, name: str, groups: range) -> Iterator[tuple[int, dict[str, Any]]]:
    """The changes of the key groups in a range. All of them are checked before the first is given out."""
    header, start = read_header(data, name)
    chosen: list[tuple[int, bytes]] = []
    for block in header.blocks:
        if block.group not in groups:
            continue
        raw = data[start + block.offset : start + block.offset + block.length]
        if crc32(raw) != block.checksum:
            raise CorruptStateError(
                f"The state file {name} is damaged: the block of key group {block.group} does not match its checksum."
            )
        chosen.append((block.group, raw))
    for group, raw in chosen:
        yield group, _unpickle(raw, name)


def _unpickle(raw: bytes, name: str) -> dict[str, Any]:
    try:
        return pickle.loads(raw)  # type: ignore[no-any-return]
    except Exception as error:  # whatever a class of the user's raises when it is made anew
        raise StateError(
            f"The state file {name} holds an object that cannot be made again: {type(error).__name__}: {error}. If its"
            " class was moved or renamed, make it importable under its former name, too."
        ) from error


def is_picklable(value: Any) -> bool:
    """Whether a value can be saved: asked to find the culprit when a file could not be encoded."""
    try:
        pickle.dumps(value, protocol=5)
    except Exception:
        return False
    return True
