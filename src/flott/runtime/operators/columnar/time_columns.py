"""Time attributes as milliseconds. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.key_codes import Ints

#: The time of a null, earlier than all others.
EARLIEST = np.iinfo(np.int64).min


def milliseconds(column: pa.Array) -> Ints:
    """Return times as milliseconds; that of a null is the earliest one."""
    if pa.types.is_timestamp(column.type) and column.type.unit != "ms":
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    numbers = column.cast(pa.int64())
    if numbers.null_count:
        numbers = numbers.fill_null(EARLIEST)
    return np.asarray(numbers)


class TimeIndex:
    """Rows by the number of their key and their time, to find ranges of times by bisection."""

    def __init__(self, codes: Ints, times: Ints):
        self.order = np.lexsort((np.arange(len(codes)), times, codes))
        self._different = np.unique(times)
        self._width = np.int64(len(self._different) + 1)
        ranks = np.searchsorted(self._different, times)
        self._keys = (codes * self._width + ranks)[self.order]

    def first_not_before(self, codes: Ints, times: Ints) -> Ints:
        """Return, in the order of the index, where the rows of a key begin that are not before a time."""
        return np.searchsorted(self._keys, codes * self._width + np.searchsorted(self._different, times, "left"))

    def first_after(self, codes: Ints, times: Ints) -> Ints:
        """Return, in the order of the index, where the rows of a key begin that are after a time."""
        return np.searchsorted(self._keys, codes * self._width + np.searchsorted(self._different, times, "right"))

    def first_of(self, codes: Ints) -> Ints:
        """Return, in the order of the index, where the rows of a key begin."""
        return np.searchsorted(self._keys, codes * self._width)
