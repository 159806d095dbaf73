"""One operator of a snapshot, to be looked at: who it is, and which states it has. Driver side."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from flott.errors import StateError
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import OperatorSnapshot
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.storage import Storage
from flott.snapshots.layouts import OPEN_WINDOWS, TableLayout
from flott.snapshots.scans import ItemsPart, ItemsScan, ScanPart, StateScan, still_there
from flott.snapshots.views import KeyedStateView, OperatorStateView, StateView


class OperatorView:
    """An operator and its states."""

    def __init__(self, ident: OperatorId, snapshot: OperatorSnapshot, storage: Storage, origin: str):
        self.id = ident  #: 32 hexadecimal digits; follows from the uid, if there is one
        self.uid = snapshot.uid
        self.name = snapshot.name
        self.parallelism = snapshot.parallelism
        self.max_parallelism = snapshot.max_parallelism
        self.watermark = min(subtask.watermark for subtask in snapshot.subtasks) if snapshot.subtasks else None
        self._snapshot = snapshot
        self._storage = storage
        self._origin = f"operator {self.uid or self.name!r} in {origin}"

    @cached_property
    def states(self) -> tuple[StateView, ...]:
        """Return all its states: those of keys, then those of subtasks. Reads the footers of its files."""
        with still_there(self._origin):
            return (*self._keyed(), *self._of_subtasks())

    def state(self, name: str) -> StateView:
        """Return the state with this name."""
        for state in self.states:
            if name in (state.name, state.table):
                return state
        known = ", ".join(repr(state.name) for state in self.states) or "none"
        raise StateError(f"There is no state {name!r} of {self._origin}; it has {known}.")

    def keyed(self, name: str) -> KeyedStateView:
        """Return the keyed state with this name."""
        state = self.state(name)
        if not isinstance(state, KeyedStateView):
            raise StateError(f"{state!r} does not belong to keys.")
        return state

    @property
    def parts(self) -> tuple[ScanPart, ...]:
        """Return the keyed state of each subtask that has any: its files and its key groups."""
        parts = []
        for index, subtask in enumerate(self._snapshot.subtasks):
            if subtask.sequence:
                groups = groups_of(index, self.max_parallelism, self.parallelism)
                parts.append(ScanPart(subtask.sequence, (groups.start, groups.stop)))
        return tuple(parts)

    @cached_property
    def headers(self) -> dict[str, TableHeader]:
        """Return the tables of its keyed state; what the newest file says about a table counts."""
        found: dict[str, TableHeader] = {}
        for part in self.parts:
            for file in part.sequence:
                with open_state_file(self._storage, file.name) as reader:
                    found.update({table.name: table for table in reader.tables})
        return found

    def _keyed(self) -> Iterator[KeyedStateView]:
        windows = any(TableLayout.of(header).windowed for header in self.headers.values())
        found: dict[str, list[KeyedStateView]] = {}
        for header in self.headers.values():
            layout = TableLayout.of(header, beside_windows=windows)
            scan = StateScan(self._storage, header, layout, OPEN_WINDOWS in self.headers, self._origin)
            view = KeyedStateView(scan, self.parts, self.max_parallelism)
            found.setdefault(view.name, []).append(view)
        for views in found.values():
            # A state whose time to live was added or removed has two tables, of which one is empty by now.
            yield from [view for view in views if not view.is_empty()] or views[-1:] if len(views) > 1 else views

    def _of_subtasks(self) -> Iterator[OperatorStateView]:
        parts: dict[str, list[ItemsPart]] = {}
        headers: dict[str, TableHeader] = {}
        for index, subtask in enumerate(self._snapshot.subtasks):
            if subtask.operator_state is not None:
                with open_state_file(self._storage, subtask.operator_state.name) as reader:
                    for header in reader.tables:
                        headers[header.name] = header
                        parts.setdefault(header.name, []).append(ItemsPart(index, subtask.operator_state.name))
        for name, header in headers.items():
            yield OperatorStateView(ItemsScan(self._storage, header, self._origin), parts[name])

    def __repr__(self) -> str:
        return f"<{self._origin}: {self.parallelism} subtasks>"
