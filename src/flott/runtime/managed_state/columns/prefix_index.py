"""Slots by the first columns of their keys: which rows belong to a key of an operator. Task side.

Runs of slots, each sorted by the hash of the prefix. New slots are a new run, and runs of similar size are merged, so
there are few of them and a slot is seldom moved. A slot that was given to another key is told by its *entry number*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flott.runtime.managed_state.columns.fixed_width import Ints
from flott.runtime.managed_state.columns.slot_index import SlotIndex, grown, hashed


class _Run(NamedTuple):
    hashes: Ints
    slots: Ints
    entries: Ints


class PrefixIndex:
    """The slots whose first ``width`` words are equal."""

    def __init__(self, index: SlotIndex, width: int):
        self._index = index
        self.width = width
        self._entries = np.zeros(max(index.limit, 64), np.int64)  #: by slot
        self._next = 1
        self._runs: list[_Run] = []
        self.add(index.all_slots())

    def add(self, slots: Ints) -> None:
        """Add slots that got a key."""
        if not len(slots):
            return
        highest = int(slots.max()) + 1
        if highest > len(self._entries):
            self._entries = grown(self._entries, max(highest, 2 * len(self._entries)))
        numbers = np.arange(self._next, self._next + len(slots), dtype=np.int64)
        self._next += len(slots)
        self._entries[slots] = numbers
        words = [self._index.words(column, slots) for column in range(self.width)]
        self._runs.append(_sorted(_Run(hashed(words, self._flags(slots), len(slots)), slots, numbers)))
        while len(self._runs) > 1 and 2 * len(self._runs[-1].slots) >= len(self._runs[-2].slots):
            self._merge()

    def remove(self, slots: Ints) -> None:
        """Remove slots whose key was removed."""
        self._entries[slots] = 0

    def _flags(self, slots: Ints) -> Ints | None:
        nulls = self._index.nulls(slots)
        if nulls is None:
            return None
        return nulls & np.uint64((1 << self.width) - 1)

    def _merge(self) -> None:
        last, before = self._runs.pop(), self._runs.pop()
        united = _Run(*(np.concatenate(pair) for pair in zip(before, last, strict=True)))
        living = np.flatnonzero(self._entries[united.slots] == united.entries)
        if len(living) < len(united.slots):
            united = _Run(*(part[living] for part in united))
        if len(united.slots):
            self._runs.append(_sorted(united))

    def matching(self, words: list[Ints], nulls: Ints | None, length: int) -> tuple[Ints, Ints]:
        """Return pairs of a row and a slot that have the same prefix, by row and then as the slots were added."""
        hashes = hashed(words, nulls, length)
        order = np.argsort(hashes)
        asked = hashes[order]
        found_rows, found_slots, found_entries = [], [], []
        for run in self._runs:
            start = np.searchsorted(run.hashes, asked, "left")
            counts = np.searchsorted(run.hashes, asked, "right") - start
            total = int(counts.sum())
            if not total:
                continue
            rows = np.repeat(order, counts)
            within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            at = np.repeat(start, counts) + within
            slots, entries = run.slots[at], run.entries[at]
            same = self._entries[slots] == entries
            for column, word in enumerate(words):
                same &= self._index.words(column, slots) == word[rows]
            held = self._flags(slots)
            if held is not None or nulls is not None:
                zero = np.uint64(0)
                same &= (zero if held is None else held) == (zero if nulls is None else nulls[rows])
            chosen = np.flatnonzero(same)
            found_rows.append(rows[chosen])
            found_slots.append(slots[chosen])
            found_entries.append(entries[chosen])
        if not found_rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows, slots = np.concatenate(found_rows), np.concatenate(found_slots)
        by_row = np.lexsort((np.concatenate(found_entries), rows))
        return rows[by_row], slots[by_row]


def _sorted(run: _Run) -> _Run:
    order = np.argsort(run.hashes, kind="stable")
    return _Run(*(part[order] for part in run))
