"""Compaction decisions: sequences stay short, and keeping them short stays cheap."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.runtime.managed_state.files.compaction_policy import (
    FAN_IN,
    SMALLEST_TIER_BYTES,
    CompactionRules,
    Run,
    run_to_compact,
)
from flott.runtime.managed_state.files.file_sequence import StateFile

KB, MB = 1024, 1024 * 1024
RULES = CompactionRules()
NEVER_WHOLE = 10**12


def sequence_of(base: int, changes: list[int]) -> tuple[StateFile, ...]:
    files = [StateFile("base", base, True)] if base else []
    return (*files, *(StateFile(f"d{n}", size, False) for n, size in enumerate(changes)))


def decide(base: int, changes: list[int]) -> Run | None:
    return run_to_compact(sequence_of(base, changes), RULES)


def newest(count: int, changes: list[int]) -> Run:
    """The run of the newest files of a sequence with a base."""
    return Run(1 + len(changes) - count, 1 + len(changes))


class SizedSequence:
    """File sizes only. ``overlap`` says how much of what is merged is the same entries again.

    ``lag``: how many epochs go by before a compaction that was decided on is in the sequence.
    """

    def __init__(self, base: int = 0, overlap: float = 0.0, rewrites: bool = True, lag: int = 0):
        self.base, self.deltas, self.overlap, self.lag = base, list[int](), overlap, lag
        self.rules = CompactionRules() if rewrites else CompactionRules(rewrite_factor=NEVER_WHOLE)
        self.changed = self.written = self.largest = self.longest = self.rewrites = 0
        self.pending: tuple[Run, int] | None = None

    def add(self, size: int) -> None:
        self.changed += size
        self.written += size
        self.deltas.append(size)
        self.longest = max(self.longest, len(self.deltas))
        if (
            self.pending is None
            and (run := run_to_compact(sequence_of(self.base, self.deltas), self.rules)) is not None
        ):
            self.pending = run, self.lag
        if self.pending is not None:
            run, left = self.pending
            self.pending = (run, left - 1) if left else None
            if not left:
                self._compact(run)
        self.largest = max(self.largest, *self.deltas, 1)

    def _compact(self, run: Run) -> None:
        bases = 1 if self.base else 0
        compacted = self._compacted([file.size for file in sequence_of(self.base, self.deltas)[run.start : run.stop]])
        self.written += compacted
        if run.whole:
            self.rewrites += 1
            self.base, self.deltas = compacted, self.deltas[run.stop - bases :]
        else:
            self.deltas[run.start - bases : run.stop - bases] = [compacted]

    def _compacted(self, sizes: list[int]) -> int:
        return max(max(sizes), int(sum(sizes) * (1 - self.overlap)))

    @property
    def tiers(self) -> int:
        return 1 + max(0, math.ceil(math.log(max(self.largest, 1) / SMALLEST_TIER_BYTES, FAN_IN)))


def test_an_empty_sequence_is_left_alone():
    assert decide(0, []) is None
    assert decide(0, [100]) is None


def test_the_first_base_is_written_after_a_few_changes():
    assert decide(0, [100] * 7) is None
    assert decide(0, [100] * 8) == Run(0, 8)
    assert Run(0, 8).whole


def test_a_base_is_rewritten_when_changes_are_twice_its_size():
    assert decide(1000, [249] * 8) == newest(8, [249] * 8)
    assert decide(1000, [250] * 8) == Run(0, 9)
    assert decide(1000, [5000] * 7) is None


@pytest.mark.parametrize("size", [10, 10 * KB, 100 * KB, 10 * MB])
def test_eight_files_of_one_size_become_one_whatever_the_size(size):
    assert decide(10**12, [size] * 7) is None
    assert decide(10**12, [size] * 8) == Run(1, 9)
    assert not Run(1, 9).whole


def test_large_files_are_not_rewritten_for_a_few_small_ones():
    assert decide(10**12, [10 * MB, *[100] * 7]) is None
    assert decide(10**12, [10 * MB, *[100] * 8]) == Run(2, 10)


def test_a_merged_file_that_completes_a_run_above_is_merged_into_that_at_once():
    assert decide(10**12, [*[100 * KB] * 7, *[15 * KB] * 8]) == Run(1, 16)
    assert decide(10**12, [*[100 * KB] * 6, *[15 * KB] * 8]) == Run(7, 15)


def test_a_run_that_smaller_files_have_followed_meanwhile_is_still_found():
    assert decide(10**12, [*[10 * MB] * 8, 100, 100]) == Run(1, 9)


def test_files_of_other_subtasks_are_compacted_as_soon_as_possible():
    assert run_to_compact((StateFile("a", 10, True, groups=(0, 5)),), RULES) == Run(0, 1)
    pieces = (StateFile("a", 10, True, groups=(0, 5)), StateFile("b", 10, True, groups=(5, 9)), *sequence_of(0, [1]))
    assert run_to_compact(pieces, RULES) == Run(0, 3)


@settings(max_examples=40)
@given(
    st.integers(0, 10**9),
    st.sampled_from([(10, 10), (10, 100 * KB), (100 * KB, 100 * KB), (10, 20 * MB)]),
    st.sampled_from([0.0, 0.5, 0.95]),
    st.sampled_from([0, 10 * KB, 10**9]),
    st.booleans(),
    st.sampled_from([0, 1, 5]),
)
def test_over_thousands_of_epochs_sequences_stay_short_and_cheap(seed, sizes, overlap, base, rewrites, lag):
    random, sequence = Random(seed), SizedSequence(base, overlap, rewrites, lag)
    low, high = map(math.log, sizes)
    epochs = 1000
    for _ in range(epochs):
        sequence.add(int(math.exp(random.uniform(low, high))))
        assert len(sequence.deltas) <= (FAN_IN - 1) * sequence.tiers + 2 * lag
    # Every byte is rewritten a few times per tier, the bytes of the smallest tier a little more often.
    once_per_tier = sequence.changed * (sequence.tiers + 2) + SMALLEST_TIER_BYTES * epochs / (FAN_IN - 1)
    assert sequence.written - base <= 3 * once_per_tier


@pytest.mark.parametrize("size", [100, 20 * KB, 1 * MB])
def test_files_of_one_size_are_rewritten_once_per_tier(size):
    sequence = SizedSequence(rewrites=False)
    for _ in range(5000):
        sequence.add(size)
    assert sequence.longest <= (FAN_IN - 1) * sequence.tiers + 1
    assert sequence.written <= sequence.changed * (sequence.tiers + 2) + SMALLEST_TIER_BYTES * 5000 / (FAN_IN - 1)


def test_a_growing_state_is_rewritten_a_logarithmic_number_of_times():
    sequence = SizedSequence()
    for _ in range(5000):
        sequence.add(10 * KB)
    assert sequence.rewrites <= 10
    assert sequence.written <= sequence.changed * 7
