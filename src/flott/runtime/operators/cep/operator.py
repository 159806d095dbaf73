"""The operator of a pattern: orders the events of each key, runs the automaton over them, emits matches. Task side.

Of each key, state holds its partial matches as one value and, in event time, the events that the watermark has not
reached, sorted by time. One timer per key says when it is due next: when the watermark reaches the first of these
events, or when a partial match times out. A key without either has no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from flott.cep._automaton.automaton import compile_pattern
from flott.cep._automaton.encoding import from_plain, to_plain
from flott.cep._automaton.matcher import Matcher, Matches
from flott.cep._automaton.moves import FAR, Found
from flott.cep._conditions import leaves
from flott.cep._functions import PatternProcessFunction, TimedOutPartialMatchHandler
from flott.cep._pattern import Pattern, all_stages
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.datastream.functions._basic import Function
from flott.graph.specs import PatternSpec
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.cep.arrivals import Arrival, Arrivals
from flott.runtime.operators.cep.waiting import WaitingEvents
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.operator import EventTime, OperatorContext, RecordFailure, position_of
from flott.runtime.operators.process import EVENT_TIMERS, PROCESSING_TIMERS, emit_tagged

#: By key: its timer or None, how many events wait, and its partial matches as plain data or None.
MATCHES = "_pattern-matches"

#: So many keys are announced to a state on disk at once.
_KEYS_AHEAD = 1024


class MatchContext(PatternProcessFunction.Context):
    """The one context object of an operator: its fields are set before each call."""

    __slots__ = ("now_ms", "time")

    def __init__(self) -> None:
        self.time = 0
        self.now_ms = 0

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self.now_ms


class PatternOperator(FunctionOperator):
    """Runs one pattern of the program."""

    def __init__(self, context: OperatorContext, spec: PatternSpec):
        super().__init__(context, spec.function)
        state = context.keyed_state
        assert state is not None, "patterns need a keyed input"
        self._state: KeyedState = state
        self._event_time = spec.event_time
        self._matcher = Matcher(compile_pattern(spec.pattern))
        self._conditions = rich_conditions(spec.pattern)
        self._arrivals = Arrivals(self, spec.event_time, spec.comparator, spec.late_tag_id)
        self._held: ValueTable = state.value_table(MATCHES)
        self._waiting = WaitingEvents(state, self._arrivals, spec.record_type)
        self._timers: TimerTable = state.timer_table(EVENT_TIMERS if spec.event_time else PROCESSING_TIMERS)
        self._collected = self._arrivals.hand_over()
        self._match = MatchContext()
        self._handles_timeouts = isinstance(spec.function, TimedOutPartialMatchHandler)

    # --- life ---------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        for condition in self._conditions:
            try:
                condition.open(self.runtime_context)
            except Exception as error:
                raise self.failure(f"open() of the condition {type(condition).__name__}") from error

    def close(self) -> None:
        super().close()
        for condition in self._conditions:
            condition.close()

    def begin(self) -> None:
        super().begin()
        self._arrivals.hand_over()  # an epoch that failed may have left some

    def process(self, batch: RowBatch) -> None:
        self._arrivals.take(batch)

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        self._run(self.watermark if self._event_time else self.context.scope.now_ms)
        return advanced

    def end_keys(self) -> None:
        super().end_keys()
        if not self._event_time:  # timers are not waited for: the input has ended
            self._run(MAX_WATERMARK)

    def snapshot(self) -> None:
        if self._arrivals.by_key:  # event time has not advanced since they came
            self._run(self.watermark if self._event_time else self.context.scope.now_ms)
        super().snapshot()

    def next_wakeup_ms(self) -> int | None:
        return None if self._event_time else self._timers.next_timestamp()

    def next_event_time_ms(self) -> int | None:
        return self._timers.next_timestamp() if self._event_time else None

    # --- time has come to a point -------------------------------------------------------------------------------------

    def _run(self, time: int) -> None:
        """Process all events up to a time, and end what times out until then, key by key."""
        self._collected = self._arrivals.hand_over()
        arrived = self._collected.by_key
        out: list[tuple[int, Any]] = []
        self._match.now_ms = self._matcher.context.now_ms = self.context.scope.now_ms
        if self._state.pages:
            keys = iter(arrived)
            while ahead := list(islice(keys, _KEYS_AHEAD)):
                self._state.prefetch(ahead)
                for key in ahead:
                    self._run_key(key, arrived[key], time, out)
                self._state.make_room()
        else:
            for key, arrivals in arrived.items():
                self._run_key(key, arrivals, time, out)
        while (timer := self._timers.pop_due(time)) is not None:
            self._run_key(timer[1], [], time, out, fired=True)
        self._emit(out)

    def _run_key(
        self, key: Any, arrivals: list[Arrival], time: int, out: list[tuple[int, Any]], fired: bool = False
    ) -> None:
        entry = self._held.entries.get(key)
        timer, count, plain = (None, 0, None) if entry is None else entry
        if timer is not None and (fired or timer <= time):
            self._timers.delete(timer, key)
            timer = None
        if count or len(arrivals) > 1 or self._collected.latest > time:
            arrivals, count = self._waiting.due(key, arrivals, count, time, self._collected)
        held = Matches() if plain is None else from_plain(self._matcher, plain)
        found: list[Found] = []
        timed_out: list[Found] = []
        self._state.current.key = key
        if arrivals:
            self._feed(held, arrivals, found, timed_out)
        if held.deadline <= time:
            self._matcher.expire(held, time, found, timed_out)
        self._keep(key, timer, count, held, plain, entry)
        if found or timed_out:
            self._report(key, found, timed_out, out)

    def _feed(self, held: Matches, arrivals: list[Arrival], found: list[Found], timed_out: list[Found]) -> None:
        cursor = iter(arrivals)
        if self._conditions:  # they may have state that ages
            self.clocks.event.follow(cursor, [arrival[0] for arrival in arrivals])
        try:
            self._matcher.feed(held, cursor, found, timed_out)
        except Exception as error:
            timestamp, value = arrivals[position_of(cursor, len(arrivals))]
            raise self._failure("looking for a pattern", value, timestamp) from error

    def _keep(self, key: Any, timer: int | None, count: int, held: Matches, plain: Any, entry: Any) -> None:
        """Write what is left of a key to state, and set its timer."""
        if not held and not count:
            if entry is not None:
                self._held.discard(key)
            if timer is not None:
                self._timers.delete(timer, key)
            return
        due = held.deadline
        if count:
            due = min(due, self._waiting.earliest(key))
        if due < FAR and (timer is None or due < timer):
            if timer is not None:
                self._timers.delete(timer, key)
            self._timers.register(due, key)
            timer = due
        if held.changed or entry is None or entry[0] != timer or entry[1] != count:
            kept = (to_plain(self._matcher, held) if held else None) if held.changed else plain
            self._held.entries[key] = (timer, count, kept)
            self._held.changed[key] = None

    # --- matches ------------------------------------------------------------------------------------------------------

    def _report(self, key: Any, found: list[Found], timed_out: list[Found], out: list[tuple[int, Any]]) -> None:
        """Call the function with what was found for a key."""
        if self._conditions or isinstance(self.function, Function):
            self.clocks.event.follow(None, None)
        self._call(self.function.process_match, found, "processing a match", out)
        if self._handles_timeouts and timed_out:
            self._call(self.function.process_timed_out_match, timed_out, "processing a partial match", out)

    def _call(
        self, function: Callable[..., Iterable[Any] | None], found: list[Found], activity: str, out: list[Any]
    ) -> None:
        match, match_of, clock = self._match, self._matcher.match_of, self.clocks.event
        for timestamp, node in found:
            match.time = clock.time = timestamp
            events = match_of(node)
            try:
                produced = function(events, match)
                if produced is not None:
                    out.extend([(timestamp, record) for record in produced])
            except Exception as error:
                raise self._failure(activity, events, timestamp) from error

    def _emit(self, out: list[tuple[int, Any]]) -> None:
        """Emit records by time, in portions."""
        out.sort(key=lambda record: record[0])
        for start in range(0, len(out), MAX_BATCH_RECORDS):
            portion = out[start : start + MAX_BATCH_RECORDS]
            # What is found in processing time has no event time, as the records of processing-time timers.
            stamps = [timestamp for timestamp, _ in portion] if self._event_time else None
            emit_tagged(self, [record for _, record in portion], stamps)

    def _failure(self, activity: str, record: Any, timestamp: int) -> RecordFailure:
        key = self._state.current.key
        return self.failure(activity, record=record, has_record=True, key=key, has_key=True, timestamp=timestamp)


def rich_conditions(pattern: Pattern[Any]) -> list[Function]:
    """Return the conditions of a pattern that are opened and closed."""
    found: dict[int, Function] = {}
    for stage in all_stages(pattern.stages):
        for leaf in (*leaves(stage.test), *leaves(stage.until)):
            if isinstance(leaf.function, Function):
                found[id(leaf.function)] = leaf.function
    return list(found.values())
