"""Arrays and maps as numpy sees them: elements in one flat column, with the row of each.

Functions of collections calculate positions in the flat column and take from it, so that elements of any type, also
rows and maps, pass through without becoming Python objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Lists:
    """A column of lists. The elements of row i are those of ``values`` for which ``rows`` is i, in order."""

    values: pa.Array
    lengths: Numbers
    valid: Numbers

    @property
    def rows(self) -> Numbers:
        """Return the row of each element."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def starts(self) -> Numbers:
        """Return where the elements of each row begin."""
        return np.concatenate(([0], np.cumsum(self.lengths)))[:-1].astype(np.int64)

    @property
    def places(self) -> Numbers:
        """Return the position of each element in its row, from 0."""
        places: Numbers = np.arange(len(self.values)) - np.repeat(self.starts, self.lengths)
        return places

    def keep(self, mask: Numbers) -> Lists:
        """Return the lists with some elements only."""
        return self.arranged(np.flatnonzero(mask))

    def arranged(self, order: Numbers) -> Lists:
        """Return the lists with the elements at positions, which stay in their rows and are sorted by row."""
        lengths = np.bincount(self.rows[order], minlength=len(self.lengths))
        return Lists(self.values.take(pa.array(order)), lengths, self.valid)

    def array(self, of: pa.DataType, valid: Numbers | None = None) -> pa.Array:
        """Return the column. ``valid`` says which rows are not NULL."""
        valid = self.valid if valid is None else valid
        lists = self if valid.all() else self._without(valid)
        offsets = np.concatenate(([0], np.cumsum(lists.lengths))).astype(np.int32)
        values = lists.values if lists.values.type == of.value_type else lists.values.cast(of.value_type)
        mask = None if valid.all() else pa.array(~valid)
        return pa.ListArray.from_arrays(pa.array(offsets), values, type=of, mask=mask)

    def _without(self, valid: Numbers) -> Lists:
        kept = np.flatnonzero(valid[self.rows])
        return Lists(self.values.take(pa.array(kept)), np.where(valid, self.lengths, 0), valid)


def lists_of(column: pa.Array) -> Lists:
    """Return a column of lists, or of maps as lists of entries, in the flat form."""
    if pa.types.is_null(column.type):
        return Lists(pa.nulls(0), np.zeros(len(column), np.int64), np.zeros(len(column), bool))
    if pa.types.is_map(column.type):
        entries = pa.struct([pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)])
        keys, items, offsets = column.keys, column.items, column.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        flat = pa.StructArray.from_arrays([keys[first:last], items[first:last]], fields=list(entries))
        lengths = np.diff(offsets.to_numpy())
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        return Lists(flat, lengths, valid)._without(valid)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    return Lists(column.flatten(), lengths, column.is_valid().to_numpy(zero_copy_only=False))


def map_array(lists: Lists, of: pa.DataType, valid: Numbers | None = None) -> pa.Array:
    """Return a column of maps from lists of entries."""
    valid = lists.valid if valid is None else valid
    lists = lists if valid.all() else lists._without(valid)
    offsets = pa.array(np.concatenate(([0], np.cumsum(lists.lengths))).astype(np.int32))
    keys, items = lists.values.field(0), lists.values.field(1)
    mask = None if valid.all() else pa.array(~valid)
    made = pa.MapArray.from_arrays(offsets, keys.cast(of.key_type), items.cast(of.item_type), mask=mask)
    return made.cast(of) if made.type != of else made


def codes_of(*columns: pa.Array) -> list[Numbers]:
    """Return a number for each value of several columns of one type, equal for equal values; NULL is -1."""
    sizes = [len(column) for column in columns]
    whole = pa.concat_arrays([column.cast(columns[0].type) for column in columns])
    if pa.types.is_nested(whole.type):
        numbers: dict[Any, int] = {}
        codes = [
            -1 if value is None else numbers.setdefault(hashable(value), len(numbers)) for value in whole.to_pylist()
        ]
        flat = np.array(codes, dtype=np.int64)
    elif pa.types.is_null(whole.type):
        flat = np.full(len(whole), -1, dtype=np.int64)
    else:
        indices = whole.dictionary_encode().indices
        flat = pc.fill_null(indices.cast(pa.int64()), -1).to_numpy()
    ends = np.cumsum(sizes)
    return [flat[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def hashable(value: Any) -> Any:
    """Return a nested Python value in a form that can be a key; maps are equal whatever the order of entries."""
    if isinstance(value, dict):
        return tuple(hashable(one) for one in value.values())
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            return frozenset((hashable(key), hashable(one)) for key, one in value)
        return tuple(hashable(one) for one in value)
    return value


def joined_codes(rows: Numbers, codes: Numbers) -> Numbers:
    """Return one number for a pair of row and value code."""
    return rows.astype(np.int64) * (int(codes.max(initial=0)) + 2) + codes + 1


def first_of_equal(rows: Numbers, codes: Numbers) -> Numbers:
    """Return a mask of the elements that are the first of their value in their row."""
    mask = np.zeros(len(rows), dtype=bool)
    mask[np.unique(joined_codes(rows, codes), return_index=True)[1]] = True
    return mask
