"""All keyed state of one operator subtask: its tables and timers, their version, and how they are saved and restored.

A worker process keeps this object between epochs. Which process runs a subtask changes from epoch to epoch, so the
object knows its *version*: the name of the last state file it contains. Given the file sequence of the last completed
checkpoint it either is up to date, catches up by the files it missed, or starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError, StateError, TypeMismatchError
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, missing_files, version_of
from flott.runtime.managed_state.files.state_file import (
    StateFileWriter,
    by_group,
    create_state_file,
    is_savable,
    open_state_file,
)
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.handles import CurrentKey, TableListState, TableMapState
from flott.runtime.managed_state.key_groups import KeyGroupIndex
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.table_kinds import KINDS, make_table
from flott.runtime.managed_state.kinds.tables import Delta, ListTable, MapTable, Table, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.schema.conforming import NotOfItsType, conform_delta
from flott.runtime.managed_state.schema.schemas import TableSchemas
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.managed_state.ttl.lifetimes import Lifetimes
from flott.runtime.managed_state.ttl.time_to_live import state_name
from flott.runtime.storage import Storage

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

#: The version of a state that is none: half restored, not yet saved, or put together from other subtasks' files.
UNSAVED = "?"


class KeyedState:
    """The tables of one operator subtask."""

    def __init__(
        self,
        owner: str,
        max_parallelism: int,
        groups: range,
        *,
        in_place: bool = False,
        key_type: TypeInformation | None = None,
    ):
        self.owner = owner  #: the operator's label, for errors
        self.current = CurrentKey()
        self.groups = groups
        self._in_place = in_place  #: the program, and not an exchange, has brought records to their key's subtask
        self.version: str | None = None
        self._tables: dict[str, Table] = {}
        self.lifetimes = Lifetimes(owner, self.find, self.make_room)
        self.schemas = TableSchemas(self, key_type)
        self._group_index = KeyGroupIndex(max_parallelism)

    # --- tables ------------------------------------------------------------------------------------------------------

    def value_table(
        self, name: str, value_type: TypeInformation | None = None, *, namespaced: bool = False
    ) -> ValueTable:
        """The value table with this name, made if it is new."""
        table = self._table(name, ValueTable.kind, namespaced)
        assert isinstance(table, ValueTable)
        if value_type is not None:
            self.schemas.declare((name,), StateTypes(value_type))
        return table

    def list_table(self, name: str, *, namespaced: bool = False) -> ListTable:
        """The list table with this name, made if it is new."""
        table = self._table(name, ListTable.kind, namespaced)
        assert isinstance(table, ListTable)
        return table

    def map_table(self, name: str, *, namespaced: bool = False) -> MapTable:
        """The map table with this name, made if it is new."""
        table = self._table(name, MapTable.kind, namespaced)
        assert isinstance(table, MapTable)
        return table

    def timer_table(self, name: str) -> TimerTable:
        """The timers with this name, made if they are new."""
        table = self._table(name, TimerTable.kind)
        assert isinstance(table, TimerTable)
        return table

    def pane_table(self, name: str) -> PaneTable:
        """The panes with this name, made if they are new."""
        table = self._table(name, PaneTable.kind)
        assert isinstance(table, PaneTable)
        return table

    def list_pane_table(self, name: str) -> ListPaneTable:
        """The panes of lists with this name, made if they are new."""
        table = self._table(name, ListPaneTable.kind)
        assert isinstance(table, ListPaneTable)
        return table

    def timeline_table(self, name: str) -> TimelineTable:
        """The timelines with this name, made if they are new."""
        table = self._table(name, TimelineTable.kind)
        assert isinstance(table, TimelineTable)
        return table

    def in_group_order(self, keys: Iterable[Any]) -> list[Any]:
        """The keys by key group, and within a group as they came: the same order in every copy of the state."""
        return sorted(keys, key=self._group_index.__getitem__)

    def _make(self, name: str, kind: str, namespaced: bool) -> Table:
        """A new, empty table."""
        return make_table(kind, namespaced)

    def _table(self, name: str, kind: str, namespaced: bool = False) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._make(name, kind, namespaced)
        if table.kind != kind:
            raise ProgramError(
                f"Operator {self.owner} asks for the {kind} state {name!r}, but holds a {table.kind} state of that"
                " name. Give each state of an operator its own name."
            )
        return table

    def find(self, name: str) -> Table | None:
        """The table with this name, if there is one."""
        return self._tables.get(name)

    def keys_with(self, name: str) -> Iterable[Any]:
        """The keys that have an entry in a table, in an order that depends on the keys only."""
        table = self._tables[name]
        assert isinstance(table, ValueTable | ListTable | MapTable)
        return sorted(table.entries, key=lambda key: (self._group_index[key], encode_key(key)))

    def sizes(self) -> dict[str, int]:
        """Number of entries per table."""
        return {name: table.size() for name, table in self._tables.items()}

    def entry_count(self) -> int:
        """Number of entries in all tables; an estimate where counting would take long."""
        return sum(self.sizes().values())

    # --- handles -----------------------------------------------------------------------------------------------------

    def list_state(self, table: ListTable, current: CurrentKey) -> TableListState:
        """The handle of a list state."""
        return TableListState(table, current)

    def map_state(self, table: MapTable, current: CurrentKey) -> TableMapState:
        """The handle of a map state."""
        return TableMapState(table, current)

    # --- memory: nothing to do where all state is in memory ----------------------------------------------------------

    _kinds_in_memory = KINDS
    #: Whether state comes from the disk piece by piece: then a batch is announced, and afterwards room is made.
    pages = False
    #: How many keys it is good to hear of at once; more would not fit into memory.
    foresight = 0

    def is_paged(self, table: Table) -> bool:
        """Whether a table forgets what it does not know to be changed."""
        return table.kind not in self._kinds_in_memory

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Records with these keys are about to come."""

    def make_room(self) -> None:
        """A batch is done: let go of what takes more memory than there is."""

    def close(self) -> None:
        """The epoch is over, or given up: let go of what other processes may need."""

    def forget(self) -> None:
        """Be empty, as if nothing had ever been here: in a batch job, when the keys that were have ended."""
        if self._in_place:
            for group, deltas in self._drain():
                self._check(group, deltas)  # as saving them would
            self.version = None
        for table in self._tables.values():
            table.empty()

    # --- restoring ---------------------------------------------------------------------------------------------------

    def bring_to(self, sequence: FileSequence, storage: Storage) -> None:
        """Make this the state that the sequence describes, reading as few files as possible."""
        if any(table.has_changes() for table in self._tables.values()):
            self._reset()  # an epoch that failed left them
        missing = missing_files(sequence, self.version)
        if missing is None:
            self._reset()
            missing = sequence
        if missing:
            self.version = UNSAVED
        for file in missing:
            self._load(file, storage)
        self.version = version_of(sequence)
        self._settle()

    def _settle(self) -> None:
        """Files have been read: bring what they held to what the program declares."""
        self.lifetimes.restored()
        self.schemas.settle()

    def _load(self, file: StateFile, storage: Storage) -> None:
        with open_state_file(storage, file.name) as reader:
            for header in reader.tables:
                self.schemas.loaded(header, file.within(self.groups))
            kinds = {self._restored(header).kind for header in reader.tables} & self._kinds_in_memory
            if kinds:
                for _, deltas in reader.blocks(file.within(self.groups), kinds=kinds):
                    for name, delta in deltas.items():
                        self._tables[name].apply(delta)

    def _restored(self, header: TableHeader) -> Table:
        """The table that a file names, made if the program has not asked for it yet."""
        held = self._tables.get(header.name)
        if held is None:
            held = self._tables[header.name] = self._make(header.name, header.kind, header.namespaced)
        if held.kind != header.kind:
            raise StateError(
                f"Operator {self.owner} has a {held.kind} state {header.name!r}, but its checkpoint holds a"
                f" {header.kind} state of that name. Give the new state another name."
            )
        self.lifetimes.loaded(header.name, header.ttl)
        return held

    def _reset(self) -> None:
        for table in self._tables.values():
            table.empty()
        self.lifetimes.reset()
        self.schemas.reset()
        self.version = None

    # --- saving ------------------------------------------------------------------------------------------------------

    def save(self, sequence: FileSequence, storage: Storage, name: str) -> FileSequence:
        """Write what changed as a new file of this name, if anything did; returns the sequence with it."""
        unwritten = self.lifetimes.unwritten
        changed = [table for table, held in self._tables.items() if self._has_changes(held) or table in unwritten]
        if not changed:
            return sequence
        self.version = UNSAVED  # until it is written
        with create_state_file(storage, name, map(self._header, changed)) as writer:
            for group, deltas in self._drain():
                self._check(group, deltas)
                self._add(writer, group, deltas)
        self.lifetimes.saved(changed)
        self.schemas.saved()
        self.version = name
        return (*sequence, StateFile(name, writer.size, is_base=False))

    def _has_changes(self, table: Table) -> bool:
        return table.has_changes()

    def _drain(self) -> Iterable[tuple[int, dict[str, Delta]]]:
        """What changed, by key group, ascending; forgets it."""
        return by_group({name: table.drain(self.grouping(table)) for name, table in self._tables.items()})

    def _add(self, writer: StateFileWriter, group: int, deltas: dict[str, Delta]) -> None:
        try:
            writer.add(group, deltas)
        except OSError:
            raise
        except Exception as error:  # whatever an object of the user's raises when it is pickled
            culprits = (name for name, delta in deltas.items() if not is_savable(self._header(name), delta))
            raise StateError(
                f"State {next(culprits, '?')!r} of operator {self.owner} holds an object that cannot be saved:"
                f" {type(error).__name__}: {error}. Keep plain data in state, and make such objects in open()."
            ) from error

    def _header(self, name: str) -> TableHeader:
        table = self._tables[name]
        return self.schemas.described(
            TableHeader(name, table.kind, table.namespaced, ttl=self.lifetimes.header(name))
        )

    def grouping(self, table: Table) -> Callable[[Any], int]:
        """What gives the key group of an entry of a table."""
        index = self._group_index
        return (lambda entry: index[entry[0]]) if table.namespaced else index.__getitem__

    def _check(self, group: int, deltas: dict[str, Delta]) -> None:
        """Refuse what could never be found again: keys of other subtasks, values that are not what was declared."""
        for name, delta in deltas.items():
            if group not in self.groups:
                raise StateError(
                    f"Operator {self.owner} holds state {name!r} for a key of key group {group}, which is not one of"
                    f" its own ({self.groups.start} to {self.groups.stop - 1}). {self._why_foreign()}"
                )
            self._conform(name, delta)

    def _why_foreign(self) -> str:
        if self._in_place:
            return (
                "Its input was keyed by reinterpret_as_keyed_stream(), which does not move records: each must be in the"
                " subtask of its key already, as it is after an operator on a stream keyed alike, with the same"
                " parallelism and maximum parallelism. Use key_by() instead."
            )
        return "The key selector gave one record two different keys: it must depend on the record alone."

    def _conform(self, name: str, delta: Delta) -> None:
        types = self.schemas.types(name)
        if types is None or types.own is not None or (types.value is None and types.map_key is None):
            return
        stamped = self.lifetimes.is_stamped(name)
        try:
            conform_delta(self._tables[name], delta, types.value, types.map_key, stamped)
        except NotOfItsType as found:
            raise TypeMismatchError(
                f"State {state_name(name)!r} of operator {self.owner}, key {found.entry!r}: {found.error}"
            ) from found.error
