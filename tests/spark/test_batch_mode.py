"""Batch programs on real Spark: final results, once, from one job."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from flott.common import Time, WatermarkStrategy
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.runtime.entrypoint import executors
from flott.runtime.epoch.runner import TaskProgress
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from tests.spark.conftest import MakeEnvironment

BATCH = {"execution.runtime-mode": "BATCH", "flott.exchange.memory": "64kb"}
BY_VALUE = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


class Account(KeyedProcessFunction[int, int, tuple[int, int, bool]]):
    """Counts a key's records, checks their order, and tells at the end."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> None:
        count, last, in_order = self.seen.value() or (0, -1, True)
        self.seen.update((count + 1, value, in_order and value > last))
        ctx.timer_service().register_event_time_timer(10**9)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int, bool]]:
        count, _, in_order = self.seen.value()
        yield ctx.get_current_key(), count, in_order


class Watch(JobListener):
    """Asks how far every epoch is, from a thread of its own, until it is done."""

    def __init__(self) -> None:
        self.epochs: list[EpochStatistics] = []
        self.heard: list[TaskProgress | None] = []
        self._done = threading.Event()

    def on_start(self, epoch: int, progress: Callable[[], TaskProgress | None]) -> None:
        def ask() -> None:
            while not self._done.wait(0.02):
                self.heard.append(progress())

        threading.Thread(target=ask, daemon=True).start()

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self._done.set()
        self.epochs.append(statistics)


def test_aggregates_processes_and_windows_give_final_results_from_one_job(environment: MakeEnvironment) -> None:
    env = environment(BATCH)
    numbers = env.from_source(NumberSequenceSource(0, 29_999), BY_VALUE, "numbers")
    sums: list[Any] = []
    accounts: list[Any] = []
    windows: list[Any] = []
    numbers.map(lambda n: (n % 7, n)).key_by(0).sum(1).sink_to(CallableSink(sums.append))
    numbers.key_by(lambda n: n % 500).process(Account()).sink_to(CallableSink(accounts.append))
    tens = numbers.key_by(lambda n: n % 3).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    tens.reduce(max).sink_to(CallableSink(windows.append))
    watch = Watch()
    executors.extra_listeners.append(watch)
    try:
        env.execute("batch")
    finally:
        executors.extra_listeners.remove(watch)
    assert sorted(sums) == [(key, sum(range(key, 30_000, 7))) for key in range(7)]
    assert sorted(accounts) == [(key, 60, True) for key in range(500)]
    assert sorted(windows) == [end - back for end in (10_000, 20_000, 30_000) for back in (3, 2, 1)]
    assert [epoch.records_in for epoch in watch.epochs] == [30_000]
    known = [progress for progress in watch.heard if progress is not None]
    assert known
    assert {progress.total for progress in known} == {4}
    assert [progress.done for progress in known] == sorted(progress.done for progress in known)


def test_results_of_a_batch_can_be_collected(environment: MakeEnvironment) -> None:
    env = environment({**BATCH, "execution.runtime-mode": "AUTOMATIC"})
    words = env.from_collection(["to", "be", "or", "not", "to", "be"]).map(lambda word: (word, 1))
    with words.key_by(0).sum(1).execute_and_collect() as results:
        assert sorted(results) == sorted(Counter(["to", "be", "or", "not", "to", "be"]).items())
