"""Aggregates of bitmaps: sets of 32-bit integers that many rows make up together.

An accumulator counts the rows, and the rows that have each member. So a row can be taken away again: a member of all
rows is in the intersection, one of any row in the union, one of an odd number of rows in the symmetric difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flott.table._functions.aggregates.objects import ObjectFunction
from flott.table._functions.roaring import bitmap, members

#: Given how many of so many rows have a member: whether the result has it.
Chooses = Callable[[int, int], bool]


class CountedMembers(ObjectFunction):
    """The members of the sets of all rows. ``sets``: a row is a set; otherwise it is one member."""

    def __init__(self, chooses: Chooses, *, sets: bool, cardinality: bool):
        self._chooses, self._sets, self._cardinality = chooses, sets, cardinality

    def create(self) -> list[Any]:
        return [0, {}]

    def accumulate(self, held: Any, *values: Any) -> None:
        self._add(held, values[0], 1)

    def retract(self, held: Any, *values: Any) -> None:
        self._add(held, values[0], -1)

    def _add(self, held: list[Any], value: Any, times: int) -> None:
        if value is None:
            return
        held[0] += times
        for member in members(value).tolist() if self._sets else (value % (1 << 32),):
            self._count(held[1], member, times)

    @staticmethod
    def _count(counts: dict[int, int], member: int, times: int) -> None:
        count = counts.get(member, 0) + times
        if count:
            counts[member] = count
        else:
            counts.pop(member, None)

    def merge(self, held: Any, others: list[Any]) -> None:
        for rows, counts in others:
            held[0] += rows
            for member, times in counts.items():
                self._count(held[1], member, times)

    def value(self, held: Any) -> Any:
        rows, counts = held
        if not rows:
            return None
        found = [member for member, count in counts.items() if self._chooses(count, rows)]
        return len(found) if self._cardinality else bitmap(np.array(sorted(found), np.uint32))


def in_any(count: int, rows: int) -> bool:
    """Return whether a member of some rows is in their union."""
    return count > 0


def in_all(count: int, rows: int) -> bool:
    """Return whether a member of some rows is in their intersection."""
    return count == rows


def in_odd(count: int, rows: int) -> bool:
    """Return whether a member of some rows is in their symmetric difference."""
    return count % 2 == 1
