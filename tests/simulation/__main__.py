"""Run seeds of the simulation from the command line."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable

from tests.simulation.job_takeover import run_job_takeover
from tests.simulation.object_takeover import run_object_takeover
from tests.simulation.pipelined import run_pipelined_variant
from tests.simulation.simulation import SeedFailed, digest, run_seed
from tests.simulation.takeover import run_takeover


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="seeds to run again, with everything that happens")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds to run")
    parser.add_argument("--takeovers", type=int, default=0, help="how many seeds of leaders that are deposed to run")
    parser.add_argument("--takeover", nargs="*", type=int, default=(), help="such seeds to run again")
    parser.add_argument("--job-takeovers", type=int, default=0, help="how many seeds of leaders and their jobs to run")
    parser.add_argument("--job-takeover", nargs="*", type=int, default=(), help="such seeds to run again")
    parser.add_argument("--object-takeovers", type=int, default=0, help="how many seeds of leaders in an object store")
    parser.add_argument("--object-takeover", nargs="*", type=int, default=(), help="such seeds to run again")
    parser.add_argument("--pipelined", type=int, default=0, help="how many seeds of pipelined jobs to run")
    parser.add_argument("--pipelined-seed", nargs="*", type=int, default=(), help="such seeds to run again")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    chosen = parser.parse_args()
    for seed in chosen.seed:
        simulation = run_seed(seed)
        print(*simulation.world.trace, sep="\n")
        print(f"seed {seed}: {simulation.lives} lives, as promised ({digest(simulation)})")
    for seed in chosen.takeover:
        takeover = run_takeover(seed)
        print(*takeover.trace, sep="\n")
        print(f"takeover {seed}: {len(takeover.leaders)} leaders, as promised")
    for seed in chosen.job_takeover:
        print(*run_job_takeover(seed).trace, sep="\n")
        print(f"job takeover {seed}: as promised")
    for seed in chosen.object_takeover:
        print(*run_object_takeover(seed).trace, sep="\n")
        print(f"object takeover {seed}: as promised")
    for seed in chosen.pipelined_seed:
        pipelined = run_pipelined_variant(seed)
        print(
            f"{pipelined}: {pipelined.lives} lives, {pipelined.given_up} checkpoints given up,"
            f" {pipelined.rescaled} times rescaled, {pipelined.mode_changes} changes of the mode, as promised"
        )
    logging.disable()  # of thousands of jobs that fail on purpose
    seeds = range(chosen.start, chosen.start + chosen.seeds)
    takeovers = range(chosen.start, chosen.start + chosen.takeovers)
    job_takeovers = range(chosen.start, chosen.start + chosen.job_takeovers)
    object_takeovers = range(chosen.start, chosen.start + chosen.object_takeovers)
    pipelined_seeds = range(chosen.start, chosen.start + chosen.pipelined)
    succeeded = [run_many(what, run, of) for what, run, of in (
        ("seeds", run_seed, seeds), ("takeovers", run_takeover, takeovers),
        ("job takeovers", run_job_takeover, job_takeovers),
        ("object takeovers", run_object_takeover, object_takeovers),
        ("seeds of pipelined jobs", run_pipelined_variant, pipelined_seeds),
    ) if of]  # fmt: skip
    return 0 if all(succeeded) else 1


def run_many(what: str, run: Callable[[int], object], seeds: range) -> bool:
    failed, started = [], time.monotonic()
    for seed in seeds:
        try:
            run(seed)
        except SeedFailed as failure:
            failed.append(seed)
            print(failure, flush=True)
            traceback.print_exception(failure.__cause__, limit=-4)
    print(f"{len(seeds)} {what} in {time.monotonic() - started:.0f} s, failed: {failed or 'none'}", flush=True)
    return not failed


if __name__ == "__main__":
    sys.exit(main())
