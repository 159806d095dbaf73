"""The bare loops of the workloads in event time, for ``limit``: dicts, the user's functions, nothing else.

Each process runs one range on its own, with the keys it meets, as ``limit`` does for the other workloads. Time only
ascends inside a range, so a window is emitted when the first event after it comes.
"""

from __future__ import annotations

from bench.events import (
    GAP_MS,
    REACH_MS,
    SLIDE_MS,
    SLIDING_MS,
    WINDOW_MS,
    Timeline,
    group_of,
    joined,
    key_of,
    time_of,
    value_of,
)


def create() -> int:
    return 0


def add(event, total: int) -> int:
    return total + value_of(event)


def result(total: int) -> int:
    return total


def tumbling(timeline: Timeline, numbers: list[range], consume) -> None:
    make = timeline.maker()
    start, totals = 0, {}
    for i in numbers[0]:
        event = make(i)
        time = time_of(event)
        if time >= start + WINDOW_MS:
            for total in totals.values():
                consume(result(total))
            start, totals = time - time % WINDOW_MS, {}
        key = key_of(event)
        totals[key] = add(event, totals[key] if key in totals else create())
    for total in totals.values():
        consume(result(total))


def sliding(timeline: Timeline, numbers: list[range], consume) -> None:
    make = timeline.maker()
    windows: dict[int, dict] = {}
    slide_end, starts = 0, []
    for i in numbers[0]:
        event = make(i)
        time = time_of(event)
        if time >= slide_end:
            for start in [start for start in windows if start + SLIDING_MS <= time]:
                for total in windows.pop(start).values():
                    consume(result(total))
            slide_end = time - time % SLIDE_MS + SLIDE_MS
            first = time - time % SLIDE_MS
            starts = [windows.setdefault(start, {}) for start in range(first, time - SLIDING_MS, -SLIDE_MS)]
        key = key_of(event)
        for totals in starts:
            totals[key] = add(event, totals[key] if key in totals else create())
    for totals in windows.values():
        for total in totals.values():
            consume(result(total))


def session(timeline: Timeline, numbers: list[range], consume) -> None:
    make = timeline.maker()
    sessions: dict[int, list] = {}
    for i in numbers[0]:
        event = make(i)
        time, key = time_of(event), key_of(event)
        held = sessions.get(key)
        if held is None:
            sessions[key] = [time, add(event, create())]
        elif time - held[0] > GAP_MS:
            consume(result(held[1]))
            sessions[key] = [time, add(event, create())]
        else:
            held[0] = time
            held[1] = add(event, held[1])
    for held in sessions.values():
        consume(result(held[1]))


def interval(timeline: Timeline, numbers: list[range], consume) -> None:
    make = timeline.maker()
    sides: tuple[dict, dict] = ({}, {})
    for pair in zip(*numbers, strict=True):
        for side, i in enumerate(pair):
            event = make(i)
            time, key = time_of(event), key_of(event)
            own = sides[side].setdefault(key, [])
            own.append(event)
            others = sides[1 - side].get(key)
            if others:
                while others and time_of(others[0]) < time - REACH_MS:
                    others.pop(0)
                for other in others:
                    consume(joined(event, other) if side == 0 else joined(other, event))


def two_stage(timeline: Timeline, numbers: list[range], consume) -> None:
    make = timeline.maker()
    state: dict[int, int] = {}
    start, totals = 0, {}
    for i in numbers[0]:
        event = make(i)
        key = key_of(event)
        state[key] = state.get(key, 0) + value_of(event)
        time = time_of(event)
        if time >= start + WINDOW_MS:
            for total in totals.values():
                consume(result(total))
            start, totals = time - time % WINDOW_MS, {}
        group = group_of(event)
        totals[group] = add(event, totals[group] if group in totals else create())
    for total in totals.values():
        consume(result(total))


LOOPS = {
    "tumbling": tumbling,
    "sliding": sliding,
    "session": session,
    "interval": interval,
    "two_stage": two_stage,
}
