"""Computes rates of the recent past from totals that grow epoch by epoch. Pure; times are parameters.

A total is assumed to grow evenly while an epoch runs, and not to grow between two. Snapshots of all totals are kept, a
second apart. So a rate over ten seconds is exact except for the first second of the window, and an epoch costs no more
than copying the totals now and then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Totals = Mapping[K, Sequence[float]]

#: The length of the window.
WINDOW_SECONDS = 10.0
#: The interval between two snapshots.
RESOLUTION_SECONDS = 1.0
#: Rates over less than this are not computed.
SHORTEST_SECONDS = 0.1


class RecentGrowth(Generic[K]):
    """The recent growth of totals. Each total is a sequence of parts, whose order does not change."""

    def __init__(self, began: float):
        self._points: deque[tuple[float, dict[K, Sequence[float]]]] = deque([(began, {})])
        self._last = began  #: when the totals last grew

    def about_to_grow(self, began: float, now: float, totals: Totals[K]) -> None:
        """Take the totals before a completed epoch is added to them."""
        began = min(max(began, self._last), now)
        if began - self._last >= RESOLUTION_SECONDS:
            self._points.append((self._last, dict(totals)))  # they have not grown since
        if began - self._points[-1][0] >= RESOLUTION_SECONDS:
            self._points.append((began, dict(totals)))
        self._last = now
        while len(self._points) > 1 and self._points[1][0] <= now - WINDOW_SECONDS:
            self._points.popleft()

    def begin(self, key: K, parts: Sequence[float]) -> None:
        """Add a total that is new or has other parts now. Its present value does not count as growth."""
        for _, totals in self._points:
            totals[key] = parts

    def rates(self, now: float, totals: Totals[K]) -> dict[K, list[float]]:
        """Return the growth of each part of each total per second, over the last ten seconds or since the start."""
        since = max(now - WINDOW_SECONDS, self._points[0][0])
        span = max(now - since, SHORTEST_SECONDS)
        if since > self._last or since == self._last > self._points[0][0]:
            return {key: [0.0] * len(parts) for key, parts in totals.items()}
        before, share, after = self._around(since, totals)
        rates: dict[K, list[float]] = {}
        for key, parts in totals.items():
            low = before.get(key)
            high = after.get(key)
            if high is None:  # it was added later
                rates[key] = [part / span for part in parts]
            elif low is None:
                rates[key] = [(part - top * share) / span for part, top in zip(parts, high, strict=True)]
            else:
                rates[key] = [
                    (part - bottom - (top - bottom) * share) / span
                    for part, bottom, top in zip(parts, low, high, strict=True)
                ]
        return rates

    def _around(self, since: float, totals: Totals[K]) -> tuple[Totals[K], float, Totals[K]]:
        """Return the snapshots before and after a time, and the position of the time between them, from 0 to 1."""
        points: list[tuple[float, Totals[K]]] = [*self._points, (self._last, totals)]
        following = next((i for i, (at, _) in enumerate(points) if at > since), len(points) - 1)
        at, before = points[max(0, following - 1)]
        then, after = points[following]
        return before, (since - at) / (then - at) if then > at else 0.0, after
