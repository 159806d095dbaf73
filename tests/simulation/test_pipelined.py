"""Pipelined jobs give the output of the model, in whichever order their tasks work and whenever they crash."""

from __future__ import annotations

from collections import Counter

import pytest

from flott.runtime.managed_state.files.channel_file import QueueEnd
from tests.simulation.pipelined import Shape, run_pipelined_seed


def test_seeds_give_the_output_of_the_model() -> None:
    simulations = [run_pipelined_seed(seed) for seed in range(40)]
    assert {simulation.shape for simulation in simulations} == set(Shape)
    assert sum(simulation.rescaled for simulation in simulations) > 5
    assert sum(simulation.mode_changes for simulation in simulations) > 5
    assert max(simulation.lives for simulation in simulations) > 2
    # Channels hold no more buffers than they have credits: two where memory is short.
    assert max(simulation.most_waiting for simulation in simulations) > 2


def test_at_least_once_loses_nothing_and_counts_some_records_twice() -> None:
    simulations = [run_pipelined_seed(seed, exactly_once=False) for seed in range(100, 130)]
    assert any(simulation.counted_twice for simulation in simulations)


def test_unaligned_checkpoints_give_the_output_of_the_model() -> None:
    simulations = [run_pipelined_seed(seed, unaligned=True) for seed in range(200, 224)]
    saved = sum((simulation.saved for simulation in simulations), Counter[QueueEnd]())
    assert min(saved[place] for place in QueueEnd) > 50
    assert max(simulation.lives for simulation in simulations) > 2


@pytest.mark.long
@pytest.mark.parametrize("start", range(10_000, 13_000, 500))
def test_thousands_of_seeds_with_unaligned_checkpoints_give_the_output_of_the_model(start: int) -> None:
    for seed in range(start, start + 500):
        run_pipelined_seed(seed, unaligned=True)


@pytest.mark.long
def test_a_thousand_seeds_give_the_output_of_the_model() -> None:
    for seed in range(1000, 2000):
        run_pipelined_seed(seed)
