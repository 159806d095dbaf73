"""Flott with much keyed state: records a second once the state is filled, and the bytes that a checkpoint adds.

The rate is that of stretches of epochs inside one job, from the end of one epoch to the end of another: planning, Spark
job, checkpoint, commit and whatever compaction beside them costs are in it, the fill and the start of the job are not.
"""

from __future__ import annotations

import time

import flott
from bench import state
from bench.runners import command, flott_totals

WARM_UP_EPOCHS = 6  # until every worker process has seen every part of the state
STRETCH_EPOCHS = 8


def measure(request: command.Request) -> dict[str, object]:
    session_seconds = flott_totals.check(request)
    warm_up = WARM_UP_EPOCHS
    stream = state.Stream.of(
        request.workload, warm_up + request.repeats * STRETCH_EPOCHS + 1, request.cores, request.shrink
    )
    with flott_totals.watched(request) as log:
        submitted = time.perf_counter()
        job = flott_totals.submit(flott_totals.environment(request, stream.epoch_records), stream, request.workload)
        job.get_job_execution_result().result()
    steady = flott_totals.behind(log.epochs, stream.fill + warm_up * stream.epoch_records)
    filled = flott_totals.behind(log.epochs, stream.fill)[0]
    how = "pipelined, " if request.variant == "pipelined" else ""
    return {
        "rates": flott_totals.stretch_rates(steady, request.repeats),
        "epoch_milliseconds": [round(log.periods()[epoch.number] * 1_000, 1) for epoch in steady[1:]],
        "keys": stream.keys,
        "touched": stream.touched,
        "records": [stream.epoch_records],
        "full_bytes": filled.state_bytes,
        "written_bytes": flott_totals.median_written(steady[1:]),
        "fill_seconds": round(filled.ended - submitted, 1),
        "job_start_seconds": 0.0,
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"{how}{flott_totals.BACKENDS[request.variant]}, {stream.touched:,} keys in"
        f" {stream.epoch_records:,} records, parallelism {request.cores}",
        "versions": {"flott": getattr(flott, "__version__", "")},
    }


if __name__ == "__main__":
    command.main("flott", measure)
