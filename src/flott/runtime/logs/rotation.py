"""A file that only grows to a size, then makes room for the next: ``job.log``, ``job.log.1``, … Driver side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class Rotation:
    """How large a file of logs becomes, and how many there are, the one that is written to among them."""

    file_bytes: int = 10 * 1024 * 1024
    files: int = 10


class RotatingFile:
    """Appends whole lines. Never raises: a full disk interrupts the log, not the job.

    ``apology`` makes the line that says how many were lost, for when there is room again.
    """

    def __init__(self, path: Path, rotation: Rotation, apology: Callable[[int], bytes]):
        self.path = path
        self._rotation = rotation
        self._apology = apology
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._size = 0
        self._is_closed = False
        self._lost = 0  #: lines that could not be written

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines, each of which has no line break yet."""
        block = [line + b"\n" for line in lines]
        if not block:
            return
        with self._lock:
            if self._is_closed:
                return
            told = [self._apology(self._lost) + b"\n", *block] if self._lost else block
            try:
                for piece in _pieces(told, self._rotation.file_bytes):
                    self._write(piece)
                self._lost = 0
            except OSError:
                self._lost += len(block)
                self._let_go()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._open()
        elif self._size and self._size + len(data) > self._rotation.file_bytes:
            self._let_go()
            self._rotate()
            self._open()
        assert self._file is not None
        self._file.write(data)
        self._size += len(data)

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - kept open
        self._size = os.fstat(self._file.fileno()).st_size
        if self._size and not _ends_a_line(self.path):
            self._file.write(b"\n")  # a process died in the middle of a line

    def _rotate(self) -> None:
        if self._rotation.files <= 1:
            self.path.unlink(missing_ok=True)
            return
        for number in range(self._rotation.files - 1, 0, -1):
            former = self.path if number == 1 else _numbered(self.path, number - 1)
            if former.exists():
                former.replace(_numbered(self.path, number))

    def _let_go(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


def family(path: Path) -> list[Path]:
    """Return a file and its rotated predecessors, the oldest first."""
    numbered = []
    for other in path.parent.glob(f"{path.name}.*"):
        number = other.name[len(path.name) + 1 :]
        if number.isdecimal():
            numbered.append((int(number), other))
    older = [other for _, other in sorted(numbered, reverse=True)]
    return [*older, path] if path.exists() else older


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _pieces(lines: list[bytes], size: int) -> Iterable[bytes]:
    """Return lines joined to pieces that fit into a file if their lines do."""
    start = total = 0
    for index, line in enumerate(lines):
        if total and total + len(line) > size:
            yield b"".join(lines[start:index])
            start, total = index, 0
        total += len(line)
    yield b"".join(lines[start:])


def _ends_a_line(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
