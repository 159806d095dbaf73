"""All keyed state of one operator subtask: its tables and timers, their version, and how they are saved and restored.

A worker process keeps this object between epochs. Which process runs a subtask changes from epoch to epoch, so the
object knows its *version*: the name of the last state file it contains. Given the chain of files of the last completed
checkpoint it either is up to date, catches up by the files it missed, or starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError, StateError, TypeMismatchError
from flott.runtime.state.compaction import Fold, decide_fold
from flott.runtime.state.encoding import encode_key
from flott.runtime.state.files import TableHeader, encode_file, is_picklable, read_blocks, read_header
from flott.runtime.state.handles import CurrentKey
from flott.runtime.state.key_groups import KeyGroupIndex
from flott.runtime.state.panes import ListPaneTable, PaneTable
from flott.runtime.state.tables import Delta, ListTable, MapTable, Table, ValueTable, make_table
from flott.runtime.state.timelines import TimelineTable
from flott.runtime.state.timers import TimerTable
from flott.runtime.storage import LocalStorage

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

#: How many versions a merged file remembers to contain: enough for a worker that was away for a while to catch up.
REMEMBERED_VERSIONS = 32
#: The version of a state that is none: half restored, not yet saved, or put together from other subtasks' files.
UNSAVED = "?"


@dataclass(frozen=True)
class StateFile:
    """A reference to one immutable state file."""

    name: str
    size: int
    is_base: bool
    covers: tuple[str, ...] = ()  #: names of the most recent files folded into this one


Chain = tuple[StateFile, ...]


class KeyedState:
    """The tables of one operator subtask."""

    def __init__(self, owner: str, max_parallelism: int, groups: range, *, in_place: bool = False):
        self.owner = owner  #: the operator's label, for errors
        self.current = CurrentKey()
        self.groups = groups
        self._in_place = in_place  #: the program, and not an exchange, has brought records to their key's subtask
        self.version: str | None = None
        self._tables: dict[str, Table] = {}
        self._types: dict[str, TypeInformation] = {}
        self._group_index = KeyGroupIndex(max_parallelism)

    # --- tables ------------------------------------------------------------------------------------------------------

    def value_table(
        self, name: str, value_type: TypeInformation | None = None, *, namespaced: bool = False
    ) -> ValueTable:
        """The value table with this name, made if it is new."""
        if value_type is not None:
            self._types[name] = value_type
        table = self._table(name, "value", lambda: ValueTable(namespaced))
        assert isinstance(table, ValueTable)
        return table

    def list_table(self, name: str, *, namespaced: bool = False) -> ListTable:
        """The list table with this name, made if it is new."""
        table = self._table(name, "list", lambda: ListTable(namespaced))
        assert isinstance(table, ListTable)
        return table

    def map_table(self, name: str, *, namespaced: bool = False) -> MapTable:
        """The map table with this name, made if it is new."""
        table = self._table(name, "map", lambda: MapTable(namespaced))
        assert isinstance(table, MapTable)
        return table

    def timer_table(self, name: str) -> TimerTable:
        """The timers with this name, made if they are new."""
        table = self._table(name, "timers", TimerTable)
        assert isinstance(table, TimerTable)
        return table

    def pane_table(self, name: str) -> PaneTable:
        """The panes with this name, made if they are new."""
        table = self._table(name, "panes", PaneTable)
        assert isinstance(table, PaneTable)
        return table

    def list_pane_table(self, name: str) -> ListPaneTable:
        """The panes of lists with this name, made if they are new."""
        table = self._table(name, "list-panes", ListPaneTable)
        assert isinstance(table, ListPaneTable)
        return table

    def timeline_table(self, name: str) -> TimelineTable:
        """The timelines with this name, made if they are new."""
        table = self._table(name, "timelines", TimelineTable)
        assert isinstance(table, TimelineTable)
        return table

    def in_group_order(self, keys: Iterable[Any]) -> list[Any]:
        """The keys by key group, and within a group as they came: the same order in every copy of the state."""
        return sorted(keys, key=self._group_index.__getitem__)

    def _table(self, name: str, kind: str, make: Callable[[], Table]) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = make()
        if table.kind != kind:
            raise ProgramError(
                f"Operator {self.owner} asks for the {kind} state {name!r}, but holds a {table.kind} state of that"
                " name. Give each state of an operator its own name."
            )
        return table

    def find(self, name: str) -> Table | None:
        """The table with this name, if there is one."""
        return self._tables.get(name)

    def keys_with(self, name: str) -> list[Any]:
        """The keys that have an entry in a table, in an order that depends on the keys only."""
        table = self._tables[name]
        assert isinstance(table, ValueTable | ListTable | MapTable)
        return sorted(table.entries, key=encode_key)

    def sizes(self) -> dict[str, int]:
        """Number of entries per table."""
        return {name: table.size() for name, table in self._tables.items()}

    def forget(self) -> None:
        """Be empty, as if nothing had ever been here: in a batch job, when the keys that were have ended."""
        if self._in_place:
            self._drain()  # it refuses keys of other subtasks, as saving them would
            self.version = None
        for table in self._tables.values():
            table.empty()

    # --- restoring ---------------------------------------------------------------------------------------------------

    def bring_to(self, chain: Chain, storage: LocalStorage) -> None:
        """Make this the state that the chain describes, reading as few files as possible."""
        if any(table.has_changes() for table in self._tables.values()):
            self._reset()  # an epoch that failed left them
        missing = self._missing(chain)
        if missing:
            self.version = UNSAVED
        for file in missing:
            self._load(file, storage)
        self.version = chain[-1].name if chain else None

    def _missing(self, chain: Chain) -> Chain:
        if not chain:
            if self.version is not None:
                self._reset()
            return ()
        for position, file in enumerate(chain):
            if file.name == self.version:
                return chain[position + 1 :]
            if self.version in file.covers:
                return chain[position:]  # a merged delta may be applied over a part of itself
        self._reset()
        return chain

    def load_foreign(self, chain: Chain, storage: LocalStorage) -> None:
        """Add the part of another subtask's state that falls into this one's key groups: after a change of
        parallelism."""
        self.version = UNSAVED
        for file in chain:
            self._load(file, storage)

    def _load(self, file: StateFile, storage: LocalStorage) -> None:
        data = storage.read(file.name)
        header, _ = read_header(data, file.name)
        for table in header.tables:
            held = self._tables.setdefault(table.name, _table_of(table))
            if held.kind != table.kind:
                raise StateError(
                    f"Operator {self.owner} has a {held.kind} state {table.name!r}, but its checkpoint holds a"
                    f" {table.kind} state of that name. Give the new state another name."
                )
        for _, deltas in read_blocks(data, file.name, self.groups):
            for name, delta in deltas.items():
                self._tables[name].apply(delta)

    def _reset(self) -> None:
        for table in self._tables.values():
            table.empty()
        self.version = None

    # --- saving ------------------------------------------------------------------------------------------------------

    def save(self, chain: Chain, storage: LocalStorage, name: str) -> Chain:
        """Write what changed as a new file of this name, fold the chain if that is due, and return the new chain."""
        deltas = self._drain()
        if not deltas:
            return chain
        data = self._encode(deltas)
        sizes = [file.size for file in chain if not file.is_base]
        decision = decide_fold(sum(file.size for file in chain if file.is_base), [*sizes, len(data)])
        if decision.fold is Fold.REWRITE:
            return self.save_whole(storage, name)
        covers: tuple[str, ...] = ()
        if decision.fold is Fold.MERGE:
            older = chain[len(chain) - decision.newest + 1 :]
            chain = chain[: len(chain) - len(older)]
            data = self._merge([*((file.name, storage.read(file.name)) for file in older), (name, data)])
            covers = tuple(covered for file in older for covered in (*file.covers, file.name))[-REMEMBERED_VERSIONS:]
        storage.write(name, data)
        self.version = name
        return (*chain, StateFile(name, len(data), False, covers))

    def save_whole(self, storage: LocalStorage, name: str) -> Chain:
        """Write everything as a new base: the changes outgrew it, or the state came from other subtasks' files."""
        self._drain()
        data = self.dump()
        storage.write(name, data)
        self.version = name
        return (StateFile(name, len(data), True),)

    def dump(self) -> bytes:
        """Everything, as a base file."""
        return self._encode({name: table.dump(self._grouping(table)) for name, table in self._tables.items()})

    def _drain(self) -> dict[str, dict[int, Delta]]:
        """What changed, checked. From here on the state has no version until it is written."""
        deltas = {n: d for n, table in self._tables.items() if (d := table.drain(self._grouping(table)))}
        if deltas:
            self.version = UNSAVED
            self._check(deltas)
        return deltas

    def _merge(self, files: Sequence[tuple[str, bytes]]) -> bytes:
        """The deltas in these files, oldest first, as one file."""
        headers: dict[str, TableHeader] = {}
        found: dict[str, dict[int, list[Delta]]] = {}
        for file, data in files:
            header, _ = read_header(data, file)
            headers.update((table.name, table) for table in header.tables)
            for group, deltas in read_blocks(data, file, self.groups):
                for name, delta in deltas.items():
                    found.setdefault(name, {}).setdefault(group, []).append(delta)
        merged = {
            name: {group: self._tables[name].merge(deltas) for group, deltas in groups.items()}
            for name, groups in found.items()
        }
        return encode_file(headers.values(), merged)

    def _encode(self, deltas: dict[str, dict[int, Delta]]) -> bytes:
        try:
            return encode_file(self._headers(deltas), deltas)
        except Exception as error:  # whatever an object of the user's raises when it is pickled
            culprits = (n for n, groups in deltas.items() if not all(map(is_picklable, groups.values())))
            raise StateError(
                f"State {next(culprits, '?')!r} of operator {self.owner} holds an object that cannot be saved:"
                f" {type(error).__name__}: {error}. Keep plain data in state, and make such objects in open()."
            ) from error

    def _headers(self, names: Iterable[str]) -> list[TableHeader]:
        return [TableHeader(name, self._tables[name].kind, self._tables[name].namespaced) for name in names]

    def _grouping(self, table: Table) -> Callable[[Any], int]:
        index = self._group_index
        return (lambda entry: index[entry[0]]) if table.namespaced else index.__getitem__

    def _check(self, deltas: dict[str, dict[int, Any]]) -> None:
        """Refuse what could never be found again: keys of other subtasks, values that are not what was declared."""
        for name, groups in deltas.items():
            for group, delta in groups.items():
                if group not in self.groups:
                    raise StateError(
                        f"Operator {self.owner} holds state {name!r} for a key of key group {group}, which is not one"
                        f" of its own ({self.groups.start} to {self.groups.stop - 1}). {self._why_foreign()}"
                    )
                if name in self._types:
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
        entries, values, _ = delta
        try:
            converted = self._types[name].conform(values)
        except TypeMismatchError as error:
            key = entries[error.index] if error.index is not None else "?"
            raise TypeMismatchError(f"State {name!r} of operator {self.owner}, key {key!r}: {error}") from error
        if converted is not values:
            # Here, too: a worker that restores this state must see what this one goes on with.
            delta[1] = converted
            self.value_table(name).entries.update(zip(entries, converted, strict=True))


def _table_of(header: TableHeader) -> Table:
    match header.kind:
        case TimerTable.kind:
            return TimerTable()
        case PaneTable.kind:
            return PaneTable()
        case ListPaneTable.kind:
            return ListPaneTable()
        case TimelineTable.kind:
            return TimelineTable()
    return make_table(header.kind, header.namespaced)
