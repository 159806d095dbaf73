"""Generates rows as columns: each value is a function of the field and of the row's number. Driver and task side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from flott.datastream.connectors.base import ColumnRecords, Slice, SlicePlan, SliceRequest, SourceReader
from flott.runtime.connectors.columns.rows import batch_of
from flott.runtime.connectors.datagen import DataGeneratorEnumerator
from flott.table._connectors.datagen import DEFAULT_COLLECTION_LENGTH, DEFAULT_TEXT_LENGTH, DatagenSource, FieldPlan
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema, arrow_type
from flott.table._types.record_types import TableRowTypeInfo

_BATCH_ROWS = 32 * 1024
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_DAY_MS = 24 * 60 * 60 * 1000

Numbers = np.ndarray[Any, Any]


class GeneratedRowsEnumerator(DataGeneratorEnumerator):
    """Says which rows are due; slices carry the epoch's time, because timestamps are of the present."""

    def plan(self, request: SliceRequest) -> SlicePlan:
        plan = super().plan(request)
        slices = tuple(replace(part, detail={**part.detail, "now_ms": request.now_ms}) for part in plan.slices)
        return replace(plan, slices=slices)


class GeneratedRowsReader(SourceReader[Any]):
    """Makes the rows of a slice."""

    def __init__(self, source: DatagenSource):
        self._source = source
        self._record_type = TableRowTypeInfo(source.names, source.types)
        self._schema = arrow_schema(source.names, source.types)

    def read(self, part: Slice) -> Iterator[Any]:
        raise NotImplementedError("Rows of a table are read as columns.")

    def read_batches(self, part: Slice) -> Iterator[ColumnRecords]:
        stride = part.detail["stride"]
        for first in range(part.start, part.stop, _BATCH_ROWS * stride):
            last = min(part.stop, first + _BATCH_ROWS * stride)
            rows = np.arange(first, last, stride, dtype=np.int64)
            arrays = [generated(plan, rows, part.detail["now_ms"]) for plan in self._source.fields]
            yield ColumnRecords(batch_of(arrays, self._schema, len(rows)), self._record_type)

    def locate(self, part: Slice, index: int) -> str:
        return f"generated row {part.start + index * part.detail['stride']}"


def mixed(numbers: Numbers) -> Numbers:
    """Return 64 bits that look random for each number (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def generated(plan: FieldPlan, rows: Numbers, now_ms: int) -> pa.Array:
    """Return the values of a field in some rows."""
    seed = np.uint64(crc32(plan.path.encode()) << 32)
    bits = mixed(mixed(rows) ^ seed)
    values = _sequence(plan, rows) if plan.kind == "sequence" else _random(plan, rows, bits, now_ms)
    if plan.null_rate:
        absent = _shares(mixed(bits)) < plan.null_rate
        return values.take(pa.array(np.arange(len(rows)), mask=absent))
    return values


def _shares(bits: Numbers) -> Numbers:
    """Return numbers from 0 to 1."""
    return (bits >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))


def _sequence(plan: FieldPlan, rows: Numbers) -> pa.Array:
    numbers = pa.array(rows + plan.start)
    wanted = arrow_type(plan.type)
    if pa.types.is_decimal(wanted):
        return numbers.cast(pa.decimal128(38, 0)).cast(wanted)
    return numbers.cast(wanted)


def _random(plan: FieldPlan, rows: Numbers, bits: Numbers, now_ms: int) -> pa.Array:
    wanted = arrow_type(plan.type)
    match plan.type:
        case logical.BooleanType():
            return pa.array((bits & np.uint64(1)).astype(bool))
        case logical.IntegerType() | logical.YearMonthIntervalType():
            return pa.array(_whole(plan.low, plan.high, bits)).cast(wanted)
        case logical.DayTimeIntervalType():
            return pa.array(_whole(plan.low, plan.high, bits)).cast(wanted)
        case logical.FloatType() | logical.DoubleType():
            # The difference of the bounds may be infinite; their shares are not.
            share = _shares(bits)
            return pa.array(plan.low * (1 - share) + plan.high * share).cast(wanted)
        case logical.DecimalType():
            return _decimals(plan, bits, wanted)
        case logical.CharType() | logical.VarCharType():
            return _texts(plan, bits)
        case logical.BinaryType() | logical.VarBinaryType():
            return _byte_strings(plan, bits)
        case logical.DateType():
            past = (_shares(bits) * (plan.max_past_ms + 1)).astype(np.int64)
            return pa.array(((now_ms - past) // _DAY_MS).astype(np.int32)).cast(wanted)
        case logical.TimeType():
            return pa.array((_shares(bits) * _DAY_MS).astype(np.int32)).cast(wanted)
        case logical.TimestampType() | logical.LocalZonedTimestampType():
            past = (_shares(bits) * (plan.max_past_ms + 1)).astype(np.int64)
            return pa.array(now_ms - past).cast(pa.timestamp("ms", tz=wanted.tz)).cast(wanted)
    return _collections(plan, rows, now_ms)


def _whole(low: int, high: int, bits: Numbers) -> Numbers:
    """Return whole numbers of a range, both ends included."""
    size = high - low + 1
    with np.errstate(over="ignore"):
        offsets = bits if size >= 1 << 64 else bits % np.uint64(size)
        return (offsets + np.uint64(low & ((1 << 64) - 1))).astype(np.int64)


def _decimals(plan: FieldPlan, bits: Numbers, wanted: pa.Decimal128Type) -> pa.Array:
    unit = 10**wanted.scale
    low, high = round(plan.low * unit), round(plan.high * unit)
    if high - low < 1 << 63 and abs(low) < 1 << 62:
        numbers: list[int] = _whole(low, high, bits).tolist()
    else:
        limit = 10**wanted.precision - 1
        numbers = [max(-limit, min(limit, int(low + (high - low) * share))) for share in _shares(bits).tolist()]
    # Decimals have no numpy form: their 128 bits are written as two numbers.
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(wanted, len(numbers), [None, pa.py_buffer(data)])


def _lengths(plan: FieldPlan, bits: Numbers, longest: int) -> Numbers:
    if not plan.variable:
        return np.full(len(bits), longest, dtype=np.int64)
    return (mixed(bits ^ np.uint64(1)) % np.uint64(longest) + np.uint64(1)).astype(np.int64)


def _longest(plan: FieldPlan) -> int:
    declared = plan.type.length  # type: ignore[attr-defined]
    fixed = isinstance(plan.type, logical.CharType | logical.BinaryType)
    if plan.length is not None:
        return min(plan.length, declared) if not fixed else int(declared)
    return int(declared) if declared != logical.UNLIMITED else DEFAULT_TEXT_LENGTH


def _random_bytes(lengths: Numbers, bits: Numbers) -> tuple[Numbers, Numbers]:
    """Return random bytes for each row, one after the other, and where each row's begin."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    words = (lengths + 7) // 8
    owner = np.repeat(np.arange(len(lengths)), words)
    within = np.arange(int(words.sum())) - np.repeat(np.cumsum(words) - words, words)
    data = mixed(bits[owner] + within.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.uint8)
    if (lengths % 8 == 0).all():
        return data, offsets
    place = np.arange(len(data)) - np.repeat((np.cumsum(words) - words) * 8, words * 8)
    return data[place < np.repeat(lengths, words * 8)], offsets


def _texts(plan: FieldPlan, bits: Numbers) -> pa.Array:
    data, offsets = _random_bytes(_lengths(plan, bits, _longest(plan)), bits)
    letters = _HEX[data & 15]
    return pa.Array.from_buffers(pa.string(), len(bits), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def _byte_strings(plan: FieldPlan, bits: Numbers) -> pa.Array:
    data, offsets = _random_bytes(_lengths(plan, bits, _longest(plan)), bits)
    content = np.ascontiguousarray(data)
    return pa.Array.from_buffers(pa.binary(), len(bits), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def _collections(plan: FieldPlan, rows: Numbers, now_ms: int) -> pa.Array:
    wanted = arrow_type(plan.type)
    if isinstance(plan.type, logical.RowType):
        return pa.StructArray.from_arrays(
            [generated(child, rows, now_ms) for child in plan.children], fields=list(wanted)
        )
    length = DEFAULT_COLLECTION_LENGTH if plan.length is None else plan.length
    inner = (rows[:, None] * length + np.arange(length)).reshape(-1)
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * length)
    first = generated(plan.children[0], inner, now_ms)
    match plan.type:
        case logical.ArrayType():
            return pa.ListArray.from_arrays(offsets, first)
        case logical.MapType():
            return pa.MapArray.from_arrays(offsets, first, generated(plan.children[1], inner, now_ms))
    counts = pa.array(np.ones(len(inner), dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, first, counts)
