"""The times to live of an operator's states: what the program says now, and what its files said. Task side.

A checkpoint may hold a state that did not age and now does, or the reverse. What it holds is moved to the table of the
present form when the program asks for the state, and again whenever it was read from files written before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from flott.errors import ProgramError, StateError
from flott.runtime.managed_state.files.table_header import Json
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.ttl.expiry import Expiry, is_empty
from flott.runtime.managed_state.ttl.state_clock import StateClocks
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive, former_names, newest, table_name

#: So many entries are converted at once.
_CONVERTED_AT_ONCE = 1024


@dataclass(frozen=True)
class TtlConversion:
    """From a former time to live to the present one; None: state did not age, or does not.

    What begins to age is as old as the epoch at hand. What is gone by the former time to live stays gone.
    """

    had: TimeToLive | None
    has: TimeToLive | None
    clocks: StateClocks

    def move(self, source: Table, target: Table, make_room: Callable[[], None]) -> None:
        """Move everything from the table of the former form to that of the present one."""
        kind, cursor = kind_of(source.kind), None
        while True:
            found, cursor = kind.walk(source, cursor, _CONVERTED_AT_ONCE)
            for entry, held in found:
                kind.move(source, target, entry, held, self._convert)
            make_room()
            if cursor is None:
                return

    def _convert(self, held: Any) -> tuple[Any, ...]:
        """Return a value of the present form in a tuple; an empty one if it was gone."""
        value, clocks = held, self.clocks
        if self.had is not None:
            value, stamp = held
            if stamp + self.had.lifespan_ms <= clocks.of(self.had).floor:
                return ()
        return (value if self.has is None else (value, clocks.of(self.has).stamp),)


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
        """Return the program asks for a state, which is in this table; return how it ages, None if it does not."""
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
        """Set the clocks for an epoch that begins, or in which state is about to be asked for."""
        self.clocks.turn(now_ms, watermark)
        for state, known in self._declared.items():
            if state not in self._settled:
                self._settle(state, known)
            if known.expiry is not None:
                known.expiry.touches = 0

    def sweep(self, records: int) -> None:
        """Remove some of what is gone at the end of an epoch, which had so many records."""
        for known in self._declared.values():
            if known.expiry is not None:
                known.expiry.sweep(known.table, records, self._make_room)

    def expiry(self, state: str) -> Expiry | None:
        """Return how a state ages that the program has asked for."""
        known = self._declared.get(state)
        return None if known is None else known.expiry

    def table_of(self, state: str) -> str:
        """Return the name of the table that holds a state."""
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
        """Return what a file that is written now says about a table."""
        ttl = self._headers.get(table)
        return None if ttl is None else ttl.to_json()

    def is_stamped(self, table: str) -> bool:
        """Return whether the values of a table are stamped."""
        return table in self._headers

    def loaded(self, table: str, ttl: Json | None) -> None:
        """Note what a file that was read says about a table. Of several files, the one that was written last counts."""
        if ttl is not None and (counts := newest((ttl, self.header(table)))) is not None:
            self._headers[table] = TimeToLive.from_json(counts)

    def saved(self, tables: Iterable[str]) -> None:
        """Note that a file with these tables was written."""
        self.unwritten.difference_update(tables)

    def restored(self) -> None:
        """Look after all states again, which were brought to what the files say."""
        self._settled.clear()

    def reset(self) -> None:
        """Forget what files said: all state was dropped, to be read again."""
        self._headers.clear()
        self.unwritten.clear()
