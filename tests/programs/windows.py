"""Windows of every shape over one out-of-order stream: tumbling, sliding, sessions, counted; late, evicted, refired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flott.common import Duration, WatermarkStrategy
from flott.common.time import Time
from flott.datastream import OutputTag, StreamExecutionEnvironment
from flott.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import (
    CountEvictor,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

LATE = OutputTag("late")

#: (user, event time, amount); the two places are never far apart, but some visits of "west" come very late.
SCRIPT = {
    "east": [
        ("ann", 1, 5), ("bob", 3, 1), ("ann", 2, 2), EndOfEpoch(), ("ann", 9, 4), ("bob", 14, 7), EndOfEpoch(),
        ("cid", 30, 3), ("ann", 31, 8), EndOfEpoch(), ("bob", 33, 2), ("cid", 29, 6), EndOfEpoch(), ("ann", 60, 1),
        ("bob", 61, 9), EndOfEpoch(), ("cid", 75, 4),
    ],
    "west": [
        ("ann", 4, 3), EndOfEpoch(), ("cid", 11, 2), ("ann", 8, 6), EndOfEpoch(), ("cid", 28, 1), EndOfEpoch(),
        ("ann", 12, 9), ("dan", 35, 5), EndOfEpoch(), ("dan", 62, 7), ("ann", 13, 1), EndOfEpoch(), ("dan", 70, 2),
        ("bob", 1, 8),
    ],
}  # fmt: skip

Visit = tuple[str, int, int]


class Mean(AggregateFunction[Visit, tuple[int, int], float]):
    """The mean amount."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Visit, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Named(ProcessWindowFunction[float, str, str, Any]):
    """Says whose window it was, and the how-manieth of its key and of itself to fire."""

    def process(self, key: str, context: Any, elements: Iterable[float]) -> Iterator[str]:
        of_window = context.window_state().get_state(ValueStateDescriptor("fired"))
        of_key = context.global_state().get_state(ValueStateDescriptor("windows"))
        of_window.update((of_window.value() or 0) + 1)
        if of_window.value() == 1:
            of_key.update((of_key.value() or 0) + 1)
        window = context.window()
        (mean,) = elements
        counts = f"window {of_key.value()}, firing {of_window.value()}"
        yield f"{key} [{window.start},{window.end}) mean {mean:.2f}, {counts}"

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("fired")).clear()


class Listed(WindowFunction[Visit, str, str, Any]):
    """Says what is in a window."""

    def apply(self, key: str, window: Any, inputs: Iterable[Visit]) -> Iterator[str]:
        yield f"{key} {window!r}: {sorted((visit[1], visit[2]) for visit in inputs)}"


def ms(millis: int) -> Time:
    return Time.milliseconds(millis)


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda visit, _: visit[1]
    )
    visits = env.from_source(ScriptedSource(SCRIPT), strategy, "visits").uid("visits")
    by_user = visits.key_by(lambda visit: visit[0])
    tumbling = by_user.window(TumblingEventTimeWindows.of(ms(10))).side_output_late_data(LATE)
    sums = tumbling.sum(2).uid("sums")
    sums.sink_to(lines_to(folder, "tumbling"))
    sums.get_side_output(LATE).sink_to(lines_to(folder, "late"))
    lenient = by_user.window(TumblingEventTimeWindows.of(ms(20), ms(5))).allowed_lateness(25)
    lenient.aggregate(Mean(), Named()).uid("lenient").sink_to(lines_to(folder, "lenient"))
    sliding = by_user.window(SlidingEventTimeWindows.of(ms(20), ms(10)))
    sliding.reduce(lambda one, other: max(one, other, key=lambda visit: visit[2])).uid("sliding").sink_to(
        lines_to(folder, "sliding")
    )
    sessions = by_user.window(EventTimeSessionWindows.with_gap(ms(10)))
    sessions.aggregate(Mean(), output_type=None).uid("sessions").sink_to(lines_to(folder, "sessions"))
    by_user.window(EventTimeSessionWindows.with_gap(ms(10))).apply(Listed()).uid("listed").sink_to(
        lines_to(folder, "listed")
    )
    by_user.window(CumulativeEventTimeWindows.of(ms(30), ms(10))).sum(2).uid("growing").sink_to(
        lines_to(folder, "growing")
    )
    visits.window_all(TumblingEventTimeWindows.of(ms(30))).evictor(CountEvictor.of(3)).reduce(
        lambda one, other: ("all", max(one[1], other[1]), one[2] + other[2])
    ).uid("last three").sink_to(lines_to(folder, "evicted"))
