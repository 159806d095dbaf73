"""Pipelined jobs give the output of the model, in whichever order their tasks work and whenever they crash."""

from __future__ import annotations

import pytest

from tests.simulation.pipelined import run_pipelined_seed


def test_seeds_give_the_output_of_the_model() -> None:
    simulations = [run_pipelined_seed(seed) for seed in range(40)]
    assert max(simulation.lives for simulation in simulations) > 2
    # Channels hold no more buffers than they have credits: two where memory is short.
    assert max(simulation.most_waiting for simulation in simulations) > 2


def test_at_least_once_loses_nothing_and_counts_some_records_twice() -> None:
    simulations = [run_pipelined_seed(seed, exactly_once=False) for seed in range(100, 140)]
    assert any(simulation.counted_twice for simulation in simulations)


@pytest.mark.long
def test_a_thousand_seeds_give_the_output_of_the_model() -> None:
    for seed in range(1000, 2000):
        run_pipelined_seed(seed)
