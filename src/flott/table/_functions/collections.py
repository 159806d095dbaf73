"""Constructors of arrays, maps and rows, access to their elements, and the functions of maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.table._functions.arrays import concatenated
from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._functions.nested import Lists, codes_of, first_of_equal, joined_codes, lists_of, map_array
from flott.table._functions.signatures import INTEGER
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import can_cast_implicitly, common_type
from flott.table._types.logical import (
    INT,
    ArrayType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RowField,
    RowType,
)

# --- constructors ----------------------------------------------------------------------------------------------------


def _common(call: CallArguments, types: tuple[LogicalType, ...], what: str) -> LogicalType:
    found = common_type(list(types)) if types else NullType()
    if found is None:
        raise call.refuse(f"{what} of one type")
    return found.as_nullable(any(of.nullable for of in types))


def _array_type(call: CallArguments) -> LogicalType:
    return ArrayType(_common(call, call.types, "elements"), nullable=False)


def _map_type(call: CallArguments) -> MapType:
    if not call.types or len(call.types) % 2:
        raise call.refuse("keys and values by turns")
    key, value = _common(call, call.types[::2], "keys"), _common(call, call.types[1::2], "values")
    return MapType(key, value, nullable=False)


def _row_type(call: CallArguments) -> LogicalType:
    return RowType(tuple(RowField(f"EXPR${i}", of) for i, of in enumerate(call.types)), nullable=False)


def _elements(call: CallArguments) -> tuple[LogicalType, ...] | None:
    of = _common(call, call.types, "elements")
    return tuple(of.as_nullable(one.nullable) for one in call.types)


def _entries(call: CallArguments) -> tuple[LogicalType, ...] | None:
    of = _map_type(call)
    return tuple((of.value if i % 2 else of.key).as_nullable(one.nullable) for i, one in enumerate(call.types))


def _interleaved(columns: list[pa.Array], of: pa.DataType, length: int) -> pa.Array:
    """Return the values of several columns row by row."""
    if not columns:
        return pa.array([], type=of)
    whole = pa.concat_arrays([column.cast(of) for column in columns])
    order = np.arange(length * len(columns)).reshape(len(columns), length).T.ravel()
    return whole.take(pa.array(order))


def _make_array(call: KernelCall) -> Datum:
    wanted, size = arrow_type(call.type), len(call.arguments)
    values = _interleaved([call.column(i) for i in range(size)], wanted.value_type, call.length)
    lengths = np.full(call.length, size)
    return Lists(values, lengths, np.ones(call.length, dtype=bool)).array(wanted)


def _make_map(call: KernelCall) -> Datum:
    wanted, size = arrow_type(call.type), len(call.arguments)
    keys = _interleaved([call.column(i) for i in range(0, size, 2)], wanted.key_type, call.length)
    values = _interleaved([call.column(i) for i in range(1, size, 2)], wanted.item_type, call.length)
    entries = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    lists = Lists(entries, np.full(call.length, size // 2), np.ones(call.length, dtype=bool))
    return map_array(_last_of_keys(lists), wanted)


def _last_of_keys(lists: Lists) -> Lists:
    """Return entries with each key once: at the place where it came first, with the value that came last."""
    codes = codes_of(lists.values.field(0))[0]
    first = first_of_equal(lists.rows, codes)
    if first.all():
        return lists
    pairs = joined_codes(lists.rows, codes)
    last = len(pairs) - 1 - np.unique(pairs[::-1], return_index=True)[1]
    firsts = np.unique(pairs, return_index=True)[1]
    value_at = np.arange(len(pairs))
    value_at[firsts] = last
    kept = np.flatnonzero(first)
    keys = lists.values.field(0).take(pa.array(kept))
    values = lists.values.field(1).take(pa.array(value_at[kept]))
    entries = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    return Lists(entries, np.bincount(lists.rows[kept], minlength=len(lists.lengths)), lists.valid)


def _make_row(call: KernelCall) -> Datum:
    fields = list(arrow_type(call.type))
    columns = [call.column(i).cast(field.type) for i, field in enumerate(fields)]
    if not columns:
        return pa.array([{}] * call.length, type=arrow_type(call.type))
    return pa.StructArray.from_arrays(columns, fields=fields)


# --- access ----------------------------------------------------------------------------------------------------------


def _item_type(call: CallArguments) -> LogicalType:
    expected = "(ARRAY, INT) or (MAP, key)"
    if len(call.types) != 2:
        raise call.refuse(expected)
    of, index = call.types
    if isinstance(of, ArrayType):
        if not INTEGER.takes(index):
            raise call.refuse(expected)
        if call.is_literal[1:2] == (True,) and isinstance(call.literals[1], int) and call.literals[1] < 1:
            raise call.refuse("an index from 1")
        return of.element.as_nullable()
    if isinstance(of, MapType):
        if not isinstance(index, NullType) and not can_cast_implicitly(index, of.key):
            raise call.refuse(f"a key of {of.key}")
        return of.value.as_nullable()
    raise call.refuse(expected)


def _item_arguments(call: CallArguments) -> tuple[LogicalType, ...] | None:
    if len(call.types) == 2 and isinstance(call.types[0], MapType):
        return call.types[0], call.types[0].key.as_nullable(call.types[1].nullable)
    if len(call.types) == 2 and isinstance(call.types[1], NullType):
        return call.types[0], INT
    return None


def _item(call: KernelCall) -> Datum:
    lists = lists_of(call.column(0))
    index = call.column(1)
    given = index.is_valid().to_numpy(zero_copy_only=False)
    if isinstance(call.types[0], ArrayType):
        place = pc.fill_null(index, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        there = lists.valid & given & (place >= 1) & (place <= lists.lengths)
        return lists.values.take(pa.array(np.where(there, lists.starts + place - 1, 0), mask=~there))
    keys, values = lists.values.field(0), lists.values.field(1)
    codes, wanted = codes_of(keys, index)
    found = np.full(len(lists.lengths), -1, dtype=np.int64)
    at = np.flatnonzero(codes == wanted[lists.rows])
    found[lists.rows[at]] = at
    return values.take(pa.array(found, mask=(found < 0) | ~lists.valid))


def _cardinality(call: KernelCall) -> Datum:
    lists = lists_of(call.column(0))
    return pa.array(lists.lengths.astype(np.int32), mask=~lists.valid)


def _cardinality_type(call: CallArguments) -> LogicalType:
    if len(call.types) != 1 or not isinstance(call.types[0], ArrayType | MapType | MultisetType):
        raise call.refuse("(ARRAY), (MAP) or (MULTISET)")
    return INT.as_nullable(call.nullable)


# --- maps ------------------------------------------------------------------------------------------------------------


def _map(call: CallArguments, index: int = 0) -> MapType:
    of = call.types[index] if index < len(call.types) else None
    if not isinstance(of, MapType):
        raise call.refuse("(MAP)")
    return of


def _one_map(call: CallArguments) -> MapType:
    if len(call.types) != 1:
        raise call.refuse("(MAP)")
    return _map(call)


def _keys_type(call: CallArguments) -> LogicalType:
    of = _one_map(call)
    return ArrayType(of.key, nullable=of.nullable)


def _values_type(call: CallArguments) -> LogicalType:
    of = _one_map(call)
    return ArrayType(of.value, nullable=of.nullable)


def _entries_type(call: CallArguments) -> LogicalType:
    of = _one_map(call)
    entry = RowType((RowField("key", of.key), RowField("value", of.value)))
    return ArrayType(entry, nullable=of.nullable)


def _from_arrays_type(call: CallArguments) -> LogicalType:
    keys, values = (*call.types, None, None)[:2]
    if len(call.types) != 2 or not isinstance(keys, ArrayType) or not isinstance(values, ArrayType):
        raise call.refuse("(ARRAY, ARRAY)")
    return MapType(keys.element, values.element, nullable=call.nullable)


def _union_type(call: CallArguments) -> LogicalType:
    maps = [_map(call, i) for i in range(max(len(call.types), 1)) if not _is_null(call, i)]
    found = common_type(list(maps)) if maps else None
    if not isinstance(found, MapType):
        raise call.refuse("maps of one type")
    key = found.key.as_nullable(any(of.key.nullable for of in maps))
    return MapType(key, found.value.as_nullable(any(of.value.nullable for of in maps)), nullable=call.nullable)


def _is_null(call: CallArguments, index: int) -> bool:
    return index < len(call.types) and isinstance(call.types[index], NullType)


def _union_arguments(call: CallArguments) -> tuple[LogicalType, ...] | None:
    of = _union_type(call)
    return tuple(of.as_nullable(one.nullable) for one in call.types)


def _parts(index: int) -> Any:
    def kernel(call: KernelCall) -> Datum:
        lists = lists_of(call.column(0))
        return Lists(lists.values.field(index), lists.lengths, lists.valid).array(arrow_type(call.type))

    return kernel


def _map_entries(call: KernelCall) -> Datum:
    return lists_of(call.column(0)).array(arrow_type(call.type))


def _map_from_arrays(call: KernelCall) -> Datum:
    keys, values = lists_of(call.column(0)), lists_of(call.column(1))
    valid = keys.valid & values.valid
    if (keys.lengths != values.lengths)[valid].any():
        raise ProgramError("MAP_FROM_ARRAYS was called with arrays of different lengths. Each key needs a value.")
    keys, values = keys._without(valid), values._without(valid)
    entries = pa.StructArray.from_arrays([keys.values, values.values], names=["key", "value"])
    return map_array(_last_of_keys(Lists(entries, keys.lengths, valid)), arrow_type(call.type))


def _map_union(call: KernelCall) -> Datum:
    wanted = arrow_type(call.type)
    entry = pa.struct([pa.field("key", wanted.key_type), pa.field("value", wanted.item_type)])
    lists = concatenated([call.column(i) for i in range(len(call.arguments))], entry)
    return map_array(_last_of_keys(lists), wanted)


def _entry(name: str, infer: Any, kernel: Any, syntax: str, description: str, **more: Any) -> Function:
    return Function(name, infer, kernel, family="collection", syntax=syntax, description=description, **more)


FUNCTIONS: tuple[Function, ...] = (
    _entry("ARRAY", _array_type, _make_array, "ARRAY[value1, value2, ...]", "Returns an array of the values.",
           coerce=_elements),
    _entry("MAP", _map_type, _make_map, "MAP[key1, value1, ...]", "Returns a map of the keys and values.",
           coerce=_entries),
    _entry("ROW", _row_type, _make_row, "ROW(value1, value2, ...)", "Returns a row of the values."),
    _entry("ITEM", _item_type, _item, "array[index] or map[key]",
           "Returns the element at a position, counting from 1, or the value of a key; NULL if there is none.",
           coerce=_item_arguments),
    _entry("CARDINALITY", _cardinality_type, _cardinality, "CARDINALITY(collection)",
           "Returns the number of elements or entries."),
    _entry("MAP_KEYS", _keys_type, _parts(0), "MAP_KEYS(map)", "Returns the keys of the map."),
    _entry("MAP_VALUES", _values_type, _parts(1), "MAP_VALUES(map)", "Returns the values of the map."),
    _entry("MAP_ENTRIES", _entries_type, _map_entries, "MAP_ENTRIES(map)",
           "Returns the entries of the map as rows of key and value."),
    _entry("MAP_FROM_ARRAYS", _from_arrays_type, _map_from_arrays, "MAP_FROM_ARRAYS(keys, values)",
           "Returns the map of two arrays.", may_fail=True),
    _entry("MAP_UNION", _union_type, _map_union, "MAP_UNION(map1, map2, ...)",
           "Returns the entries of all maps; a later map wins.", coerce=_union_arguments),
)  # fmt: skip
