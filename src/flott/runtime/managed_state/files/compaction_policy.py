"""When to compact state files: a pure decision over the sizes of the files of a sequence.

A subtask's state is a sequence of files: a base, then the changes of one epoch after the other. Compaction keeps the
sequence short, so that a restore reads few files, while every entry is rewritten only a logarithmic number of times.
Small changes are merged in tiers; when the changes outgrow the base, a new base is written. So the cost follows what
changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flott.runtime.managed_state.files.file_sequence import FileSequence

#: That many files of one tier are merged into one.
FAN_IN = 8
#: The smallest tier's size; below it, all files count as equally small.
SMALLEST_TIER_BYTES = 16 * 1024
#: A base is rewritten only when the changes are this many times its size ...
REWRITE_FACTOR = 2
#: ... and come from at least this many epochs.
REWRITE_MIN_DELTAS = 8
#: A sequence longer than this holds the next epoch up until the compaction at work is done.
LONGEST_SEQUENCE = 64


@dataclass(frozen=True)
class CompactionRules:
    """When files are compacted, and how many at once."""

    fan_in: int = FAN_IN
    smallest_tier_bytes: int = SMALLEST_TIER_BYTES
    rewrite_factor: int = REWRITE_FACTOR
    rewrite_min_deltas: int = REWRITE_MIN_DELTAS
    longest_sequence: int = LONGEST_SEQUENCE
    max_orders: int = 64  #: sequences compacted by one job
    max_bytes: int = 256 << 20  #: read by one job, unless a single sequence needs more


@dataclass(frozen=True)
class Run:
    """Neighbouring files of a sequence, from and up to, that should become one."""

    start: int
    stop: int

    @property
    def whole(self) -> bool:
        """Return whether it begins where the sequence does: nothing can be left of what it says is gone."""
        return self.start == 0


def run_to_compact(sequence: FileSequence, rules: CompactionRules) -> Run | None:
    """Return which files of a sequence should become one now, if any."""
    bases = sum(file.is_base for file in sequence)
    if any(file.groups is not None for file in sequence) or bases > 1:
        # Files of other subtasks, after a change of parallelism: they cannot be deleted while any of their new owners
        # still refers to them, and each reads only a part. So each owner gets its own as soon as possible.
        return Run(0, len(sequence))
    base_bytes = sum(file.size for file in sequence[:bases])
    changes = [file.size for file in sequence[bases:]]
    if len(changes) >= rules.rewrite_min_deltas and sum(changes) >= rules.rewrite_factor * max(base_bytes, 1):
        return Run(0, len(sequence))
    merge = _run_to_merge(changes, rules)
    return None if merge is None else Run(bases + merge.start, bases + merge.stop)


def _run_to_merge(sizes: Sequence[int], rules: CompactionRules) -> Run | None:
    """Files of one tier, or of lower ones, that are as many as the fan-in.

    A merged file may complete a run in the tier above, and is then merged into that at once. So, where every decision
    is carried out at once, no file is preceded by more than ``fan_in - 2`` files of its own tier or lower ones, and a
    sequence is at most ``(fan_in - 1) * tiers`` long. A compaction comes later than it is due, when smaller files have
    followed the run: so it is looked for everywhere, from the newest file back.
    """
    tiers = [_tier(size, rules) for size in sizes]
    for stop in range(len(sizes), rules.fan_in - 1, -1):
        start, tier, size = stop - 1, tiers[stop - 1], sizes[stop - 1]
        while True:
            first, total = start, size
            while first > 0 and tiers[first - 1] <= tier:
                first -= 1
                total += sizes[first]
            if start - first + 1 < rules.fan_in:
                break
            start, size, tier = first, total, _tier(total, rules)
        if start < stop - 1:
            return Run(start, stop)
    return None


def _tier(size: int, rules: CompactionRules) -> int:
    tier = 0
    while size > rules.smallest_tier_bytes:
        size //= rules.fan_in
        tier += 1
    return tier
