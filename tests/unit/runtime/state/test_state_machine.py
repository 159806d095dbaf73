"""Keyed state through anything that may happen to it, in any order, on both backends: always what plain dicts hold."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from flott.errors import StorageError
from flott.runtime.state.keyed_state import KeyedState
from tests.unit.runtime.state.state_cluster import (
    GROUPS,
    KEYS,
    PANES,
    PER_KEY,
    Kept,
    MakeState,
    PlainModel,
    StateCluster,
    chain_for,
    group_of,
)

keys = st.sampled_from(KEYS)
small = st.integers(0, 5)
parallelisms = st.integers(1, 4)
#: Which process of which host runs each subtask next.
turns = st.lists(st.integers(0, 3), min_size=4, max_size=4)


def in_memory(groups: range, folder: Path) -> KeyedState:
    return KeyedState("machine (uid m)", GROUPS, groups)


def in_rocksdb(groups: range, folder: Path) -> KeyedState:
    from flott.runtime.state.rocksdb.keyed_state import RocksKeyedState
    from flott.runtime.state.rocksdb.store import Budget

    class NoRoom(Budget):
        objects = 0  # type: ignore[assignment]

    return RocksKeyedState("machine (uid m)", GROUPS, groups, folder, NoRoom(1 << 20))


class StateLife(RuleBasedStateMachine):
    """``completed`` is the model of the last checkpoint, ``running`` that of the epoch at hand."""

    backends: tuple[MakeState, ...] = (in_memory,)
    kept = Bundle("kept")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.cluster = StateCluster(Path(self.folder.name), self.backends[0])
        self.completed = PlainModel()
        self.running = PlainModel()
        self.clock = 0
        self.record = 0

    def teardown(self) -> None:
        self.cluster.close()
        self.folder.cleanup()

    @initialize(parallelism=parallelisms, turns=turns)
    def start(self, parallelism: int, turns: list[int]) -> None:
        self.cluster.deploy(parallelism, lambda groups: ())
        self._begin(turns)

    def _begin(self, turns: list[int]) -> None:
        self.running = copy.deepcopy(self.completed)
        self.running.now = self.clock
        self.cluster.begin(iter(turns), self.clock)

    # --- a program ---------------------------------------------------------------------------------------------------

    @rule(operation=st.sampled_from(PER_KEY), key=keys, n=small)
    def do(self, operation: str, key: Any, n: int) -> None:
        self.cluster.owner_of(key).at_work.do(operation, key, n)
        self.running.do(operation, key, n)

    @rule(steps=st.lists(st.tuples(st.sampled_from(PER_KEY), keys, small), min_size=3, max_size=12))
    def do_much(self, steps: list[tuple[str, Any, int]]) -> None:
        for step in steps:
            self.do(*step)

    @rule(subtask=small, until=small)
    def fire(self, subtask: int, until: int) -> None:
        seat = self.cluster.subtasks[subtask % len(self.cluster.subtasks)]
        assert seat.at_work.timers.pop_due(until) == self.running.fire(until, seat.groups)

    @rule(pane=st.sampled_from(PANES))
    def end_pane(self, pane: tuple[int, int]) -> None:
        """A window ends, for all keys at once."""
        dropped: dict[Any, int] = {}
        collected: dict[Any, list[int]] = {}
        for subtask in self.cluster.subtasks:
            dropped |= subtask.at_work.panes.drop(pane)
            collected |= subtask.at_work.elements.drop(pane)
        assert dropped == self.running.panes.pop(pane, {})
        assert collected == self.running.elements.pop(pane, {})

    @rule(key=keys, after=small)
    def wait_for_a_match(self, key: Any, after: int) -> None:
        self.record += 1
        at = self.running.horizon + after
        self.cluster.owner_of(key).at_work.waiting.add([key], [at], [self.record])
        self.running.waiting.append((key, at, self.record))

    @rule(by=small)
    def forget_old_records(self, by: int) -> None:
        self.running.trim(self.running.horizon + by)
        for subtask in self.cluster.subtasks:
            subtask.at_work.waiting.trim(self.running.horizon)

    @rule(ms=st.sampled_from([1, 40, 60, 100, 1000]))
    def time_passes(self, ms: int) -> None:
        """Seen from the next epoch on: within one, time stands still."""
        self.clock += ms

    @rule(wanted=st.lists(keys, max_size=4))
    def memory_is_short(self, wanted: list[Any]) -> None:
        for subtask in self.cluster.subtasks:
            subtask.at_work.state.make_room()
            subtask.at_work.state.prefetch([key for key in wanted if group_of(key) in subtask.groups])

    # --- epochs ------------------------------------------------------------------------------------------------------

    @rule(turns=turns)
    def complete_the_epoch(self, turns: list[int]) -> None:
        self.cluster.settle(self.cluster.save())
        self.completed = self.running
        self._begin(turns)

    @rule(turns=turns)
    def fail_before_anything_is_saved(self, turns: list[int]) -> None:
        self.cluster.settle()
        self._begin(turns)

    @rule(turns=turns, saved=small)
    def fail_after_some_have_saved(self, turns: list[int], saved: int) -> None:
        for subtask in self.cluster.subtasks[: saved + 1]:
            self.cluster.save_one(subtask)
        self.cluster.settle()
        self._begin(turns)

    @rule(turns=turns)
    def fail_because_the_disk_is_full(self, turns: list[int]) -> None:
        self.cluster.storage.broken = True
        try:
            chains = self.cluster.save()
        except StorageError:
            chains = None
        self.cluster.storage.broken = False
        self.cluster.settle(chains)
        if chains is not None:  # nothing had changed, so there was nothing to write
            self.completed = self.running
        self._begin(turns)

    @rule(turns=turns, subtask=small)
    def lose_the_process_at_work(self, turns: list[int], subtask: int) -> None:
        seat = self.cluster.subtasks[subtask % len(self.cluster.subtasks)]
        for host in seat.hosts:
            if seat.at_work in host.processes:
                host.restart(host.processes.index(seat.at_work))
        self.cluster.settle()
        self._begin(turns)

    # --- files -------------------------------------------------------------------------------------------------------

    @rule(subtask=small, start=st.integers(0, 8), length=st.integers(1, 9))
    def compact(self, subtask: int, start: int, length: int) -> None:
        """Beside the epoch at hand: it ends with the former chain, and then the folded file takes its run's place."""
        seat = self.cluster.subtasks[subtask % len(self.cluster.subtasks)]
        if seat.chain:
            start %= len(seat.chain)
            run = seat.chain[start : start + length]
            seat.folded.append((run, self.cluster.fold(seat, run, start == 0, self.completed.now)))

    @rule(target=kept, self_contained=st.booleans())
    def keep(self, self_contained: bool) -> Kept:
        """A checkpoint, or a savepoint in one file for each subtask; taken beside the epoch at hand."""
        return self.cluster.keep(copy.deepcopy(self.completed), self_contained)

    # --- other subtasks, other backends ------------------------------------------------------------------------------

    @rule(kept=kept, parallelism=parallelisms, turns=turns, backend=small, widen=st.booleans())
    def start_again(self, kept: Kept, parallelism: int, turns: list[int], backend: int, widen: bool) -> None:
        """From a checkpoint or savepoint, as another version of the program might: with wider types."""
        self.cluster.make = self.backends[backend % len(self.backends)]
        self.cluster.widened = kept.widened or widen
        self.completed = copy.deepcopy(kept.model)
        self.cluster.deploy(parallelism, lambda groups: chain_for(kept, groups))
        self._begin(turns)

    @rule(parallelism=parallelisms, turns=turns)
    def rescale(self, parallelism: int, turns: list[int]) -> None:
        self.cluster.settle(self.cluster.save())
        self.completed = self.running
        kept = self.cluster.keep(self.completed, self_contained=False)
        self.cluster.deploy(parallelism, lambda groups: chain_for(kept, groups))
        self._begin(turns)

    # --- always ------------------------------------------------------------------------------------------------------

    @invariant()
    @precondition(lambda self: self.cluster.subtasks)
    def every_key_is_seen_as_the_model_sees_it(self) -> None:
        for key in KEYS:
            assert self.cluster.owner_of(key).at_work.view(key) == self.running.view(key), key
        held = [key for subtask in self.cluster.subtasks for key in subtask.at_work.held_keys()]
        assert sorted(held, key=repr) == sorted(self.running.held_keys(), key=repr)
        timers = [timer for subtask in self.cluster.subtasks for timer in subtask.at_work.timers.all_timers()]
        assert sorted(timers, key=repr) == sorted(((at, key, None) for at, key in self.running.timers), key=repr)


class InMemory(StateLife):
    backends = (in_memory,)


class InRocksDB(StateLife):
    backends = (in_rocksdb,)


class FromOneToTheOther(StateLife):
    backends = (in_memory, in_rocksdb)


def limits(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


TestInMemory = InMemory.TestCase
TestInMemory.settings = limits(120, 40)

rocksdb = pytest.mark.skipif(not __import__("importlib.util").util.find_spec("rocksdict"), reason="needs rocksdict")
TestInRocksDB = rocksdb(InRocksDB.TestCase)
TestInRocksDB.settings = limits(30, 30)
TestFromOneToTheOther = rocksdb(FromOneToTheOther.TestCase)
TestFromOneToTheOther.settings = limits(20, 30)
