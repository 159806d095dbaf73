"""Functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._functions.nested import Lists, Numbers, codes_of, first_of_equal, lists_of
from flott.table._functions.signatures import INTEGER, TEXT, TRUTH
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import can_cast_implicitly, common_type, is_ordered
from flott.table._types.logical import (
    BOOLEAN,
    INT,
    STRING,
    ArrayType,
    Family,
    LogicalType,
    NullType,
)

# --- signatures ------------------------------------------------------------------------------------------------------


def _array(call: CallArguments, index: int = 0) -> ArrayType:
    of = call.types[index] if index < len(call.types) else None
    if isinstance(of, NullType):
        return ArrayType(NullType())
    if not isinstance(of, ArrayType):
        raise call.refuse("(ARRAY, ...)")
    return of


def _count(call: CallArguments, least: int, most: int, expected: str) -> None:
    if not least <= len(call.types) <= most:
        raise call.refuse(expected)


def _whole(call: CallArguments) -> LogicalType:
    """Return the type of the only argument, an array."""
    _count(call, 1, 1, "(ARRAY)")
    return _array(call)


def _element_for(call: CallArguments) -> LogicalType:
    """Return the type to which an element next to an array is cast."""
    element, needle = _array(call).element, call.types[1]
    if isinstance(needle, NullType):
        return element
    if isinstance(element, NullType):
        return needle
    found = common_type([element, needle])
    if found is None or found.as_nullable().root_text != element.as_nullable().root_text:
        if not can_cast_implicitly(needle, element):
            raise call.refuse(f"({_array(call)}, {element})")
        return element
    return found


def _with_needle(call: CallArguments) -> tuple[LogicalType, ...] | None:
    if len(call.types) != 2:
        return None
    of = _element_for(call)
    first = call.types[0] if isinstance(call.types[0], ArrayType) else ArrayType(of)
    return (first, of.as_nullable(call.types[1].nullable))


def _searched(result: LogicalType, needle_counts: bool) -> Any:
    def infer(call: CallArguments) -> LogicalType:
        _count(call, 2, 2, "(ARRAY, element)")
        _element_for(call)
        nullable = call.types[0].nullable or (needle_counts and call.types[1].nullable)
        return result.as_nullable(nullable)

    return infer


def _grown(call: CallArguments) -> LogicalType:
    _count(call, 2, 2, "(ARRAY, element)")
    array = _array(call)
    element = _element_for(call).as_nullable(array.element.nullable or call.types[1].nullable)
    return ArrayType(element, nullable=array.nullable)


def _removed(call: CallArguments) -> LogicalType:
    _count(call, 2, 2, "(ARRAY, element)")
    _element_for(call)
    return _array(call)


def _common_array(call: CallArguments) -> ArrayType:
    for index in range(len(call.types)):
        _array(call, index)
    found = common_type([of for of in call.types if not isinstance(of, NullType)] or [ArrayType(STRING)])
    if not isinstance(found, ArrayType):
        raise call.refuse("arrays of one type")
    nullable = any(isinstance(of, ArrayType) and of.element.nullable for of in call.types)
    return ArrayType(found.element.as_nullable(nullable), nullable=call.nullable)


def _two(call: CallArguments) -> LogicalType:
    _count(call, 2, 2, "(ARRAY, ARRAY)")
    return _common_array(call)


def _first_kept(call: CallArguments) -> LogicalType:
    _count(call, 2, 2, "(ARRAY, ARRAY)")
    return _common_array(call)


def _some(call: CallArguments) -> LogicalType:
    _count(call, 1, 1 << 30, "(ARRAY, ...)")
    return _common_array(call)


def _alike(call: CallArguments) -> tuple[LogicalType, ...] | None:
    if not call.types or not all(isinstance(of, ArrayType | NullType) for of in call.types):
        return None
    of = _common_array(call)
    return tuple(ArrayType(of.element, nullable=one.nullable) for one in call.types)


def _sliced(call: CallArguments) -> LogicalType:
    _count(call, 2, 3, "(ARRAY, INT[, INT])")
    if not all(INTEGER.takes(of) for of in call.types[1:]):
        raise call.refuse("(ARRAY, INT[, INT])")
    return _array(call).as_nullable(call.nullable)


def _sorted_type(call: CallArguments) -> LogicalType:
    _count(call, 1, 3, "(ARRAY[, ascending BOOLEAN[, nulls first BOOLEAN]])")
    array = _array(call)
    if not all(TRUTH.takes(of) for of in call.types[1:]) or not is_ordered(array.element):
        raise call.refuse("(ARRAY of values that can be ordered[, BOOLEAN[, BOOLEAN]])")
    return array.as_nullable(call.nullable)


def _extreme(call: CallArguments) -> LogicalType:
    _count(call, 1, 1, "(ARRAY)")
    element = _array(call).element
    if not is_ordered(element) or element.family in (Family.BOOLEAN, Family.COLLECTION):
        raise call.refuse("(ARRAY of values that can be ordered)")
    return element.as_nullable()


def _joined_type(call: CallArguments) -> LogicalType:
    expected = "(ARRAY<STRING>, STRING[, STRING])"
    _count(call, 2, 3, expected)
    if not TEXT.takes(_array(call).element) or not all(TEXT.takes(of) for of in call.types[1:]):
        raise call.refuse(expected)
    return STRING.as_nullable(call.nullable)


def _only(call: CallArguments) -> LogicalType:
    _count(call, 1, 1, "(ARRAY)")
    return _array(call).element.as_nullable()


def _nulls_typed(*types: LogicalType) -> Any:
    """Return a coercion that gives an untyped NULL the type of its parameter."""

    def coerce(call: CallArguments) -> tuple[LogicalType, ...] | None:
        if not any(isinstance(of, NullType) for of in call.types) or len(call.types) > len(types):
            return None
        return tuple(
            wanted if isinstance(of, NullType) else of for of, wanted in zip(call.types, types, strict=False)
        )

    return coerce


# --- kernels ---------------------------------------------------------------------------------------------------------


def _valid(column: pa.Array) -> Numbers:
    valid: Numbers = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _equal_places(call: KernelCall) -> tuple[Lists, Numbers, pa.Array]:
    """Return lists, a mask of the elements that equal the row's other argument, and that argument."""
    lists, needle = lists_of(call.column(0)), call.column(1)
    codes, wanted = codes_of(lists.values, needle)
    return lists, codes == wanted[lists.rows], needle


def _any_by_row(lists: Lists, mask: Numbers) -> Numbers:
    return np.bincount(lists.rows[mask], minlength=len(lists.lengths)) > 0


def _contains(call: KernelCall) -> Datum:
    lists, equal, _ = _equal_places(call)
    return pa.array(_any_by_row(lists, equal), mask=~lists.valid)


def _position(call: KernelCall) -> Datum:
    lists, equal, needle = _equal_places(call)
    found = np.zeros(len(lists.lengths), dtype=np.int32)
    at = np.flatnonzero(equal)[::-1]  # the first one is written last
    found[lists.rows[at]] = lists.places[at] + 1
    return pa.array(found, mask=~(lists.valid & _valid(needle)))


def _remove(call: KernelCall) -> Datum:
    lists, equal, _ = _equal_places(call)
    return lists.keep(~equal).array(arrow_type(call.type))


def _distinct(call: KernelCall) -> Datum:
    lists = lists_of(call.column(0))
    return lists.keep(first_of_equal(lists.rows, codes_of(lists.values)[0])).array(arrow_type(call.type))


def _reverse(call: KernelCall) -> Datum:
    lists = lists_of(call.column(0))
    ends = np.repeat(lists.starts + lists.lengths, lists.lengths)
    return lists.arranged(ends - 1 - lists.places).array(arrow_type(call.type))


def concatenated(columns: list[pa.Array], element: pa.DataType) -> Lists:
    """Return the elements of several columns of lists, row by row."""
    parts = [lists_of(column) for column in columns]
    rows = np.concatenate([part.rows for part in parts])
    values = pa.concat_arrays([part.values.cast(element) for part in parts])
    valid = np.logical_and.reduce([part.valid for part in parts])
    order = np.argsort(rows, kind="stable")
    lengths = np.sum([part.lengths for part in parts], axis=0)
    return Lists(values.take(pa.array(order)), lengths, valid)


def _concat(call: KernelCall) -> Datum:
    wanted = arrow_type(call.type)
    return concatenated([call.column(i) for i in range(len(call.arguments))], wanted.value_type).array(wanted)


def _union(call: KernelCall) -> Datum:
    wanted = arrow_type(call.type)
    lists = concatenated([call.column(0), call.column(1)], wanted.value_type)
    return lists.keep(first_of_equal(lists.rows, codes_of(lists.values)[0])).array(wanted)


def _in_other(call: KernelCall) -> tuple[Lists, Lists, Numbers]:
    """Return both lists, and a mask of the first elements, each value once, that the second list has too."""
    one, other = lists_of(call.column(0)), lists_of(call.column(1))
    codes, others = codes_of(one.values, other.values)
    width = int(max(codes.max(initial=0), others.max(initial=0))) + 2
    found = np.isin(one.rows * width + codes + 1, other.rows * width + others + 1)
    return one, other, found


def _except(call: KernelCall) -> Datum:
    one, other, found = _in_other(call)
    first = first_of_equal(one.rows, codes_of(one.values)[0])
    return one.keep(~found & first).array(arrow_type(call.type), one.valid & other.valid)


def _intersect(call: KernelCall) -> Datum:
    one, other, found = _in_other(call)
    first = first_of_equal(one.rows, codes_of(one.values)[0])
    return one.keep(found & first).array(arrow_type(call.type), one.valid & other.valid)


def _with_element(call: KernelCall, at_end: bool) -> Datum:
    wanted = arrow_type(call.type)
    element = call.column(1).cast(wanted.value_type)
    single = pa.ListArray.from_arrays(pa.array(range(len(element) + 1), pa.int32()), element)
    columns = [call.column(0), single] if at_end else [single, call.column(0)]
    return concatenated(columns, wanted.value_type).array(wanted)


def _slice(call: KernelCall) -> Datum:
    lists, wanted = lists_of(call.column(0)), arrow_type(call.type)
    valid = lists.valid.copy()
    bounds = []
    for index in range(1, len(call.arguments)):
        valid &= _valid(call.column(index))
        numbers = pc.fill_null(call.column(index), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        # Positions count from 1, negative ones from the end; whatever lies before the first is the first.
        bounds.append(np.maximum(np.where(numbers < 0, lists.lengths + numbers + 1, numbers), 1))
    first = bounds[0]
    last = bounds[1] if len(bounds) > 1 else lists.lengths
    place = lists.places + 1
    kept = (place >= first[lists.rows]) & (place <= last[lists.rows])
    return lists.keep(kept).array(wanted, valid)


def _sort(call: KernelCall) -> Datum:
    lists, wanted = lists_of(call.column(0)), arrow_type(call.type)
    size = len(lists.lengths)
    valid = lists.valid.copy()
    ascending = np.ones(size, dtype=bool)
    if len(call.arguments) > 1:
        valid &= _valid(call.column(1))
        ascending = pc.fill_null(call.column(1), True).to_numpy(zero_copy_only=False)
    nulls_first = ascending
    if len(call.arguments) > 2:
        valid &= _valid(call.column(2))
        nulls_first = pc.fill_null(call.column(2), True).to_numpy(zero_copy_only=False)
    ranks = pc.rank(lists.values, tiebreaker="dense").to_numpy().astype(np.int64)
    rows = lists.rows
    ranks = np.where(ascending[rows], ranks, -ranks)
    missing = ~_valid(lists.values)
    ranks[missing] = np.where(nulls_first[rows][missing], -(1 << 62), 1 << 62)
    return lists.arranged(np.lexsort((ranks, rows))).array(wanted, valid)


def _extreme_kernel(largest: bool) -> Any:
    def kernel(call: KernelCall) -> Datum:
        lists = lists_of(call.column(0))
        present = np.flatnonzero(_valid(lists.values))
        ranks = pc.rank(lists.values, tiebreaker="dense").to_numpy().astype(np.int64)
        chosen = np.full(len(lists.lengths), -1, dtype=np.int64)
        order = present[np.argsort(ranks[present] if largest else -ranks[present], kind="stable")]
        chosen[lists.rows[order]] = order  # the last one that is written is the extreme one
        return lists.values.take(pa.array(chosen, mask=chosen < 0)).cast(arrow_type(call.type))

    return kernel


def _join(call: KernelCall) -> Datum:
    arrays, delimiters = call.column(0).to_pylist(), call.column(1).to_pylist()
    replaced = call.column(2).to_pylist() if len(call.arguments) > 2 else None
    result: list[str | None] = []
    for row, (array, delimiter) in enumerate(zip(arrays, delimiters, strict=True)):
        stand_in = None if replaced is None else replaced[row]
        if array is None or delimiter is None or (replaced is not None and stand_in is None):
            result.append(None)
        else:
            parts = [stand_in if part is None else part for part in array]
            result.append(delimiter.join([part for part in parts if part is not None]))
    return pa.array(result, type=pa.string())


def _element(call: KernelCall) -> Datum:
    lists = lists_of(call.column(0))
    if lists.lengths.max(initial=0) > 1:
        raise ProgramError(f"ELEMENT was called with an array of {lists.lengths.max()} elements. Expected at most one.")
    chosen = pa.array(lists.starts, mask=~(lists.valid & (lists.lengths == 1)))
    return lists.values.take(chosen)


def _entry(name: str, infer: Any, kernel: Any, syntax: str, description: str, **more: Any) -> Function:
    return Function(name, infer, kernel, family="collection", syntax=syntax, description=description, **more)


_INTS = _nulls_typed(ArrayType(STRING), INT, INT)
_TRUTHS = _nulls_typed(ArrayType(STRING), BOOLEAN, BOOLEAN)
_TEXTS = _nulls_typed(ArrayType(STRING), STRING, STRING)

FUNCTIONS: tuple[Function, ...] = (
    _entry("ARRAY_APPEND", _grown, lambda call: _with_element(call, True), "ARRAY_APPEND(array, element)",
           "Returns the array with an element at its end.", coerce=_with_needle),
    _entry("ARRAY_PREPEND", _grown, lambda call: _with_element(call, False), "ARRAY_PREPEND(array, element)",
           "Returns the array with an element at its beginning.", coerce=_with_needle),
    _entry("ARRAY_CONTAINS", _searched(BOOLEAN, False), _contains, "ARRAY_CONTAINS(array, element)",
           "Returns whether the array contains an element, which may be NULL.", coerce=_with_needle),
    _entry("ARRAY_POSITION", _searched(INT, True), _position, "ARRAY_POSITION(array, element)",
           "Returns where an element is first found, counting from 1; 0 if it is not there.", coerce=_with_needle),
    _entry("ARRAY_REMOVE", _removed, _remove, "ARRAY_REMOVE(array, element)",
           "Returns the array without the elements equal to a value.", coerce=_with_needle),
    _entry("ARRAY_DISTINCT", _whole, _distinct, "ARRAY_DISTINCT(array)", "Returns each element of the array once."),
    _entry("ARRAY_REVERSE", _whole, _reverse, "ARRAY_REVERSE(array)", "Returns the array backwards."),
    _entry("ARRAY_CONCAT", _some, _concat, "ARRAY_CONCAT(array1, array2, ...)",
           "Returns the elements of all arrays; NULL if one of them is NULL.", coerce=_alike),
    _entry("ARRAY_UNION", _two, _union, "ARRAY_UNION(array1, array2)",
           "Returns the elements of both arrays, each once.", coerce=_alike),
    _entry("ARRAY_EXCEPT", _first_kept, _except, "ARRAY_EXCEPT(array1, array2)",
           "Returns the elements of array1 that array2 does not have, each once.", coerce=_alike),
    _entry("ARRAY_INTERSECT", _first_kept, _intersect, "ARRAY_INTERSECT(array1, array2)",
           "Returns the elements that both arrays have, each once.", coerce=_alike),
    _entry("ARRAY_SLICE", _sliced, _slice, "ARRAY_SLICE(array, start[, end])",
           "Returns the elements from one position to another; negative positions count from the end.", coerce=_INTS),
    _entry("ARRAY_SORT", _sorted_type, _sort, "ARRAY_SORT(array[, ascending[, nulls_first]])",
           "Returns the elements in order; by default ascending, with NULL first.", coerce=_TRUTHS),
    _entry("ARRAY_MAX", _extreme, _extreme_kernel(True), "ARRAY_MAX(array)", "Returns the greatest element."),
    _entry("ARRAY_MIN", _extreme, _extreme_kernel(False), "ARRAY_MIN(array)", "Returns the smallest element."),
    _entry("ARRAY_JOIN", _joined_type, _join, "ARRAY_JOIN(array, delimiter[, null_replacement])",
           "Returns the strings of the array with a delimiter between them; NULL elements are replaced, or left out.",
           coerce=_TEXTS),
    _entry("ELEMENT", _only, _element, "ELEMENT(array)",
           "Returns the only element of the array; NULL if it is empty. More elements are an error.", may_fail=True),
)  # fmt: skip
