"""Folding decisions: chains stay short, and keeping them short stays cheap."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.runtime.state.compaction import FAN_IN, SMALLEST_TIER_BYTES, Fold, FoldDecision, decide_fold

KB, MB = 1024, 1024 * 1024


class Chain:
    """File sizes only. ``overlap`` says how much of what is merged is the same entries again."""

    def __init__(self, base: int = 0, overlap: float = 0.0, rewrites: bool = True):
        self.base, self.deltas, self.overlap, self.rewrites = base, list[int](), overlap, rewrites
        self.changed = self.written = self.largest = 0
        self.longest = 0

    def add(self, size: int) -> FoldDecision:
        self.changed += size
        deltas = [*self.deltas, size]
        decision = decide_fold(self.base if self.rewrites else 10**18, deltas)
        if decision.fold is Fold.REWRITE:
            self.base, self.deltas = self._folded([self.base, *deltas]), []
            self.written += self.base
        elif decision.fold is Fold.MERGE:
            assert 2 <= decision.newest <= len(deltas)
            merged = self._folded(deltas[-decision.newest :])
            self.deltas = [*deltas[: -decision.newest], merged]
            self.written += merged
        else:
            self.deltas = deltas
            self.written += size
        self.longest = max(self.longest, len(self.deltas))
        self.largest = max(self.largest, *self.deltas, 1)
        return decision

    def _folded(self, sizes: list[int]) -> int:
        return max(max(sizes), int(sum(sizes) * (1 - self.overlap)))

    @property
    def tiers(self) -> int:
        return 1 + max(0, math.ceil(math.log(max(self.largest, 1) / SMALLEST_TIER_BYTES, FAN_IN)))


def test_an_empty_chain_is_left_alone():
    assert decide_fold(0, []) == FoldDecision(Fold.NOTHING)
    assert decide_fold(0, [100]) == FoldDecision(Fold.NOTHING)


def test_the_first_base_is_written_after_a_few_changes():
    assert decide_fold(0, [100] * 3) == FoldDecision(Fold.NOTHING)
    assert decide_fold(0, [100] * 4) == FoldDecision(Fold.REWRITE)


def test_a_base_is_rewritten_when_changes_are_twice_its_size():
    assert decide_fold(1000, [499] * 4).fold is not Fold.REWRITE
    assert decide_fold(1000, [500] * 4).fold is Fold.REWRITE
    assert decide_fold(1000, [5000] * 3).fold is not Fold.REWRITE


@pytest.mark.parametrize("size", [10, 10 * KB, 100 * KB, 10 * MB])
def test_eight_files_of_one_size_become_one_whatever_the_size(size):
    assert decide_fold(10**12, [size] * 7) == FoldDecision(Fold.NOTHING)
    assert decide_fold(10**12, [size] * 8) == FoldDecision(Fold.MERGE, 8)


def test_large_files_are_not_rewritten_for_a_few_small_ones():
    assert decide_fold(10**12, [10 * MB, *[100] * 7]) == FoldDecision(Fold.NOTHING)
    assert decide_fold(10**12, [10 * MB, *[100] * 8]) == FoldDecision(Fold.MERGE, 8)


def test_a_merged_file_that_completes_a_run_above_is_merged_into_that_at_once():
    assert decide_fold(10**12, [*[100 * KB] * 7, *[15 * KB] * 8]) == FoldDecision(Fold.MERGE, 15)
    assert decide_fold(10**12, [*[100 * KB] * 6, *[15 * KB] * 8]) == FoldDecision(Fold.MERGE, 8)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**9),
    st.sampled_from([(10, 10), (10, 100 * KB), (100 * KB, 100 * KB), (10, 20 * MB)]),
    st.sampled_from([0.0, 0.5, 0.95]),
    st.sampled_from([0, 10 * KB, 10**9]),
    st.booleans(),
)
def test_over_thousands_of_epochs_chains_stay_short_and_cheap(seed, sizes, overlap, base, rewrites):
    random, chain = Random(seed), Chain(base, overlap, rewrites)
    low, high = map(math.log, sizes)
    epochs = 2000
    for _ in range(epochs):
        chain.add(int(math.exp(random.uniform(low, high))))
        assert len(chain.deltas) <= (FAN_IN - 1) * chain.tiers
    # Every byte is rewritten a few times per tier, the bytes of the smallest tier a little more often.
    once_per_tier = chain.changed * (chain.tiers + 1) + SMALLEST_TIER_BYTES * epochs / (FAN_IN - 1)
    assert chain.written - base <= 3 * once_per_tier


@pytest.mark.parametrize("size", [100, 20 * KB, 1 * MB])
def test_files_of_one_size_are_rewritten_once_per_tier(size):
    chain = Chain(rewrites=False)
    for _ in range(5000):
        chain.add(size)
    assert chain.longest <= (FAN_IN - 1) * chain.tiers
    assert chain.written <= chain.changed * (chain.tiers + 1) + SMALLEST_TIER_BYTES * 5000 / (FAN_IN - 1)


def test_a_growing_state_is_rewritten_a_logarithmic_number_of_times():
    chain, bases = Chain(), 0
    for _ in range(5000):
        bases += chain.add(10 * KB).fold is Fold.REWRITE
    assert bases <= 10
    assert chain.written <= chain.changed * 6
