"""Reading one keyed state from its files, key group by key group. A value: it travels to Spark tasks. Either side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flott.common._ids import KeyGroup
from flott.errors import StateError, StorageError
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.files.sequence_reader import SequenceReader, applied, open_sequence
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Entry
from flott.runtime.managed_state.operator.operator_shares import Mode
from flott.runtime.operators.window.holdings import ELEMENTS, FOLDED, TIMESTAMPED_ELEMENTS
from flott.runtime.storage import Storage
from flott.snapshots.layouts import OPEN_WINDOWS, TableLayout, places_of

#: Held by place, where windows merge.
_BY_PLACE = {FOLDED, ELEMENTS, TIMESTAMPED_ELEMENTS}
#: Operator state has no key groups and stands in the first.
OPERATOR_STATE_GROUP = KeyGroup(0)


@dataclass(frozen=True)
class ScanPart:
    """What one subtask holds, or some of its key groups."""

    sequence: FileSequence
    groups: tuple[int, int]  #: from and up to

    def holds(self, group: KeyGroup) -> bool:
        """Return whether a key group is among them."""
        return group in range(*self.groups)

    def pieces(self, piece_bytes: int) -> list[ScanPart]:
        """Return the same in pieces of about so many bytes of files, each some of the key groups."""
        start, stop = self.groups
        count = max(1, min(stop - start, -(-sum(file.size for file in self.sequence) // piece_bytes)))
        edges = [start + (stop - start) * number // count for number in range(count + 1)]
        return [ScanPart(self.sequence, edge) for edge in pairwise(edges)]


@dataclass(frozen=True)
class StateScan:
    """One state of an operator, ready to be read."""

    storage: Storage
    header: TableHeader
    layout: TableLayout
    merging: bool  #: the operator's windows merge
    origin: str  #: what is read, for errors

    def groups(self, part: ScanPart) -> Iterator[tuple[KeyGroup, list[Entry]]]:
        """Return the entries of each key group that has any, ascending. One key group is in memory at a time."""
        with self._open(part) as sequence:
            for group in sequence.held_groups():
                if entries := self._entries(sequence, group):
                    yield group, entries

    def row_batches(self, part: ScanPart) -> Iterator[list[tuple[Any, ...]]]:
        """Return the raw rows of each key group that has any."""
        for _, entries in self.groups(part):
            yield list(self.layout.rows(entries))

    def group(self, part: ScanPart, group: KeyGroup) -> list[Entry]:
        """Return the entries of one key group."""
        with self._open(part) as sequence:
            return self._entries(sequence, group)

    def find(self, part: ScanPart, group: KeyGroup, key: Any, namespace: Any, *, any_namespace: bool) -> list[Entry]:
        """Return the entries of one key, in one window or in any.

        Reads the key group's blocks, newest first, until the rest cannot matter.
        """
        header = self.header
        if header.namespaced and any_namespace:

            def wanted(entry: Any) -> bool:
                return bool(entry[0] == key)
        else:
            sought = (key, namespace) if header.namespaced else key

            def wanted(entry: Any) -> bool:
                return bool(entry == sought)

        if self._held_by_place:
            entries = self.group(part, group)
        else:
            with self._open(part) as sequence:
                entries = self._search(sequence, group, wanted, single=not (header.namespaced and any_namespace))
        return [entry for entry in entries if entry[0] == key and (any_namespace or entry[1] == namespace)]

    def _search(
        self, sequence: SequenceReader, group: KeyGroup, wanted: Callable[[Any], bool], *, single: bool
    ) -> list[Entry]:
        kind, parts = kind_of(self.header.kind), []
        for delta, is_last in sequence.newest_deltas(group, self.header.name):
            part, settled = kind.part(delta, wanted)
            parts.append(part)
            if (settled and single) or is_last:
                break
        return list(self.layout.entries(applied(self.header, parts[::-1]), {}))

    def bytes_of(self, part: ScanPart) -> int:
        """Return how much of the files the state takes, replaced values included."""
        name = self.header.name
        with self._open(part) as sequence:
            return sum(
                reader.section_bytes(group).get(name, 0)
                for group in sequence.held_groups()
                for _, reader in sequence.readers(group)
            )

    @property
    def _held_by_place(self) -> bool:
        return self.merging and self.header.name in _BY_PLACE

    def _entries(self, sequence: SequenceReader, group: KeyGroup) -> list[Entry]:
        table = sequence.table(group, self.header.name)
        if table is None:
            return []
        places = places_of(sequence.table(group, OPEN_WINDOWS)) if self._held_by_place else {}
        return list(self.layout.entries(table, places))

    @contextmanager
    def _open(self, part: ScanPart) -> Iterator[SequenceReader]:
        with (
            still_there(self.origin),
            open_sequence(part.sequence, range(*part.groups), self.storage, plain=True) as sequence,
        ):
            yield sequence


@dataclass(frozen=True)
class ItemsPart:
    """The operator state of one subtask."""

    subtask: int
    file: str


@dataclass(frozen=True)
class ItemsScan:
    """One operator state, ready to be read."""

    storage: Storage
    header: TableHeader
    origin: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return what stands in a raw row."""
        return ("key", "value") if self.is_broadcast else ("subtask", "position", "value")

    @property
    def is_broadcast(self) -> bool:
        """Return whether it is a map, the same in every subtask."""
        return self.header.kind == Mode.BROADCAST.value

    def items(self, part: ItemsPart) -> list[Any]:
        """Return all items, those of a map as pairs."""
        with still_there(self.origin), open_state_file(self.storage, part.file) as reader:
            return reader.table_delta(OPERATOR_STATE_GROUP, self.header.name, plain=True) or []

    def row_batches(self, part: ItemsPart) -> Iterator[list[tuple[Any, ...]]]:
        """Return the raw rows of a subtask, if it has any."""
        if items := self.items(part):
            yield items if self.is_broadcast else [(part.subtask, *item) for item in enumerate(items)]

    def bytes_of(self, part: ItemsPart) -> int:
        """Return how much of the file the state takes."""
        with still_there(self.origin), open_state_file(self.storage, part.file) as reader:
            return reader.section_bytes(OPERATOR_STATE_GROUP).get(self.header.name, 0)


@contextmanager
def still_there(origin: str) -> Iterator[None]:
    """Say what happened when a file is gone that a checkpoint refers to."""
    try:
        yield
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise StateError(
                f"A file of {origin} does not exist any more: {error.__cause__.filename}. A running job deletes"
                " checkpoints when it has newer ones: open() it again to read the latest, raise"
                " execution.checkpointing.num-retained, or take a savepoint, which stays until you delete it."
            ) from error
        raise
