"""Pipelined jobs on real Spark: one barrier stage, sockets between its workers, barriers instead of epochs."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from flott.common import WatermarkStrategy
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.errors import ConfigurationError
from tests.programs import runner
from tests.spark.conftest import MakeEnvironment

RECORDS = 60_000
KEYS = 11


@pytest.mark.parametrize("name", ["word_count", "kinds_of_state", "async_lookup"])
def test_a_pipelined_job_gives_the_golden_output(name: str, tmp_path: Path, spark: SparkContext) -> None:
    runner.straight_through(name, tmp_path, target="spark", mode="pipelined")
    assert runner.output(tmp_path) == runner.golden(name)
    assert runner.remains(tmp_path) == []


def test_a_driver_that_was_killed_is_continued_by_another_in_the_other_mode(tmp_path: Path) -> None:
    modes = ["pipelined", "epochs"]
    assert runner.killed_and_recovered("kinds_of_state", tmp_path, target="spark", kills=1, modes=modes) == 1
    assert runner.output(tmp_path) == runner.golden("kinds_of_state")
    assert runner.remains(tmp_path) == []


class CountingAndDying(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Counts the records of a key. The first worker that has seen a record takes itself away with SIGKILL."""

    def __init__(self, died: str, at: int):
        self.died, self.at = died, at

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        if value == self.at and not os.path.exists(self.died):
            Path(self.died).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


def test_results_are_exact_after_a_worker_was_killed_with_sigkill(
    environment: MakeEnvironment, tmp_path: Path
) -> None:
    env = environment(
        {
            "execution.mode": "pipelined",
            "execution.checkpointing.interval": "50 ms",
            "flott.epoch.max-records": "2000",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    died = tmp_path / "died"
    counted = (
        env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
        .key_by(lambda n: n % KEYS)
        .process(CountingAndDying(str(died), RECORDS * 2 // 3))
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
