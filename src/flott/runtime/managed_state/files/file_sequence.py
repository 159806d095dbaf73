"""A file sequence: the state files (a base, then changes) that hold the keyed state of one operator subtask. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

#: How many versions a compacted file remembers to contain: enough for a worker that was away for a while to catch up.
REMEMBERED_VERSIONS = 32


@dataclass(frozen=True)
class StateFile:
    """A reference to one immutable state file."""

    name: str  #: below the job's directory, or absolute if it was taken over from elsewhere
    size: int
    is_base: bool
    covers: tuple[str, ...] = ()  #: names of the most recent files merged into this one, oldest first
    groups: tuple[int, int] | None = None  #: only these of its key groups count, from and up to; None: all

    def within(self, groups: range) -> range:
        """Return those of some key groups for which the file counts."""
        start, stop = self.groups or (groups.start, groups.stop)
        return range(max(start, groups.start), min(stop, groups.stop))

    def restricted(self, groups: range) -> StateFile:
        """Return the same file, counting for these key groups only."""
        inside = self.within(groups)
        return replace(self, groups=(inside.start, max(inside.start, inside.stop)))


FileSequence = tuple[StateFile, ...]


def version_of(sequence: FileSequence) -> str | None:
    """Return the version of a copy of the state that contains exactly this sequence; None if there is nothing in it.

    It is the name of the last file. But part of a file that others wrote, before a change of parallelism, says nothing
    about the parts beside it: only together do they make a version.
    """
    *_, last = (None, *_versions(sequence))
    return last


def _versions(sequence: FileSequence) -> Iterator[str]:
    """Return the version up to each file."""
    parts = blake2b(digest_size=8)
    for file in sequence:
        if file.groups is None:
            yield file.name  # made on top of all that is before it
        else:
            parts.update(f"{file.name}{file.groups}".encode())
            yield f"{file.name}@{parts.hexdigest()}"


def missing_files(sequence: FileSequence, version: str | None) -> FileSequence | None:
    """Return what a copy of the state lacks that is at some version (``version_of`` what it contains).

    None: the copy is of no use, because it cannot be said how it and the sequence differ.
    """
    if version is None:
        return sequence
    for position, (file, reached) in enumerate(zip(sequence, _versions(sequence), strict=True)):
        own = file.groups is None
        if version == reached or (own and file.covers and version == file.covers[-1]):
            return sequence[position + 1 :]
        if own and version in file.covers and not file.is_base:
            # Merged changes may be applied over a part of themselves. A base may not: it does not name what is gone.
            return sequence[position:]
    return None


def remembered(sequence: FileSequence) -> tuple[str, ...]:
    """Return which versions a file that these were merged into remembers to contain."""
    names = [version for file in sequence if file.groups is None for version in (*file.covers, file.name)]
    if sequence and sequence[-1].groups is not None:
        names += [*_versions(sequence)][-1:]
    return tuple(names[-REMEMBERED_VERSIONS:])
