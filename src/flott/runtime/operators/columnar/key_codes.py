"""Small numbers for equal rows, and arithmetic by group: what operators share that compare rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[Any]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def codes_of(columns: Sequence[pa.Array], length: int) -> tuple[Ints, Ints]:
    """Return for every row the number of its values, and for every number the position of its first row.

    Equal rows have equal numbers, and nulls equal each other. Numbers are given in the order in which rows come.
    """
    if not columns:
        return np.zeros(length, np.int64), np.zeros(min(length, 1), np.int64)
    codes = _encoded(columns[0])
    for column in columns[1:]:
        more = _encoded(column)
        codes = _numbered(codes * (int(more.max(initial=0)) + 1) + more)
    count = int(codes.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(length - 1, -1, -1)
    return codes, first


def _numbered(values: Ints) -> Ints:
    return np.asarray(pa.array(values).dictionary_encode().indices).astype(np.int64)


def _encoded(column: pa.Array) -> Ints:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested types have no dictionary
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(repr(value), len(numbers)) for value in column.to_pylist()]
        return np.array(found, np.int64)
    return np.asarray(encoded.indices).astype(np.int64)


def same_rows(left: Sequence[pa.Array], right: Sequence[pa.Array], length: int) -> Flags:
    """Return which rows of two lists of columns are equal; nulls equal each other."""
    same = np.ones(length, np.bool_)
    for one, other in zip(left, right, strict=True):
        if not same.any():
            break
        codes = _encoded(pa.concat_arrays([one, other]))
        same &= codes[:length] == codes[length:]
    return same


def any_null(columns: Sequence[pa.Array], length: int) -> Flags | None:
    """Return which rows have a null in any of the columns; None if there is no such row."""
    found: Flags | None = None
    for column in columns:
        if column.null_count:
            nulls = np.asarray(column.is_null())
            found = nulls if found is None else found | nulls
    return found


def by_group(groups: Ints) -> tuple[Ints, Flags]:
    """Return positions sorted by group, rows of a group as they came, and which of these begin a group."""
    order = np.argsort(groups, kind="stable")
    return order, begins(groups[order])


def begins(sorted_groups: Ints) -> Flags:
    """Return where a new group begins."""
    starts = np.ones(len(sorted_groups), np.bool_)
    if len(sorted_groups):
        starts[1:] = sorted_groups[1:] != sorted_groups[:-1]
    return starts


def ends(starts: Flags) -> Flags:
    """Return where a group ends, given where groups begin."""
    last = np.ones(len(starts), np.bool_)
    if len(starts):
        last[:-1] = starts[1:]
    return last


def running_sum(values: Ints, starts: Flags) -> Ints:
    """Return sums from the beginning of each group up to and with each row."""
    sums = np.cumsum(values)
    first = np.flatnonzero(starts)
    before = (sums - values)[first]
    return np.asarray(sums - before[np.cumsum(starts) - 1]) if len(first) else sums


def ordinals(starts: Flags) -> Ints:
    """Return the position of each row within its group, from 0."""
    positions = np.arange(len(starts))
    return positions - np.maximum.accumulate(np.where(starts, positions, 0)) if len(starts) else positions


def ranges(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers of ranges, one range behind the other."""
    total = int(counts.sum())
    return np.asarray(np.arange(total) + np.repeat(starts - (np.cumsum(counts) - counts), counts))


def portions(sizes: Ints, limit: int) -> list[tuple[int, int]]:
    """Cut rows so that the sizes in each portion add up to the limit at most, unless one row alone has more."""
    if not len(sizes):
        return []
    totals = np.cumsum(sizes)
    if totals[-1] <= limit:
        return [(0, len(sizes))]
    found, start, done = [], 0, 0
    while start < len(sizes):
        stop = max(int(np.searchsorted(totals, done + limit, "right")), start + 1)
        found.append((start, stop))
        done, start = int(totals[stop - 1]), stop
    return found


def indices(rows: Ints) -> pa.Array:
    """Return positions for ``take``: a negative one gives a null."""
    absent = rows < 0
    return pa.array(rows, mask=absent) if absent.any() else pa.array(rows)
