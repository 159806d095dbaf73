"""A job with keyed state, operator state and a transactional sink, for tests of what happens to its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.testing.harness import in_process
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource

EPOCHS = 8
NUMBERS = [[epoch * 6 + n for n in range(6)] for epoch in range(EPOCHS)]


def key_of(number: int) -> int:
    """Five keys, some of each subtask."""
    return number % 5 * 16


class Sum(KeyedProcessFunction[int, int, tuple[int, int, int]]):
    """The sum of each key's numbers, and how many different ones it has seen."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
        self.sum.update((self.sum.value() or 0) + value)
        self.seen.put(value, True)
        yield ctx.get_current_key(), self.sum.value(), len(list(self.seen.keys()))


class Number(MapFunction[Any, Any], CheckpointedFunction):
    """Numbers everything that passes, in operator state."""

    def __init__(self) -> None:
        self.passed = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("passed", Types.LONG()))
        self.passed = sum(self.saved.get())

    def map(self, value: Any) -> Any:
        self.passed += 1
        return self.passed, *value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update([self.passed])


def summing_job(ledger: Ledger, parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    """Sums what it reads, one epoch after the other."""
    env = in_process(parallelism, **options)
    script = [entry for numbers in NUMBERS for entry in (*numbers, EndOfEpoch())]
    numbers = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.key_by(key_of, key_type=Types.LONG()).process(Sum()).uid("sum")
    numbered = sums.map(Number()).uid("number").set_parallelism(1)
    numbered.sink_to(LedgerSink(ledger)).uid("ledger").set_parallelism(1)
    return env


def new_ledger() -> Ledger:
    return Ledger(uuid4().hex)


def expected(after: int = 0) -> list[tuple[int, int, int]]:
    """What the sink gets after an epoch, sorted: key, sum and count. In which order keys are numbered is left open."""
    sums: dict[int, list[int]] = {}
    found = []
    for epoch, numbers in enumerate(NUMBERS, start=1):
        for n in numbers:
            sums.setdefault(key_of(n), []).append(n)
            if epoch > after:
                found.append((key_of(n), sum(sums[key_of(n)]), len(sums[key_of(n)])))
    return sorted(found)


def check(ledger: Ledger, after: int = 0) -> None:
    """Assert that a job has written everything after an epoch, exactly once."""
    assert sorted(record[1:] for record in ledger.records) == expected(after)
    before = sum(map(len, NUMBERS[:after]))
    assert sorted(record[0] for record in ledger.records) == list(range(before + 1, EPOCHS * 6 + 1))
