"""Keyed state through anything that may happen to it, in any order, on both backends: always what plain dicts hold."""

from __future__ import annotations

import copy
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from flott.errors import StorageError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.file_sequence import FileSequence
from tests.unit.runtime.managed_state.state_cluster import (
    GROUPS,
    KEYS,
    PANES,
    PER_KEY,
    Kept,
    MakeState,
    PlainModel,
    StateCluster,
    group_of,
    sequence_for,
)

small = st.integers(0, 5)
parallelisms = st.integers(1, 4)
#: Which process of which host runs each subtask next.
turns = st.lists(st.integers(0, 3), min_size=4, max_size=4)

#: What a program does for all keys at once, besides what it does for one.
FOR_ALL = ["fire", "fire", "end pane", "wait", "wait", "forget", "make room"]
steps = st.lists(
    st.tuples(st.sampled_from([*PER_KEY, *FOR_ALL]), st.sampled_from(KEYS), small), min_size=1, max_size=12
)

COMPLETE, LOST, SAVED_IN_PART, FULL_DISK, KILLED = "complete", "lost", "saved in part", "full disk", "process killed"
outcomes = st.sampled_from([COMPLETE, COMPLETE, COMPLETE, COMPLETE, LOST, SAVED_IN_PART, FULL_DISK, KILLED])


def in_memory(groups: range, folder: Path) -> KeyedState:
    return KeyedState("machine (uid m)", GROUPS, groups)


def in_rocksdb(groups: range, folder: Path) -> KeyedState:
    from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
    from flott.runtime.managed_state.backends.rocksdb.store import Budget

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

    # --- epochs ------------------------------------------------------------------------------------------------------

    @rule(steps=steps, passed_ms=st.sampled_from([0, 1, 40, 60, 100, 1000]), outcome=outcomes, n=small, turns=turns)
    def epoch(self, steps: list[Any], passed_ms: int, outcome: str, n: int, turns: list[int]) -> None:
        """A program does something; then the epoch ends, one way or another, and the next begins."""
        for operation, key, argument in steps:
            self._do(operation, key, argument)
        self._check()
        self._end(outcome, n)
        self.clock += passed_ms  # within an epoch time stands still
        self._begin(turns)

    def _do(self, operation: str, key: Any, n: int) -> None:
        cluster, running = self.cluster, self.running
        owner = cluster.owner_of(key)
        match operation:
            case "fire":
                assert owner.at_work.timers.pop_due(n) == running.fire(n, owner.groups)
            case "end pane":
                self._end_pane(PANES[n % 3])
            case "wait":
                self.record += 1
                owner.at_work.waiting.add([key], [running.horizon + n], [self.record])
                running.waiting.append((key, running.horizon + n, self.record))
            case "forget":
                running.trim(running.horizon + n)
                for subtask in cluster.subtasks:
                    subtask.at_work.waiting.trim(running.horizon)
            case "make room":
                owner.at_work.state.make_room()
                owner.at_work.state.prefetch([wanted for wanted in KEYS[:n] if group_of(wanted) in owner.groups])
            case _:
                owner.at_work.do(operation, key, n)
                running.do(operation, key, n)

    def _end_pane(self, pane: tuple[int, int]) -> None:
        """A window ends, for all keys at once."""
        dropped: dict[Any, int] = {}
        collected: dict[Any, list[int]] = {}
        for subtask in self.cluster.subtasks:
            dropped |= subtask.at_work.panes.drop(pane)
            collected |= subtask.at_work.elements.drop(pane)
        assert dropped == self.running.panes.pop(pane, {})
        assert collected == self.running.elements.pop(pane, {})

    def _end(self, outcome: str, n: int) -> None:
        cluster = self.cluster
        sequences: list[FileSequence] | None = None
        match outcome:
            case "complete":
                sequences = cluster.save()
            case "saved in part":
                for subtask in cluster.subtasks[: n + 1]:
                    cluster.save_one(subtask)
            case "full disk":
                cluster.storage.broken = True
                with suppress(StorageError):
                    sequences = cluster.save()  # of an epoch without changes there is nothing to write
                cluster.storage.broken = False
            case "process killed":
                cluster.subtasks[n % len(cluster.subtasks)].lose_process()
        cluster.settle(sequences)
        if sequences is not None:
            self.completed = self.running

    # --- files -------------------------------------------------------------------------------------------------------

    @rule(subtask=small, start=st.integers(0, 8), length=st.integers(1, 9))
    def compact(self, subtask: int, start: int, length: int) -> None:
        """Beside the epoch at hand, which ends with the former sequence; then the compacted file replaces its run."""
        seat = self.cluster.subtasks[subtask % len(self.cluster.subtasks)]
        if seat.sequence:
            start %= len(seat.sequence)
            run = seat.sequence[start : start + length]
            seat.compacted.append((run, self.cluster.compact(seat, run, start == 0, self.completed.now)))

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
        self.cluster.deploy(parallelism, lambda groups: sequence_for(kept, groups))
        self._begin(turns)

    @rule(parallelism=parallelisms, turns=turns)
    def rescale(self, parallelism: int, turns: list[int]) -> None:
        self._end(COMPLETE, 0)
        kept = self.cluster.keep(self.completed, self_contained=False)
        self.cluster.deploy(parallelism, lambda groups: sequence_for(kept, groups))
        self._begin(turns)

    # --- always ------------------------------------------------------------------------------------------------------

    def _begin(self, turns: list[int]) -> None:
        self.running = copy.deepcopy(self.completed)
        self.running.now = self.clock
        self.cluster.begin(iter(turns), self.clock)
        self._check()

    def _check(self) -> None:
        """Assert that every key is seen as the model sees it, by its owner and by nobody else."""
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
        suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
    )


TestInMemory = InMemory.TestCase
TestInMemory.settings = limits(80, 25)

rocksdb = pytest.mark.skipif(not __import__("importlib.util").util.find_spec("rocksdict"), reason="needs rocksdict")
TestInRocksDB = rocksdb(InRocksDB.TestCase)
TestInRocksDB.settings = limits(15, 20)
TestFromOneToTheOther = rocksdb(FromOneToTheOther.TestCase)
TestFromOneToTheOther.settings = limits(15, 20)
