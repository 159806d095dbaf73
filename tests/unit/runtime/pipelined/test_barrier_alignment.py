"""What a task does about a barrier depends on the barriers that have come, and on nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import EpochId
from flott.errors import WorkerLostError
from flott.runtime.pipelined.barrier_alignment import BarrierAlignment, Reaction, on_barrier


@given(st.permutations(["a", "b", "c", "d"]), st.booleans())
def test_the_snapshot_is_taken_with_the_last_barrier_and_inputs_are_held_back_until_then(
    order: list[str], exactly_once: bool
) -> None:
    alignment = BarrierAlignment(frozenset(order), exactly_once)
    for checkpoint in (EpochId(7), EpochId(8)):
        for position, source in enumerate(order, start=1):
            alignment, reaction = on_barrier(alignment, source, checkpoint)
            if position == len(order):
                assert reaction is Reaction.TAKE_SNAPSHOT
                assert alignment.held_back == alignment.awaited == frozenset()
            else:
                assert reaction is (Reaction.HOLD_BACK if exactly_once else Reaction.CONTINUE)
                assert alignment.held_back == (frozenset(order[:position]) if exactly_once else frozenset())
                assert alignment.awaited == frozenset(order[position:])


def test_a_task_with_one_input_takes_its_snapshot_at_once() -> None:
    _, reaction = on_barrier(BarrierAlignment(frozenset({"only"})), "only", EpochId(1))
    assert reaction is Reaction.TAKE_SNAPSHOT


@pytest.mark.parametrize(("source", "checkpoint"), [("a", 1), ("b", 2)], ids=["twice", "another checkpoint"])
def test_a_barrier_out_of_order_is_refused(source: str, checkpoint: int) -> None:
    alignment, _ = on_barrier(BarrierAlignment(frozenset({"a", "b"})), "a", EpochId(1))
    with pytest.raises(WorkerLostError, match="lost its order"):
        on_barrier(alignment, source, EpochId(checkpoint))
