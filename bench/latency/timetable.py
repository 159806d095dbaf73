"""When each record is due, and what must have come out in the end. Shared by all engines: standard library only.

Records are numbered. Those of the fill touch every key once, as fast as the engine takes them, and have no due time.
The others are due at equal distances, whether or not the engine is ready for them: the age of a record is counted from
the time at which it was due, so an engine that reads late is late. Each record counts up the value state of its key
and comes out as ``(key, count, due)``.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

#: Ranges that sources read side by side, and the parallelism of all engines.
SPLITS = 2
#: Keys come in an order in which neighbours are far apart. It shares no factor with the numbers of keys.
STRIDE = 7919
#: Records of the first seconds are not counted: engines start workers, compile code and find their sizes.
WARM_UP_S = 5.0
#: A source gives up so long after its last record was due: the engine does not keep the rate.
GRACE_S = 5.0
#: At high rates the age of every tenth record is taken.
DENSE_RATE = 10_000


@dataclass(frozen=True)
class Digest:
    """What the results of a run have in common, in whatever order they came."""

    results: int = 0
    counts: int = 0  #: all counts that came out, added up
    keyed: int = 0  #: the same, each times its key

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.results + other.results, self.counts + other.counts, self.keyed + other.keyed)


@dataclass(frozen=True)
class Timetable:
    """The input of one run."""

    rate: int  #: records a second
    seconds: float  #: of measurement, after the warm-up
    keys: int
    fill: int  #: records before the paced ones: none, or one for each key
    folder: str  #: where sinks leave their samples
    settle_s: float = 1.0  #: between fill and paced records: the fill leaves the buffers, slow workers start

    @property
    def records(self) -> int:
        """Return the number of all records, which the splits share equally."""
        return self.fill + int(self.rate * (WARM_UP_S + self.seconds)) // SPLITS * SPLITS

    @property
    def every(self) -> int:
        """Return of how many results one is sampled."""
        return 10 if self.rate > DENSE_RATE else 1

    @property
    def longest_s(self) -> float:
        """Return after what time the source ends, counted from the first paced record."""
        return WARM_UP_S + self.seconds + GRACE_S

    def key(self, number: int) -> int:
        """Return the key of a record."""
        return number * STRIDE % self.keys

    def due_us(self, number: int, began_us: int) -> int:
        """Return when a record is due; 0 for one of the fill."""
        return 0 if number < self.fill else began_us + (number - self.fill) * 1_000_000 // self.rate

    def due_by(self, now_us: int, began_us: int) -> int:
        """Return how many records are due, those of the fill included."""
        return min(self.records, self.fill + max(0, (now_us - began_us) * self.rate // 1_000_000 + 1))

    def expected(self) -> Digest:
        """Return the digest of the right results: a key that comes n times counts from 1 to n."""
        rounds, rest = divmod(self.records, self.keys)
        counts = self.keys * rounds * (rounds + 1) // 2 + rest * (rounds + 1)
        keyed = self.keys * (self.keys - 1) // 2 * rounds * (rounds + 1) // 2
        keyed += (rounds + 1) * sum(self.key(number) for number in range(rest))
        return Digest(self.records, counts, keyed)

    def as_json(self) -> str:
        """Return it as an argument of a command."""
        return json.dumps(asdict(self))


def now_us() -> int:
    """Return the time of the clock that all processes of a machine share."""
    return time.time_ns() // 1_000


def arguments() -> tuple[Timetable, str]:
    """Return what a runner is to do: the timetable, and the variant of the engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--timetable", required=True, type=lambda text: Timetable(**json.loads(text)))
    parser.add_argument("--variant", default="")
    given = parser.parse_args()
    return given.timetable, given.variant
