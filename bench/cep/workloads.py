"""The workloads of patterns: the events, and the programs of Flott.

    three   a, then b, then c of the same key within 10 s, 10,000 keys
    loop    a, then as many b as come, then c; a match skips past its last event
    few     as three, but what starts is rare: a few partial matches are open
    many    as few, with fifty times as many open partial matches, which no event extends
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.cep import CEP, AfterMatchSkipStrategy, Pattern
from flott.common import Duration, WatermarkStrategy
from flott.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.state import ValueStateDescriptor

WORKLOADS = ("three", "loop", "few", "many")
KEYS = 10_000
WINDOW_MS = 10_000
#: How many events share a millisecond.
DENSE = 50
#: Of few and many: so many keys, and of so many events one starts a partial match.
OPEN_KEYS, RARE = 20, 50

#: Key, kind (0: a, 1: b, 2: c, others), time.
Event = tuple[int, int, int]


def event(i: int) -> Event:
    mixed = i * 2654435761 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 2246822519 & 0xFFFFFFFF
    return (i * 7919) % KEYS, mixed >> 13 & 7, i // DENSE


def open_few(i: int) -> Event:
    return i % OPEN_KEYS, 0 if i < OPEN_KEYS else 7, i // DENSE


def open_many(i: int) -> Event:
    return i % OPEN_KEYS, 0 if i // OPEN_KEYS % RARE == 0 else 7, i // DENSE


def is_a(found: Event) -> bool:
    return found[1] == 0


def is_b(found: Event) -> bool:
    return found[1] == 1


def is_c(found: Event) -> bool:
    return found[1] == 2


def pattern_of(workload: str) -> Pattern[Event]:
    within = Duration.of_millis(WINDOW_MS if workload in ("three", "loop") else 1 << 40)
    if workload == "loop":
        start = Pattern[Event].begin("a", AfterMatchSkipStrategy.skip_past_last_event()).where(is_a)
        return start.followed_by("b").where(is_b).one_or_more().greedy().followed_by("c").where(is_c).within(within)
    start = Pattern[Event].begin("a").where(is_a)
    return start.followed_by("b").where(is_b).followed_by("c").where(is_c).within(within)


class HandWritten(KeyedProcessFunction[int, Event, Any]):
    """The part that both have in common: what is open, and a timer that clears it when its time is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held"))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[int]) -> None:
        held = self.held.value()
        if held is not None:
            left = self.without(held, timestamp - WINDOW_MS)
            if left is None:
                self.held.clear()
            else:
                self.held.update(left)
                ctx.timer_service().register_event_time_timer(self.first(left) + WINDOW_MS)

    def without(self, held: Any, limit: int) -> Any:
        raise NotImplementedError

    def first(self, held: Any) -> int:
        raise NotImplementedError


class Three(HandWritten):
    """a, then b, then c: lists of a, and of pairs of a and b."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[int]) -> Iterator[Any]:
        kind, held = value[1], self.held.value()
        if kind == 0:
            if held is None:
                self.held.update(([value], []))
                ctx.timer_service().register_event_time_timer(value[2] + WINDOW_MS)
            else:
                self.held.update(([*held[0], value], held[1]))
        elif held is not None and kind == 1 and held[0]:
            fresh = [one for one in held[0] if one[2] > value[2] - WINDOW_MS]
            self.held.update(([], held[1] + [(one, value) for one in fresh]))
        elif held is not None and kind == 2 and held[1]:
            for one, other in held[1]:
                if one[2] > value[2] - WINDOW_MS:
                    yield one, other, value
            self.held.update((held[0], [])) if held[0] else self.held.clear()

    def without(self, held: Any, limit: int) -> Any:
        ones = [one for one in held[0] if one[2] > limit]
        pairs = [pair for pair in held[1] if pair[0][2] > limit]
        return (ones, pairs) if ones or pairs else None

    def first(self, held: Any) -> int:
        return min([one[2] for one in held[0]] + [pair[0][2] for pair in held[1]])


class Loop(HandWritten):
    """a, then all b, then c: the open a with the number of b before each, and all b."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[int]) -> Iterator[Any]:
        kind, held = value[1], self.held.value()
        if kind == 0:
            if held is None:
                self.held.update(([(value, 0)], []))
                ctx.timer_service().register_event_time_timer(value[2] + WINDOW_MS)
            else:
                self.held.update(([*held[0], (value, len(held[1]))], held[1]))
        elif held is not None and kind == 1:
            self.held.update((held[0], [*held[1], value]))
        elif held is not None and kind == 2:
            for start, before in held[0]:
                if start[2] > value[2] - WINDOW_MS and before < len(held[1]):
                    yield start, held[1][before:], value
                    self.held.clear()
                    break

    def without(self, held: Any, limit: int) -> Any:
        starts = [(start, before) for start, before in held[0] if start[2] > limit]
        if not starts:
            return None
        gone = starts[0][1]
        return [(start, before - gone) for start, before in starts], held[1][gone:]

    def first(self, held: Any) -> int:
        return int(held[0][0][0][2])


def build(env: StreamExecutionEnvironment, workload: str, engine: str, events: int) -> DataStream[Any]:
    """Return the stream of matches; of the engine ``none``, what the operator would receive."""
    made = {"few": open_few, "many": open_many}.get(workload, event)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda found, _: found[2])
    # One subtask up to the exchange: the hand-written functions, unlike patterns, need events in the order of time.
    source = NumberSequenceSource(0, events - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").set_parallelism(1)
    stamped = numbers.map(made).set_parallelism(1).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    keyed = stamped.key_by(lambda found: found[0])
    if engine == "cep":
        return CEP.pattern(keyed, pattern_of(workload)).select(len)
    if engine == "hand":
        return keyed.process(Loop() if workload == "loop" else Three()).map(len)
    return keyed.process(Nothing())


class Nothing(KeyedProcessFunction[int, Event, Any]):
    """Takes events and does nothing, which is what the job costs without a pattern."""

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context[int]) -> None:
        return None
