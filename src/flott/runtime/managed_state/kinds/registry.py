"""All kinds of state, by the name that files call them. A new kind is one module and one line here."""

from __future__ import annotations

from typing import Any

from flott.errors import StateError
from flott.runtime.managed_state.kinds.accumulators import ACCUMULATORS
from flott.runtime.managed_state.kinds.column_table_kind import COLUMN_TABLES
from flott.runtime.managed_state.kinds.lists import LISTS
from flott.runtime.managed_state.kinds.maps import MAPS
from flott.runtime.managed_state.kinds.panes import LIST_PANES, PANES
from flott.runtime.managed_state.kinds.sorted_multimap import SORTED_MULTIMAPS
from flott.runtime.managed_state.kinds.table_kind import Table, TableKind
from flott.runtime.managed_state.kinds.timelines import TIMELINES
from flott.runtime.managed_state.kinds.timers import TIMERS
from flott.runtime.managed_state.kinds.values import VALUES

KINDS: dict[str, TableKind[Any, Any]] = {
    VALUES.name: VALUES,
    LISTS.name: LISTS,
    MAPS.name: MAPS,
    TIMERS.name: TIMERS,
    PANES.name: PANES,
    LIST_PANES.name: LIST_PANES,
    TIMELINES.name: TIMELINES,
    SORTED_MULTIMAPS.name: SORTED_MULTIMAPS,
    ACCUMULATORS.name: ACCUMULATORS,
    COLUMN_TABLES.name: COLUMN_TABLES,
}


def kind_of(name: str) -> TableKind[Any, Any]:
    """Return the kind that a file or a table names."""
    if name not in KINDS:
        raise StateError(f"The state file holds a table of kind {name!r}, which this version of Flott does not know.")
    return KINDS[name]


def make_table(kind: str, namespaced: bool = False) -> Table:
    """Return an empty table in memory, of a kind that a file or the program names."""
    table: Table = kind_of(kind).make(namespaced)
    return table
