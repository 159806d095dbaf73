"""`python -m bench --only latency`: how long a record needs from its source to a keyed function, at three rates.

A record is due at a time that its number gives (number / rate), so a source that reads it late counts as late. It
passes one exchange and a keyed process function with a value state; there its age is taken. Checkpoints are taken every
second. First the maximum is measured, with a backlog; then 10, 50 and 80 per cent of it. Each measurement is
a process of its own with a Spark of its own.

    python -m bench.latency pipelined 20000 10     one measurement: mode, records a second, seconds
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flott.common import Configuration, WatermarkStrategy
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

RESULTS = Path(__file__).parent / "results" / "latency.json"
MODES = ("pipelined", "epochs")
SHARES = (0.1, 0.5, 0.8)
KEYS = 10_000
SPLITS = 2
#: Records of the first seconds are not counted: Spark starts its workers, and epochs find their size.
WARM_UP_S = 6.0
#: Enough to be a backlog for the whole measurement of the maximum.
FLOOD_PER_S = 5_000_000


class PacedEnumerator(SplitEnumerator):
    """Proposes the records that are due, in equal parts for all splits."""

    def __init__(self, rate: int, total: int):
        self._rate, self._total = rate, total
        self._position, self._began = 0, 0.0

    def restore(self, state: Json) -> None:
        self._position, self._began = state

    def plan(self, request: SliceRequest) -> SlicePlan:
        if not self._began:
            self._began = time.time()
        due = min(self._total, int((time.time() - self._began) * self._rate))
        stop = min(due, self._position + request.max_records)
        if stop <= self._position:
            return SlicePlan()
        cuts = [self._position + (stop - self._position) * split // SPLITS for split in range(SPLITS + 1)]
        slices = tuple(
            Slice(str(split), cuts[split], cuts[split + 1], cuts[split + 1] - cuts[split],
                  ends_split=stop == self._total, detail=[self._began, self._rate])
            for split in range(SPLITS)
            if cuts[split] < cuts[split + 1]
        )  # fmt: skip
        return SlicePlan(slices, finished=stop == self._total, backlog=stop < due)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        self._position = max([self._position, *(part.stop for part in plan.slices)])

    def snapshot(self) -> Json:
        return [self._position, self._began]


class PacedReader(SourceReader[Any]):
    """Makes records: a key, and the time at which the record is due."""

    def read(self, part: Slice) -> Iterator[Any]:
        began, rate = part.detail
        for number in range(part.start, part.stop):
            yield number * 7919 % KEYS, began + number / rate, began


class PacedSource(Source[Any]):
    """So many records a second."""

    def __init__(self, rate: int, total: int):
        self.rate, self.total = rate, total

    def create_enumerator(self) -> SplitEnumerator:
        return PacedEnumerator(self.rate, self.total)

    def create_reader(self) -> SourceReader[Any]:
        return PacedReader()


class TakeAges(KeyedProcessFunction[int, Any, Any]):
    """Counts the records of a key, and notes the age of every tenth record when its state was updated."""

    def __init__(self, folder: str):
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.ages: list[float] = []
        self.taken = 0

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.taken += 1
        if self.taken % 10 == 0 and value[1] > value[2] + WARM_UP_S:
            self.ages.append(time.time() - value[1])
        return ()

    def close(self) -> None:
        Path(self.folder, f"{os.getpid()}-{id(self)}").write_text(json.dumps([self.taken, self.ages]))


def measure(mode: str, rate: int, seconds: float) -> dict[str, Any]:
    """Run one measurement in this process."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = Configuration()
        for key, value in {
            "execution.mode": mode,
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"{folder}/checkpoints",
            "flott.progress": "off",
            "parallelism.default": str(SPLITS),
            "spark.master": f"local[{SPLITS}]",
            "restart-strategy.type": "none",
        }.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        ages = Path(folder, "ages")
        ages.mkdir()
        records = env.from_source(
            PacedSource(rate, int(rate * (WARM_UP_S + seconds))), WatermarkStrategy.no_watermarks(), "paced"
        )
        records.key_by(lambda record: record[0]).process(TakeAges(str(ages))).print()
        began = time.perf_counter()
        env.execute("latency")
        took = time.perf_counter() - began
        found = [json.loads(path.read_text()) for path in ages.iterdir()]
    taken, samples = sum(count for count, _ in found), sorted(age for _, part in found for age in part)
    result: dict[str, Any] = {"mode": mode, "rate": rate, "seconds": round(took, 1), "records_per_s": taken / took}
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        result[name] = round(samples[min(len(samples) - 1, int(len(samples) * share))] * 1000, 2) if samples else None
    return result


def main(arguments: list[str]) -> int:
    """Measure both modes at all rates, print the table and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench --only latency", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    chosen = parser.parse_args(arguments)
    flood = _in_process_of_its_own("pipelined", FLOOD_PER_S // 4, 2.0)
    most = flood["records_per_s"]
    print(f"maximum, pipelined: {most:,.0f} records a second", flush=True)
    results = []
    for share in SHARES:
        for mode in MODES:
            results.append({"share": share, **_in_process_of_its_own(mode, int(most * share), chosen.seconds)})
            print("  ".join(f"{name}={value}" for name, value in results[-1].items()), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"maximum": flood, "results": results}, indent=2) + "\n")
    return 0


def _in_process_of_its_own(mode: str, rate: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.latency", mode, str(rate), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
