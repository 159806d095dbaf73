"""What every runner's command line has in common: its arguments, and the one JSON line it prints.

    python -m bench.runners.limit --workload keyed_sum --records 1000000

A runner that cannot do its work prints `{"missing": reason}`; the traceback goes to standard error.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import control, events, kafka, state, workloads

THROUGHPUT = ("keyed_sum", "stateless", "word_count", *events.WORKLOADS)
CHECK_RECORDS = 1_000


@dataclass(frozen=True)
class Request:
    """One measurement to take."""

    workload: str
    records: int  # the small size of the calibrating pair
    seconds: float  # how long the difference of a counted pair should last; 0 keeps `records`
    repeats: int
    cores: int
    variant: str  # "" unless the engine has several settings to compare
    settings: dict[str, str]  # extra settings: Spark's, so that `native` runs under Flott's, or Flott's own
    shrink: int  # how many times smaller the state is: 1, but for a smoke test
    scratch: Path  # emptied when the runner ends

    def text(self, words: int) -> tuple[Path, int]:
        """A directory of text files holding about `words` words, and how many they really hold."""
        return _text(self.scratch / f"text-{words}", words, self.cores)

    def timeline(self, records: int | None = None) -> events.Timeline:
        """About so many records of a workload in event time; without a number: the few an engine is checked with."""
        if records is None:
            return events.Timeline.of(self.workload, events.CHECK_RECORDS, self.cores, events.CHECK_DENSITY)
        return events.Timeline.of(self.workload, records, self.cores)


@functools.cache
def _text(directory: Path, words: int, cores: int) -> tuple[Path, int]:
    return directory, workloads.write_text(directory, words, min_files=cores)


def check(workload: str, found: object, wanted: object) -> None:
    """Refuse to time an engine that does not do the work."""
    if found != wanted:
        raise AssertionError(f"{workload}: results differ from the reference on a small input")


def main(runner: str, measure: Callable[[Request], dict[str, object]]) -> None:
    arguments = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="flott-bench-") as scratch:
        request = Request(**{**vars(arguments), "settings": json.loads(arguments.settings)}, scratch=Path(scratch))
        started = time.perf_counter()
        try:
            answer = measure(request)
        except Exception as error:
            traceback.print_exc()
            answer = {"missing": _one_line(error)}
        answer["took_seconds"] = round(time.perf_counter() - started, 1)
    print(json.dumps({"runner": runner, "workload": request.workload, **answer}), flush=True)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:200]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    known = (*THROUGHPUT, "empty_epoch", *state.WORKLOADS, *control.WORKLOADS, *kafka.WORKLOADS)
    parser.add_argument("--workload", required=True, choices=known)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--variant", default="")
    parser.add_argument("--settings", default="{}")
    parser.add_argument("--shrink", type=int, default=1)
    return parser
