"""Run seeds of the simulation from the command line."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.simulation.simulation import SeedFailed, digest, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="seeds to run again, with everything that happens")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    chosen = parser.parse_args()
    for seed in chosen.seed:
        simulation = run_seed(seed)
        print(*simulation.world.trace, sep="\n")
        print(f"seed {seed}: {simulation.lives} lives, as promised ({digest(simulation)})")
    failed, started = [], time.monotonic()
    for seed in range(chosen.start, chosen.start + chosen.seeds):
        try:
            run_seed(seed)
        except SeedFailed as failure:
            failed.append(seed)
            print(failure, flush=True)
            traceback.print_exception(failure.__cause__, limit=-4)
    if chosen.seeds:
        print(f"{chosen.seeds} seeds in {time.monotonic() - started:.0f} s, failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
