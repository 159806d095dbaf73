"""Functions in Python for tables: what a user subclasses, and the decorators ``udf``, ``udtf``, ``udaf``, ``udtaf``.

Names and signatures are PyFlink's. A wrapped function knows its ``user_function``, which the planner takes. Types that
are not declared are read from the hints of the function.
"""

from __future__ import annotations

import abc
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from flott.errors import ProgramError
from flott.metrics import MetricGroup
from flott.table._expressions.expression import UserFunction
from flott.table._types import logical
from flott.table._types.inference import type_of_hint
from flott.table._types.logical import LogicalType
from flott.table.types import DataType, logical_type_of

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

T = TypeVar("T")
ACC = TypeVar("ACC")


class FunctionContext:
    """What a function may know of the task that it runs in: metrics, job parameters, and its subtask."""

    def __init__(
        self,
        base_metric_group: MetricGroup | None,
        job_parameters: dict[str, str],
        task_name: str | None = None,
        task_name_with_subtasks: str | None = None,
        number_of_parallel_subtasks: int | None = None,
        max_number_of_parallel_subtasks: int | None = None,
        index_of_this_subtask: int | None = None,
        attempt_number: int | None = None,
    ) -> None:
        self._base_metric_group = base_metric_group
        self._job_parameters = job_parameters
        self._task_name = task_name
        self._task_name_with_subtasks = task_name_with_subtasks
        self._parallelism = number_of_parallel_subtasks
        self._max_parallelism = max_number_of_parallel_subtasks
        self._subtask = index_of_this_subtask
        self._attempt = attempt_number

    def get_metric_group(self) -> MetricGroup:
        """Return the metrics of the subtask."""
        if self._base_metric_group is None:
            raise RuntimeError("There are no metrics here: the function is not called in a task.")
        return self._base_metric_group

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a parameter of the job, or the default if it is not set."""
        return self._job_parameters.get(key, default_value)

    def get_task_name(self) -> str | None:
        """Return the name of the task."""
        return self._task_name

    def get_task_name_with_subtasks(self) -> str | None:
        """Return the name of the task with its subtask, such as ``Calc (1/4)``."""
        return self._task_name_with_subtasks

    def get_number_of_parallel_subtasks(self) -> int | None:
        """Return the number of subtasks."""
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int | None:
        """Return the number of key groups."""
        return self._max_parallelism

    def get_index_of_this_subtask(self) -> int | None:
        """Return the number of the subtask, from 0."""
        return self._subtask

    def get_attempt_number(self) -> int | None:
        """Return how often the epoch was tried before."""
        return self._attempt


# --- what a user subclasses ------------------------------------------------------------------------------------------


class UserDefinedFunction(abc.ABC):  # noqa: B024 (PyFlink's root: subclasses say what is abstract)
    """Common root of functions in Python."""

    def open(self, function_context: FunctionContext) -> None:
        """Get ready: called once in each task before the first call."""

    def close(self) -> None:
        """Release what ``open`` took."""

    def is_deterministic(self) -> bool:
        """Return whether equal arguments always give equal results."""
        return True


class ScalarFunction(UserDefinedFunction):
    """Maps the values of one row to one value."""

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """Return the value for one row."""


class AsyncScalarFunction(UserDefinedFunction):
    """Maps the values of one row to one value, waiting for something else meanwhile."""

    @abc.abstractmethod
    async def eval(self, *args: Any) -> Any:
        """Return the value for one row."""


class TableFunction(UserDefinedFunction):
    """Maps the values of one row to any number of rows."""

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """Yield, or return, the rows for one row."""


class ImperativeAggregateFunction(UserDefinedFunction, Generic[T, ACC]):
    """Common root of aggregate functions: an accumulator takes rows one by one."""

    @abc.abstractmethod
    def create_accumulator(self) -> ACC:
        """Return an accumulator of no rows."""

    @abc.abstractmethod
    def accumulate(self, accumulator: ACC, *args: Any) -> None:
        """Add a row to an accumulator."""

    def retract(self, accumulator: ACC, *args: Any) -> None:
        """Take a row away from an accumulator; needed where rows are updated."""
        raise RuntimeError("Method retract is not implemented")

    def merge(self, accumulator: ACC, accumulators: Any) -> None:
        """Add other accumulators to one; needed for session windows and aggregation in two phases."""
        raise RuntimeError("Method merge is not implemented")

    def get_result_type(self) -> DataType | str:
        """Return the type of the result, if it is not declared."""
        raise RuntimeError("Method get_result_type is not implemented")

    def get_accumulator_type(self) -> DataType | str:
        """Return the type of the accumulator, if it is not declared."""
        raise RuntimeError("Method get_accumulator_type is not implemented")


class AggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """Maps the rows of a group to one value."""

    @abc.abstractmethod
    def get_value(self, accumulator: ACC) -> T:
        """Return the value of an accumulator."""


class TableAggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """Maps the rows of a group to any number of rows."""

    @abc.abstractmethod
    def emit_value(self, accumulator: ACC) -> Iterable[T]:
        """Yield the rows of an accumulator."""


class PandasAggregate(AggregateFunction[Any, list[Any]]):
    """A plain function over the Series of a group, as an aggregate function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def create_accumulator(self) -> list[Any]:
        """Return an accumulator of no values."""
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        """Keep the function's value for the Series of a group."""
        accumulator.append(self.func(*args))

    def get_value(self, accumulator: list[Any]) -> Any:
        """Return the value."""
        return accumulator[0]


# --- wrapped functions -----------------------------------------------------------------------------------------------


class UserDefinedFunctionWrapper:
    """A function ready for tables: call it with columns in the Table API, or register it under a name for SQL."""

    def __init__(self, user_function: UserFunction, func: Any) -> None:
        self._user_function = user_function
        self._func = func
        self._name = user_function.name
        self._alias_names: tuple[str, ...] = ()
        functools.update_wrapper(self, func, updated=())

    @property
    def user_function(self) -> UserFunction:
        """Return what the planner calls."""
        return self._user_function

    @property
    def alias_names(self) -> tuple[str, ...]:
        """Return the names that ``alias`` gave the columns of a table function."""
        return self._alias_names

    def alias(self, *alias_names: str) -> UserDefinedFunctionWrapper:
        """Name the columns of a table function's rows."""
        self._alias_names = alias_names
        return self

    def taking_rows(self) -> UserDefinedFunctionWrapper:
        """Return the function in the form that gets a whole row as its only argument."""
        return UserDefinedFunctionWrapper(replace(self._user_function, takes_rows=True), self._func)

    def __call__(self, *args: Any) -> Any:
        """Return the call of the function as an expression of the Table API."""
        from importlib import import_module

        return import_module("flott.table.expressions").call(self, *args)


def _evaluated(func: Any) -> Callable[..., Any]:
    """Return the callable whose hints say the types."""
    for name in ("eval", "get_value", "emit_value"):
        if isinstance(func, UserDefinedFunction) and hasattr(func, name):
            return typing.cast(Callable[..., Any], getattr(func, name))
    return typing.cast(Callable[..., Any], func)


def _hints(func: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(_evaluated(func))
    except (NameError, TypeError, AttributeError):
        return {}


def _argument_types(func: Any, declared: Any, style: str) -> tuple[LogicalType, ...] | None:
    if declared is not None:
        if isinstance(declared, DataType) and isinstance(declared.logical, logical.RowType):
            return declared.logical.types
        if isinstance(declared, DataType | str | LogicalType | type):
            declared = [declared]
        return tuple(logical_type_of(one) for one in declared)
    if style == "pandas":
        return None
    hints = _hints(func)
    try:
        parameters = inspect.signature(_evaluated(func)).parameters.values()
    except (TypeError, ValueError):
        return None
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(plain) < len(parameters) or not plain or not all(one.name in hints for one in plain):
        return None
    try:
        return tuple(type_of_hint(hints[one.name]) for one in plain)
    except ProgramError:
        return None


def _result(func: Any, declared: Any, name: str, rows: bool = False) -> LogicalType:
    if declared is not None:
        return logical_type_of(declared)
    hint = _hints(func).get("return")
    if hint is None:
        raise ProgramError(f"The result type of function {name} is not known. Declare result_type, or hint the result.")
    if rows:
        inner = typing.get_args(hint)
        hint = inner[0] if inner else hint
    return type_of_hint(hint)


def _columns(result_types: Any) -> Any:
    """Return the declared rows of a table function as one row type; None if they are not declared."""
    if result_types is None or isinstance(result_types, str | LogicalType | DataType | type):
        of = None if result_types is None else logical_type_of(result_types)
        return of if of is None or isinstance(of, logical.RowType) else _row([of])
    return _row([logical_type_of(one) for one in result_types])


def _row(types: Sequence[LogicalType]) -> logical.RowType:
    return logical.RowType(tuple(logical.RowField(f"f{i}", of) for i, of in enumerate(types)))


def _prepared(func: Any, deterministic: bool | None, name: str | None) -> tuple[str, bool]:
    """Return name and determinism of a function; refuse what is none."""
    if inspect.isclass(func) or not (isinstance(func, UserDefinedFunction) or callable(func)):
        raise TypeError(f"Expected a function, or an instance of a function class, found {func!r}.")
    own = func.is_deterministic() if isinstance(func, UserDefinedFunction) else None
    if own is not None and deterministic is not None and own != deterministic:
        raise ValueError(f"deterministic={deterministic} is declared, but is_deterministic() says {own}.")
    shown = name or getattr(func, "__name__", None) or type(func).__name__
    return shown, own if own is not None else deterministic is not False


def _style(func_type: str, allowed: Sequence[str]) -> str:
    if func_type not in allowed:
        raise ValueError(f"The func_type must be one of '{', '.join(allowed)}', got {func_type}.")
    return func_type


def _decorated(make: Callable[[Any], UserDefinedFunctionWrapper], f: Any) -> Any:
    if f is None:
        return make
    return make(f() if inspect.isclass(f) and issubclass(f, UserDefinedFunction) else f)


def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Make a scalar function of a Python function or a ``ScalarFunction``; without ``f`` it is a decorator.

    ``func_type``: ``general`` calls it for each row, ``pandas`` with a Series for each argument, ``arrow`` with an
    Arrow array for each. A coroutine function or an ``AsyncScalarFunction`` is called for many rows at a time.

    >>> @udf(result_type="BIGINT")
    ... def add(a: int, b: int) -> int:
    ...     return a + b
    >>> str(add.user_function.result_type)
    'BIGINT'
    """
    style = _style(udf_type or func_type, ("general", "pandas", "arrow"))

    def make(func: Any) -> UserDefinedFunctionWrapper:
        shown, same = _prepared(func, deterministic, name)
        waits = isinstance(func, AsyncScalarFunction) or inspect.iscoroutinefunction(func)
        if waits and style != "general":
            raise ValueError(f"Function {shown} is asynchronous: its func_type must be 'general', got {style}.")
        arguments = _argument_types(func, input_types, style)
        result = _result(func, result_type, shown)
        return UserDefinedFunctionWrapper(
            UserFunction(shown, func, "scalar", "async" if waits else style, same, arguments, result), func
        )

    return _decorated(make, f)


def udtf(
    f: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a table function, which gives any number of rows for a row; without ``f`` it is a decorator."""

    def make(func: Any) -> UserDefinedFunctionWrapper:
        shown, same = _prepared(func, deterministic, name)
        arguments = _argument_types(func, input_types, "general")
        columns = _columns(result_types)
        if columns is None:
            found = _result(func, None, shown, rows=True)
            columns = found if isinstance(found, logical.RowType) else _row([found])
        return UserDefinedFunctionWrapper(UserFunction(shown, func, "table", "general", same, arguments, columns), func)

    return _decorated(make, f)


def _aggregate(
    func: Any, kind: str, style: str, types: tuple[Any, Any, Any], deterministic: bool | None, name: str | None
) -> UserDefinedFunctionWrapper:
    input_types, result_type, accumulator_type = types
    shown, same = _prepared(func, deterministic, name)
    whole = func
    if not isinstance(func, UserDefinedFunction):
        if style != "pandas":
            raise TypeError(f"{shown} is a plain function: give it func_type='pandas', or write a function class.")
        whole = PandasAggregate(func)
    if result_type is None and isinstance(func, ImperativeAggregateFunction):
        result_type = func.get_result_type()
    if accumulator_type is None and isinstance(func, ImperativeAggregateFunction) and style == "general":
        accumulator_type = func.get_accumulator_type()
    accumulator = None if accumulator_type is None else logical_type_of(accumulator_type)
    result = _result(func, result_type, shown)
    if kind == "table_aggregate" and not isinstance(result, logical.RowType):
        result = _row([result])
    arguments = None if input_types is None else _argument_types(func, input_types, style)
    return UserDefinedFunctionWrapper(
        UserFunction(shown, whole, kind, style, same, arguments, result, accumulator), func
    )


def udaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Make an aggregate function of an ``AggregateFunction``, or of a function over Series (``pandas``)."""
    style = _style(udf_type or func_type, ("general", "pandas"))
    types = (input_types, result_type, accumulator_type)
    return _decorated(lambda func: _aggregate(func, "aggregate", style, types, deterministic, name), f)


def udtaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Make a table aggregate function of a ``TableAggregateFunction``."""
    style = _style(udf_type or func_type, ("general",))
    types = (input_types, result_type, accumulator_type)
    return _decorated(lambda func: _aggregate(func, "table_aggregate", style, types, deterministic, name), f)
