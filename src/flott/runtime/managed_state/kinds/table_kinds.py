"""All kinds of tables by the name that files call them."""

from __future__ import annotations

from collections.abc import Callable

from flott.errors import StateError
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.tables import ListTable, MapTable, Table, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.kinds.timers import TimerTable

_MAKERS: dict[str, Callable[[bool], Table]] = {
    ValueTable.kind: ValueTable,
    ListTable.kind: ListTable,
    MapTable.kind: MapTable,
    TimerTable.kind: lambda namespaced: TimerTable(),
    PaneTable.kind: lambda namespaced: PaneTable(),
    ListPaneTable.kind: lambda namespaced: ListPaneTable(),
    TimelineTable.kind: lambda namespaced: TimelineTable(),
}

KINDS = frozenset(_MAKERS)


def make_table(kind: str, namespaced: bool = False) -> Table:
    """An empty table of a kind that a file or the program names."""
    if kind not in _MAKERS:
        raise StateError(f"The state file holds a table of kind {kind!r}, which this version of Flott does not know.")
    return _MAKERS[kind](namespaced)
