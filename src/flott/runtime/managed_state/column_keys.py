"""Key groups of whole columns: the numbers that :func:`~key_groups.key_group_of` gives, computed for a batch at once.

The checksum of a key runs over its canonical bytes. That of numbers is computed by numpy, byte by byte for all rows at
once. Of other types each different value is encoded once, and its checksum is combined with that of the key columns
before it: a checksum is linear, so it can be moved over the bytes that follow by a table lookup.

A NaN, which is no key of a stream, has the key group of a null: SQL groups by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from flott.common._frozen import frozen
from flott.graph.column_key import ColumnKey as ColumnKey
from flott.runtime.managed_state.columns.fixed_width import Ints, to_numpy, validity, whole
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.key_groups import group_of_bytes

_ONES = np.uint32(0xFFFFFFFF)
_BYTE = np.uint32(0xFF)
_EIGHT = np.uint32(8)


def key_groups(columns: Sequence[Any], max_parallelism: int, length: int | None = None) -> Ints:
    """Return the key group of every row, as int32. ``length`` is needed if there are no columns.

    >>> from flott.runtime.managed_state.key_groups import key_group_of
    >>> key_groups([pa.array(["alice", None])], 128).tolist() == [key_group_of("alice", 128), key_group_of(None, 128)]
    True
    """
    if not columns:
        return np.full(length or 0, group_of_bytes(encode_key(()), max_parallelism), np.int32)
    arrays = [whole(column) for column in columns]
    if len(arrays) == 1:
        state = _part(np.full(len(arrays[0]), _ONES, np.uint32), arrays[0], framed=False)
    else:
        state = _constant(np.full(len(arrays[0]), _ONES, np.uint32), b"t")
        for array in arrays:
            state = _part(state, array, framed=True)
    return (_mixed(state ^ _ONES) % np.uint32(max_parallelism)).astype(np.int32)


def _part(state: Ints, array: pa.Array, *, framed: bool) -> Ints:
    """Return checksums moved over the bytes of a column; within a tuple these stand behind their length."""
    arrow_type = array.type
    if pa.types.is_integer(arrow_type) or pa.types.is_boolean(arrow_type):
        moved = _numbers(state, to_numpy(array), framed)
    elif pa.types.is_floating(arrow_type):
        return _floats(state, array, framed)
    elif pa.types.is_null(arrow_type):
        return _constant(state, _frame(b"n", framed))
    else:
        return _others(state, array, framed)
    valid = validity(array)
    return moved if valid is None else np.where(valid, moved, _constant(state, _frame(b"n", framed)))


def _numbers(state: Ints, values: Ints, framed: bool) -> Ints:
    """Return checksums moved over integers: a letter, then eight bytes, shifted to unsigned, the highest first."""
    if values.dtype == np.uint64 and len(values) and values.max() >= np.uint64(1 << 63):
        raise OverflowError("Keys of UINT64 above the range of BIGINT have no key group.")
    unsigned = values.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)
    state = _constant(state, _frame(b"i", framed, 9))
    table = _tables()[0]
    for byte in unsigned.astype(">u8").view(np.uint8).reshape(-1, 8).T:
        state = table[(state ^ byte) & _BYTE] ^ (state >> _EIGHT)
    return state


def _floats(state: Ints, array: pa.Array, framed: bool) -> Ints:
    values = to_numpy(array).astype(np.float64)
    valid = validity(array)
    present = ~np.isnan(values) if valid is None else valid & ~np.isnan(values)
    exact = present & (np.floor(values) == values) & (np.abs(values) < float(1 << 63))
    found = _numbers(state, np.where(exact, values, 0.0).astype(np.int64), framed)
    if exact.all():
        return found
    table = _tables()[0]
    bits = _constant(state, _frame(b"f", framed, 9))
    for byte in values.astype(">f8").view(np.uint8).reshape(-1, 8).T:
        bits = table[(bits ^ byte) & _BYTE] ^ (bits >> _EIGHT)
    found = np.where(exact, found, np.where(present, bits, _constant(state, _frame(b"n", framed))))
    large = np.flatnonzero(present & ~exact & np.isfinite(values) & (np.floor(values) == values))
    for row in large.tolist():  # whole numbers beyond 64 bits, which are spelled
        found[row] = _constant(state[row : row + 1], _framed(encode_key(float(values[row])), framed))[0]
    return found


def _others(state: Ints, array: pa.Array, framed: bool) -> Ints:
    """Return checksums moved over values of any type: each different value is encoded once."""
    encoded = _encodable(array)
    codes = encoded.indices
    if codes.null_count:
        codes = codes.fill_null(len(encoded.dictionary))
    rows = np.asarray(codes)
    parts = _encoded(encoded.dictionary, framed)
    parts.append(_frame(b"n", framed))
    sums = np.fromiter(map(crc32, parts, repeat(0xFFFFFFFF)), np.uint32, len(parts)) ^ _ONES  # from a state of zeros
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    found = sums[rows]
    if len(different := np.unique(lengths)) == 1:
        return found ^ _shifted(state, int(different[0]))
    row_lengths = lengths[rows]
    for length in different.tolist():
        chosen = np.flatnonzero(row_lengths == length)
        found[chosen] ^= _shifted(state[chosen], length)
    return found


def _encodable(array: pa.Array) -> Any:
    try:
        return array.dictionary_encode()
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested types have no dictionary
        nulls = array.is_null() if array.null_count else None
        return pa.DictionaryArray.from_arrays(
            pa.array(np.arange(len(array), dtype=np.int32), mask=None if nulls is None else np.asarray(nulls)), array
        )


def _encoded(values: pa.Array, framed: bool) -> list[bytes]:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        spelled = [b"s" + text for text in values.cast(pa.large_binary()).to_pylist() if text is not None]
    elif pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        spelled = [b"b" + text for text in values.to_pylist() if text is not None]
    else:
        return [_framed(encode_key(frozen(value)), framed) for value in values.to_pylist()]
    if len(spelled) != len(values):
        return [_framed(encode_key(value), framed) for value in values.to_pylist()]
    return [_framed(part, True) for part in spelled] if framed else spelled


def _frame(letter: bytes, framed: bool, length: int = 1) -> bytes:
    return length.to_bytes(4, "big") + letter if framed else letter


def _framed(part: bytes, framed: bool) -> bytes:
    return len(part).to_bytes(4, "big") + part if framed else part


# --- checksums -------------------------------------------------------------------------------------------------------


def _constant(state: Ints, part: bytes) -> Ints:
    """Return checksums moved over the same bytes."""
    table = _tables()[0]
    for byte in part:
        state = table[(state ^ np.uint32(byte)) & _BYTE] ^ (state >> _EIGHT)
    return state


@lru_cache(maxsize=256)
def _tables(length: int = 1) -> Ints:
    """Return what a checksum's bytes become when it is moved over so many zero bytes; four tables, lowest byte first.

    The first of those for one byte is the table of the checksum itself.
    """
    if length == 1:
        first = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            first = (first >> np.uint32(1)) ^ np.where(first & np.uint32(1), np.uint32(0xEDB88320), np.uint32(0))
        others = [np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in (0, 1, 2)]
        return np.stack([first, *others])
    state = np.stack([np.arange(256, dtype=np.uint32) << np.uint32(8 * place) for place in range(4)])
    power, remaining = 1, length
    while remaining:
        if remaining & 1:
            state = _looked_up(_tables(1) if power == 1 else _power(power), state)
        remaining >>= 1
        power <<= 1
    return state


@lru_cache(maxsize=64)
def _power(length: int) -> Ints:
    half = _tables(1) if length == 2 else _power(length // 2)
    return _looked_up(half, half)


def _looked_up(tables: Ints, state: Ints) -> Ints:
    """Return checksums moved over the zero bytes that tables stand for."""
    found = tables[0][state & _BYTE]
    for place in (1, 2, 3):
        found = found ^ tables[place][(state >> np.uint32(8 * place)) & _BYTE]
    return found


def _shifted(state: Ints, length: int) -> Ints:
    return _looked_up(_tables(length), state) if length else state


def _mixed(checksum: Ints) -> Ints:
    """Return checksums with mixed bits, as :mod:`key_groups` does."""
    checksum = (checksum ^ (checksum >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    checksum = (checksum ^ (checksum >> np.uint32(15))) * np.uint32(0x735A2D97)
    return checksum ^ (checksum >> np.uint32(15))


def row_keys(columns: Sequence[pa.Array], length: int) -> list[Any]:
    """Return the keys of rows as Python objects: values of one column, tuples of several."""
    if len(columns) == 1:
        return [frozen(value) for value in whole(columns[0]).to_pylist()]
    if not columns:
        return [()] * length
    lists = [list(map(frozen, whole(column).to_pylist())) for column in columns]
    return list(zip(*lists, strict=True))


def targets_of(columns: Sequence[Any], max_parallelism: int, parallelism: int, length: int) -> Ints:
    """Return the subtask of every row."""
    if parallelism == 1:
        return np.zeros(length, np.int32)
    groups = key_groups(columns, max_parallelism, length).astype(np.int64)
    return groups * parallelism // max_parallelism


def cut(targets: Ints, parallelism: int) -> list[Ints]:
    """Return for each target the positions of its rows, ascending."""
    if len(targets) and targets[0] == targets[-1] and (targets == targets[0]).all():
        found = [np.zeros(0, np.int64)] * parallelism
        found[int(targets[0])] = np.arange(len(targets))
        return found
    return [np.flatnonzero(targets == target) for target in range(parallelism)]


