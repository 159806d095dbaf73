"""Decides whether the snapshot of a table already contains a change that the log has. Pure.

The snapshot is read in chunks, ranges of keys, each in a transaction of its own, which sees a certain set of other
transactions: PostgreSQL says which, as ``xmin:xmax:xip_list``. A change is in the log as well as in the rows of its
chunk exactly if its transaction is one of those. Positions in the log cannot tell: a transaction becomes visible a
moment after its commit was logged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from flott.datastream.connectors.base import Json
from flott.datastream.connectors.cdc import ChangeRecord


class Seeing(Protocol):
    """What the rows of a chunk contain."""

    def sees(self, transaction: int) -> bool:
        """Return whether the rows show what a transaction did."""


@dataclass(frozen=True)
class Visibility:
    """Which transactions a snapshot sees."""

    xmin: int  #: all before it are over
    xmax: int  #: none from it on are
    running: frozenset[int]  #: transactions between that were running

    @staticmethod
    def parse(text: str) -> Visibility:
        """Read the output of ``pg_current_snapshot()``.

        >>> Visibility.parse("10:14:10,12")
        Visibility(xmin=10, xmax=14, running=frozenset({10, 12}))
        """
        xmin, xmax, running = text.split(":")
        return Visibility(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, transaction: int) -> bool:
        """Return whether a committed transaction is visible. The log has the lower 32 bits of its number only.

        >>> Visibility.parse("4294967295:4294967298:4294967296").sees(0)  # 2**32, which was running
        False
        >>> Visibility.parse("4294967295:4294967298:4294967296").sees(1), Visibility.parse("5:5:").sees(4294967290)
        (True, True)
        """
        distance = (transaction - self.xmax) & 0xFFFFFFFF
        if distance < 0x80000000:
            return False
        number = self.xmax + distance - 0x100000000
        return number < self.xmin or number not in self.running


@dataclass(frozen=True)
class Chunk:
    """A range of keys that was read, and what its rows contain."""

    low: int | None  #: the first key; None: there is none below
    high: int | None  #: the first key of the next chunk; None: there is none
    snapshot: str
    horizon: int  #: the log beyond this position has no transaction that the snapshot sees

    def to_json(self) -> Json:
        return [self.low, self.high, self.snapshot, self.horizon]


def merged(chunks: list[Chunk], added: Chunk) -> list[Chunk]:
    """Append a chunk. Neighbours that saw the same are one, so a table that rests has few.

    >>> [chunk.to_json() for chunk in merged([Chunk(None, 5, "9:9:", 70)], Chunk(5, 9, "9:9:", 80))]
    [[None, 9, '9:9:', 80]]
    """
    if chunks and chunks[-1].high == added.low and chunks[-1].snapshot == added.snapshot:
        last = chunks[-1]
        return [*chunks[:-1], Chunk(last.low, added.high, last.snapshot, max(last.horizon, added.horizon))]
    return [*chunks, added]


@dataclass
class ReadRows:
    """What the snapshot of a table contains, for the reader of the log."""

    key: str | None  #: the column by which the table was cut; None: it was read in one piece
    lows: list[int]  #: where chunks begin, without the first
    chunks: list[Seeing]
    _answers: dict[tuple[int, int], bool] = field(default_factory=dict)

    @staticmethod
    def of(told: Json, parse: Callable[[str], Seeing]) -> ReadRows:
        """Read what :meth:`TableChunks.for_log` tells about a table."""
        chunks = [Chunk(*chunk) for chunk in told["chunks"]]
        lows = [chunk.low for chunk in chunks if chunk.low is not None]
        return ReadRows(told["key"], lows, [parse(chunk.snapshot) for chunk in chunks])

    def contain(self, key: int | None, transaction: int) -> bool:
        """Return whether the rows show what a transaction did to the row with this key."""
        index = 0 if key is None else bisect_right(self.lows, key)
        asked = (index, transaction)
        if (answer := self._answers.get(asked)) is None:
            answer = self._answers[asked] = self.chunks[index].sees(transaction)
        return answer

    def agree(self, transaction: int) -> bool | None:
        """Return the same for all rows, None if the chunks differ."""
        answers = {chunk.sees(transaction) for chunk in self.chunks}
        return answers.pop() if len(answers) == 1 else None


def left_over(
    change: ChangeRecord, rows: ReadRows | None, key_index: int, transaction: int, moves: bool
) -> Iterator[ChangeRecord]:
    """Yield what the rows of the snapshot do not show of a change.

    An update that moves a row from one chunk to another may be half known. ``moves``: an update of a key is a delete
    and an insert, because the log has the key of the old row only.
    """
    op = change.op
    if rows is None:
        known_old = known_new = False
    else:
        old, new = change.before or change.after, change.after or change.before
        assert old is not None
        assert new is not None
        cut = rows.key is not None
        known_old = rows.contain(old[key_index] if cut else None, transaction)
        known_new = rows.contain(new[key_index] if cut else None, transaction)
    if known_old and known_new:
        return
    divided = moves and change.before is not None and not change.before_is_whole
    if op == "u" and (divided or known_old or known_new):
        if not known_old:
            yield change._replace(op="d", after=None)
        if not known_new:
            yield change._replace(op="c", before=None, before_is_whole=False)
    else:
        yield change
