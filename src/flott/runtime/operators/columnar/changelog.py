"""Changelogs of results: which rows an aggregate sends for former and new values. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import Ints
from flott.runtime.operators.columnar.base import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from flott.table._functions.aggregates.accumulation import fixed_dtype, numbers_of


def differ(values: pa.Array, one: Ints, other: Ints) -> Ints:
    """Return whether values at positions differ from those at other positions; nulls are equal."""
    if fixed_dtype(values.type) is not None:
        numbers = numbers_of(values)
        found = numbers.values[one] != numbers.values[other]
        if found.ndim == 2:
            found = found.any(axis=1)
        if numbers.valid is None:
            return found
        left, right = numbers.valid[one], numbers.valid[other]
        return np.where(left & right, found, left != right)
    try:
        codes = values.dictionary_encode().indices
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested types
        held = values.to_pylist()
        return np.array([held[a] != held[b] for a, b in zip(one.tolist(), other.tolist(), strict=True)], np.bool_)
    numbered = np.asarray(codes.fill_null(-1) if codes.null_count else codes)
    return numbered[one] != numbered[other]


class ResultChanges:
    """Turns pairs of former and new results into rows with kinds."""

    def __init__(self, *, update_before: bool, always: bool):
        self._update_before = update_before
        self._always = always  #: send an update even if nothing has changed, to refresh what is kept downstream

    def rows(
        self, results: Sequence[pa.Array], before: Ints, after: Ints, was: Ints, is_there: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return the rows to send: the number of the pair, the position of its results, and the kind.

        ``before`` and ``after`` are positions in ``results``; ``was`` and ``is_there`` say whether a group had, and
        has, a result.
        """
        updated = was & is_there
        if not self._always:
            changed = np.zeros(len(before), np.bool_)
            for values in results:
                changed |= differ(values, before, after)
            updated = updated & changed
        gone = was & ~is_there
        has_old = (updated & self._update_before) | gone
        has_new = updated | (~was & is_there)
        counts = has_old.astype(np.int64) + has_new
        places = np.cumsum(counts) - counts
        old, new = np.flatnonzero(has_old), np.flatnonzero(has_new)
        total = len(old) + len(new)
        at_old, at_new = places[old], places[new] + has_old[new]
        pairs, positions, kinds = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int8)
        pairs[at_old], pairs[at_new] = old, new
        positions[at_old], positions[at_new] = before[old], after[new]
        kinds[at_old] = np.where(gone[old], DELETE, UPDATE_BEFORE)
        kinds[at_new] = np.where(was[new], UPDATE_AFTER, INSERT)
        return pairs, positions, kinds
