"""Pipelined jobs on real Spark: one barrier stage, sockets between its workers, barriers instead of epochs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from flott.common import WatermarkStrategy
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.errors import ConfigurationError, JobFailedError
from tests.programs import order_free, runner
from tests.programs.runner import UNALIGNED
from tests.spark.conftest import MakeEnvironment

RECORDS = 60_000
KEYS = 11


#: They have vertices with more subtasks than the shared Spark has cores.
WIDE = {"diamond_and_union", "partitioners"}
#: Programs, modes and backends that run always; all others take their turn in ``make test-long``.
ALWAYS = {
    ("word_count", "pipelined", "hashmap"),
    ("kinds_of_state", "pipelined", "rocksdb"),
    ("async_lookup", UNALIGNED, "hashmap"),
}


@pytest.mark.parametrize(
    ("name", "mode", "backend"),
    [
        pytest.param(*variant, marks=() if variant in ALWAYS else pytest.mark.long)
        for variant in product(sorted({*runner.PROGRAMS} - WIDE), ["pipelined", UNALIGNED], ["hashmap", "rocksdb"])
    ],
)
def test_a_pipelined_job_gives_the_golden_output(
    name: str, mode: str, backend: str, tmp_path: Path, spark: SparkContext
) -> None:
    runner.straight_through(name, tmp_path, target="spark", mode=mode, backend=backend)
    if name in order_free.CHECKS:  # which slot is faster is left to the machine
        order_free.assert_order_free(name, runner.output(tmp_path))
    else:
        assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


def test_a_driver_that_was_killed_is_continued_by_another_in_the_other_mode(tmp_path: Path) -> None:
    modes = ["pipelined", "epochs"]
    assert runner.killed_and_recovered("kinds_of_state", tmp_path, target="spark", kills=1, modes=modes) == 1
    assert runner.output(tmp_path) == runner.golden("kinds_of_state")
    assert runner.remains(tmp_path) == []


class CountingAndDying(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Counts the records of a key. The first worker that has seen a record sends itself a signal."""

    def __init__(self, died: str, at: int, signal_number: int):
        self.died, self.at, self.signal = died, at, signal_number

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        if value == self.at and not os.path.exists(self.died):
            Path(self.died).touch()
            os.kill(os.getpid(), self.signal)
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_results_are_exact_after_a_worker_was_killed_with_sigkill_or_stopped_for_ever(
    signal_number: int, environment: MakeEnvironment, tmp_path: Path
) -> None:
    env = environment(
        {
            "execution.mode": "pipelined",
            "execution.checkpointing.interval": "50 ms",
            "flott.epoch.max-records": "2000",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "heartbeat.interval": "200 ms",
            "heartbeat.timeout": "3 s",
        }
    )
    died = tmp_path / "died"
    counted = (
        env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
        .key_by(lambda n: n % KEYS)
        .process(CountingAndDying(str(died), RECORDS * 2 // 3, signal_number))
    )
    found: Counter[tuple[int, int]] = Counter(counted.execute_and_collect())
    assert died.exists()
    expected = Counter((key, n + 1) for key in range(KEYS) for n in range(len(range(key, RECORDS, KEYS))))
    assert found == expected


class SlowUntilDead(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Counts the records of a key, slowly. A worker kills itself once a checkpoint holds records on their way."""

    def __init__(self, died: str, checkpoints: str):
        self.died, self.checkpoints = died, checkpoints

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = 0
        self.is_slow = not os.path.exists(self.died)

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        self.seen += 1
        if self.is_slow:
            time.sleep(0.0005)
            if self.seen % 100 == 0:
                self._die_in_time()
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()

    def _die_in_time(self) -> None:
        for metadata in Path(self.checkpoints).glob("*/chk-*/_metadata"):
            try:
                holds_records = b'"channels":' in metadata.read_bytes()
            except FileNotFoundError:  # a later checkpoint has replaced it
                continue
            if holds_records and not os.path.exists(self.died):
                Path(self.died).touch()
                os.kill(os.getpid(), signal.SIGKILL)


def test_results_are_exact_after_a_kill_behind_an_unaligned_checkpoint_with_records_on_their_way(
    environment: MakeEnvironment, tmp_path: Path
) -> None:
    checkpoints = tmp_path / "checkpoints"
    env = environment(
        {
            "execution.mode": "pipelined",
            "execution.checkpointing.dir": str(checkpoints),
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.unaligned.enabled": "true",
            "flott.epoch.max-records": "2000",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    died = tmp_path / "died"
    counted = (
        env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
        .key_by(lambda n: n % KEYS)
        .process(SlowUntilDead(str(died), str(checkpoints)))
    )
    found: Counter[tuple[int, int]] = Counter(counted.execute_and_collect())
    assert died.exists()
    expected = Counter((key, n + 1) for key in range(KEYS) for n in range(len(range(key, RECORDS, KEYS))))
    assert found == expected


def test_a_job_that_needs_more_slots_than_spark_has_is_refused_with_the_number(
    environment: MakeEnvironment, spark: SparkContext
) -> None:
    needed = spark.defaultParallelism + 1
    env = environment({"execution.mode": "pipelined"}).set_parallelism(needed)
    env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda a, b: a + b).print()
    with pytest.raises(ConfigurationError, match=f"needs {needed} slots at the same time"):
        env.execute("too wide")


def test_a_job_whose_cores_are_taken_waits_and_then_says_how_many_are_missing(
    environment: MakeEnvironment, spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flott.runtime.spark.missing_slots.PATIENCE_S", 0.5)
    begun, release = tmp_path / "begun", tmp_path / "release"

    def hold(number: int) -> int:
        begun.touch()
        while not release.exists():
            time.sleep(0.05)
        return number

    holding = threading.Thread(target=lambda: spark.parallelize([1], 1).map(hold).collect())
    holding.start()
    while not begun.exists():
        time.sleep(0.05)
    cores = spark.defaultParallelism
    options = {"execution.mode": "pipelined", "slot.request.timeout": "2 s", "restart-strategy.type": "none"}
    try:
        env = environment(options).set_parallelism(cores)
        env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda a, b: a + b).print()
        with pytest.raises(JobFailedError, match=f"needs {cores} cores .* but {cores - 1} of {cores} are free"):
            env.execute("no place")
    finally:
        release.touch()
        holding.join()
    again = environment({**options, "slot.request.timeout": "2 min"}).set_parallelism(cores)
    found = again.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda a, b: a + b).execute_and_collect()
    assert sorted(found) == [1, 2, 3]
