"""When to fold state files together: a pure decision over their sizes.

A subtask's state is a chain of files: a base, then changes. Folding keeps the chain short, so that a restore reads few
files, while every entry is rewritten only a logarithmic number of times. Small changes are merged in tiers; when the
changes outgrow the base, a new base is written. The cost is proportional to what changed, spread over epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

#: That many files of one tier are merged into one.
FAN_IN = 8
#: The smallest tier's size; below it, all files count as equally small.
SMALLEST_TIER_BYTES = 16 * 1024
#: A base is rewritten only when the changes are this many times its size ...
REWRITE_FACTOR = 2
#: ... and come from at least this many epochs.
REWRITE_MIN_DELTAS = 4


class Fold(Enum):
    """What to do with the chain."""

    NOTHING = "nothing"
    MERGE = "merge"  #: merge the newest changes into one file
    REWRITE = "rewrite"  #: replace the whole chain by a new base


@dataclass(frozen=True)
class FoldDecision:
    """The fold, and for MERGE how many of the newest files it takes."""

    fold: Fold
    newest: int = 0


def decide_fold(base_bytes: int, delta_bytes: Sequence[int]) -> FoldDecision:
    """What to do, given the size of the base (0: none) and of each delta, oldest first, the new one included."""
    if len(delta_bytes) >= REWRITE_MIN_DELTAS and sum(delta_bytes) >= REWRITE_FACTOR * max(base_bytes, 1):
        return FoldDecision(Fold.REWRITE)
    newest = _run_to_merge(delta_bytes)
    return FoldDecision(Fold.MERGE, newest) if newest > 1 else FoldDecision(Fold.NOTHING)


def _run_to_merge(sizes: Sequence[int]) -> int:
    """How many of the newest files become one; 1 if none do.

    A merged file may complete a run in the tier above, and is then merged into that at once. So no file is preceded by
    more than ``FAN_IN - 2`` files of its own tier or lower ones, and a chain is at most ``(FAN_IN - 1) * tiers`` long.
    """
    newest, size = 1, sizes[-1] if sizes else 0
    while True:
        run, total = newest, size
        while run < len(sizes) and _tier(sizes[-run - 1]) <= _tier(size):
            run += 1
            total += sizes[-run]
        if run - newest + 1 < FAN_IN:
            return newest
        newest, size = run, total


def _tier(size: int) -> int:
    tier = 0
    while size > SMALLEST_TIER_BYTES:
        size //= FAN_IN
        tier += 1
    return tier
