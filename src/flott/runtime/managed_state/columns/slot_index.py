"""Keys to slots: open addressing in numpy arrays, a batch of keys at a time. Task side.

A key is one or more *words* of 64 bits and a word of null flags. The index compares whole keys; equal hashes are only
where it looks. The hash of a single word can be inverted, so there equal hashes are equal keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import Flags, Ints

_EMPTY = -1
_GONE = -2  #: a key was here: go on looking
_FIRST_PLACES = 64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_NULLS = np.uint64(0x94D049BB133111EB)
_SHIFT = np.uint64(32)


def mixed(words: Ints) -> Ints:
    """Return a hash of every word; different words have different hashes."""
    found = words.view(np.uint64) * _GOLDEN
    found ^= found >> _SHIFT
    found *= _MIX
    found ^= found >> _SHIFT
    return found


def hashed(words: list[Ints], nulls: Ints | None, length: int) -> Ints:
    """Return a hash of every key."""
    if not words:
        found = np.zeros(length, np.uint64)
    else:
        found = mixed(words[0])
        for word in words[1:]:
            found = mixed((found * _NULLS) ^ word.view(np.uint64))
    return found if nulls is None else found ^ (nulls * _NULLS)


def first_positions(words: list[Ints], nulls: Ints | None, length: int) -> tuple[Ints, Ints]:
    """Return the position of the first row of every different key, and for every row the number of its key."""
    parts = words if nulls is None else [*words, nulls.view(np.int64)]
    if not parts:
        return np.zeros(min(length, 1), np.int64), np.zeros(length, np.int64)
    codes = _coded(parts[0])
    for part in parts[1:]:
        more = _coded(part)
        codes = _coded(codes.astype(np.int64) * (int(more.max(initial=0)) + 1) + more)
    count = int(codes.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(length - 1, -1, -1)
    return first, codes


def _coded(values: Ints) -> Ints:
    """Return small numbers for different values, in the order in which they come first."""
    return np.asarray(pa.array(values).dictionary_encode().indices)


class SlotIndex:
    """The slots of keys. Slots of keys that were removed are given to new ones."""

    def __init__(self, width: int):
        self.width = width  #: how many words a key has
        self.count = 0  #: of keys
        self.limit = 0  #: all slots are below
        self._words = [np.zeros(_FIRST_PLACES, np.int64) for _ in range(width)]  #: by slot
        self._nulls: Ints | None = None  #: flags by slot, as soon as a key with a null has come
        self._hashes = np.zeros(_FIRST_PLACES, np.uint64)  #: by place
        self._slots = np.full(_FIRST_PLACES, _EMPTY, np.int32)  #: by place
        self._used = 0  #: places that are not empty
        self.alive = np.zeros(_FIRST_PLACES, np.bool_)  #: by slot
        self._free: list[Ints] = []

    # --- looking up --------------------------------------------------------------------------------------------------

    def find(self, words: list[Ints], nulls: Ints | None, length: int) -> Ints:
        """Return the slot of every key; -1 where there is none."""
        return self._find(words, nulls, hashed(words, nulls, length))

    def _find(self, words: list[Ints], nulls: Ints | None, hashes: Ints) -> Ints:
        mask = np.int64(len(self._slots) - 1)
        place = hashes.view(np.int64) & mask
        found = self._slots[place].astype(np.int64)
        open_rows = np.flatnonzero((found != _EMPTY) & ~self._hits(found, place, hashes, words, nulls, None))
        while len(open_rows):
            place_left = (place[open_rows] + 1) & mask
            place[open_rows] = place_left
            slots = self._slots[place_left].astype(np.int64)
            found[open_rows] = slots
            hits = self._hits(slots, place_left, hashes[open_rows], words, nulls, open_rows)
            open_rows = open_rows[(slots != _EMPTY) & ~hits]
        return found

    def _hits(
        self, slots: Ints, place: Ints, hashes: Ints, words: list[Ints], nulls: Ints | None, rows: Ints | None
    ) -> Flags:
        """Return whether the keys at places are those that are looked for."""
        hits: Flags = (self._hashes[place] == hashes) & (slots >= 0)
        if self.width == 1 and nulls is None and self._nulls is None:
            return hits
        at = np.flatnonzero(hits)
        if not len(at):
            return hits
        asked = at if rows is None else rows[at]
        same = np.ones(len(at), np.bool_)
        for held, word in zip(self._words, words, strict=True):
            same &= held[slots[at]] == word[asked]
        if self._nulls is not None:
            same &= self._nulls[slots[at]] == (np.uint64(0) if nulls is None else nulls[asked])
        elif nulls is not None:
            same &= nulls[asked] == np.uint64(0)
        hits[at] = same
        return hits

    # --- adding ------------------------------------------------------------------------------------------------------

    def find_or_add(self, words: list[Ints], nulls: Ints | None, length: int) -> tuple[Ints, Flags, Ints]:
        """Return the slot of every key, whether it was absent before, and the slots that were given to absent keys."""
        hashes = hashed(words, nulls, length)
        found = self._find(words, nulls, hashes)
        absent = found < 0
        if not absent.any():
            return found, absent, np.zeros(0, np.int64)
        rows = np.flatnonzero(absent)
        missing = [word[rows] for word in words]
        missing_nulls = None if nulls is None else nulls[rows]
        if missing_nulls is not None and not missing_nulls.any():
            missing_nulls = None
        first, numbers = first_positions(missing, missing_nulls, len(rows))
        slots = self._take_slots(len(first))
        for held, word in zip(self._words, missing, strict=True):
            held[slots] = word[first]
        if missing_nulls is not None and self._nulls is None:
            self._nulls = np.zeros(len(self.alive), np.uint64)
        if self._nulls is not None:
            self._nulls[slots] = np.uint64(0) if missing_nulls is None else missing_nulls[first]
        self.alive[slots] = True
        self.count += len(slots)
        if 2 * (self._used + len(slots)) > len(self._slots):
            self._rebuild()
        else:
            self._used += len(slots)
            self._insert(hashes[rows[first]], slots)
        found[rows] = slots[numbers]
        return found, absent, slots

    def _take_slots(self, count: int) -> Ints:
        taken: list[Ints] = []
        needed = count
        while needed and self._free:
            free = self._free.pop()
            if len(free) > needed:
                self._free.append(free[needed:])
                free = free[:needed]
            taken.append(free)
            needed -= len(free)
        if needed:
            taken.append(np.arange(self.limit, self.limit + needed, dtype=np.int64))
            self.limit += needed
            if self.limit > len(self.alive):
                room = max(2 * len(self.alive), self.limit)
                self._words = [grown(word, room) for word in self._words]
                self.alive = grown(self.alive, room)
                self._nulls = None if self._nulls is None else grown(self._nulls, room)
        return taken[0] if len(taken) == 1 else np.concatenate(taken)

    def _rebuild(self) -> None:
        """Make places again, more than half of them empty: this also forgets where removed keys were."""
        places = _FIRST_PLACES
        while 5 * self.count > 2 * places:  # at most two fifths are taken at first
            places *= 2
        self._hashes = np.zeros(places, np.uint64)
        self._slots = np.full(places, _EMPTY, np.int32)
        self._used = self.count
        held = np.flatnonzero(self.alive[: self.limit])
        nulls = None if self._nulls is None else self._nulls[held]
        self._insert(hashed([word[held] for word in self._words], nulls, len(held)), held)

    def _insert(self, hashes: Ints, slots: Ints) -> None:
        """Put absent keys to places; those that are there already stay at theirs."""
        mask = np.int64(len(self._slots) - 1)
        place = hashes.view(np.int64) & mask
        while len(place):
            held = self._slots[place]
            free = held == _EMPTY
            at = place[free]
            self._slots[at] = slots[free]  # several may want one place: one of them gets it, the others go on
            won = self._slots[place] == slots
            self._hashes[place[won]] = hashes[won]
            lost = ~won
            hashes, slots = hashes[lost], slots[lost]
            place = (place[lost] + 1) & mask

    # --- removing ----------------------------------------------------------------------------------------------------

    def remove(self, slots: Ints) -> None:
        """Remove the keys of different slots, all of which have one."""
        nulls = None if self._nulls is None else self._nulls[slots]
        hashes = hashed([word[slots] for word in self._words], nulls, len(slots))
        mask = np.int64(len(self._slots) - 1)
        place = hashes.view(np.int64) & mask
        left = slots
        while len(place):
            there = self._slots[place] == left
            self._slots[place[there]] = _GONE
            left = left[~there]
            place = (place[~there] + 1) & mask
        self.alive[slots] = False
        self.count -= len(slots)
        self._free.append(slots.astype(np.int64))

    # --- reading -----------------------------------------------------------------------------------------------------

    def words(self, column: int, slots: Ints) -> Ints:
        """Return a word of the keys of slots."""
        return self._words[column][slots]

    def nulls(self, slots: Ints) -> Ints | None:
        """Return the null flags of the keys of slots; None if no key has a null."""
        return None if self._nulls is None else self._nulls[slots]

    def all_slots(self) -> Ints:
        """Return all slots that have a key, ascending."""
        return np.flatnonzero(self.alive[: self.limit])

    def replace_words(self, column: int, words: Ints) -> None:
        """Give the keys other words in a column, by slot up to the limit, and build the index again."""
        self._words[column][: len(words)] = words
        self._rebuild()


def grown(array: Any, room: int) -> Any:
    """Return an array with room for more rows, which are zero."""
    found = np.zeros((room, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
