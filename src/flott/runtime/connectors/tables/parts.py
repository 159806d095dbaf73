"""Parquet files that a task writes for a table: invisible until a commit refers to them. Task side.

A file below a local folder is written in its place and flushed. For any other storage it is written locally first, and
uploaded when it is complete, so memory stays bounded and no half file is ever in the table's folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from flott.errors import StorageError
from flott.runtime.connectors.files.durable import make_folder, remove, sync_file
from flott.runtime.storage import sync_folder

#: So many rows are kept before they are written as a row group.
ROW_GROUP_ROWS = 64 * 1024

#: Puts a local file into the table's storage.
Upload = Callable[[str], None]


class PartFile:
    """One Parquet file being written."""

    def __init__(self, path: str | None, schema: Any, compression: str = "snappy", upload: Upload | None = None):
        self._is_local = path is not None
        if path is None:
            descriptor, path = tempfile.mkstemp(prefix="flott-part-", suffix=".parquet")
            os.close(descriptor)
        else:
            make_folder(os.path.dirname(path), os.path.dirname(os.path.dirname(path)))
        self.rows = 0
        self._path = path
        self._upload = upload
        self._waiting: list[Any] = []
        self._waiting_rows = 0
        self._stream: Any = open(path, "wb")  # noqa: SIM115 (closed by finish or abandon)
        self._writer: Any = pq.ParquetWriter(self._stream, schema, compression=compression)

    @property
    def size_bytes(self) -> int:
        """Return about how large the file is at present."""
        return int(self._stream.tell()) + sum(int(table.nbytes) for table in self._waiting)

    def write(self, table: Any) -> None:
        """Add rows."""
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        self.rows += table.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            import pyarrow as pa

            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting, self._waiting_rows = [], 0

    def finish(self) -> tuple[int, Any]:
        """Complete the file and make it durable; return its size and the metadata of its footer."""
        try:
            self._flush()
            self._writer.close()
            self._stream.close()
            metadata = pq.read_metadata(self._path)
            if self._is_local:
                size_bytes = sync_file(self._path)
                sync_folder(os.path.dirname(self._path))
            else:
                size_bytes = os.path.getsize(self._path)
                assert self._upload is not None
                self._upload(self._path)
                remove(self._path)
            return size_bytes, metadata
        except OSError as error:
            raise StorageError(f"Cannot write the data file {self._path}: {error}. Check that it has room.") from error

    def abandon(self) -> None:
        """Let go of the file: it will not be committed."""
        self._writer.close()
        self._stream.close()
        remove(self._path)
