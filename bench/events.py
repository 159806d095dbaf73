"""Workloads in event time: the user's side, shared by all engines, and the results they must reach.

Standard library only. An event is ``(key, value, time)``. Numbers are read in as many ranges as there are cores, all of
which begin at time 0 and run side by side, so that event time advances evenly, as it does in a live stream.

    tumbling     sum per key and second                       one result per key and window, about 10 events each
    sliding      sum per key, 10 s windows every second       every event is in ten windows
    session      sum per key and session, gap 500 ms          keys are busy for a second, then silent for nine
    interval     pairs of two streams of the same key, at most 100 ms apart
    two_stage    running sum per key kept in state, then a sum per second over 100 groups of keys
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench.workloads import KEYS

WORKLOADS = ("tumbling", "sliding", "session", "interval", "two_stage")

WINDOW_MS = 1_000
SLIDE_MS = 1_000
SLIDING_MS = 10_000
GAP_MS = 500
REACH_MS = 100
GROUPS = 100
BUSY_KEYS = 1_000
#: How many events of one range share a millisecond.
DENSE = 50
CHECK_RECORDS = 8_000
CHECK_DENSITY = 1

Event = tuple[int, int, int]


@dataclass(frozen=True)
class Timeline:
    """How the numbers from 0 to ``records`` become the events of a workload."""

    workload: str
    records: int
    ranges: int  #: of each stream
    density: int = DENSE

    @staticmethod
    def of(workload: str, records: int, ranges: int, density: int = DENSE) -> Timeline:
        """About so many records: as many as fill all ranges alike."""
        whole = ranges * (2 if workload == "interval" else 1)
        return Timeline(workload, max(1, records // whole) * whole, ranges, density)

    @property
    def streams(self) -> list[range]:
        """The numbers of each stream."""
        if self.workload == "interval":
            return [range(self.records // 2), range(self.records // 2, self.records)]
        return [range(self.records)]

    def maker(self) -> Callable[[int], Event]:
        """Number -> event. A function made here, so that it costs one call and no attribute."""
        span, density, second = len(self.streams[0]) // self.ranges, self.density, self.density * 1_000

        def event(i: int) -> Event:
            return (i * 7919) % KEYS, i & 1023, i % span // density

        def burst(i: int) -> Event:
            at = i % span
            return (i * 7919) % BUSY_KEYS + at // second % 10 * BUSY_KEYS, i & 1023, at // density

        return burst if self.workload == "session" else event


def key_of(event: Event) -> int:
    return event[0]


def time_of(event: Event) -> int:
    return event[2]


def value_of(event: Event) -> int:
    return event[1]


def group_of(event: Event) -> int:
    return event[0] % GROUPS


def joined(left: Event, right: Event) -> Event:
    return left[0], left[1] + right[1], max(left[2], right[2])


def expected(timeline: Timeline) -> object:
    """The digest of the reference results, computed the slow way from everything at once."""
    make = timeline.maker()
    left, *right = [[make(i) for i in numbers] for numbers in timeline.streams]
    match timeline.workload:
        case "tumbling":
            return digest(_sums(left, WINDOW_MS, WINDOW_MS))
        case "sliding":
            return digest(_sums(left, SLIDING_MS, SLIDE_MS))
        case "session":
            return digest(_sessions(left))
        case "interval":
            return digest(pairs(left, right[0]))
    return digest(_sums([(group_of(event), event[1], event[2]) for event in left], WINDOW_MS, WINDOW_MS))


def digest(results: Iterable[object]) -> Counter:
    """Results in any order."""
    return Counter(tuple(result) if isinstance(result, (tuple, list)) else result for result in results)


def _sums(events: list[Event], size: int, slide: int) -> Iterator[int]:
    totals: Counter = Counter()
    for key, value, time in events:
        for start in range(time - time % slide, time - size, -slide):
            totals[key, start] += value
    return iter(totals.values())


def _sessions(events: list[Event]) -> Iterator[int]:
    by_key: dict[int, list[Event]] = {}
    for event in events:
        by_key.setdefault(event[0], []).append(event)
    for held in by_key.values():
        held.sort(key=time_of)
        total, last = 0, held[0][2]
        for _, value, time in held:
            if time - last > GAP_MS:
                yield total
                total = 0
            total, last = total + value, time
        yield total


def pairs(lefts: list[Event], rights: list[Event]) -> Iterator[Event]:
    by_key: dict[int, list[Event]] = {}
    for right in rights:
        by_key.setdefault(right[0], []).append(right)
    for left in lefts:
        near = (right for right in by_key.get(left[0], ()) if abs(right[2] - left[2]) <= REACH_MS)
        yield from (joined(left, right) for right in near)
