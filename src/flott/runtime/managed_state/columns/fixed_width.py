"""Arrow arrays of fixed width as numpy arrays with validity, and back. Pure.

Dates, times and durations are the integers that Arrow holds. A decimal is two integers of 64 bits, the low one first,
so an array of decimals has two columns.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

#: Arrow's types that are numpy's, by the number of their bits.
_SIGNED = {8: np.dtype("i1"), 16: np.dtype("i2"), 32: np.dtype("i4"), 64: np.dtype("i8")}

#: Arrays of numpy: of numbers, and of booleans. Their precise types get lost in arithmetic.
Ints: TypeAlias = Any
Flags: TypeAlias = Any


def fixed_dtype(arrow_type: pa.DataType) -> Any:
    """Return numpy's type of one value; None if values of the type are not all of one width."""
    types = pa.types
    if types.is_boolean(arrow_type):
        return np.dtype(np.bool_)
    if types.is_integer(arrow_type) or types.is_float32(arrow_type) or types.is_float64(arrow_type):
        return np.dtype(arrow_type.to_pandas_dtype())
    if types.is_temporal(arrow_type) and not types.is_interval(arrow_type):
        return _SIGNED[arrow_type.bit_width]
    if types.is_decimal128(arrow_type):
        return np.dtype("i8")
    return None


def is_wide(arrow_type: pa.DataType) -> bool:
    """Return whether a value is two integers."""
    return bool(pa.types.is_decimal128(arrow_type))


def to_numpy(array: pa.Array) -> Ints:
    """Return the values of an array of fixed width; those of nulls are of no meaning. Nothing is copied if possible."""
    arrow_type = array.type
    if pa.types.is_boolean(arrow_type):
        bits = np.frombuffer(array.buffers()[1], np.uint8) if array.buffers()[1] is not None else np.zeros(0, np.uint8)
        unpacked = np.unpackbits(bits, count=array.offset + len(array), bitorder="little")
        return unpacked[array.offset :].view(np.bool_)
    dtype = fixed_dtype(arrow_type)
    assert dtype is not None
    data = array.buffers()[1]
    width = 2 if is_wide(arrow_type) else 1
    if data is None or not len(array):
        return np.zeros((len(array), 2) if width == 2 else len(array), dtype)
    found = np.frombuffer(data, dtype, len(array) * width, array.offset * width * dtype.itemsize)
    return found.reshape(-1, 2) if width == 2 else found


def validity(array: pa.Array) -> Flags | None:
    """Return which values are there; None if all are."""
    if not array.null_count:
        return None
    bits = array.buffers()[0]
    if bits is None:  # an array of the null type
        return np.zeros(len(array), np.bool_)
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), count=array.offset + len(array), bitorder="little")
    return unpacked[array.offset :].view(np.bool_)


def to_arrow(values: Ints, valid: Flags | None, arrow_type: pa.DataType) -> pa.Array:
    """Return values of fixed width as an array."""
    count = len(values)
    mask, nulls = None, 0
    if valid is not None:
        nulls = count - int(np.count_nonzero(valid))
        if nulls:
            mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_boolean(arrow_type):
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow_type, count, [mask, data], nulls)


def whole(column: Any) -> pa.Array:
    """Return a column as one array without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
