"""RAND, RAND_INTEGER and UUID. With a seed the numbers are those of ``java.util.Random``, as in Flink."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from flott.table._functions.argument_checks import EvaluationError, check, no_arguments
from flott.table._functions.decimals import both_valid, valid_mask
from flott.table._functions.function import CallArguments, Datum, Function, KernelCall, Session
from flott.table._types.logical import DOUBLE, INT, STRING, Family, LogicalType

_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1
_INTEGER = (Family.INTEGER,)

#: Tells calls of one process apart that have the seed of the session in common.
_calls = count()


def _generator(session: Session) -> np.random.Generator:
    return np.random.default_rng([session.seed & (2**63 - 1), next(_calls)])


def _scrambled(seeds: Any) -> Any:
    return (np.asarray(seeds, dtype=np.int64).astype(np.uint64) ^ np.uint64(_MULTIPLIER)) & np.uint64(_MASK)


def _following(states: Any) -> Any:
    return (states * np.uint64(_MULTIPLIER) + np.uint64(_INCREMENT)) & np.uint64(_MASK)


def _sequence(seed: int, length: int) -> Any:
    """Return the first states of a generator: the recurrence, written as a sum so that numpy computes all at once."""
    powers = np.full(length + 1, _MULTIPLIER, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(powers[:-1], dtype=np.uint64)])
    states = powers * _scrambled([seed])[0] + sums * np.uint64(_INCREMENT)
    return states[1:] & np.uint64(_MASK)


def _doubles(first: Any, second: Any) -> Any:
    high, low = first >> np.uint64(22), second >> np.uint64(21)
    return ((high << np.uint64(27)) + low).astype(np.float64) * 2.0**-53


def _bounded(states: Any, bounds: Any) -> Any:
    """Return integers below the bounds. (Java draws again for the last few of 2**31 numbers.)"""
    bits = (states >> np.uint64(17)).astype(np.int64)
    powers = (bounds & -bounds) == bounds
    return np.where(powers, (bounds * bits) >> 31, bits % bounds)


# --- kernels ---------------------------------------------------------------------------------------------------------


def _rand(call: KernelCall) -> Datum:
    if not call.arguments:
        return pa.array(_generator(call.session).random(call.length))
    if call.is_constant(0):
        seed = call.constant(0)
        if seed is None:
            return pa.scalar(None, pa.float64())
        states = _sequence(seed ^ call.session.seed, 2 * call.length)
        return pa.array(_doubles(states[0::2], states[1::2]))
    column = call.column(0)
    first = _following(_scrambled(_filled(column)))
    return _column(_doubles(first, _following(first)), [column], pa.float64())


def _filled(column: pa.Array) -> Any:
    return column.cast(pa.int64()).fill_null(1).to_numpy(zero_copy_only=False)


def _column(values: Any, sources: Sequence[pa.Array], of: pa.DataType) -> pa.Array:
    valid = None
    for source in sources:
        valid = both_valid(valid, valid_mask(source))
    return pa.array(values, type=of, mask=None if valid is None else ~valid)


def _rand_integer(call: KernelCall) -> Datum:
    last = len(call.arguments) - 1
    column = call.column(last)
    bounds = _filled(column)
    if bool((bounds <= 0).any()):
        raise EvaluationError("RAND_INTEGER needs a bound that is greater than 0.")
    if last == 0:
        return _column(_generator(call.session).integers(0, bounds).astype(np.int32), [column], pa.int32())
    seeds = call.column(0)
    if call.is_constant(0) and call.constant(0) is not None:
        states = _sequence(call.constant(0) ^ call.session.seed, call.length)
    else:
        states = _following(_scrambled(_filled(seeds)))
    return _column(_bounded(states, bounds).astype(np.int32), [column, seeds], pa.int32())


_HEX = np.frombuffer(bytes(f"{''.join(f'{n:02x}' for n in range(256))}", "ascii"), dtype=np.uint16)
_DASHES = (8, 13, 18, 23)


def _uuid(call: KernelCall) -> pa.Array:
    raw = _generator(call.session).integers(0, 256, size=(call.length, 16), dtype=np.uint8)
    raw[:, 6] = (raw[:, 6] & 0x0F) | 0x40
    raw[:, 8] = (raw[:, 8] & 0x3F) | 0x80
    digits = _HEX[raw].view(np.uint8).reshape(call.length, 32)
    text = np.full((call.length, 36), ord("-"), dtype=np.uint8)
    text[:, [place for place in range(36) if place not in _DASHES]] = digits
    offsets = np.arange(call.length + 1, dtype=np.int32) * 36
    return pa.Array.from_buffers(pa.string(), call.length, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _rand_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "nothing, or a seed (INT)", _INTEGER, least=0)
    return DOUBLE.as_nullable(arguments.nullable)


def _rand_integer_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a bound, or a seed and a bound (INT)", _INTEGER, _INTEGER, least=1)
    return INT.as_nullable(arguments.nullable)


def _integers(arguments: CallArguments) -> tuple[LogicalType, ...]:
    return tuple(INT for _ in arguments.types)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "RAND",
        _rand_type,
        _rand,
        coerce=_integers,
        deterministic=False,
        per_row=True,
        family="arithmetic",
        syntax="RAND([int])",
        description="Returns a random DOUBLE that is at least 0 and less than 1; equal seeds give equal sequences.",
    ),
    Function(
        "RAND_INTEGER",
        _rand_integer_type,
        _rand_integer,
        coerce=_integers,
        deterministic=False,
        per_row=True,
        may_fail=True,
        family="arithmetic",
        syntax="RAND_INTEGER([int1, ]int2)",
        description="Returns a random INT that is at least 0 and less than int2; equal seeds give equal sequences.",
    ),
    Function(
        "UUID",
        no_arguments(STRING),
        _uuid,
        deterministic=False,
        per_row=True,
        family="arithmetic",
        syntax="UUID()",
        description="Returns a random UUID (RFC 4122, type 4) as a text.",
    ),
)
