"""Events that the watermark has not reached, in state, sorted by time. Task side."""

from __future__ import annotations

from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.sorted_multimap import SORTED_MULTIMAPS, SortedMultimapTable
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.operators.cep.arrivals import Arrival, Arrivals, Collected

#: By key and timestamp.
WAITING = "_pattern-waiting"


class WaitingEvents:
    """The events of all keys that are not due yet. Operators remember how many a key has."""

    def __init__(self, state: KeyedState, arrivals: Arrivals, record_type: TypeInformation | None):
        self._table: SortedMultimapTable = state.table(SORTED_MULTIMAPS, WAITING)
        self._arrivals = arrivals
        state.schemas.declare((WAITING,), StateTypes(record_type, own="events that wait for the watermark"))

    def due(
        self, key: Any, arrivals: list[Arrival], count: int, time: int, collected: Collected
    ) -> tuple[list[Arrival], int]:
        """Return the events that are due, in order, and how many of the key wait. The others are put into state."""
        ordered = collected.in_order
        if count:
            stop = None if time == MAX_WATERMARK else time + 1
            waited = list(self._table.scan(key, None, stop))
            if waited:
                self._table.remove_range(key, None, stop)
                count -= len(waited)
                arrivals, ordered = waited + arrivals, False
        if collected.latest > time:
            early = [arrival for arrival in arrivals if arrival[0] > time]
            if early:
                for timestamp, value in early:
                    self._table.add(key, timestamp, value)
                count += len(early)
                arrivals = [arrival for arrival in arrivals if arrival[0] <= time]
        if len(arrivals) > 1:
            arrivals = self._arrivals.in_order(arrivals, ordered)
        return arrivals, count

    def earliest(self, key: Any) -> int:
        """Return the time of the first event of a key that waits."""
        return next(self._table.scan(key))[0]  # type: ignore[no-any-return]
