"""A job with keyed state that notes where its subtasks run and which tasks its workers hold, epoch by epoch.

    python settler.py '{"folder": "/tmp/x", "epochs": 20, "executors": 4, "options": {"spark.master": ...}}'

With ``"mode": "pipelined"`` it has slots instead, and its state in RocksDB; epochs are its checkpoints. It then notes
which state files workers read to restore their state.

With ``kill_after`` the executor of the last subtask is killed when this epoch has completed; three epochs later the job
waits until Spark has replaced it. Prints one line of JSON at its end, after it has compared the results with those that
every run must have.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from flott.common import Configuration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.spark.executors import SparkExecutors
from flott.runtime.spark.session import spark_context
from flott.runtime.spark.worker_place import worker_place

PARALLELISM = 4
KEYS = 40
EPOCH_RECORDS = 80
EPOCHS_WITHOUT = 3  #: epochs that are sure to run before the job waits for the executor that replaces a killed one
START_SECONDS = 300
NO_TIME: WatermarkStrategy = WatermarkStrategy.no_watermarks()


class Count(KeyedProcessFunction[int, int, tuple[int, int]]):
    """Counts the records of each key, and notes which tasks the worker holds."""

    def __init__(self, folder: str):
        self.folder = folder

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in a worker, before any state is restored."""
        self.__dict__ = state
        note_reads(self.folder)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context[int]) -> Iterator[tuple[int, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        note_tasks(self.folder)
        yield ctx.get_current_key(), count


def note_tasks(folder: str) -> None:
    """Write which tasks this worker process holds besides the running one."""
    from flott.runtime.spark import worker

    held = [position for tasks in worker._cache._jobs.values() for position in tasks]
    name = Path(folder, f"{worker_place().executor}-{os.getpid()}")
    name.with_suffix(".draft").write_text(json.dumps(held))
    name.with_suffix(".draft").rename(name.with_suffix(".json"))


def note_reads(folder: str) -> None:
    """Write which state files this worker process reads."""
    from flott.runtime.managed_state.backends.rocksdb import keyed_state

    original: Any = getattr(keyed_state, "read_before_notes", keyed_state.open_state_file)

    def noted(storage: Any, name: str) -> Any:
        with open(Path(folder, f"{worker_place().executor}-{os.getpid()}.reads"), "a") as reads:
            print(name, file=reads)
        return original(storage, name)

    keyed_state.read_before_notes = original  # type: ignore[attr-defined]
    keyed_state.open_state_file = noted  # type: ignore[assignment]


class Diary(JobListener):
    """Where the subtasks ran in every epoch."""

    def __init__(self, kill_after: int | None, await_executors: Callable[[str | None], None], *, pipelined: bool):
        self.kill_after = kill_after
        self.pipelined = pipelined
        self.await_executors = await_executors
        self.places: list[dict[str, str]] = []  #: by epoch: the executor of each subtask
        self.killed: str | None = None  #: the executor
        self.restarts = 0
        self.workers: set[int] = set()  #: process ids

    def on_epoch(self, statistics: EpochStatistics) -> None:
        ran = {f"{subtask.vertex}/{subtask.subtask}": subtask for subtask in statistics.subtasks}
        self.places.append({name: subtask.place.executor for name, subtask in ran.items()})
        self.workers |= {subtask.worker for subtask in ran.values()}
        if statistics.epoch == self.kill_after:
            chosen = ran[max(ran)]
            os.kill(executor_of(chosen.worker), signal.SIGKILL)
            self.killed = chosen.place.executor
        if self.kill_after is not None and statistics.epoch == self.kill_after + EPOCHS_WITHOUT:
            self.await_executors(self.killed)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts += 1
        if self.pipelined:
            self.await_executors(self.killed)


def executor_of(pid: int) -> int:
    """Return the process of the executor that started a Python worker."""
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def await_executors(context: SparkContext, count: int, killed: str | None) -> None:
    """Wait until so many executors are there that live: a job that starts earlier has to move to them."""
    deadline = time.monotonic() + START_SECONDS
    while len({executor.id for executor in SparkExecutors(context).read().executors} - {killed}) < count:
        assert time.monotonic() < deadline, "the executors did not come"
        time.sleep(0.1)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Run the job to its end and return what was noted."""
    folder, records = settings["folder"], settings["epochs"] * EPOCH_RECORDS
    os.makedirs(f"{folder}/held")
    options = {
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "flott.epoch.max-records": EPOCH_RECORDS,
        "flott.epoch.initial-records": EPOCH_RECORDS,
        "flott.epoch.target-duration": "10 min",
        "flott.storage.sync": "false",
        "flott.progress": "off",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "100 ms",
        **settings["options"],
    }
    if settings.get("mode") == "pipelined":
        options |= {
            "execution.mode": "pipelined",
            "execution.checkpointing.interval": "500 ms",
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": f"{folder}/local",
        }
    context = spark_context(settings["options"], Path(folder, "spark.log"))
    await_executors(context, settings["executors"], None)
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(PARALLELISM)
    waiting = partial(await_executors, context, settings["executors"])
    diary = Diary(settings.get("kill_after"), waiting, pipelined=settings.get("mode") == "pipelined")
    executors.extra_listeners.append(diary)
    numbers = env.from_source(DataGeneratorSource(lambda index: index, count=records), NO_TIME, "numbers")
    counted = numbers.key_by(lambda number: number % KEYS).process(Count(f"{folder}/held")).uid("count")
    found = sorted(counted.execute_and_collect("settler"))
    assert found == [(key, n + 1) for key in range(KEYS) for n in range(records // KEYS)], "results are not exact"
    held: dict[str, set[tuple[int, int]]] = {}
    for path in Path(folder, "held").glob("*.json"):
        tasks = held.setdefault(path.name.partition("-")[0], set())
        tasks |= {(stage, position) for stage, position in json.loads(path.read_text())}
    return {
        "places": diary.places,
        "killed": diary.killed,
        "restarts": diary.restarts,
        "workers": len(diary.workers),
        "held": {executor: sorted(tasks) for executor, tasks in held.items()},
        "read_by": sorted({path.name.partition("-")[0] for path in Path(folder, "held").glob("*.reads")}),
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
