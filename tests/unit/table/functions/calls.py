"""Calls of functions with plain values: type inference, coercion of NULL, and the kernel, over columns or constants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flott.table._functions.function import CallArguments, KernelCall, Session
from flott.table._functions.registry import function_named
from flott.table._types import logical
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType


def type_of(value: Any) -> LogicalType:
    """Return the type that the tests give a plain value."""
    match value:
        case None:
            return logical.STRING
        case bool():
            return logical.BOOLEAN
        case int():
            return logical.INT
        case float():
            return logical.DOUBLE
        case bytes():
            return logical.BYTES
        case list():
            return logical.ArrayType(type_of(next((one for one in value if one is not None), "")))
        case dict():
            return logical.MapType(type_of(next(iter(value))), type_of(next(iter(value.values()))))
    return logical.STRING


def result_type(name: str, *types: LogicalType) -> LogicalType:
    """Return the type of a call's result."""
    function = function_named(name)
    assert function is not None, name
    return function.infer(CallArguments(name, types, (None,) * len(types), (False,) * len(types)))


def called(
    name: str, *values: Any, types: tuple[LogicalType, ...] | None = None, column: bool = True, only: int | None = None
) -> Any:
    """Return the result of a call for one row. Arguments are columns of three equal rows, or constants.

    With ``only`` one argument is a column, which is how functions are called most.
    """
    function = function_named(name)
    assert function is not None, name
    types = types or tuple(type_of(value) for value in values)
    call = CallArguments(name, types, values, (True,) * len(types))
    result = function.infer(call)
    types = (function.coerce(call) if function.coerce else None) or types
    arguments = [
        _argument(value, of, column if only is None else only == place)
        for place, (value, of) in enumerate(zip(values, types, strict=True))
    ]
    answer = function.kernel(KernelCall(arguments, types, result, 3, Session()))
    assert answer.type == arrow_type(result), (name, answer.type, result)
    if isinstance(answer, pa.Scalar):
        return plain(answer.as_py())
    rows = [plain(one) for one in answer.to_pylist()]
    assert len(rows) == 3
    assert rows[0] == rows[1] == rows[2]
    return rows[0]


def _argument(value: Any, of: LogicalType, column: bool) -> Any:
    wanted = arrow_type(of)
    if isinstance(value, dict):
        value = list(value.items())
    if column and not isinstance(of, logical.SymbolType):
        return pa.array([value] * 3, type=wanted)
    return pa.scalar(value, type=wanted)


def plain(value: Any) -> Any:
    """Return maps, which Arrow shows as lists of pairs, as dicts."""
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return {key: plain(one) for key, one in value}
    return [plain(one) for one in value] if isinstance(value, list) else value
