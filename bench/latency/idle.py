"""`python -m bench.latency.idle`: what a pipelined job without input takes of a core, driver and slots together."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.latency.flott import PacedEnumerator, PacedReader, PacedSource, RunningCount, environment, results
from bench.latency.timetable import Timetable
from bench.process_tree import Process, cpu_share, tree
from flott.datastream.connectors.base import (
    Followed,
    Pause,
    Slice,
    SlicePlan,
    SliceRequest,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.connectors.discard import DiscardSink

KEYS = 10_000
SETTLE_S, WATCH_S, QUICK_S = 15.0, 30.0, 2.0


class QuietEnumerator(PacedEnumerator):
    """Gives the fill, and then lets readers follow splits that bring nothing more."""

    def plan(self, request: SliceRequest) -> SlicePlan:
        if not self.is_filled:
            return super().plan(request)
        return SlicePlan(self._open_slices())


class QuietReader(PacedReader):
    """Looks for records like a client that does not know when there are any."""

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        self._reached = {part.split: part.start for part in parts}
        while True:
            yield Pause()


class QuietSource(PacedSource):
    """Is silent after its first records."""

    def create_enumerator(self) -> SplitEnumerator:
        return QuietEnumerator(self.table)

    def create_reader(self) -> SourceReader[Any]:
        return QuietReader(self.table)


def role(process: Process) -> str:
    """Return what a process of the job is."""
    if process.pid == os.getpid():
        return "driver"
    return "jvm" if "java" in process.command.partition(" ")[0] else "slots"


def measure(settle_s: float, watch_s: float) -> dict[str, object]:
    """Return the shares of a core: in all, and by role."""
    with tempfile.TemporaryDirectory(prefix="flott-bench-") as scratch:
        table = Timetable(1, 1_000.0, KEYS, KEYS, str(Path(scratch)))
        env = environment("pipelined", scratch)
        results(env, QuietSource(table), RunningCount()).sink_to(DiscardSink())
        job = env.execute_async("idle")
        time.sleep(settle_s)
        before = tree(os.getpid())
        time.sleep(watch_s)
        after = tree(os.getpid())
        job.cancel().result()
    shares = {
        name: cpu_share(before, [process for process in after if role(process) == name], watch_s)
        for name in ("driver", "jvm", "slots")
    }
    return {"cores": round(sum(shares.values()), 4), **shares, "seconds": watch_s}


def main() -> None:
    """Measure, and print one line of JSON."""
    quick = "--quick" in sys.argv
    print(json.dumps(measure(*((QUICK_S, QUICK_S) if quick else (SETTLE_S, WATCH_S)))), flush=True)


if __name__ == "__main__":
    main()
