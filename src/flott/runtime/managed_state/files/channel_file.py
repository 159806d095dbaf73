"""The bytes of a channel-state file: buffers that were on their way between two tasks at an unaligned checkpoint.

Layout, version 1; numbers are little-endian::

    8 bytes    magic  b"FLOTTCH" and one character for the version
    sections   one after the other, without gaps
    4 bytes    b"FLCE"

A section is a run of entries of one edge from one subtask to another, in the order in which they were sent: the length
of an entry (4 bytes), then the entry. It is the payload of a buffer (``runtime.epoch.wire``), or event time: b"T", the
watermark (8 bytes, signed), whether idle and whether ended (1 byte each). Where each section stands, with its checksum,
is in the metadata of the checkpoint, so a reader fetches only the sections it needs: ``docs/formats/channel-files.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from zlib import crc32

from flott.errors import CorruptStateError
from flott.graph.edge_ids import EdgeId
from flott.runtime.storage import Storage

MAGIC = b"FLOTTCH1"
END = b"FLCE"

_LENGTH = struct.Struct("<I")
_TIME = b"T"  #: no payload of a buffer begins so
_TIME_ENTRY = struct.Struct("<cq??")


class QueueEnd(Enum):
    """Where buffers were waiting. Those of a channel that were waiting at its receiver had been sent first."""

    RECEIVER = 0
    SENDER = 1


@dataclass(frozen=True)
class SavedBuffers:
    """Buffers of one edge from one subtask to another, with the event time that was told between them."""

    edge: EdgeId
    partitioning: str  #: the label of the edge's partitioning
    sender: int
    receiver: int
    place: QueueEnd
    entries: Sequence[bytes]


@dataclass(frozen=True)
class ChannelSection:
    """Where the buffers of one edge from one subtask to another stand in a file."""

    edge: EdgeId
    partitioning: str  #: the label of the edge's partitioning when they were sent
    sender: int
    receiver: int
    place: QueueEnd
    offset: int
    length: int
    checksum: int
    buffers: int  #: entries that are buffers
    payload_bytes: int  #: the size of these


@dataclass(frozen=True)
class ChannelFile:
    """A channel-state file, which one task has written."""

    name: str
    size: int
    sections: tuple[ChannelSection, ...]

    @property
    def payload_bytes(self) -> int:
        """Return the size of all buffers."""
        return sum(section.payload_bytes for section in self.sections)

    @property
    def buffers(self) -> int:
        """Return the number of buffers."""
        return sum(section.buffers for section in self.sections)


def encode_time(watermark: int, idle: bool, ended: bool) -> bytes:
    """Return the entry for event time that was told."""
    return _TIME_ENTRY.pack(_TIME, watermark, idle, ended)


def is_time(entry: bytes) -> bool:
    """Return whether an entry is event time and not a buffer."""
    return entry.startswith(_TIME)


def decode_time(entry: bytes) -> tuple[int, bool, bool]:
    """Return the watermark, whether idle and whether ended, of an entry that is event time."""
    _, watermark, idle, ended = _TIME_ENTRY.unpack(entry)
    return watermark, idle, ended


def encode_channel_file(name: str, saved: Sequence[SavedBuffers]) -> tuple[ChannelFile, bytes]:
    """Return the description and the bytes of a file."""
    parts, sections, offset = [MAGIC], [], len(MAGIC)
    for one in saved:
        section = b"".join(part for entry in one.entries for part in (_LENGTH.pack(len(entry)), entry))
        payloads = [entry for entry in one.entries if not is_time(entry)]
        sections.append(
            ChannelSection(
                one.edge, one.partitioning, one.sender, one.receiver, one.place,
                offset, len(section), crc32(section), len(payloads), sum(map(len, payloads)),
            )
        )  # fmt: skip
        parts.append(section)
        offset += len(section)
    parts.append(END)
    return ChannelFile(name, offset + len(END), tuple(sections)), b"".join(parts)


def read_section(storage: Storage, name: str, section: ChannelSection) -> Iterator[bytes]:
    """Yield the entries of a section, once it was held against its checksum."""
    with storage.open(name) as file:
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            raise CorruptStateError(
                f"{name} is not a channel-state file that this version of Flott reads: it begins with {magic!r},"
                f" expected {MAGIC!r}."
            )
        file.seek(section.offset)
        raw = file.read(section.length)
    if len(raw) != section.length or crc32(raw) != section.checksum:
        raise CorruptStateError(
            f"The channel-state file {name} is damaged: the section at {section.offset} does not match its checksum."
        )
    position = 0
    while position < len(raw):
        (length,) = _LENGTH.unpack_from(raw, position)
        position += _LENGTH.size
        yield raw[position : position + length]
        position += length


def verify_channel_file(storage: Storage, file: ChannelFile) -> None:
    """Hold every section against its checksum."""
    for section in file.sections:
        for _ in read_section(storage, file.name, section):
            pass
