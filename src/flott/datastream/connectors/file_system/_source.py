"""The file source and its builder: specifications. What lists and reads files is in ``flott.runtime.connectors.files``.

The runtime calls ``create_enumerator`` and ``create_reader``; their imports stand inside, so that the API does not load
the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flott.common.time import Duration
from flott.datastream.connectors.base import Boundedness, OnError, Source, SourceReader, SplitEnumerator
from flott.datastream.connectors.file_system._formats import BulkFormat, StreamFormat, on_error_of
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.errors import ProgramError

#: How large the parts are into which a large file is cut, so that several subtasks read it.
BLOCK_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class FileEnumeratorProvider:
    """How files are cut into splits. Both kinds look into directories below the given ones and skip hidden files."""

    block_bytes: int | None = BLOCK_BYTES  #: the size of a part of a file; ``None``: a file is never cut

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return the one with which several subtasks read a large file, where format and compression allow it."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return the one with which a file is read from front to back by one subtask at a time."""
        return FileEnumeratorProvider(None)


@dataclass(frozen=True)
class FileSplitAssignerProvider:
    """Which subtask reads what. The job decides this for every source alike; the class is here for ported programs."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Leave it to the job."""
        return FileSplitAssignerProvider()


@dataclass(frozen=True)
class FileSource(Source[Any]):
    """Reads files: a fixed set of them, or those that keep appearing in a directory.

    A path is a file, a directory (read with all directories below it) or a pattern such as ``/logs/*/app-*.txt``.
    Files whose name starts with ``.`` or ``_`` are taken for unfinished and left alone. A file is read once, up to the
    size it had when it was found: what is watched for must appear complete, by being renamed. A job that restarts lists
    again what it has not begun to read.

    >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/logs").build()
    >>> source.paths
    ('/logs',)
    """

    format: StreamFormat | BulkFormat
    paths: tuple[str, ...]
    discovery_interval_ms: int | None = None  #: look for new files so often; ``None``: only once
    block_bytes: int | None = BLOCK_BYTES
    #: What becomes of unreadable records. That of the format, unless it was set.
    on_error: OnError = field(default_factory=OnError.fail)

    def __post_init__(self) -> None:
        if not self.on_error.keeps_going:
            object.__setattr__(self, "on_error", on_error_of(self.format))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.discovery_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Start building a source of files that hold one record after the other."""
        return FileSourceBuilder(FileSource(stream_format, _absolute(paths)))

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Start building a source of files that are read many records at a time."""
        return FileSourceBuilder(FileSource(bulk_format, _absolute(paths)))

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.files.enumerator import FileEnumerator

        return FileEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.files.reader import FileReader

        return FileReader(self.format, self.on_error)


class FileSourceBuilder:
    """Collects the settings of a :class:`FileSource`."""

    def __init__(self, source: FileSource):
        self._source = source

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Never end: look for new files at this interval."""
        interval_ms = discovery_interval.to_millis()
        if interval_ms <= 0:
            raise ProgramError(f"New files are looked for every millisecond at most, found {discovery_interval}.")
        self._source = replace(self._source, discovery_interval_ms=interval_ms)
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """End when the files that are there at the start have been read. This is the default."""
        self._source = replace(self._source, discovery_interval_ms=None)
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Set how files are cut into splits."""
        if file_enumerator.block_bytes is not None and file_enumerator.block_bytes < 1:
            raise ProgramError(f"A part of a file has at least one byte, found {file_enumerator.block_bytes}.")
        self._source = replace(self._source, block_bytes=file_enumerator.block_bytes)
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Do nothing, for ported programs: the job balances what its subtasks read."""
        return self

    def set_on_error(self, on_error: OnError) -> FileSourceBuilder:
        """Set what becomes of records that cannot be read: fail, skip, or write them to a dead-letter sink."""
        if not isinstance(on_error, OnError):
            raise ProgramError(f"Expected OnError.fail(), .skip() or .dead_letter(sink), found {on_error!r}.")
        self._source = replace(self._source, on_error=on_error)
        return self

    def build(self) -> FileSource:
        """Return the source."""
        return self._source


def _absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
    if not paths:
        raise ProgramError("A file source reads at least one path, found none.")
    return tuple(absolute_path(path, hdfs=True) for path in paths)
