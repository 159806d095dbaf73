"""How window operators hold what is in their windows, and what one does about the holdings of another. Task side.

Which operator runs depends on the trigger, the lateness and the evictor. A program that changes one of them and goes on
from a savepoint finds its windows held in another way: they are taken over where that can be done, and otherwise the
program is refused, because its windows would silently be lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common.typeinfo import TypeInformation, Types
from flott.datastream.window._windows import TimeWindow
from flott.errors import StateError
from flott.graph.specs import WindowSpec
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.maps import MAPS
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.managed_state.schema.type_schema import Json
from flott.runtime.operators.process import EVENT_TIMERS, PROCESSING_TIMERS
from flott.runtime.operators.window.namespaces import window_of

FOLDED = "_window-contents"
FOLDED_PANES = "_window-panes"
SESSIONS = "_sessions"
ELEMENTS = "_window-elements"
ELEMENT_PANES = "_window-element-panes"
TIMESTAMPED_ELEMENTS = "_window-timestamped-elements"

#: The windows of each key that merge: {namespace of the window: where its contents are}.
OPEN_WINDOWS = "_merging-windows"
#: Begins the name of a trigger's state.
TRIGGER_STATE = "_trigger:"

#: What stands in a window, by the table that holds it.
_CONTENTS = {
    FOLDED: "one folded value for each window",
    FOLDED_PANES: "one folded value for each window",
    SESSIONS: "one folded value for each window",
    ELEMENTS: "all elements of each window",
    ELEMENT_PANES: "all elements of each window",
    TIMESTAMPED_ELEMENTS: "all elements of each window with their timestamps, for an evictor",
}
_FOLDED = {FOLDED, FOLDED_PANES, SESSIONS}
#: Held by operators that know windows of time only.
_OF_TIME = {FOLDED_PANES, ELEMENT_PANES, SESSIONS}


def declare_types(state: KeyedState, own: str, spec: WindowSpec) -> None:
    """Say what the contents of windows are made of, wherever an operator may have put them that held the same."""
    for name, contents in _CONTENTS.items():
        if contents == _CONTENTS[own]:
            state.schemas.declare((name,), StateTypes(_type_in(name, spec), own=contents))


def _type_in(name: str, spec: WindowSpec) -> TypeInformation | None:
    """Return what an entry of a table is, or an element of one that is a list."""
    declared = spec.folded_type if name in _FOLDED else spec.record_type
    if declared is None:
        return None
    if name == SESSIONS:  # of a key: starts, ends, and what is in between
        return Types.LIST(Types.TUPLE([Types.LONG(), Types.LONG(), declared]))
    return Types.TUPLE([declared, Types.LONG()]) if name == TIMESTAMPED_ELEMENTS else declared


def type_in_session(schema: Json | None) -> Json | None:
    """Return what one session holds, of what :data:`SESSIONS` is declared to hold for a key."""
    if schema is None:
        return None
    held: Json = schema["element"]["fields"][2]["type"]
    return None if held["type"] == "pickled" else {"version": schema["version"], **held}


def released(state: KeyedState, own: str) -> Iterator[tuple[Any, Any, Any]]:
    """Return the windows that other operators held in this state, and release them: key, window, what is in it."""
    for name, contents in _CONTENTS.items():
        table = state.find(name)
        if name == own or table is None or not table.size():
            continue
        if contents != _CONTENTS[own]:
            raise StateError(
                f"The checkpoint of operator {state.owner} holds {contents}; the program now needs {_CONTENTS[own]}."
                " Windows that are open cannot be changed from one to the other: keep the way they are evaluated"
                " (reduce or aggregate; apply or process; an evictor), or give the operator another uid to begin"
                " without state."
            )
        for key, window, held in list(_release(state, name, table)):
            if own in _OF_TIME and not isinstance(window, TimeWindow):
                raise StateError(
                    f"The checkpoint of operator {state.owner} holds the window {window!r}, but the program now has"
                    " windows of time. Keep the kind of windows, or give the operator another uid to begin without"
                    " state."
                )
            yield key, window, held


def _release(state: KeyedState, name: str, table: Table) -> Iterator[tuple[Any, Any, Any]]:
    entries = list(kind_of(table.kind).release(table))
    if name == SESSIONS:
        entries = [(key, (start, end), held) for key, _, sessions in entries for start, end, held in sessions]
    windows = _merging_windows(state)
    for key, place, held in entries:
        yield key, window_of(windows.get((key, place), place)), held
    _release_triggers(state)


def _merging_windows(state: KeyedState) -> dict[tuple[Any, Any], Any]:
    """Return which window has its contents where, of windows that merge; they are released."""
    table = state.find(OPEN_WINDOWS)
    if table is None or table.kind != MAPS.name:
        return {}
    released = kind_of(table.kind).release(table)
    return {(key, place): name for key, _, windows in released for name, place in windows.items()}


def _release_triggers(state: KeyedState) -> None:
    """Release what the trigger of the other operator remembered. The operator that takes over sets its own timers."""
    for name in state.sizes():
        table = state.find(name)
        if table is not None and (name in (EVENT_TIMERS, PROCESSING_TIMERS) or name.startswith(TRIGGER_STATE)):
            for _ in kind_of(table.kind).release(table):
                pass
