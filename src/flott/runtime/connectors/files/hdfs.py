"""Files in HDFS, through ``hdfs-native``: it speaks HDFS's own protocol and needs no JVM. Task and driver side.

The library waits without an end for a NameNode that does not answer. So every call runs in a thread of its own, which
is waited for a limited time.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flott._extras import require
from flott.errors import StorageError

T = TypeVar("T")

#: How long one call may take.
CALL_SECONDS = 60.0
#: How much of a file is fetched at a time, if its reader asks for less.
READ_AHEAD_BYTES = 1 << 20

_clients: dict[tuple[int, str], Any] = {}


def hdfs_client(location: str) -> Any:
    """Return the client of the file system that a location is in. A forked process makes clients of its own."""
    authority = urlsplit(location).netloc
    key = (os.getpid(), authority)
    if key not in _clients:
        _clients[key] = require("hdfs_native", "hdfs").Client(f"hdfs://{authority}" if authority else None)
    return _clients[key]


def path_of(location: str) -> str:
    """Return the path of a location within its file system.

    >>> path_of("hdfs://namenode:8020/data/in"), path_of("hdfs://namenode")
    ('/data/in', '/')
    """
    return "/" + location.split("://", 1)[1].partition("/")[2]


def answered(what: str, call: Callable[[], T]) -> T:
    """Return what a call of the library answers; raise ``StorageError`` if it does not in time."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="flott-hdfs-call", daemon=True)
    thread.start()
    thread.join(CALL_SECONDS)
    if result:
        return result[0]
    if not failure:
        raise StorageError(f"HDFS does not answer within {CALL_SECONDS:g} s: {what}. Check that its NameNode runs.")
    error = failure[0]
    if isinstance(error, OSError):
        raise type(error)(error.errno or 5, str(error).partition("\n")[0] or what) from error
    raise StorageError(f"HDFS refused to {what}: {str(error).partition(chr(10))[0]}.") from error


def hdfs_files(location: str) -> list[tuple[str, int]]:
    """Return the locations and sizes of a file, or of all files below a folder, sorted; nothing if it is not there."""
    client, path = hdfs_client(location), path_of(location)
    try:
        status = answered(f"look at {location}", lambda: client.get_file_info(path))
        if not status.isdir:
            return [(location, status.length)]
        found = answered(f"list {location}", lambda: list(client.list_status(path, recursive=True)))
    except FileNotFoundError:
        return []
    base = f"hdfs://{urlsplit(location).netloc}"
    return sorted((f"{base}{entry.path}", entry.length) for entry in found if not entry.isdir)


def open_hdfs(location: str) -> io.BufferedReader:
    """Open a file, which the caller closes."""
    client, path = hdfs_client(location), path_of(location)
    reader = answered(f"open {location}", lambda: client.read(path))
    return io.BufferedReader(_HdfsFile(reader, location), READ_AHEAD_BYTES)


class _HdfsFile(io.RawIOBase):
    """A file that is read by ranges."""

    def __init__(self, reader: Any, location: str):
        self._reader = reader
        self._location = location
        self._size = len(reader)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._position))
        if length:
            start = self._position
            data = answered(f"read {self._location}", lambda: self._reader.read_range(start, length))
            buffer[: len(data)] = data
            self._position += len(data)
            return len(data)
        return 0
