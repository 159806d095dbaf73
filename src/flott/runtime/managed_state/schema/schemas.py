"""The types of an operator's states: what the program declares now, and what its files said. Task side.

A checkpoint may hold a state of another type than the program declares. What it holds is converted when the program
asks for the state, before the first record, and again whenever it was read from files written before; the next
file then holds all of it in the new form. So of the files of a key group, the last that names a table says of what type
everything in it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from flott.common.typeinfo import TypeInformation
from flott.errors import StateMigrationError
from flott.runtime.managed_state.files.header_spans import HeaderSpans
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.schema.evolution import Incompatible, evolve_key
from flott.runtime.managed_state.schema.record_classes import holds_known_classes
from flott.runtime.managed_state.schema.rewriting import Rewriting, Said
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.managed_state.schema.type_schema import Json, schema_of
from flott.runtime.managed_state.ttl.time_to_live import state_name

if TYPE_CHECKING:
    from flott.runtime.managed_state.backends.hashmap import KeyedState


class TableSchemas:
    """The types of the states of one operator subtask."""

    def __init__(self, state: KeyedState, key_type: TypeInformation | None):
        self._state = state
        self._key_type = key_type
        schema = schema_of(key_type)
        #: Keys are looked up, so they are read as what they were: those of classes that cannot be imported are pickled.
        self._key_schema = schema if schema is not None and holds_known_classes(schema) else None
        self._declared: dict[str, StateTypes] = {}  #: by the name of the table
        self._schemas: dict[str, tuple[Json | None, Json | None]] = {}  #: of values and map keys, as declared
        self._held = HeaderSpans()  #: what files said
        self._unsettled: dict[str, None] = {}  #: tables read since they were last looked after
        self._converted: dict[str, Said] = {}  #: what files still say, until the next
        self._known_keys: list[Json | None] = [self._key_schema]

    # --- the program -------------------------------------------------------------------------------------------------

    def declare(self, tables: Iterable[str], types: StateTypes) -> None:
        """Note the types of a state that the program asks for, which may be in these tables."""
        for table in tables:
            if self._declared.get(table) != types:
                self._declared[table] = types
                self._schemas[table] = schema_of(types.value), schema_of(types.map_key)
                self._settle(table)

    def types(self, table: str) -> StateTypes | None:
        """Return what the program declared for a table, if it asked for it."""
        return self._declared.get(table)

    def settle(self) -> None:
        """Convert what files that have been read held of another type."""
        for table in list(self._unsettled):
            self._settle(table)

    # --- the files ---------------------------------------------------------------------------------------------------

    def described(self, header: TableHeader) -> TableHeader:
        """Return the header of a file that is written now, with what its tables are made of."""
        value, map_key = self._schemas.get(header.name) or self._read_schemas(header.name)
        return replace(header, key_type=self._key_schema, value_type=value, map_key_type=map_key)

    def _read_schemas(self, table: str) -> tuple[Json | None, Json | None]:
        """Return those of a table that the program has not asked for: as they were."""
        held = self._held.last(table)
        return (None, None) if held is None else (held.value_type, held.map_key_type)

    def loaded(self, header: TableHeader, groups: range) -> None:
        """Note what a file that was read says about a table, for these key groups."""
        self._check_keys(header)
        self._held.add(header, groups)
        self._unsettled[header.name] = None

    def saved(self) -> None:
        """Note that what was converted is in files now."""
        self._converted.clear()

    def revert(self) -> None:
        """Convert again what was converted in an epoch whose changes were dropped."""
        for table, said in self._converted.items():
            self._held.put(table, said)
            self._unsettled[table] = None
        self._converted.clear()

    def reset(self) -> None:
        """Forget what files said: all state was dropped, to be read again."""
        self._held.clear()
        self._unsettled.clear()
        self._converted.clear()

    def _check_keys(self, header: TableHeader) -> None:
        if header.key_type in self._known_keys:
            return
        verdict = evolve_key(header.key_type, self._key_type)
        if isinstance(verdict, Incompatible):
            raise StateMigrationError(
                f"{self._what(header.name)} cannot be restored: the type of its keys has changed; {verdict}. Give"
                " key_by() the former key and key_type."
            )
        self._known_keys.append(header.key_type)

    # --- converting --------------------------------------------------------------------------------------------------

    def _settle(self, name: str) -> None:
        self._unsettled.pop(name, None)
        state = self._state
        types, table = self._declared.get(name), state.find(name)
        if types is None or table is None or not kind_of(table.kind).has_values:
            return
        rewriting = Rewriting(
            self._what(name), types, stamped=state.lifetimes.is_stamped(name), paged=state.is_paged(table)
        )
        said = self._held.take(name)
        if any(rewriting.concerns(header) for _, header in said):
            self._converted[name] = said
            rewriting.run(table, said, state)

    def _what(self, table: str) -> str:
        types = self._declared.get(table)
        meaning = f" ({types.own})" if types is not None and types.own is not None else ""
        return f"State {state_name(table)!r}{meaning} of operator {self._state.owner}"
