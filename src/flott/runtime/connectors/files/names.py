"""What the files of a sink are called: the only speller and the only reader of these names. Driver and task side.

    .{prefix}-{writer}-{subtask}-{epoch}-{attempt}{suffix}.staged       written by a task, not yet committed
    .{prefix}-{writer}-{subtask}-{epoch}-{time}{suffix}.segment         committed, waiting to be put into a part
    .{prefix}-{writer}-{subtask}-{first}-{last}-{token}{suffix}.rolling a part that is being written
    {prefix}-{writer}-{subtask}-{first}-{last}{suffix}                  a part: complete, visible, never changed again
    .flott-fence-{writer}/                                              with high availability: who may roll, and drafts

``writer`` is a digest of job and operator: neither a second sink nor a second run of the program that writes into the
same directory ever meets a name of the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import quote, unquote

from flott.datastream.connectors.file_system._parts import OutputFileConfig


def writer_token(job_id: str, operator_id: str) -> str:
    """Return the name of a writer: the sink of a job."""
    return blake2b(f"{job_id}/{operator_id}".encode(), digest_size=6).hexdigest()


def fence_folder(writer: str) -> str:
    """Return the folder of the fence, with which leaders depose each other."""
    return f".flott-fence-{writer}"


def object_staging(writer: str) -> str:
    """Return the folder, in an object store, of what a writer has staged and of who commits it."""
    return f".flott-staging-{writer}"


def writer_of_staging(folder: str) -> str | None:
    """Return the writer whose folder this is, if it is one."""
    writer = folder.removeprefix(".flott-staging-")
    return writer if writer != folder else None


@dataclass(frozen=True)
class StagedName:
    """An epoch's output of one attempt."""

    writer: str
    subtask: int
    epoch: int
    attempt: str


@dataclass(frozen=True)
class SegmentName:
    """An epoch's committed output; the time is the epoch's clock."""

    writer: str
    subtask: int
    epoch: int
    time_ms: int


@dataclass(frozen=True)
class RollingName:
    """A part being written."""

    writer: str
    subtask: int
    first: int
    last: int
    token: str


@dataclass(frozen=True)
class PartName:
    """The output of the epochs ``first`` to ``last``."""

    writer: str
    subtask: int
    first: int
    last: int


class FileNames:
    """The names of one sink's files."""

    def __init__(self, config: OutputFileConfig):
        self._prefix = config.part_prefix
        self._suffix = config.part_suffix
        stem, suffix = re.escape(self._prefix) + r"-([0-9a-f]{12})-(\d+)-(\d+)", re.escape(self._suffix)
        self._staged = re.compile(rf"\.{stem}-(.+){suffix}\.staged")
        self._segment = re.compile(rf"\.{stem}-(\d+){suffix}\.segment")
        self._rolling = re.compile(rf"\.{stem}-(\d+)-(\w+){suffix}\.rolling")
        self._part = re.compile(rf"{stem}-(\d+){suffix}")

    def staged(self, name: StagedName) -> str:
        attempt = quote(name.attempt, safe="")
        return f".{self._prefix}-{name.writer}-{name.subtask}-{name.epoch}-{attempt}{self._suffix}.staged"

    def segment(self, name: SegmentName) -> str:
        return f".{self._prefix}-{name.writer}-{name.subtask}-{name.epoch}-{name.time_ms}{self._suffix}.segment"

    def rolling(self, name: RollingName) -> str:
        span = f"{name.first}-{name.last}-{name.token}"
        return f".{self._prefix}-{name.writer}-{name.subtask}-{span}{self._suffix}.rolling"

    def part(self, name: PartName) -> str:
        return f"{self._prefix}-{name.writer}-{name.subtask}-{name.first}-{name.last}{self._suffix}"

    def read(self, file_name: str) -> StagedName | SegmentName | RollingName | PartName | None:
        """Return what a file is, or ``None`` if it is not one of this sink's."""
        if match := self._part.fullmatch(file_name):
            return PartName(match[1], int(match[2]), int(match[3]), int(match[4]))
        if match := self._segment.fullmatch(file_name):
            return SegmentName(match[1], int(match[2]), int(match[3]), int(match[4]))
        if match := self._rolling.fullmatch(file_name):
            return RollingName(match[1], int(match[2]), int(match[3]), int(match[4]), match[5])
        if match := self._staged.fullmatch(file_name):
            return StagedName(match[1], int(match[2]), int(match[3]), match[4])
        return None

    def is_staged_by(self, name: StagedName, attempts: frozenset[str]) -> bool:
        """Return whether one of the attempts wrote a file. The attempt in a name is quoted for a file system."""
        return unquote(name.attempt) in attempts
