"""``RuleStream``: rules that come as a stream, applied to another stream. Driver side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from flott.cep._rules.results import RuleMatch
from flott.common.typeinfo._infer import TypeHint
from flott.common.watermark_strategy import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from flott.datastream._data_stream import DataStream, check_type
from flott.datastream._keyed_stream import KeyedStream, key_of
from flott.datastream.functions._basic import NullByteKeySelector
from flott.datastream.output_tag import OutputTag
from flott.errors import ProgramError
from flott.graph.specs import RulesSpec
from flott.graph.transformations import Operation

T = TypeVar("T")
OUT = TypeVar("OUT")


class NeverAwaited(WatermarkGenerator):
    """Says that a stream has nothing to do with event time: operators do not wait for it."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.mark_idle()

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.mark_idle()


@dataclass(frozen=True)
class RuleStream(Generic[T]):
    """The matches of all rules. Continue with ``matches`` or ``select``.

    The side output ``rule_failures_tag()`` of the result has the rules that were refused or quarantined.
    """

    _input: DataStream[T]
    _rules: DataStream[Any]
    _comparator: Callable[[T, T], int] | None = None
    _event_time: bool = True
    _late_tag: OutputTag[T] | None = None
    _timeout_tag: OutputTag[RuleMatch[T]] | None = None

    def in_event_time(self) -> RuleStream[T]:
        """Order events by their timestamps. This is the default."""
        return replace(self, _event_time=True)

    def in_processing_time(self) -> RuleStream[T]:
        """Take events as they arrive; their time is that of the epoch which processes them."""
        return replace(self, _event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag[T]) -> RuleStream[T]:
        """Send events that come behind the watermark to a side output."""
        return replace(self, _late_tag=_checked(late_data_output_tag, "side_output_late_data"))

    def side_output_timed_out(self, timed_out_tag: OutputTag[RuleMatch[T]]) -> RuleStream[T]:
        """Send partial matches whose time is over to a side output, as ``RuleMatch``."""
        return replace(self, _timeout_tag=_checked(timed_out_tag, "side_output_timed_out"))

    def matches(self) -> DataStream[RuleMatch[T]]:
        """Emit each match with the rule that found it."""
        return self._apply(None, None)

    def select(self, function: Callable[[RuleMatch[T]], OUT], output_type: TypeHint | None = None) -> DataStream[OUT]:
        """Emit one record for each match."""
        if not callable(function):
            raise ProgramError(f"select() needs a callable of (rule_match), found {function!r}.")
        return self._apply(function, output_type)

    def _apply(self, function: Callable[[RuleMatch[T]], Any] | None, output_type: TypeHint | None) -> DataStream[Any]:
        stream = self._input
        keyed = stream if isinstance(stream, KeyedStream) else stream.key_by(NullByteKeySelector())
        spec = RulesSpec(
            function,
            self._event_time,
            self._comparator,
            None if self._late_tag is None else self._late_tag.tag_id,
            None if self._timeout_tag is None else self._timeout_tag.tag_id,
            stream._declared(),
        )
        environment = stream.get_execution_environment()
        rules = self._rules.assign_timestamps_and_watermarks(WatermarkStrategy.for_generator(NeverAwaited))
        environment._program.refine(rules._id, name="Rules Without Time", implicit=True)
        declared = check_type(output_type, "select")
        operation = Operation(spec, (key_of(keyed), None), declared)
        made = environment._program.add("Rules", operation, (keyed._id, rules.broadcast()._id))
        result: DataStream[Any] = DataStream(environment, made.id, declared)
        return result if isinstance(stream, KeyedStream) else result.force_non_parallel()


def _checked(tag: object, method: str) -> OutputTag[Any]:
    if isinstance(tag, OutputTag):
        return tag
    raise ProgramError(f'{method}() takes an OutputTag such as OutputTag("late"), found {tag!r}.')
