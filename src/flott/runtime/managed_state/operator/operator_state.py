"""The operator state of one subtask: named lists and maps that belong to no key, their version, and how they are saved
and restored. Task side.

All of it is small, so it is saved whole, in one file, and only in epochs that change it. A worker process keeps this
object between epochs; which process runs a subtask changes, so the object knows its *version*: the name of the file it
equals. Given where the next epoch begins, it either is there already or reads everything again.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from flott.common._ids import KeyGroup
from flott.errors import CorruptStateError, ProgramError, StateError, StateMigrationError, TypeMismatchError
from flott.runtime.managed_state.backends.hashmap import UNSAVED
from flott.runtime.managed_state.files.state_file import StateFileReader, encode_file, is_savable
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.operator.operator_shares import (
    Mode,
    OperatorStart,
    OperatorStateFile,
    StateShape,
    StateShare,
)
from flott.runtime.managed_state.schema.evolution import Convert
from flott.runtime.managed_state.schema.state_types import StateTypes, conversion, key_conversion
from flott.runtime.managed_state.schema.type_schema import schema_of
from flott.runtime.storage import Storage

#: Files are indexed by key group; operator state has none and stands in this one.
_GROUP = KeyGroup(0)


class NamedState:
    """One named state: its items, and whether they changed since they were saved."""

    __slots__ = ("changed", "header", "items", "mode", "types")

    def __init__(self, mode: Mode):
        self.mode = mode
        self.types: StateTypes | None = None  #: what the program declares, once it has asked for the state
        self.header: TableHeader | None = None  #: what the file said about them; None: they are as declared
        #: A list, or for broadcast state a dict. Always the same object: handles of the program point at it.
        self.items: Any = {} if mode is Mode.BROADCAST else []
        self.changed = False

    def dump(self) -> list[Any]:
        """Return all items, those of a map as pairs."""
        return list(self.items.items()) if self.mode is Mode.BROADCAST else list(self.items)

    def take(self, items: list[Any], header: TableHeader, what: str) -> None:
        """Add items that a file with this header holds; ``what`` names the state in messages."""
        if self.types is None:
            self.header = header
        else:
            items = self._converted(items, header, self.types, what)
        self.items.update(items) if self.mode is Mode.BROADCAST else self.items.extend(items)

    def declare(self, types: StateTypes, what: str) -> None:
        """The program asks for the state: what was read of other types is converted, or refused."""
        self.types = types
        if self.header is not None:
            items, header, self.header = self.dump(), self.header, None
            self.items.clear()
            self.take(items, header, what)

    def _converted(self, items: list[Any], header: TableHeader, types: StateTypes, what: str) -> list[Any]:
        if not items:
            return items
        values = conversion(what, header.value_type, types)
        keys = key_conversion(what, header.map_key_type, types) if self.mode is Mode.BROADCAST else None
        self.changed = self.changed or any(one is not None and one.rewrites for one in (values, keys))
        if self.mode is not Mode.BROADCAST:
            return _apply(values, items, what)
        map_keys, mapped = [key for key, _ in items], [value for _, value in items]
        return list(zip(_apply(keys, map_keys, what), _apply(values, mapped, what), strict=True))

    def empty(self) -> None:
        """Forget everything."""
        self.items.clear()
        self.header = None
        self.changed = False


def _apply(convert: Convert | None, values: list[Any], what: str) -> list[Any]:
    if convert is None:
        return values
    try:
        return convert.function(values)
    except TypeMismatchError as error:
        raise StateMigrationError(f"{what} cannot be restored: {error}") from error


class OperatorState:
    """The named states of one operator subtask."""

    def __init__(self, owner: str):
        self.owner = owner  #: the operator's label, for errors
        self.restored = False  #: whether the epoch at hand goes on from a checkpoint of the operator
        self.version: str | None = None
        self._states: dict[str, NamedState] = {}
        self._file: OperatorStateFile | None = None
        self._digest = _digest_of(b"")  #: of the file; putting the same content again is no change

    def named(self, name: str, mode: Mode, types: StateTypes | None = None) -> NamedState:
        """Return the state with this name, made if it is new.

        What was saved of other types is converted, or refused.
        """
        state = self._states.get(name)
        if state is None:
            state = self._states[name] = NamedState(mode)
        if state.mode is not mode:
            raise ProgramError(
                f"Operator {self.owner} asks for the {mode.value} state {name!r}, but holds a {state.mode.value} state"
                " of that name. Give each state of an operator its own name."
            )
        if types is not None and state.types is None:
            state.declare(types, self._what(name))
        return state

    def _what(self, name: str) -> str:
        return f"State {name!r} of operator {self.owner}"

    def size(self) -> int:
        """Return the number of items in all states."""
        return sum(len(state.items) for state in self._states.values())

    # --- restoring ---------------------------------------------------------------------------------------------------

    def bring_to(self, start: OperatorStart, storage: Storage) -> bool:
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

    def _load(self, file: OperatorStateFile, storage: Storage) -> None:
        data = storage.read(file.name)
        for header, items in _read(data, file.name).values():
            self._held(header, file.name).take(items, header, self._what(header.name))
        self._file, self._digest = file, _digest_of(data)

    def _take(self, shares: Iterable[StateShare], storage: Storage) -> None:
        contents: dict[str, dict[str, tuple[TableHeader, list[Any]]]] = {}
        for share in shares:
            if share.file not in contents:
                contents[share.file] = _read(storage.read(share.file), share.file)
            nothing: tuple[TableHeader, list[Any]] = TableHeader(share.state, Mode.SPLIT.value), []
            header, items = contents[share.file].get(share.state, nothing)
            if len(items) < share.stop:
                raise CorruptStateError(
                    f"The state file {share.file} holds {len(items)} items of state {share.state!r}, expected at least"
                    f" {share.stop}."
                )
            self._held(header, share.file).take(items[share.start : share.stop], header, self._what(share.state))

    def _held(self, header: TableHeader, file: str) -> NamedState:
        name, mode = header.name, _mode_of(header, file)
        state = self._states.setdefault(name, NamedState(mode))
        if state.mode is not mode:
            raise StateError(
                f"Operator {self.owner} has a {state.mode.value} state {name!r}, but its checkpoint holds a"
                f" {mode.value} state of that name. Give the new state another name."
            )
        return state

    # --- saving ------------------------------------------------------------------------------------------------------

    def save(self, storage: Storage, name: str) -> OperatorStateFile | None:
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
        headers = [self._header(name) for name in held]
        try:
            return encode_file(headers, {name: {_GROUP: items} for name, items in held.items()})
        except Exception as error:  # whatever an object of the user's raises when it is pickled
            culprits = (header.name for header in headers if not is_savable(header, held[header.name]))
            raise StateError(
                f"State {next(culprits, '?')!r} of operator {self.owner} holds an object that cannot be saved:"
                f" {type(error).__name__}: {error}. Keep plain data in state, and make such objects in open()."
            ) from error


    def _header(self, name: str) -> TableHeader:
        state = self._states[name]
        plain = TableHeader(name, state.mode.value)
        if state.types is None:  # as it was read
            return plain if state.header is None else state.header
        map_key = schema_of(state.types.map_key) if state.mode is Mode.BROADCAST else None
        return replace(plain, value_type=schema_of(state.types.value), map_key_type=map_key)


def _read(data: bytes, name: str) -> dict[str, tuple[TableHeader, list[Any]]]:
    """Return the states in a file: what it says about them, and their items, by name."""
    reader = StateFileReader(io.BytesIO(data), name)
    for table in reader.tables:
        _mode_of(table, name)  # refuses what is no operator state
    headers = {table.name: table for table in reader.tables}
    return {state: (headers[state], items) for state, items in reader.block(_GROUP).items()}


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
