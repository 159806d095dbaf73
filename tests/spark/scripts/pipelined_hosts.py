"""A pipelined job over several hosts: it checks its results, and measures how old records are behind an exchange.

    python pipelined_hosts.py '{"folder": "/tmp/x", "executors": 2, "seconds": 5, "options": {"spark.master": ...}}'

Prints one line of JSON at its end: where the tasks ran, how many records went from one executor to another, and their
ages in milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from settler import NO_TIME, await_executors

from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import (
    Json,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.spark.session import spark_context
from flott.runtime.spark.worker_place import worker_place

RATE, KEYS, WARM_UP_S = 1000, 40, 1.0


class PacedEnumerator(SplitEnumerator):
    """Proposes the records that are due, half for each of two splits."""

    def __init__(self, total: int):
        self._total, self._position, self._began, self._paced = total, 0, 0.0, False

    def restore(self, state: Json) -> None:
        self._position, self._began = state

    def snapshot(self) -> Json:
        return [self._position, self._began]

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self._position == 0 or (self._position == 1 and not self._paced):
            self._began = time.time() - self._position / RATE  # time begins when the first record has been read
            self._paced = self._position == 1
        due = min(self._total, max(1, int((time.time() - self._began) * RATE)))
        stop = min(due, self._position + request.max_records)
        if stop <= self._position:
            return SlicePlan()
        middle, ends = (self._position + stop) // 2, stop == self._total
        parts = [("a", self._position, middle), ("b", middle, stop)]
        slices = [Slice(name, a, b, b - a, ends_split=ends, detail=self._began) for name, a, b in parts if a < b]
        return SlicePlan(tuple(slices), finished=ends, backlog=stop < due)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        self._position = max([self._position, *(part.stop for part in plan.slices)])


class PacedReader(SourceReader[Any]):
    """Makes records: a number, when it is due, and which executor has read it."""

    def read(self, part: Slice) -> Iterator[Any]:
        for number in range(part.start, part.stop):
            yield number, part.detail + number / RATE, worker_place().executor


class PacedSource(Source[Any]):
    """So many records."""

    def __init__(self, total: int):
        self.total = total

    def create_enumerator(self) -> SplitEnumerator:
        return PacedEnumerator(self.total)

    def create_reader(self) -> SourceReader[Any]:
        return PacedReader()


class CountAndAge(KeyedProcessFunction[int, Any, Any]):
    """Counts the records of a key, and says how old each is and whether another executor has sent it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, due, sender = value
        self.count.update((self.count.value() or 0) + 1)
        came_far = sender != worker_place().executor
        yield ctx.get_current_key(), self.count.value(), number, (time.time() - due) * 1000, came_far


class Restarts(JobListener):
    """Notes why the job has restarted."""

    def __init__(self) -> None:
        self.cards: list[str] = []

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.cards.append(card)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Run the job to its end and return what was noted."""
    folder, total = settings["folder"], settings["seconds"] * RATE
    os.makedirs(folder)
    context = spark_context({k: str(v) for k, v in settings["options"].items()}, Path(folder, "spark.log"))
    await_executors(context, settings["executors"], None)
    configuration = Configuration()
    options = {
        "execution.mode": "pipelined",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "execution.checkpointing.interval": "500 ms",
        "flott.progress": "off",
        **settings["options"],
    }
    for key, value in options.items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(settings["executors"])
    restarts = Restarts()
    executors.extra_listeners.append(restarts)
    paced = env.from_source(PacedSource(total), NO_TIME, "paced")
    found = list(paced.key_by(lambda record: record[0] % KEYS).process(CountAndAge()).execute_and_collect("hosts"))
    counted = sorted((key, count) for key, count, *_ in found)
    assert counted == [(key, n + 1) for key in range(KEYS) for n in range(len(range(key, total, KEYS)))], "not exact"
    ages = sorted(age for _, _, number, age, far in found if far and number > WARM_UP_S * RATE)
    return {
        "restarts": restarts.cards,
        "far": len(ages),
        "p50": ages[len(ages) // 2] if ages else None,
        "p99": ages[len(ages) * 99 // 100] if ages else None,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
