"""Thousands of small epochs in one process, watching what grows: ``python soak.py '{"folder": ..., "epochs": 2000}'``.

Prints a line of JSON every so many epochs: memory of the driver, the JVM and the Python workers in MB, files in Spark's
local directory and in the checkpoint directory, and the average time of an epoch since the line before.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener

SAMPLES = 40
KEYS = 300
RECORDS_PER_EPOCH = 200


class Watch(JobListener):
    """Looks at the machine every so many epochs."""

    def __init__(self, folder: Path, every: int):
        self.folder = folder
        self.every = every
        self.epochs = 0
        self.run_ms: list[float] = []
        self.total_ms: list[float] = []
        self.since = time.monotonic()

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.epochs += 1
        self.run_ms.append(statistics.run_ms)
        self.total_ms.append(statistics.total_ms)
        if self.epochs % self.every == 0:
            self.report()
            self.run_ms, self.total_ms, self.since = [], [], time.monotonic()

    def report(self) -> None:
        memory = memory_of_children()
        run_ms, total_ms = sorted(self.run_ms), sorted(self.total_ms)
        sample: dict[str, Any] = {
            "epoch": self.epochs,
            "driver_mb": round(resident_mb(Path("/proc/self"))),
            **memory,
            "local_files": sum(1 for path in (self.folder / "local").rglob("*") if path.is_file()),
            "checkpoint_files": sum(1 for path in (self.folder / "checkpoints").rglob("*") if path.is_file()),
            "run_ms": {"median": round(run_ms[len(run_ms) // 2], 1), "min": round(run_ms[0], 1)},
            "total_ms": {"median": round(total_ms[len(total_ms) // 2], 1), "max": round(total_ms[-1], 1)},
            "epoch_ms": round((time.monotonic() - self.since) * 1000 / len(run_ms), 1),
        }
        print(json.dumps(sample), flush=True)


def resident_mb(process: Path) -> float:
    for line in (process / "status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def memory_of_children() -> dict[str, Any]:
    """The JVM and the Python workers that carry this process's mark."""
    mark = next(entry for entry in Path("/proc/self/environ").read_bytes().split(b"\0") if b"FLOTT_TEST_TREE" in entry)
    jvm, workers = 0.0, []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes()
                if b"pyspark.daemon" in command:
                    workers.append(round(resident_mb(entry)))
                elif b"java" in command.split(b"\0")[0]:
                    jvm = resident_mb(entry)
        except OSError:
            continue
    return {"jvm_mb": round(jvm), "workers_mb": max(workers, default=0), "workers": len(workers)}


def main(settings: dict[str, Any]) -> None:
    folder, epochs = Path(settings["folder"]), settings["epochs"]
    records = settings.get("records", RECORDS_PER_EPOCH)
    configuration = Configuration()
    options = {
        "execution.checkpointing.dir": folder / "checkpoints",
        "flott.epoch.max-records": records,
        "flott.epoch.initial-records": records,
        "flott.epoch.target-duration": "10 min",
        "spark.master": "local[2]",
        "spark.local.dir": folder / "local",
        **settings.get("options", {}),
    }
    for key, value in options.items():
        configuration.set_string(key, str(value))
    watch = Watch(folder, max(1, epochs // SAMPLES))
    executors.extra_listeners.append(watch)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    last: dict[int, int] = {}
    (
        env.add_source(DataGeneratorSource(lambda index: (index % KEYS, 1), count=epochs * records))
        .key_by(lambda pair: pair[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .sink_to(CallableSink(lambda pair: last.__setitem__(pair[0], pair[1])))
    )
    env.execute("soak")
    print(json.dumps({"sum": sum(last.values())}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
