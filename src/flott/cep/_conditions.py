"""Conditions of patterns: the classes that users extend, and the tree that a pattern keeps of them.

A plain callable of one argument is a simple condition. A callable of two arguments is an iterative one: it also
receives what the partial match holds so far. A pattern keeps its conditions as a tree of frozen tests, so that an
explanation can name the test that turned an event away.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from flott.datastream.functions._basic import Function
from flott.errors import ProgramError

T = TypeVar("T")
CTX = TypeVar("CTX")


class IterativeCondition(Function, Generic[T]):
    """Decides about an event, given the events that the partial match holds already.

    It has ``open`` and ``close`` as every function. On a keyed stream, ``open`` may ask for state of the key.
    """

    class Context(ABC, Generic[CTX]):
        """What a condition may know about the partial match and about time."""

        @abstractmethod
        def get_events_for_pattern(self, name: str) -> list[CTX]:
            """Return the events that the partial match has under a name, in order."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time of the event in milliseconds, in the time that the pattern runs in."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in milliseconds, which is constant during an epoch."""

    @abstractmethod
    def filter(self, value: T, ctx: IterativeCondition.Context[T]) -> bool:
        """Return whether the event is accepted."""


class SimpleCondition(Function, Generic[T]):
    """Decides about an event by the event alone."""

    @abstractmethod
    def filter(self, value: T) -> bool:
        """Return whether the event is accepted."""


#: What ``where``, ``or_`` and ``until`` take: a condition on the event alone, or also on the partial match.
EventCondition: TypeAlias = Callable[[T], Any] | SimpleCondition[T]
MatchCondition: TypeAlias = Callable[[T, IterativeCondition.Context[T]], Any] | IterativeCondition[T]


@dataclass(frozen=True)
class Leaf:
    """One function of the user's."""

    function: Any
    iterative: bool
    label: str  #: what an explanation calls it


@dataclass(frozen=True)
class OfType:
    """Accepts the events of a class."""

    record_class: type

    @property
    def label(self) -> str:
        """Return what an explanation calls it."""
        return f"is a {self.record_class.__name__}"


@dataclass(frozen=True)
class AllOf:
    """Accepts what all of its tests accept."""

    tests: tuple[Test, ...]


@dataclass(frozen=True)
class AnyOf:
    """Accepts what one of its tests accepts."""

    tests: tuple[Test, ...]


Test: TypeAlias = Leaf | OfType | AllOf | AnyOf

_ARGUMENTS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def as_test(condition: object, method: str) -> Leaf:
    """Return the test of a condition that was passed to a method of a pattern."""
    if isinstance(condition, IterativeCondition):
        return Leaf(condition, True, type(condition).__name__)
    if isinstance(condition, SimpleCondition):
        return Leaf(condition, False, type(condition).__name__)
    if not callable(condition) or (isinstance(condition, type) and issubclass(condition, Function)):
        raise ProgramError(
            f"{method}() takes a condition: a callable of (value) or of (value, ctx), a SimpleCondition or an"
            f" IterativeCondition. Found {condition!r}."
        )
    return Leaf(condition, _takes_context(condition, method), getattr(condition, "label", None) or _label(condition))


def _takes_context(condition: Callable[..., Any], method: str) -> bool:
    try:
        parameters = inspect.signature(condition).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return False
    required = [p for p in parameters if p.kind in _ARGUMENTS and p.default is inspect.Parameter.empty]
    if len(required) > 2 or not (required or any(p.kind in (*_ARGUMENTS, p.VAR_POSITIONAL) for p in parameters)):
        raise ProgramError(
            f"{method}() calls its condition with (value) or (value, ctx), found {_label(condition)} with"
            f" {len(required)} required arguments."
        )
    return len(required) == 2


def _label(condition: Callable[..., Any]) -> str:
    code = getattr(condition, "__code__", None)
    name: str = getattr(condition, "__qualname__", type(condition).__name__).removeprefix("<lambda>.")
    if code is None:
        return name
    short = "lambda" if name.endswith("<lambda>") else name.rsplit(".", 1)[-1]
    return f"{short} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"


def both(former: Test | None, test: Test) -> Test:
    """Return the test that accepts what both accept."""
    if former is None:
        return test
    return AllOf((*former.tests, test)) if isinstance(former, AllOf) else AllOf((former, test))


def either(former: Test | None, test: Test) -> Test:
    """Return the test that accepts what one of them accepts."""
    if former is None:
        return test
    return AnyOf((*former.tests, test)) if isinstance(former, AnyOf) else AnyOf((former, test))


def leaves(test: Test | None) -> Iterator[Leaf]:
    """Yield the functions of the user's in a test."""
    if isinstance(test, Leaf):
        yield test
    elif isinstance(test, AllOf | AnyOf):
        for part in test.tests:
            yield from leaves(part)


def is_iterative(test: Test | None) -> bool:
    """Return whether a test asks for the partial match."""
    return any(leaf.iterative for leaf in leaves(test))


def label_of(test: Test | None) -> str:
    """Return a test in words."""
    match test:
        case None:
            return "any event"
        case AllOf(tests):
            return " and ".join(_bracketed(part) for part in tests)
        case AnyOf(tests):
            return " or ".join(_bracketed(part) for part in tests)
        case Leaf() | OfType():
            return test.label


def _bracketed(test: Test) -> str:
    return f"({label_of(test)})" if isinstance(test, AllOf | AnyOf) else label_of(test)


def _anything(value: Any) -> bool:
    return True


def simple_call(test: Test | None) -> Callable[[Any], Any]:
    """Return a test as a function of the event. It must not be iterative."""
    match test:
        case None:
            return _anything
        case Leaf(function=function):
            return function.filter if isinstance(function, SimpleCondition) else function
        case OfType(record_class=record_class):
            return lambda value: isinstance(value, record_class)
        case AllOf(tests) if len(tests) == 2:
            first, second = map(simple_call, tests)
            return lambda value: first(value) and second(value)
        case AnyOf(tests) if len(tests) == 2:
            first, second = map(simple_call, tests)
            return lambda value: first(value) or second(value)
        case AllOf(tests):
            calls = tuple(map(simple_call, tests))
            return lambda value: all(call(value) for call in calls)
        case AnyOf(tests):
            calls = tuple(map(simple_call, tests))
            return lambda value: any(call(value) for call in calls)


def context_call(test: Test | None) -> Callable[[Any, Any], Any]:
    """Return a test as a function of the event and the partial match."""
    if not is_iterative(test):
        simple = simple_call(test)
        return lambda value, ctx: simple(value)
    match test:
        case Leaf(function=function):
            return function.filter if isinstance(function, IterativeCondition) else function
        case AllOf(tests):
            calls = tuple(map(context_call, tests))
            return lambda value, ctx: all(call(value, ctx) for call in calls)
        case AnyOf(tests):
            calls = tuple(map(context_call, tests))
            return lambda value, ctx: any(call(value, ctx) for call in calls)
    raise AssertionError("unreachable: all other tests are simple")
