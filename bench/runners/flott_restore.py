"""Flott starts from a canonical savepoint: from the submission of the job to the end of its first epoch.

The same program without a savepoint is started before each restore, and its time taken off: what is left is the copy of
the files into the job's directory (restore mode NO_CLAIM, the default) and the loading of the state. The savepoint is
the same for both backends, because its format is.

What limits it is told by doing parts of the work alone, one process per core as the job has: reading the files,
decoding them, and ``pickle.load`` of dicts with the same keys and values.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import flott
from bench import state
from bench.runners import command, flott_totals
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.storage import PosixStorage

FIRST_EPOCH_RECORDS = 2_000
SPARE_EPOCHS = 8  # what is left to read after the savepoint
READ_BYTES = 1 << 20
#: Larger than any number of key groups.
ALL_GROUPS = range(1 << 15)


@dataclass(frozen=True)
class Start:
    """How long a job took to begin."""

    submitted_seconds: float  #: until it ran: the copy of a savepoint is in it
    first_epoch_seconds: float  #: from there to the end of the first epoch: so is the loading of the state

    @property
    def seconds(self) -> float:
        return self.submitted_seconds + self.first_epoch_seconds


def measure(request: command.Request) -> dict[str, object]:
    session_seconds = flott_totals.check(request)
    stream = state.Stream.of(request.workload, SPARE_EPOCHS, request.cores, request.shrink)
    savepoint = _savepoint(request, stream)
    files = sorted(path for path in savepoint.rglob("*") if path.is_file() and path.name != "_metadata")
    starts = []
    _start(request, stream, None)  # not counted
    for _ in range(2 * request.repeats - 1):  # a start is short, and its time varies
        empty, restored = _start(request, stream, None), _start(request, stream, savepoint)
        starts.append((empty, restored))
    seconds = [restored.seconds - empty.seconds for empty, restored in starts]
    copies = [restored.submitted_seconds - empty.submitted_seconds for empty, restored in starts]
    middle, size = statistics.median(seconds), sum(path.stat().st_size for path in files)
    return {
        "milliseconds": [round(each * 1_000, 1) for each in seconds],
        "copy_milliseconds": [round(each * 1_000, 1) for each in copies],
        "empty_milliseconds": [round(empty.seconds * 1_000, 1) for empty, _ in starts],
        "keys": stream.keys,
        "full_bytes": size,
        "alone_milliseconds": _alone(request, stream, files),
        "megabytes_per_second": round(size / 1e6 / middle, 1) if middle > 0 else None,
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"{flott_totals.BACKENDS[request.variant]}, {stream.keys:,} keys in {size / 1e6:,.1f} MB, canonical"
        f" savepoint, parallelism {request.cores}",
        "versions": {"flott": getattr(flott, "__version__", "")},
    }


def _savepoint(request: command.Request, stream: state.Stream) -> Path:
    """Fill the state in a job on the hash-map backend, and stop it."""
    env = flott_totals.environment(request, stream.epoch_records, **{"state.backend.type": "hashmap"})
    with flott_totals.watched(request) as log:
        job = flott_totals.submit(env, stream, "fill")
        log.wait_for(stream.fill_epochs)
        return Path(job.stop_with_savepoint(False, str(request.scratch / "savepoints")).result())


def _start(request: command.Request, stream: state.Stream, savepoint: Path | None) -> Start:
    recovery = {"execution.state-recovery.path": str(savepoint)} if savepoint is not None else {}
    env = flott_totals.environment(request, FIRST_EPOCH_RECORDS // request.shrink + request.cores, **recovery)
    with flott_totals.watched(request) as log:
        began = time.perf_counter()
        job = flott_totals.submit(env, stream, "restore")
        submitted = time.perf_counter()
        log.wait_for(1)
        job.cancel().result()
    return Start(submitted - began, log.epochs[0].ended - submitted)


# --- parts of the work alone -----------------------------------------------------------------------------------------


def _alone(request: command.Request, stream: state.Stream, files: list[Path]) -> dict[str, float]:
    """Milliseconds of the slowest process, each with its share of the files or keys; files are in the page cache."""
    pickles = [_pickled(request, stream, part) for part in range(request.cores)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(request.cores, spawn) as pool:
        work = {"read": (read, files), "decode": (decode, files), "pickle": (unpickle, pickles)}
        return {
            name: round(1_000 * max(pool.map(timed, [task] * request.cores, _dealt(paths, request.cores))), 1)
            for name, (task, paths) in work.items()
        }


def _pickled(request: command.Request, stream: state.Stream, part: int) -> Path:
    path = request.scratch / f"part-{part}.pickle"
    keys = range(part, stream.keys, request.cores)
    path.write_bytes(pickle.dumps({key: key & 1023 for key in keys}, protocol=pickle.HIGHEST_PROTOCOL))
    return path


def _dealt(paths: list[Path], hands: int) -> list[list[Path]]:
    return [paths[hand::hands] for hand in range(hands)]


def timed(task, paths: list[Path]) -> float:
    """Seconds that a task takes with its files."""
    for path in paths:
        read(path)  # into the page cache
    started = time.perf_counter()
    for path in paths:
        task(path)
    return time.perf_counter() - started


def read(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        while os.read(file, READ_BYTES):
            pass
    finally:
        os.close(file)


def decode(path: Path) -> None:
    """As a restore does, but for the table that would keep it."""
    with open_state_file(PosixStorage(str(path.parent)), path.name) as reader:
        for _ in reader.blocks(ALL_GROUPS):
            pass


def unpickle(path: Path) -> None:
    with path.open("rb") as file:
        pickle.load(file)


if __name__ == "__main__":
    command.main("flott", measure)
