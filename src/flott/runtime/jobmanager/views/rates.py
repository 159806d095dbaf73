"""Rates of the recent past from totals that grow epoch by epoch. Pure; times are given.

A total grows evenly while an epoch runs, as far as anyone knows, and stands still between two. Of many totals together
a few points are kept, a second apart. So a rate over ten seconds is exact but for what the second at the window's far
end held, and nothing is done per epoch but to copy the totals now and then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Totals = Mapping[K, Sequence[float]]

#: How far back a rate looks.
WINDOW_SECONDS = 10.0
#: How far points are apart.
RESOLUTION_SECONDS = 1.0
#: A rate over less than this says nothing.
SHORTEST_SECONDS = 0.1


class RecentGrowth(Generic[K]):
    """How much some totals grew lately. All totals of one instance have the same parts, in the same order."""

    def __init__(self, began: float):
        self._points: deque[tuple[float, dict[K, Sequence[float]]]] = deque([(began, {})])
        self._last = began  #: when the totals grew last

    def about_to_grow(self, began: float, now: float, totals: Totals[K]) -> None:
        """An epoch has completed that began at some time: the totals before it."""
        began = min(max(began, self._last), now)
        if began - self._last >= RESOLUTION_SECONDS:
            self._points.append((self._last, dict(totals)))  # since then they stood still
        if began - self._points[-1][0] >= RESOLUTION_SECONDS:
            self._points.append((began, dict(totals)))
        self._last = now
        while len(self._points) > 1 and self._points[1][0] <= now - WINDOW_SECONDS:
            self._points.popleft()

    def begin(self, key: K, parts: Sequence[float]) -> None:
        """A total that is new, or has other parts now: what it is at present has not grown lately."""
        for _, totals in self._points:
            totals[key] = parts

    def rates(self, now: float, totals: Totals[K]) -> dict[K, list[float]]:
        """The growth of each part of each total per second, over the last ten seconds or as long as there were."""
        since = max(now - WINDOW_SECONDS, self._points[0][0])
        span = max(now - since, SHORTEST_SECONDS)
        if since > self._last or since == self._last > self._points[0][0]:
            return {key: [0.0] * len(parts) for key, parts in totals.items()}
        before, share, after = self._around(since, totals)
        rates: dict[K, list[float]] = {}
        for key, parts in totals.items():
            low = before.get(key)
            high = after.get(key)
            if high is None:  # it came to be later
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
        """The totals at the points before and after a time, and how far it lies between the two: 0 to 1."""
        points: list[tuple[float, Totals[K]]] = [*self._points, (self._last, totals)]
        following = next((i for i, (at, _) in enumerate(points) if at > since), len(points) - 1)
        at, before = points[max(0, following - 1)]
        then, after = points[following]
        return before, (since - at) / (then - at) if then > at else 0.0, after
