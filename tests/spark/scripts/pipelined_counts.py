"""A pipelined job that numbers the records of each key, exactly once, while something outside kills its processes.

    python pipelined_counts.py '{"folder": "/tmp/x", "records": 4000, "options": {"spark.master": ...}}'

Says "checkpoint 7" on each line, and at its end how often it has restarted. What it wrote is in ``folder/files``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from flott.common import Configuration, Encoder, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener

KEYS = 7
#: What a record takes, so that the job lasts, however late its tasks were started.
SECONDS = 0.002


class Number(KeyedProcessFunction[int, int, str]):
    """Numbers the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        time.sleep(SECONDS)
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"


class Told(JobListener):
    """Says what happens."""

    def __init__(self) -> None:
        self.restarts: list[str] = []

    def on_epoch(self, statistics: EpochStatistics) -> None:
        print(f"checkpoint {statistics.epoch}", flush=True)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts.append(card)


def expected(records: int) -> list[str]:
    """Return all lines that a run writes, sorted."""
    return sorted(f"{key} {n + 1}" for key in range(KEYS) for n in range(len(range(key, records, KEYS))))


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Run the job to its end."""
    folder = settings["folder"]
    configuration = Configuration()
    for key, value in {
        "execution.mode": "pipelined",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "execution.checkpointing.interval": "100 ms",
        "execution.state-recovery.from-latest": "true",
        "flott.progress": "off",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "1 ms",
        **settings["options"],
    }.items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    source = DataGeneratorSource(lambda index: index, count=settings["records"])
    files = (
        FileSink.for_row_format(f"{folder}/files", Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda n: n % KEYS).process(Number()).uid("number").sink_to(files).uid("files")
    told = Told()
    executors.extra_listeners.append(told)
    env.execute("pipelined counts")
    return {"restarts": told.restarts}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
