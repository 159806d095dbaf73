"""What sinks leave behind, and what follows from it. Standard library only: engines write it in their own processes.

A file is of one writer: subtask and digest, then a pair for each sampled result, the time it was due and its age; all
as integers of 64 bits, little-endian, in microseconds.
"""

from __future__ import annotations

import sys
import uuid
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench.latency.timetable import Digest, Timetable, now_us

SUFFIX = ".ages"
HEADER = 4
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
#: An engine keeps a rate if the ages at the end are no more than this above those at the beginning.
GROWTH_US = 500_000
MILLISECOND_US = 1_000


@dataclass
class Taker:
    """Takes the ages of results where they leave the job; of one writer."""

    subtask: int
    every: int
    results: int = 0
    counts: int = 0
    keyed: int = 0
    pairs: array[int] = field(default_factory=lambda: array("q"))

    def take(self, values: Iterable[Sequence[int]]) -> None:
        """Take a batch of ``(key, count, due)``."""
        for key, count, due in values:
            self.results += 1
            self.counts += count
            self.keyed += key * count
            if self.results % self.every == 0 and due:
                self.pairs.append(due)
                self.pairs.append(now_us() - due)

    def write(self, folder: str) -> None:
        """Leave a file, if anything came."""
        if self.results:
            whole = array("q", [self.subtask, self.results, self.counts, self.keyed]) + self.pairs
            if sys.byteorder == "big":
                whole.byteswap()
            path = Path(folder, f"{uuid.uuid4().hex}{SUFFIX}")
            path.write_bytes(whole.tobytes())


@dataclass(frozen=True)
class Sample:
    """A result whose age was taken."""

    due_us: int
    age_us: int

    @property
    def came_us(self) -> int:
        """Return when it came out."""
        return self.due_us + self.age_us


@dataclass(frozen=True)
class Part:
    """What one writer left."""

    subtask: int
    digest: Digest
    samples: list[Sample]


def read(folder: Path) -> Iterator[Part]:
    """Yield what all writers left."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        found = array("q")
        found.frombytes(path.read_bytes())
        if sys.byteorder == "big":
            found.byteswap()
        subtask, *digest = found[:HEADER]
        pairs = zip(found[HEADER::2], found[HEADER + 1 :: 2], strict=True)
        yield Part(subtask, Digest(*digest), [Sample(*pair) for pair in pairs])


def judge(table: Timetable, parts: Iterable[Part], warm_up_s: float) -> dict[str, object]:
    """Return the numbers of a run, or why there are none."""
    parts = list(parts)
    digest = sum((part.digest for part in parts), Digest())
    missing = table.records - digest.results
    if missing > 0:
        return {"missing": f"does not keep {table.rate:,} records a second: {missing:,} of {table.records:,} left"}
    if digest != table.expected():
        return {"missing": "results differ from the reference"}
    return _numbers(table, counted(parts, warm_up_s))


def _numbers(table: Timetable, by_subtask: dict[int, list[Sample]]) -> dict[str, object]:
    samples = sorted((each for part in by_subtask.values() for each in part), key=lambda sample: sample.due_us)
    ages = sorted(sample.age_us for sample in samples)
    if not ages:
        return {"missing": "no result was sampled"}
    if (grown := growth_us(samples)) > GROWTH_US:
        return {"missing": f"does not keep {table.rate:,} records a second: ages grow by {grown / 1e6:.1f} s"}
    if grown < -GROWTH_US:
        return {"missing": f"was still catching up after the warm-up: ages fall by {-grown / 1e6:.1f} s"}
    numbers: dict[str, object] = {name: _ms(percentile(ages, share)) for name, share in PERCENTILES.items()}
    gap = max(longest_gap_us(sample.came_us for sample in part) for part in by_subtask.values())
    return {**numbers, "max": _ms(ages[-1]), "longest_gap": _ms(gap), "samples": len(ages)}


def counted(parts: Iterable[Part], warm_up_s: float) -> dict[int, list[Sample]]:
    """Return the samples after the warm-up, by subtask."""
    parts = list(parts)
    begin = min((sample.due_us for part in parts for sample in part.samples), default=0) + int(warm_up_s * 1e6)
    found: dict[int, list[Sample]] = defaultdict(list)
    for part in parts:
        found[part.subtask] += [sample for sample in part.samples if sample.due_us >= begin]
    return {subtask: samples for subtask, samples in found.items() if samples}


def percentile(ordered: Sequence[int], share: float) -> int:
    """Return the smallest value that so large a share of all does not exceed."""
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def growth_us(samples: Sequence[Sample]) -> int:
    """Return by how much the median age of the last quarter exceeds that of the first; samples as they were due."""
    quarter = max(1, len(samples) // 4)
    first, last = (sorted(each.age_us for each in part) for part in (samples[:quarter], samples[-quarter:]))
    return percentile(last, 0.5) - percentile(first, 0.5)


def longest_gap_us(came: Iterable[int]) -> int:
    """Return the longest time without a result between two of them."""
    return max((later - earlier for earlier, later in pairwise(sorted(came))), default=0)


def rate(table: Timetable, parts: Iterable[Part], warm_up_s: float) -> float:
    """Return how many results a second came out of a run with a backlog, after the warm-up."""
    came = sorted(sample.came_us for part in parts for sample in part.samples)
    came = [at for at in came if at >= came[0] + int(warm_up_s * 1e6)]
    return (len(came) - 1) * table.every * 1e6 / (came[-1] - came[0]) if len(came) > 1 else 0.0


def _ms(microseconds: int) -> float:
    return round(microseconds / MILLISECOND_US, 2)
