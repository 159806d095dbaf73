"""Stages an epoch's output for an object store: local files first, then one object for each bucket. Task side.

Records are collected in local files, so that memory stays bounded however many buckets there are and whatever the
format. When the epoch ends each file is uploaded, in parts if it is large, under a hidden name of this attempt's own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from uuid import uuid4

from flott.datastream.connectors.base import Json, WriterContext
from flott.datastream.connectors.file_system._sink import FileSink
from flott.runtime.connectors.files.names import object_staging
from flott.runtime.connectors.files.writer import FileWriter, StagedFile
from flott.runtime.storage.locations import join
from flott.runtime.storage.opening import open_object_storage

_CHUNK_BYTES = 1 << 20


class ObjectFileWriter(FileWriter):
    """Writes the records of one subtask in one epoch."""

    def __init__(self, sink: FileSink, context: WriterContext):
        super().__init__(sink, context)
        self._local = tempfile.mkdtemp(prefix="flott-sink-")
        self._paths: dict[str, str] = {}

    def _make_folder(self, bucket: str) -> None:
        """Do nothing: the local folder is there."""

    def _finish(self, bucket: str, file: StagedFile) -> Json:
        file.finish()
        staging = object_staging(self._writer)
        storage = open_object_storage(join(self._sink.base_path, staging))
        with open(self._path(bucket), "rb") as content, storage.create(f"{bucket}/{self._name}".lstrip("/")) as target:
            while data := content.read(_CHUNK_BYTES):
                target.write(data)
        return self._committable(bucket, os.path.getsize(self._path(bucket)))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._local, ignore_errors=True)  # what was uploaded in vain is discarded by the committer

    def _path(self, bucket: str) -> str:
        return self._paths.setdefault(bucket, os.path.join(self._local, uuid4().hex))
