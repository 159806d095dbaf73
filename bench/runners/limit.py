"""The physical limit of Python: each workload as a bare loop, one process per core, all at once, rates added up.

The loop calls the same user functions, keeps its state in a dict and hands every result to a bounded deque. It has no
exchange, no checkpoint, no buffers: each process keeps the keys it meets. No engine can pass it in pure Python.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench import events
from bench.runners import command, limit_events
from bench.workloads import keep, key_of, make_record, split_line, spread, word_of

MAX_CALIBRATIONS = 6


def keyed_sum(numbers: range, state: dict, consume) -> None:
    for i in numbers:
        record = make_record(i)
        key = key_of(record)
        total = state.get(key, 0) + record[1]
        state[key] = total
        consume((key, total))


def stateless(numbers: range, state: dict, consume) -> None:
    for i in numbers:
        record = make_record(i)
        if keep(record):
            for out in spread(record):
                consume(out)


def word_count(paths: Sequence[Path], state: dict, consume) -> None:
    for path in paths:
        with path.open() as lines:
            for line in lines:
                for word in split_line(line):
                    key = word_of(word)
                    total = state.get(key, 0) + 1
                    state[key] = total
                    consume((key, total))


LOOPS = {"keyed_sum": keyed_sum, "stateless": stateless, "word_count": word_count}
EVENT_LOOPS = limit_events.LOOPS


def measure(request: command.Request) -> dict[str, object]:
    _check(request)
    records = request.records
    for _ in range(MAX_CALIBRATIONS):
        seconds, rate = _all_cores(request, records)
        if not request.seconds:
            break
        if seconds > request.seconds / 4:
            records = int(rate * request.seconds)
            break
        records *= 5
    runs = [_all_cores(request, records) for _ in range(request.repeats)]
    return {
        "rates": [round(rate, 1) for _, rate in runs],
        "job_start_seconds": 0.0,
        "records": [records],
        "walls": [[round(seconds, 3)] for seconds, _ in runs],
        "detail": f"bare loop, {request.cores} processes",
    }


def _check(request: command.Request) -> None:
    from bench.workloads import digest, expected

    results: list = []
    if request.workload in EVENT_LOOPS:
        timeline = events.Timeline.of(request.workload, events.CHECK_RECORDS, 1, events.CHECK_DENSITY)
        EVENT_LOOPS[request.workload](timeline, timeline.streams, results.append)
        command.check(request.workload, events.digest(results), events.expected(timeline))
        return
    text = None
    if request.workload == "word_count":
        text, _ = request.text(command.CHECK_RECORDS)
        word_count(sorted(text.iterdir()), {}, results.append)
    else:
        LOOPS[request.workload](range(command.CHECK_RECORDS), {}, results.append)
    command.check(
        request.workload, digest(request.workload, results), expected(request.workload, command.CHECK_RECORDS, text)
    )


def _all_cores(request: command.Request, records: int) -> tuple[float, float]:
    """Wall seconds of the slowest process, and the sum of the processes' rates."""
    barrier = multiprocessing.Barrier(request.cores)
    answers: Queue = multiprocessing.Queue()
    processes = [
        multiprocessing.Process(target=_one_core, args=(request.workload, share, size, barrier, answers))
        for share, size in _shares(request, records)
    ]
    for process in processes:
        process.start()
    measured = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return max(seconds for _, seconds in measured), sum(size / seconds for size, seconds in measured)


def _shares(request: command.Request, records: int) -> list[tuple[object, int]]:
    cores = request.cores
    if request.workload in EVENT_LOOPS:
        timeline = request.timeline(records)
        return [((timeline, [_part(numbers, n, cores) for numbers in timeline.streams]), timeline.records // cores)
                for n in range(cores)]  # fmt: skip
    if request.workload == "word_count":
        text, held = request.text(records)
        paths = sorted(text.iterdir())
        return [(paths[n::cores], held * len(paths[n::cores]) // len(paths)) for n in range(cores)]
    step = records // cores
    return [(range(n * step, (n + 1) * step), step) for n in range(cores)]


def _part(numbers: range, n: int, parts: int) -> range:
    size = len(numbers) // parts
    return numbers[n * size : (n + 1) * size]


def _one_core(workload: str, share, size: int, barrier: Barrier, answers: Queue) -> None:
    consume = deque(maxlen=1_000).append
    state: dict = {}
    barrier.wait()
    started = time.perf_counter()
    if workload in EVENT_LOOPS:
        EVENT_LOOPS[workload](*share, consume)
    else:
        LOOPS[workload](share, state, consume)
    answers.put((size, time.perf_counter() - started))


if __name__ == "__main__":
    command.main("limit", measure)
