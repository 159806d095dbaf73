"""A job on Spark changes its parallelism under load, 2 -> 4 -> 1 -> 3: no gap, nothing read again, exact results."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from flott.common import JobClient, Types, WatermarkStrategy
from flott.common.completable_future import CompletableFuture
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.entrypoint import executors
from tests.programs.runner import lines_to, output
from tests.spark.conftest import MakeEnvironment, Recorder

RECORDS, PER_EPOCH, KEYS = 400_000, 10_000, 1_000


class NumberAsTime(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


class Count(KeyedProcessFunction[int, int, str]):
    """Counts the records of a key; says so at every hundredth, and once more when event time has passed all of them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == 1:
            ctx.timer_service().register_event_time_timer(RECORDS)
        if count % 100 == 0:
            yield f"{value % KEYS} {count}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{ctx.get_current_key()} all {self.count.value()}"


#: In which epochs another parallelism is asked for.
REQUESTS = {6: 4, 12: 1, 18: 3}


class Rescaling(Recorder):
    """Asks for another parallelism while an epoch runs, from a thread of its own, as a user would."""

    def __init__(self) -> None:
        super().__init__()
        self.client: CompletableFuture[JobClient] = CompletableFuture()
        self.answers: list[CompletableFuture[None]] = []

    def on_start(self, epoch: int, progress: Any) -> None:
        if epoch in REQUESTS:
            asking = threading.Thread(target=lambda: self.answers.append(self.client.result().rescale(REQUESTS[epoch])))
            asking.start()
            asking.join()


@pytest.fixture
def recorder() -> Iterator[Rescaling]:
    recorder = Rescaling()
    executors.extra_listeners.append(recorder)
    yield recorder
    executors.extra_listeners.remove(recorder)


def test_two_four_one_three_under_load(environment: MakeEnvironment, recorder: Rescaling, tmp_path: Path) -> None:
    env = environment({"flott.epoch.max-records": PER_EPOCH, "flott.epoch.initial-records": PER_EPOCH})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberAsTime())
    numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), strategy, "numbers")
    counted = numbers.key_by(lambda number: number % KEYS).process(Count(), Types.STRING()).uid("count")
    counted.sink_to(lines_to(str(tmp_path), "counts"))
    recorder.client.set_result(env.execute_async("rescaled under load"))
    recorder.client.result().get_job_execution_result().result(300)

    each = RECORDS // KEYS
    lines = [f"counts\t{key} {count}" for key in range(KEYS) for count in range(100, each + 1, 100)]
    lines += [f"counts\t{key} all {each}" for key in range(KEYS)]
    assert Counter(output(tmp_path)) == Counter(lines)

    epochs = recorder.epochs
    assert recorder.restarts == []
    assert [(epoch.epoch, epoch.attempt) for epoch in epochs] == [(n + 1, 0) for n in range(len(epochs))]
    assert sum(epoch.records_in for epoch in epochs) == RECORDS, "nothing is read twice"
    assert [parallelism for parallelism, _ in groupby(epoch.parallelism for epoch in epochs)] == [2, 4, 1, 3]
    firsts = [two.epoch for one, two in pairwise(epochs) if one.parallelism != two.parallelism]
    assert firsts == [asked + 1 for asked in REQUESTS], "with the next epoch"
    assert [answer.exception() for answer in recorder.answers] == [None, None, None]
    gaps = {two.epoch: two.completed_at_ms - one.completed_at_ms for one, two in pairwise(epochs)}
    ordinary = [gap for epoch, gap in gaps.items() if epoch not in firsts]
    assert max(gaps[epoch] for epoch in firsts) <= 2 * max(ordinary), "no longer than two epochs"
