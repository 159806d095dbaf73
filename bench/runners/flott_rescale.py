"""Flott changes the parallelism of a running job that holds a million keys: to twice as many subtasks, and back.

The job has a backlog, so epochs of the same number of records follow each other without a pause. The gap of a change
is the longest time between the ends of two epochs, of the first three in the new parallelism; it is set against the
median of the epochs before the change, in the old parallelism.
"""

from __future__ import annotations

import statistics

import flott
from bench import state
from bench.runners import command, flott_totals

WARM_UP_EPOCHS = 8
EPOCHS_BETWEEN = 8
#: Epochs in which a change may still be felt: files of other subtasks are loaded, and compacted beside.
FELT_EPOCHS = 3


def measure(request: command.Request) -> dict[str, object]:
    session_seconds = flott_totals.check(request)
    few, many = request.cores, 2 * request.cores
    steps = [(few, many), (many, few)] * max(1, request.repeats - 1)
    needed = WARM_UP_EPOCHS + (len(steps) + 2) * EPOCHS_BETWEEN
    stream = state.Stream.of(request.workload, 2 * needed, request.cores, request.shrink)
    with flott_totals.watched(request) as log:
        job = flott_totals.submit(flott_totals.environment(request, stream.epoch_records), stream, request.workload)
        log.wait_for(stream.fill_epochs + WARM_UP_EPOCHS)
        for _, parallelism in steps:
            log.wait_for(len(log.epochs) + EPOCHS_BETWEEN)
            job.rescale(parallelism).result()
        log.wait_for(len(log.epochs) + EPOCHS_BETWEEN)
        job.cancel().result()
    gaps = [_gap(log, epoch, *step) for epoch, step in zip(log.rescaled, steps, strict=True)]
    return {
        "milliseconds": [gap["milliseconds"] for gap in gaps],
        "gaps": gaps,
        "keys": stream.keys,
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"{flott_totals.BACKENDS[request.variant]}, parallelism {few} and {many}, {stream.keys:,} keys,"
        f" longest {max(gap['epochs'] for gap in gaps):.1f} epochs",
        "versions": {"flott": getattr(flott, "__version__", "")},
    }


def _gap(log: flott_totals.EpochLog, first: int, before: int, after: int) -> dict[str, float]:
    """What the change that an epoch is the first after cost those who wait for results."""
    periods = log.periods()
    ordinary = statistics.median(periods[epoch] for epoch in range(first - EPOCHS_BETWEEN + FELT_EPOCHS, first))
    settled = statistics.median(
        periods[epoch] for epoch in range(first + FELT_EPOCHS, first + EPOCHS_BETWEEN) if epoch in periods
    )
    longest = max(periods[epoch] for epoch in range(first, first + FELT_EPOCHS))
    return {
        "from": before,
        "to": after,
        "milliseconds": round(longest * 1_000, 1),
        "before_milliseconds": round(ordinary * 1_000, 1),
        "after_milliseconds": round(settled * 1_000, 1),
        "epochs": round(longest / ordinary, 2),
    }


if __name__ == "__main__":
    command.main("flott", measure)
