"""Orders join the latest price of their article; orders without one wait in state, or are given up by a timer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction, RuntimeContext
from flott.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

PATIENCE_MS = 20

ORDERS = [
    ("tea", 1), ("jam", 2), EndOfEpoch(), ("tea", 11), ("egg", 12), EndOfEpoch(), ("jam", 21), EndOfEpoch(),
    ("egg", 40), ("tea", 41), EndOfEpoch(), ("oil", 50), EndOfEpoch(), ("oil", 55),
]  # fmt: skip
PRICES = [
    ("tea", 300, 0), EndOfEpoch(), ("jam", 150, 10), ("tea", 310, 12), EndOfEpoch(), ("egg", 20, 22), EndOfEpoch(),
    EndOfEpoch(), ("tea", 290, 45), EndOfEpoch(), ("nut", 1, 90),
]  # fmt: skip


class Join(KeyedCoProcessFunction[str, Any, Any, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.price = runtime_context.get_state(ValueStateDescriptor("price"))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        if (price := self.price.value()) is not None:
            yield f"{value[0]} at {value[1]} for {price}"
        else:
            self.waiting.add(value[1])
            ctx.timer_service().register_event_time_timer(value[1] + PATIENCE_MS)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[str]:
        self.price.update(value[1])
        for at in self.waiting.get():
            yield f"{value[0]} at {at} waited for {value[1]}"
            ctx.timer_service().delete_event_time_timer(at + PATIENCE_MS)
        self.waiting.clear()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        kept = [at for at in self.waiting.get() if at + PATIENCE_MS > timestamp]
        yield f"{ctx.get_current_key()} given up at {timestamp}"
        self.waiting.update(kept)


class Labels(CoMapFunction[Any, Any, str]):
    def map1(self, value: Any) -> str:
        return f"order {value[0]}"

    def map2(self, value: Any) -> str:
        return f"price {value[0]}"


class Expensive(CoFlatMapFunction[Any, Any, str]):
    def flat_map1(self, value: Any) -> None:
        return None

    def flat_map2(self, value: Any) -> Iterator[str]:
        if value[1] > 200:
            yield value[0]


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[-1])
    orders = env.from_source(ScriptedSource(ORDERS), strategy, "orders").uid("orders")
    prices = env.from_source(ScriptedSource(PRICES), strategy, "prices").uid("prices")
    connected = orders.connect(prices)
    joined = connected.key_by(lambda order: order[0], lambda price: price[0]).process(Join()).uid("join")
    joined.sink_to(lines_to(folder, "joined"))
    connected.map(Labels()).sink_to(lines_to(folder, "labels"))
    connected.flat_map(Expensive()).sink_to(lines_to(folder, "expensive"))
