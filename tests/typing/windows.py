"""What type checkers know about windows, broadcast state and asynchronous functions. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_type

from flott.common import Time
from flott.datastream import AsyncDataStream, DataStream, StreamExecutionEnvironment
from flott.datastream.functions import AggregateFunction, BroadcastProcessFunction, WindowFunction
from flott.datastream.state import BroadcastState, MapStateDescriptor
from flott.datastream.window import TimeWindow, TumblingEventTimeWindows

words = StreamExecutionEnvironment.get_execution_environment().from_collection(["to", "be"])
windows = words.key_by(len).window(TumblingEventTimeWindows.of(Time.seconds(1)))


class Count(AggregateFunction[str, int, float]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: str, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> float:
        return float(accumulator)

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Longest(WindowFunction[str, tuple[int, str], int, TimeWindow]):
    def apply(self, key: int, window: TimeWindow, inputs: Iterable[str]) -> list[tuple[int, str]]:
        return [(key, max(inputs))]


assert_type(windows.reduce(lambda a, b: a + b), DataStream[str])
assert_type(windows.aggregate(Count()), DataStream[float])
assert_type(windows.apply(Longest()), DataStream[tuple[int, str]])
assert_type(windows.apply(Longest(), output_type=tuple[int, str]), DataStream[tuple[int, str]])
assert_type(windows.reduce(max, Longest()), DataStream[tuple[int, str]])

rules = MapStateDescriptor("rules", str, int)
assert_type(rules, MapStateDescriptor[str, int])


class Screen(BroadcastProcessFunction[str, str, int]):
    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[int]:
        return [len(value)]

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> None:
        assert_type(ctx.get_broadcast_state(rules), BroadcastState[str, int])


assert_type(words.connect(words.broadcast(rules)).process(Screen()), DataStream[int])


async def ask(word: str) -> list[float]:
    return [1.0]


assert_type(AsyncDataStream.ordered_wait(words, ask, Time.seconds(1)), DataStream[float])

# what is refused
words.key_by(str).window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(Longest())  # type: ignore[arg-type]
words.map(len).key_by(lambda n: n).window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(Count())  # type: ignore[arg-type]
