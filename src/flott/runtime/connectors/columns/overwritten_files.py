"""Replaces the files of a table or of its partitions: INSERT OVERWRITE. Task and driver side.

The tasks list the files that are there when their output is staged, and the list is part of what they hand to the
committer. So it is fixed before the checkpoint is complete. The committer then does

    1. committed rows that are not visible yet (segments) and are on the list are deleted
    2. what was staged becomes visible, as with INSERT INTO
    3. the files on the list are deleted

and each step may be done again: a file that appeared after the list was made is not on it. A file that was replaced
by another one of the same name has another size or time, and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from flott.common._object_store_settings import is_hdfs_location, is_object_location
from flott.datastream.connectors.base import CommitPermit, Committer, Json, SinkWriter, WriterContext
from flott.errors import StorageError
from flott.runtime.connectors.files.discovery import find_files, find_objects, is_hidden
from flott.runtime.connectors.files.durable import remove
from flott.runtime.connectors.files.hdfs import answered, hdfs_client, path_of
from flott.runtime.connectors.files.names import FileNames, SegmentName
from flott.runtime.storage import sync_folder
from flott.runtime.storage.locations import last_part_of
from flott.runtime.storage.opening import open_object_storage
from flott.table._connectors.file_tables import TableFileSink


class ReplacedFile(NamedTuple):
    """A file that is to go. In a committable it is a list of these values."""

    name: str  #: below the base path of the table
    size_bytes: int
    modified_ns: int  #: 0: not known, in object stores and HDFS


class OverwritingWriter(SinkWriter[Any]):
    """Stages rows, and says which files they replace."""

    def __init__(self, sink: TableFileSink, files: SinkWriter[Any], context: WriterContext):
        self._sink = sink
        self._files = files
        self._context = context

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._files.write(values, timestamps)

    def write_columns(self, columns: Any, kinds: Any) -> None:
        self._files.write_columns(columns, kinds)

    def prepare_commit(self) -> list[Json]:
        staged = self._files.prepare_commit()
        folder = self._sink.replaced_folder
        if folder is None:  # the partitions that get rows
            return [{**one, "version": 2, "replaces": self._present(one["bucket"])} for one in staged]
        if self._context.subtask != 0:  # one list is enough
            return staged
        whole = {"version": 2, "bucket": folder, "time_ms": self._context.now_ms, "replaces": self._present(folder)}
        return [*staged, whole]

    def close(self) -> None:
        self._files.close()

    def _present(self, folder: str) -> list[list[Any]]:
        try:
            return [list(file) for file in present_files(self._sink, folder)]
        except OSError as error:
            raise StorageError(f"Cannot list the files of {self._sink.base_path}: {error}.") from error


class OverwritingCommitter(Committer):
    """Publishes files, and deletes those that they replace."""

    def __init__(self, sink: TableFileSink, files: Committer):
        self._sink = sink
        self._files = files

    @property
    def takes_several_epochs(self) -> bool:
        return self._files.takes_several_epochs

    def open(self, job_id: str, operator_id: str) -> None:
        self._files.open(job_id, operator_id)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        listed = {ReplacedFile(*file) for one in committables for file in one.get("replaces", ())}
        segments = {file for file in listed if is_hidden(last_part_of(file.name))}
        # Segments go first: the committer of files may make parts of those that other jobs have left.
        self._delete(segments)
        self._files.commit(permit, [one for one in committables if "staged" in one])
        self._delete(listed - segments)

    def discard(self, live_attempts: frozenset[str]) -> None:
        self._files.discard(live_attempts)

    def close(self) -> None:
        self._files.close()

    def _delete(self, files: set[ReplacedFile]) -> None:
        try:
            delete_files(self._sink.base_path, sorted(files))
        except OSError as error:
            raise StorageError(
                f"Cannot delete the files that were overwritten below {self._sink.base_path}: {error}. Check that it is"
                " writable on the driver; the commit will be tried again."
            ) from error


def present_files(sink: TableFileSink, folder: str) -> Iterator[ReplacedFile]:
    """Yield the files of a table, or of the partition in one folder of it, and what is committed but not visible."""
    base = sink.base_path
    place = f"{base}/{folder}" if folder else base
    if is_object_location(base) or is_hdfs_location(base):
        for found in find_objects(place):
            yield ReplacedFile(found.path.removeprefix(f"{base}/"), found.size_bytes, 0)
    elif os.path.isdir(place):
        for found in find_files([place]):
            yield _measured(base, found.path)
        names = FileNames(sink.output_file_config)
        for parent, folders, files in os.walk(place):
            folders[:] = [name for name in folders if not is_hidden(name)]
            for name in files:
                if isinstance(names.read(name), SegmentName):
                    yield _measured(base, os.path.join(parent, name))


def _measured(base: str, path: str) -> ReplacedFile:
    status = os.stat(path)
    return ReplacedFile(os.path.relpath(path, base), status.st_size, status.st_mtime_ns)


def delete_files(base: str, files: Sequence[ReplacedFile]) -> None:
    """Delete files that are still the ones that were listed."""
    if is_object_location(base):
        sizes = {location.removeprefix(f"{base}/"): size for location, size in open_object_storage(base).files_at(".")}
        open_object_storage(base).delete_all(file.name for file in files if sizes.get(file.name) == file.size_bytes)
    elif is_hdfs_location(base):
        for file in files:
            _delete_in_hdfs(f"{base}/{file.name}", file.size_bytes)
    else:
        for file in files:
            if _is_unchanged(base, file):
                remove(os.path.join(base, file.name))
        for folder in {os.path.dirname(os.path.join(base, file.name)) for file in files}:
            if os.path.isdir(folder):
                sync_folder(folder)


def _is_unchanged(base: str, file: ReplacedFile) -> bool:
    try:
        return _measured(base, os.path.join(base, file.name)) == file
    except FileNotFoundError:
        return False  # deleted before, by this committer or another process


def _delete_in_hdfs(location: str, size_bytes: int) -> None:
    client, path = hdfs_client(location), path_of(location)
    try:
        if answered(f"look at {location}", lambda: client.get_file_info(path)).length == size_bytes:
            answered(f"delete {location}", lambda: client.delete(path))
    except FileNotFoundError:
        return  # deleted before
