"""The file sink on HDFS: staged files become parts by one rename, each checkpoint. Task and driver side.

HDFS renames a file atomically and refuses to overwrite another one. So a staged file becomes the part that its name
says, with any committer: a second committer finds it done. Rolling policies are not followed, since a part that holds
several checkpoints would have to be written by the driver: each checkpoint makes parts of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace

from flott.datastream.connectors.base import CommitPermit, Committer, Json, WriterContext
from flott.datastream.connectors.file_system._sink import FileSink
from flott.errors import ProgramError, StateError
from flott.runtime.connectors.files.hdfs import answered, hdfs_client, hdfs_files, path_of
from flott.runtime.connectors.files.names import FileNames, PartName, StagedName, writer_token
from flott.runtime.connectors.files.object_writer import ObjectFileWriter
from flott.runtime.connectors.files.writer import StagedFile
from flott.runtime.storage.locations import join, last_part_of

log = logging.getLogger("flott.job")

_CHUNK_BYTES = 1 << 20


def check_hdfs_path(location: str) -> None:
    """Refuse a place that cannot be written to, before anything runs."""
    client, path = hdfs_client(location), path_of(location)
    try:
        if not answered(f"look at {location}", lambda: client.get_file_info(path)).isdir:
            raise ProgramError(f"The file sink writes below {location}, but that is a file: choose a directory.")
    except FileNotFoundError:
        pass


class HdfsFileWriter(ObjectFileWriter):
    """Writes the records of one subtask in one epoch: locally first, then into hidden files in HDFS."""

    def __init__(self, sink: FileSink, context: WriterContext):
        super().__init__(replace(sink, bulk=True), context)  # a part is one epoch, so it begins with the header

    def _finish(self, bucket: str, file: StagedFile) -> Json:
        file.finish()
        target = join(_folder(self._sink, bucket), self._name)
        client, path, local = hdfs_client(target), path_of(target), self._path(bucket)

        def upload() -> int:
            client.mkdirs(os.path.dirname(path), create_parent=True)
            with open(local, "rb") as content, client.create(path) as writer:
                while data := content.read(_CHUNK_BYTES):
                    writer.write(data)
                writer.hsync()
            return os.path.getsize(local)

        return self._committable(bucket, answered(f"write {target}", upload))


class HdfsFileCommitter(Committer):
    """Publishes staged files by renames."""

    def __init__(self, sink: FileSink):
        self._sink = sink
        self._names = FileNames(sink.output_file_config)
        self._client = hdfs_client(sink.base_path)
        self._own: set[str] = set()

    def open(self, job_id: str, operator_id: str) -> None:
        self._own.add(writer_token(job_id, operator_id))

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        for committable in committables:
            self._own.add(committable["writer"])
            epoch = committable["epoch"]
            part = PartName(committable["writer"], committable["subtask"], epoch, epoch)
            folder = _folder(self._sink, committable["bucket"])
            self._rename(permit, committable, join(folder, committable["staged"]), join(folder, self._names.part(part)))

    def _rename(self, permit: CommitPermit, committable: Json, staged: str, target: str) -> None:
        try:
            answered(f"rename {staged}", lambda: self._client.rename(path_of(staged), path_of(target)))
        except FileExistsError:
            raise StateError(
                f"{staged} holds output of epoch {committable['epoch']}, which this job has published before: it seems"
                " to have been set back to an older checkpoint. Continue it as a new job, or into another directory."
            ) from None
        except FileNotFoundError:
            if self._exists(target):
                return  # published before, or by another committer in this moment
            what = (
                f"The output {staged} of epoch {committable['epoch']} ({committable['records']} records) belongs to a"
                " completed checkpoint but is neither staged nor published"
            )
            if not permit.replay:
                raise StateError(f"{what}. It was deleted: restore it, or start the job without its state.") from None
            # Published before the restart, and a consumer has moved the part on: that is what parts are for.
            log.warning("%s. It was most likely published and moved on before the job restarted.", what)

    def _exists(self, location: str) -> bool:
        try:
            answered(f"look at {location}", lambda: self._client.get_file_info(path_of(location)))
            return True
        except FileNotFoundError:
            return False

    def discard(self, live_attempts: frozenset[str]) -> None:
        for location, _ in hdfs_files(self._sink.base_path):
            name = self._names.read(last_part_of(location))
            if not isinstance(name, StagedName) or name.writer not in self._own:
                continue  # other jobs may be writing into the same directory
            if not self._names.is_staged_by(name, live_attempts):
                self._delete(location)

    def _delete(self, location: str) -> None:
        answered(f"delete {location}", lambda: self._client.delete(path_of(location)))


def _folder(sink: FileSink, bucket: str) -> str:
    return join(sink.base_path, bucket) if bucket else sink.base_path
