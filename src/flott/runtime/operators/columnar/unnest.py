"""Joins each row with the rows made of it: UNNEST of a collection, or a table function in Python. Task side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.common.types import Row
from flott.errors import ProgramError
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._expressions.compiled import compile_expressions
from flott.table._expressions.expression import Call, UserCall
from flott.table._functions.function import KernelCall, Session
from flott.table._functions.nested import lists_of
from flott.table._functions.python_functions import argument_rows, current_scope
from flott.table._functions.python_values import arrow_column
from flott.table._plan.operations import Unnest
from flott.table._types import logical
from flott.table._types.logical import LogicalType

#: For each made row the input row that it belongs to, and the columns of the made rows.
Made = tuple[np.ndarray[Any, np.dtype[np.int64]], list[pa.Array]]


class UnnestOperator(ColumnarOperator):
    """Appends the columns of the made rows to the input's. A made row has the kind of its input row."""

    immediate = True

    def __init__(self, context: OperatorContext, operation: Unnest):
        super().__init__(context, operation, [operation.input])
        assert isinstance(operation.call, Call | UserCall)
        self._call: Call | UserCall = operation.call
        self._outer = operation.outer
        self._arguments = compile_expressions(self._call.arguments)
        self._condition = None if operation.condition is None else compile_expressions([operation.condition])
        self._types = operation.output.types[len(operation.input.types) :]

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        size = len(changes)
        if not size:
            return
        arguments = self._arguments.evaluate(changes.columns, self.session)
        if isinstance(self._call, UserCall):
            rows, made = _called(self._call, arguments, size, self._types, self.session)
        else:
            rows, made = _unnested(self._call.arguments[0].type, arguments[0], self._types)
        if self._condition is not None and len(rows):
            columns = [column.take(pa.array(rows)) for column in changes.columns.columns] + made
            batch = pa.RecordBatch.from_arrays(columns, schema=self.output_schema)
            kept = pc.indices_nonzero(self._condition.evaluate(batch, self.session)[0])
            rows, made = rows[kept.to_numpy()], [column.take(kept) for column in made]
        if self._outer:
            rows, made = _with_lonely(rows, made, size)
        if not len(rows):
            return
        chosen = pa.array(rows)
        columns = [column.take(chosen) for column in changes.columns.columns] + made
        self.send(columns, None if changes.kinds is None else changes.kinds[rows])


def _with_lonely(rows: np.ndarray[Any, Any], made: list[pa.Array], size: int) -> Made:
    """Add a row of nulls for each input row that has none, at its place."""
    lonely = np.setdiff1d(np.arange(size), rows)
    if not len(lonely):
        return rows, made
    whole = np.concatenate([rows, lonely])
    order = np.argsort(whole, kind="stable")
    place = pa.array(order, mask=order >= len(rows))
    return whole[order], [column.take(place) for column in made]


def _unnested(of: LogicalType, column: pa.Array, types: Sequence[LogicalType]) -> Made:
    lists = lists_of(column)
    rows, values, ordinals = lists.rows.astype(np.int64), lists.values, lists.places + 1
    if isinstance(of, logical.MultisetType):
        times = pc.fill_null(values.field(1), 0).to_numpy(zero_copy_only=False)
        repeated = np.repeat(np.arange(len(values)), times)
        rows, values = rows[repeated], values.field(0).take(pa.array(repeated))
        starts = np.searchsorted(rows, rows, side="left")
        ordinals = np.arange(len(rows)) - starts + 1
        columns = _columns(of.element, values)
    elif isinstance(of, logical.MapType):
        columns = [values.field(0), values.field(1)]
    else:
        assert isinstance(of, logical.ArrayType), of
        columns = _columns(of.element, values)
    if len(types) == len(columns) + 1:  # WITH ORDINALITY
        columns.append(pa.array(ordinals, type=pa.int32()))
    return rows, columns


def _columns(of: LogicalType, values: pa.Array) -> list[pa.Array]:
    """Return elements as columns: rows field by field, anything else as one column."""
    if isinstance(of, logical.RowType):
        return [pc.struct_field(values, [i]) for i in range(len(of.fields))]
    return [values]


def _called(
    call: UserCall, arguments: list[pa.Array], size: int, types: Sequence[LogicalType], session: Session
) -> Made:
    """Call a table function for each row. It may yield, return an iterable, or return one row or None."""
    function = call.function
    scope = current_scope()
    scope.open(function.function)
    evaluate = getattr(function.function, "eval", function.function)
    given = tuple(argument.type for argument in call.arguments)
    rows: list[int] = []
    found: list[Any] = []
    for index, row in enumerate(argument_rows(function, KernelCall(arguments, given, call.type, size, session))):
        before = len(found)
        found.extend(_rows(evaluate(*row)))
        rows.extend([index] * (len(found) - before))
    width = len(types)
    columns: list[list[Any]] = [[] for _ in types]
    for one in found:
        fields = list(one) if isinstance(one, Row | tuple | list) else [one]
        if len(fields) != width:
            raise ProgramError(f"Table function {function.name} gave {one!r}. Expected a row of {width} values.")
        for column, value in zip(columns, fields, strict=True):
            column.append(value)
    try:
        made = [arrow_column(column, of, session.zone) for column, of in zip(columns, types, strict=True)]
    except (TypeError, ValueError, ArithmeticError, AttributeError, pa.ArrowException) as error:
        raise ProgramError(f"Table function {function.name} gave a value that is not of its type: {error}.") from error
    return np.array(rows, dtype=np.int64), made


def _rows(result: Any) -> Iterable[Any]:
    if result is None:
        return ()
    if isinstance(result, Row | tuple | str | bytes) or not isinstance(result, Iterable):
        return (result,)
    return result
