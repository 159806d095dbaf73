"""Workloads of large keyed state: the user's side, shared by all engines, and the results they must reach.

Standard library only. A record is ``(key, value)``, and the work is a running sum per key in a value state. First every
key gets a record (the fill); then epoch after epoch a window of the keys is touched, spread over all of them, several
times each. Only epochs after the fill are measured.

    state_10k, state_1m, state_5m    throughput with so many keys held
    checkpoint                       what a subtask with a million keys writes when some of them have changed
    restore_1m, restore_5m           from a savepoint to the end of the first epoch
    rescale                          a million keys, parallelism doubled and halved under load

An epoch has as many records whatever the number of keys. One in a hundred keys is touched, but no fewer than 10,000,
so that a small state does not gain by having next to nothing to save: with 10,000 keys all are touched in every epoch,
with a million just as many, and with five million five times as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.workloads import Record, digest

KEYS = {
    "state_10k": 10_000,
    "state_1m": 1_000_000,
    "state_5m": 5_000_000,
    "checkpoint": 1_000_000,
    "restore_1m": 1_000_000,
    "restore_5m": 5_000_000,
    "rescale": 1_000_000,
}
WORKLOADS = tuple(KEYS)
THROUGHPUT = ("state_10k", "state_1m", "state_5m")
RESTORES = ("restore_1m", "restore_5m")

EPOCH_RECORDS = 500_000
TOUCHED_ONE_IN = 100
LEAST_TOUCHED = 10_000
#: Neighbours in a window are not neighbours in order: a prime, so it shares no factor with a number of keys in use.
SPREAD = 7919
#: The managed memory of the RocksDB backends, Flott's and Flink's alike.
MANAGED_MEMORY = "512m"


@dataclass(frozen=True)
class Stream:
    """How the numbers from 0 to ``records`` become records. They are read in ``ranges``, side by side."""

    keys: int
    touched: int  #: distinct keys of an epoch
    epoch_records: int
    fill: int  #: records of the fill
    epochs: int  #: after the fill
    ranges: int

    @staticmethod
    def of(workload: str, epochs: int, ranges: int, shrink: int = 1, *, in_epochs: bool = True) -> Stream:
        """The stream of a workload, so many times smaller. ``in_epochs``: the fill is made of whole epochs, too."""
        keys = _whole(KEYS[workload] // shrink, ranges)
        touched = min(keys, _whole(max(KEYS[workload] // TOUCHED_ONE_IN, LEAST_TOUCHED) // shrink, ranges))
        epoch_records = touched * max(1, round(EPOCH_RECORDS / shrink / touched))
        return Stream(keys, touched, epoch_records, _whole(keys, epoch_records) if in_epochs else keys, epochs, ranges)

    @property
    def records(self) -> int:
        """All of them."""
        return self.fill + self.epochs * self.epoch_records

    @property
    def fill_epochs(self) -> int:
        """How many epochs the fill takes, if it is made of whole ones."""
        return self.fill // self.epoch_records

    def maker(self) -> Callable[[int], Record]:
        """Number -> record. A function made here, so that it costs one call and no attribute."""
        span, fill = self.records // self.ranges, self.fill // self.ranges
        keys, touched, epoch_records, ranges = self.keys, self.touched, self.epoch_records, self.ranges

        def record(i: int) -> Record:
            part, at = divmod(i, span)
            if at < fill:
                place = at * ranges + part
            else:
                n = (at - fill) * ranges + part
                place = n // epoch_records * touched + n % touched
            return place * SPREAD % keys, i & 1023

        return record

    def numbers(self, part: int, start: int, stop: int) -> range:
        """Of one range, its share of the records from ``start`` up to ``stop``, in the order of all ranges together."""
        first = self.records // self.ranges * part
        return range(first + start // self.ranges, first + stop // self.ranges)


def check_stream(ranges: int) -> Stream:
    """The few records that an engine is checked with."""
    return Stream.of("state_10k", epochs=2, ranges=ranges, shrink=1_000)


def expected(stream: Stream) -> object:
    """The digest of the right results."""
    return digest("keyed_sum", _running(stream))


def _running(stream: Stream) -> Iterator[Record]:
    make = stream.maker()
    totals: dict[int, int] = {}
    for i in range(stream.records):
        key, value = make(i)
        totals[key] = totals.get(key, 0) + value
        yield key, totals[key]


def _whole(number: int, unit: int) -> int:
    """A number, rounded up to a multiple."""
    return max(1, -(-number // unit)) * unit
