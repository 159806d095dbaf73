"""Any graph, cut into any epochs, gives what a simple model gives, and keeps the order of each key's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.datastream import OutputTag, StreamExecutionEnvironment
from flott.datastream.functions import KeyedProcessFunction, ProcessFunction
from flott.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flott.testing.harness import in_process
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource

SIDE, COUNTS, DISORDER = OutputTag("side"), OutputTag("counts"), OutputTag("disorder")
NO_TIME = WatermarkStrategy.no_watermarks()


class Item(NamedTuple):
    """A record that knows where it comes from and which way it took."""

    split: str
    number: int
    path: str
    ordered: bool = True  #: whether it never passed a partitioner that gives up the order

    def via(self, step: str, ordered: bool = True) -> Item:
        return self._replace(path=f"{self.path}>{step}", ordered=self.ordered and ordered)


def by_split(item: Item) -> str:
    return item.split


def by_number(item: Item) -> tuple[str, int]:
    return item.split, item.number % 3


class Watch(KeyedProcessFunction[Any, Item, Item]):
    """Counts its key's records and reports those that overtook others of the same split and way."""

    def __init__(self, step: str, ordered: bool):
        self.step, self.ordered = step, ordered

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last"))

    def process_element(self, value: Item, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield COUNTS, (self.step, ctx.get_current_key(), self.count.value())
        way = (value.split, value.path)
        if value.ordered and value.number < (self.last.get(way) or 0):
            yield DISORDER, value
        self.last.put(way, value.number)
        yield value.via(self.step, self.ordered)


class Split(ProcessFunction[Item, Item]):
    def process_element(self, value: Item, ctx: Any) -> Iterator[Any]:
        yield (SIDE, value.via("side", False)) if value.number % 4 == 0 else value.via("main", False)


@dataclass(frozen=True)
class Stream:
    """A stream of the program under test and the records the model says it has."""

    stream: Any
    model: Counter[Item]
    parallelism: int  #: 0: whatever the next operator has
    keeps_order: bool = True  #: what was done to it since the last operator
    broadcast: bool = False


class Builder:
    """Grows a random graph and its model side by side."""

    def __init__(self, env: StreamExecutionEnvironment, random: Random):
        self.env, self.random, self.steps = env, random, 0
        self.streams: list[Stream] = []
        self.expected_counts: Counter[Any] = Counter()
        self.out, self.counts, self.disorder = (Ledger(uuid4().hex) for _ in range(3))
        self.side_streams: list[Any] = []

    def build(self) -> Counter[Item]:
        for index in range(self.random.randint(1, 3)):
            self.streams.append(self.source(f"s{index}"))
        moves: list[Callable[[], Stream]] = [self.map, self.filter, self.flat_map, self.keyed, self.union, self.split]
        for _ in range(self.random.randint(2, 8)):
            self.streams.append(self.random.choice(moves)())
        ends = self.random.sample(self.streams, self.random.randint(1, len(self.streams)))
        total: Counter[Item] = Counter()
        for end in ends:
            redistributed = self.redistribute(end)
            sink = redistributed.stream.sink_to(LedgerSink(self.out))
            total += self.copies(redistributed, self.place(sink, redistributed))
        for watched in self.side_streams:
            watched.get_side_output(COUNTS).sink_to(LedgerSink(self.counts))
            watched.get_side_output(DISORDER).sink_to(LedgerSink(self.disorder))
        return total

    def source(self, name: str) -> Stream:
        names = [f"{name}.{i}" for i in range(self.random.randint(1, 3))]
        script = {n: [Item(n, i, name) for i in range(self.random.randint(0, 40))] for n in names}
        parallelism = self.random.randint(1, 4)
        stream = self.env.from_source(ScriptedSource(script), NO_TIME, name).set_parallelism(parallelism)
        return Stream(stream, Counter(item for items in script.values() for item in items), parallelism)

    # --- operators: each takes a stream, perhaps redistributes it, and runs with a parallelism of its own ------------

    def map(self) -> Stream:
        step = self.step()
        taken = self.take()
        made = taken.stream.map(lambda item: item.via(step))
        return self.run(taken, made, lambda item: [item.via(step)])

    def filter(self) -> Stream:
        taken = self.take()
        remainder = self.random.randrange(3)
        made = taken.stream.filter(lambda item: item.number % 3 != remainder)
        return self.run(taken, made, lambda item: [item] if item.number % 3 != remainder else [])

    def flat_map(self) -> Stream:
        taken = self.take()
        made = taken.stream.flat_map(lambda item: [item] * (item.number % 3))
        return self.run(taken, made, lambda item: [item] * (item.number % 3))

    def keyed(self) -> Stream:
        taken = self.random.choice(self.streams)
        selector, ordered = self.random.choice([(by_split, True), (by_number, False)])
        step = self.step()
        made = taken.stream.key_by(selector).process(Watch(step, ordered))
        self.side_streams.append(made)
        sizes: Counter[Any] = Counter()
        for item, times in taken.model.items():
            sizes[selector(item)] += times
        self.expected_counts += Counter((step, key, n + 1) for key, size in sizes.items() for n in range(size))
        return self.run(taken, made, lambda item: [item.via(step, ordered)], hashed=True)

    def union(self) -> Stream:
        taken = [self.random.choice(self.streams) for _ in range(self.random.randint(2, 3))]  # perhaps with itself
        merged = Stream(
            taken[0].stream.union(*(other.stream for other in taken[1:])),
            sum((other.model for other in taken), Counter()),
            parallelism=0,  # edges of several widths
        )
        step = self.step()
        made = merged.stream.map(lambda item: item.via(step, False))
        return self.run(merged, made, lambda item: [item.via(step, False)])

    def split(self) -> Stream:
        taken = self.take()
        made = taken.stream.process(Split())
        parallelism = self.place(made, taken)
        main: Counter[Item] = Counter()
        side: Counter[Item] = Counter()
        for item, times in self.copies(taken, parallelism).items():
            if item.number % 4:
                main[item.via("main", False)] += times
            else:
                side[item.via("side", False)] += times
        self.streams.append(Stream(made.get_side_output(SIDE), side, parallelism))
        return Stream(made, main, parallelism)

    # --- their parts -------------------------------------------------------------------------------------------------

    def step(self) -> str:
        self.steps += 1
        return f"n{self.steps}"

    def take(self) -> Stream:
        return self.redistribute(self.random.choice(self.streams))

    def redistribute(self, taken: Stream) -> Stream:
        """Put a partitioner behind a stream. Those that give up the order come with a map that writes it down."""
        kind = self.random.choice(["none", "none", "rebalance", "rescale", "shuffle", "broadcast", "global", "custom"])
        if kind == "none":
            return taken
        if kind == "custom":
            stream = taken.stream.partition_custom(lambda key, n: key % n, lambda item: item.number)
        else:
            stream = getattr(taken.stream, "global_" if kind == "global" else kind)()
        return replace(taken, stream=stream, keeps_order=False, parallelism=0, broadcast=kind == "broadcast")

    def run(
        self, taken: Stream, made: Any, function: Callable[[Item], list[Item]], hashed: bool = False
    ) -> Stream:
        parallelism = self.place(made, taken)
        model: Counter[Item] = Counter()
        for item, times in self.copies(taken, parallelism).items():
            for produced in function(item):
                model[produced] += times
        keeps_order = hashed or (taken.keeps_order and parallelism == taken.parallelism)
        if keeps_order:
            return Stream(made, model, parallelism)
        stream = made.map(lambda item: item._replace(ordered=False)).set_parallelism(parallelism)
        forgotten: Counter[Item] = Counter()
        for item, times in model.items():
            forgotten[item._replace(ordered=False)] += times
        return Stream(stream, forgotten, parallelism)

    def place(self, made: Any, taken: Stream) -> int:
        parallelism = self.random.choice([taken.parallelism, self.random.randint(1, 4)]) or self.random.randint(1, 4)
        made.set_parallelism(parallelism)
        return parallelism

    def copies(self, taken: Stream, parallelism: int) -> Counter[Item]:
        return Counter({item: n * (parallelism if taken.broadcast else 1) for item, n in taken.model.items()})


@pytest.mark.parametrize("seed", range(60))
def test_a_random_graph_gives_what_the_model_gives(seed: int) -> None:
    random = Random(seed)
    budget = str(random.choice([1000, 1000, 40, 15]))
    env = in_process(
        random.randint(1, 4), flott__epoch__initial_records=budget, flott__epoch__max_records=budget,
        flott__exchange__buffer_records=str(random.choice([1, 3, 4096])),
        flott__exchange__memory=str(random.choice([1, 500, 1 << 20])),
    )  # fmt: skip
    if random.random() < 0.3:
        env.disable_operator_chaining()
    builder = Builder(env, random)
    expected = builder.build()
    env.execute(f"random graph {seed}")
    assert Counter(builder.out.records) == expected
    assert Counter(builder.counts.records) == builder.expected_counts
    assert builder.disorder.records == []
    assert not builder.out.staged, "something was staged and neither committed nor discarded"
