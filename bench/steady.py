"""Steady-state rates by the difference of two sizes.

A job of n records takes `start + n / rate` seconds. Running it with n and with 5 n records and dividing the extra
records by the extra seconds leaves the rate alone: job submission, worker start and shutdown cancel out. The first
pair warms the engine up and sizes the next ones; it is never counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from bench.workloads import KEYS

GROWTH = 5
MAX_CALIBRATIONS = 4

Run = Callable[[int], tuple[int, float]]  # records asked for -> (records really processed, wall seconds)


@dataclass(frozen=True)
class Pair:
    """One small and one large run of the same job."""

    small_records: int
    small_seconds: float
    large_records: int
    large_seconds: float

    @property
    def rate(self) -> float:
        """Records per second; zero or less when noise swallowed the difference."""
        extra_seconds = self.large_seconds - self.small_seconds
        return (self.large_records - self.small_records) / extra_seconds if extra_seconds else 0.0

    @property
    def fixed_seconds(self) -> float:
        """What the job costs before and after its records: submission, worker start, shutdown."""
        return max(0.0, self.small_seconds - self.small_records / self.rate)

    @property
    def extra_seconds(self) -> float:
        return self.large_seconds - self.small_seconds


def measure(run: Run, records: int, target_seconds: float, repeats: int, floor: int = KEYS) -> list[Pair]:
    """`repeats` counted pairs, sized so that the difference of each lasts about `target_seconds` (0: keep `records`).

    A counted small run has at least `floor` records, by default one per key: the first touch of a key, which some
    engines pay dearly for, then happens in both runs and cancels out too.
    """
    small = records
    for _ in range(MAX_CALIBRATIONS):
        trial = _pair(run, small)
        if trial.rate > 0 and (not target_seconds or trial.extra_seconds > target_seconds / 10):
            break
        small *= GROWTH
    else:
        raise RuntimeError(f"no steady rate: {trial.large_records} records took no longer than {trial.small_records}")
    if target_seconds:
        small = max(floor, int(trial.rate * target_seconds / (GROWTH - 1)))
    pairs = [_pair(run, small) for _ in range(repeats)]
    # Leaving out only the pairs that noise made too slow would raise the median: all count, or there is no result.
    lost = sum(pair.rate <= 0 for pair in pairs)
    if lost:
        raise RuntimeError(
            f"no steady rate: noise exceeded the difference in {lost} of {repeats} pairs of {small} records"
        )
    return pairs


def _pair(run: Run, small: int) -> Pair:
    return Pair(*run(small), *run(small * GROWTH))


def summary(pairs: list[Pair]) -> dict[str, object]:
    """The fields every throughput runner reports."""
    return {
        "rates": [round(pair.rate, 1) for pair in pairs],
        "job_start_seconds": round(statistics.median(pair.fixed_seconds for pair in pairs), 3),
        "records": [pairs[0].small_records, pairs[0].large_records],
        "walls": [[round(pair.small_seconds, 3), round(pair.large_seconds, 3)] for pair in pairs],
    }
