"""Windows as a model of a few lines: what Flink's documentation says, written down without any cleverness.

Everything is kept, nothing is folded, no timer exists. An epoch's records are taken one by one with the watermark of
the epoch before; then the watermark moves and whatever it passes fires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

END = 2**63 - 1
Record = tuple[str, int, int]  #: key, timestamp, value
Result = tuple[str, int, int, tuple[int, ...]]  #: key, start, end, values in the order they came


@dataclass(frozen=True)
class Tumbling:
    size: int
    offset: int = 0

    def windows(self, timestamp: int) -> list[tuple[int, int]]:
        return Sliding(self.size, self.size, self.offset).windows(timestamp)


@dataclass(frozen=True)
class Sliding:
    size: int
    slide: int
    offset: int = 0

    def windows(self, timestamp: int) -> list[tuple[int, int]]:
        starts = range(timestamp - self.size + 1, timestamp + 1)
        return [(start, start + self.size) for start in starts if (start - self.offset) % self.slide == 0]


@dataclass(frozen=True)
class Cumulative:
    largest: int
    step: int

    def windows(self, timestamp: int) -> list[tuple[int, int]]:
        start = timestamp // self.largest * self.largest
        ends = range(start + self.step, start + self.largest + 1, self.step)
        return [(start, end) for end in ends if timestamp < end]


@dataclass(frozen=True)
class Session:
    gap: int

    def windows(self, timestamp: int) -> list[tuple[int, int]]:
        return [(timestamp, timestamp + self.gap)]


Kind = Tumbling | Sliding | Cumulative | Session


@dataclass
class Model:
    kind: Kind
    lateness: int
    bound: int  #: how far the watermark stays behind the latest timestamp
    watermark: int = -(2**63)
    latest: int = -(2**62)
    open: dict[str, dict[tuple[int, int], list[int]]] = field(default_factory=dict)
    results: Counter[Result] = field(default_factory=Counter)
    late: list[Record] = field(default_factory=list)

    def epoch(self, records: Sequence[Record]) -> None:
        for record in records:
            self._take(*record)
            self.latest = max(self.latest, record[1])
        if records:
            self._advance(max(self.watermark, self.latest - self.bound - 1))

    def finish(self) -> None:
        self._advance(END)

    def _take(self, key: str, timestamp: int, value: int) -> None:
        held = self.open.setdefault(key, {})
        taken = refused = False
        for window in self.kind.windows(timestamp):
            if isinstance(self.kind, Session):
                window = self._merge(held, window)
            if self._is_over(window):
                held.pop(window, None)
                refused = True
                continue
            taken = True
            held.setdefault(window, []).append(value)
            if window[1] - 1 <= self.watermark:
                self._fire(key, window)
        if refused and not taken:
            self.late.append((key, timestamp, value))

    def _merge(self, held: dict[tuple[int, int], list[int]], new: tuple[int, int]) -> tuple[int, int]:
        met = [window for window in held if window[0] <= new[1] and new[0] <= window[1]]
        values = [value for window in met for value in held.pop(window)]
        merged = (min([new[0], *(w[0] for w in met)]), max([new[1], *(w[1] for w in met)]))
        held[merged] = values
        return merged

    def _is_over(self, window: tuple[int, int]) -> bool:
        return window[1] - 1 + self.lateness <= self.watermark

    def _advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        for key, held in self.open.items():
            for window in list(held):
                if before < window[1] - 1 <= watermark:
                    self._fire(key, window)
                if self._is_over(window):
                    del held[window]

    def _fire(self, key: str, window: tuple[int, int]) -> None:
        values = self.open[key][window]
        self.results[(key, *window, tuple(sorted(values)))] += 1
