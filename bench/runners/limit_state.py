"""The bare loop over large state: a dict per process, filled with its share of the keys, then timed.

What a larger dict costs the loop (cache misses, mostly) it costs any engine in Python: `limit` says how much of a
decline from ten thousand keys to millions is the machine's.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from bench import state
from bench.runners import command
from bench.workloads import digest, key_of

STRETCH_EPOCHS = 8
WARM_UP_EPOCHS = 1


def keyed_sum(stream: state.Stream, numbers: range, totals: dict, consume) -> None:
    make = stream.maker()
    for i in numbers:
        record = make(i)
        key = key_of(record)
        total = totals.get(key, 0) + record[1]
        totals[key] = total
        consume((key, total))


def measure(request: command.Request) -> dict[str, object]:
    _check(request)
    stream = state.Stream.of(
        request.workload, WARM_UP_EPOCHS + request.repeats * STRETCH_EPOCHS, request.cores, request.shrink
    )
    stretches = _stretches(stream, request.repeats)
    answers: Queue = multiprocessing.Queue()
    barrier = multiprocessing.Barrier(request.cores)
    processes = [
        multiprocessing.Process(target=_one_core, args=(stream, part, stretches, barrier, answers))
        for part in range(request.cores)
    ]
    for process in processes:
        process.start()
    measured = [answers.get() for _ in processes]  # seconds of every stretch, process by process
    for process in processes:
        process.join()
    share = STRETCH_EPOCHS * stream.epoch_records // request.cores
    return {
        "rates": [round(sum(share / seconds for seconds in stretch), 1) for stretch in zip(*measured, strict=True)],
        "keys": stream.keys,
        "touched": stream.touched,
        "records": [stream.epoch_records],
        "job_start_seconds": 0.0,
        "detail": f"bare loop, {request.cores} processes with {stream.keys // request.cores:,} keys each",
    }


def _stretches(stream: state.Stream, repeats: int) -> list[tuple[int, int]]:
    length = STRETCH_EPOCHS * stream.epoch_records
    first = stream.fill + WARM_UP_EPOCHS * stream.epoch_records
    return [(start, start + length) for start in range(first, first + repeats * length, length)]


def _one_core(
    stream: state.Stream, part: int, stretches: list[tuple[int, int]], barrier: Barrier, answers: Queue
) -> None:
    consume = deque(maxlen=1_000).append
    totals: dict = {}
    keyed_sum(stream, stream.numbers(part, 0, stretches[0][0]), totals, consume)
    seconds = []
    for start, stop in stretches:
        barrier.wait()
        started = time.perf_counter()
        keyed_sum(stream, stream.numbers(part, start, stop), totals, consume)
        seconds.append(time.perf_counter() - started)
    answers.put(seconds)


def _check(request: command.Request) -> None:
    stream = state.check_stream(1)
    results: list = []
    keyed_sum(stream, range(stream.records), {}, results.append)
    command.check(request.workload, digest("keyed_sum", results), state.expected(stream))


if __name__ == "__main__":
    command.main("limit", measure)
