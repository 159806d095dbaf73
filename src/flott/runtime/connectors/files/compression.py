"""Opens files that may be compressed, by the end of their name. Driver and task side."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from flott.common._object_store_settings import is_hdfs_location
from flott.runtime.connectors.files.hdfs import open_hdfs
from flott.runtime.storage.locations import is_object_location, parent_of
from flott.runtime.storage.opening import open_object_storage

_UNPACK: dict[str, Callable[[Any, str], object]] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def is_compressed(path: str) -> bool:
    """Return whether the file must be unpacked, and so cannot be entered in the middle."""
    return path.endswith(tuple(_UNPACK))


def has_byte_lines(charset_name: str) -> bool:
    """Return whether a line ends at every byte 10 and nowhere else, as in UTF-8 and unlike UTF-16."""
    return "\n".encode(charset_name) == b"\n" and codecs.lookup(charset_name).name not in ("utf-7", "hz")


def open_bytes(path: str) -> BinaryIO:
    """Open the content of a file, unpacked."""
    for suffix, unpack in _UNPACK.items():
        if path.endswith(suffix):
            return cast(BinaryIO, unpack(file_or_path(path), "rb"))
    return cast(BinaryIO, file) if not isinstance(file := file_or_path(path), str) else open(path, "rb")


def file_or_path(path: str) -> Any:
    """Return a local path as it is, and what is in an object store or in HDFS as an open file, read by ranges."""
    if is_hdfs_location(path):
        return open_hdfs(path)
    return open_object_storage(parent_of(path)).opened(path) if is_object_location(path) else path


def open_as_utf8(path: str, charset_name: str) -> BinaryIO:
    """Return the content of a file in any character set, as UTF-8."""
    text = io.TextIOWrapper(cast("io.BufferedReader", open_bytes(path)), charset_name, newline="")
    return cast(BinaryIO, io.BufferedReader(_Transcoded(text)))


class _Transcoded(io.RawIOBase):
    """Text read as UTF-8 bytes."""

    def __init__(self, text: io.TextIOWrapper):
        self._text = text
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = self._text.read(8192).encode()
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        self._text.close()
        super().close()
