"""One RocksDB database of one operator subtask: rows of bytes. Task side.

It is opened for an epoch and closed after it, because the next epoch may run in another process of the host.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from flott.errors import ConfigurationError, StorageError
from flott.runtime.managed_state.paging.row_store import PENDING

_MEGABYTE = 1 << 20

#: The row that names the last state file the database contains.
_VERSION = b"V"
#: How long to wait for a process that still has the database open: a task that was cancelled a moment ago.
_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Budget:
    """How the memory of one operator subtask is divided."""

    total: int

    @property
    def write_buffer(self) -> int:
        """Of one memtable; there may be two."""
        return max(self.total // 16, _MEGABYTE // 4)

    @property
    def block_cache(self) -> int:
        """Blocks, indexes and filters of the database's files."""
        return max(self.total // 5, _MEGABYTE)

    @property
    def objects(self) -> int:
        """Python objects: entries in use and changes of the epoch."""
        return max(self.total // 4, _MEGABYTE)

    @property
    def batch(self) -> int:
        """Return what is written at once."""
        return min(max(self.total // 32, _MEGABYTE // 4), 8 * _MEGABYTE)


class RocksStore:
    """A sorted map of bytes on the local disk: the ``RowStore`` of tables."""

    def __init__(self, folder: Path, budget: Budget):
        self.folder = folder
        self.budget = budget
        self._batch_bytes = budget.batch
        self._db: Any = None
        self._batch: Any = None
        self._unlogged: Any = None
        self.put_aside = False  #: there are pending rows
        self._staged: dict[bytes, bytes | None] | None = None  #: rows that become part of the database later

    @property
    def is_open(self) -> bool:
        return self._db is not None

    def open(self) -> None:
        """Open the database, made if it is not there; one that cannot be read is replaced by an empty one."""
        rocksdict = _binding()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        deadline = monotonic() + _PATIENCE_S
        while self._db is None:
            try:
                self._db = rocksdict.Rdict(str(self.folder), _options(rocksdict, self.budget))
            except Exception as error:  # the binding has one class for everything
                if "lock" in str(error).lower():
                    if monotonic() > deadline:
                        raise StorageError(
                            f"The local state in {self.folder} is in use by another process, which does not let go"
                            f" of it: {error}."
                        ) from error
                    sleep(0.01)
                elif self.folder.exists():
                    shutil.rmtree(self.folder)  # it is only a copy
                else:
                    raise _failure(self.folder, error) from error
        self._unlogged = rocksdict.WriteOptions()
        self._unlogged.disable_wal = True  # what is not flushed by a crash is caught up from the state files
        self._batch = rocksdict.WriteBatch(raw_mode=True)
        self.drop_pending()

    def close(self) -> None:
        """Flush and close. What is pending is gone."""
        if self._db is not None:
            try:
                self._db.close()
            finally:
                self._db = self._batch = self._staged = None

    def destroy(self) -> None:
        """Delete a closed database, unless another process has it open: then the copy is in use."""
        with suppress(Exception):  # the binding has one class for everything
            _binding().Rdict.destroy(str(self.folder))
            for path in self.folder.parent.glob(f"{self.folder.name}.*.sst"):
                path.unlink(missing_ok=True)
            shutil.rmtree(self.folder, ignore_errors=True)

    def wipe(self) -> None:
        """Begin with an empty database."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.open()

    @property
    def version(self) -> str | None:
        """Return the last state file it contains."""
        found = self._db.get(_VERSION)
        return None if found is None else found.decode()

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, row: bytes) -> bytes | None:
        """Return one committed row, or one put aside, by its whole name."""
        return self._db.get(row)  # type: ignore[no-any-return]

    def get_many(self, rows: list[bytes]) -> list[bytes | None]:
        """Return several rows at once."""
        return self._db.get(rows)  # type: ignore[no-any-return]

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return all rows that begin so, in the order of their bytes, from ``start`` on.

        Rows that are written while the scan runs are not seen.
        """
        # Not by ReadOptions.set_iterate_upper_bound: rocksdict 0.3.29 lets go of the bound's bytes too early.
        for row, found in self._db.items(from_key=start or prefix):
            if not row.startswith(prefix):
                return
            yield row, found

    def count(self) -> int:
        """Return about how many rows there are."""
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, row: bytes, value: bytes) -> None:
        """Write a row, with the next ``flush`` at the latest."""
        if self._staged is not None:
            self._staged[row] = value
            return
        self._batch.put(row, value)
        self._flush_if_large()

    def delete(self, row: bytes) -> None:
        """Delete a row, with the next ``flush`` at the latest."""
        if self._staged is not None:
            self._staged[row] = None
            return
        self._batch.delete(row)
        self._flush_if_large()

    def delete_all(self, prefix: bytes) -> None:
        """Delete all rows that begin so, as a range, and let that be seen."""
        self._batch.delete_range(prefix, _after(prefix))
        self.flush()

    def flush(self) -> None:
        """Let what was written be found."""
        if not self._batch.is_empty():
            try:
                self._db.write(self._batch, self._unlogged)
            except Exception as error:
                raise _failure(self.folder, error) from error
            self._batch = _binding().WriteBatch(raw_mode=True)  # one is good for one write

    def mark(self, version: str | None) -> None:
        """Say which state file was applied last, together with all that was written before."""
        if version is None:
            self._batch.delete(_VERSION)
        else:
            self._batch.put(_VERSION, version.encode())
        self.flush()

    # --- staging: the next version, ready to be taken in -------------------------------------------------------------

    def begin_staging(self) -> None:
        """From here on, what is put and deleted belongs to the next version, not to the database."""
        self._staged = {}

    def end_staging(self, version: str) -> None:
        """Write what was staged to a file beside the database, which may be taken in when that version counts."""
        staged, self._staged = self._staged, None
        if staged is None:
            return
        rocksdict, path = _binding(), self._stage(version)
        staged[_VERSION] = version.encode()
        try:
            writer = rocksdict.SstFileWriter(_options(rocksdict, self.budget))
            writer.open(str(path))
            for row in sorted(staged):
                value = staged[row]
                if value is None:
                    del writer[row]
                else:
                    writer[row] = value
            writer.finish()
        except Exception as error:
            path.unlink(missing_ok=True)
            raise _failure(self.folder, error) from error

    def take_in(self, version: str) -> bool:
        """Make a staged version part of the database, in milliseconds; False if there is none. Others are deleted."""
        chosen = self._stage(version)
        found = chosen.exists()
        if found:
            options = _binding().IngestExternalFileOptions()
            options.set_move_files(True)
            try:
                self._db.ingest_external_file([str(chosen)], options)
            except Exception:  # torn by a crash: what it holds is in the state files as well
                found = False
        for path in self.folder.parent.glob(f"{self.folder.name}.*.sst"):
            path.unlink(missing_ok=True)
        return found

    def _stage(self, version: str) -> Path:
        digest = blake2b(version.encode(), digest_size=12).hexdigest()
        return self.folder.with_name(f"{self.folder.name}.{digest}.sst")

    def drop_pending(self) -> None:
        """Forget what an epoch has put aside."""
        if next(iter(self.scan(PENDING)), None) is not None:
            self.delete_all(PENDING)
        self.put_aside = False

    def _flush_if_large(self) -> None:
        if self._batch.size_in_bytes() > self._batch_bytes:
            self.flush()


def _after(prefix: bytes) -> bytes:
    """Return the first bytes after all those that begin so."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1])


def _options(rocksdict: Any, budget: Budget) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(budget.write_buffer)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(rocksdict.DBCompressionType.none())  # half the time of a read, twice the disk
    # Every epoch adds a small file with keys from everywhere: merging it at once would rewrite the whole database.
    options.set_level_zero_file_num_compaction_trigger(16)
    options.set_level_zero_slowdown_writes_trigger(48)
    options.set_level_zero_stop_writes_trigger(64)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(_MEGABYTE)
    options.set_stats_dump_period_sec(0)
    options.set_skip_stats_update_on_db_open(True)
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(rocksdict.Cache(budget.block_cache))
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_bloom_filter(10, False)
    options.set_block_based_table_factory(blocks)
    return options


def _binding() -> Any:
    try:
        import rocksdict
    except ImportError as error:
        raise ConfigurationError(
            "The state backend rocksdb needs the package rocksdict where tasks run: pip install 'flott[rocksdb]', or"
            " choose state.backend.type: hashmap."
        ) from error
    return rocksdict


def _failure(folder: Path, error: Exception) -> StorageError:
    return StorageError(
        f"The local state in {folder} cannot be used: {error}. Check that the folder has room and is writable, or"
        " choose another one with state.backend.rocksdb.localdir."
    )
