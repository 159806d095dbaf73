"""Accumulators count completed epochs, each once: through failures, crashes, restarts and rescaling."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import (
    Accumulator,
    AverageAccumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    ListAccumulator,
    LongCounter,
    Maximum,
    Minimum,
    WatermarkStrategy,
)
from flott.common.job_status import JobStatus
from flott.datastream.functions import MapFunction, RuntimeContext
from flott.errors import JobFailedError, ProgramError
from flott.runtime.epoch.accumulators import add_up, encode_accumulators, values_of
from flott.testing import (
    Abort,
    Crash,
    EndOfEpoch,
    Ledger,
    LedgerSink,
    OperatorHarness,
    ScriptedSource,
    collect,
    in_process,
    live,
)

NO_TIME = WatermarkStrategy.no_watermarks()


class Counting(MapFunction[int, int]):
    """One accumulator of every kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_int_counter("count")
        self.sum = runtime_context.get_long_counter("sum")
        self.half = runtime_context.get_double_counter("half")
        self.digits = runtime_context.get_histogram("digits")
        self.least, self.greatest, self.mean, self.all = Minimum(), Maximum(), AverageAccumulator(), ListAccumulator()
        runtime_context.add_accumulator("least", self.least)
        runtime_context.add_accumulator("greatest", self.greatest)
        runtime_context.add_accumulator("mean", self.mean)
        runtime_context.add_accumulator("all", self.all)
        assert runtime_context.get_accumulator("least") is self.least
        assert runtime_context.get_int_counter("count") is self.count
        self.count.add(1000)  # not in an epoch: does not count

    def map(self, value: int) -> int:
        self.count.add()
        self.sum.add(value)
        self.half.add(value / 2)
        self.digits.add(value % 10)
        for accumulator in (self.least, self.greatest, self.mean, self.all):
            accumulator.add(value)
        return value


def results_of(values: list[int]) -> dict[str, Any]:
    digits = [value % 10 for value in values]
    return {
        "count": len(values),
        "sum": sum(values),
        "half": sum(values) / 2,
        "digits": {digit: digits.count(digit) for digit in sorted(set(digits))},
        "least": min(values, default=None),
        "greatest": max(values, default=None),
        "mean": sum(values) / len(values) if values else 0.0,
    }


def ignoring_order(results: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in results.items() if name != "all"}


def test_a_job_gives_its_accumulators_with_its_result() -> None:
    env = in_process(3)
    env.from_collection(range(20)).rebalance().map(Counting()).map(lambda n: n).print()
    result = env.execute()
    assert ignoring_order(result.get_all_accumulator_results()) == results_of(list(range(20)))
    assert sorted(result.get_accumulator_result("all")) == list(range(20))
    assert result.get_accumulator_result("other") is None
    assert "- count: 20" in str(result)


def test_a_running_job_tells_its_accumulators_to_its_client() -> None:
    env = in_process(1)
    env.from_collection([1, 2]).map(Counting()).print()
    client = env.execute_async()
    client.get_job_execution_result().result()
    assert client.get_accumulators().result()["count"] == 2


def test_metrics_are_not_accumulators_and_have_their_own_place() -> None:
    class Metered(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.seen = runtime_context.get_metrics_group().counter("seen")

        def map(self, value: int) -> int:
            self.seen.inc()
            return value

    env = in_process(2)
    env.from_collection([1, 2, 3]).map(Metered()).name("metered").print()
    result = env.execute()
    assert result.get_all_accumulator_results() == {}
    assert result.get_metrics()["metered.seen"] == 3


def counting_job(script: list[Any], parallelism: int, ledger: Ledger) -> Any:
    env = in_process(parallelism, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="9")
    source = env.from_source(ScriptedSource(script), NO_TIME, "numbers").uid("numbers").set_parallelism(1)
    stream = source.rebalance().map(Counting()).uid("counting")
    stream.sink_to(LedgerSink(ledger)).uid("sink")
    return env


def test_a_failed_epoch_leaves_nothing_in_an_accumulator(tmp_path: Path) -> None:
    script = [1, 2, EndOfEpoch(), 3, Abort(2), 4, EndOfEpoch(), 5]
    incarnation = live(counting_job(script, 2, Ledger(uuid4().hex)), tmp_path)
    assert len(incarnation.history.restarts) == 2
    assert ignoring_order(incarnation.master.accumulators) == results_of([1, 2, 3, 4, 5])


@pytest.mark.parametrize("step", ["planned", "ran", "acknowledged", "completed", "committed"])
def test_a_crash_at_any_step_neither_loses_nor_repeats_what_was_counted(tmp_path: Path, step: str) -> None:
    script = [entry for n in range(6) for entry in (n, n + 10, EndOfEpoch())]
    ledger = Ledger(uuid4().hex)
    counts = []

    def crash(name: str, epoch: int) -> None:
        if (name, epoch) in ((step, 2), (step, 4)) and (name, epoch) not in counts:
            counts.append((name, epoch))
            raise Crash

    for parallelism in (1, 3, 2):  # each life at another parallelism
        incarnation = live(counting_job(script, parallelism, ledger), tmp_path, on_step=crash)
        if not incarnation.crashed:
            break
    assert len(counts) == 2
    assert incarnation.status is JobStatus.FINISHED
    expected = results_of([*range(6), *range(10, 16)])
    assert ignoring_order(incarnation.master.accumulators) == expected


def test_accumulators_of_a_name_are_added_up_over_operators() -> None:
    env = in_process(1)
    env.from_collection([1, 2, 3]).map(Counting()).map(Counting()).print()
    assert env.execute().get_accumulator_result("count") == 6


class Named(MapFunction[int, int]):
    def __init__(self, accumulator: Any):
        self.accumulator = accumulator

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.add_accumulator("same", self.accumulator)

    def map(self, value: int) -> int:
        self.accumulator.add(value)
        return value


def test_accumulators_of_a_name_must_be_of_one_kind() -> None:
    env = in_process(1)
    env.from_collection([1]).map(Named(IntCounter())).map(Named(Histogram())).print()
    with pytest.raises(JobFailedError, match="two accumulators of the name 'same', a IntCounter and a Histogram"):
        env.execute()


def test_an_accumulator_of_ones_own_travels_too() -> None:
    class Longest(Accumulator[str, str]):
        def __init__(self) -> None:
            self.text = ""

        def add(self, value: str) -> None:
            self.text = max(self.text, value, key=len)

        def get_local_value(self) -> str:
            return self.text

        def reset_local(self) -> None:
            self.text = ""

        def merge(self, other: Self) -> None:
            self.add(other.text)

    env = in_process(2)
    env.from_collection(["a", "abc", "ab"]).rebalance().map(Named(Longest())).print()
    assert env.execute().get_accumulator_result("same") == "abc"


@pytest.mark.parametrize(
    ("open_", "complaint"),
    [
        (lambda context: context.add_accumulator("n", 0), "such as flott.common.IntCounter"),
        (lambda context: [context.add_accumulator("n", IntCounter()) for _ in "ab"], "has an accumulator 'n' already"),
        (lambda context: context.get_accumulator("n"), "has no accumulator 'n'; it has none"),
        (lambda context: (context.get_int_counter("n"), context.get_histogram("n")), "a IntCounter, not a Histogram"),
    ],
)
def test_misuse_is_refused_with_a_sentence(open_: Any, complaint: str) -> None:
    class Misuse(MapFunction[int, int]):
        def open(self, runtime_context: RuntimeContext) -> None:
            open_(runtime_context)

        def map(self, value: int) -> int:
            return value

    with pytest.raises(ProgramError, match=complaint):
        OperatorHarness(lambda stream: stream.map(Misuse()))


def test_a_harness_shows_accumulators_as_they_grow_and_keeps_them_in_snapshots() -> None:
    with OperatorHarness(lambda stream: stream.map(Counting()), parallelism=2) as harness:
        harness.process_elements([1, 2, 3])
        assert harness.accumulators["count"] == 3
        taken = harness.snapshot()
        assert harness.accumulators["count"] == 3
    with OperatorHarness(lambda stream: stream.map(Counting()), snapshot=taken) as harness:
        harness.process_element(4)
        harness.end_input()
        assert ignoring_order(harness.accumulators) == results_of([1, 2, 3, 4])


KINDS = [IntCounter, LongCounter, DoubleCounter, Histogram, Minimum, Maximum, AverageAccumulator, ListAccumulator]


@given(st.sampled_from(KINDS), st.lists(st.lists(st.integers(-100, 100)), min_size=1, max_size=5))
def test_adding_up_parts_gives_what_one_accumulator_would_have(kind: Any, parts: list[list[int]]) -> None:
    whole, total = kind(), None
    for part in parts:
        accumulator = kind()
        for value in part:
            accumulator.add(value)
            whole.add(value)
        total = add_up(total, [encode_accumulators({"x": accumulator})])
    assert values_of(total) == {"x": whole.get_local_value()}
    whole.reset_local()
    assert whole.get_local_value() == kind().get_local_value()


def test_a_job_without_accumulators_has_none() -> None:
    assert collect(in_process(1).from_collection([1]).map(str)) == ["1"]
    assert values_of(add_up(None, [])) == {}
