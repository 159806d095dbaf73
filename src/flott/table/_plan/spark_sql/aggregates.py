"""Aggregate functions as Spark SQL, with the result types of Flink: SUM and AVG of integers are integers."""

from __future__ import annotations

from collections.abc import Sequence

from flott.table._plan.logical import AggregateCall, Schema
from flott.table._plan.spark_sql.query import NotExpressible
from flott.table._plan.spark_sql.types import constant, is_approximate, spark_type
from flott.table._types.logical import DecimalType, DoubleType, IntegerType, LogicalType

_RANKS = {"ROW_NUMBER": "row_number()", "RANK": "rank()", "DENSE_RANK": "dense_rank()"}

#: Sums of more digits would overflow in other rows than ours.
_MOST_DIGITS = 38


def aggregate(call: AggregateCall, columns: Sequence[str], schema: Schema, over: str = "") -> str:
    """Return a call over columns of the input; ``over`` is the text of its window."""
    if call.user is not None or call.literals or call.order:
        raise NotExpressible(f"the aggregate {call.function}")
    arguments = [columns[place] for place in call.arguments]
    types = [schema.types[place] for place in call.arguments]
    condition = "" if call.filter is None else f" FILTER (WHERE {columns[call.filter]})"
    return f"CAST({_value(call, arguments, types, condition + over)} AS {spark_type(call.type)})"


def _value(call: AggregateCall, arguments: Sequence[str], types: Sequence[LogicalType], suffix: str) -> str:
    distinct = "DISTINCT " if call.distinct else ""
    name = call.function.upper()
    if call.distinct and any(map(is_approximate, types)):
        raise NotExpressible("different values of numbers that may be NaN")
    match name:
        case "COUNT":
            return f"count({distinct}{', '.join(arguments)}){suffix}" if arguments else f"count(1){suffix}"
        case "MIN" | "MAX" if not is_approximate(types[0]):
            return f"{name.lower()}({arguments[0]}){suffix}"
        case "SUM" | "$SUM0" | "SUM0":
            total = _sum(f"{distinct}{arguments[0]}", types[0], suffix)
            return total if name == "SUM" else f"coalesce({total}, {constant(0, types[0])})"
        case "AVG":
            return _average(f"{distinct}{arguments[0]}", types[0], suffix)
        case "SINGLE_VALUE" if not is_approximate(types[0]):
            several = f"CAST(raise_error('A subquery gave more than one row') AS {spark_type(call.type)})"
            return f"if(count(1){suffix} > 1, {several}, max({arguments[0]}){suffix})"
    raise NotExpressible(f"the aggregate {call.function}({', '.join(of.root_text for of in types)})")


def _sum(argument: str, of: LogicalType, suffix: str) -> str:
    match of:
        case IntegerType():
            return f"CAST(sum({argument}){suffix} AS {of.root_text})"  # it wraps around, as ours
        case DoubleType():
            return f"sum({argument}){suffix}"
        case DecimalType():
            return f"CAST(sum({argument}){suffix} AS DECIMAL({_MOST_DIGITS}, {of.scale}))"
    raise NotExpressible(f"a sum of {of.root_text}")


def _average(argument: str, of: LogicalType, suffix: str) -> str:
    match of:
        case IntegerType():
            return f"(sum({argument}){suffix} div count({argument}){suffix})"
        case DoubleType():
            return f"avg({argument}){suffix}"
        case DecimalType():
            return f"({_sum(argument, of, suffix)} / CAST(count({argument}){suffix} AS DECIMAL(20, 0)))"
    raise NotExpressible(f"an average of {of.root_text}")


def over_call(call: AggregateCall, columns: Sequence[str], schema: Schema, ranks: str, framed: str) -> str:
    """Return a call over a window: ``ranks`` is the window without a frame, ``framed`` the one with it."""
    rank = _RANKS.get(call.function.upper())
    if rank is not None:
        return f"CAST({rank}{ranks} AS {spark_type(call.type)})"
    if call.distinct:
        raise NotExpressible(f"{call.function}(DISTINCT ...) OVER")
    return aggregate(call, columns, schema, framed)
