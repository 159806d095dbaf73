"""Timers of one operator subtask and one time domain: registered per key and namespace, fired in timestamp order.

Timers are state: registrations and deletions are saved like any other change. Timers of the same timestamp fire in the
order of their keys' canonical bytes, so a repeated epoch, or one on a rebuilt copy, fires them in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.kinds.tables import Delta

#: Timestamp, key, namespace.
Timer = tuple[int, Any, Any]

#: So many deleted timers may wait in the queue before it is worth clearing up.
TIDY_ABOVE = 1024


class TimerTable:
    """Timers as ``(timestamp, key, namespace)``. Delta: ``[added, removed]``, each a list of such triples."""

    kind = "timers"
    namespaced = False
    __slots__ = ("_heap", "changed", "live")

    def __init__(self) -> None:
        self.live: dict[Timer, None] = {}
        self.changed: dict[Timer, None] = {}
        #: (timestamp, order token, timer). Deleted timers stay until they come up and are then skipped.
        self._heap: list[tuple[int, bytes, tuple[int, Any, Any]]] = []

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Register a timer; registering it twice is the same as once."""
        timer = (timestamp, key, namespace)
        if timer not in self.live:
            self.live[timer] = None
            self.changed[timer] = None
            self._push(timer)

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Delete a timer, if it is registered."""
        timer = (timestamp, key, namespace)
        if timer in self.live:
            del self.live[timer]
            self.changed[timer] = None

    def pop_due(self, time: int) -> Timer | None:
        """Remove and return the earliest timer that is due at this time, or None."""
        heap = self._heap
        while heap and heap[0][0] <= time:
            timer = heappop(heap)[2]
            if timer in self.live:
                del self.live[timer]
                self.changed[timer] = None
                return timer
        return None

    def is_set(self, timestamp: int, key: Any, namespace: Any = None) -> bool:
        """Whether there is such a timer."""
        return (timestamp, key, namespace) in self.live

    def all_timers(self) -> list[Timer]:
        """Every timer that is set."""
        return list(self.live)

    def next_timestamp(self) -> int | None:
        """The earliest registered timestamp."""
        while self._heap and self._heap[0][2] not in self.live:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for timer in self.changed:
            delta = deltas.setdefault(group_of(timer[1]), [[], []])
            delta[0 if timer in self.live else 1].append(timer)
        self.changed.clear()
        self._tidy()
        return deltas

    def dump(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for timer in self.live:
            deltas.setdefault(group_of(timer[1]), [[], []])[0].append(timer)
        return deltas

    def apply(self, delta: Delta) -> None:
        added, removed = delta
        for timer in removed:
            self.live.pop(timer, None)
        for timer in added:
            if timer not in self.live:
                self.live[timer] = None
                self._push(timer)

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        live: dict[Timer, None] = {}
        gone: dict[Timer, None] = {}
        for added, removed in deltas:
            for timer in removed:
                live.pop(timer, None)
                gone[timer] = None
            for timer in added:
                gone.pop(timer, None)
                live[timer] = None
        return [list(live), list(gone)]

    def empty(self) -> None:
        self.live.clear()
        self.changed.clear()
        self._heap.clear()

    def has_changes(self) -> bool:
        return bool(self.changed)

    def size(self) -> int:
        return len(self.live)

    def _tidy(self) -> None:
        """Drop deleted timers that are far from coming up, once they outnumber the live ones."""
        if len(self._heap) > 2 * len(self.live) + TIDY_ABOVE:
            unique = {timer: (timestamp, token, timer) for timestamp, token, timer in self._heap if timer in self.live}
            self._heap[:] = unique.values()
            heapify(self._heap)

    def _push(self, timer: Timer) -> None:
        heappush(self._heap, (timer[0], order_token(timer), timer))


def order_token(timer: Timer) -> bytes:
    """What decides the order of timers with the same timestamp."""
    _, key, namespace = timer
    return encode_key(key) if namespace is None else encode_key((key, namespace))
