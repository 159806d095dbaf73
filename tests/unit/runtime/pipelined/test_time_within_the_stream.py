"""A watermark generator that emits for single records is visible record by record in a pipelined job.

The model is Flink's: a record is processed, then its watermark, which fires timers and windows before the next record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Time, WatermarkStrategy
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkGenerator
from flott.datastream import OutputTag
from flott.datastream._data_stream import DataStream
from flott.datastream.connectors.base import READ_BATCH_RECORDS
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
)
from flott.datastream.window import TumblingEventTimeWindows
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.stateless import MapOperator
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sources import EndOfEpoch, ScriptedSource

WINDOW_MS = 10
TIMER_MS = 4
NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()


class Event(NamedTuple):
    """A record; ``mark`` is the watermark behind it, if it has one."""

    number: int
    key: int
    at: int
    mark: int | None


class Punctuated(WatermarkGenerator):
    """Emits the watermark that a record carries, at once."""

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        if value.mark is not None:
            output.emit_watermark(Watermark(value.mark - 1))  # of two for one record, the later counts
            output.emit_watermark(Watermark(value.mark))

    def on_periodic_emit(self, output: Any) -> None:
        pass


STRATEGY = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda event, _: event.at)


# --- the program -----------------------------------------------------------------------------------------------------


class Seen(ProcessFunction[Any, Any]):
    """Emits the watermark that every record meets."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.number, ctx.timer_service().current_watermark()


class Alarms(KeyedProcessFunction[Any, Any, Any]):
    """Sets a timer for each record, which may lie behind the watermark."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield "record", value.number, ctx.timer_service().current_watermark()
        ctx.timer_service().register_event_time_timer(value.at + TIMER_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", (timestamp, ctx.get_current_key()), ctx.timer_service().current_watermark()


class Numbers(AggregateFunction[Any, tuple[int, ...], tuple[int, ...]]):
    def create_accumulator(self) -> tuple[int, ...]:
        return ()

    def add(self, value: Any, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        return (*accumulator, value.number)

    def get_result(self, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        return accumulator

    def merge(self, one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
        return one + other


class InWindow(ProcessWindowFunction[Any, Any, int, Any]):
    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield "window", (context.window().start, key), *elements


@dataclass
class Found:
    """What the sinks of the program got."""

    seen: list[Any] = field(default_factory=list)
    alarms: list[Any] = field(default_factory=list)
    windows: list[Any] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)


LATE = OutputTag("late")


def run(events: DataStream[Any], found: Found) -> None:
    events.process(Seen()).sink_to(CallableSink(found.seen.append))
    keyed = events.key_by(lambda event: event.key)
    keyed.process(Alarms()).sink_to(CallableSink(found.alarms.append))
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).side_output_late_data(LATE)
    sums = windows.aggregate(Numbers(), InWindow())
    sums.sink_to(CallableSink(found.windows.append))
    sums.get_side_output(LATE).map(lambda event: event.number).sink_to(CallableSink(found.late.append))


def run_pipelined(
    script: Any, *, in_source: bool, parallelism: int = 1, settings: TaskSettings | None = None, interval: str = "1 h"
) -> Found:
    env = in_process(parallelism, execution__mode="pipelined", execution__checkpointing__interval=interval)
    env.set_max_parallelism(12)
    found = Found()
    events = env.from_source(ScriptedSource(script), STRATEGY if in_source else NO_WATERMARKS, "events")
    if not in_source:
        events = events.map(lambda event: event).assign_timestamps_and_watermarks(STRATEGY)
    run(events, found)
    with TemporaryDirectory() as folder:
        life = live(env, folder, settings=settings)
    assert life.failure is None
    return found


# --- the model -------------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Flink's semantics with one subtask, a record at a time."""

    watermark: int = MIN_WATERMARK
    timers: set[tuple[int, int]] = field(default_factory=set)
    panes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    found: Found = field(default_factory=Found)

    def process(self, event: Event) -> None:
        found = self.found
        found.seen.append((event.number, self.watermark))
        found.alarms.append(("record", event.number, self.watermark))
        self.timers.add((event.at + TIMER_MS, event.key))
        start = event.at // WINDOW_MS * WINDOW_MS
        if start + WINDOW_MS - 1 <= self.watermark:
            found.late.append(event.number)
        else:
            self.panes[start, event.key] = (*self.panes.get((start, event.key), ()), event.number)
        if event.mark is not None:
            self.advance(event.mark)

    def advance(self, watermark: int) -> None:
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        for due in sorted(timer for timer in self.timers if timer[0] <= watermark):
            self.timers.remove(due)
            self.found.alarms.append(("timer", due, watermark))
        for place in sorted(place for place in self.panes if place[0] + WINDOW_MS - 1 <= watermark):
            self.found.windows.append(("window", place, self.panes.pop(place)))


def expected(events: Iterable[Event]) -> Found:
    model = Model()
    for event in events:
        model.process(event)
    model.advance(MAX_WATERMARK)
    return model.found


def in_order(alarms: list[Any]) -> list[Any]:
    """Return the output of timers with those sorted that a watermark has fired: keys are in no order."""
    sorted_runs = []
    for (kind, _), group in groupby(alarms, key=lambda found: (found[0], found[2])):
        same = list(group)
        sorted_runs += same if kind == "record" else sorted(same)
    return sorted_runs


@st.composite
def scripts(draw: st.DrawFn) -> list[Any]:
    """Return events in any order of time, some with a watermark, in rounds of any length."""
    length = draw(st.integers(0, 40))
    script: list[Any] = []
    for number in range(length):
        at = max(0, number + draw(st.integers(-15, 15)))
        mark = draw(st.none() | st.integers(-20, 5))
        script.append(Event(number, draw(st.integers(0, 2)), at, None if mark is None else at + mark))
        if draw(st.integers(0, 5)) == 0:
            script.append(EndOfEpoch())
    return script


def events_of(script: Iterable[Any]) -> list[Event]:
    return [entry for entry in script if isinstance(entry, Event)]


@given(scripts(), st.booleans(), st.sampled_from([1, 3, 1024]), st.sampled_from(["1 ms", "1 h"]))
def test_one_subtask_does_what_flink_does_record_by_record(
    script: list[Any], in_source: bool, buffer_records: int, interval: str
) -> None:
    settings = TaskSettings(buffer_records=buffer_records)
    found = run_pipelined(script, in_source=in_source, settings=settings, interval=interval)
    model = expected(events_of(script))
    assert found.seen == model.seen
    assert in_order(found.alarms) == model.alarms
    assert sorted(found.windows) == sorted(model.windows)
    assert sorted(found.late) == sorted(model.late)


@given(st.lists(scripts(), min_size=1, max_size=4), st.booleans(), st.integers(2, 3))
def test_several_subtasks_lose_nothing_and_fire_nothing_early(
    parts: list[list[Any]], in_source: bool, parallelism: int
) -> None:
    script = {
        f"split {number}": [
            entry._replace(number=entry.number + 1000 * number) if isinstance(entry, Event) else entry
            for entry in entries
        ]
        for number, entries in enumerate(parts)
    }
    events = [event for entries in script.values() for event in events_of(entries)]
    found = run_pipelined(script, in_source=in_source, parallelism=parallelism)
    assert sorted(number for number, _ in found.seen) == sorted(event.number for event in events)
    assert sorted(number for kind, number, _ in found.alarms if kind == "record") == sorted(e.number for e in events)
    fired = [(due, watermark) for kind, due, watermark in found.alarms if kind == "timer"]
    assert all(watermark >= at for (at, _), watermark in fired)
    assert {due for due, _ in fired} == {(event.at + TIMER_MS, event.key) for event in events}
    counted = Counter(number for _, _, numbers in found.windows for number in numbers)
    assert counted + Counter(found.late) == Counter(event.number for event in events)
    known = {MIN_WATERMARK, MAX_WATERMARK} | {e.mark for e in events if e.mark is not None}
    assert {watermark for _, watermark in found.seen} <= known


# --- single promises -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_source", [True, False])
def test_a_record_is_late_by_the_watermark_of_the_record_before_it(in_source: bool) -> None:
    script = [Event(0, 0, 5, None), Event(1, 0, 30, 30), Event(2, 0, 6, None), Event(3, 0, 31, None)]
    found = run_pipelined(script, in_source=in_source)
    assert found.late == [2]
    assert found.alarms == [
        ("record", 0, MIN_WATERMARK), ("record", 1, MIN_WATERMARK), ("timer", (9, 0), 30), ("record", 2, 30),
        ("record", 3, 30), ("timer", (10, 0), MAX_WATERMARK), ("timer", (34, 0), MAX_WATERMARK),
        ("timer", (35, 0), MAX_WATERMARK),
    ]  # fmt: skip


def test_a_split_that_lags_behind_holds_the_watermark_of_its_subtask(tmp_path: Path) -> None:
    script = {"fast": [Event(0, 0, 50, 50), Event(1, 0, 51, 51)], "slow": [Event(2, 0, 20, 20), Event(3, 0, 21, None)]}
    found = run_pipelined(script, in_source=True)
    assert found.seen == [(0, MIN_WATERMARK), (1, MIN_WATERMARK), (2, MIN_WATERMARK), (3, 20)]


def batches_of(strategy: WatermarkStrategy, monkeypatch: pytest.MonkeyPatch, mode: str) -> list[int]:
    """Run events through a source with a strategy, and return the sizes of the batches that leave it."""
    sizes: list[int] = []
    process = MapOperator.process

    def counting(self: MapOperator, batch: RowBatch) -> None:
        sizes.append(len(batch))
        process(self, batch)

    monkeypatch.setattr(MapOperator, "process", counting)
    env = in_process(1, execution__mode=mode, execution__checkpointing__interval="1 h")
    script = [Event(number, 0, number, number) for number in range(20)]
    env.from_source(ScriptedSource(script), strategy, "events").map(lambda event: event).sink_to(
        CallableSink(lambda event: None)
    )
    with TemporaryDirectory() as folder:
        live(env, folder)
    return sizes


@pytest.mark.parametrize(
    ("mode", "strategy", "sizes"),
    [
        ("pipelined", STRATEGY, [1] * 20),
        ("epochs", STRATEGY, [20]),
        ("pipelined", WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e.at), [20]),
    ],
)
def test_batches_are_cut_only_where_a_watermark_is_emitted_in_a_pipelined_job(
    monkeypatch: pytest.MonkeyPatch, mode: str, strategy: WatermarkStrategy, sizes: list[int]
) -> None:
    assert batches_of(strategy, monkeypatch, mode) == sizes


CLOCK = ManualClock(0)


def slow(event: Event) -> Event:
    """Take 300 ms for each batch."""
    if event.number % READ_BATCH_RECORDS == 0:
        CLOCK.advance(300)
    return event


@pytest.mark.parametrize(("interval", "watermarks"), [("200 ms", {MIN_WATERMARK, 1023}), ("0 ms", {MIN_WATERMARK})])
def test_generators_emit_periodically_while_a_round_takes_long(
    tmp_path: Path, interval: str, watermarks: set[int]
) -> None:
    env = in_process(
        1,
        execution__mode="pipelined",
        execution__checkpointing__interval="1 h",
        pipeline__auto_watermark_interval=interval,
    )
    found = Found()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event.at)
    script = [Event(number, 0, number + 1, None) for number in range(2 * READ_BATCH_RECORDS)]
    events = env.from_source(ScriptedSource(script), strategy, "events").map(slow)
    events.process(Seen()).sink_to(CallableSink(found.seen.append))
    live(env, tmp_path, clock=CLOCK)
    assert {watermark for _, watermark in found.seen} == watermarks
