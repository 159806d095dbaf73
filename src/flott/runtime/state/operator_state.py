"""The operator state of one subtask: named lists and maps that belong to no key, their version, and how they are saved
and restored. Task side.

All of it is small, so it is saved whole, in one file, and only in epochs that change it. A worker process keeps this
object between epochs; which process runs a subtask changes, so the object knows its *version*: the name of the file it
equals. Given where the next epoch begins, it either is there already or reads everything anew.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from flott.errors import CorruptStateError, ProgramError, StateError
from flott.runtime.state.files import StateFileReader, encode_file, is_savable
from flott.runtime.state.keyed_state import UNSAVED
from flott.runtime.state.operator_shares import Mode, OperatorStart, OperatorStateFile, StateShape, StateShare
from flott.runtime.state.table_header import TableHeader
from flott.runtime.storage import LocalStorage

#: Files are indexed by key group; operator state has none and stands in this one.
_GROUP = 0


class NamedState:
    """One named state: its items, and whether they changed since they were saved."""

    __slots__ = ("changed", "items", "mode")

    def __init__(self, mode: Mode):
        self.mode = mode
        #: A list, or for broadcast state a dict. Always the same object: handles of the program point at it.
        self.items: Any = {} if mode is Mode.BROADCAST else []
        self.changed = False

    def dump(self) -> list[Any]:
        """All items, those of a map as pairs."""
        return list(self.items.items()) if self.mode is Mode.BROADCAST else list(self.items)

    def take(self, items: Iterable[Any]) -> None:
        """Add items that were dumped."""
        self.items.update(items) if self.mode is Mode.BROADCAST else self.items.extend(items)

    def empty(self) -> None:
        """Forget everything."""
        self.items.clear()
        self.changed = False


class OperatorState:
    """The named states of one operator subtask."""

    def __init__(self, owner: str):
        self.owner = owner  #: the operator's label, for errors
        self.restored = False  #: whether the epoch at hand goes on from a checkpoint of the operator
        self.version: str | None = None
        self._states: dict[str, NamedState] = {}
        self._file: OperatorStateFile | None = None
        self._digest = _digest_of(b"")  #: of the file; putting the same content again is no change

    def named(self, name: str, mode: Mode) -> NamedState:
        """The state with this name, made if it is new."""
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = NamedState(mode)
        if state.mode is not mode:
            raise ProgramError(
                f"Operator {self.owner} asks for the {mode.value} state {name!r}, but holds a {state.mode.value} state"
                " of that name. Give each state of an operator its own name."
            )
        return state

    def size(self) -> int:
        """Number of items in all states."""
        return sum(len(state.items) for state in self._states.values())

    # --- restoring ---------------------------------------------------------------------------------------------------

    def bring_to(self, start: OperatorStart, storage: LocalStorage) -> bool:
        """Make this the state that an epoch begins with; whether it was not so already."""
        self.restored = start.restored
        version = start.file.name if start.file is not None else None
        if self.version == version and not start.shares and not self._has_changes():
            return False
        self.version = UNSAVED
        self._file, self._digest = None, _digest_of(b"")
        for state in self._states.values():
            state.empty()
        if start.file is not None:
            self._load(start.file, storage)
        self._take(start.shares, storage)
        if not start.shares:
            self.version = version
        return True

    def _load(self, file: OperatorStateFile, storage: LocalStorage) -> None:
        data = storage.read(file.name)
        for name, (mode, items) in _read(data, file.name).items():
            self._held(name, mode).take(items)
        self._file, self._digest = file, _digest_of(data)

    def _take(self, shares: Iterable[StateShare], storage: LocalStorage) -> None:
        contents: dict[str, dict[str, tuple[Mode, list[Any]]]] = {}
        for share in shares:
            if share.file not in contents:
                contents[share.file] = _read(storage.read(share.file), share.file)
            mode, items = contents[share.file].get(share.state, (Mode.SPLIT, []))
            if len(items) < share.stop:
                raise CorruptStateError(
                    f"The state file {share.file} holds {len(items)} items of state {share.state!r}, expected at least"
                    f" {share.stop}."
                )
            self._held(share.state, mode).take(items[share.start : share.stop])

    def _held(self, name: str, mode: Mode) -> NamedState:
        state = self._states.setdefault(name, NamedState(mode))
        if state.mode is not mode:
            raise StateError(
                f"Operator {self.owner} has a {state.mode.value} state {name!r}, but its checkpoint holds a"
                f" {mode.value} state of that name. Give the new state another name."
            )
        return state

    # --- saving ------------------------------------------------------------------------------------------------------

    def save(self, storage: LocalStorage, name: str) -> OperatorStateFile | None:
        """Write everything as a new file of this name if it changed; returns the file that holds it, if any does."""
        if self.version != UNSAVED and not self._has_changes():
            return self._file
        self.version = UNSAVED
        held = {state_name: items for state_name, state in self._states.items() if (items := state.dump())}
        data = self._encode(held) if held else b""
        digest = _digest_of(data)
        if digest != self._digest:
            shapes = tuple(StateShape(n, self._states[n].mode, len(items)) for n, items in held.items())
            if held:
                storage.write(name, data)
            self._file = OperatorStateFile(name, len(data), shapes) if held else None
            self._digest = digest
        for state in self._states.values():
            state.changed = False
        self.version = self._file.name if self._file is not None else None
        return self._file

    def _has_changes(self) -> bool:
        return any(state.changed for state in self._states.values())

    def _encode(self, held: dict[str, list[Any]]) -> bytes:
        headers = [TableHeader(name, self._states[name].mode.value) for name in held]
        try:
            return encode_file(headers, {name: {_GROUP: items} for name, items in held.items()})
        except Exception as error:  # whatever an object of the user's raises when it is pickled
            culprits = (header.name for header in headers if not is_savable(header, held[header.name]))
            raise StateError(
                f"State {next(culprits, '?')!r} of operator {self.owner} holds an object that cannot be saved:"
                f" {type(error).__name__}: {error}. Keep plain data in state, and make such objects in open()."
            ) from error


def _read(data: bytes, name: str) -> dict[str, tuple[Mode, list[Any]]]:
    """The states in a file: mode and items by name."""
    reader = StateFileReader(io.BytesIO(data), name)
    modes = {table.name: _mode_of(table, name) for table in reader.tables}
    return {state: (modes[state], items) for state, items in reader.block(_GROUP).items()}


def _mode_of(table: TableHeader, name: str) -> Mode:
    try:
        return Mode(table.kind)
    except ValueError:
        raise StateError(
            f"The state file {name} holds a {table.kind!r} state, which is not operator state this version of Flott"
            " knows."
        ) from None


def _digest_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
