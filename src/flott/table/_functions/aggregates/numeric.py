"""COUNT, SUM, AVG and the family of VARIANCE: accumulators that are sums."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from flott.table._functions.aggregates.accumulation import (
    Accumulation,
    Groups,
    Ints,
    Numbers,
    State,
    array_of,
    numbers_of,
    running_sum,
)
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import DecimalType, DoubleType, FloatType, IntegerType, LogicalType

_COUNT = pa.field("count", pa.int64(), nullable=False)
_MASK = (1 << 64) - 1
_EXACT = Context(prec=80)
_LIMIT = 10**38


def _weights(groups: Groups, arguments: Sequence[pa.Array]) -> Ints:
    """Return the sign of each row of which no argument is null, else 0."""
    weights = groups.signs
    for argument in arguments:
        if argument.null_count:
            weights = np.where(np.asarray(argument.is_valid()), weights, 0)
    return weights


def _added(initial: Ints, ids: Ints, values: Ints) -> Ints:
    found = initial.copy()
    np.add.at(found, ids, values)
    return found


class Counted(Accumulation):
    """COUNT: of rows, or of rows whose arguments are not null."""

    fields = (_COUNT,)

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        return [Numbers(running_sum(groups, _weights(groups, arguments), initial[0].values))]

    def fold(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        return [Numbers(_added(initial[0].values, groups.ids, _weights(groups, arguments)))]

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        return [Numbers(_added(initial[0].values, groups.ids, partial[0].values))]

    def result(self, state: State) -> pa.Array:
        return array_of(state[0], pa.int64())


class Summed(Accumulation):
    """Sums of one column beside counts of what was added. ``power`` is 2 for sums of squares."""

    def __init__(self, argument: LogicalType, result: LogicalType, *, wide: bool = False):
        self.result_type = result
        self.argument = argument
        self._decimal = isinstance(argument, DecimalType)
        if self._decimal:
            summed: pa.DataType = pa.decimal128(38, argument.scale)  # type: ignore[attr-defined]
        elif isinstance(argument, FloatType) and not wide:
            summed = pa.float32()
        elif isinstance(argument, FloatType | DoubleType):
            summed = pa.float64()
        else:
            summed = pa.int64()
        self._summed = summed
        self.fields = (pa.field("sum", summed, nullable=False), _COUNT)
        if self._decimal:  # how many times 10**38 is to be added: a sum too large for its type can become smaller again
            self.fields = (*self.fields, pa.field("carry", pa.int64(), nullable=False))

    def _terms(self, weights: Ints, argument: pa.Array) -> Ints:
        values = numbers_of(argument).values
        if self._decimal:
            return values
        if self._summed == pa.int64():
            return values.astype(np.int64) * weights
        dtype = np.float32 if self._summed == pa.float32() else np.float64
        return np.where(weights == 0, 0, values.astype(dtype) * weights.astype(dtype)).astype(dtype)

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        weights = _weights(groups, arguments)
        counts = Numbers(running_sum(groups, weights, initial[1].values))
        if self._decimal:
            return self._scan_decimals(groups, weights, initial, counts, numbers_of(arguments[0]).values)
        return [Numbers(running_sum(groups, self._terms(weights, arguments[0]), initial[0].values)), counts]

    def fold(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        weights = _weights(groups, arguments)
        counts = Numbers(_added(initial[1].values, groups.ids, weights))
        if self._decimal:
            from flott.table._functions.aggregates.accumulation import fold_by_scan

            return fold_by_scan(self, groups, initial, arguments)
        return [Numbers(_added(initial[0].values, groups.ids, self._terms(weights, arguments[0]))), counts]

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        counts = Numbers(_added(initial[1].values, groups.ids, partial[1].values))
        if not self._decimal:
            return [Numbers(_added(initial[0].values, groups.ids, partial[0].values)), counts]
        totals = _totals(initial)
        for group, part in zip(groups.ids.tolist(), _totals(partial), strict=True):
            totals[group] += part
        sums, carries = _held(totals)
        return [sums, counts, carries]

    def _scan_decimals(self, groups: Groups, weights: Ints, initial: State, counts: Numbers, values: Ints) -> State:
        if _small(values) and _small(initial[0].values) and not initial[2].values.any():
            largest = _largest(values[:, 0]) * _largest(weights) * len(values)
            if max(largest, _largest(initial[0].values[:, 0])) < 1 << 62:
                sums = running_sum(groups, values[:, 0] * weights, initial[0].values[:, 0])
                return [Numbers(np.stack([sums, sums >> 63], axis=1)), counts, Numbers(np.zeros_like(sums))]
        return self._scan_wide(groups, weights, initial, counts, values)

    def _scan_wide(self, groups: Groups, weights: Ints, initial: State, counts: Numbers, values: Ints) -> State:
        """Add up decimals of more than 64 bits, as integers of Python."""
        totals = _totals(initial)
        found: list[int] = []
        for group, weight, value in zip(groups.ids.tolist(), weights.tolist(), _integers(values), strict=True):
            if weight:
                totals[group] += weight * value
            found.append(totals[group])
        sums, carries = _held(found)
        return [sums, counts, carries]

    def present(self, state: State) -> Ints:
        """Return which sums are there: those of something, that fit into their type."""
        there = state[1].values > 0
        return there & (state[2].values == 0) if self._decimal else there

    def result(self, state: State) -> pa.Array:
        return _cast_sum(Numbers(state[0].values, self.present(state)), self._summed, self.result_type)


class SummedFromZero(Summed):
    """$SUM0: the sum, which is 0 where there is nothing to add up."""

    def present(self, state: State) -> Ints:
        return state[2].values == 0 if self._decimal else np.ones(len(state[0].values), np.bool_)


def _cast_sum(sums: Numbers, summed: pa.DataType, result: LogicalType) -> pa.Array:
    """Return sums in the type of the result: integers wrap around, as they do in Flink."""
    wanted = arrow_type(result)
    if isinstance(result, IntegerType):
        dtype = np.dtype(wanted.to_pandas_dtype())
        return array_of(Numbers(sums.values.astype(dtype), sums.valid), wanted)
    if pa.types.is_decimal(summed) and pa.types.is_decimal(wanted) and wanted != summed:
        there = np.ones(len(sums.values), np.bool_) if sums.valid is None else sums.valid
        return _decimal_quotients(sums.values, np.ones(len(sums.values), np.int64), there, summed.scale, wanted)
    if pa.types.is_decimal(summed):
        return array_of(sums, summed)
    if pa.types.is_duration(wanted) or pa.types.is_integer(wanted):
        return array_of(Numbers(sums.values.astype(np.int64), sums.valid), pa.int64()).cast(wanted, safe=False)
    return array_of(sums, wanted)


class Averaged(Summed):
    """AVG: the quotient of sum and count, which is cut off for integers."""

    def __init__(self, argument: LogicalType, result: LogicalType):
        super().__init__(argument, result, wide=True)

    def result(self, state: State) -> pa.Array:
        valid, counts = self.present(state), np.maximum(state[1].values, 1)
        wanted = arrow_type(self.result_type)
        if self._decimal:
            return _decimal_quotients(state[0].values, counts, valid, self._summed.scale, wanted)
        if self._summed == pa.int64():
            return array_of(Numbers(quotient(state[0].values, counts).astype(wanted.to_pandas_dtype()), valid), wanted)
        return array_of(Numbers((state[0].values / counts).astype(wanted.to_pandas_dtype()), valid), wanted)


def quotient(dividends: Ints, divisors: Ints) -> Ints:
    """Return integers divided and cut off towards zero."""
    found = np.abs(dividends) // divisors
    return np.where(dividends < 0, -found, found)


def _decimal_quotients(sums: Ints, counts: Ints, valid: Ints, scale: int, wanted: pa.DataType) -> pa.Array:
    """Return sums divided by counts; null where there is none, or where it has too many digits for its type."""
    found: list[Decimal | None] = []
    exponent = Decimal(1).scaleb(-wanted.scale)
    for total, count, there in zip(_integers(sums), counts.tolist(), valid.tolist(), strict=True):
        if not there:
            found.append(None)
            continue
        value = _EXACT.divide(Decimal(total).scaleb(-scale, _EXACT), Decimal(count))
        found.append(_fitting(value.quantize(exponent, ROUND_HALF_UP, _EXACT), wanted))
    return pa.array(found, wanted)


def _fitting(value: Decimal, wanted: pa.DataType) -> Decimal | None:
    """Return a value that has the scale of a type, or None if it has too many digits for it."""
    return value if value.adjusted() < wanted.precision - wanted.scale else None


class Spread(Accumulation):
    """The family of VARIANCE and STDDEV: counts, sums and sums of squares."""

    def __init__(self, argument: LogicalType, result: LogicalType, *, sample: bool, root: bool):
        self.result_type, self._sample, self._root = result, sample, root
        self._whole = isinstance(argument, IntegerType)
        kind = pa.int64() if self._whole else pa.float64()
        self.fields = (pa.field("sum", kind, nullable=False), pa.field("squares", kind, nullable=False), _COUNT)

    def _terms(self, groups: Groups, arguments: Sequence[pa.Array]) -> tuple[Ints, Ints, Ints]:
        weights = _weights(groups, arguments)
        if self._whole:
            values = numbers_of(arguments[0]).values.astype(np.int64)
        else:
            values = np.nan_to_num(np.asarray(arguments[0].cast(pa.float64()).fill_null(0.0)), nan=np.nan)
        signs = weights if self._whole else weights.astype(np.float64)
        return values * signs, values * values * signs, weights

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        terms = self._terms(groups, arguments)
        return [Numbers(running_sum(groups, term, held.values)) for term, held in zip(terms, initial, strict=True)]

    def fold(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        terms = self._terms(groups, arguments)
        return [Numbers(_added(held.values, groups.ids, term)) for term, held in zip(terms, initial, strict=True)]

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        return [
            Numbers(_added(held.values, groups.ids, part.values)) for held, part in zip(initial, partial, strict=True)
        ]

    def result(self, state: State) -> pa.Array:
        sums, squares, counts = (column.values for column in state)
        least = 2 if self._sample else 1
        valid = counts >= least
        divisor = np.maximum(counts - (least - 1), 1)
        some = np.maximum(counts, 1)
        wanted = arrow_type(self.result_type)
        if self._whole:
            found: Any = quotient(squares - quotient(sums * sums, some), divisor)
        else:
            found = (squares - sums * sums / some) / divisor
        if self._root:
            found = np.sqrt(np.maximum(found, 0))
        if pa.types.is_decimal(wanted):
            texts = [f"{value:.{wanted.scale}f}" if there else None for value, there in zip(found, valid, strict=True)]
            return pa.array([None if text is None else _fitting(Decimal(text), wanted) for text in texts], wanted)
        return array_of(Numbers(found.astype(wanted.to_pandas_dtype()), valid), wanted)


# --- integers of 128 bits --------------------------------------------------------------------------------------------


def _small(values: Ints) -> bool:
    return bool((values[:, 1] == values[:, 0] >> 63).all())


def _largest(values: Ints) -> int:
    """Return the largest magnitude, as an integer of Python: the product of two does not wrap around."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _totals(state: State) -> list[int]:
    """Return the sums of decimals, however large."""
    return [
        total + carry * _LIMIT
        for total, carry in zip(_integers(state[0].values), state[2].values.tolist(), strict=True)
    ]


def _held(totals: list[int]) -> tuple[Numbers, Numbers]:
    """Return sums as what a decimal of 38 digits holds of them, and how many times 10**38 is missing."""
    carries = [abs(total) // _LIMIT * (1 if total > 0 else -1) for total in totals]
    rests = [total - carry * _LIMIT for total, carry in zip(totals, carries, strict=True)]
    return Numbers(_pairs(rests)), Numbers(np.array(carries, np.int64))


def _integers(values: Ints) -> list[int]:
    """Return pairs of 64 bits as integers of Python."""
    return [(high << 64) | (low & _MASK) for low, high in values.tolist()]


def _pairs(values: list[int]) -> Ints:
    """Return integers of Python as pairs of 64 bits."""
    found = np.empty((len(values), 2), np.int64)
    for place, value in enumerate(values):
        low = value & _MASK
        found[place, 0] = low - (1 << 64) if low >> 63 else low
        found[place, 1] = value >> 64
    return found
