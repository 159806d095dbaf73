"""All keyed state of one operator subtask: its tables and timers, their version, and how they are saved and restored.

A worker process keeps this object between epochs. Which process runs a subtask changes from epoch to epoch, so the
object knows its *version*: the name of the last state file it contains. Given the file sequence of the last completed
checkpoint it either is up to date, catches up by the files it missed, or starts over.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from flott.common._ids import KeyGroup
from flott.common._immutability import cannot_change
from flott.errors import ProgramError, StateError, TypeMismatchError
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, missing_files, version_of
from flott.runtime.managed_state.files.sections import EncodedDelta, encode_delta
from flott.runtime.managed_state.files.state_file import (
    StateFileWriter,
    by_group,
    create_state_file,
    is_savable,
    open_state_file,
)
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.key_groups import KeyGroupIndex
from flott.runtime.managed_state.kinds.lists import LISTS, ListTable
from flott.runtime.managed_state.kinds.maps import MAPS, MapTable
from flott.runtime.managed_state.kinds.panes import LIST_PANES, PANES, ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import (
    DeclaredTypes,
    Delta,
    GroupOf,
    T,
    Table,
    TableKind,
    TakenChanges,
    TakesChanges,
)
from flott.runtime.managed_state.kinds.timelines import TIMELINES, TimelineTable
from flott.runtime.managed_state.kinds.timers import TIMERS, TimerTable
from flott.runtime.managed_state.kinds.values import VALUES, ValueTable
from flott.runtime.managed_state.schema.conforming import NotOfItsType
from flott.runtime.managed_state.schema.schemas import TableSchemas
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.managed_state.ttl.lifetimes import Lifetimes
from flott.runtime.managed_state.ttl.time_to_live import state_name
from flott.runtime.storage import Storage

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

#: The version of a state that is none: half restored, not yet saved, or put together from other subtasks' files.
UNSAVED = "?"
#: What a step of saving does at most: so many changed entries, or about so many bytes. It takes about a millisecond.
STEP_ENTRIES = 1000
STEP_BYTES = 32 << 10


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
        self._in_place = in_place  #: the program, and not an exchange, has moved records to the subtask of their key
        self.version: str | None = None
        self._tables: dict[str, Table] = {}
        self.lifetimes = Lifetimes(owner, self.find, self.make_room)
        self.schemas = TableSchemas(self, key_type)
        self._group_index = KeyGroupIndex(max_parallelism)

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, kind: TableKind[T, Any], name: str, *, namespaced: bool = False) -> T:
        """Return the table of a kind with this name, made if it is new."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._make(name, kind, namespaced)
        if table.kind != kind.name:
            raise ProgramError(
                f"Operator {self.owner} asks for the {kind.name} state {name!r}, but holds a {table.kind} state of that"
                " name. Give each state of an operator its own name."
            )
        return table  # type: ignore[return-value]

    def value_table(
        self, name: str, value_type: TypeInformation | None = None, *, namespaced: bool = False
    ) -> ValueTable:
        """Return the value table with this name, made if it is new."""
        table = self.table(VALUES, name, namespaced=namespaced)
        if value_type is not None:
            self.schemas.declare((name,), StateTypes(value_type))
        return table

    def list_table(self, name: str, *, namespaced: bool = False) -> ListTable:
        """Return the list table with this name, made if it is new."""
        return self.table(LISTS, name, namespaced=namespaced)

    def map_table(self, name: str, *, namespaced: bool = False) -> MapTable:
        """Return the map table with this name, made if it is new."""
        return self.table(MAPS, name, namespaced=namespaced)

    def timer_table(self, name: str) -> TimerTable:
        """Return the timers with this name, made if they are new."""
        return self.table(TIMERS, name)

    def pane_table(self, name: str) -> PaneTable:
        """Return the panes with this name, made if they are new."""
        return self.table(PANES, name)

    def list_pane_table(self, name: str) -> ListPaneTable:
        """Return the panes of lists with this name, made if they are new."""
        table = self.table(LIST_PANES, name)
        assert isinstance(table, ListPaneTable)
        return table

    def timeline_table(self, name: str) -> TimelineTable:
        """Return the timelines with this name, made if they are new."""
        return self.table(TIMELINES, name)

    def in_group_order(self, keys: Iterable[Any]) -> list[Any]:
        """Return the keys by key group, and within a group as they came: the same order in every copy of the state."""
        return sorted(keys, key=self._group_index.__getitem__)

    def _make(self, name: str, kind: TableKind[Any, Any], namespaced: bool) -> Table:
        """Return a new, empty table."""
        return kind.make(namespaced)  # type: ignore[no-any-return]

    def find(self, name: str) -> Table | None:
        """Return the table with this name, if there is one."""
        return self._tables.get(name)

    def keys_with(self, name: str) -> Iterable[Any]:
        """Return the keys that have an entry in a table, in an order that depends on the keys only."""
        entries = kind_of(self._tables[name].kind).entries(self._tables[name])
        return sorted((key for key, _, _ in entries), key=lambda key: (self._group_index[key], encode_key(key)))

    def sizes(self) -> dict[str, int]:
        """Return the number of entries per table."""
        return {name: table.size() for name, table in self._tables.items()}

    def entry_count(self) -> int:
        """Return the number of entries in all tables; an estimate where counting would take long."""
        return sum(self.sizes().values())

    # --- memory: nothing to do where all state is in memory ----------------------------------------------------------

    #: Whether state comes from the disk piece by piece: then a batch is announced, and afterwards room is made.
    pages = False
    #: How many keys it is good to hear of at once; more would not fit into memory.
    foresight = 0

    def is_paged(self, table: Table) -> bool:
        """Return whether a table forgets what it does not know to be changed."""
        return False

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Fetch what is held for keys of records that are about to come."""

    def make_room(self) -> None:
        """Let go of what takes more memory than there is, after a batch."""

    def close(self) -> None:
        """Let go of what other processes may need: the epoch is over, or given up."""

    def discard(self) -> None:
        """Delete the local copy, if there is one: the subtask has moved to another host."""

    def forget(self) -> None:
        """Be empty, as if nothing had been here: in a batch job, when all keys so far have ended."""
        if self._in_place:
            for group, deltas in self._drain():
                self._checked(group, deltas)  # as saving them would
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
        """Bring what files that have been read held to what the program declares."""
        self.lifetimes.restored()
        self.schemas.settle()

    def _load(self, file: StateFile, storage: Storage) -> None:
        with open_state_file(storage, file.name) as reader:
            for header in reader.tables:
                self.schemas.loaded(header, file.within(self.groups))
            held = [self._restored(header) for header in reader.tables]
            kinds = {table.kind for table in held if not self.is_paged(table)}
            if kinds:
                for _, deltas in reader.blocks(file.within(self.groups), kinds=kinds):
                    for name, delta in deltas.items():
                        self._tables[name].apply(delta)

    def _restored(self, header: TableHeader) -> Table:
        """Return the table that a file names, made if the program has not asked for it yet."""
        held = self._tables.get(header.name)
        if held is None:
            held = self._tables[header.name] = self._make(header.name, kind_of(header.kind), header.namespaced)
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
        """Write what changed as a new file of this name, if anything did; return the sequence with it."""
        changed = self._changed_tables()
        if not changed:
            return sequence
        self.version = UNSAVED  # until it is written
        with create_state_file(storage, name, map(self._header, changed)) as writer:
            for group, deltas in self._drain():
                self._add(writer, group, self._checked(group, deltas))
        self.lifetimes.saved(changed)
        self.schemas.saved()
        self.version = name
        return (*sequence, StateFile(name, writer.size, is_base=False))

    def saving(self, storage: Storage, name: str) -> Generator[None, None, StateFile | None]:
        """Write what has changed up to now, if anything has, as a new file of this name, in steps of a millisecond.

        It is taken aside in the first step. Between steps the state may change, but must not be saved again.
        """
        changed = self._changed_tables()
        if not changed:
            return None
        self.version = UNSAVED  # until it is written
        headers = list(map(self._header, changed))
        taken = {table: self._take_aside(table) for table in changed}
        self.lifetimes.saved(changed)
        self.schemas.saved()
        deltas: dict[str, dict[KeyGroup, Delta]] = {}
        for table, found in taken.items():
            if isinstance(found, dict):
                deltas[table] = found
            else:
                deltas[table] = yield from self._group(table, found)
        with create_state_file(storage, name, headers) as writer:
            pause_at = STEP_BYTES
            for group, block in by_group(deltas):
                if writer.size > pause_at:
                    pause_at = writer.size + STEP_BYTES
                    yield
                later = {table: delta for table, delta in block.items() if not isinstance(taken[table], dict)}
                self._add(writer, group, block | self._checked(group, later) if later else block)
        self.version = name
        return StateFile(name, writer.size, is_base=False)

    def _changed_tables(self) -> list[str]:
        unwritten = self.lifetimes.unwritten
        return [table for table, held in self._tables.items() if self._has_changes(held) or table in unwritten]

    def _take_aside(self, name: str) -> TakenChanges | dict[KeyGroup, Delta]:
        """Return what changed in a table, as something that stays as it is: encoded, where objects may change."""
        table, deltas = self._tables[name], dict[KeyGroup, Delta]()
        if isinstance(table, TakesChanges):
            taken = table.take()
            if cannot_change(taken.contents()):
                return taken
            taken.group(0, taken.size(), self.grouping(table), deltas)
        else:
            deltas = table.drain(self.grouping(table))
        deltas = {group: self._checked(group, {name: delta})[name] for group, delta in deltas.items()}
        contents = [kind_of(table.kind).contents(delta) for delta in deltas.values()]
        if all(held is not None and cannot_change(held) for held in contents):
            return deltas
        return {group: self._encoded(name, delta) for group, delta in deltas.items()}

    def _group(self, name: str, taken: TakenChanges) -> Generator[None, None, dict[KeyGroup, Delta]]:
        """Return changes by key group."""
        deltas, group_of, size = dict[KeyGroup, Delta](), self.grouping(self._tables[name]), taken.size()
        for start in range(0, size, STEP_ENTRIES):
            if start:
                yield
            taken.group(start, start + STEP_ENTRIES, group_of, deltas)
        return deltas

    def _has_changes(self, table: Table) -> bool:
        return table.has_changes()

    def _drain(self) -> Iterable[tuple[KeyGroup, dict[str, Delta]]]:
        """Return what changed, by key group, ascending; forgets it."""
        return by_group({name: table.drain(self.grouping(table)) for name, table in self._tables.items()})

    def _add(self, writer: StateFileWriter, group: KeyGroup, deltas: dict[str, Delta]) -> None:
        try:
            writer.add(group, deltas)
        except OSError:
            raise
        except Exception as error:  # whatever an object of the user's raises when it is pickled
            culprits = (name for name, delta in deltas.items() if not is_savable(self._header(name), delta))
            raise self._unsavable(next(culprits, "?"), error) from error

    def _encoded(self, name: str, delta: Delta) -> EncodedDelta:
        try:
            return EncodedDelta(encode_delta(self._header(name), delta))
        except Exception as error:
            raise self._unsavable(name, error) from error

    def _unsavable(self, name: str, error: Exception) -> StateError:
        return StateError(
            f"State {name!r} of operator {self.owner} holds an object that cannot be saved: {type(error).__name__}:"
            f" {error}. Keep plain data in state, and make such objects in open()."
        )

    def _header(self, name: str) -> TableHeader:
        table = self._tables[name]
        return self.schemas.described(
            TableHeader(name, table.kind, table.namespaced, ttl=self.lifetimes.header(name))
        )

    def grouping(self, table: Table) -> GroupOf:
        """Return what gives the key group of an entry of a table."""
        index = self._group_index
        return (lambda entry: index[entry[0]]) if table.namespaced else index.__getitem__

    def _checked(self, group: KeyGroup, deltas: dict[str, Delta]) -> dict[str, Delta]:
        """Return changes as the declared types have them; refuse keys of other subtasks and values of other types."""
        if group not in self.groups:
            raise StateError(
                f"Operator {self.owner} holds state {next(iter(deltas))!r} for a key of key group {group}, which is not"
                f" one of its own ({self.groups.start} to {self.groups.stop - 1}). {self._why_foreign()}"
            )
        return {name: self._conform(name, delta) for name, delta in deltas.items()}

    def _why_foreign(self) -> str:
        if self._in_place:
            return (
                "Its input was keyed by reinterpret_as_keyed_stream(), which does not move records: each must be in the"
                " subtask of its key already, as it is after an operator on a stream keyed alike, with the same"
                " parallelism and maximum parallelism. Use key_by() instead."
            )
        return "The key selector gave one record two different keys: it must depend on the record alone."

    def _conform(self, name: str, delta: Delta) -> Delta:
        types = self.schemas.types(name)
        if types is None or types.own is not None or (types.value is None and types.map_key is None):
            return delta
        table, stamped = self._tables[name], self.lifetimes.is_stamped(name)
        try:
            return kind_of(table.kind).conform(table, delta, DeclaredTypes(types.value, types.map_key, stamped))
        except NotOfItsType as found:
            raise TypeMismatchError(
                f"State {state_name(name)!r} of operator {self.owner}, key {found.entry!r}: {found.error}"
            ) from found.error
