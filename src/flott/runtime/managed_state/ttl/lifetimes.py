"""The times to live of an operator's states: what the program says now, and what its files said. Task side.

A checkpoint may hold a state that did not age and now does, or the reverse. What it holds is moved to the table of the
present form when the program asks for the state, and again whenever it was read anew from files written before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from flott.errors import ProgramError, StateError
from flott.runtime.managed_state.files.table_header import Json
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.ttl.expiry import Expiry, is_empty
from flott.runtime.managed_state.ttl.state_clock import StateClocks
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive, former_names, newest, table_name
from flott.runtime.managed_state.ttl.ttl_conversion import TtlConversion


@dataclass(frozen=True)
class _AskedFor:
    """A state as the program asked for it."""

    table: Table
    ttl: TimeToLive | None
    expiry: Expiry | None


class Lifetimes:
    """The times to live of the states of one operator subtask."""

    def __init__(self, owner: str, find: Callable[[str], Table | None], make_room: Callable[[], None]):
        self.clocks = StateClocks()
        #: Tables of which the files say something else than the program: the next file names them in any case.
        self.unwritten: set[str] = set()
        self._owner = owner  #: the operator's label, for errors
        self._find = find  #: the table with a name, if there is one
        self._make_room = make_room  #: called now and then while many entries are changed
        self._settled: set[str] = set()  #: states that have been looked after since they were restored
        self._declared: dict[str, _AskedFor] = {}  #: by the name of the state
        self._headers: dict[str, TimeToLive] = {}  #: by the name of the table: what files say, or are going to

    # --- the program -------------------------------------------------------------------------------------------------

    def declare(self, state: str, table: Table, ttl: TimeToLive | None) -> Expiry | None:
        """The program asks for a state, which is in this table; returns how it ages, None if it does not."""
        known = self._declared.get(state)
        if known is not None and known.ttl != ttl:
            raise ProgramError(
                f"Operator {self._owner} asks for the state {state!r} twice, with different times to live. Use one"
                " descriptor, or give each state its own name."
            )
        if known is None:
            expiry = Expiry(ttl, self.clocks.of(ttl)) if ttl is not None else None
            known = self._declared[state] = _AskedFor(table, ttl, expiry)
        if state not in self._settled:
            self._settle(state, known)
        return known.expiry

    def begin(self, now_ms: int, watermark: int) -> None:
        """An epoch begins, or state is about to be asked for in it."""
        self.clocks.turn(now_ms, watermark)
        for state, known in self._declared.items():
            if state not in self._settled:
                self._settle(state, known)
            if known.expiry is not None:
                known.expiry.touches = 0

    def sweep(self, records: int) -> None:
        """The epoch, which had so many records, ends: remove some of what is gone."""
        for known in self._declared.values():
            if known.expiry is not None:
                known.expiry.sweep(known.table, records, self._make_room)

    def expiry(self, state: str) -> Expiry | None:
        """How a state ages that the program has asked for."""
        known = self._declared.get(state)
        return None if known is None else known.expiry

    def table_of(self, state: str) -> str:
        """The name of the table that holds a state."""
        known = self._declared.get(state)
        return state if known is None else table_name(state, known.ttl)

    def _settle(self, state: str, known: _AskedFor) -> None:
        """Take over what is in tables of former times to live."""
        self._settled.add(state)
        name = table_name(state, known.ttl)
        said = self._headers.get(name)
        if known.ttl is not None and said != known.ttl:
            since = self.clocks.processing.now
            if said is not None:
                self.unwritten.add(name)
                since = max(since, said.since_ms + 1)
            self._headers[name] = replace(known.ttl, since_ms=since)
        for former in former_names(state, known.ttl):
            table = self._find(former)
            if table is not None and kind_of(table.kind).ages and not is_empty(table):
                if table.kind != known.table.kind:
                    raise StateError(
                        f"Operator {self._owner} has a {known.table.kind} state {state!r}, but its checkpoint holds a"
                        f" {table.kind} state of that name. Give the new state another name."
                    )
                conversion = TtlConversion(self._headers.get(former), known.ttl, self.clocks)
                conversion.move(table, known.table, self._make_room)

    # --- the files ---------------------------------------------------------------------------------------------------

    def header(self, table: str) -> Json | None:
        """What a file that is written now says about a table."""
        ttl = self._headers.get(table)
        return None if ttl is None else ttl.to_json()

    def is_stamped(self, table: str) -> bool:
        """Whether the values of a table are stamped."""
        return table in self._headers

    def loaded(self, table: str, ttl: Json | None) -> None:
        """A file with this table was read. Of what several files say, what was said last counts."""
        if ttl is not None and (counts := newest((ttl, self.header(table)))) is not None:
            self._headers[table] = TimeToLive.from_json(counts)

    def saved(self, tables: Iterable[str]) -> None:
        """A file with these tables was written."""
        self.unwritten.difference_update(tables)

    def restored(self) -> None:
        """State was brought to what the files say."""
        self._settled.clear()

    def reset(self) -> None:
        """All state was dropped, to be read anew."""
        self._headers.clear()
        self.unwritten.clear()
