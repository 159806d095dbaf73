"""What windows do, written down by hand from Flink's documentation: one table row per kind of window and trigger.

In a row, ``a1@3`` is a record of key ``a`` with the value 1 and the timestamp 3; ``a[0,10) 1+2 @9`` is a result of key
``a`` and the window from 0 to 10, made of the values 1 and 2, with the timestamp 9. Every row is run with each kind of
window function, folding or not, straight through and restored from a snapshot, at another parallelism, after each step.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from flott.common import Time, Types
from flott.datastream import OutputTag
from flott.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flott.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from flott.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountWindow,
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flott.testing import OperatorHarness

LATE = OutputTag("late")
FOREVER = 2**63 - 1


def ms(length: int) -> Time:
    return Time.milliseconds(length)


# ---------------------------------------------------------------------------------------------------------------------
# The language of the table
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Something that happens, and what comes out because of it."""

    act: Callable[[OperatorHarness], None]
    gives: tuple[str, ...]
    title: str


def put(records: str, *gives: str) -> Step:
    """Records come, as one batch."""
    parsed = [re.fullmatch(r"(\w)(\d)(?:@(-?\d+))?", word) for word in records.split()]
    values = [(match[1], match[2]) for match in parsed if match]
    stamps = [int(match[3]) for match in parsed if match and match[3]]
    assert len(values) == len(records.split())
    return Step(lambda harness: harness.process_elements(values, stamps or None), gives, records)


def watermark(timestamp: int, *gives: str) -> Step:
    return Step(lambda harness: harness.process_watermark(timestamp), gives, f"watermark {timestamp}")


def clock(timestamp: int, *gives: str) -> Step:
    return Step(lambda harness: harness.set_processing_time(timestamp), gives, f"clock {timestamp}")


def end(*gives: str) -> Step:
    return Step(lambda harness: harness.end_input(), gives, "end")


@dataclass(frozen=True)
class Row:
    """One row of the table. ``leaves``: entries of state and timers that are there in the end."""

    title: str
    windows: Callable[[Any], Any]
    steps: tuple[Step, ...]
    leaves: int = 0
    by_key: bool = field(default=True, kw_only=True)


def row(title: str, windows: Callable[[Any], Any], *steps: Step, leaves: int = 0) -> Row:
    return Row(title, windows, steps, leaves)


def row_of_all(title: str, windows: Callable[[Any], Any], *steps: Step, leaves: int = 0) -> Row:
    return Row(title, windows, steps, leaves, by_key=False)


def shown(key: str, window: Any, elements: Iterable[tuple[str, str]]) -> str:
    match window:
        case TimeWindow():
            bounds = f"[{window.start},{window.end})"
        case CountWindow():
            bounds = f"#{window.id}"
        case GlobalWindow():
            bounds = "*"
    values = "+".join(sorted(digit for _, values in elements for digit in values.split("+")))
    return f"{key}{bounds} {values}"


class Processed(ProcessWindowFunction[Any, str, str, Any]):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield shown(key, context.window(), elements)


class Applied(WindowFunction[Any, str, str, Any]):
    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterator[str]:
        yield shown(key, window, inputs)


class ProcessedAll(ProcessAllWindowFunction[Any, str, Any]):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield shown("", context.window(), elements)


class AppliedAll(AllWindowFunction[Any, str, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterator[str]:
        yield shown("", window, inputs)


def concatenate(one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str]:
    return one[0], f"{one[1]}+{other[1]}"


class Concatenate(AggregateFunction[Any, list[str], tuple[str, str]]):
    """Its accumulator is changed in place, as Flink's guide does it."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: tuple[str, str], accumulator: list[str]) -> list[str]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[str]) -> tuple[str, str]:
        return "", "+".join(accumulator)

    def merge(self, acc_a: list[str], acc_b: list[str]) -> list[str]:
        acc_a.extend(acc_b)
        return acc_a


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "process": lambda windows, processed, applied: windows.process(processed),
    "apply": lambda windows, processed, applied: windows.apply(applied),
    "reduce + process": lambda windows, processed, applied: windows.reduce(concatenate, processed),
    "reduce + apply": lambda windows, processed, applied: windows.reduce(concatenate, applied),
    "aggregate + process": lambda windows, processed, applied: windows.aggregate(Concatenate(), processed),
    "aggregate + apply": lambda windows, processed, applied: windows.aggregate(Concatenate(), applied),
}


def run(row: Row, function: str, restoring: bool) -> tuple[list[tuple[str, list[str]]], OperatorHarness]:
    """What came out at every step."""

    def piece(stream: Any) -> Any:
        if row.by_key:
            windows = row.windows(stream.key_by(lambda record: record[0]))
            return FUNCTIONS[function](windows.side_output_late_data(LATE), Processed(), Applied())
        return FUNCTIONS[function](row.windows(stream).side_output_late_data(LATE), ProcessedAll(), AppliedAll())

    harness = OperatorHarness(piece, processing_time=0)
    seen = []
    for number, step in enumerate(row.steps):
        step.act(harness)
        came = [f"{value} @{'end' if time == FOREVER else time}" for value, time in harness.output_with_timestamps]
        came += [f"late {key}{value}" for key, value in harness.side_output(LATE)]
        seen.append((step.title, sorted(came)))
        harness.clear_output()
        if restoring and step.title != "end":
            taken = harness.snapshot()
            assert harness.output == []  # time stood still
            harness.close()
            harness = OperatorHarness(piece, parallelism=(3, 1, 2)[number % 3], snapshot=taken)
            assert harness.output == []
    return seen, harness


def entries_of(harness: OperatorHarness) -> int:
    return harness.num_keyed_state_entries + harness.num_event_time_timers + harness.num_processing_time_timers


# ---------------------------------------------------------------------------------------------------------------------
# Triggers and an evictor of one's own
# ---------------------------------------------------------------------------------------------------------------------


class BothClocks(Trigger[Any, TimeWindow]):
    """Fires ten milliseconds after the window's first record, purges with every third record and at the end."""

    count = ReducingStateDescriptor("n", operator.add, Types.LONG())
    due = ValueStateDescriptor("due", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        count, due = ctx.get_partitioned_state(self.count), ctx.get_partitioned_state(self.due)
        if due.value() is None:
            due.update(ctx.get_current_processing_time() + 10)
            ctx.register_processing_time_timer(due.value())
            ctx.register_event_time_timer(window.max_timestamp())
        count.add(1)
        return TriggerResult.FIRE_AND_PURGE if count.get() % 3 == 0 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        assert time == ctx.get_partitioned_state(self.due).value()
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: Any) -> None:
        due = ctx.get_partitioned_state(self.due)
        if due.value() is not None:
            ctx.delete_processing_time_timer(due.value())
        ctx.delete_event_time_timer(window.max_timestamp())
        due.clear()
        ctx.get_partitioned_state(self.count).clear()


class PurgingAtNine(EventTimeTrigger[Any]):
    """Throws the window away, without a result, when a 9 comes."""

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
        result = super().on_element(element, timestamp, window, ctx)
        return TriggerResult.PURGE if element[1] == "9" else result


class WithoutOnes(Evictor[Any, Any]):
    """The function does not see 1s, and 2s are removed once it has seen them."""

    def evict_before(self, elements: list[Any], size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)
        elements[:] = [element for element in elements if element.value[1] != "1"]

    def evict_after(self, elements: list[Any], size: int, window: Any, ctx: Any) -> None:
        assert size == len(elements)
        elements[:] = [element for element in elements if element.value[1] != "2"]


def rise(old: tuple[str, str], new: tuple[str, str]) -> float:
    return int(new[1]) - int(old[1])


def distance(one: tuple[str, str], other: tuple[str, str]) -> float:
    return abs(int(one[1]) - int(other[1]))


def gap_of(record: tuple[str, str]) -> int:
    return int(record[1])


# ---------------------------------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------------------------------

TUMBLING = TumblingEventTimeWindows.of(ms(10))
SLIDING = SlidingEventTimeWindows.of(ms(10), ms(5))
CUMULATIVE = CumulativeEventTimeWindows.of(ms(12), ms(4))
SESSIONS = EventTimeSessionWindows.with_gap(ms(5))

WINDOWS = [
    row(
        "tumbling",
        lambda keyed: keyed.window(TUMBLING),
        put("a1@0 a2@9 b3@5"),
        watermark(8),
        watermark(9, "a[0,10) 1+2 @9", "b[0,10) 3 @9"),
        put("a4@9 a5@10", "late a4"),
        watermark(30, "a[10,20) 5 @19"),
    ),
    row(
        "tumbling, out of order in one batch",
        lambda keyed: keyed.window(TUMBLING),
        put("a1@25 a2@3 b3@14 a4@7 a5@21"),
        watermark(19, "a[0,10) 2+4 @9", "b[10,20) 3 @19"),
        end("a[20,30) 1+5 @29"),
    ),
    row(
        "tumbling, offset",
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10), ms(3))),
        put("a1@2 a2@3 a3@12 a4@13"),
        watermark(2, "a[-7,3) 1 @2"),
        watermark(22, "a[3,13) 2+3 @12", "a[13,23) 4 @22"),
    ),
    row(
        "tumbling, negative offset",
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10), ms(-3))),
        put("a1@-4 a2@-3 a3@6 a4@7"),
        watermark(100, "a[-13,-3) 1 @-4", "a[-3,7) 2+3 @6", "a[7,17) 4 @16"),
    ),
    row(
        "tumbling, before 1970",
        lambda keyed: keyed.window(TUMBLING),
        put("a1@-1 a2@-10 a3@-11 a4@0"),
        watermark(-1, "a[-20,-10) 3 @-11", "a[-10,0) 1+2 @-1"),
        put("a5@-1", "late a5"),
        end("a[0,10) 4 @9"),
    ),
    row(
        "sliding",
        lambda keyed: keyed.window(SLIDING),
        put("a1@7 a2@12 a3@3"),
        watermark(4, "a[-5,5) 3 @4"),
        put("a4@4"),  # too late for one of its windows, in time for the other
        watermark(9, "a[0,10) 1+3+4 @9"),
        watermark(14, "a[5,15) 1+2 @14"),
        put("a5@5 b6@9", "late a5", "late b6"),
        watermark(19, "a[10,20) 2 @19"),
    ),
    row(
        "sliding, size not a multiple of the slide",
        lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(10), ms(4))),
        put("a1@9 a2@10"),
        watermark(50, "a[0,10) 1 @9", "a[4,14) 1+2 @13", "a[8,18) 1+2 @17"),
    ),
    row(
        "sliding, with gaps between windows",
        lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(4), ms(10))),
        put("a1@3 a2@4 a3@9 a4@10"),
        watermark(13, "a[0,4) 1 @3", "a[10,14) 4 @13"),
    ),
    row(
        "sliding, offset",
        lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(10), ms(5), ms(2))),
        put("a1@6"),
        end("a[-3,7) 1 @6", "a[2,12) 1 @11"),
    ),
    row(
        "cumulative",
        lambda keyed: keyed.window(CUMULATIVE),
        put("a1@5 a2@1 a3@11 a8@12"),
        watermark(3, "a[0,4) 2 @3"),
        put("a4@2"),
        watermark(7, "a[0,8) 1+2+4 @7"),
        put("a5@0"),
        watermark(11, "a[0,12) 1+2+3+4+5 @11"),
        put("a6@11", "late a6"),
        end("a[12,16) 8 @15", "a[12,20) 8 @19", "a[12,24) 8 @23"),
    ),
    row(
        "cumulative, offset",
        lambda keyed: keyed.window(CumulativeEventTimeWindows.of(ms(12), ms(4), ms(2))),
        put("a1@1 a2@2"),
        end("a[-10,2) 1 @1", "a[2,6) 2 @5", "a[2,10) 2 @9", "a[2,14) 2 @13"),
    ),
    row(
        "sessions",
        lambda keyed: keyed.window(SESSIONS),
        put("a1@0 a2@4 a3@9 b1@20"),  # sessions that touch are one
        watermark(13, "a[0,14) 1+2+3 @13"),
        put("a4@20 a5@30 a6@25"),  # the third joins the first two
        watermark(34, "a[20,35) 4+5+6 @34", "b[20,25) 1 @24"),
        put("a7@29 a8@30 a9@31", "late a7", "late a8"),
        watermark(35, "a[31,36) 9 @35"),
    ),
    row(
        "sessions, a record that is late alone but joins an open session",
        lambda keyed: keyed.window(SESSIONS),
        put("a1@10"),
        watermark(12),
        put("a2@6 b3@6", "late b3"),
        watermark(14, "a[6,15) 1+2 @14"),
    ),
    row(
        "sessions, dynamic gap",
        lambda keyed: keyed.window(EventTimeSessionWindows.with_dynamic_gap(gap_of)),
        put("a5@0 a1@2 a9@3 b1@0 b1@2"),
        watermark(11, "a[0,12) 1+5+9 @11", "b[0,1) 1 @0", "b[2,3) 1 @2"),
    ),
    row(
        "global",
        lambda keyed: keyed.window(GlobalWindows.create()),
        put("a1@1 a2@2"),
        end(),
        leaves=1,
    ),
    row(
        "count tumbling",
        lambda keyed: keyed.count_window(2),
        put("a1 b2 a3", "a#0 1+3 @end"),
        put("a4 b5 a6", "b#0 2+5 @end", "a#1 4+6 @end"),
        leaves=2,  # how many records each key had
    ),
    row(
        "count sliding",
        lambda keyed: keyed.count_window(3, 2),
        put("a1 a2"),
        put("a3", "a#0 1+2+3 @end"),
        put("a4 a5 a6 a7", "a#1 3+4+5 @end", "a#2 5+6+7 @end"),
        leaves=3,  # the count of the key, one record of window 3 and its count
    ),
    row(
        "count sliding, with gaps",
        lambda keyed: keyed.count_window(1, 2),
        put("a1 a2 a3", "a#0 1 @end", "a#1 3 @end"),
        leaves=1,
    ),
    row(
        "tumbling in processing time",
        lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(10))),
        clock(3),
        put("a1 a2"),
        clock(9),
        put("b3 a4"),  # the last millisecond of the window is part of it
        clock(10, "a[0,10) 1+2+4 @9", "b[0,10) 3 @9"),
        put("a5"),
        clock(50, "a[10,20) 5 @19"),
    ),
    row(
        "tumbling in processing time, offset",
        lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(10), ms(3))),
        clock(12),
        put("a1"),
        clock(13, "a[3,13) 1 @12"),
    ),
    row(
        "sliding in processing time",
        lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(ms(10), ms(5))),
        clock(7),
        put("a1"),
        clock(10, "a[0,10) 1 @9"),
        put("a2"),
        clock(15, "a[5,15) 1+2 @14"),
        clock(100, "a[10,20) 2 @19"),
    ),
    row(
        "cumulative in processing time",
        lambda keyed: keyed.window(CumulativeProcessingTimeWindows.of(ms(12), ms(4))),
        clock(5),
        put("a1"),
        clock(8, "a[0,8) 1 @7"),
        clock(9),
        put("a2"),
        clock(12, "a[0,12) 1+2 @11"),
    ),
    row(
        "sessions in processing time",
        lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_gap(ms(5))),
        put("a1"),
        clock(4),
        put("a2"),
        clock(9, "a[0,9) 1+2 @8"),
        put("a3"),
        clock(13),
        put("a4"),
        clock(30, "a[9,18) 3+4 @17"),
    ),
    row(
        "sessions in processing time, dynamic gap",
        lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_dynamic_gap(gap_of)),
        put("a9"),
        clock(1),
        put("a2"),
        clock(9, "a[0,9) 2+9 @8"),
    ),
    row_of_all(
        "all, tumbling",
        lambda stream: stream.window_all(TUMBLING),
        put("a1@1 b2@2 c3@13"),
        watermark(9, "[0,10) 1+2 @9"),
        put("d4@3", "late d4"),
        end("[10,20) 3 @19"),
    ),
    row_of_all(
        "all, sessions",
        lambda stream: stream.window_all(SESSIONS),
        put("a1@1 b2@6 c3@12"),
        end("[1,11) 1+2 @10", "[12,17) 3 @16"),
    ),
    row_of_all(
        "all, tumbling in processing time",
        lambda stream: stream.window_all(TumblingProcessingTimeWindows.of(ms(10))),
        put("a1 b2"),
        clock(10, "[0,10) 1+2 @9"),
    ),
    row_of_all(
        "all, counted",
        lambda stream: stream.count_window_all(2),
        put("a1 b2 c3", "#0 1+2 @end"),
        put("a4", "#1 3+4 @end"),
        leaves=1,
    ),
]

LATENESS = [
    row(
        "tumbling, lateness: every late record fires the window again",
        lambda keyed: keyed.window(TUMBLING).allowed_lateness(5),
        put("a1@1"),
        watermark(9, "a[0,10) 1 @9"),
        put("a2@2", "a[0,10) 1+2 @9"),
        put("a3@3 b4@4 a5@5", "a[0,10) 1+2+3 @9", "b[0,10) 4 @9", "a[0,10) 1+2+3+5 @9"),
        watermark(13),
        put("a6@6", "a[0,10) 1+2+3+5+6 @9"),
        watermark(14),
        put("a7@7", "late a7"),
    ),
    row(
        "tumbling, lateness, purging: a late record stands alone",
        lambda keyed: keyed.window(TUMBLING).trigger(PurgingTrigger.of(EventTimeTrigger.create())).allowed_lateness(5),
        put("a1@1"),
        watermark(9, "a[0,10) 1 @9"),
        put("a2@2", "a[0,10) 2 @9"),
        put("a3@3 a4@4", "a[0,10) 3 @9", "a[0,10) 4 @9"),
        watermark(14),
        put("a5@5", "late a5"),
    ),
    row(
        "sliding, lateness",
        lambda keyed: keyed.window(SLIDING).allowed_lateness(3),
        put("a1@6"),
        watermark(9, "a[0,10) 1 @9"),
        put("a2@7", "a[0,10) 1+2 @9"),
        watermark(12),
        put("a3@8 a4@4", "late a4"),
        watermark(14, "a[5,15) 1+2+3 @14"),
        watermark(17),
    ),
    row(
        "sessions, lateness",
        lambda keyed: keyed.window(SESSIONS).allowed_lateness(10),
        put("a1@0"),
        watermark(4, "a[0,5) 1 @4"),
        put("a2@3"),  # prolongs the session beyond the watermark
        watermark(7, "a[0,8) 1+2 @7"),
        put("a3@2", "a[0,8) 1+2+3 @7"),
        watermark(17),
        put("a4@3 a5@9", "late a4", "a[9,14) 5 @13"),
        end(),
    ),
    row(
        "sessions, lateness, purging",
        lambda keyed: keyed.window(SESSIONS).trigger(PurgingTrigger.of(EventTimeTrigger.create())).allowed_lateness(10),
        put("a1@0"),
        watermark(4, "a[0,5) 1 @4"),
        put("a2@3"),
        watermark(7, "a[0,8) 2 @7"),
        watermark(17),
    ),
    row(
        "sessions that fired apart fire again together",
        lambda keyed: keyed.window(SESSIONS).allowed_lateness(20),
        put("a1@0 a2@10"),
        watermark(14, "a[0,5) 1 @4", "a[10,15) 2 @14"),
        put("a3@5", "a[0,15) 1+2+3 @14"),
        watermark(33),
        put("a4@9", "a[0,15) 1+2+3+4 @14"),
        watermark(34),
        put("a5@9", "late a5"),
    ),
    row(
        "lateness means nothing in processing time",
        lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(10))).allowed_lateness(100),
        put("a1"),
        clock(10, "a[0,10) 1 @9"),
        put("a2"),
        clock(20, "a[10,20) 2 @19"),
    ),
]

TRIGGERS = [
    row(
        "event time on global windows: at the end of the input",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(EventTimeTrigger.create()),
        put("a1@1 a2@2"),
        watermark(1000),
        end("a* 1+2 @end"),
        leaves=1,
    ),
    row(
        "processing time on windows of event time",
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(1000))).trigger(ProcessingTimeTrigger.create()),
        put("a1@1"),
        clock(999),
        clock(1000, "a[0,1000) 1 @999"),
        watermark(999),
    ),
    row(
        "count",
        lambda keyed: keyed.window(TUMBLING).trigger(CountTrigger.of(2)),
        put("a1@1 a2@2 a3@3 b4@4", "a[0,10) 1+2 @9"),
        put("a5@5", "a[0,10) 1+2+3+5 @9"),
        watermark(9),
    ),
    row(
        "count on global windows",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)),
        put("a1 b2 a3", "a* 1+3 @end"),
        put("a4 a5", "a* 1+3+4+5 @end"),
        leaves=3,  # the contents of both windows, and the count of b
    ),
    row(
        "count, purging, on global windows",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))),
        put("a1 b2 a3", "a* 1+3 @end"),
        put("a4 a5", "a* 4+5 @end"),
        leaves=2,
    ),
    row(
        "count, on sessions: counts are merged",
        lambda keyed: keyed.window(SESSIONS).trigger(CountTrigger.of(3)),
        put("a1@0 a2@20 a3@3"),
        put("a4@8", "a[0,13) 1+3+4 @12"),
        put("a5@13"),
        put("a6@18", "a[0,25) 1+2+3+4+5+6 @24"),
        watermark(24),
    ),
    row(
        "count, purging, on sessions",
        lambda keyed: keyed.window(SESSIONS).trigger(PurgingTrigger.of(CountTrigger.of(3))),
        put("a1@0 a2@20 a3@3"),
        put("a4@8", "a[0,13) 1+3+4 @12"),
        put("a5@13"),
        put("a6@18", "a[0,25) 2+5+6 @24"),
        watermark(24),
    ),
    row(
        "continuous event time",
        lambda keyed: keyed.window(TUMBLING).trigger(ContinuousEventTimeTrigger.of(ms(4))),
        put("a1@1"),
        watermark(3),
        watermark(4, "a[0,10) 1 @9"),
        put("a2@5"),
        watermark(8, "a[0,10) 1+2 @9"),
        watermark(9, "a[0,10) 1+2 @9"),
        put("b3@11"),
        watermark(19, "b[10,20) 3 @19", "b[10,20) 3 @19", "b[10,20) 3 @19"),  # at 12, 16 and the end
    ),
    row(
        "continuous event time, lateness",
        lambda keyed: keyed.window(TUMBLING).trigger(ContinuousEventTimeTrigger.of(ms(6))).allowed_lateness(5),
        put("a1@1"),
        watermark(9, "a[0,10) 1 @9", "a[0,10) 1 @9"),
        put("a2@2", "a[0,10) 1+2 @9"),
        watermark(14),
    ),
    row(
        "continuous event time, purging",
        lambda keyed: keyed.window(TUMBLING).trigger(PurgingTrigger.of(ContinuousEventTimeTrigger.of(ms(4)))),
        put("a1@1"),
        watermark(4, "a[0,10) 1 @9"),
        put("a2@5"),
        watermark(8, "a[0,10) 2 @9"),
        watermark(9),  # a window that holds nothing does not fire
    ),
    row(
        "continuous event time on global windows",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(ContinuousEventTimeTrigger.of(ms(10))),
        put("a1@3"),
        watermark(9),
        watermark(10, "a* 1 @end"),
        watermark(25, "a* 1 @end"),
        put("a2@26"),
        watermark(30, "a* 1+2 @end"),
        leaves=4,  # the contents, the time of the next fire, its timer, the timer of the end
    ),
    row(
        "continuous event time on sessions",
        lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(6))).trigger(
            ContinuousEventTimeTrigger.of(ms(10))
        ),
        put("a1@8"),
        put("a2@12"),
        watermark(10, "a[8,18) 1+2 @17"),
        watermark(17, "a[8,18) 1+2 @17"),
    ),
    row(
        "continuous processing time",
        lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(10))).trigger(
            ContinuousProcessingTimeTrigger.of(ms(4))
        ),
        clock(1),
        put("a1"),
        clock(5, "a[0,10) 1 @9"),
        put("a2"),
        clock(9, "a[0,10) 1+2 @9"),
        clock(10, "a[0,10) 1+2 @9"),
    ),
    row(
        "continuous processing time on windows of event time",
        lambda keyed: keyed.window(TUMBLING).trigger(ContinuousProcessingTimeTrigger.of(ms(4))),
        clock(1000),
        put("a1@1"),
        clock(1005, "a[0,10) 1 @9"),
        put("a2@2"),
        watermark(9),
        clock(2000),
    ),
    row(
        "continuous processing time on sessions",
        lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_gap(ms(6))).trigger(
            ContinuousProcessingTimeTrigger.of(ms(10))
        ),
        clock(8),
        put("a1"),
        clock(9),
        put("a2"),
        clock(11, "a[8,15) 1+2 @14"),
        clock(15, "a[8,15) 1+2 @14"),
    ),
    row(
        "never",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(NeverTrigger()),
        put("a1@1 b2@2"),
        end(),
        leaves=2,
    ),
    row(
        "delta",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(DeltaTrigger.of(3, rise)),
        put("a1 a3 b9 a4"),
        put("a5", "a* 1+3+4+5 @end"),
        put("a8"),  # a rise of 3 is not more than 3
        put("a9", "a* 1+3+4+5+8+9 @end"),
        leaves=4,
    ),
    row(
        "delta, in windows that end",
        lambda keyed: keyed.window(TUMBLING).trigger(DeltaTrigger.of(3, rise)),
        put("a1@1 a5@2 a9@3 a2@11", "a[0,10) 1+5 @9", "a[0,10) 1+5+9 @9"),
        watermark(19),
    ),
    row(
        "count with a timeout",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(
            ProcessingTimeoutTrigger.of(CountTrigger.of(3), ms(10))
        ),
        put("a1"),
        clock(5),
        put("a2"),
        clock(10),
        clock(11, "a* 1+2 @end"),
        put("a3 a4"),  # the count begins anew
        put("a5", "a* 1+2+3+4+5 @end"),
        clock(50),
        leaves=1,
    ),
    row(
        "count with a timeout that every record sets anew",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(
            ProcessingTimeoutTrigger.of(CountTrigger.of(3), ms(10), reset_timer_on_new_record=True)
        ),
        put("a1"),
        clock(5),
        put("a2"),
        clock(11),
        clock(16, "a* 1+2 @end"),
        leaves=1,
    ),
    row(
        "count that goes on after a timeout",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(
            ProcessingTimeoutTrigger.of(CountTrigger.of(3), ms(10), should_clear_on_timeout=False)
        ),
        put("a1"),
        clock(11, "a* 1 @end"),
        put("a2"),
        clock(50),
        put("a3", "a* 1+2+3 @end"),
        leaves=1,
    ),
    row(
        "the end of the window, with a timeout, which takes the end away",
        lambda keyed: keyed.window(TUMBLING).trigger(ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), ms(10))),
        put("a1@1 b2@2"),
        clock(11, "a[0,10) 1 @9", "b[0,10) 2 @9"),
        put("b3@3"),
        watermark(9, "b[0,10) 2+3 @9"),
        put("a4@4", "late a4"),
    ),
    row(
        "one's own, with state and both clocks",
        lambda keyed: keyed.window(TUMBLING).trigger(BothClocks()),
        put("a1@1 b2@2"),
        clock(11, "a[0,10) 1 @9", "b[0,10) 2 @9"),
        put("a3@3 a4@4", "a[0,10) 1+3+4 @9"),
        put("c5@12"),
        watermark(9, "b[0,10) 2 @9"),
        clock(100, "c[10,20) 5 @19"),
        watermark(19, "c[10,20) 5 @19"),
    ),
    row(
        "one's own, that purges without a result",
        lambda keyed: keyed.window(TUMBLING).trigger(PurgingAtNine()),
        put("a1@1 a9@2 b3@3 b9@4 a4@5"),
        watermark(9, "a[0,10) 4 @9"),
    ),
]

EVICTORS = [
    row(
        "count evictor",
        lambda keyed: keyed.window(TUMBLING).evictor(CountEvictor.of(2)),
        put("a1@1 a2@3 a3@2 b4@1"),
        watermark(9, "a[0,10) 2+3 @9", "b[0,10) 4 @9"),
    ),
    row(
        "count evictor, before, fired again",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(1)),
        put("a1 a2", "a* 2 @end"),
        put("a3 a4", "a* 4 @end"),
        leaves=1,
    ),
    row(
        "count evictor, after, fired again",
        lambda keyed: keyed.window(GlobalWindows.create())
        .trigger(CountTrigger.of(2))
        .evictor(CountEvictor.of(1, do_evict_after=True)),
        put("a1 a2", "a* 1+2 @end"),
        put("a3 a4", "a* 2+3+4 @end"),
        leaves=1,
    ),
    row(
        "count evictor: Flink's sliding count windows",
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(CountEvictor.of(3)),
        put("a1 a2", "a* 1+2 @end"),
        put("a3 a4", "a* 2+3+4 @end"),
        put("a5 a6", "a* 4+5+6 @end"),
        leaves=1,
    ),
    row(
        "time evictor",
        lambda keyed: keyed.window(TUMBLING).evictor(TimeEvictor.of(ms(3))),
        put("a1@1 a2@5 a3@7 a4@4"),
        watermark(9, "a[0,10) 2+3 @9"),
    ),
    row(
        "time evictor, after, lateness",
        lambda keyed: keyed.window(TUMBLING).evictor(TimeEvictor.of(ms(3), do_evict_after=True)).allowed_lateness(5),
        put("a1@1 a2@7"),
        watermark(9, "a[0,10) 1+2 @9"),
        put("a3@8", "a[0,10) 2+3 @9"),
        watermark(14),
    ),
    row(
        "delta evictor",
        lambda keyed: keyed.window(TUMBLING).evictor(DeltaEvictor.of(2, distance)),
        put("a1@1 a4@2 a5@3 a6@4"),
        watermark(9, "a[0,10) 5+6 @9"),
    ),
    row(
        "delta evictor, after",
        lambda keyed: keyed.window(TUMBLING)
        .evictor(DeltaEvictor.of(2, distance, do_evict_after=True))
        .allowed_lateness(1),
        put("a1@1 a5@3 a6@4"),
        watermark(9, "a[0,10) 1+5+6 @9"),
        put("a7@5", "a[0,10) 5+6+7 @9"),
        watermark(10),
    ),
    row(
        "an evictor of one's own, on sessions",
        lambda keyed: keyed.window(SESSIONS).evictor(WithoutOnes()).allowed_lateness(20),
        put("a1@0 a2@3 a3@4"),
        watermark(8, "a[0,9) 2+3 @8"),
        put("a4@5"),
        watermark(9, "a[0,10) 3+4 @9"),
        watermark(29),
    ),
    row(
        "evictor, purging",
        lambda keyed: keyed.window(GlobalWindows.create())
        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
        .evictor(CountEvictor.of(2)),
        put("a1 a2 a3", "a* 2+3 @end"),
        put("a4 a5 a6", "a* 5+6 @end"),
    ),
    row_of_all(
        "evictor, all",
        lambda stream: stream.window_all(TUMBLING).evictor(CountEvictor.of(1)),
        put("a1@1 b2@2"),
        watermark(9, "[0,10) 2 @9"),
    ),
]

TABLE = [*WINDOWS, *LATENESS, *TRIGGERS, *EVICTORS]


@pytest.mark.parametrize("restoring", [False, True], ids=["straight", "restored"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.title)
def test_windows_do_what_the_table_says(row: Row, function: str, restoring: bool) -> None:
    seen, harness = run(row, function, restoring)
    assert seen == [(step.title, sorted(step.gives)) for step in row.steps]
    assert entries_of(harness) == row.leaves


def test_the_titles_of_the_table_are_different() -> None:
    titles = [row.title for row in TABLE]
    assert len(set(titles)) == len(titles)


# ---------------------------------------------------------------------------------------------------------------------
# What the table cannot say
# ---------------------------------------------------------------------------------------------------------------------

Keyed = Callable[[Any], Any]


def by_first(stream: Any) -> Any:
    return stream.key_by(lambda record: record[0])


READINGS = [("a", 3, "x"), ("a", 1, "y"), ("a", 3, "z"), ("b", 7, "w"), ("a", 1, "v")]


@pytest.mark.parametrize(
    ("method", "of_a", "of_all"),
    [
        ("sum", ("a", 8, "x"), ("a", 15, "x")),
        ("min", ("a", 1, "x"), ("a", 1, "x")),
        ("max", ("a", 3, "x"), ("a", 7, "x")),
        ("min_by", ("a", 1, "y"), ("a", 1, "y")),
        ("max_by", ("a", 3, "x"), ("b", 7, "w")),
    ],
)
@pytest.mark.parametrize("lateness", [0, 5])
def test_built_in_aggregations_of_a_window(method: str, of_a: Any, of_all: Any, lateness: int) -> None:
    def of_keys(stream: Any) -> Any:
        return getattr(by_first(stream).window(TUMBLING).allowed_lateness(lateness), method)(1)

    def of_stream(stream: Any) -> Any:
        return getattr(stream.window_all(TUMBLING).allowed_lateness(lateness), method)(1)

    for piece, expected in ((of_keys, [of_a, ("b", 7, "w")]), (of_stream, [of_all])):
        harness = OperatorHarness(piece)
        harness.process_elements(READINGS, [1, 2, 3, 4, 5])
        harness.process_watermark(9)
        assert sorted(harness.output_with_timestamps) == [(record, 9) for record in expected]


ROUNDS: list[tuple[str, Keyed, int]] = [
    ("at the end", lambda windows: windows, 1),
    ("with lateness", lambda windows: windows.allowed_lateness(5), 1),
    ("at every record", lambda windows: windows.trigger(CountTrigger.of(1)), 3),
]


@pytest.mark.parametrize(("title", "settings", "firings"), ROUNDS, ids=[title for title, *_ in ROUNDS])
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CUMULATIVE, SESSIONS], ids=lambda a: type(a).__name__)
def test_a_fold_without_a_function_emits_what_was_folded(
    assigner: Any, title: str, settings: Keyed, firings: int
) -> None:
    reduced = OperatorHarness(lambda stream: settings(by_first(stream).window(assigner)).reduce(concatenate))
    aggregated = OperatorHarness(lambda stream: settings(by_first(stream).window(assigner)).aggregate(Concatenate()))
    for harness in (reduced, aggregated):
        harness.process_elements([("a", "1"), ("a", "2"), ("a", "3")], [8, 9, 9])
        harness.end_input()
    assert [(v, t) for (_, v), t in aggregated.output_with_timestamps] == [
        (v, t) for (_, v), t in reduced.output_with_timestamps
    ]
    windows = {TUMBLING: 1, SLIDING: 2, CUMULATIVE: 1, SESSIONS: 1}[assigner]
    assert len(reduced.output) == windows * firings
    assert reduced.output[-1] == ("a", "1+2+3")


class Itself(AggregateFunction[Any, list[str], list[str]]):
    """Its result is its accumulator, which it changes in place."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: tuple[str, str], accumulator: list[str]) -> list[str]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[str]) -> list[str]:
        return accumulator

    def merge(self, acc_a: list[str], acc_b: list[str]) -> list[str]:
        return acc_a + acc_b


@pytest.mark.parametrize("serialize", [True, False])
def test_a_result_does_not_change_when_the_window_gets_more_records(serialize: bool) -> None:
    harness = OperatorHarness(
        lambda stream: by_first(stream).window(TUMBLING).trigger(CountTrigger.of(1)).aggregate(Itself()),
        serialize=serialize,
    )
    harness.process_elements([("a", "1"), ("a", "2"), ("a", "3")], [1, 2, 3])
    assert harness.output == [["1"], ["1", "2"], ["1", "2", "3"]]


class Diary(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    """Counts the firings of each window and of each key; says when a window is cleared."""

    fired = ValueStateDescriptor("fired", Types.LONG())

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(self.fired)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, context.window().start, len(list(elements)), *counts, context.current_watermark()

    def clear(self, context: Any) -> None:
        state = context.window_state().get_state(self.fired)
        assert state.value() is not None, "cleared twice, or for a window that never fired"
        state.clear()


@pytest.mark.parametrize("restoring", [False, True])
def test_a_function_keeps_state_of_a_window_until_it_is_cleared_and_of_a_key_for_ever(restoring: bool) -> None:
    def piece(stream: Any) -> Any:
        return by_first(stream).window(TUMBLING).allowed_lateness(5).process(Diary())

    harness = OperatorHarness(piece)
    harness.process_elements([("a", 1), ("a", 2), ("b", 3)], [1, 2, 3])
    harness.process_watermark(9)
    assert sorted(harness.output) == [("a", 0, 2, 1, 1, 9), ("b", 0, 1, 1, 1, 9)]
    harness.clear_output()
    if restoring:
        harness = OperatorHarness(piece, parallelism=3, snapshot=harness.snapshot())
    harness.process_elements([("a", 4), ("a", 5)], [4, 11])
    assert harness.output == [("a", 0, 3, 2, 2, 9)]
    harness.clear_output()
    harness.process_watermark(19)
    assert harness.output == [("a", 10, 1, 1, 3, 19)]
    harness.process_watermark(24)
    assert (entries_of(harness), harness.get_state("a", "fired"), harness.get_state("b", "fired")) == (2, 3, 1)


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CUMULATIVE], ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("folds", [False, True])
def test_windows_without_lateness_are_cleared_when_they_have_fired(assigner: Any, folds: bool) -> None:
    def piece(stream: Any) -> Any:
        windows = by_first(stream).window(assigner)
        return windows.reduce(concatenate, Diary()) if folds else windows.process(Diary())

    harness = OperatorHarness(piece)
    harness.process_elements([("a", "1"), ("b", "2"), ("a", "3")], [1, 2, 30])
    harness.end_input()
    assert {fired for _, _, _, fired, _, _ in harness.output} == {1}
    assert entries_of(harness) == 2  # how often each key fired


def test_windows_that_merge_have_no_state_of_their_own() -> None:
    for fast in (True, False):
        harness = OperatorHarness(
            lambda stream, fast=fast: (
                by_first(stream).window(SESSIONS).reduce(concatenate, Diary())
                if fast
                else by_first(stream).window(SESSIONS).process(Diary())
            )
        )
        harness.process_element(("a", "1"), 1)
        with pytest.raises(Exception, match=r"Use global_state\(\)"):
            harness.process_watermark(100)


ODD, BIG = OutputTag("odd"), OutputTag("big")


class Sorting(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(self, key: str, context: Any, elements: Iterable[tuple[str, int]]) -> Iterator[Any]:
        for _, number in elements:
            yield number
            if number % 2:
                yield ODD, number
            if number > 5:
                yield BIG, number


@pytest.mark.parametrize("lateness", [0, 5])
def test_a_window_function_sends_to_several_side_outputs(lateness: int) -> None:
    harness = OperatorHarness(
        lambda stream: by_first(stream).window(TUMBLING).allowed_lateness(lateness).process(Sorting())
    )
    harness.process_elements([("a", 1), ("a", 6), ("a", 7)], [1, 2, 3])
    harness.process_watermark(9)
    assert harness.output_with_timestamps == [(1, 9), (6, 9), (7, 9)]
    assert harness.side_output_with_timestamps(ODD) == [(1, 9), (7, 9)]
    assert harness.side_output_with_timestamps(BIG) == [(6, 9), (7, 9)]


class Nobody(Evictor[Any, Any]):
    def evict_before(self, elements: list[Any], size: int, window: Any, ctx: Any) -> None:
        elements.clear()

    def evict_after(self, elements: list[Any], size: int, window: Any, ctx: Any) -> None:
        assert size == 0


@pytest.mark.parametrize(
    ("evaluate", "expected"),
    [
        (lambda windows: windows.process(Processed()), ["a[0,10) "]),
        (lambda windows: windows.apply(Applied()), ["a[0,10) "]),
        (lambda windows: windows.aggregate(Concatenate()), [("", "")]),
        (lambda windows: windows.aggregate(Concatenate(), Processed()), ["a[0,10) "]),
        (lambda windows: windows.reduce(concatenate), []),
        (lambda windows: windows.reduce(concatenate, Processed()), []),
    ],
)
def test_a_window_of_which_everything_was_evicted(evaluate: Keyed, expected: list[Any]) -> None:
    harness = OperatorHarness(lambda stream: evaluate(by_first(stream).window(TUMBLING).evictor(Nobody())))
    harness.process_elements([("a", "1"), ("a", "2")], [1, 2])
    harness.process_watermark(9)
    assert harness.output == expected
    assert entries_of(harness) == 0


@pytest.mark.parametrize("restoring", [False, True])
@pytest.mark.parametrize("second", ["folding", "keeping"])
def test_windows_of_windows_are_the_right_ones(second: str, restoring: bool) -> None:
    def piece(stream: Any) -> Any:
        small = by_first(stream).window(TumblingEventTimeWindows.of(ms(5))).reduce(concatenate)
        large = by_first(small).window(TUMBLING)
        return large.process(Processed()) if second == "keeping" else large.reduce(concatenate, Processed())

    harness = OperatorHarness(piece)
    harness.process_elements([("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")], [1, 6, 12, 9])
    harness.process_watermark(8)
    assert harness.output == []
    if restoring:
        harness = OperatorHarness(piece, parallelism=2, snapshot=harness.snapshot())
    harness.process_watermark(9)  # the small windows that end now are still in time for the large one
    assert sorted(harness.output_with_timestamps) == [("a[0,10) 1+2", 9), ("b[0,10) 4", 9)]
    harness.clear_output()
    harness.process_watermark(14)
    assert harness.output == []
    harness.process_watermark(19)
    assert harness.output_with_timestamps == [("a[10,20) 3", 19)]
    assert harness.late_records.dropped == 0
    assert entries_of(harness) == 0


class Careless(EventTimeSessionWindows[Any]):
    """Merges windows into one that covers none of them."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: Any) -> None:
        if len(found := list(windows)) > 1:
            callback.merge(found, TimeWindow(-20, -10))


def test_windows_that_are_merged_into_the_past_are_refused() -> None:
    harness = OperatorHarness(lambda stream: by_first(stream).window(Careless(5)).process(Processed()))
    harness.process_watermark(0)
    harness.process_element(("a", "1"), 1)
    with pytest.raises(Exception, match="must merge windows into one that covers all of them"):
        harness.process_element(("a", "2"), 20)
