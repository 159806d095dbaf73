"""Aggregate functions of users: general ones row by row, and those of pandas with all values of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flott.table._expressions.expression import UserFunction
from flott.table._functions.aggregates.objects import ObjectFunction, Objects, OrderedValues
from flott.table._functions.python_functions import current_scope
from flott.table._functions.python_values import arrow_column, python_column
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType


def can_merge(user: UserFunction) -> bool:
    """Return whether a function says how accumulators are merged: PyFlink's root class only refuses it."""
    merge = getattr(type(user.function), "merge", None)
    return user.style == "pandas" or (
        merge is not None and not merge.__qualname__.startswith("ImperativeAggregateFunction.")
    )


class UserAccumulation(Objects):
    """The accumulators of a function of a user. Values are in the classes that PyFlink gives functions."""

    def __init__(
        self, user: UserFunction, types: Sequence[LogicalType], result: LogicalType, literals: tuple[Any, ...] = ()
    ):
        function = _InPandas(user, types, result) if user.style == "pandas" else _General(user)
        super().__init__(function, result)
        self._user, self._types, self._result, self._literals = user, types, result, literals

    def _rows(self, arguments: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        current_scope().open(self._user.function)
        columns = [python_column(argument, of) for argument, of in zip(arguments, self._types, strict=True)]
        columns += [[value] * count for value in self._literals]
        return list(zip(*columns, strict=True)) if columns else [()] * count

    def _array(self, values: list[Any]) -> pa.Array:
        return arrow_column(values, self._result)

    def result(self, state: Any) -> pa.Array:
        current_scope().open(self._user.function)
        return super().result(state)


class _General(ObjectFunction):
    """PyFlink's ``AggregateFunction``."""

    def __init__(self, user: UserFunction):
        self._function = user.function

    def create(self) -> Any:
        return self._function.create_accumulator()

    def value(self, held: Any) -> Any:
        return self._function.get_value(held)

    def accumulate(self, held: Any, *values: Any) -> Any:
        self._function.accumulate(held, *values)

    def retract(self, held: Any, *values: Any) -> Any:
        self._function.retract(held, *values)

    def merge(self, held: Any, others: list[Any]) -> Any:
        self._function.merge(held, others)


class _InPandas(OrderedValues):
    """A function over the Series of a group, whose rows are kept."""

    def __init__(self, user: UserFunction, types: Sequence[LogicalType], result: LogicalType):
        super().__init__(self._called, nulls=True)
        self._function = user.function
        self._types = [arrow_type(of) for of in types]

    def _called(self, held: list[Any]) -> Any:
        rows = held if len(self._types) != 1 else [(value,) for value in held]
        series = [
            pa.array([row[place] for row in rows], of).to_pandas() for place, of in enumerate(self._types)
        ]
        accumulator = self._function.create_accumulator()
        self._function.accumulate(accumulator, *series)
        value = self._function.get_value(accumulator)
        return value.item() if hasattr(value, "item") else value
