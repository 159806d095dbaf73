"""Converts function objects and callables to the callable that runs per record.

Functions are checked when the program is built (:func:`validate_function`) and resolved once when a task starts
(``as_…``), so that no check runs per record.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from flott.datastream.functions._async import AsyncFunction
from flott.datastream.functions._basic import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)
from flott.datastream.functions._broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flott.datastream.functions._co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flott.datastream.functions._join import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from flott.datastream.functions._process import KeyedProcessFunction, ProcessFunction
from flott.datastream.functions._window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flott.errors import ProgramError

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


# ---------------------------------------------------------------------------------------------------------------------
# Resolving, at task start
# ---------------------------------------------------------------------------------------------------------------------


def as_map(func: MapFunction[IN, OUT] | Callable[[IN], OUT]) -> Callable[[IN], OUT]:
    """Return the callable that maps one record.

    >>> as_map(str.upper)("flott")
    'FLOTT'
    """
    return func.map if isinstance(func, MapFunction) else func


def as_flat_map(func: FlatMapFunction[IN, OUT] | Callable[[IN], Iterable[OUT]]) -> Callable[[IN], Iterable[OUT]]:
    """Return the callable that converts one record to an iterable of records."""
    return func.flat_map if isinstance(func, FlatMapFunction) else func


def as_async_invoke(
    func: AsyncFunction[IN, OUT] | Callable[[IN], Awaitable[Iterable[OUT]]],
) -> Callable[[IN], Awaitable[Iterable[OUT]]]:
    """Return the coroutine function that returns a record's results."""
    return func.async_invoke if isinstance(func, AsyncFunction) else func


def as_filter(func: FilterFunction[T] | Callable[[T], bool]) -> Callable[[T], bool]:
    """Return the callable that decides whether to keep a record."""
    return func.filter if isinstance(func, FilterFunction) else func


def as_reduce(func: ReduceFunction[T] | Callable[[T, T], T]) -> Callable[[T, T], T]:
    """Return the callable that combines two values."""
    return func.reduce if isinstance(func, ReduceFunction) else func


def as_key_selector(func: KeySelector[IN, KEY] | Callable[[IN], KEY]) -> Callable[[IN], KEY]:
    """Return the callable that returns a record's key."""
    return func.get_key if isinstance(func, KeySelector) else func


def as_partitioner(func: Partitioner[KEY] | Callable[[KEY, int], int]) -> Callable[[KEY, int], int]:
    """Return the callable that returns the target subtask of a key."""
    return func.partition if isinstance(func, Partitioner) else func


# ---------------------------------------------------------------------------------------------------------------------
# Checking, while the program is built
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """How the functions of a kind are called."""

    methods: Mapping[str, tuple[str, ...]]  #: method → its arguments
    use: str  #: where functions of this kind are used, to complete "…: use it with"
    takes_callable: bool = False  #: whether a plain callable may replace the first of the methods
    awaited: str = ""  #: the method that is a coroutine function, if there is one


def _kind(use: str, takes_callable: bool = False, awaited: str = "", **methods: tuple[str, ...]) -> _Kind:
    return _Kind(MappingProxyType(methods), use, takes_callable, awaited)


_VALUE = ("value",)
_RECORD = ("value", "ctx")
_TIMER = ("timestamp", "ctx")
_PAIR = ("first", "second")

_KINDS: Mapping[type[Function], _Kind] = MappingProxyType(
    {
        MapFunction: _kind("map()", True, map=_VALUE),
        FlatMapFunction: _kind("flat_map()", True, flat_map=_VALUE),
        FilterFunction: _kind("filter()", True, filter=_VALUE),
        ReduceFunction: _kind("reduce() of a keyed or windowed stream", True, reduce=("value1", "value2")),
        KeySelector: _kind("key_by()", True, get_key=_VALUE),
        Partitioner: _kind("partition_custom()", True, partition=("key", "num_partitions")),
        AggregateFunction: _kind(
            "an AggregatingStateDescriptor or aggregate() of a windowed stream",
            create_accumulator=(),
            add=("value", "accumulator"),
            get_result=("accumulator",),
            merge=("acc_a", "acc_b"),
        ),
        AsyncFunction: _kind(
            "ordered_wait() or unordered_wait() of AsyncDataStream",
            True,
            awaited="async_invoke",
            async_invoke=_VALUE,
            timeout=_VALUE,
            open=("runtime_context",),
            close=(),
        ),
        CoMapFunction: _kind("map() of connected streams", map1=_VALUE, map2=_VALUE),
        CoFlatMapFunction: _kind("flat_map() of connected streams", flat_map1=_VALUE, flat_map2=_VALUE),
        ProcessFunction: _kind("process() of a stream that is not keyed", process_element=_RECORD),
        KeyedProcessFunction: _kind(
            "process() of a keyed stream, after key_by()", process_element=_RECORD, on_timer=_TIMER
        ),
        CoProcessFunction: _kind(
            "process() of connected streams that are not keyed", process_element1=_RECORD, process_element2=_RECORD
        ),
        KeyedCoProcessFunction: _kind(
            "process() of connected keyed streams",
            process_element1=_RECORD,
            process_element2=_RECORD,
            on_timer=_TIMER,
        ),
        JoinFunction: _kind("join() of two streams, in a window", True, join=_PAIR),
        FlatJoinFunction: _kind("join() of two streams, in a window", join=_PAIR),
        CoGroupFunction: _kind("co_group() of two streams, in a window", True, co_group=_PAIR),
        ProcessJoinFunction: _kind(
            "interval_join() of two keyed streams", process_element=("left", "right", "ctx")
        ),
        BroadcastProcessFunction: _kind(
            "process() of a stream that is not keyed, connected with a broadcast stream",
            process_element=_RECORD,
            process_broadcast_element=_RECORD,
        ),
        KeyedBroadcastProcessFunction: _kind(
            "process() of a keyed stream connected with a broadcast stream",
            process_element=_RECORD,
            process_broadcast_element=_RECORD,
            on_timer=_TIMER,
        ),
        WindowFunction: _kind("apply() of a windowed keyed stream", apply=("key", "window", "inputs")),
        AllWindowFunction: _kind("apply() of a stream windowed with window_all()", apply=("window", "inputs")),
        ProcessWindowFunction: _kind(
            "process() of a windowed keyed stream", process=("key", "context", "elements"), clear=("context",)
        ),
        ProcessAllWindowFunction: _kind(
            "process() of a stream windowed with window_all()", process=("context", "elements"), clear=("context",)
        ),
    }
)


def validate_function(func: object, kind: type[Function], method: str) -> None:
    """Raise :class:`~flott.errors.ProgramError` unless ``func`` is a function of ``kind``.

    ``kind`` is what was expected, such as :class:`MapFunction`; ``method`` is the method of the stream it was passed
    to, for the message.

    >>> validate_function(str.upper, MapFunction, "map")
    >>> validate_function(len, MapFunction, "map")
    >>> validate_function(42, MapFunction, "map")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    flott.errors.ProgramError: map() needs a MapFunction or a callable of (value), found 42 of type int, ...
    """
    known = _KINDS[kind]
    if isinstance(func, kind):
        for name, arguments in known.methods.items():
            described = f"{type(func).__name__}.{name}"
            _check_awaited(getattr(func, name), described, method, name == known.awaited)
            _check_call(getattr(func, name), described, arguments, method)
    elif not known.takes_callable or not callable(func) or _belongs_to_another_kind(func):
        raise ProgramError(f"{method}() needs {_expected(kind)}, found {_mistake(func, kind)}")
    else:
        name, arguments = next(iter(known.methods.items()))
        _check_awaited(func, _described(func), method, name == known.awaited)
        _check_call(func, _described(func), arguments, method)


def _check_awaited(func: Callable[..., Any], described: str, method: str, awaited: bool) -> None:
    is_coroutine_function = any(map(inspect.iscoroutinefunction, (func, getattr(func, "__call__", None))))  # noqa: B004
    if is_coroutine_function and not awaited:
        raise ProgramError(
            f"{method}() calls functions without awaiting them, found the coroutine function {described}: "
            f"write it with def instead of async def."
        )
    if awaited and not is_coroutine_function:
        raise ProgramError(
            f"{method}() awaits what the function returns, found {described}, which is not a coroutine function: "
            f"write it with async def, and what blocks in it as await asyncio.to_thread(...)."
        )


def _check_call(func: Callable[..., Any], described: str, arguments: tuple[str, ...], method: str) -> None:
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):  # some builtins have none; they are accepted
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise ProgramError(
            f"{method}() calls the function with {_counted(arguments)}, found {described} with the parameters "
            f"{signature}: make it accept exactly what it is called with."
        ) from None


def _expected(kind: type[Function]) -> str:
    known = _KINDS[kind]
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    if not known.takes_callable:
        return f"{article} {kind.__name__}"
    name, arguments = next(iter(known.methods.items()))
    function = "coroutine function" if name == known.awaited else "callable"
    return f"{article} {kind.__name__} or a {function} of ({', '.join(arguments)})"


def _belongs_to_another_kind(func: object) -> bool:
    """Return whether it is a function object, or the class of one, which is never meant as a plain callable."""
    return isinstance(func, Function) or (isinstance(func, type) and issubclass(func, Function)) or _is_pyflink(func)


def _is_pyflink(func: object) -> bool:
    family = func if isinstance(func, type) else type(func)
    return any(ancestor.__module__.startswith("pyflink.") for ancestor in family.__mro__)


def _mistake(func: object, kind: type[Function]) -> str:
    """Return what was found, and what to do about it."""
    name = func.__name__ if isinstance(func, type) else type(func).__name__
    if _is_pyflink(func):
        return f"{name}, which extends a class of pyflink: import it from flott instead."
    if isinstance(func, type) and issubclass(func, Function):
        return f"the class {name} itself: pass an instance of it, such as {name}()."
    for other, known in _KINDS.items():
        if isinstance(func, other):
            return f"the {other.__name__} {name}: use it with {known.use}, or extend {kind.__name__}."
    if all(hasattr(func, wanted) for wanted in _KINDS[kind].methods):
        return f"{_described(func)}, which does not extend {kind.__name__}: make it a subclass."
    if callable(func):
        return f"{_described(func)}: a plain callable is not enough here, extend {kind.__name__}."
    return f"{_described(func)}, which cannot be called: pass a function, a lambda or an instance of {kind.__name__}."


def _described(func: object) -> str:
    """Return a function with its place in the source, or an object with its type."""
    code = getattr(func, "__code__", None)
    if code is not None:
        return f"{getattr(func, '__qualname__', code.co_name)} ({code.co_filename}:{code.co_firstlineno})"
    if isinstance(func, type):
        return f"the class {func.__qualname__}"
    return f"{func!r} of type {type(func).__name__}"


def _counted(arguments: tuple[str, ...]) -> str:
    noun = "argument" if len(arguments) == 1 else "arguments"
    return f"{len(arguments)} {noun} ({', '.join(arguments)})"
