"""The collector of a slot: it is switched off, and garbage does not pile up all the same."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.pipelined.garbage import (
    FEWEST_COLLECTIONS,
    LOOK_EVERY,
    MOST_COLLECTIONS,
    NEW_OBJECTS,
    collections_before_next,
    garbage_collection,
)


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Which generations were collected meanwhile."""
    gc.collect()
    seen: list[int] = []

    def note(phase: str, details: dict[str, int]) -> None:
        if phase == "start":
            seen.append(details["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_the_collector_is_off_meanwhile_and_as_before_afterwards() -> None:
    with garbage_collection():
        assert not gc.isenabled()
        with pytest.raises(ValueError, match="in the middle"), garbage_collection():
            raise ValueError("in the middle")
        assert not gc.isenabled(), "it was off before"
    assert gc.isenabled()


def test_what_is_spared_is_collected_again_at_the_end() -> None:
    alive: weakref.WeakSet[Cycle] = weakref.WeakSet()
    gc.collect()
    frozen_before = gc.get_freeze_count()
    with garbage_collection() as garbage:
        alive.add(Cycle())
        garbage.spare_present()
        gc.collect()
        assert len(alive) == 1
    assert gc.get_freeze_count() == frozen_before == 0
    gc.collect()
    assert len(alive) == 0


def test_records_that_come_and_go_need_no_collection(collections: list[int]) -> None:
    with garbage_collection() as garbage:
        for _ in range(50 * LOOK_EVERY):
            records = [(number, [number]) for number in range(1000)]
            garbage.after_work()
        del records
        assert collections == []


def test_cycles_are_collected_when_there_are_many(collections: list[int]) -> None:
    alive: weakref.WeakSet[Cycle] = weakref.WeakSet()
    most = 0
    with garbage_collection() as garbage:
        for _ in range(40 * LOOK_EVERY):
            for _ in range(200):
                alive.add(Cycle())
            most = max(most, len(alive))
            garbage.after_work()
    assert most < 2 * NEW_OBJECTS
    assert len(alive) < 40 * LOOK_EVERY * 200 - NEW_OBJECTS
    assert collections
    assert set(collections) <= {1, 2}


def test_a_growing_state_is_examined_as_a_whole_less_and_less_often(collections: list[int]) -> None:
    state = []
    with garbage_collection() as garbage:
        for _ in range(30):
            state.append([[number] for number in range(NEW_OBJECTS * 5 // 4)])  # others may release some meanwhile
            for _ in range(LOOK_EVERY):
                garbage.after_work()
        if sys.version_info < (3, 14):  # from then on the collector is incremental
            assert collections == [1] * 7 + [2] + [1] * 15 + [2] + [1] * 6
        assert len(collections) == 30


@given(st.integers(FEWEST_COLLECTIONS, MOST_COLLECTIONS), st.integers(0, 10**8))
def test_old_objects_are_examined_soon_again_only_if_there_was_garbage_among_them(before: int, found: int) -> None:
    wanted = collections_before_next(before, found)
    assert FEWEST_COLLECTIONS <= wanted <= MOST_COLLECTIONS
    if found >= before * NEW_OBJECTS:
        assert wanted == FEWEST_COLLECTIONS
    if not found:
        assert wanted == min(MOST_COLLECTIONS, 2 * before)
