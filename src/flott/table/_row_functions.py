"""Calls of Python functions that a program passes to a table without arguments: they get whole rows or all columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table._sql import nodes as ast
from flott.table._types.logical import RowType
from flott.table.expression import Expression
from flott.table.udf import FunctionContext, UserDefinedFunction, UserDefinedFunctionWrapper


def called_with_columns(func: Any, row_type: RowType) -> Expression[Any]:
    """Return a call; a function that has no arguments yet gets each column as one."""
    if isinstance(func, Expression):
        return func
    if isinstance(func, UserDefinedFunctionWrapper):
        found: Expression[Any] = func(*(Expression(ast.SqlColumnReference((name,))) for name in row_type.names))
        return found
    raise ProgramError(f"Found {func!r}, expected the call of a Python function, made with udf, udtf, udaf or udtaf")


def called_with_rows(func: Any, row_type: RowType) -> Expression[Any]:
    """Return a call; a function that has no arguments yet gets a Row, a pandas one a DataFrame."""
    call = called_with_columns(func, row_type)
    if isinstance(func, Expression):
        return call
    node = call.node
    assert isinstance(node, ast.SqlFunctionCall)
    function = func.user_function
    taking = FromFrame if function.style == "pandas" else FromRow
    of_columns = replace(function, function=taking(function.function, row_type.names), argument_types=None)
    return Expression(replace(node, function=of_columns), call.aliases)


class FromRow(UserDefinedFunction):
    """A function of columns that calls one of a Row with the columns as its fields."""

    def __init__(self, function: Any, names: tuple[str, ...]) -> None:
        self._function = function
        self._evaluate = getattr(function, "eval", function)
        self._names = names

    def open(self, function_context: FunctionContext) -> None:
        if isinstance(self._function, UserDefinedFunction):
            self._function.open(function_context)

    def close(self) -> None:
        if isinstance(self._function, UserDefinedFunction):
            self._function.close()

    def eval(self, *values: Any) -> Any:
        """Call the function for the columns of one row."""
        row = Row(*values)
        row.set_field_names(list(self._names))
        return self._evaluate(row)


class FromFrame(FromRow):
    """A function of Series that calls one of a DataFrame with them as its columns."""

    def eval(self, *columns: Any) -> Any:
        """Call the function for the columns of a batch."""
        import pandas as pd  # type: ignore[import-untyped]

        return self._evaluate(pd.DataFrame(dict(zip(self._names, columns, strict=True))))
