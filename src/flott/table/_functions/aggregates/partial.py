"""Partial accumulators between the phases of an aggregation: keys, the number of rows, and all states as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from flott.errors import ProgramError
from flott.table._functions.aggregates.accumulation import (
    Accumulation,
    Ints,
    Numbers,
    State,
    array_of,
    fixed_dtype,
    numbers_of,
)
from flott.table._functions.aggregates.library import make_accumulation
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import (
    BigIntType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    LogicalType,
    VarBinaryType,
)

if TYPE_CHECKING:
    from flott.table._plan.logical import AggregateCall, Schema

_TYPES: dict[pa.DataType, LogicalType] = {
    pa.int64(): BigIntType(),
    pa.bool_(): BooleanType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.binary(): VarBinaryType(2147483647),
}


def in_two_phases(calls: Sequence[AggregateCall]) -> bool:
    """Return whether calls can be aggregated before the exchange: values of DISTINCT must meet first."""
    from flott.table._functions.aggregates.user_aggregates import can_merge

    return not any(call.distinct for call in calls) and all(
        call.user is None or can_merge(call.user) for call in calls
    )


def partial_schema(input: Schema, keys: Sequence[int], calls: Sequence[AggregateCall], *, retracts: bool) -> Schema:
    """Return the columns that the first phase sends to the second."""
    from flott.table._plan.logical import Schema

    names, types = ["$rows"], [BigIntType(nullable=False)]
    for number, call in enumerate(calls):
        arguments = tuple(input.types[index] for index in call.arguments)
        for field in make_accumulation(call, arguments, retracts=retracts).fields:
            names.append(f"${number}.{field.name}")
            types.append(_logical(field.type, arguments))  # type: ignore[arg-type]
    return input.pick(tuple(keys)) + Schema(tuple(names), tuple(types))


def _logical(of: pa.DataType, arguments: Sequence[LogicalType]) -> LogicalType:
    for argument in arguments:
        if arrow_type(argument) == of:
            return argument.as_nullable()
    if pa.types.is_decimal(of):
        return DecimalType(of.precision, of.scale)
    if of not in _TYPES:
        raise ProgramError(f"Partial accumulators of type {of} cannot be sent.")
    return _TYPES[of]


def partial_columns(counts: Ints, states: Sequence[State], accumulations: Sequence[Accumulation]) -> list[pa.Array]:
    """Return the columns behind the keys: the number of rows, then the states."""
    columns = [pa.array(counts)]
    for of, state in zip(accumulations, states, strict=True):
        for field, column in zip(of.fields, state, strict=True):
            columns.append(array_of(column, field.type) if isinstance(column, Numbers) else column)
    return columns


def partial_states(
    columns: pa.RecordBatch, keys: int, accumulations: Sequence[Accumulation]
) -> tuple[Ints, list[State]]:
    """Return the number of rows and the states that partial columns hold."""
    place = keys + 1
    states: list[State] = []
    for of in accumulations:
        state: State = []
        for field in of.fields:
            column = columns.column(place)
            state.append(numbers_of(column) if fixed_dtype(field.type) is not None else column)
            place += 1
        states.append(state)
    return numbers_of(columns.column(keys)).values, states
