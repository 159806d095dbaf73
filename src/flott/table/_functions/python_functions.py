"""Functions in Python, called for columns: row by row, with Series of pandas, with Arrow arrays, or asynchronously."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flott.errors import ProgramError
from flott.table._expressions.expression import UserFunction
from flott.table._functions.function import Datum, Kernel, KernelCall, Session
from flott.table._functions.python_values import arrow_column, python_column, python_value
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType, RowType
from flott.table.udf import FunctionContext, UserDefinedFunction

# --- life-cycle ------------------------------------------------------------------------------------------------------


@dataclass
class FunctionScope:
    """The functions that a task uses: each is opened before its first call, and closed with the task."""

    context: FunctionContext = field(default_factory=lambda: FunctionContext(None, {}))
    _opened: dict[int, Any] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the scope of all calls inside."""
        token = _SCOPE.set(self)
        try:
            yield
        finally:
            _SCOPE.reset(token)

    def open(self, function: Any) -> None:
        """Open a function, unless it is open."""
        if isinstance(function, UserDefinedFunction) and id(function) not in self._opened:
            function.open(self.context)
            self._opened[id(function)] = function

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of asynchronous functions. It stays the same, because clients belong to their loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop

    def close(self) -> None:
        """Close all functions."""
        opened, self._opened = list(self._opened.values()), {}
        try:
            for function in opened:
                function.close()
        finally:
            if self._loop is not None:
                self._loop.close()
                self._loop = None


_SCOPE: ContextVar[FunctionScope | None] = ContextVar("function scope", default=None)
_OUTSIDE = FunctionScope()


def current_scope() -> FunctionScope:
    """Return the scope of the task that runs, or one for calls outside of tasks."""
    return _SCOPE.get() or _OUTSIDE


# --- kernels ---------------------------------------------------------------------------------------------------------


def user_kernel(function: UserFunction, types: Sequence[LogicalType], result: LogicalType) -> Kernel:
    """Return what calls a scalar function in Python for the rows of a batch."""
    kernels: dict[str, Callable[..., Datum]] = {
        "general": _by_row,
        "pandas": _by_series,
        "arrow": _by_array,
        "async": _at_a_time,
    }
    run, target = kernels[function.style], function.function
    evaluate = getattr(target, "eval", target)

    def kernel(call: KernelCall) -> Datum:
        scope = current_scope()
        scope.open(target)
        return run(function, evaluate, call, scope)

    return kernel


def argument_rows(function: UserFunction, call: KernelCall) -> list[tuple[Any, ...]]:
    """Return the arguments of each row as Python objects."""
    zone = call.session.zone
    columns = [
        [python_value(value.as_py(), of, zone)] * call.length
        if isinstance(value, pa.Scalar)
        else python_column(call.column(i), of, zone)
        for i, (value, of) in enumerate(zip(call.arguments, call.types, strict=True))
    ]
    if not columns:
        return [()] * call.length
    rows = list(zip(*columns, strict=True))
    if function.takes_rows and not (len(call.types) == 1 and isinstance(call.types[0], RowType)):
        from flott.common.types import Row

        return [(Row(*row),) for row in rows]
    return rows


def _result(function: UserFunction, values: Any, call: KernelCall) -> pa.Array:
    try:
        return arrow_column(values, call.type, call.session.zone)
    except (TypeError, ValueError, ArithmeticError, AttributeError, pa.ArrowException) as error:
        raise ProgramError(
            f"Function {function.name} gave a value that is not of its result type {call.type}: {error}."
        ) from error


def _by_row(function: UserFunction, evaluate: Any, call: KernelCall, scope: FunctionScope) -> Datum:
    return _result(function, [evaluate(*row) for row in argument_rows(function, call)], call)


def _by_array(function: UserFunction, evaluate: Any, call: KernelCall, scope: FunctionScope) -> Datum:
    found = evaluate(*[call.column(i) for i in range(len(call.arguments))])
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if isinstance(found, pa.Scalar):
        found = pa.repeat(found, call.length)
    if not isinstance(found, pa.Array):
        raise ProgramError(f"Function {function.name} gave {type(found).__name__}. Expected an Arrow array.")
    return _checked(function, found.cast(arrow_type(call.type)), call)


def _checked(function: UserFunction, found: pa.Array, call: KernelCall) -> pa.Array:
    if len(found) != call.length:
        raise ProgramError(f"Function {function.name} gave {len(found)} values for {call.length} rows.")
    return found


def _by_series(function: UserFunction, evaluate: Any, call: KernelCall, scope: FunctionScope) -> Datum:
    import pandas  # type: ignore[import-untyped,unused-ignore]

    arguments = [
        value.as_py() if isinstance(value, pa.Scalar) else _series(call.column(i), call.types[i])
        for i, value in enumerate(call.arguments)
    ]
    if function.takes_rows and not (len(arguments) == 1 and isinstance(arguments[0], pandas.DataFrame)):
        arguments = [pandas.concat(arguments, axis=1)]
    found = evaluate(*arguments)
    wanted = arrow_type(call.type)
    if isinstance(found, pandas.DataFrame):
        columns = [pa.Array.from_pandas(found.iloc[:, i], type=wanted.field(i).type) for i in range(wanted.num_fields)]
        return _checked(function, pa.StructArray.from_arrays(columns, fields=list(wanted)), call)
    if isinstance(found, pandas.Series):
        try:
            return _checked(function, pa.Array.from_pandas(found, type=wanted), call)
        except pa.ArrowException:
            return _checked(function, _result(function, found.tolist(), call), call)
    if hasattr(found, "__len__") and not isinstance(found, str | bytes):
        return _checked(function, _result(function, found, call), call)
    raise ProgramError(f"Function {function.name} gave {type(found).__name__}. Expected a Series.")


def _series(column: pa.Array, of: LogicalType) -> Any:
    """Return a column as a Series; a column of rows as a DataFrame."""
    if isinstance(of, RowType):
        return pa.RecordBatch.from_struct_array(column).to_pandas(date_as_object=True)
    return column.to_pandas(date_as_object=True)


# --- asynchronous functions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AsyncLimits:
    """How asynchronous functions are called, as the options ``table.exec.async-scalar.*`` say."""

    concurrent: int = 10
    timeout_ms: int = 180_000
    attempts: int = 3
    delay_ms: int = 100

    @classmethod
    def of_session(cls, session: Session) -> AsyncLimits:
        """Return the limits that the session sets."""
        options = session.parameters
        prefix = "table.exec.async-scalar."
        retries = options.get(prefix + "retry-strategy", "FIXED_DELAY").upper() != "NO_RETRY"
        return cls(
            int(options.get(prefix + "max-concurrent-operations", options.get(prefix + "buffer-capacity", 10))),
            duration_ms(options.get(prefix + "timeout", "3 min")),
            int(options.get(prefix + "max-attempts", 3)) if retries else 1,
            duration_ms(options.get(prefix + "retry-delay", "100 ms")),
        )


_UNITS = {"ms": 1, "s": 1000, "sec": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration such as ``3 min``."""
    number = "".join(character for character in text if character.isdigit())
    unit = text.strip().removeprefix(number).strip().lower()
    if not number or unit not in _UNITS:
        raise ProgramError(f"{text!r} is not a duration. Expected a number and ms, s, min, h or d.")
    return int(number) * _UNITS[unit]


def _at_a_time(function: UserFunction, evaluate: Any, call: KernelCall, scope: FunctionScope) -> Datum:
    rows = argument_rows(function, call)
    limits = AsyncLimits.of_session(call.session)
    return _result(function, scope.loop.run_until_complete(_all(function, evaluate, rows, limits)), call)


async def _all(function: UserFunction, evaluate: Any, rows: list[tuple[Any, ...]], limits: AsyncLimits) -> list[Any]:
    """Return the results of all rows, in their order, with a limited number of calls under way."""
    gate = asyncio.Semaphore(limits.concurrent)

    async def one(row: tuple[Any, ...]) -> Any:
        async with gate:
            try:
                return await asyncio.wait_for(_tried(evaluate, row, limits), limits.timeout_ms / 1000)
            except TimeoutError as error:
                raise ProgramError(f"Function {function.name} took longer than {limits.timeout_ms} ms.") from error

    tasks = [asyncio.ensure_future(one(row)) for row in rows]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tried(evaluate: Any, row: tuple[Any, ...], limits: AsyncLimits) -> Any:
    """Call a function again after an exception, up to the number of attempts. The time-out covers all of them."""
    for attempt in range(1, limits.attempts + 1):
        try:
            return await evaluate(*row)
        except Exception:
            if attempt == limits.attempts:
                raise
            await asyncio.sleep(limits.delay_ms / 1000)
    raise AssertionError("unreachable")
