"""Partial aggregates over columns: made of rows, merged, and turned into results. Task side."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import whole
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._plan.logical import AggregateCall, Schema
from flott.table._plan.window_partials import ROWS, Part, parts_of
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import BIGINT, DecimalType, LogicalType

_GROUP = "$group"


class Partials:
    """The parts of calls that have parts. ``calls`` are given with their position among all calls."""

    def __init__(self, input: Schema, calls: Sequence[tuple[int, AggregateCall]], retracts: bool):
        self.retracts = retracts
        self._calls: list[tuple[AggregateCall, tuple[Part, ...]]] = []
        parts: list[Part] = []
        for position, call in calls:
            found = parts_of(position, call, input, retracts)
            assert found is not None
            self._calls.append((call, found))
            parts += found
        if retracts:
            parts.append(Part(ROWS, BIGINT, "rows", "sum"))
        self.parts = parts
        self.schema = pa.schema([pa.field(part.name, arrow_type(part.type)) for part in parts])

    def of_rows(self, changes: Changes, groups: Longs, count: int) -> pa.RecordBatch:
        """Return the parts of each group of rows."""
        if not self.parts:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        signs = changes.signs if self.retracts else None
        columns: list[Any] = []
        for call, parts in self._calls:
            taken = counted(changes.columns, call)
            for part in parts:
                if part.update == "count":
                    columns.append(_number(taken, signs, len(changes)))
                else:
                    columns.append(_argument(changes.columns, call, part, signs))
        if self.retracts:
            columns.append(pa.array(changes.signs))
        return self._grouped(columns, groups, count)

    def merged(self, parts: Sequence[pa.Array], groups: Longs, count: int) -> pa.RecordBatch:
        """Return parts merged by group."""
        if not self.parts:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return self._grouped(parts, groups, count)

    def _grouped(self, columns: Sequence[Any], groups: Longs, count: int) -> pa.RecordBatch:
        names = [part.name for part in self.parts]
        if not count:
            return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)
        if len(groups) == count and np.array_equal(groups, np.arange(count)):
            cast = [_cast(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            return pa.RecordBatch.from_arrays(cast, schema=self.schema)
        arrays: list[pa.Array | None] = [None] * len(names)
        hashed: list[int] = []
        for place, (part, column) in enumerate(zip(self.parts, columns, strict=True)):
            dense = _dense_sum(column, groups, count) if part.merge == "sum" else None
            if dense is None:
                hashed.append(place)
            else:
                arrays[place] = dense
        if hashed:
            table = pa.table([pa.array(groups), *(columns[place] for place in hashed)], [_GROUP, *map(str, hashed)])
            found = table.group_by(_GROUP, use_threads=False).aggregate(
                [(str(place), self.parts[place].merge) for place in hashed]
            )
            at = np.empty(count, np.int64)
            at[found[_GROUP].to_numpy()] = np.arange(count)
            for place in hashed:
                values = whole(found[f"{place}_{self.parts[place].merge}"]).take(pa.array(at))
                arrays[place] = _cast(values, self.schema.field(place).type)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def present(self, parts: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """Return which groups have rows; None: all of them."""
        if not self.retracts:
            return None
        rows: np.ndarray[Any, np.dtype[np.bool_]] = parts.column(len(self.parts) - 1).to_numpy() > 0
        return rows

    def results(self, parts: pa.RecordBatch) -> list[pa.Array]:
        """Return the results of the calls."""
        found, place = [], 0
        for call, own in self._calls:
            columns = parts.columns[place : place + len(own)]
            place += len(own)
            found.append(_result(call, columns))
        return found


def counted(columns: pa.RecordBatch, call: AggregateCall) -> pa.Array | None:
    """Return which rows a call takes: those that its filter lets pass, with no null argument. None: all."""
    kept: pa.Array | None = None
    if call.filter is not None:
        kept = pc.fill_null(columns.column(call.filter), False)
    for argument in call.arguments:
        column = columns.column(argument)
        if column.null_count:
            there = column.is_valid()
            kept = there if kept is None else pc.and_(kept, there)
    return kept


def _number(counted: pa.Array | None, signs: Longs | None, length: int) -> pa.Array:
    if counted is None:
        return pa.array(np.ones(length, np.int64) if signs is None else signs)
    flags = counted.to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.array(flags if signs is None else flags * signs)


def _argument(columns: pa.RecordBatch, call: AggregateCall, part: Part, signs: Longs | None) -> pa.Array:
    column = columns.column(call.arguments[0])
    wanted = arrow_type(part.type)
    if column.type != wanted and part.update == "sum":
        column = column.cast(wanted)
    if call.filter is not None:
        kept = pc.fill_null(columns.column(call.filter), False)
        column = pc.if_else(kept, column, pa.scalar(None, column.type))
    if signs is not None and part.update == "sum":
        column = pc.if_else(pa.array(signs > 0), column, pc.negate(column))
    return column


def _dense_sum(column: pa.Array, groups: Longs, count: int) -> pa.Array | None:
    """Return sums of a column of 64-bit integers without nulls; None of any other."""
    if column.type != pa.int64() or column.null_count or len(column) < 64:
        return None
    values = column.to_numpy(zero_copy_only=False)
    low, high = int(values.min()), int(values.max())
    if low == high == 1:
        return pa.array(np.bincount(groups, minlength=count).astype(np.int64))
    if max(abs(low), abs(high)) * len(values) < 2**53:  # floating point is exact up to here
        return pa.array(np.bincount(groups, values, minlength=count).astype(np.int64))
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, values)
    return pa.array(sums)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted, safe=False)


# --- results ---------------------------------------------------------------------------------------------------------


def _result(call: AggregateCall, parts: Sequence[pa.Array]) -> pa.Array:
    wanted = arrow_type(call.type)
    match call.function:
        case "COUNT" | "MIN" | "MAX":
            return _cast(parts[0], wanted)
        case "SUM":
            present = pc.greater(parts[1], 0)
            return fitted(pc.if_else(present, parts[0], pa.scalar(None, parts[0].type)), call.type)
        case "$SUM0" | "SUM0":
            present = pc.greater(parts[1], 0)
            zero = pa.scalar(0).cast(parts[0].type)
            return fitted(pc.if_else(present, parts[0], zero), call.type)
        case "AVG":
            return _average(parts[0], parts[1], call.type)
    raise AssertionError(call.function)


def _average(sums: pa.Array, counts: pa.Array, of: LogicalType) -> pa.Array:
    """Return averages: integers are rounded towards zero, decimals to the digits of the type."""
    numbers = counts.to_numpy()
    there = numbers > 0
    wanted = arrow_type(of)
    if pa.types.is_decimal(sums.type):
        assert isinstance(of, DecimalType)
        exact, step = Context(prec=80, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-of.scale)
        values = [
            None if number <= 0 else exact.quantize(exact.divide(total, Decimal(number)), step)
            for total, number in zip(sums.to_pylist(), numbers.tolist(), strict=True)
        ]
        return pa.array(values, wanted)
    totals = pc.fill_null(sums, 0).to_numpy(zero_copy_only=False)
    shares = np.where(there, numbers, 1)
    if pa.types.is_floating(sums.type):
        found = totals / shares
    else:
        found = np.where(totals < 0, -(-totals // shares), totals // shares)
    return _cast(pa.array(found, mask=~there), wanted)


def fitted(sums: pa.Array, of: LogicalType) -> pa.Array:
    """Return sums as their declared type: integers wrap around, decimals that do not fit are NULL."""
    wanted = arrow_type(of)
    if sums.type == wanted:
        return sums
    if pa.types.is_integer(wanted) and pa.types.is_integer(sums.type):
        bits = wanted.bit_width
        values = pc.fill_null(sums, 0).to_numpy(zero_copy_only=False).astype(f"int{bits}")
        return pa.array(values, mask=None if not sums.null_count else ~sums.is_valid().to_numpy(zero_copy_only=False))
    return sums.cast(wanted, safe=False)
