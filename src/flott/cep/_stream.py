"""``CEP`` and ``PatternStream``: a pattern applied to a stream, as one more operator of a program. Driver side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from flott.cep._automaton.automaton import compile_pattern
from flott.cep._functions import (
    Match,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from flott.cep._pattern import Pattern
from flott.cep._rules.stream import RuleStream
from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import DataStream
from flott.datastream._keyed_stream import KeyedStream
from flott.datastream.functions._basic import Function, NullByteKeySelector
from flott.datastream.functions._context import RuntimeContext
from flott.datastream.output_tag import OutputTag
from flott.errors import ProgramError
from flott.graph.specs import PatternSpec

if TYPE_CHECKING:
    from flott.datastream.functions._process import Emitted

T = TypeVar("T")
OUT = TypeVar("OUT")
LATE = TypeVar("LATE")
OVER = TypeVar("OVER")


class CEP:
    """The entry to patterns.

    >>> from flott.common import Duration
    >>> from flott.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> logins = env.from_collection(["fail", "fail", "ok"])
    >>> twice = Pattern.begin("failed").where(lambda login: login == "fail").times(2).consecutive()
    >>> sink = CEP.pattern(logins, twice).in_processing_time().select(lambda match: len(match["failed"])).print()
    >>> [vertex.name for vertex in env.get_job_graph().vertices][1]
    'Pattern -> Sink: Print'
    """

    @staticmethod
    def pattern(
        input_stream: DataStream[T], pattern: Pattern[T], comparator: Callable[[T, T], int] | None = None
    ) -> PatternStream[T]:
        """Look for a pattern in a stream: per key if it is keyed, and else in one subtask over all of it.

        The comparator orders events of the same timestamp. Without it they come in the order in which they arrived.
        """
        if not isinstance(input_stream, DataStream):
            raise ProgramError(f"CEP.pattern() takes a stream first, found {input_stream!r}.")
        compile_pattern(pattern)  # refuses what cannot match
        if comparator is not None and not callable(comparator):
            raise ProgramError(
                "The comparator of CEP.pattern() is a callable of two events that returns a number, found"
                f" {comparator!r}."
            )
        return PatternStream(input_stream, pattern, comparator)

    @staticmethod
    def rules(
        input_stream: DataStream[T], rules: DataStream[Any], comparator: Callable[[T, T], int] | None = None
    ) -> RuleStream[T]:
        """Look for the patterns of rules that come as a stream of JSON definitions. Only in Flott.

        A rule takes effect on all subtasks with the epoch that reads it, and so with its checkpoint.
        """
        if not isinstance(input_stream, DataStream):
            raise ProgramError(f"CEP.rules() takes a stream first, found {input_stream!r}.")
        input_stream._check_other(rules, "CEP.rules")
        return RuleStream(input_stream, rules, comparator)


@dataclass(frozen=True)
class PatternStream(Generic[T]):
    """The matches of a pattern in a stream. Continue with ``process``, ``select`` or ``flat_select``."""

    _input: DataStream[T]
    _pattern: Pattern[T]
    _comparator: Callable[[T, T], int] | None = None
    _event_time: bool = True
    _late_tag: OutputTag[T] | None = None

    def in_event_time(self) -> PatternStream[T]:
        """Order events by their timestamps. This is the default."""
        return replace(self, _event_time=True)

    def in_processing_time(self) -> PatternStream[T]:
        """Take events as they arrive; their time is that of the epoch which processes them."""
        return replace(self, _event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag[T]) -> PatternStream[T]:
        """Send events that come behind the watermark to a side output. Without it they are counted and dropped."""
        return replace(self, _late_tag=_checked(late_data_output_tag, "side_output_late_data"))

    def process(
        self, pattern_process_function: PatternProcessFunction[T, OUT], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Emit any number of records for each match."""
        if not isinstance(pattern_process_function, PatternProcessFunction):
            raise ProgramError(f"process() needs a PatternProcessFunction, found {pattern_process_function!r}.")
        return self._apply(pattern_process_function, output_type)

    @overload
    def select(
        self,
        select_function: PatternSelectFunction[T, OUT] | Callable[[Match[T]], OUT],
        *,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def select(
        self,
        select_function: PatternSelectFunction[T, OUT] | Callable[[Match[T]], OUT],
        *,
        timeout_tag: OutputTag[OVER],
        timeout_function: PatternTimeoutFunction[T, OVER] | Callable[[Match[T], int], OVER],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]: ...

    def select(
        self,
        select_function: PatternSelectFunction[T, OUT] | Callable[[Match[T]], OUT],
        *,
        timeout_tag: OutputTag[Any] | None = None,
        timeout_function: PatternTimeoutFunction[T, Any] | Callable[[Match[T], int], Any] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit one record for each match; and one to a side output for each partial match whose time is over."""
        select = _call(select_function, PatternSelectFunction, "select", "select")
        timeout = _call(timeout_function, PatternTimeoutFunction, "timeout", "select")
        return self._apply(_selecting(self, select, timeout, timeout_tag, flat=False), output_type)

    def flat_select(
        self,
        flat_select_function: PatternFlatSelectFunction[T, OUT] | Callable[[Match[T]], Iterable[OUT]],
        *,
        timeout_tag: OutputTag[Any] | None = None,
        timeout_function: PatternFlatTimeoutFunction[T, Any] | Callable[[Match[T], int], Iterable[Any]] | None = None,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each match, and to a side output for each whose time is over."""
        select = _call(flat_select_function, PatternFlatSelectFunction, "flat_select", "flat_select")
        timeout = _call(timeout_function, PatternFlatTimeoutFunction, "timeout", "flat_select")
        return self._apply(_selecting(self, select, timeout, timeout_tag, flat=True), output_type)

    def _apply(self, function: PatternProcessFunction[T, OUT], output_type: TypeHint | None) -> DataStream[OUT]:
        stream = self._input
        keyed = stream if isinstance(stream, KeyedStream) else stream.key_by(NullByteKeySelector())
        spec = PatternSpec(
            self._pattern,
            function,
            self._event_time,
            self._comparator,
            None if self._late_tag is None else self._late_tag.tag_id,
            stream._declared(),
        )
        made = keyed._apply("Pattern", spec, output_type)
        return made if isinstance(stream, KeyedStream) else made.force_non_parallel()


def _checked(tag: object, method: str) -> OutputTag[Any]:
    if isinstance(tag, OutputTag):
        return tag
    raise ProgramError(f'{method}() takes an OutputTag such as OutputTag("late"), found {tag!r}.')


def _call(function: Any, kind: type[Function], name: str, method: str) -> Any:
    """Return the function, checked: an object of its kind, or a callable."""
    if function is None or isinstance(function, kind):
        return function
    is_function_class = isinstance(function, type) and issubclass(function, Function)
    if not callable(function) or isinstance(function, Function) or is_function_class:
        raise ProgramError(f"{method}() needs a {kind.__name__} or a callable for {name}, found {function!r}.")
    return function


def _selecting(stream: PatternStream[Any], select: Any, timeout: Any, tag: Any, flat: bool) -> _Selection:
    if select is None:
        raise ProgramError("select() and flat_select() need a function that makes records of matches, found None.")
    if (timeout is None) is not (tag is None):
        raise ProgramError(
            "Partial matches whose time is over need both timeout_tag, where their records go, and timeout_function,"
            f" which makes them. Found {'only the tag' if timeout is None else 'only the function'}."
        )
    if tag is None:
        return _Selection(select, flat)
    _checked(tag, "select")
    if stream._pattern.within_ms is None and all(stage.window_ms is None for stage in stream._pattern.stages):
        raise ProgramError("A partial match times out only if the pattern has within(), which this one has not.")
    return _TimedSelection(select, flat, timeout, tag)


class _Selection(PatternProcessFunction[Any, Any]):
    """Makes records of matches with a select function."""

    def __init__(self, select: Any, flat: bool):
        self._functions = [select]
        self._flat = flat
        self._select = getattr(select, "flat_select" if flat else "select", select) if _is_rich(select) else select

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in filter(_is_rich, self._functions):
            function.open(runtime_context)

    def close(self) -> None:
        for function in filter(_is_rich, self._functions):
            function.close()

    def process_match(self, match: Match[Any], ctx: PatternProcessFunction.Context) -> Emitted[Any]:
        return self._select(match) if self._flat else (self._select(match),)


class _TimedSelection(_Selection, TimedOutPartialMatchHandler[Any]):
    """Also makes records of partial matches whose time is over."""

    def __init__(self, select: Any, flat: bool, timeout: Any, tag: OutputTag[Any]):
        super().__init__(select, flat)
        self._functions.append(timeout)
        self._timeout = timeout.timeout if _is_rich(timeout) else timeout
        self._tag = tag

    def process_timed_out_match(self, match: Match[Any], ctx: PatternProcessFunction.Context) -> Emitted[Any]:
        made = self._timeout(match, ctx.timestamp())
        return [(self._tag, record) for record in (made if self._flat else (made,))]


def _is_rich(function: Any) -> bool:
    return isinstance(function, Function)
