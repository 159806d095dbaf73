"""All kinds of keyed state in one operator: value, list, map, reducing and aggregating; set, changed and cleared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

SCRIPT = {
    f"split{s}": [e for epoch in range(12) for e in (*(epoch * 6 + s + 2 * i for i in range(3)), EndOfEpoch())]
    for s in range(2)
}


class Mean(AggregateFunction[int, tuple[int, int], float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(KeyedProcessFunction[tuple[str, int], int, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.latest = runtime_context.get_list_state(ListStateDescriptor("latest", Types.LONG()))
        self.rests = runtime_context.get_map_state(MapStateDescriptor("rests", Types.STRING(), Types.LONG()))
        self.largest = runtime_context.get_reducing_state(ReducingStateDescriptor("largest", max, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.latest.add(value)
        self.rests.put(f"mod{value % 4}", (self.rests.get(f"mod{value % 4}") or 0) + 1)
        self.largest.add(-value if count % 3 else value)
        self.mean.add(value)
        rests = sorted(self.rests.items())
        yield (
            f"{ctx.get_current_key()} {count} {list(self.latest.get())} {rests} {self.largest.get()}"
            f" {self.mean.get():.3f}"
        )
        if count % 4 == 0:
            self.latest.update([value])
            self.rests.remove("mod1")
        if count % 5 == 0:
            self.latest.clear()
            self.largest.clear()
        if count % 7 == 0:
            self.rests.clear()
            self.mean.clear()


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    (
        env.from_source(ScriptedSource(SCRIPT), WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .key_by(lambda n: (f"k{n % 2}", n % 3))
        .process(Everything())
        .uid("everything")
        .sink_to(lines_to(folder, "everything"))
    )
