"""Pipelined jobs on real Spark while nothing dies: rescaled, changing their mode, slowed down by a sink, idle."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from flott.common import JobClient, WatermarkStrategy
from flott.common.completable_future import CompletableFuture
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.errors import ConfigurationError, JobCancelledError
from flott.metrics._engine_metrics import TASK_BACK_PRESSURED_MS, TASK_BUSY_MS, TASK_IDLE_MS
from flott.runtime.jobmaster.listener import EpochStatistics, ModeChange
from flott.testing.sources import ScriptedSource, Wait
from tests.spark.conftest import MakeEnvironment, Recorder

KEYS = 7
NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()
PIPELINED = {"execution.mode": "pipelined", "execution.checkpointing.interval": "200 ms"}
TIMES = (TASK_BUSY_MS.name, TASK_BACK_PRESSURED_MS.name, TASK_IDLE_MS.name)


class NumberAndPlace(KeyedProcessFunction[int, int, tuple[int, int, int]]):
    """Numbers the records of a key, and says which process does so. It takes a while for some keys, or for all."""

    def __init__(self, seconds: float = 0.0, slow_keys: int = KEYS):
        self.seconds, self.slow_keys = seconds, slow_keys

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
        if self.seconds and ctx.get_current_key() < self.slow_keys:
            time.sleep(self.seconds)
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value(), os.getpid()


def numbered(
    env: StreamExecutionEnvironment, source: Any, seconds: float = 0.0, slow_keys: int = KEYS, copies: int = 1
) -> list[tuple[int, int, int]]:
    """Let a job number the records of a source; its output comes into the list that is returned."""
    found: list[tuple[int, int, int]] = []
    numbers = env.from_source(source, NO_WATERMARKS, "numbers").uid("numbers")
    if copies > 1:
        numbers = numbers.flat_map(lambda n: range(n, n + copies))
    numbers.key_by(lambda n: n % KEYS).process(NumberAndPlace(seconds, slow_keys)).uid("number").sink_to(
        CallableSink(found.append)
    )
    return found


def expected(records: int) -> Counter[tuple[int, int]]:
    return Counter((key, n + 1) for key in range(KEYS) for n in range(len(range(key, records, KEYS))))


class Acting(Recorder):
    """Does something to the job behind certain checkpoints, from a thread of its own, as a user would."""

    def __init__(self) -> None:
        super().__init__()
        self.client: CompletableFuture[JobClient] = CompletableFuture()
        self.acts: dict[int, Callable[[JobClient], Any]] = {}
        self.answers: list[Any] = []
        self.threads: list[threading.Thread] = []
        self.modes: list[ModeChange] = []

    def on_epoch(self, statistics: EpochStatistics) -> None:
        super().on_epoch(statistics)
        if (act := self.acts.get(len(self.epochs))) is not None:
            self.threads.append(threading.Thread(target=lambda: self.answers.append(act(self.client.result()))))
            self.threads[-1].start()

    def on_mode(self, change: ModeChange) -> None:
        self.modes.append(change)


@pytest.fixture
def recorder() -> Iterator[Acting]:
    from flott.runtime.entrypoint import executors

    recorder = Acting()
    executors.extra_listeners.append(recorder)
    yield recorder
    executors.extra_listeners.remove(recorder)
    for thread in recorder.threads:
        thread.join(120)


def test_a_rescaled_pipelined_job_gives_exact_results_in_the_same_processes(
    environment: MakeEnvironment, recorder: Acting
) -> None:
    env = environment(PIPELINED)
    records = 3_000
    found = numbered(env, DataGeneratorSource(lambda index: index, count=records, records_per_second=400))
    before: list[set[int]] = []

    def rescale(client: JobClient, parallelism: int) -> CompletableFuture[None]:
        before.append(python_workers())
        return client.rescale(parallelism)

    recorder.acts = {4: lambda client: rescale(client, 1), 10: lambda client: rescale(client, 2)}
    recorder.client.set_result(env.execute_async("rescaled"))
    recorder.client.result().get_job_execution_result().result(300)
    assert Counter((key, count) for key, count, _ in found) == expected(records)
    assert [wide for wide, _ in groupby(epoch.parallelism for epoch in recorder.epochs)] == [2, 1, 2]
    assert [answer.result() for answer in recorder.answers] == [None, None]
    assert recorder.restarts == []
    # Spark keeps idle Python workers and gives their processes to the tasks that come.
    wide, narrow, wide_again = (
        {part.worker for epoch in epochs for part in epoch.subtasks}
        for _, epochs in groupby(recorder.epochs, key=lambda epoch: epoch.parallelism)
    )
    assert wide <= before[0]
    assert narrow <= before[0]
    assert wide_again <= before[1]


def python_workers() -> set[int]:
    """Return the processes that Spark has for Python code."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def shares(epochs: list[EpochStatistics], *, source: bool) -> list[float]:
    """Return the milliseconds per second that the source, or what follows, was busy, back-pressured and idle."""
    parts = [part for epoch in epochs for part in epoch.subtasks if source is not bool(part.edges)]
    sums = [sum(float(part.measures.get(one, 0)) for part in parts) for one in TIMES]
    return [1000 * each / max(sum(sums), 1e-9) for each in sums]


@pytest.mark.long
def test_a_slow_function_is_busy_and_its_source_back_pressured(
    environment: MakeEnvironment, recorder: Acting
) -> None:
    env = environment({**PIPELINED, "flott.exchange.memory": "1 mb", "flott.epoch.max-records": 2})
    # One subtask is slow, and what a source makes of one record is more than it takes. The source in the other slot has
    # nothing to do but wait for it.
    numbered(env, DataGeneratorSource(lambda index: index), seconds=0.0002, slow_keys=1, copies=10_000)
    recorder.acts = {5: lambda client: client.cancel()}
    recorder.client.set_result(env.execute_async("slow"))
    with pytest.raises(JobCancelledError):
        recorder.client.result().get_job_execution_result().result(300)
    _, back_pressured, _ = shares(recorder.epochs, source=True)
    busy, _, _ = shares(recorder.epochs, source=False)
    assert back_pressured > 0
    assert busy > 0


def test_a_job_with_next_to_no_input_is_idle(environment: MakeEnvironment, recorder: Acting) -> None:
    env = environment({**PIPELINED, "execution.checkpointing.interval": "1 s"})
    numbered(env, DataGeneratorSource(lambda index: index, records_per_second=5))
    recorder.acts = {4: lambda client: client.cancel()}
    recorder.client.set_result(env.execute_async("idle"))
    with pytest.raises(JobCancelledError):
        recorder.client.result().get_job_execution_result().result(300)
    epochs = recorder.epochs[1:]  # the first one has the start
    for source in (True, False):
        busy, back_pressured, idle = shares(epochs, source=source)
        assert back_pressured == 0
        assert idle > busy


@pytest.mark.long
def test_an_adaptive_job_goes_from_a_backlog_to_pipelined_and_back_without_a_restart(
    environment: MakeEnvironment, recorder: Acting
) -> None:
    # The burst takes the slow function several seconds.
    script = [*range(500), Wait(5000), *range(500, 600), Wait(1000), *range(600, 5600), Wait(5000), 5600]
    env = environment({**PIPELINED, "execution.mode": "adaptive"})
    found = numbered(env, ScriptedSource(script), seconds=0.002)
    recorder.client.set_result(env.execute_async("adaptive"))
    recorder.client.result().get_job_execution_result().result(300)
    assert Counter((key, count) for key, count, _ in found) == expected(5601)
    assert recorder.restarts == []
    modes = [change.mode for change in recorder.modes]
    assert modes[:3] == ["pipelined", "epochs", "pipelined"]


def test_dynamic_allocation_is_refused_with_what_to_do(
    environment: MakeEnvironment, spark: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocating = spark.getConf().set("spark.dynamicAllocation.enabled", "true")
    monkeypatch.setattr(SparkContext, "getConf", lambda context: allocating)
    env = environment(PIPELINED)
    env.from_collection([1, 2, 3]).print()
    with pytest.raises(ConfigurationError, match=r"Set spark\.dynamicAllocation\.enabled to false") as refused:
        env.execute("refused")
    assert "execution.mode to epochs" in str(refused.value)
