"""The log of one executor, put together from the logs of the jobs that ran there. JobManager side.

The lines of an executor reach the JobManager with the reports of its tasks, and each job's log has those of all its
executors. So a place in an executor's log is a place in the log of every job. What was found once is not read again:

    12-400,15-80        the files 12 and 15 have been read up to the bytes 400 and 80

Files are known by their number in the file system, so a place is still right when a log has made room for the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flott.errors import ClusterError
from flott.runtime.logs.entry import LogEntry, LogFilter
from flott.runtime.logs.log_files import JOB_LOG, LogCursor, LogLines, read_log
from flott.runtime.logs.rotation import family

#: What an executor said last is looked for in so many bytes of each job's log.
JOB_TAIL_BYTES = 1024 * 1024
#: An executor's log is put together from those jobs whose logs were written last. A cursor has a place for each.
MAX_JOBS = 100


@dataclass(frozen=True)
class TaskManagerCursor:
    """A place in the log of an executor: one in the log of each job."""

    places: tuple[LogCursor, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.places)) or "0-0"

    @staticmethod
    def of(text: str) -> TaskManagerCursor:
        """Return the cursor with this text."""
        parts = text.split(",")
        if len(parts) > MAX_JOBS:
            raise ClusterError(f"A place in an executor's log has at most {MAX_JOBS} parts, found {len(parts)}.")
        return TaskManagerCursor(tuple(LogCursor.of(part) for part in parts))


@dataclass(frozen=True)
class TaskManagerLines:
    """Lines of an executor's log, and where the next ones will be."""

    lines: tuple[str, ...]
    cursor: TaskManagerCursor

    @property
    def text(self) -> str:
        """Return all lines as one text."""
        return "".join(f"{line}\n" for line in self.lines)


def read_task_manager_log(
    log_folder: Path, wanted: LogFilter, *, tail: int, cursor: TaskManagerCursor | None = None
) -> TaskManagerLines:
    """Return lines of an executor's log in the order of time: the last ``tail``, or those after a cursor.

    ``wanted`` names the executor. The last lines are looked for in the last megabyte of each job's log.
    """
    known = {place.file: place for place in cursor.places} if cursor is not None else {}
    entries: list[LogEntry] = []
    places: list[LogCursor] = []
    for folder in _folders_of_jobs(log_folder):
        try:
            found = _of_job(folder, wanted, tail, known if cursor is not None else None)
        except ClusterError:
            continue  # this job has written nothing so far
        entries += found.entries
        places.append(found.cursor)
    entries.sort(key=lambda entry: entry.time)
    shown = entries if cursor is not None else entries[max(0, len(entries) - tail) :]
    return TaskManagerLines(tuple(entry.text() for entry in shown), TaskManagerCursor(tuple(places)))


def _of_job(folder: Path, wanted: LogFilter, tail: int, known: dict[int, LogCursor] | None) -> LogLines:
    if known is None:
        return read_log(folder, JOB_LOG, tail=tail, wanted=wanted, tail_bytes=JOB_TAIL_BYTES)
    if (unrotated := _read_on(folder, wanted, known)) is not None:
        return unrotated
    place = next((known[number] for number in _numbers(folder) if number in known), None)
    # A job that has no place yet has begun since: all of its log is new.
    return read_log(folder, JOB_LOG, cursor=place or LogCursor(), wanted=wanted)


def _read_on(folder: Path, wanted: LogFilter, known: dict[int, LogCursor]) -> LogLines | None:
    """Return what is new in a log that has made room for no other since: without looking for its former files."""
    try:
        status = Path(folder, JOB_LOG).lstat()
    except FileNotFoundError:
        return None
    place = known.get(status.st_ino)
    if place is None:
        return None
    if place.offset == status.st_size:
        return LogLines((), place)
    found = read_log(folder, JOB_LOG, cursor=LogCursor(0, place.offset), wanted=wanted)
    return found if found.cursor.file == status.st_ino else None


def _numbers(folder: Path) -> Iterator[int]:
    """Return the numbers of the files of a job's log in the file system."""
    for path in family(folder / JOB_LOG):
        try:
            yield path.lstat().st_ino
        except FileNotFoundError:
            continue


def _folders_of_jobs(log_folder: Path) -> list[Path]:
    """Return the folders of those jobs whose logs were written last."""
    written: list[tuple[int, Path]] = []
    try:
        with os.scandir(log_folder / "jobs") as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    try:
                        written.append((Path(entry.path, JOB_LOG).lstat().st_mtime_ns, Path(entry.path)))
                    except FileNotFoundError:
                        continue
    except FileNotFoundError:
        return []
    return [path for _, path in sorted(written, reverse=True)[:MAX_JOBS]]
