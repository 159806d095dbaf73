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
from flott.runtime.managed_state.kinds.panes import PaneTable
from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, ValueTable
from flott.runtime.managed_state.kinds.timers import TimerTable
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

#: What stands in a window, whoever holds it.
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
    """What an entry of a table is, or an element of one that is a list."""
    declared = spec.folded_type if name in _FOLDED else spec.record_type
    if declared is None:
        return None
    if name == SESSIONS:  # of a key: starts, ends, and what is in between
        return Types.LIST(Types.TUPLE([Types.LONG(), Types.LONG(), declared]))
    return Types.TUPLE([declared, Types.LONG()]) if name == TIMESTAMPED_ELEMENTS else declared


def type_in_session(schema: Json | None) -> Json | None:
    """What one session holds, of what :data:`SESSIONS` is declared to hold for a key."""
    if schema is None:
        return None
    held: Json = schema["element"]["fields"][2]["type"]
    return None if held["type"] == "pickled" else {"version": schema["version"], **held}


def released(state: KeyedState, own: str) -> Iterator[tuple[Any, Any, Any]]:
    """The windows that other operators hold in this state, which are theirs no longer: key, window, what is in it."""
    for name, contents in _CONTENTS.items():
        table = state.find(name)
        if name == own or table is None or not table.size():
            continue
        if contents != _CONTENTS[own]:
            raise StateError(
                f"The checkpoint of operator {state.owner} holds {contents}; the program now needs {_CONTENTS[own]}."
                " Windows that are open cannot be changed from one to the other: keep the way they are evaluated"
                " (reduce or aggregate; apply or process; an evictor), or give the operator another uid to begin anew."
            )
        for key, window, held in list(_release(state, table)):
            if own in _OF_TIME and not isinstance(window, TimeWindow):
                raise StateError(
                    f"The checkpoint of operator {state.owner} holds the window {window!r}, but the program now has"
                    " windows of time. Keep the kind of windows, or give the operator another uid to begin anew."
                )
            yield key, window, held


def _release(state: KeyedState, table: Any) -> Iterator[tuple[Any, Any, Any]]:
    match table:
        case PaneTable():
            for pane in list(table.panes):
                for key, held in table.drop(pane).items():
                    yield key, window_of(pane), held
        case ValueTable(namespaced=False):  # sessions
            for key, sessions in list(table.entries.items()):
                table.discard(key)
                for start, end, held in sessions:
                    yield key, window_of((start, end)), held
        case ValueTable() | ListTable():
            names = _names(state)
            for (key, place), held in list(table.entries.items()):
                table.discard((key, place)) if isinstance(table, ValueTable) else table.replace((key, place), None)
                yield key, window_of(names.get((key, place), place)), held
    _release_triggers(state)


def _names(state: KeyedState) -> dict[tuple[Any, Any], Any]:
    """Which window has its contents where, of windows that merge."""
    table = state.find(OPEN_WINDOWS)
    if not isinstance(table, MapTable):
        return {}
    named = {(key, place): name for key, windows in table.entries.items() for name, place in windows.items()}
    for key in list(table.entries):
        table.clear_entry(key)
    return named


def _release_triggers(state: KeyedState) -> None:
    """What the trigger of the other operator remembered; who takes the windows over sets timers of its own."""
    for name in state.sizes():
        table = state.find(name)
        if name in (EVENT_TIMERS, PROCESSING_TIMERS) and isinstance(table, TimerTable):
            for timer in table.all_timers():
                table.delete(*timer)
        elif name.startswith(TRIGGER_STATE):
            match table:
                case ValueTable():
                    for entry in list(table.entries):
                        table.discard(entry)
                case ListTable():
                    for entry in list(table.entries):
                        table.replace(entry, None)
                case MapTable():
                    for entry in list(table.entries):
                        table.clear_entry(entry)
