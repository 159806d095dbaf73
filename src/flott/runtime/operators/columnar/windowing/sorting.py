"""The order of rows by SQL's sort keys, as positions. Task side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._plan.logical import SortKey


def order_ranks(column: pa.Array, key: SortKey) -> Longs:
    """Return numbers that sort as the values of a column do: equal values have equal numbers."""
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    ranks = np.empty(len(values), np.int64)
    ranks[pc.array_sort_indices(values).to_numpy()] = np.arange(len(values))
    if key.descending:
        ranks = -ranks
    places = encoded.indices
    if not column.null_count:
        found: Longs = ranks[places.to_numpy(zero_copy_only=False)]
        return found
    edge = len(values) + 1
    null = edge if key.nulls_last else -edge
    missing = ~column.is_valid().to_numpy(zero_copy_only=False)
    at = places.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(missing, null, ranks[at] if len(values) else null)


def sorted_places(
    keys: Sequence[SortKey], columns: Sequence[pa.Array], length: int, *, first: Sequence[Longs] = ()
) -> Longs:
    """Return positions in order: by ``first``, then by sort keys, then as they are."""
    numbers = [*first, *(order_ranks(columns[key.column], key) for key in keys)]
    if not numbers:
        return np.arange(length)
    return np.lexsort(tuple(reversed(numbers)))
