"""What a task does about a barrier depends on the barriers that have come, and on nothing else."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import EpochId
from flott.errors import WorkerLostError
from flott.runtime.pipelined.barrier_alignment import (
    BarrierAlignment,
    Reaction,
    on_come,
    on_given_up,
    on_reached,
    on_taken,
    on_unaligned,
)


@given(st.permutations(["a", "b", "c", "d"]), st.booleans())
def test_the_snapshot_is_taken_with_the_last_barrier_and_inputs_are_held_back_until_then(
    order: list[str], exactly_once: bool
) -> None:
    alignment = BarrierAlignment(frozenset(order), exactly_once, overtakable=frozenset(order))
    for checkpoint in (EpochId(7), EpochId(8)):
        for position, source in enumerate(order, start=1):
            alignment, reaction = on_reached(on_come(alignment, source, checkpoint), source, checkpoint)
            if position == len(order):
                assert reaction is Reaction.TAKE_SNAPSHOT
                alignment = on_taken(alignment, checkpoint)
                assert alignment.held_back == alignment.awaited == frozenset()
            else:
                assert reaction is (Reaction.HOLD_BACK if exactly_once else Reaction.CONTINUE)
                assert alignment.held_back == (frozenset(order[:position]) if exactly_once else frozenset())
                assert alignment.awaited == frozenset(order[position:])


def test_a_task_with_one_input_takes_its_snapshot_at_once() -> None:
    alignment = on_come(BarrierAlignment(frozenset({"only"})), "only", EpochId(1))
    assert not alignment.is_due  # it has come, but records may stand before it
    assert on_reached(alignment, "only", EpochId(1))[1] is Reaction.TAKE_SNAPSHOT


def test_a_barrier_that_comes_twice_is_refused() -> None:
    alignment = on_come(BarrierAlignment(frozenset({"a", "b"})), "a", EpochId(1))
    with pytest.raises(WorkerLostError, match="lost its order"):
        on_come(alignment, "a", EpochId(1))


def test_a_barrier_of_the_checkpoint_that_was_taken_is_refused_and_an_older_one_passed_over() -> None:
    alignment = on_taken(BarrierAlignment(frozenset({"a"})), EpochId(2))
    with pytest.raises(WorkerLostError, match="after one of checkpoint 2: a channel has lost its order"):
        on_come(alignment, "a", EpochId(2))
    assert on_come(alignment, "a", EpochId(1)) == alignment
    assert on_reached(alignment, "a", EpochId(1)) == (alignment, Reaction.CONTINUE)


def test_a_newer_barrier_ends_an_older_alignment() -> None:
    alignment, _ = on_reached(on_come(BarrierAlignment(frozenset({"a", "b"})), "a", EpochId(1)), "a", EpochId(1))
    alignment, reaction = on_reached(on_come(alignment, "b", EpochId(2)), "b", EpochId(2))
    assert (reaction, alignment.held_back) == (Reaction.HOLD_BACK, {"b"})
    alignment, reaction = on_reached(on_come(alignment, "a", EpochId(2)), "a", EpochId(2))
    assert reaction is Reaction.TAKE_SNAPSHOT


INPUTS = ("aligned 1", "aligned 2", "free 1", "free 2", "free 3")
FREE = frozenset(INPUTS[2:])


@given(st.permutations([(kind, each) for kind in ("comes", "is reached") for each in INPUTS]), st.integers(0, 10))
def test_an_unaligned_snapshot_waits_for_one_barrier_and_for_the_inputs_that_are_always_aligned(
    events: list[tuple[str, str]], unaligned_after: int
) -> None:
    alignment, come, reached = BarrierAlignment(frozenset(INPUTS), overtakable=FREE), set(), set()
    for position, (kind, source) in enumerate(events):
        if position == unaligned_after:
            alignment = on_unaligned(alignment, EpochId(1))
        if kind == "comes" and source not in come:
            come.add(source)
            alignment = on_come(alignment, source, EpochId(1))
        elif kind == "is reached" and source in come:
            reached.add(source)
            alignment, _ = on_reached(alignment, source, EpochId(1))
        is_unaligned = position >= unaligned_after
        is_due = bool(come) and (reached >= set(INPUTS) - FREE if is_unaligned else reached >= set(INPUTS))
        assert alignment.is_due == is_due
        assert alignment.held_back == reached


def test_a_barrier_that_overtakes_makes_the_checkpoint_unaligned_and_no_other() -> None:
    both = frozenset({"a", "b"})
    alignment = on_come(BarrierAlignment(both, overtakable=both), "b", EpochId(3), unaligned=True)
    assert alignment.is_due
    assert not on_come(on_taken(alignment, EpochId(3)), "a", EpochId(4)).is_due


def test_at_least_once_there_are_no_unaligned_checkpoints() -> None:
    alignment = BarrierAlignment(frozenset({"a", "b"}), exactly_once=False, overtakable=frozenset({"a", "b"}))
    assert not on_come(alignment, "a", EpochId(1), unaligned=True).is_due


@dataclass
class Task:
    """A task with its channels, in which barriers wait."""

    alignment: BarrierAlignment
    channels: dict[str, deque[EpochId]]
    brought: dict[EpochId, set[str]] = field(default_factory=dict)
    taken: list[EpochId] = field(default_factory=list)
    given_up: set[EpochId] = field(default_factory=set)

    def readable(self) -> list[str]:
        return sorted(name for name, queue in self.channels.items() if queue and name not in self.alignment.held_back)

    def read(self, name: str) -> None:
        checkpoint = self.channels[name].popleft()
        self.brought.setdefault(checkpoint, set()).add(name)
        self.alignment, reaction = on_reached(self.alignment, name, checkpoint)
        if reaction is Reaction.TAKE_SNAPSHOT:
            assert self.brought[checkpoint] == self.channels.keys()
            assert checkpoint not in self.given_up
            self.alignment = on_taken(self.alignment, checkpoint)
            assert self.alignment.held_back == frozenset()
            self.taken.append(checkpoint)

    def bring(self, name: str, checkpoint: EpochId) -> None:
        self.channels[name].append(checkpoint)
        self.alignment = on_come(self.alignment, name, checkpoint)


@given(st.data(), st.integers(1, 4), st.booleans())
def test_checkpoints_that_are_given_up_at_any_moment_block_nothing(
    data: st.DataObject, inputs: int, exactly_once: bool
) -> None:
    """The driver injects a checkpoint when the last one was taken or given up. Some inputs never bring one that was
    given up, because its barrier had not come to their source; the task hears of it at any time, or never."""
    names = [f"input {n}" for n in range(inputs)]
    task = Task(BarrierAlignment(frozenset(names), exactly_once), {name: deque() for name in names})
    for number in range(1, data.draw(st.integers(2, 6))):
        checkpoint = EpochId(number)
        is_given_up = data.draw(st.booleans())
        reached = names if not is_given_up else data.draw(st.lists(st.sampled_from(names), unique=True))
        for name in reached:
            task.bring(name, checkpoint)
        if is_given_up:
            for _ in range(data.draw(st.integers(0, inputs))):
                if found := task.readable():
                    task.read(data.draw(st.sampled_from(found)))
            if data.draw(st.booleans()):
                task.alignment = on_given_up(task.alignment, checkpoint)
                task.given_up.add(checkpoint)
                assert task.alignment.held_back == frozenset()
        else:
            while found := task.readable():
                task.read(data.draw(st.sampled_from(found)))
            assert task.taken[-1] == checkpoint  # whatever became of those before
            assert not any(task.channels.values())
    assert task.taken == sorted(task.taken)
