"""Finds the files below the given paths. Driver side."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flott.common._object_store_settings import is_hdfs_location
from flott.errors import ProgramError, StorageError
from flott.runtime.connectors.files.hdfs import hdfs_files
from flott.runtime.storage.locations import is_object_location
from flott.runtime.storage.opening import open_object_storage


@dataclass(frozen=True, order=True)
class FoundFile:
    """A file and the size it had when it was found."""

    path: str
    size_bytes: int


def check_paths(paths: Sequence[str], watching: bool) -> None:
    """Refuse paths that cannot be read, before anything runs. What is watched may be a pattern nothing matches yet."""
    for path in paths:
        if is_object_location(path) or is_hdfs_location(path):
            if not watching and not find_objects(path):
                raise ProgramError(f"There is no file at or below {path}. Check its spelling, and that it is there.")
        elif os.path.exists(path):
            wanted = os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK
            if not os.access(path, wanted):
                raise ProgramError(f"Cannot read {path}: permission denied. Check the rights of the job's user.")
        elif glob.has_magic(path):
            if not watching and not any(True for _ in _matches(path)):
                raise ProgramError(f"No file matches {path}. Check its spelling, and that the files are there.")
        else:
            raise ProgramError(
                f"There is no file or directory {path}. Check its spelling, and that it is mounted on the driver and on"
                " every executor."
            )


def find_files(paths: Sequence[str]) -> list[FoundFile]:
    """Return all files below the paths, each once, sorted by path."""
    found: dict[str, FoundFile] = {}
    for path in paths:
        for file in _below(path):
            found[file.path] = file
    return sorted(found.values())


def is_hidden(name: str) -> bool:
    """Return whether readers leave a file or directory alone: it is unfinished or not data."""
    return name.startswith((".", "_"))


def find_objects(path: str) -> list[FoundFile]:
    """Return what is in an object store or in HDFS at or below a path, or matches a pattern."""
    wanted = path.split("/")
    literal = next((index for index, part in enumerate(wanted) if glob.has_magic(part)), len(wanted))
    base = "/".join(wanted[:literal])
    found = []
    files = hdfs_files(base) if is_hdfs_location(base) else open_object_storage(base).files_at(base)
    for location, size_bytes in files:
        parts = location.split("/")
        hidden = any(is_hidden(part) for part in parts[literal:])
        if not hidden and any(_is_match(parts[:end], wanted) for end in range(len(parts), 0, -1)):
            found.append(FoundFile(location, size_bytes))
    return found


def _is_match(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern, in which ``**`` stands for any number of parts.

    >>> _is_match(["logs", "de", "app-1.txt"], ["logs", "*", "app-*.txt"])
    True
    """
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_is_match(parts[skipped:], wanted[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], wanted[0]) and _is_match(parts[1:], wanted[1:])


def _below(path: str) -> Iterator[FoundFile]:
    if is_object_location(path) or is_hdfs_location(path):
        yield from find_objects(path)
    elif os.path.isdir(path):
        yield from _walk(path)
    elif os.path.exists(path):
        yield from _measured(path)
    elif glob.has_magic(path):
        for match in _matches(path):
            yield from _walk(match) if os.path.isdir(match) else _measured(match)
    # A path that has gone since it was checked holds no more files; what was planned from it fails when it is read.


def _matches(pattern: str) -> Iterator[str]:
    for match in glob.iglob(pattern, recursive=True):
        if not is_hidden(os.path.basename(match)):
            yield match


def _walk(directory: str) -> Iterator[FoundFile]:
    try:
        with os.scandir(directory) as listing:
            entries = [entry for entry in listing if not is_hidden(entry.name)]
    except OSError as error:
        raise StorageError(f"Cannot list {directory}: {error.strerror}. Check that it is readable.") from error
    for entry in entries:
        if entry.is_dir():
            yield from _walk(entry.path)
        else:
            yield from _measured(entry.path)


def _measured(path: str) -> Iterator[FoundFile]:
    try:
        yield FoundFile(path, os.stat(path).st_size)
    except FileNotFoundError:
        return  # gone between listing and looking: it was never found
