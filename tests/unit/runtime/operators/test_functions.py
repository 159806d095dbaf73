"""What a function can rely on: open and close, its runtime context, and randomness that repeats itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from flott.datastream.state import ValueStateDescriptor
from flott.testing.harness import Cancel, collect, in_process, live
from flott.testing.operator_harness import OperatorHarness
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()
EPOCHS = [entry for n in range(12) for entry in ((n, EndOfEpoch()) if n % 3 == 2 else (n,))]

#: What happened to functions, in order. They run in this process.
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    calls.clear()


class Diary(MapFunction[int, int]):
    def __init__(self, name: str, fails_to: str = ""):
        self.name, self.fails_to = name, fails_to

    def open(self, runtime_context: Any) -> None:
        calls.append(f"open {self.name}")
        if self.fails_to == "open":
            raise RuntimeError("cannot open")

    def close(self) -> None:
        calls.append(f"close {self.name}")
        if self.fails_to == "close":
            raise RuntimeError("cannot close")

    def map(self, value: int) -> int:
        if self.fails_to == "map":
            raise RuntimeError("cannot map")
        return value


def test_a_function_is_opened_once_in_a_worker_and_closed_at_the_end(tmp_path: Path) -> None:
    env = in_process(1)
    stream = env.from_source(ScriptedSource(EPOCHS), NO_TIME, "n").map(Diary("a")).map(Diary("b"))
    stream.rebalance().map(Diary("c")).set_parallelism(2).sink_to(LedgerSink(Ledger(uuid4().hex))).set_parallelism(2)
    incarnation = live(env, tmp_path)
    assert len(incarnation.history.epochs) == 4
    assert sorted(calls) == ["close a", "close b", "close c", "close c", "open a", "open b", "open c", "open c"]


def test_a_function_is_closed_when_the_job_is_cancelled_and_when_it_fails(tmp_path: Path) -> None:
    def stop(step: str, epoch: int) -> None:
        raise Cancel

    env = in_process(1)
    source = ScriptedSource(EPOCHS)
    env.from_source(source, NO_TIME, "n").map(Diary("a")).sink_to(LedgerSink(Ledger(uuid4().hex)))
    assert live(env, tmp_path / "cancelled", on_step=stop).status is JobStatus.CANCELED
    assert calls == [] or calls == ["open a", "close a"]
    calls.clear()
    for fails_to in ("open", "map", "close"):
        env.from_source(source, NO_TIME, "n").map(Diary("a")).map(Diary("b", fails_to)).sink_to(
            LedgerSink(Ledger(uuid4().hex))
        )
        assert live(env, tmp_path / fails_to).status is JobStatus.FAILED
        assert sorted(calls) == ["close a", "close b", "open a", "open b"], f"after failing to {fails_to}"
        calls.clear()


class Context(ProcessFunction[int, Any]):
    def open(self, runtime_context: Any) -> None:
        self.facts = (
            runtime_context.get_task_name(),
            runtime_context.get_task_name_with_subtasks(),
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
            runtime_context.get_attempt_number(),
            runtime_context.get_job_parameter("colour", "none"),
            runtime_context.get_job_parameter("size", "none"),
        )

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield self.facts


def test_the_runtime_context_tells_where_a_function_runs() -> None:
    env = in_process(1, pipeline__global_job_parameters="colour:blue")
    env.set_max_parallelism(16)
    stream = env.from_collection([1, 2]).rebalance().process(Context()).name("where").set_parallelism(2)
    name = "where"
    assert sorted(collect(stream)) == [
        (name, f"{name} ({index + 1}/2)", index, 2, 16, 0, "blue", "none") for index in range(2)
    ]


def test_the_attempt_number_counts_the_failures_of_an_epoch(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="9")
    source = env.from_source(ScriptedSource([1, Abort(2), EndOfEpoch(), 2]), NO_TIME, "n")
    source.map(Attempts()).sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    assert ledger.records == [(1, 2), (2, 0)]


class Attempts(MapFunction[int, Any]):
    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context

    def map(self, value: int) -> Any:
        return value, self.context.get_attempt_number()


class Dice(MapFunction[int, Any]):
    def open(self, runtime_context: Any) -> None:
        self.random = runtime_context.get_random()
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: int) -> Any:
        rolled = self.random.random()
        calls.append((value, rolled))
        return value, rolled


def test_a_repeated_epoch_draws_the_same_random_numbers_and_others_do_not(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(2, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="9")
    script = {"a": [1, 2, EndOfEpoch(), 3, 4, Abort(2), 5], "b": [11, EndOfEpoch(), 12]}
    stream = env.from_source(ScriptedSource(script), NO_TIME, "n").map(Dice()).rebalance().map(lambda v: v)
    stream.sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    assert len(calls) > 7, "an epoch was repeated"
    assert len(dict(calls)) == len(set(calls)) == 7, "each value has one number, however often it was drawn"
    assert len(set(dict(calls).values())) == 7, "and they differ"
    assert dict(ledger.records) == dict(calls)


# --- functions that return nothing, or are keyed ---------------------------------------------------------------------


class Nothing(FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> Any:
        return None if value % 2 else iter([value])


class Odd(FilterFunction[int]):
    def filter(self, value: int) -> bool:
        return value % 2 == 1


class Sum(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


def output_of(piece: Callable[[Any], Any], elements: Iterable[Any]) -> list[Any]:
    with OperatorHarness(piece) as harness:
        harness.process_elements(elements)
        return harness.output


def test_functions_as_classes_do_what_callables_do() -> None:
    assert output_of(lambda numbers: numbers.flat_map(Nothing()), range(6)) == [0, 2, 4]
    assert output_of(lambda numbers: numbers.filter(Odd()), range(6)) == [1, 3, 5]
    assert output_of(lambda numbers: numbers.key_by(lambda n: n % 2).reduce(Sum()), range(6)) == [0, 1, 2, 4, 6, 9]


class CountingMap(MapFunction[int, Any]):
    """A rich function on a keyed stream has keyed state."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: int) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


class CountingFilter(FilterFunction[int]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def filter(self, value: int) -> bool:
        self.count.update((self.count.value() or 0) + 1)
        return bool(self.count.value() == 2)


class CountingFlatMap(FlatMapFunction[int, Any]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def flat_map(self, value: int) -> Iterator[Any]:
        for _ in range(2):
            self.count.update((self.count.value() or 0) + 1)  # between two values the key must still be the same
            yield value, self.count.value()


def test_map_filter_and_flat_map_have_state_on_keyed_streams() -> None:
    def parity(n: int) -> int:
        return n % 2

    assert output_of(lambda numbers: numbers.key_by(parity).map(CountingMap()), range(5)) == [
        (0, 1), (1, 1), (2, 2), (3, 2), (4, 3),
    ]  # fmt: skip
    assert output_of(lambda numbers: numbers.key_by(parity).filter(CountingFilter()), range(5)) == [2, 3]
    assert output_of(lambda numbers: numbers.key_by(parity).flat_map(CountingFlatMap()), range(5)) == [
        (0, 1), (0, 2), (1, 1), (1, 2), (2, 3), (2, 4), (3, 3), (3, 4), (4, 5), (4, 6),
    ]  # fmt: skip


def test_a_flat_map_may_make_very_many_of_one_record() -> None:
    few = output_of(lambda numbers: numbers.flat_map(range).filter(lambda n: n % 50_000 == 0), [200_000])
    assert few == [0, 50_000, 100_000, 150_000]
