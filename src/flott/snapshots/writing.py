"""Writing a savepoint that was put together: copying, rewriting, and making files from rows. Driver side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4
from zlib import crc32

from flott.common._ids import EpochId, JobId, KeyGroup
from flott.common._savepoint_format import SavepointFormatType
from flott.errors import KeyTypeError, StateError, TypeMismatchError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import (
    Manifest,
    OperatorSnapshot,
    SavepointMark,
    SubtaskSnapshot,
    encode_manifest,
)
from flott.runtime.checkpoint.savepoint_files import remove_half_written
from flott.runtime.clock import SystemClock
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.files.sequence_reader import SequenceReader, open_sequence
from flott.runtime.managed_state.files.state_file import create_state_file, encode_file, open_state_file
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.key_groups import SameGroup, groups_of, key_group_of
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Delta, Table
from flott.runtime.managed_state.operator.operator_shares import Mode, OperatorStateFile, StateShape
from flott.runtime.managed_state.schema.type_schema import schema_of
from flott.runtime.managed_state.ttl.time_to_live import state_name
from flott.runtime.operators.process import PROCESSING_TIMERS
from flott.runtime.storage import Storage, open_storage
from flott.runtime.storage.locations import last_part_of, resolved
from flott.snapshots.editing import OperatorDraft, SavepointEditor
from flott.snapshots.grouped_rows import GroupedRows
from flott.snapshots.layouts import OPEN_WINDOWS, TableLayout, places_of
from flott.snapshots.new_states import NewState
from flott.snapshots.scans import OPERATOR_STATE_GROUP, still_there
from flott.snapshots.snapshot import StateSnapshot, open_snapshot_at
from flott.snapshots.transforms import transform


def write_savepoint(editor: SavepointEditor, path: str | os.PathLike[str], sync: bool) -> StateSnapshot:
    """Write what an editor describes into a new folder, and open it."""
    storage = open_storage(resolved(os.fspath(path)), sync=sync)
    if os.path.isfile(storage.root) or any(storage.list(".")):
        raise StateError(f"{storage.root} exists already. Give the path of a new folder for the savepoint.")
    try:
        writer = _Writer(editor, storage, SystemClock().now_ms())
        storage.publish(paths.METADATA, encode_manifest(writer.write()))
    except BaseException:
        remove_half_written(storage)
        raise
    return open_snapshot_at(storage.root)


class _Writer:
    """One savepoint being written."""

    def __init__(self, editor: SavepointEditor, storage: Storage, now_ms: int):
        self._editor = editor
        self._storage = storage
        self._now_ms = now_ms
        self._wakeups: list[int] = []  #: timestamps of new processing-time timers, the earliest of each operator
        self._copied: dict[str, str] = {}  #: file of the snapshot -> its name here

    def write(self) -> Manifest:
        """Write all state files; returns the manifest that refers to them."""
        origin = self._editor.origin
        with still_there("the snapshot that is edited" if origin is None else origin.path):
            operators = {draft.ident: self._operator(draft) for draft in self._editor.drafts.values()}
        base = self._new_manifest() if origin is None else origin.manifest
        ids = {draft.former: draft.ident for draft in self._editor.drafts.values() if draft.former is not None}
        wakeups = [*self._wakeups, *([] if base.wakeup_ms is None else [base.wakeup_ms])]
        return replace(
            base,
            operators=operators,
            sources={ids[ident]: source for ident, source in base.sources.items() if ident in ids},
            committables={ids[ident]: found for ident, found in base.committables.items() if ident in ids},
            attempts=(),
            accumulators=None,
            final=False,
            wakeup_ms=min(wakeups, default=None),
            completed_at_ms=self._now_ms,
            savepoint=SavepointMark(
                last_part_of(self._storage.root),
                SavepointFormatType.CANONICAL,
                drained=base.savepoint.drained if base.savepoint is not None else base.final,
            ),
        )

    def _new_manifest(self) -> Manifest:
        job_id = JobId(uuid4().hex)
        return Manifest(job_id, "savepoint", EpochId(0), self._now_ms, crc32(job_id.encode()))

    def _operator(self, draft: OperatorDraft) -> OperatorSnapshot:
        before = draft.before or OperatorSnapshot(
            draft.name, draft.uid, 1, draft.max_parallelism, (SubtaskSnapshot(),)
        )
        sequences = self._keyed(draft, before)
        items = self._operator_states(draft, before)
        subtasks = tuple(
            replace(subtask, sequence=sequence, operator_state=file)
            for subtask, sequence, file in zip(before.subtasks, sequences, items, strict=True)
        )
        return replace(before, name=draft.name, uid=draft.uid, subtasks=subtasks)

    # --- keyed state -------------------------------------------------------------------------------------------------

    def _keyed(self, draft: OperatorDraft, before: OperatorSnapshot) -> list[FileSequence | None]:
        if not draft.keyed_changes:
            return [
                None if subtask.sequence is None else tuple(self._copy_file(file) for file in subtask.sequence)
                for subtask in before.subtasks
            ]
        with ExitStack() as stack:
            new = [
                _NewTable(state.header(name, self._now_ms), stack.enter_context(self._grouped(draft, name, state)))
                for name, state in draft.states.items()
            ]
            return [
                self._rewrite(draft, subtask, index, before.parallelism, new)
                for index, subtask in enumerate(before.subtasks)
            ]

    @contextmanager
    def _grouped(self, draft: OperatorDraft, name: str, state: NewState) -> Iterator[GroupedRows]:
        """Return the rows of a new state by key group."""
        earliest: int | None = None
        with GroupedRows() as grouped:
            for key, map_key, value in state.entries(name, self._now_ms):
                try:
                    group = key_group_of(key, draft.max_parallelism)
                except KeyTypeError as error:
                    raise StateError(f"State {name!r} of operator {draft.uid!r}: {error}") from error
                grouped.add(group, (key, map_key, value))
                if name == PROCESSING_TIMERS:
                    earliest = value if earliest is None else min(earliest, value)
            if earliest is not None:
                self._wakeups.append(earliest)
            yield grouped

    def _rewrite(
        self,
        draft: OperatorDraft,
        subtask: SubtaskSnapshot,
        index: int,
        parallelism: int,
        new: Sequence[_NewTable],
    ) -> FileSequence | None:
        groups = groups_of(index, draft.max_parallelism, parallelism)
        with open_sequence(subtask.sequence or (), groups, self._origin_storage, plain=True) as sequence:
            gone = {*draft.removed, *draft.states}
            kept = {name: header for name, header in sequence.headers.items() if state_name(name) not in gone}
            held = {*sequence.held_groups(), *(group for table in new for group in table.rows.groups)}
            name = paths.keyed_state(draft.ident, index)
            headers = [*kept.values(), *(table.header for table in new)]
            if not headers:  # an operator that is not keyed, or loses all its keyed state
                return None if subtask.sequence is None else ()
            with create_state_file(self._storage, name, headers) as writer:
                for group in sorted(held & set(groups)):
                    deltas = {**self._changed(draft, sequence, group, kept), **_made(new, group)}
                    if deltas:
                        writer.add(group, deltas)
        return (StateFile(name, writer.size, is_base=True),)

    def _changed(
        self, draft: OperatorDraft, sequence: SequenceReader, group: KeyGroup, kept: Mapping[str, TableHeader]
    ) -> dict[str, Delta]:
        """Return what a key group holds of the states that stay, after the user's functions."""
        tables = sequence.tables(group)
        windowed = any(TableLayout.of(header).windowed for header in kept.values())
        places = places_of(tables.get(OPEN_WINDOWS))
        found: dict[str, Delta] = {}
        for name, header in kept.items():
            if name in tables:
                layout = TableLayout.of(header, beside_windows=windowed)
                label = f"state {state_name(name)!r} of operator {draft.uid or draft.name!r}"
                for function in draft.transforms.get(state_name(name), ()):
                    transform(tables[name], header, layout, places, function, label)
                found.update(_dumped(name, tables[name], group))
        return found

    # --- operator state ----------------------------------------------------------------------------------------------

    def _operator_states(self, draft: OperatorDraft, before: OperatorSnapshot) -> list[OperatorStateFile | None]:
        files = [subtask.operator_state for subtask in before.subtasks]
        if not draft.operator_changes:
            return [None if file is None else replace(file, name=self._copy(file.name)) for file in files]
        return [self._rewrite_items(draft, file, index) for index, file in enumerate(files)]

    def _rewrite_items(
        self, draft: OperatorDraft, file: OperatorStateFile | None, index: int
    ) -> OperatorStateFile | None:
        held: dict[str, tuple[TableHeader, list[Any]]] = {}
        if file is not None:
            with open_state_file(self._origin_storage, file.name) as reader:
                headers = {header.name: header for header in reader.tables}
                for name, items in reader.block(OPERATOR_STATE_GROUP, plain=True).items():
                    if name not in draft.removed and name not in draft.operator_states:
                        held[name] = headers[name], items
        if index == 0:  # the job that starts from the savepoint distributes them
            held.update(self._new_items(draft))
        if not held:
            return None
        data = encode_file(
            (header for header, _ in held.values()),
            {name: {OPERATOR_STATE_GROUP: items} for name, (_, items) in held.items()},
        )
        name = paths.operator_state(draft.ident, index)
        self._storage.write(name, data)
        shapes = tuple(StateShape(state, Mode(header.kind), len(items)) for state, (header, items) in held.items())
        return OperatorStateFile(name, len(data), shapes)

    def _new_items(self, draft: OperatorDraft) -> Iterator[tuple[str, tuple[TableHeader, list[Any]]]]:
        for name, state in draft.operator_states.items():
            items = list(state.items)
            try:
                if state.mode is Mode.BROADCAST:
                    keys, values = [key for key, _ in items], [value for _, value in items]
                    keys = keys if state.key_type is None else state.key_type.conform(keys)
                    values = values if state.value_type is None else state.value_type.conform(values)
                    items = list(zip(keys, values, strict=True))
                elif state.value_type is not None:
                    items = state.value_type.conform(items)
            except TypeMismatchError as error:
                raise StateError(f"The items of state {name!r} of operator {draft.uid!r}: {error}") from error
            header = TableHeader(
                name,
                state.mode.value,
                value_type=schema_of(state.value_type),
                map_key_type=schema_of(state.key_type),
            )
            yield name, (header, items)

    # --- files -------------------------------------------------------------------------------------------------------

    @property
    def _origin_storage(self) -> Storage:
        return self._storage if self._editor.origin is None else self._editor.origin.storage

    def _copy_file(self, file: StateFile) -> StateFile:
        return replace(file, name=self._copy(file.name), covers=())

    def _copy(self, name: str) -> str:
        """Copy a file of the snapshot as it is; once, however many subtasks refer to it."""
        if name not in self._copied:
            target = self._copied[name] = paths.exported(len(self._copied))
            self._storage.copy(self._origin_storage.location(name), target)
        return self._copied[name]


@dataclass(frozen=True)
class _NewTable:
    """A new state: what its file says about it, and its rows."""

    header: TableHeader
    rows: GroupedRows


def _made(new: Sequence[_NewTable], group: KeyGroup) -> dict[str, Delta]:
    """Return what the new states hold in a key group."""
    found: dict[str, Delta] = {}
    for made in new:
        found.update(_dumped(made.header.name, _filled(made, group), group))
    return found


def _dumped(name: str, table: Table, group: KeyGroup) -> Iterator[tuple[str, Delta]]:
    """Return what a table of one key group holds; nothing if it is empty."""
    for delta in table.dump(SameGroup(group)).values():
        yield name, delta


def _filled(made: _NewTable, group: KeyGroup) -> Table:
    kind = kind_of(made.header.kind)
    table: Table = kind.make(False)
    for key, map_key, value in made.rows.rows(group):
        kind.fill(table, key, map_key, value)
    return table
