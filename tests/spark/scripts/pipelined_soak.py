"""A pipelined job under back pressure, a checkpoint every second: ``python pipelined_soak.py '{"folder": ...}'``.

Prints a line of JSON for each checkpoint: memory of the driver, the JVM and the slots in MB, for how long tasks were
back-pressured, and files. The job is stopped with a savepoint after so many checkpoints, and what it wrote is checked.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from soak import memory_of_children, resident_mb

from flott.common import Configuration, JobClient, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.metrics._engine_metrics import TASK_BACK_PRESSURED_MS
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener

KEYS = 300
COPIES = 5_000
#: What the slow function takes for each record.
SECONDS = 0.0002


class SlowCount(KeyedProcessFunction[int, tuple[int, str], tuple[int, int]]):
    """Counts the records of a key, slowly."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: tuple[int, str], ctx: Any) -> Iterator[tuple[int, int]]:
        time.sleep(SECONDS)
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


class Watch(JobListener):
    """Looks at the machine at every checkpoint, and stops the job in the end."""

    def __init__(self, folder: Path, checkpoints: int):
        self.folder = folder
        self.left = checkpoints
        self.clients: list[JobClient] = []
        self.restarts = 0

    def on_epoch(self, statistics: EpochStatistics) -> None:
        pressed = [float(part.measures.get(TASK_BACK_PRESSURED_MS.name, 0)) for part in statistics.subtasks]
        sample = {
            "checkpoint": statistics.epoch,
            "driver_mb": round(resident_mb(Path("/proc/self")), 1),
            **memory_of_children(),
            "back_pressured_ms": round(max(pressed, default=0)),
            "persisted_bytes": sum(part.persisted_bytes for part in statistics.subtasks),
            "checkpoint_files": sum(1 for path in (self.folder / "checkpoints").rglob("*") if path.is_file()),
        }
        print(json.dumps(sample), flush=True)
        self.left -= 1
        if not self.left:
            threading.Thread(target=self._stop).start()

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts += 1

    def _stop(self) -> None:
        self.clients[0].stop_with_savepoint(False, str(self.folder / "savepoints"))


def main(settings: dict[str, Any]) -> None:
    folder = Path(settings["folder"])
    configuration = Configuration()
    for key, value in {
        "execution.mode": "pipelined",
        "execution.checkpointing.dir": folder / "checkpoints",
        "execution.checkpointing.interval": "1 s",
        "flott.epoch.max-records": 2,
        "flott.exchange.memory": "1 mb",
        "flott.progress": "off",
        "spark.master": "local[2]",
        "spark.local.dir": folder / "local",
        **settings.get("options", {}),
    }.items():
        configuration.set_string(key, str(value))
    watch = Watch(folder, settings["checkpoints"])
    executors.extra_listeners.append(watch)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    last: dict[int, int] = {}
    counted = 0

    def note(pair: tuple[int, int]) -> None:
        nonlocal counted
        key, count = pair
        assert count == last.get(key, 0) + 1, f"key {key}: {count} behind {last.get(key, 0)}"
        last[key] = count
        counted += 1

    numbers = env.from_source(
        DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "numbers"
    )
    # What becomes of a record is more than the channels take, so the source is back-pressured.
    pairs = numbers.flat_map(lambda index: [(number % KEYS, "x" * 500) for number in range(index, index + COPIES)])
    pairs.key_by(lambda pair: pair[0]).process(SlowCount()).sink_to(CallableSink(note))
    watch.clients.append(env.execute_async("pipelined soak"))
    watch.clients[0].get_job_execution_result().result()
    print(json.dumps({"counted": counted, "sum": sum(last.values()), "restarts": watch.restarts}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
