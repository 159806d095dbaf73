"""All keyed state of one operator subtask, in a database on the local disk. Task side.

The database belongs to the host: it is opened when an epoch begins, by the process that runs it, and closed when the
epoch is saved. Between epochs a process keeps nothing of it. A continuous task keeps it open (``saving``). Tables of
kinds that make none over rows stay in memory here as well; they are cached and caught up like those of the hash-map
backend.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flott.common._ids import KeyGroup
from flott.errors import StateError
from flott.runtime.managed_state.backends.hashmap import UNSAVED, KeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget, RocksStore
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, missing_files, version_of
from flott.runtime.managed_state.files.state_file import StateFileReader, StateFileWriter, open_state_file
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Delta, PagedTable, Table, TableKind
from flott.runtime.managed_state.paging.row_store import TablePlace
from flott.runtime.managed_state.paging.rows import table_bytes
from flott.runtime.storage import Storage

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

#: What a key that is announced may take in memory.
_KEY_BYTES = 1024


class RocksKeyedState(KeyedState):
    """The tables of one operator subtask over a database in ``folder``."""

    pages = True

    def __init__(
        self,
        owner: str,
        max_parallelism: int,
        groups: range,
        folder: Path,
        budget: Budget,
        *,
        in_place: bool = False,
        key_type: TypeInformation | None = None,
    ):
        super().__init__(owner, max_parallelism, groups, in_place=in_place, key_type=key_type)
        self._max_parallelism = max_parallelism
        self._store = RocksStore(folder, budget)
        self._entry_count = 0
        self.foresight = max(budget.objects // _KEY_BYTES, 1)
        self._names: dict[bytes, str] = {}
        self._paged: dict[str, PagedTable] = {}  #: the tables that are in the database

    # --- tables ------------------------------------------------------------------------------------------------------

    def _make(self, name: str, kind: TableKind[Any, Any], namespaced: bool) -> Table:
        table = kind.make_paged(TablePlace(name, namespaced, self._store, self._max_parallelism, self.make_room))
        if table is None:
            return super()._make(name, kind, namespaced)
        if self._names.setdefault(table_bytes(name), name) != name:
            raise StateError(
                f"The states {name!r} and {self._names[table_bytes(name)]!r} of operator {self.owner} cannot be told"
                " apart in the database, by chance. Give one of them another name."
            )
        self._paged[name] = table
        return table

    def is_paged(self, table: Table) -> bool:
        return any(table is paged for paged in self._paged.values())

    def keys_with(self, name: str) -> Iterable[Any]:
        table = self._tables[name]
        return (key for key, _, _ in kind_of(table.kind).entries(table))  # rows stand by key group and encoded key

    def entry_count(self) -> int:
        return self._entry_count + sum(table.size() for name, table in self._tables.items() if name not in self._paged)

    # --- restoring ---------------------------------------------------------------------------------------------------

    def bring_to(self, sequence: FileSequence, storage: Storage) -> None:
        for table in self._paged.values():
            table.empty()  # an epoch that failed may have left changes
        self.schemas.revert()
        if not self._store.is_open:
            self._store.open()
        self._catch_up(sequence, storage)
        super().bring_to(sequence, storage)

    def _settle(self) -> None:
        for table in self._paged.values():
            table.refresh()
        super()._settle()

    def _catch_up(self, sequence: FileSequence, storage: Storage) -> None:
        """Apply what the database has missed."""
        missing = missing_files(sequence, self._store.version)
        if missing is None:
            self._store.wipe()
            missing = sequence
        if not missing:
            return
        if len(missing) == 1 and self._store.take_in(missing[0].name) and self._store.version == missing[0].name:
            return  # it was the last epoch's on this host, whichever process ran it
        if self._store.version is None:
            self._store.mark(UNSAVED)  # an empty database that is being filled is no version of anything
        for file in missing:
            with open_state_file(storage, file.name) as reader:
                for header in reader.tables:
                    self._restored(header)
                for group in reader.groups:
                    if group in file.within(self.groups):
                        self._apply(reader, group)
            self._store.flush()
        self._store.mark(version_of(sequence))

    def _apply(self, reader: StateFileReader, group: KeyGroup) -> None:
        for name, delta in reader.block(group, kinds={table.kind for table in self._paged.values()}).items():
            self._paged[name].apply(delta)

    # --- saving ------------------------------------------------------------------------------------------------------

    def save(self, sequence: FileSequence, storage: Storage, name: str) -> FileSequence:
        if not self._store.put_aside:  # if it was, there is more than memory should hold twice
            self._store.begin_staging()
        saved = super().save(sequence, storage, name)
        if saved is not sequence:
            self._store.end_staging(name)
        self._entry_count = self._store.count()
        self.close()
        return saved

    def saving(self, storage: Storage, name: str) -> Generator[None, None, StateFile | None]:
        """Write the file in one step. The database stays open, and contains it from then on."""
        if not self._store.put_aside:
            self._store.begin_staging()
        saved = super().save((), storage, name)
        for table in self._paged.values():
            table.empty()
        if saved:
            self._store.end_staging(name)
            self._take_in(saved[0], storage)
        self._entry_count = self._store.count()
        for table in self._paged.values():
            table.refresh()
        yield from ()
        return saved[0] if saved else None

    def _take_in(self, file: StateFile, storage: Storage) -> None:
        """Make what was just saved part of the database: as it was staged or, if it was put aside, from the file."""
        if self._store.take_in(file.name) and self._store.version == file.name:
            return
        with open_state_file(storage, file.name) as reader:
            for group in reader.groups:
                self._apply(reader, group)
        self._store.mark(file.name)

    def _add(self, writer: StateFileWriter, group: KeyGroup, deltas: dict[str, Delta]) -> None:
        super()._add(writer, group, deltas)
        if not self._store.put_aside:
            for name, delta in deltas.items():
                if name in self._paged:
                    self._paged[name].apply(delta)  # to what is staged

    def _has_changes(self, table: Table) -> bool:
        return table.has_changes() or (self._store.put_aside and self.is_paged(table))

    def _drain(self) -> Iterable[tuple[KeyGroup, dict[str, Delta]]]:
        if not self._store.put_aside:
            return super()._drain()
        return self._drain_aside()

    def _drain_aside(self) -> Iterator[tuple[KeyGroup, dict[str, Delta]]]:
        """Return what changed, key group by key group: what is still in memory is put aside first, to be in order."""
        kept = {
            name: table.drain(self.grouping(table))
            for name, table in self._tables.items()
            if name not in self._paged or self._paged[name].keeps_changes
        }
        paged = {name: table for name, table in self._paged.items() if name not in kept}
        self._put_aside(paged)
        for group in map(KeyGroup, self.groups):
            deltas = {name: groups[group] for name, groups in kept.items() if group in groups}
            deltas |= {name: delta for name, table in paged.items() if (delta := table.drain_group(group)) is not None}
            if deltas:
                yield group, deltas
        for table in paged.values():
            table.empty()
        self._store.drop_pending()

    # --- memory ------------------------------------------------------------------------------------------------------

    def prefetch(self, keys: Iterable[Any]) -> None:
        wanted = set(keys)
        for table in self._paged.values():
            table.prefetch(wanted)

    def make_room(self) -> None:
        if sum(table.weight() for table in self._paged.values()) > self._store.budget.objects:
            self._put_aside(self._paged)

    def _put_aside(self, paged: dict[str, PagedTable]) -> None:
        for table in paged.values():
            table.put_aside()
        self._store.flush()
        self._store.put_aside = True

    def discard(self) -> None:
        self.close()
        self._store.destroy()

    def close(self) -> None:
        for table in self._paged.values():
            table.empty()
        self._store.close()
