"""Which times and intervals make up a session. Task side."""

from __future__ import annotations

import numpy as np

from flott.runtime.operators.columnar.windowing.zones import Longs


def merged_sessions(groups: Longs, starts: Longs, ends: Longs) -> tuple[Longs, Longs, Longs]:
    """Return the session of each interval, and starts and ends of the sessions.

    Intervals of a group that overlap or touch are of one session. Sessions are numbered by group, then by time.
    """
    order = np.lexsort((starts, groups))
    group, start, end = groups[order], starts[order], ends[order]
    # Ends as ranks, so that a running maximum by group is one over all of them: no group's rank exceeds its own band.
    _, ranks = np.unique(end, return_inverse=True)
    band = len(order)
    latest = np.maximum.accumulate(ranks + group * band) if len(order) else ranks
    begins = np.ones(len(order), np.bool_)
    if len(order) > 1:
        values = np.unique(end)
        reached = values[latest[:-1] - group[:-1] * band]
        begins[1:] = (group[1:] != group[:-1]) | (start[1:] > reached)
    sessions = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    found = np.empty(len(order), np.int64)
    found[order] = sessions
    if not len(order):
        return found, np.zeros(0, np.int64), np.zeros(0, np.int64)
    return found, start[firsts], np.maximum.reduceat(end, firsts)
