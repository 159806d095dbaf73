"""The log files in a folder: which there are, and what is in them. JobManager and command line.

A name that comes from outside never leads out of the folder: it is that of a regular file in it, not of a link, not of
a folder, and has no separators. What is read is bounded; a client that wants more asks again with the cursor.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from flott.errors import ClusterError
from flott.runtime.logs.entry import LogEntry, LogFilter, parse
from flott.runtime.logs.rotation import family

#: One answer holds so many bytes of a file at most.
MAX_BYTES = 4 * 1024 * 1024
#: The last lines of a log are looked for in so many bytes of it, from its end.
TAIL_BYTES = 64 * 1024 * 1024

_BLOCK = 256 * 1024

JOB_LOG = "job.log"


@dataclass(frozen=True)
class LogFile:
    """A file of logs."""

    name: str
    size: int
    mtime_ms: int


@dataclass(frozen=True)
class LogCursor:
    """A place in a log, valid also after the file has made room for another."""

    file: int = 0  #: its number in the file system; 0: whichever has the name
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.file}-{self.offset}"

    @staticmethod
    def of(text: str) -> LogCursor:
        """Return the cursor with this text."""
        file, dash, offset = text.partition("-")
        if not (dash and file.isdecimal() and offset.isdecimal() and text.isascii() and len(text) < 50):
            raise ClusterError(f"This is not a place in a log: {text!r}. Use the one that came with the last lines.")
        return LogCursor(int(file), int(offset))


@dataclass(frozen=True)
class LogLines:
    """Lines of a log, and where the next ones will be."""

    lines: tuple[str, ...]  #: for people
    cursor: LogCursor
    entries: tuple[LogEntry, ...] = field(default=(), repr=False)  #: for programs

    @property
    def text(self) -> str:
        """Return all lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)


def job_folder(log_folder: Path, job_id: str) -> Path:
    """Return the folder of the logs of one job."""
    return log_folder / "jobs" / _plain(job_id)


def list_logs(folder: Path) -> list[LogFile]:
    """Return the files in a folder by name; none if there is no such folder."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append(LogFile(entry.name, status.st_size, status.st_mtime_ns // 1_000_000))
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda file: file.name)


def open_log(folder: Path, name: str) -> IO[bytes]:
    """Open a file to send it whole."""
    return _open(folder, name)


def read_log(
    folder: Path,
    name: str,
    *,
    cursor: LogCursor | None = None,
    tail: int | None = None,
    wanted: LogFilter | None = None,
    tail_bytes: int = TAIL_BYTES,
) -> LogLines:
    """Return lines of a log: from its beginning, from a cursor, or the last ``tail`` lines that pass the filter.

    Ask again with the cursor of the answer to get what has been written since (``tail -f``): no lines mean that there
    is nothing new. Only whole lines are read. Files that made room for the named one are read where they are needed:
    by a cursor that points into one of them, and by ``tail``, which looks at ``tail_bytes`` at most.
    """
    wanted = wanted or LogFilter()
    if tail is not None:
        return _tail(folder, name, max(0, tail), wanted, tail_bytes)
    if cursor is None or not cursor.file:
        with _open(folder, name) as file:
            return _lines_from(file, cursor.offset if cursor is not None else 0, wanted)
    return _read_on(folder, name, cursor, wanted)


# --- opening ---------------------------------------------------------------------------------------------------------


def _plain(name: str) -> str:
    if not name or name.startswith(".") or any(character in name for character in "/\\\0") or len(name) > 200:
        raise ClusterError(f"A log has a plain name without folders, found {name[:200]!r}.")
    return name


def _open(folder: Path, name: str) -> IO[bytes]:
    try:
        # Non-blocking, because a pipe without a writer must not block the reader.
        handle = os.open(folder / _plain(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise ClusterError(f"There is no log {name!r}{_offer(folder)}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ClusterError(f"There is no log {name!r}{_offer(folder)}")
    return os.fdopen(handle, "rb")


def _offer(folder: Path) -> str:
    names = [file.name for file in list_logs(folder)]
    return f": there is {', '.join(names[:20])}." if names else ": there are no logs yet."


# --- reading ---------------------------------------------------------------------------------------------------------


def _lines_from(file: IO[bytes], offset: int, wanted: LogFilter) -> LogLines:
    status = os.fstat(file.fileno())
    if offset > status.st_size:
        offset = 0  # it was emptied
    raw, end = _whole_lines(file, offset, MAX_BYTES)
    return _rendered(raw, LogCursor(status.st_ino, end), wanted)


def _whole_lines(file: IO[bytes], offset: int, limit: int) -> tuple[list[bytes], int]:
    """Return the complete lines from an offset on, and where the next one begins."""
    file.seek(offset)
    block = file.read(limit)
    end = block.rfind(b"\n") + 1
    if not end and len(block) == limit:
        end = limit  # a line that is longer than an answer: in pieces
    return block[:end].splitlines() if end else [], offset + end


def _read_on(folder: Path, name: str, cursor: LogCursor, wanted: LogFilter) -> LogLines:
    """Return lines from a cursor on: in its file, and once that is read, in the file that followed it."""
    files = family(folder / _plain(name))
    for index, path in enumerate(files):
        try:
            with _open(folder, path.name) as file:
                if os.fstat(file.fileno()).st_ino != cursor.file:
                    continue
                found = _lines_from(file, cursor.offset, wanted)
        except ClusterError:
            continue  # it made room a moment ago
        if found.cursor.offset > cursor.offset or index + 1 == len(files):
            return found
        with _open(folder, files[index + 1].name) as file:
            return _lines_from(file, 0, wanted)
    # The file was deleted, as old files are: continue with the oldest one.
    with _open(folder, files[0].name if files else name) as file:
        return _lines_from(file, 0, wanted)


def _tail(folder: Path, name: str, count: int, wanted: LogFilter, allowance: int) -> LogLines:
    files = family(folder / _plain(name))
    newest = files[-1].name if files else name  # the file of that name may have made room a moment ago
    with _open(folder, newest) as file:
        status = os.fstat(file.fileno())
        last = _last_complete(file, status.st_size)
    kept: list[bytes] = []
    for path in reversed(files):
        if len(kept) >= count or allowance <= 0:
            break
        try:
            with _open(folder, path.name) as file:
                end = last if path.name == newest else os.fstat(file.fileno()).st_size
                for line in _backwards(file, end):
                    allowance -= len(line) + 1
                    if len(kept) >= count or allowance <= 0:
                        break
                    if _is_wanted(line, wanted):
                        kept.append(line)
        except ClusterError:
            continue
    return _rendered(kept[::-1], LogCursor(status.st_ino, last), LogFilter())


def _last_complete(file: IO[bytes], size: int) -> int:
    """Return where the last complete line ends."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _backwards(file: IO[bytes], end: int) -> Iterator[bytes]:
    """Yield the lines before a position, the last first. Very long lines come in pieces."""
    rest = b""
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        rest = file.read(end - start) + rest
        first, *complete = rest.removesuffix(b"\n").split(b"\n") if rest.endswith(b"\n") else rest.split(b"\n")
        yield from reversed(complete)
        rest, end = first, start
        if len(rest) > MAX_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def _is_wanted(line: bytes, wanted: LogFilter) -> bool:
    if wanted.takes_all:
        return True
    entry = parse(line)
    return wanted.takes_line(line.decode("utf-8", "replace")) if entry is None else wanted.takes(entry)


def _rendered(raw: list[bytes], cursor: LogCursor, wanted: LogFilter) -> LogLines:
    lines, entries = [], []
    for line in raw:
        entry = parse(line)
        if entry is None:
            if wanted.takes_line(text := line.decode("utf-8", "replace")):
                lines.append(text)
        elif wanted.takes(entry):
            entries.append(entry)
            lines.append(entry.text())
    return LogLines(tuple(lines), cursor, tuple(entries))
