"""What type checkers know about function objects. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

from flott.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from flott.datastream.functions import (
    AggregateFunction,
    CoMapFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from flott.datastream.state import MapStateDescriptor, ValueState, ValueStateDescriptor

rejected = OutputTag("rejected", str)


@dataclass
class Payment:
    account: str
    amount: float


class Parse(MapFunction[str, Payment]):
    def map(self, value: str) -> Payment:
        account, amount = value.split()
        return Payment(account, float(amount))


class Words(FlatMapFunction[str, str]):
    def flat_map(self, value: str) -> Iterable[str]:
        return value.split()


class Checked(ProcessFunction[str, Payment]):
    def process_element(
        self, value: str, ctx: ProcessFunction.Context
    ) -> Iterator[Payment | tuple[OutputTag[Any], Any]]:
        if " " in value:
            yield Parse().map(value)
        else:
            yield rejected, value


class Account(KeySelector[Payment, str]):
    def get_key(self, value: Payment) -> str:
        return value.account


class Total(KeyedProcessFunction[str, Payment, tuple[str, float]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", float))
        assert_type(self.total, ValueState[float])
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", str, int))

    def process_element(
        self, value: Payment, ctx: KeyedProcessFunction.Context[str]
    ) -> Iterator[tuple[str, float]]:
        total = (self.total.value() or 0.0) + value.amount
        self.total.update(total)
        assert_type(self.seen.get("x"), int | None)
        yield ctx.get_current_key(), total


class Larger(ReduceFunction[Payment]):
    def reduce(self, value1: Payment, value2: Payment) -> Payment:
        return max(value1, value2, key=lambda payment: payment.amount)


class Both(CoMapFunction[str, Payment, str]):
    def map1(self, value: str) -> str:
        return value

    def map2(self, value: Payment) -> str:
        return value.account


class Enrich(KeyedCoProcessFunction[str, Payment, str, Payment]):
    def process_element1(
        self, value: Payment, ctx: KeyedCoProcessFunction.Context[str]
    ) -> Iterator[Payment]:
        yield value

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context[str]) -> None:
        return None


class Mean(AggregateFunction[Payment, tuple[int, float], float]):
    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: Payment, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value.amount

    def get_result(self, accumulator: tuple[int, float]) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: tuple[int, float], acc_b: tuple[int, float]) -> tuple[int, float]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


lines = StreamExecutionEnvironment.get_execution_environment().from_collection(["a 1"])
payments = lines.map(Parse())
assert_type(payments, DataStream[Payment])
assert_type(lines.flat_map(Words()), DataStream[str])
assert_type(lines.process(Checked()), DataStream[Payment])
assert_type(lines.process(Checked()).get_side_output(rejected), DataStream[str])
assert_type(payments.key_by(Account()).process(Total()), DataStream[tuple[str, float]])
assert_type(payments.key_by(Account()).reduce(Larger()), DataStream[Payment])
assert_type(lines.connect(payments).map(Both()), DataStream[str])
assert_type(payments.key_by(Account()).connect(lines.key_by(str)).process(Enrich()), DataStream[Payment])
assert_type(lines.map(Parse(), output_type=Payment), DataStream[Payment])

# what is refused
payments.map(Parse())  # type: ignore[arg-type]
lines.map(Words())  # type: ignore[arg-type]
payments.process(Total())  # type: ignore[arg-type]
lines.key_by(len).process(Total())  # type: ignore[arg-type]
lines.key_by(str).reduce(Larger())  # type: ignore[arg-type]
payments.connect(lines).map(Both())  # type: ignore[arg-type]
