"""`python -m bench.latency.recovery`: SIGKILL of a worker to the first new result, a million keys, both backends.

The keyed function notes when it was opened and when it had its first record. The first new result is the first record
of an instance that was opened after the signal; a job is complete again when as many instances as before have had one.
Each record says how often its key has come, so a state that was not restored exactly is found at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.latency.flott import PacedReader, PacedSource, environment, results
from bench.latency.timetable import SPLITS, Timetable, now_us
from flott.common import Types
from flott.datastream.connectors.base import SourceReader
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor

BACKENDS = {"hashmap": "pipelined", "rocksdb": "pipelined-rocksdb"}
RATE, SECONDS = 10_000, 300.0
KEYS, QUICK_KEYS = 1_000_000, 10_000
KILLS = 3
#: A job runs for so long before a worker is killed: several checkpoints.
RUNS_S = 4.0
LIMIT_S = 120.0
POLL_S = 0.02
CAUGHT_UP_US = 100_000


@dataclass(frozen=True)
class Note:
    """What one instance of the keyed function said about itself."""

    pid: int
    opened_us: int
    first_us: int  #: its first record that was not of the fill
    caught_up_us: int  #: its first record that was not late; 0: it has had none


class TurnReader(PacedReader):
    """Says of each record how often its key has come."""

    def records(self, numbers: range, began_us: int) -> list[Any]:
        found = zip(numbers, super().records(numbers, began_us), strict=True)
        return [(key, due, number // self._table.keys + 1) for number, (key, due) in found]


class TurnSource(PacedSource):
    """Gives records with their turn."""

    def create_reader(self) -> SourceReader[Any]:
        return TurnReader(self.table)


class NotingCount(KeyedProcessFunction[int, Any, Any]):
    """Counts, and leaves a note of its first record and of its first record that was not late."""

    def __init__(self, folder: str):
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.name = uuid.uuid4().hex
        self.opened_us, self.first_us, self.caught_up_us = now_us(), 0, 0

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count != value[2]:
            Path(self.folder, "wrong").write_text(f"key {value[0]}: {count} instead of {value[2]}")
        if not self.caught_up_us and value[1]:
            self._note(now_us(), value[1])
        yield value[0], count, value[1]

    def _note(self, now: int, due: int) -> None:
        is_late = now - due > CAUGHT_UP_US
        if self.first_us and is_late:
            return
        self.first_us = self.first_us or now
        self.caught_up_us = 0 if is_late else now
        note = [os.getpid(), self.opened_us, self.first_us, self.caught_up_us]
        half = Path(self.folder, f"{self.name}.half")
        half.write_text(json.dumps(note))
        half.rename(half.with_suffix(".note"))


def after(notes: list[Note], at_us: int) -> list[Note]:
    """Return the notes of instances opened after a time, by their first record."""
    return sorted((note for note in notes if note.opened_us > at_us), key=lambda note: note.first_us)


def measure(variant: str, keys: int, kills: int) -> dict[str, Any]:
    """Kill workers of a job, one after the other."""
    with tempfile.TemporaryDirectory(prefix="flott-bench-") as scratch:
        notes = Path(scratch, "notes")
        notes.mkdir()
        restart = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
        env = environment(variant, scratch, **restart, **{"restart-strategy.fixed-delay.attempts": str(kills)})
        table = Timetable(RATE, SECONDS, keys, keys, scratch)
        results(env, TurnSource(table), NotingCount(str(notes))).sink_to(DiscardSink())
        job = env.execute_async("recovery")
        found = _wait(notes, 0)
        first, whole, caught_up = [], [], []
        for _ in range(kills):
            time.sleep(RUNS_S)
            at = now_us()
            os.kill(found[0].pid, signal.SIGKILL)
            found = _wait(notes, at)
            first.append(_ms(found[0].first_us - at))
            whole.append(_ms(found[-1].first_us - at))
            caught_up.append(_ms(max(note.caught_up_us for note in found) - at))
        wrong = notes / "wrong"
        reason = wrong.read_text() if wrong.exists() else ""
        job.cancel().result()
    if reason:
        return {"missing": f"the restored state was wrong: {reason}"}
    return {"keys": keys, "rate": RATE, "first_ms": first, "all_ms": whole, "caught_up_ms": caught_up}


def _wait(folder: Path, after_us: int) -> list[Note]:
    """Until all instances that were opened after a time have caught up."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        notes = [Note(*json.loads(path.read_text())) for path in folder.glob("*.note")]
        found = after(notes, after_us)
        if sum(bool(note.caught_up_us) for note in found) >= SPLITS:
            return found
        time.sleep(POLL_S)
    raise TimeoutError(f"{len(found)} of {SPLITS} subtasks have had a record after {LIMIT_S:.0f} s")


def _ms(microseconds: int) -> int:
    return round(microseconds / 1_000)


def main() -> None:
    """Measure both backends, and print one line of JSON."""
    quick = "--quick" in sys.argv
    size = (QUICK_KEYS, 1) if quick else (KEYS, KILLS)
    print(json.dumps({backend: measure(variant, *size) for backend, variant in BACKENDS.items()}), flush=True)


if __name__ == "__main__":
    main()
