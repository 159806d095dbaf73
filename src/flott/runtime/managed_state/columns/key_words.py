"""Key columns as words: what the index hashes and compares. Task side.

Values of up to 64 bits are their own word. Texts and everything else are numbered: equal values have the same number, a
null has -1, and a value that no key has is -2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import Ints, fixed_dtype, to_arrow, to_numpy, validity, whole
from flott.runtime.managed_state.columns.value_columns import ArrowChunks

_NAN: dict[int, Any] = {4: np.int32(0x7FC00000), 8: np.int64(0x7FF8000000000000)}
_NARROW_DECIMAL = 18


def is_word(arrow_type: pa.DataType) -> bool:
    """Return whether a value of the type is a word itself."""
    if pa.types.is_decimal128(arrow_type):
        return bool(arrow_type.precision <= _NARROW_DECIMAL)
    return fixed_dtype(arrow_type) is not None or pa.types.is_null(arrow_type)


def words_of(array: pa.Array) -> Ints:
    """Return values as words; that of a null is zero."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    values = to_numpy(array)
    if pa.types.is_decimal128(array.type):
        words = values[:, 0].copy()
    elif values.dtype.kind == "f":
        size = values.dtype.itemsize
        bits = values.view(f"i{size}")
        words = np.where(np.isnan(values), _NAN[size], bits).astype(np.int64)
    elif values.dtype == np.uint64:
        words = values.view(np.int64).copy()
    else:
        words = values.astype(np.int64)
    if (valid := validity(array)) is not None:
        words[~valid] = 0
    return words


def array_of(words: Ints, valid: Any, arrow_type: pa.DataType) -> pa.Array:
    """Return the values of words."""
    if pa.types.is_null(arrow_type):
        return pa.nulls(len(words))
    if pa.types.is_decimal128(arrow_type):
        return to_arrow(np.stack([words, words >> 63], axis=1), valid, arrow_type)
    dtype = fixed_dtype(arrow_type)
    assert dtype is not None
    if dtype.kind == "f":
        return to_arrow(words.astype(f"i{dtype.itemsize}").view(dtype), valid, arrow_type)
    return to_arrow(words.view(np.uint64) if dtype == np.uint64 else words.astype(dtype), valid, arrow_type)


class Numbering:
    """Numbers of the values of one key column."""

    def __init__(self, arrow_type: pa.DataType):
        self.type = arrow_type
        self._numbers: dict[Any, int] = {}
        self._values = ArrowChunks(arrow_type)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, array: pa.Array, *, add: bool) -> Ints:
        """Return the number of every value; ``add``: new values get one."""
        different, rows = _different(array)
        spelled = _spelled(different)
        known = np.fromiter(map(self._numbers.get, spelled, [-2] * len(spelled)), np.int64, len(spelled))
        if add and (absent := np.flatnonzero(known == -2)).size:
            numbers = self._numbers
            start = len(self._values)
            new: list[int] = []
            for row in absent.tolist():
                if spelled[row] not in numbers:  # values that Arrow tells apart may be spelled alike
                    numbers[spelled[row]] = start + len(new)
                    new.append(row)
                known[row] = numbers[spelled[row]]
            self._values.append(different.take(pa.array(new, pa.int64())))
        found = np.append(known, -1)[rows]
        return found

    def values(self, numbers: Ints) -> pa.Array:
        """Return the values of numbers."""
        return self._values.gather(numbers)

    def keep(self, numbers: Ints) -> tuple[Numbering, Ints]:
        """Return a numbering of only some different numbers, and the new number of every old one."""
        kept = Numbering(self.type)
        mapping = np.full(len(self._values) + 1, -1, np.int64)  # the last is that of a null
        wanted = np.unique(numbers)
        wanted = wanted[wanted >= 0]
        mapping[wanted] = kept.numbers(self.values(wanted), add=True)
        return kept, mapping


def _different(array: pa.Array) -> tuple[pa.Array, Ints]:
    """Return different values, and for every row the position of its own; that of a null is -1."""
    array = whole(array)
    try:
        encoded = array.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested types
        rows = np.arange(len(array), dtype=np.int64)
        if (valid := validity(array)) is not None:
            rows[~valid] = -1
        return array, rows
    codes = encoded.indices
    return encoded.dictionary, np.asarray(codes.fill_null(-1) if codes.null_count else codes).astype(np.int64)


def _spelled(values: pa.Array) -> list[Any]:
    """Return what equal values have in common and a dict can hold."""
    types = pa.types
    if types.is_string(values.type):
        return values.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]
    if types.is_large_string(values.type):
        return values.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
    if types.is_binary(values.type) or types.is_large_binary(values.type) or types.is_fixed_size_binary(values.type):
        return values.to_pylist()  # type: ignore[no-any-return]
    return [None if value is None else repr(value) for value in values.to_pylist()]
